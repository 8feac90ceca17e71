package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"stoa/internal/base/client"
	"stoa/internal/base/contract"
	"stoa/internal/base/stoa"
)

var viewCalls = viewCall.only("id", "tool", "status", "outcome", "sessionId", "createdAt")

var viewCall = view{"AgentToolCall", []column{
	{"Call", "id", ident},
	{"Tool", "tool", plain},
	{"Arguments", "arguments", flexible},
	{"Effects", "effects", plain},
	{"Status", "status", state},
	{"Outcome", "outcome", state},
	{"Result", "resultText", plain},
	{"Late output", "lateOutput", plain},
	{"Attempts", "attempts", count},
	{"Decision", "approval.decision", plain},
	{"Decided by", "approval.by", plain},
	{"Comment", "approval.comment", plain},
	{"Resolved as", "resolution.outcome", plain},
	{"Note", "resolution.note", plain},
	{"Agent", "agentId", ident},
	{"Session", "sessionId", ident},
	{"Turn", "turn", count},
	{"Input", "inputId", ident},
	{"Created", "createdAt", when},
	{"Handed out", "startedAt", when},
	{"Finished", "finishedAt", when},
	{"Expires", "expiresAt", when},
}}

var viewInputs = view{"OpenInput", []column{
	{"Input", "id", ident},
	{"Agent", "agentId", ident},
	{"Session", "sessionId", ident},
	{"For", "prompt", flexible},
	{"Claimed until", "claimedUntil", when},
	{"Expires", "expiresAt", when},
}}

func (e *env) tools() *cobra.Command {
	c := group("tools", "Execute or approve tool calls of agents", `Execute the tool calls that agents send to your programs, approve calls that require it, and inspect the
results. CALL is the id of a call.`)
	c.AddCommand(e.verbs(
		verb{
			use: "inputs", short: "List the calls that wait for programs",
			long: "List the sessions that wait for outputs of tools, oldest first.", example: "  stoa tools inputs\n  stoa tools inputs --unclaimed --jq '.[].calls[].tool'",
			op: "GET /inputs", rows: viewInputs, none: "No calls wait for a program.",
			fields: []field{{"unclaimed", "unclaimed", asBool, "only unclaimed ones"}},
		},
		verb{
			use: "calls", short: "List tool calls",
			long: "List the tool calls of all sessions, newest first. Expired calls may have been executed.", example: "  stoa tools calls\n  stoa tools calls --outcome expired",
			op: "GET /tool-calls", rows: viewCalls, none: "There are no tool calls.",
			fields: []field{
				{"status", "status", asText, "only in this `status`: planned, waiting, started or done"},
				{"outcome", "outcome", asText, "only with this `outcome`: ok, error, denied, unknown, expired or cancelled"},
			},
		},
		verb{
			use: "get CALL", short: "Show a call with its result",
			long: "Show a call of a tool with its arguments and its whole result.", example: "  stoa tools get cal_01k9zqd3m8w5x7y2c4b6n8p0ra",
			op: "GET /tool-calls/{CALL}", show: viewCall,
		},
	)...)
	c.AddCommand(e.toolsRun(), e.toolsApprovals(), e.decideCommand(command("approve CALL...", "Approve calls",
		`Approve calls, so that they are executed. Repeating a decision is allowed; a different decision after the
first one is rejected.`,
		"  stoa tools approve cal_01k9zqd3m8w5x7y2c4b6n8p0ra\n  stoa tools approve cal_01k9zqd3m8w5x7y2c4b6n8p0ra --remember session"), stoa.DecisionApprove, "Approved"), e.decideCommand(command("reject CALL...", "Reject calls",
		"Reject calls that wait for an approval. They are not executed, and the model receives the comment.",
		"  stoa tools reject cal_01k9zqd3m8w5x7y2c4b6n8p0ra --comment \"Use the staging system.\""), stoa.DecisionReject, "Rejected"), e.toolsOutput(), e.toolsResolve())
	return c
}

