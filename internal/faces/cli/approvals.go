package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"stoa/internal/base/client"
	"stoa/internal/base/contract"
	"stoa/internal/base/jsonx"
	"stoa/internal/base/stoa"
)

var viewApprovals = viewCall.only("id", "tool", "arguments", "effects", "sessionId", "expiresAt")

const (
	approvalWait  = 30              // seconds: the maximum waitSeconds of /inputs
	approvalPause = 2 * time.Second // polling interval while calls are open, because /inputs then replies immediately
)

func (e *env) toolsApprovals() *cobra.Command {
	c := command("approvals", "List the calls that wait for an approval",
		"List the calls that a person must approve before they are executed. With --watch, new ones are printed as they arrive.",
		"  stoa tools approvals\n  stoa tools approvals --watch --jq '[.id, .tool] | @tsv'")
	o := e.output(c)
	n := limit(c)
	watch := c.Flags().Bool("watch", false, "print new calls until Ctrl-C")
	return e.calling(c, o, func(ctx context.Context, call *client.Client, _ []string) error {
		if *watch {
			return e.watchApprovals(ctx, call, o)
		}
		return o.list(viewApprovals, unapproved(call.All(ctx, "/tool-calls", url.Values{"status": {string(stoa.CallWaiting)}}, 0)), *n, "No calls wait for an approval.")
	})
}

func unapproved(calls iter.Seq2[jsonx.Value, error]) iter.Seq2[jsonx.Value, error] {
	return func(yield func(jsonx.Value, error) bool) {
		for raw, err := range calls {
			var c contract.AgentToolCall
			if err == nil {
				err = jsonx.Unmarshal(raw, &c)
			}
			if err == nil && (!c.NeedsApproval || !c.Approval.IsNull()) {
				continue
			}
			if !yield(raw, err) || err != nil {
				return
			}
		}
	}
}

// watchApprovals prints the calls that wait for an approval, each once, until ctx ends.
func (e *env) watchApprovals(ctx context.Context, call *client.Client, o *output) error {
	known := map[string]bool{}
	query := url.Values{"kind": {stoa.InputToolApproval}, "waitSeconds": {fmt.Sprint(approvalWait)}}
	for ctx.Err() == nil {
		now := map[string]bool{}
		var err error
		for raw, failed := range call.All(ctx, "/inputs", query, 0) {
			var in contract.OpenInput
			if err = failed; err == nil {
				err = jsonx.Unmarshal(raw, &in)
			}
			for i := 0; err == nil && i < len(in.Calls); i++ {
				if c := in.Calls[i]; c.Status == string(stoa.CallWaiting) {
					if now[c.CallID] = true; !known[c.CallID] {
						err = e.printApproval(ctx, call, o, in, c)
					}
				}
			}
			if err != nil {
				break
			}
		}
		switch {
		case ctx.Err() != nil:
		case err != nil && !client.Unreachable(err) && stoa.Code(client.CodeOf(err)) != stoa.CodeOverloaded:
			return err
		case err != nil:
			e.say("%v; trying again", err)
			stoa.Sleep(ctx, toolPause)
		default:
			if known = now; len(now) > 0 {
				stoa.Sleep(ctx, approvalPause)
			}
		}
	}
	return context.Cause(ctx)
}

func (e *env) printApproval(ctx context.Context, call *client.Client, o *output, in contract.OpenInput, c contract.PendingToolCall) error {
	if !o.raw() {
		_, err := fmt.Fprintf(e.out, "%s\t%s\t%s\t%s\t%s\n", c.CallID, oneLine(c.Tool), visible(argumentsText(c)), c.Effects, in.SessionID)
		return err
	}
	raw, err := call.JSON(ctx, http.MethodGet, "/tool-calls/"+url.PathEscape(c.CallID), nil, nil, nil)
	if err != nil {
		return err
	}
	return o.object(viewCall, raw)
}

func argumentsText(c contract.PendingToolCall) string {
	if c.ArgumentsStart != "" {
		return c.ArgumentsStart + "…"
	}
	return string(c.Arguments)
}

