package cli

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"stoa/internal/base/client"
	"stoa/internal/base/contract"
	"stoa/internal/base/jsonx"
	"stoa/internal/base/stoa"
)

// An endedError reports an awaited session that failed or was cancelled; the exit code
// is 5.
type endedError struct{ error }

func (x endedError) Unwrap() error { return x.error }

var viewSessions = view{"Session", []column{
	{"Id", "id", ident},
	{"Status", "status", state},
	{"Title", "title", objectTitle},
	{"Agent", "agentId", label},
	{"Reply", "reply", flexible},
	{"Why", "error.code", plain},
	{"Credits", "usage.creditsMicro", credits},
	{"Changed", "updatedAt", when},
}}

var viewSession = view{"Session", []column{
	{"Id", "id", ident},
	{"Agent", "agentId", ident},
	{"Agent version", "agentVersion", count},
	{"Title", "title", plain},
	{"Mode", "mode", plain},
	{"Status", "status", state},
	{"Reason", "statusReason", plain},
	{"Error", "error.message", plain},
	{"Question", "pendingInput.prompt", plain},
	{"Choices", "pendingInput.options", plain},
	{"Reply", "reply", plain},
	{"Turn", "turn.number", count},
	{"Messages queued", "queuedMessages", count},
	{"Tools withheld", "toolsWithheld.tool", plain},
	{"Skills withheld", "skillsWithheld", plain},
	{"Model", "model.served", plain},
	{"Steps", "usage.steps", count},
	{"Tokens", "usage.totalTokens", count},
	{"Credits", "usage.creditsMicro", credits},
	{"Started by", "trigger.type", plain},
	{"End user", "externalUserId", ident},
	{"External id", "externalId", ident},
	{"Credentials", "credentials", plain},
	{"Metadata", "metadata", plain},
	{"Created", "createdAt", when},
	{"Finished", "finishedAt", when},
}}

var viewParts = view{"RequestPart", []column{
	{"Part", "kind", plain},
	{"Turn", "turn", count},
	{"Role", "role", plain},
	{"Type", "type", plain},
	{"Name", "name", plain},
	{"Tokens", "tokens", count},
	{"Cached", "cachedTokens", count},
	{"Text", "text", flexible},
}}

var viewMessages = view{"Message", []column{
	{"Turn", "turn", count},
	{"Who", "role", plain},
	{"Kind", "kind", plain},
	{"Status", "status", state},
	{"Text", "text", flexible},
}}

type session struct {
	ID           string                   `json:"id"`
	Status       stoa.SessionStatus       `json:"status"`
	Reply        *string                  `json:"reply"`
	LastEventSeq int64                    `json:"lastEventSeq"`
	PendingInput *contract.PendingInput   `json:"pendingInput"`
	Error        *contract.SessionFailure `json:"error"`
}

// readSession decodes the reply of a request; err is the request's error.
func readSession(raw jsonx.Value, err error) (s session, _ error) {
	if err != nil {
		return s, err
	}
	if err := jsonx.Unmarshal(raw, &s); err != nil {
		return s, fmt.Errorf("the reply does not match the contract: %w", err)
	}
	return s, nil
}

func (s session) err() error {
	switch s.Status {
	case stoa.SessionFailed:
		why := "unknown reason"
		if s.Error != nil {
			why = strings.TrimRight(s.Error.Message, ".") + " (" + s.Error.Code + ")"
		}
		return endedError{fmt.Errorf("the session %s failed: %s", s.ID, why)}
	case stoa.SessionCancelled:
		return endedError{fmt.Errorf("the session %s was cancelled", s.ID)}
	}
	return nil
}