func (e *env) toolsOutput() *cobra.Command {
	c := command("output CALL TEXT...", "Send the output of a call manually",
		"Send the output of a call manually. A TEXT of - is standard input. Sending the same output again is allowed.",
		"  stoa tools output cal_01k9zqd3m8w5x7y2c4b6n8p0ra \"It was shipped on Monday.\"")
	failed := c.Flags().Bool("error", false, "report to the model that the call failed")
	calls := collection{"/tool-calls", "", "call", "calls", false} // every input is an id, because calls have no names
	return e.onObject(calls, c, func(ctx context.Context, call *client.Client, o *output, path string, args []string) error {
		text, err := e.prompt(args)
		if err != nil {
			return err
		}
		var of contract.AgentToolCall
		if _, err := call.JSON(ctx, http.MethodGet, path, nil, nil, &of); err != nil {
			return err
		}
		input, err := of.InputID.Get()
		if err != nil {
			return fmt.Errorf("the call %s was not handed out; it is %s", of.ID, of.Status)
		}
		if err := giveOutput(ctx, call, of.AgentID, of.SessionID, input, of.ID, text, *failed); err != nil {
			return err
		}
		e.say("Given.")
		return nil
	})
}

func giveOutput(ctx context.Context, call *client.Client, agent, session, input, id, text string, failed bool) error {
	body := map[string]any{"inputId": input, "outputs": []any{map[string]any{"callId": id, "output": text, "isError": failed}}}
	_, err := call.JSON(ctx, http.MethodPost, client.SessionPath(agent, session)+"/input", nil, body, nil)
	return err
}

func (e *env) toolsResolve() *cobra.Command {
	c := e.verb(verb{
		use: "resolve CALL done|not_done", short: "Resolve a call",
		long:    "Record whether a call without an output was executed, such as an expired one. Later turns of its session receive this.",
		example: "  stoa tools resolve cal_01k9zqd3m8w5x7y2c4b6n8p0ra done --note \"Seen in the order system.\"",
		op:      "POST /tool-calls/{CALL}/resolve", show: viewCall,
		fields: []field{
			{"done|not_done", "outcome", asText, ""},
			{"note", "note", asText, "a note about the evidence"},
		},
	})
	c.Args = takes("CALL", "OUTCOME")
	return c
}

const (
	toolLease   = 60 * time.Second // short, because another can then claim the input soon after a crash; renewed while the program runs
	toolPause   = 5 * time.Second  // pause after a temporary failure
	maxToolText = 256 << 10        // bytes of an output, because the service rejects longer ones (session.MaxOutput)
	maxToolLog  = 4 << 10          // bytes of standard error that are sent to the model
)

func (e *env) toolsRun() *cobra.Command {
	c := &cobra.Command{
		Use: "run --agent AGENT -- COMMAND [ARGUMENT]...", Short: "Execute calls with a program", Args: takes("COMMAND", "[ARGUMENT...]"),
		Long: `Wait for tool calls, and run a program for each: its standard input is the arguments as JSON, and its standard
output is the output of the call. STOA_TOOL is the name of the tool, STOA_CALL_ID the id of the call, which
stays the same if it is executed again, and STOA_SESSION_ID the session. An exit code other than 0 is a
failure: the model receives the standard error. Several of these can run at the same time.`,
		Example: "  stoa tools run --agent support -- ./lookup.sh\n  stoa tools run --agent support --once -- jq -r .orderId",
	}
	agent := c.Flags().String("agent", "", "only calls of this `agent`")
	once := c.Flags().Bool("once", false, "stop when the calls of one input are done")
	c.RunE = func(c *cobra.Command, args []string) error {
		if *agent == "" {
			return usagef("--agent is required")
		}
		call, err := e.client()
		if err != nil {
			return err
		}
		id, err := agentCollection.find(c.Context(), call, *agent)
		if err != nil {
			return err
		}
		x := &executor{e: e, call: call, agent: id, command: args}
		e.say("Waiting for calls of %s. Ctrl-C ends this.", *agent)
		return x.run(c.Context(), *once)
	}
	return c
}

type executor struct {
	e       *env
	call    *client.Client
	agent   string
	command []string
}

