package agent

import (
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"stoa/internal/agents/session"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
)

const toolResultRead = "tool_result_read"

// brokenAt is the maximum length of a line of a result, in bytes. Longer lines are broken, so
// that every part of a result can be read.
const brokenAt = 2_000

var resultTool = stoa.Tool{
	Name: toolResultRead, Description: "Read lines of the result of a tool call that was too long to be given whole.",
	Parameters: `{"type":"object","properties":{"callId":{"type":"string","description":"as the cut result names it"},"fromLine":{"type":"integer","minimum":1},"toLine":{"type":"integer","minimum":1}},"required":["callId"],"additionalProperties":false}`,
}

// framed returns lines of a result as the model receives them: at most limit bytes, between
// marks that label them as data. The text cannot forge its end mark, since the mark is
// derived from the text. toLine 0 means the last line. cut reports whether anything is left
// out.
func framed(c *stoa.ExternalCall, text string, fromLine, toLine int64, limit int) (told string, cut bool) {
	mark := stoa.HashOf(text)[:16]
	if fromLine == 1 && toLine == 0 && len(text) <= limit-300 {
		return fmt.Sprintf("[result of %s, begin %s]\n%s\n[result of %s, end %s]", c.Tool, mark, text, c.Tool, mark), false
	}
	lines := broken(text)
	total := int64(len(lines))
	if toLine == 0 || toLine > total {
		toLine = total
	}
	if fromLine > toLine {
		return fmt.Sprintf("The result has %d lines, and none in that range.", total), true
	}
	last, size := fromLine-1, 0
	for last < toLine {
		if size += len(lines[last]) + 1; size > limit-400 {
			break
		}
		last++
	}
	told = fmt.Sprintf("[result of %s, lines %d to %d of %d, begin %s]\n%s\n[result of %s, end %s]", c.Tool, fromLine, last, total, mark, strings.Join(lines[fromLine-1:last], "\n"), c.Tool, mark)
	if last < total {
		told += fmt.Sprintf("\n(The rest is read with %s: callId %q, fromLine %d.)", toolResultRead, c.ID, last+1)
	}
	return told, true
}

func broken(text string) (lines []string) {
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		for len(line) > brokenAt {
			n := brokenAt
			for n > 0 && !utf8.RuneStart(line[n]) {
				n--
			}
			if n == 0 {
				n = brokenAt
			}
			lines = append(lines, line[:n])
			line = line[n:]
		}
		lines = append(lines, line)
	}
	return lines
}

func (w *Worker) readResult(ctx context.Context, t *turn, call stoa.ToolCall) (session.ToolEffect, error) {
	out := session.ToolEffect{Result: stoa.ToolResult{CallID: call.ID, Name: call.Name, IsError: true}}
	var in struct {
		CallID   string `json:"callId"`
		FromLine int64  `json:"fromLine"`
		ToLine   int64  `json:"toLine"`
	}
	if bad := readArguments(argumentsOf(call.Arguments), &in); bad != "" {
		out.Result.Content = bad
		return out, nil
	}
	c, err := store.Read(ctx, w.store, func(tx *store.Tx) (stoa.ExternalCall, error) {
		return tx.Work().ToolCall(ctx, t.row.AccountID, stoa.Storable(in.CallID))
	})
	if err != nil && stoa.CodeOf(err) != stoa.CodeToolCallNotFound {
		return out, err
	}
	if err != nil || c.SessionID != t.row.ID || c.Status != stoa.CallDone {
		out.Result.Content = "This session has no result of such a call. The cut result names its callId."
		return out, nil
	}
	out.Result.Content, _ = framed(&c, c.Result, max(in.FromLine, 1), max(in.ToLine, 0), w.cfg.ToolOutput)
	out.Result.IsError = false
	return out, nil
}
