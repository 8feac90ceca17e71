package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"stoa/internal/client"
	"stoa/internal/contract"
)

// maxPrompt is the most that is read from standard input, in bytes: the
// service's default limit of a body.
const maxPrompt = 16 << 20

func (e *env) respond() *cobra.Command {
	c := &cobra.Command{
		Use: "respond [PROMPT]...", Short: "Ask a model and print its reply",
		Long: `Ask a model and print its reply as it arrives.

The prompt is the arguments, or standard input where there are none. A single - among the arguments
stands for standard input, so that a file can go with a question. Ctrl-C cancels the reply; what
came so far is paid for, and the exit code is 130.`,
		Example: "  stoa respond \"Why is the sky blue?\"\n  stoa respond -m alpha-sonnet-5-5 -i \"Answer in one sentence.\" < question.txt\n  git diff | stoa respond \"Review this change:\" -\n  stoa respond --jq .usage.total_tokens \"Hello\"",
	}
	o := e.output(c)
	m := modelFlags(c)
	whole := c.Flags().Bool("no-stream", false, "print the reply once it is whole")
	c.RunE = func(c *cobra.Command, args []string) error {
		prompt, err := e.prompt(args)
		if err != nil {
			return err
		}
		call, err := e.ready(o)
		if err != nil {
			return err
		}
		w := &replyPrinter{out: e.out, terminal: isTerminal(e.out)}
		if !*whole && !o.raw() {
			_, err := e.stream(c.Context(), call, m.call(prompt), w)
			return err
		}
		reply, err := call.Respond(c.Context(), m.call(prompt))
		if err != nil {
			return err
		}
		if o.raw() {
			return o.printJSON(reply.Raw)
		}
		err = errors.Join(w.write(reply.OutputText()), w.end())
		e.printNotes(&reply.Response)
		return err
	}
	return c
}

// prompt returns the arguments joined, with standard input in place of "-";
// standard input alone if there are no arguments.
func (e *env) prompt(args []string) (string, error) {
	if len(args) == 0 {
		if isTerminal(e.in) {
			return "", usagef("what is the prompt? Give it as an argument, or on standard input")
		}
		args = []string{"-"}
	}
	parts := make([]string, len(args))
	read := false
	for i, arg := range args {
		parts[i] = arg
		if arg != "-" {
			continue
		}
		if read {
			return "", usagef("standard input can be read once only")
		}
		read = true
		text, err := io.ReadAll(io.LimitReader(e.stdin, maxPrompt+1))
		if err != nil {
			return "", fmt.Errorf("read the prompt: %w", err)
		}
		if len(text) > maxPrompt {
			return "", usagef("the prompt is larger than %s", bytesText(maxPrompt))
		}
		parts[i] = string(text)
	}
	sep := " "
	if read {
		sep = "\n\n"
	}
	prompt := strings.Join(parts, sep)
	if strings.TrimSpace(prompt) == "" {
		return "", usagef("the prompt is empty")
	}
	return prompt, nil
}

// A replyPrinter prints a reply piece by piece.
type replyPrinter struct {
	out      io.Writer
	terminal bool
	any      bool
	newline  bool // the last thing printed
}

func (w *replyPrinter) write(text string) error {
	if w.terminal {
		text = clean(text)
	}
	if text == "" {
		return nil
	}
	w.any, w.newline = true, strings.HasSuffix(text, "\n")
	_, err := io.WriteString(w.out, text)
	return err
}

// end ends the line, if one is open.
func (w *replyPrinter) end() error {
	if !w.any || w.newline {
		return nil
	}
	w.newline = true
	_, err := io.WriteString(w.out, "\n")
	return err
}

// stream prints a reply as it arrives and returns it whole.
func (e *env) stream(ctx context.Context, call *client.Client, what client.Call, w *replyPrinter) (*contract.Response, error) {
	var last *contract.Response
	for ev, err := range call.Stream(ctx, what) {
		if err != nil {
			return nil, errors.Join(w.end(), err)
		}
		if ev.Type == contract.EventOutputTextDelta {
			if err := w.write(ev.Delta); err != nil {
				return nil, err
			}
		}
		if ev.Type == contract.EventCompleted || ev.Type == contract.EventIncomplete {
			last = ev.Response
		}
	}
	if err := w.end(); err != nil {
		return nil, err
	}
	e.printNotes(last)
	return last, nil
}

// printNotes prints after a reply why it was cut short, and on a terminal its
// model and tokens.
func (e *env) printNotes(r *contract.Response) {
	if r == nil {
		return
	}
	if r.IncompleteDetails != nil {
		e.say("The reply was cut short: %s.", r.IncompleteDetails.Reason)
	}
	if r.Usage != nil {
		e.hint("%s · %s tokens in, %s out", r.Model, grouped(r.Usage.InputTokens), grouped(r.Usage.OutputTokens))
	}
}