// run processes inputs until ctx ends, or with once until one is done.
func (x *executor) run(ctx context.Context, once bool) error {
	query := url.Values{"agentId": {x.agent}, "unclaimed": {"true"}, "waitSeconds": {"30"}, "limit": {"1"}}
	for ctx.Err() == nil {
		var page contract.InputList
		_, err := x.call.JSON(ctx, http.MethodGet, "/inputs", query, nil, &page)
		if err == nil && len(page.Data) > 0 {
			var done bool
			if done, err = x.input(ctx, page.Data[0].ID); done && once {
				return err
			}
		}
		if err == nil || ctx.Err() != nil {
			continue
		}
		if !client.Unreachable(err) && stoa.Code(client.CodeOf(err)) != stoa.CodeOverloaded {
			return err
		}
		x.e.say("%v; trying again", err)
		if !stoa.Sleep(ctx, toolPause) {
			break
		}
	}
	return context.Cause(ctx)
}

// input claims an input and executes its calls. done is false if another program
// claimed it first.
func (x *executor) input(ctx context.Context, id string) (done bool, err error) {
	path := "/inputs/" + url.PathEscape(id) + "/claim"
	lease := map[string]any{"leaseSeconds": int64(toolLease / time.Second)}
	var in contract.OpenInput
	if _, err := x.call.JSON(ctx, http.MethodPost, path, nil, lease, &in); err != nil {
		if code := stoa.Code(client.CodeOf(err)); code == stoa.CodeInputClaimed || code == stoa.CodeNotWaiting || code == stoa.CodeNotFound {
			return false, nil
		}
		return false, err
	}
	working, stop := context.WithCancel(ctx)
	defer stop()
	lease["claimId"] = orEmpty(in.ClaimID)
	go func() {
		for stoa.Sleep(working, toolLease/2) {
			_, _ = x.call.JSON(working, http.MethodPost, path, nil, lease, nil) // without it another program may begin
		}
	}()
	for _, c := range in.Calls {
		if c.Status == string(stoa.CallDone) {
			continue
		}
		text, failed := x.execute(ctx, in, c)
		if ctx.Err() != nil {
			return true, context.Cause(ctx) // because the program's effects are unknown: the call expires, or is claimed again
		}
		err := giveOutput(ctx, x.call, in.AgentID, in.SessionID, in.ID, c.CallID, text, failed)
		switch code := stoa.Code(client.CodeOf(err)); {
		case code == stoa.CodeNotWaiting || code == stoa.CodeOutputGiven:
			x.e.say("%s %s: %v", c.CallID, c.Tool, err)
		case err != nil:
			return true, err
		default:
			x.e.say("%s %s: %s", c.CallID, c.Tool, map[bool]string{false: "done", true: "failed"}[failed])
		}
	}
	return true, nil
}

func orEmpty(n interface{ Get() (string, error) }) string {
	text, _ := n.Get()
	return text
}

func (x *executor) execute(ctx context.Context, in contract.OpenInput, c contract.PendingToolCall) (text string, failed bool) {
	ctx, cancel := context.WithDeadline(ctx, time.Time(c.ExpiresAt))
	defer cancel()
	cmd := exec.CommandContext(ctx, x.command[0], x.command[1:]...)
	cmd.Env = append(slices.Clip(x.e.environ), "STOA_TOOL="+c.Tool, "STOA_CALL_ID="+c.CallID, "STOA_SESSION_ID="+in.SessionID)
	cmd.Stdin = io.MultiReader(bytes.NewReader(c.Arguments), strings.NewReader("\n"))
	cmd.WaitDelay = time.Second
	out, log := &bounded{most: maxToolText + 1}, &bounded{most: maxToolLog}
	cmd.Stdout, cmd.Stderr = out, io.MultiWriter(log, x.e.err)
	err := cmd.Run()
	switch {
	case err != nil && errors.Is(err, exec.ErrNotFound):
		return "The program that executes this tool was not found.", true
	case err != nil:
		return strings.TrimSpace(fmt.Sprintf("The program failed: %v.\n%s", err, log.text())), true
	case out.Len() > maxToolText:
		return fmt.Sprintf("The program printed more than %d bytes. It may have been executed.", maxToolText), true
	}
	return strings.TrimRight(out.text(), "\n"), false
}

type bounded struct {
	bytes.Buffer
	most int
}

func (b *bounded) Write(p []byte) (int, error) {
	b.Buffer.Write(p[:min(len(p), b.most-b.Len())])
	return len(p), nil
}

// text returns the kept bytes as text that the service accepts.
func (b *bounded) text() string {
	return strings.ReplaceAll(strings.ToValidUTF8(b.String(), "\uFFFD"), "\x00", "\uFFFD")
}