func (e *env) sessions() *cobra.Command {
	c := group("sessions", "Run conversations with agents", `Run conversations with agents. AGENT is an id, an external id, or a unique name. SESSION is an id;
it is enough where AGENT is optional.

A session stops as completed, waiting_for_input, failed or cancelled. Commands that wait for it exit with 0
for the first two and with 5 for the others.`)
	wait := command("wait [AGENT] SESSION", "Wait until a session stops",
		"Wait until a session stops, then print its reply or its question.",
		"  stoa sessions wait ses_01k9zqd3m8w5x7y2c4b6n8p0ra")
	e.rawFlag(wait)
	c.AddCommand(
		e.sessionsStart(), e.sessionsGet(),
		e.verb(verb{
			use: "list [AGENT]", short: "List sessions",
			long: "List the sessions of all agents, or of one, newest first.", example: "  stoa sessions list --status waiting_for_input\n  stoa sessions list support",
			op: "GET /sessions", rows: viewSessions, names: map[string]string{"agentId": "agentName"}, none: "There are no sessions.",
			fields: []field{
				{"AGENT", "agentId", asAgent, ""},
				{"status", "status", asText, "only sessions with this `status`: queued, running, waiting_for_input, completed, failed or cancelled"},
				{"feedback", "feedback", asText, "only sessions with an answer that has this `rating`: up or down"},
				{"trigger", "trigger", asText, "only sessions from this `origin`: api, schedule, embed, hook, responses or mcp"},
				{"user", "externalUserId", asText, "only sessions of this end `user`"},
				{"external-id", "externalId", asText, "only the session with this external `id`"},
				searchField("title or ids"),
				{"account", "accountId", asText, "for operators: sessions of the account with this `id`, without their texts; '*' for all accounts"},
				sortFields("`value`: created, updated or spent")[0],
				sortFields("")[1],
			},
		}),
		e.verb(verb{
			use: "delete AGENT SESSION...", short: "Delete sessions",
			long: "Delete sessions with their messages and events; a running turn is cancelled first. Receipts are kept.", example: "  stoa sessions delete support ses_01k9zqd3m8w5x7y2c4b6n8p0ra --yes",
			op: "DELETE /api-agents/{AGENT}/sessions/{SESSION}", ask: asks("Delete %s with its conversation?", "the session", "sessions"),
		}),
		e.onSession(wait, func(ctx context.Context, x sessionContext, _ []string) error { return x.wait(ctx) }),
		e.sessionsWatch(),
		e.onSession(command("messages [AGENT] SESSION", "List the messages of a session",
			"List the messages of a session, in order.",
			"  stoa sessions messages ses_01k9zqd3m8w5x7y2c4b6n8p0ra"), func(ctx context.Context, x sessionContext, _ []string) error {
			return x.o.list(viewMessages, x.call.All(ctx, x.path()+"/messages", nil, 0), 0, "There are no messages.")
		}),
		e.sessionsStep(), e.sessionsReply(),
		e.sessionAction("cancel", "Stop the agent", "Stop the agent, within five seconds. Text written so far is kept."),
		e.sessionAction("upgrade", "Move a chat to the agent's newest version", "Let later turns of a chat that has stopped use the newest version of the agent: its instructions, model and tools."),
		e.sessionAction("retry", "Retry the last turn", "Send the last message of a failed or cancelled session again, as a new turn."),
		e.sessionsExport(),
	)
	return c
}

type sessionContext struct {
	e         *env
	o         *output
	call      *client.Client
	named     string // the agent, as it was typed
	agent, id string
}

func (x sessionContext) path() string { return client.SessionPath(x.agent, x.id) }

// onSession completes c with do, which receives the session that the arguments begin with, after the name of its
// agent or alone, and the remaining arguments.
func (e *env) onSession(c *cobra.Command, do func(ctx context.Context, x sessionContext, args []string) error) *cobra.Command {
	o := e.output(c)
	return e.calling(c, o, func(ctx context.Context, call *client.Client, args []string) error {
		named, agent, args, err := ofSession(ctx, call, c.Use, args)
		if err != nil {
			return err
		}
		return do(ctx, sessionContext{e: e, o: o, call: call, named: named, agent: agent, id: args[0]}, args[1:])
	})
}