// visible escapes invisible characters and those that reorder text, as JSON does, because a text
// that a person decides about must not hide anything.
func visible(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case r == '\u00ad' || unicode.Is(unicode.Cf, r) || unicode.IsControl(r) || unicode.Is(unicode.Zl, r) || unicode.Is(unicode.Zp, r):
			if r > 0xffff {
				fmt.Fprintf(&b, `\U%08x`, r)
			} else {
				fmt.Fprintf(&b, `\u%04x`, r)
			}
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

func (e *env) decideCommand(c *cobra.Command, d stoa.Decision, done string) *cobra.Command {
	fields := []field{{"comment", "comment", asText, "the reason; that of a rejection is sent to the model"}}
	again := new(bool)
	if d == stoa.DecisionApprove {
		c.Flags().BoolVar(again, "again", false, "even if the call may have been executed once already")
		fields = append(fields, field{"remember", "remember", asText, "the `extent`: session also approves later calls of the tool in this session, while its definition does not change"})
	}
	settings := e.flags(c, fields...)
	c.RunE = func(c *cobra.Command, args []string) error {
		body := map[string]any{}
		if err := settings(body); err != nil {
			return err
		}
		if r := body["remember"]; r != nil && r != "session" && r != "no" {
			return usagef("--remember must be session or no")
		}
		call, err := e.client()
		if err != nil {
			return err
		}
		for _, id := range args {
			var of contract.AgentToolCall
			if _, err := call.JSON(c.Context(), http.MethodGet, "/tool-calls/"+url.PathEscape(id), nil, nil, &of); err != nil {
				return err
			}
			input, err := of.ApprovalInputID.Get()
			if err != nil {
				return fmt.Errorf("the call %s does not wait for an approval; it is %s", of.ID, of.Status)
			}
			if before, err := of.PreviousOutcome.Get(); err == nil && d == stoa.DecisionApprove && !*again && of.Approval.IsNull() {
				return fmt.Errorf("the call %s may have been executed once already (%s): check, and approve it with --again if it was not", of.ID, before)
			}
			body["callId"] = of.ID
			if err := decide(c.Context(), call, of.AgentID, of.SessionID, input, d, body); err != nil {
				return err
			}
			e.say("%s %s.", done, of.ID)
		}
		return nil
	}
	return c
}

func decide(ctx context.Context, call *client.Client, agent, session, input string, d stoa.Decision, about map[string]any) error {
	about["decision"] = string(d)
	body := map[string]any{"inputId": input, "decisions": []any{about}}
	_, err := call.JSON(ctx, http.MethodPost, client.SessionPath(agent, session)+"/input", nil, body, nil)
	return err
}

// approve asks the user at the terminal about the calls that a session waits for. It
// reports whether all are decided; otherwise it has printed how to decide later.
func (x sessionContext) approve(ctx context.Context, s session, whole bool) (sent bool, err error) {
	e, in := x.e, s.PendingInput
	var open []contract.PendingToolCall
	for _, c := range in.Calls {
		if c.Status == string(stoa.CallWaiting) {
			open = append(open, c)
		}
	}
	if whole {
		e.say("%s", in.Prompt)
	}
	later := func() {
		for _, c := range open {
			e.next("It waits for an approval:", "stoa tools approve "+c.CallID)
		}
	}
	if !isTerminal(e.in) || !isTerminal(e.err) || x.o.raw() {
		later()
		return false, nil
	}
	lines := bufio.NewReader(e.stdin)
	for len(open) > 0 {
		c := open[0]
		e.say("%s %s (%s)", oneLine(c.Tool), visible(argumentsText(c)), c.Effects)
		if c.PreviousOutcome != "" {
			e.say("It may have been executed once already.")
		}
		fmt.Fprint(e.err, e.style(e.err).bold("Approve it? yes, session (and later ones), no, or no and a reason (empty: later): "))
		line, err := lines.ReadString('\n')
		if errors.Is(err, context.Canceled) {
			fmt.Fprintln(e.err)
			return false, err
		}
		if line = strings.TrimSpace(line); line == "" {
			if err != nil { // because Ctrl-D leaves the cursor in the line
				fmt.Fprintln(e.err)
			}
			later()
			return false, nil
		}
		d, about, ok := readDecision(line)
		if !ok {
			e.say("Not decided: the answer must begin with yes, session or no.")
			if err == io.EOF {
				return false, nil
			}
			continue
		}
		about["callId"] = c.CallID
		if err := decide(ctx, x.call, x.agent, x.id, in.ID, d, about); err != nil {
			return false, err
		}
		open = open[1:]
	}
	return true, nil
}

// readDecision parses the user's answer about a call. ok is false unless it is clearly
// an approval or a rejection.
func readDecision(line string) (d stoa.Decision, about map[string]any, ok bool) {
	word, why, _ := strings.Cut(line, " ")
	why = strings.TrimSpace(why)
	about = map[string]any{}
	switch strings.ToLower(strings.TrimRight(word, ",.:;")) {
	case "y", "yes":
		return stoa.DecisionApprove, about, why == ""
	case "s", "session":
		about["remember"] = "session"
		return stoa.DecisionApprove, about, why == ""
	case "n", "no":
		if why != "" {
			about["comment"] = why
		}
		return stoa.DecisionReject, about, true
	}
	return "", nil, false
}