const chatHelp = `/clear forgets the conversation, /model NAME asks another model, /exit or Ctrl-D ends.
Ctrl-C stops a reply. A line that ends with \ goes on in the next one.`

func (e *env) chat() *cobra.Command {
	c := &cobra.Command{
		Use: "chat", Short: "Talk with a model", Args: noArgs,
		Long: `Talk with a model, line by line. The conversation is kept here and sent along with each line; the
service stores nothing of it.

` + chatHelp,
		Example: "  stoa chat\n  stoa chat -m alpha-sonnet-5-5 -i \"You are a patient teacher.\"",
	}
	m := modelFlags(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		call, err := e.client()
		if err != nil {
			return err
		}
		return (&conversation{e: e, call: call, m: m}).run(c.Context())
	}
	return c
}

// A conversation is one run of "stoa chat".
type conversation struct {
	e     *env
	call  *client.Client
	m     *modelCall
	turns []contract.InputMessage
}

// run reads lines until they end. The first Ctrl-C cancels the program's
// context; here it stops only the reply, so signals are subscribed to again.
func (t *conversation) run(ctx context.Context) error {
	e := t.e
	interrupt := make(chan os.Signal, 1)
	signal.Notify(interrupt, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(interrupt)
	human := isTerminal(e.in) && isTerminal(e.err)
	if human {
		e.hint("%s · %s\n%s", t.call.BaseURL(), t.m.model, chatHelp)
	}
	lines, failed := e.lines()
	var pending string
	for {
		if human {
			mark := "> "
			if pending != "" {
				mark = "… "
			}
			fmt.Fprint(e.err, e.style(e.err).bold(mark))
		}
		var line string
		var ok bool
		select {
		case line, ok = <-lines:
		case <-interrupt:
			e.say("")
			return context.Canceled
		}
		if !ok {
			if human {
				e.say("")
			}
			return <-failed
		}
		if head, more := strings.CutSuffix(line, `\`); more {
			pending += head + "\n"
			continue
		}
		line, pending = pending+line, ""
		if strings.TrimSpace(line) == "" {
			continue
		}
		if strings.HasPrefix(line, "/") {
			end, err := t.command(strings.TrimSpace(line))
			if end || err != nil {
				return err
			}
			continue
		}
		if err := t.turn(context.WithoutCancel(ctx), line, interrupt); err != nil {
			return err
		}
	}
}

// command runs a line that begins with a slash. It reports whether the chat
// ends.
func (t *conversation) command(line string) (end bool, err error) {
	word, rest, _ := strings.Cut(line, " ")
	switch word {
	case "/exit", "/quit":
		return true, nil
	case "/clear":
		t.turns = nil
		t.e.say("The conversation is forgotten.")
	case "/model":
		if rest = strings.TrimSpace(rest); rest == "" {
			t.e.say("The model is %s.", t.m.model)
			break
		}
		t.m.model = rest
		t.e.say("The model is now %s.", t.m.model)
	case "/help":
		t.e.say("%s", chatHelp)
	default:
		t.e.say("There is no %s. %s", word, chatHelp)
	}
	return false, nil
}

// turn sends the whole conversation. A turn that fails or is stopped is not
// added to it; only a refused key or an unreachable service ends the chat.
func (t *conversation) turn(ctx context.Context, line string, interrupt <-chan os.Signal) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := make(chan struct{})
	stopped := make(chan os.Signal, 1)
	go func() {
		select {
		case s := <-interrupt:
			stopped <- s
			cancel()
		case <-stop:
		}
	}()
	turns := append(t.turns[:len(t.turns):len(t.turns)], contract.InputMessage{Role: "user", Content: line})
	w := &replyPrinter{out: t.e.out, terminal: isTerminal(t.e.out)}
	reply, err := t.e.stream(ctx, t.call, t.m.call(turns), w)
	close(stop)
	switch {
	case err == nil && reply != nil:
		if text := reply.OutputText(); text != "" {
			turns = append(turns, contract.InputMessage{Role: "assistant", Content: text})
		}
		t.turns = turns
		return nil
	case ctx.Err() != nil:
		if s := <-stopped; s != os.Interrupt {
			return context.Canceled
		}
		t.e.say("Stopped.")
		return nil
	case exitCode(err) == exitAuth, client.Unreachable(err):
		return err
	}
	t.e.printError(err)
	return nil
}

// lines reads standard input line by line. When the chat ends first, the reader
// remains blocked in its read until the program exits.
func (e *env) lines() (<-chan string, <-chan error) {
	lines, failed := make(chan string), make(chan error, 1)
	go func() {
		defer close(lines)
		in := bufio.NewScanner(e.in)
		in.Buffer(nil, maxPrompt)
		for in.Scan() {
			lines <- in.Text()
		}
		failed <- in.Err()
	}()
	return lines, failed
}