// ofSession returns the agent of the session that the arguments of a command begin with, as it was typed or by its
// id, then its id, and the arguments from the session's id on.
func ofSession(ctx context.Context, call *client.Client, use string, args []string) (named, agent string, rest []string, err error) {
	if alone := strings.HasPrefix(args[0], "ses_"); !alone {
		if needed := strings.Count(use, " "); len(args) < needed {
			return "", "", nil, usagef("%q is not the id of a session; the form is %q", args[0], "stoa sessions "+use)
		}
		agent, err = agentCollection.find(ctx, call, args[0])
		return args[0], agent, args[1:], err
	}
	var found struct {
		AgentID string `json:"agentId"`
	}
	_, err = call.JSON(ctx, http.MethodGet, "/sessions/"+url.PathEscape(args[0]), nil, nil, &found)
	return found.AgentID, found.AgentID, args, err
}

var viewStarted = viewSession.only("id", "status")

// followFlags adds --wait, --watch and --no-watch to c and returns a function that
// applies them: by default it watches on a terminal, and elsewhere prints the session
// and the next commands.
func (e *env) followFlags(c *cobra.Command) func(ctx context.Context, x sessionContext, raw jsonx.Value, after int64) error {
	e.rawFlag(c)
	wait := c.Flags().Bool("wait", false, "wait until it stops and print its reply")
	watch := c.Flags().Bool("watch", false, "print events until it stops; the default on a terminal")
	detach := c.Flags().Bool("no-watch", false, "print its id and status without waiting, even on a terminal; also --detach")
	c.Flags().BoolVar(detach, "detach", false, "")
	_ = c.Flags().MarkHidden("detach") // ignored, because it exists
	return func(ctx context.Context, x sessionContext, raw jsonx.Value, after int64) error {
		switch {
		case *detach && (*watch || *wait):
			return usagef("--no-watch cannot be combined with --watch and --wait")
		case *wait:
			return x.wait(ctx)
		case *watch, isTerminal(x.e.out) && !*detach && !x.o.raw():
			return x.watch(ctx, after, false)
		case x.o.raw():
			return x.o.object(viewSession, raw)
		}
		err := x.o.object(viewStarted, raw)
		if err == nil {
			x.e.next("Watch it with:", fmt.Sprintf("stoa sessions watch %s %s", shellWord(x.named), x.id))
		}
		return err
	}
}

// answer asks the user at the terminal for the input that the session waits for, and sends it. It
// reports whether it was sent; otherwise it has printed how to answer later. whole requests the
// question, and not only its choices.
func (x sessionContext) answer(ctx context.Context, s session, whole bool) (sent bool, err error) {
	e, options := x.e, s.PendingInput.Options
	if s.PendingInput.Kind == stoa.InputToolApproval {
		return x.approve(ctx, s, whole)
	}
	if s.PendingInput.Kind == stoa.InputToolConfirmation {
		e.say("%s", s.PendingInput.Prompt)
		return false, nil
	}
	if s.PendingInput.Kind == stoa.InputToolCall {
		if whole {
			e.say("%s", s.PendingInput.Prompt)
		}
		e.next("It waits for a program:", fmt.Sprintf("stoa tools run --agent %s -- PROGRAM", shellWord(x.named)))
		return false, nil
	}
	if !isTerminal(e.in) || !isTerminal(e.err) || x.o.raw() {
		x.tellAnswer(options)
		return false, nil
	}
	if whole {
		e.say("%s", s.PendingInput.Prompt)
	}
	for i, option := range options {
		e.say("  %d  %s", i+1, oneLine(option))
	}
	mark := "Your answer (empty: later): "
	if len(options) > 0 {
		mark = "Your answer, or its number (empty: later): "
	}
	fmt.Fprint(e.err, e.style(e.err).bold(mark))
	line, err := bufio.NewReader(e.stdin).ReadString('\n')
	if errors.Is(err, context.Canceled) {
		fmt.Fprintln(e.err)
		return false, err
	}
	line = strings.TrimSpace(line)
	if line == "" {
		if err != nil { // because Ctrl-D leaves the cursor in the line
			fmt.Fprintln(e.err)
		}
		x.tellAnswer(options)
		return false, nil
	}
	if n, err := strconv.Atoi(line); err == nil && n >= 1 && n <= len(options) {
		line = options[n-1]
	}
	_, err = x.call.JSON(ctx, http.MethodPost, x.path()+"/messages", nil, map[string]any{"message": line}, nil)
	return err == nil, err
}

