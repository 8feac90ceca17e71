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
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"stoa/internal/base/client"
	"stoa/internal/base/contract"
	"stoa/internal/base/stoa"
)

// maxPrompt limits standard input, in bytes, because the service rejects larger bodies by default.
const maxPrompt = 16 << 20

func (e *env) respond() *cobra.Command {
	c := &cobra.Command{
		Use: "respond [PROMPT]...", Short: "Send a prompt to a model",
		Long: `Send a prompt to a model and print its reply as it arrives.

The prompt consists of the arguments, or of standard input if there are none. A single - among the arguments
is replaced by standard input, to combine a file with a question. On a terminal the reply is wrapped and its
Markdown is rendered, unless --raw is given; elsewhere it is printed unchanged. Ctrl-C cancels the reply; the
text so far is charged, and the exit code is 130.`,
		Example: "  stoa respond \"Why is the sky blue?\"\n  stoa respond -m alpha-sonnet-5-5 -i \"Answer in one sentence.\" < question.txt\n  git diff | stoa respond \"Review this change:\" -\n  stoa respond --jq .usage.total_tokens \"Hello\"",
	}
	o := e.output(c)
	m := modelFlags(c)
	e.rawFlag(c)
	whole := c.Flags().Bool("no-stream", false, "print the reply when it is complete")
	c.RunE = func(c *cobra.Command, args []string) error {
		prompt, err := e.prompt(args)
		if err != nil {
			return err
		}
		call, err := e.ready(o)
		if err != nil {
			return err
		}
		w := e.newReplyPrinter()
		if !*whole && !o.raw() {
			last, err := e.stream(c.Context(), call, m.call(prompt), w)
			if err == nil {
				e.printNotes(c.Context(), call, last, m.model)
			}
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
		if err == nil {
			e.printNotes(c.Context(), call, &reply.Response, m.model)
		}
		return err
	}
	return c
}

// prompt returns the arguments joined, with "-" replaced by standard input; without
// arguments it returns standard input.
func (e *env) prompt(args []string) (string, error) {
	if len(args) == 0 {
		if isTerminal(e.in) {
			return "", usagef("the prompt is missing; pass it as an argument, or on standard input")
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
			return "", usagef("standard input can be read only once")
		}
		read = true
		text, err := io.ReadAll(io.LimitReader(e.stdin, maxPrompt+1))
		if err != nil {
			return "", fmt.Errorf("read the prompt: %w", err)
		}
		if len(text) > maxPrompt {
			return "", usagef("the prompt is larger than %s", stoa.Size(maxPrompt))
		}
		parts[i] = string(text)
	}
	sep := " "
	if read {
		sep = "\n\n"
	}
	prompt := strings.Join(parts, sep)
	if strings.TrimSpace(prompt) == "" {
		return "", usagef("the prompt is empty; pass it as an argument, or on standard input")
	}
	return prompt, nil
}

type replyPrinter struct {
	out      io.Writer
	markdown *markdown // nil: none
	terminal bool
	any      bool
	newline  bool // the last thing printed
}

func (e *env) newReplyPrinter() *replyPrinter {
	w := &replyPrinter{out: e.out, terminal: isTerminal(e.out)}
	if w.terminal && !e.asWritten {
		w.markdown = &markdown{out: e.out, style: e.style(e.out), columns: max(20, width(e.out))}
	}
	return w
}

// rawFlag adds --raw to a command that prints replies.
func (e *env) rawFlag(c *cobra.Command) {
	c.Flags().BoolVar(&e.asWritten, "raw", false, "print replies unchanged on a terminal too: not wrapped, Markdown not rendered")
}

func (w *replyPrinter) write(text string) error {
	if w.markdown != nil {
		return w.markdown.write(text)
	}
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

func (w *replyPrinter) end() error {
	if w.markdown != nil {
		return w.markdown.end()
	}
	if !w.any || w.newline {
		return nil
	}
	w.newline = true
	_, err := io.WriteString(w.out, "\n")
	return err
}

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
	return last, nil
}

// receiptTime is short, because the receipt only adds the price to a reply that is already printed.
const receiptTime = 2 * time.Second

// printNotes prints notes after a reply: why it was cut short, whether another model
// answered because of the plan, and on a terminal its model, tokens and price. It
// returns the price from the receipt; 0 if the key cannot read receipts.
func (e *env) printNotes(ctx context.Context, call *client.Client, r *contract.Response, asked string) (price stoa.Credits) {
	if r == nil {
		return 0
	}
	cost := ""
	if asked != "auto" && r.Model != asked || isTerminal(e.err) {
		ctx, cancel := context.WithTimeout(ctx, receiptTime)
		defer cancel()
		var receipt contract.Receipt
		if _, err := call.JSON(ctx, http.MethodGet, "/receipts/"+url.PathEscape(r.ID), nil, nil, &receipt); err == nil {
			price = stoa.Credits(receipt.CreditsMicro)
			cost = fmt.Sprintf(" · %s credits", short(price))
			if orEmpty(receipt.Model.FallbackReason) == "plan" {
				e.say("%s is not in your plan; %s answered. --strict fails instead.", asked, r.Model)
			}
		}
	}
	if r.IncompleteDetails != nil {
		e.say("The reply was cut short: %s.", r.IncompleteDetails.Reason)
	}
	if r.Usage != nil {
		e.hint("%s · %s tokens in, %s out%s", r.Model, stoa.Grouped(r.Usage.InputTokens), stoa.Grouped(r.Usage.OutputTokens), cost)
	}
	return price
}

const chatHelp = `/clear clears the conversation, /model NAME selects another model, /cost shows the cost, /save FILE writes the
conversation as Markdown, /exit or Ctrl-D ends the chat. Ctrl-C stops a reply. End a line with \ to continue
it on the next one.`

func (e *env) chat() *cobra.Command {
	c := command("chat", "Chat with a model",
		`Chat with a model, line by line. The conversation is kept locally and sent with each line; the service does
not store it. On a terminal, lines can be edited, the arrow keys recall earlier ones, Tab completes commands
and models, and pasted text stays one message. The last 500 lines are stored in the file chat_history next to
the profile, which only you can read; --no-history disables this, and lines that begin with a space are not
stored.

`+chatHelp,
		"  stoa chat\n  stoa chat -m alpha-sonnet-5-5 -i \"You are a patient teacher.\"")
	m := modelFlags(c)
	e.rawFlag(c)
	forget := c.Flags().Bool("no-history", false, "do not store or read the history of lines")
	return e.calling(c, nil, func(ctx context.Context, call *client.Client, _ []string) error {
		return (&conversation{e: e, call: call, m: m, keep: !*forget}).run(ctx)
	})
}

type conversation struct {
	e     *env
	call  *client.Client
	m     *modelCall
	turns []contract.InputMessage
	keep  bool // store the history
	spent stoa.Credits
	count int // replies
}

// run reads lines until they end. It subscribes to signals again, because the first Ctrl-C cancels the program's
// context, but here must stop only the reply.
func (t *conversation) run(ctx context.Context) error {
	e := t.e
	interrupt := make(chan os.Signal, 1)
	signal.Notify(interrupt, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(interrupt)
	human := isTerminal(e.in) && isTerminal(e.err)
	if human {
		e.hint("%s · %s\n%s", t.call.BaseURL(), t.m.model, chatHelp)
	}
	next := t.plainLines(interrupt)
	if fd, ok := terminal(e.in); ok && human && e.getenv("TERM") != "dumb" {
		d := e.newEditor(fd, e.openHistory(t.keep), t.complete(ctx))
		next = func(mark string) (string, error) { return d.read(mark, interrupt) }
	}
	var pending string
	for {
		mark := "> "
		if pending != "" {
			mark = "… "
		}
		line, err := next(mark)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
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
			end, err := t.command(ctx, strings.TrimSpace(line))
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

func (t *conversation) command(ctx context.Context, line string) (end bool, err error) {
	word, rest, _ := strings.Cut(line, " ")
	rest = strings.TrimSpace(rest)
	switch word {
	case "/exit", "/quit":
		return true, nil
	case "/clear":
		t.turns = nil
		t.e.say("The conversation was cleared.")
	case "/model":
		if rest == "" {
			t.e.say("The model is %s.", t.m.model)
			break
		}
		models, err := knownModels(context.WithoutCancel(ctx), t.call)
		if err != nil {
			t.e.printError(err)
			break
		}
		names := []string{"auto"}
		for _, m := range models {
			names = append(append(names, m.ID), m.Aliases...)
		}
		if !slices.Contains(names, rest) {
			t.e.say("There is no model %q; \"stoa models\" lists them%s The model is still %s.", rest, cmp.Or(didYouMean(near(rest, names)), "."), t.m.model)
			break
		}
		t.m.model = rest
		t.e.say("The model is now %s.", t.m.model)
	case "/cost":
		t.e.say("%s, %s credits.", some(t.count, "reply", "replies"), short(t.spent))
	case "/save":
		if rest == "" {
			t.e.say("The file is missing: /save FILE")
			break
		}
		if err := t.save(rest); err != nil {
			t.e.printError(err)
			break
		}
		t.e.say("Saved in %s.", rest)
	case "/help":
		t.e.say("%s", chatHelp)
	default:
		t.e.say("Unknown command %s. %s", word, chatHelp)
	}
	return false, nil
}

// turn sends the whole conversation. A turn that fails or is stopped is not added to
// it; only a rejected key or an unreachable service ends the chat.
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
	w := t.e.newReplyPrinter()
	reply, err := t.e.stream(ctx, t.call, t.m.call(turns), w)
	close(stop)
	switch {
	case err == nil && reply != nil:
		t.count++
		t.spent += t.e.printNotes(ctx, t.call, reply, t.m.model)
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

// save writes the conversation to a new file that only its owner can read.
func (t *conversation) save(name string) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	var b strings.Builder
	for _, turn := range t.turns {
		who := "You"
		if turn.Role == "assistant" {
			who = "Model"
		}
		fmt.Fprintf(&b, "## %s\n\n%v\n\n", who, turn.Content)
	}
	_, err = io.WriteString(f, b.String())
	return errors.Join(err, f.Close())
}

func (t *conversation) complete(ctx context.Context) func(string) []string {
	var models []string
	return func(head string) (found []string) {
		all := []string{"/clear", "/cost", "/exit", "/help", "/model", "/quit", "/save"}
		if strings.HasPrefix(head, "/model ") {
			if models == nil {
				ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), completionTime)
				defer cancel()
				models, _ = t.e.modelNames(ctx) // ignored, because completions are optional
			}
			all = nil
			for _, m := range models {
				all = append(all, "/model "+m)
			}
		}
		for _, text := range all {
			if head != "" && strings.HasPrefix(text, head) {
				found = append(found, text)
			}
		}
		return found
	}
}

// plainLines returns a function that reads the next line of an input without an editor.
// It prints its argument first on a terminal.
func (t *conversation) plainLines(interrupt <-chan os.Signal) func(string) (string, error) {
	e := t.e
	human := isTerminal(e.in) && isTerminal(e.err)
	lines, failed := (<-chan string)(nil), (<-chan error)(nil)
	return func(mark string) (string, error) {
		if lines == nil {
			lines, failed = e.lines()
		}
		if human {
			fmt.Fprint(e.err, e.style(e.err).bold(mark))
		}
		select {
		case line, ok := <-lines:
			if ok {
				return line, nil
			}
			if human {
				e.say("")
			}
			return "", cmp.Or(<-failed, io.EOF)
		case <-interrupt:
			e.say("")
			return "", context.Canceled
		}
	}
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
