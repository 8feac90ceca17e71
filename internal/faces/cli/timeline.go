package cli

import (
	"encoding/json"
	"fmt"
	"strings"

	"stoa/internal/base/client"
	"stoa/internal/base/stoa"
)

// A timeline prints the events of a session: text as it is written, and a line
// for every other event.
type timeline struct {
	o       *output
	style   style
	columns int
	message string        // id of the message whose text is on the open line
	written int           // characters written of it
	reply   *replyPrinter // of the open text; nil if none is open
}

func (t *timeline) event(ev client.SessionEvent) error {
	out := t.o.e.out
	if t.o.expr != "" {
		return t.o.printJSON(ev.Raw)
	}
	if t.o.json {
		_, err := fmt.Fprintf(out, "%s\n", ev.Raw)
		return err
	}
	v, err := decode(ev.Raw)
	if err != nil {
		return err
	}
	switch ev.Type {
	case "message.delta":
		return t.delta(v)
	case "session.created":
		return t.line("·", "session "+text(v, "sessionId")+" on version "+text(v, "agentVersion")+" of the agent")
	case "session.upgraded":
		return t.line("·", "moved to version "+text(v, "agentVersion")+" of the agent")
	case "person.requested":
		return t.line("!", "the visitor asks for a person")
	case "session.compacted":
		if text(v, "used") != "true" {
			return t.line("·", "the summary was not used; the oldest turns are left out")
		}
		return t.line("·", fmt.Sprintf("the beginning was summarized: %s tokens instead of %s", stoa.Grouped(number(v, "tokensAfter")), stoa.Grouped(number(v, "tokensBefore"))))
	case "reply.rejected":
		return t.line("!", "the answer does not fit the reply schema: "+text(v, "problem"))
	case "message.created", "step.started":
		return nil
	case "message.completed":
		if text(v, "role") == "user" && text(v, "kind") == "message" && text(v, "text") != "" {
			return t.line("›", text(v, "text"))
		}
		return nil
	case "session.status":
		line := t.style.status(oneLine(text(v, "status")))
		if why := text(v, "statusReason"); why != "" {
			line += " · " + oneLine(why)
		}
		return t.line("●", line)
	case "turn.started":
		return t.line("▸", "turn "+text(v, "turn"))
	case "turn.recovered":
		return t.line("▸", "turn "+text(v, "turn")+" started again, attempt "+text(v, "attempt"))
	case "step.completed":
		return t.line("·", fmt.Sprintf("%s · %s tokens · %s credits", text(v, "model"),
			stoa.Grouped(number(v, "usage.totalTokens")), short(stoa.Credits(number(v, "creditsMicro")))))
	case "tool.called":
		return t.line("→", text(v, "name")+" "+text(v, "arguments"))
	case "tool.completed":
		line := text(v, "name") + " answered " + stoa.Size(number(v, "bytes"))
		if text(v, "isError") == "true" {
			line = text(v, "name") + " failed"
		}
		return t.line("←", line)
	case "drive.read", "drive.written":
		word := "read "
		if ev.Type == "drive.written" {
			word = "wrote "
		}
		line := word + text(v, "path")
		if place := text(v, "place"); place != "" {
			line += ", " + place
		} else if from, to := text(v, "fromLine"), text(v, "toLine"); from != "" && from == to {
			line += " line " + from
		} else if from != "" {
			line += " lines " + from + " to " + to
		}
		return t.line("·", line)
	case "input.requested":
		return t.line("?", text(v, "prompt")+choices(texts(at(v, "options"))))
	case "input.answered":
		return t.line("!", "answered: "+text(v, "answer"))
	case "input.expired":
		return t.line("!", "the question expired")
	case "error":
		return t.line("✗", text(v, "message")+" ("+text(v, "code")+")")
	}
	return t.line("·", ev.Type)
}

func texts(v any) (out []string) {
	list, _ := v.([]any)
	for _, w := range list {
		out = append(out, fmt.Sprint(w))
	}
	return out
}

// delta writes a piece of text. A piece that begins before the end of the text so far starts a new line, because it
// repeats a step after a crash.
func (t *timeline) delta(v any) error {
	id, piece, offset := text(v, "messageId"), text(v, "text"), 0
	if n, ok := at(v, "offset").(json.Number); ok {
		i, _ := n.Int64()
		offset = int(i)
	}
	if id != t.message || offset < t.written {
		if err := t.endLine(); err != nil {
			return err
		}
		if id == t.message && offset > 0 {
			if _, err := fmt.Fprint(t.o.e.out, "… "); err != nil {
				return err
			}
		}
	}
	t.message, t.written = id, offset+len([]rune(piece))
	if t.reply == nil {
		t.reply = t.o.e.newReplyPrinter()
	}
	return t.reply.write(piece)
}

func (t *timeline) endLine() error {
	if t.reply == nil {
		return nil
	}
	w := t.reply
	t.reply = nil
	return w.end()
}

func (t *timeline) line(mark, text string) error {
	if err := t.endLine(); err != nil {
		return err
	}
	if !strings.Contains(text, "\x1b[") {
		text = t.style.dim(shorten(oneLine(text), t.columns-3))
	}
	_, err := fmt.Fprintf(t.o.e.out, "%s %s\n", t.style.dim(mark), text)
	return err
}