func (x sessionContext) tellAnswer(options []string) {
	x.e.next("It waits for an answer"+choices(options)+":", fmt.Sprintf("stoa sessions reply %s %s …", shellWord(x.named), x.id))
}

func credentialFlag(whose string) adder {
	return func(c *cobra.Command) setter {
		pairs := c.Flags().StringArray("credential", nil, "a `connection=secret` pair "+whose+", by id or name; repeatable")
		return func(body map[string]any) error {
			if c.Flags().Changed("credential") {
				body["credentials"] = lookup(func(ctx context.Context, call *client.Client) (any, error) { return credentials(ctx, call, *pairs) })
			}
			return nil
		}
	}
}

func credentials(ctx context.Context, call *client.Client, pairs []string) (any, error) {
	all := map[string]string{}
	for _, pair := range pairs {
		connection, secret, ok := strings.Cut(pair, "=")
		if pair == "" {
			continue // because empty removes the earlier ones
		}
		if !ok {
			return nil, usagef("--credential requires CONNECTION=SECRET, not %q", pair)
		}
		connection, err := connectionCollection.find(ctx, call, connection)
		if err != nil {
			return nil, err
		}
		if all[connection], err = secretCollection.find(ctx, call, secret); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func (e *env) sessionsStart() *cobra.Command {
	c := command("start AGENT MESSAGE...", "Start a session",
		`Start a session with a message to an agent. On a terminal, events are shown until the session stops, and questions of the
agent are asked. Elsewhere, and with --no-watch, its id and status are printed without waiting; --wait waits
for the reply and --watch shows the events. A MESSAGE of - is standard input.`,
		"  stoa sessions start support \"What about refunds?\" --wait\n  stoa sessions start support \"What does it cost?\" --attach offer.pdf --wait\n  SESSION=$(stoa sessions start support \"Tidy the drive\" --mode once --jq .id)")
	o := e.output(c)
	settings := e.flags(c,
		field{"mode", "mode", asText, "the `mode`: chat, or once for a session that never waits for input (default chat)"},
		field{"title", "title", asText, "the title"},
		field{"user", "externalUserId", asText, "`id` of your end user"},
		field{"external-id", "externalId", asText, "your own `id`, unique in the account"},
		field{"metadata", "metadata", asPairs, "a `name=value` pair of metadata; repeatable"},
		field{"max-credits", "limits.maxCreditsMicro", asCredits, "the maximum cost of a turn, in `credits` (default: the agent's)"},
		field{"timeout", "limits.timeoutSeconds", asSeconds, "the maximum `duration` of a turn, such as 90s (default: the agent's)"},
		field{"max-steps", "limits.maxSteps", asNumber, "the maximum `number` of model calls in a turn (default: the agent's)"},
		schemaField(),
	)
	attached := attachFlag(c)
	own, follow := credentialFlag("for the session")(c), e.followFlags(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		message, err := e.prompt(args[1:])
		if err != nil {
			return err
		}
		body := map[string]any{"message": message}
		if err := errors.Join(settings(body), own(body)); err != nil {
			return err
		}
		call, err := e.ready(o)
		if err != nil {
			return err
		}
		agent, err := agentCollection.find(c.Context(), call, args[0])
		if err != nil {
			return err
		}
		if err := look(c.Context(), call, body); err != nil {
			return err
		}
		if err := attached(c.Context(), call, agent, body); err != nil {
			return err
		}
		raw, err := call.JSON(c.Context(), http.MethodPost, "/api-agents/"+url.PathEscape(agent)+"/sessions", nil, body, nil)
		s, err := readSession(raw, err)
		if err != nil {
			return err
		}
		return follow(c.Context(), sessionContext{e: e, o: o, call: call, named: args[0], agent: agent, id: s.ID}, raw, 0)
	}
	return c
}

func (e *env) sessionsGet() *cobra.Command {
	c := command("get [AGENT] SESSION", "Show a session",
		"Show the current state of a session. Its id is enough; an AGENT before it must be the session's agent.",
		"  stoa sessions get ses_01k9zqd3m8w5x7y2c4b6n8p0ra\n  stoa sessions get support ses_01k9zqd3m8w5x7y2c4b6n8p0ra --jq .status")
	o := e.output(c)
	return e.calling(c, o, func(ctx context.Context, call *client.Client, args []string) error {
		path := "/sessions/" + url.PathEscape(args[0])
		if len(args) == 2 {
			agent, err := agentCollection.find(ctx, call, args[0])
			if err != nil {
				return err
			}
			path = client.SessionPath(agent, args[1])
		}
		raw, err := call.JSON(ctx, http.MethodGet, path, nil, nil, nil)
		if err != nil {
			return err
		}
		return o.object(viewSession, raw)
	})
}

func (e *env) sessionsStep() *cobra.Command {
	c := command("step STEP", "Show a model call",
		`Show the whole request of a model call by its parts, and the reply. STEP is the id of the session with the numbers of the turn and of the
model call in it; events and receipts have it. Tokens of parts are estimates that add up to those of the receipt. --json prints the
texts whole.`,
		"  stoa sessions step ses_01k9zqd3m8w5x7y2c4b6n8p0ra.1.1\n  stoa sessions step ses_01k9zqd3m8w5x7y2c4b6n8p0ra.2.1 --jq '.request.parts[] | select(.kind == \"files\").text'")
	o := e.output(c)
	return e.calling(c, o, func(ctx context.Context, call *client.Client, args []string) error {
		id, _, _ := strings.Cut(args[0], ".")
		_, agent, rest, err := ofSession(ctx, call, c.Use, []string{id})
		if err != nil {
			return err
		}
		var step contract.SessionStep
		raw, err := call.JSON(ctx, http.MethodGet, client.SessionPath(agent, rest[0])+"/steps/"+url.PathEscape(args[0]), nil, nil, &step)
		if err != nil {
			return err
		}
		if o.raw() {
			return o.printJSON(raw)
		}
		request, _ := step.Request.Get() // null for a call of a former release
		if note, err := request.Note.Get(); err == nil {
			e.say("%s", note)
		}
		if err := o.list(viewParts, func(yield func(jsonx.Value, error) bool) {
			for _, p := range request.Parts {
				if one, err := jsonx.Marshal(p); !yield(one, err) {
					return
				}
			}
		}, 0, "The request was not recorded, because a former release made the call."); err != nil {
			return err
		}
		for _, part := range step.Calls {
			e.say("Call: %s %s", part.Name, clean(part.Arguments))
		}
		if step.Text != "" {
			e.say("Reply: %s", clean(step.Text))
		}
		return nil
	})
}

func (x sessionContext) wait(ctx context.Context) error {
	p := x.e.progress()
	defer p.done()
	for {
		raw, err := x.call.JSON(ctx, http.MethodGet, x.path(), url.Values{"waitSeconds": {"30"}}, nil, nil)
		s, err := readSession(raw, err)
		if err != nil {
			return err
		}
		if !s.Status.Stopped() {
			p.show("%s · %s", s.ID, s.Status)
			continue
		}
		p.done()
		err = x.result(raw, s)
		if err != nil || s.Status != stoa.SessionWaiting || s.PendingInput == nil || x.o.raw() {
			return err
		}
		if sent, err := x.answer(ctx, s, false); err != nil || !sent {
			return err
		}
	}
}

func (x sessionContext) result(raw jsonx.Value, s session) error {
	if x.o.raw() {
		if err := x.o.printJSON(raw); err != nil {
			return err
		}
		return s.err()
	}
	w := x.e.newReplyPrinter()
	switch {
	case s.Status == stoa.SessionWaiting && s.PendingInput != nil:
		if err := w.write(s.PendingInput.Prompt); err != nil {
			return err
		}
	case s.Status == stoa.SessionCompleted && s.Reply != nil:
		if err := w.write(*s.Reply); err != nil {
			return err
		}
	}
	if err := w.end(); err != nil {
		return err
	}
	return s.err()
}

func choices(options []string) string {
	if len(options) == 0 {
		return ""
	}
	return " (" + strings.Join(options, ", ") + ")"
}

func (e *env) sessionsWatch() *cobra.Command {
	c := command("watch [AGENT] SESSION", "Print the events of a session",
		`Print the past and new events of a session until it stops: its steps, tools and text. A broken connection is
resumed where it ended. --json prints the events, one per line.`,
		"  stoa sessions watch ses_01k9zqd3m8w5x7y2c4b6n8p0ra\n  stoa sessions watch ses_01k9zqd3m8w5x7y2c4b6n8p0ra --after 12 --follow")
	after := c.Flags().Int64("after", 0, "start after the event with this `number`")
	e.rawFlag(c)
	follow := c.Flags().Bool("follow", false, "continue after it has stopped, for further events")
	return e.onSession(c, func(ctx context.Context, x sessionContext, _ []string) error { return x.watch(ctx, *after, *follow) })
}

func (x sessionContext) watch(ctx context.Context, after int64, follow bool) error {
	for {
		s, err := x.watchTurn(ctx, after, follow)
		if err != nil {
			return err
		}
		if s.Status != stoa.SessionWaiting || s.PendingInput == nil {
			return s.err()
		}
		cut := len(s.PendingInput.Prompt)+len(choices(s.PendingInput.Options)) > width(x.e.out)-3
		if sent, err := x.answer(ctx, s, cut); err != nil || !sent {
			return err
		}
		after = s.LastEventSeq
	}
}

func (x sessionContext) watchTurn(ctx context.Context, after int64, follow bool) (session, error) {
	t := &timeline{o: x.o, style: x.e.style(x.e.out), columns: width(x.e.out)}
	for ev, err := range x.call.Events(ctx, x.agent, x.id, after, follow) {
		if err != nil {
			return session{}, cmp.Or(t.endLine(), err)
		}
		if err := t.event(ev); err != nil {
			return session{}, err
		}
	}
	if err := t.endLine(); err != nil {
		return session{}, err
	}
	return readSession(x.call.JSON(ctx, http.MethodGet, x.path(), nil, nil, nil))
}

func (e *env) sessionsReply() *cobra.Command {
	c := command("reply [AGENT] SESSION MESSAGE...", "Send an answer or a message",
		`Send a message to a session. If the agent waits for an answer, the message is the answer. If the session has
stopped, the message starts a new turn. If the agent works, the message is queued, or rejected with --reject. A
MESSAGE of - is standard input. Events are shown as by "stoa sessions start".`,
		"  stoa sessions reply ses_01k9zqd3m8w5x7y2c4b6n8p0ra blue --wait")
	reject := c.Flags().Bool("reject", false, "fail instead of queueing while the agent works")
	attached, follow := attachFlag(c), e.followFlags(c)
	return e.onSession(c, func(ctx context.Context, x sessionContext, args []string) error {
		message, err := e.prompt(args)
		if err != nil {
			return err
		}
		before, err := readSession(x.call.JSON(ctx, http.MethodGet, x.path(), nil, nil, nil))
		if err != nil {
			return err
		}
		body := map[string]any{"message": message}
		if *reject {
			body["onBusy"] = "reject"
		}
		if err := attached(ctx, x.call, x.agent, body); err != nil {
			return err
		}
		raw, err := x.call.JSON(ctx, http.MethodPost, x.path()+"/messages", nil, body, nil)
		if err != nil {
			return err
		}
		return follow(ctx, x, raw, before.LastEventSeq)
	})
}

// attachFlag adds the flag for the files of a message. Its result uploads them and adds them to
// the body of the message.
func attachFlag(c *cobra.Command) func(ctx context.Context, call *client.Client, agent string, body map[string]any) error {
	files := c.Flags().StringArray("attach", nil, "a `file` that belongs to the message; repeatable")
	return func(ctx context.Context, call *client.Client, agent string, body map[string]any) error {
		var list []map[string]string
		for _, name := range *files {
			f, n, err := readFile(name)
			if err != nil {
				return err
			}
			f.Close()
			raw, _, err := call.Bytes(ctx, client.Request{
				Method: http.MethodPost, Path: "/api-agents/" + url.PathEscape(agent) + "/uploads", Query: url.Values{"name": {filepath.Base(name)}}, Size: n,
				Header: http.Header{"Content-Type": {"application/octet-stream"}},
				Open: func() (io.ReadCloser, error) {
					f, _, err := readFile(name)
					return f, err
				},
			})
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			var up contract.Upload
			if err := jsonx.Unmarshal(raw, &up); err != nil {
				return fmt.Errorf("the reply does not match the contract: %w", err)
			}
			list = append(list, map[string]string{"uploadId": up.ID})
		}
		if len(list) > 0 {
			body["attachments"] = list
		}
		return nil
	}
}

func (e *env) sessionAction(verb, short, long string) *cobra.Command {
	c := command(verb+" [AGENT] SESSION", short, long, "  stoa sessions "+verb+" ses_01k9zqd3m8w5x7y2c4b6n8p0ra")
	var follow func(context.Context, sessionContext, jsonx.Value, int64) error
	acknowledged := new(bool)
	if verb == "retry" {
		follow = e.followFlags(c)
		acknowledged = c.Flags().Bool("acknowledge-effects", false, "retry even if tools of the turn can have had effects")
	}
	return e.onSession(c, func(ctx context.Context, x sessionContext, _ []string) error {
		before, err := readSession(x.call.JSON(ctx, http.MethodGet, x.path(), nil, nil, nil))
		if err != nil {
			return err
		}
		var body any
		if *acknowledged {
			body = map[string]any{"acknowledgeEffects": true}
		}
		raw, err := x.call.JSON(ctx, http.MethodPost, x.path()+"/"+verb, nil, body, nil)
		if err != nil {
			return err
		}
		if follow != nil {
			return follow(ctx, x, raw, before.LastEventSeq)
		}
		return x.o.object(viewSession, raw)
	})
}

func (e *env) sessionsExport() *cobra.Command {
	c := command("export [AGENT] SESSION", "Print a session as a document",
		"Print a session as Markdown to read, or as JSON Lines for programs: messages, tool calls, sources and receipts.",
		"  stoa sessions export ses_01k9zqd3m8w5x7y2c4b6n8p0ra > session.md\n  stoa sessions export ses_01k9zqd3m8w5x7y2c4b6n8p0ra --format jsonl")
	format := c.Flags().String("format", "markdown", "the `format`: markdown or jsonl")
	return e.calling(c, nil, func(ctx context.Context, call *client.Client, args []string) error {
		_, agent, args, err := ofSession(ctx, call, c.Use, args)
		if err != nil {
			return err
		}
		return e.copyOut(ctx, call, client.SessionPath(agent, args[0])+"/export", url.Values{"format": {*format}})
	})
}
