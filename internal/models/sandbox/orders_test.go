package sandbox

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"stoa/internal/base/stoa"
)

func TestOrdersBeginALine(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, text string
		want       Orders
		rest       string
	}{
		{"no order", "Hello there", Orders{}, "Hello there"},
		{"say takes everything to the end", "slow: 5ms\nsay: one\ntokens: 3\n\nend ", Orders{Slow: 5 * time.Millisecond, HasSay: true, Say: "one\ntokens: 3\n\nend "}, ""},
		{"say nothing", "say:", Orders{HasSay: true}, ""},
		{"say keeps inner spaces", "say:  x", Orders{HasSay: true, Say: " x"}, ""},
		{"orders around text", "tokens: 12\nWhat is this?\nthink: 9", Orders{Tokens: 12, Think: 9}, "What is this?"},
		{"not at the start of a line", "please say: hello", Orders{}, "please say: hello"},
		{"not in lower case", "Say: hello", Orders{}, "Say: hello"},
		{"a failure", "fail: 529", Orders{Fail: 529}, ""},
		{"a failure after deltas", "fail: 500 after 3", Orders{Fail: 500, FailAfter: 3}, ""},
		{"a status that is none", "fail: 200\nfail: 600\nfail: 700", Orders{}, "fail: 200\nfail: 600\nfail: 700"},
		{"a cut", "cut: 0", Orders{HasCut: true}, ""},
		{"a cut later", "cut: 10", Orders{HasCut: true, Cut: 10}, ""},
		{"an end", "stop: content_filter", Orders{Stop: stoa.StopContentFilter}, ""},
		{"an end that is none", "stop: now", Orders{}, "stop: now"},
		{"a refusal", "refuse: I may not", Orders{Refuse: "I may not"}, ""},
		{"a refusal of nothing", "refuse:", Orders{}, "refuse:"},
		{"usage", "usage: huge", Orders{Usage: "huge"}, ""},
		{"single words", "empty\nrepeat\nempty handed", Orders{Empty: true, Repeat: true}, "empty handed"},
		{"a question with choices", "ask: Which colour? | red | blue", Orders{Ask: "Which colour?", Options: []string{"red", "blue"}}, ""},
		{"calls of tools", "call: drive_list {}\ncall: drive_read {\"path\":\"a: b\"}", Orders{Calls: []stoa.ToolCall{{Name: "drive_list", Arguments: "{}"}, {Name: "drive_read", Arguments: `{"path":"a: b"}`}}}, ""},
		{"a call that is prose", "call: John at noon", Orders{}, "call: John at noon"},
		{"numbers that are words", "tokens: many\nslow: down\nwait: for it", Orders{}, "tokens: many\nslow: down\nwait: for it"},
		{"more than the bounds", "tokens: 999999999\nslow: 1h\nwait: 100h\nthink: 999999999", Orders{Tokens: MaxTokens, Slow: MaxSlow, Wait: MaxWait, Think: MaxThink}, ""},
		{"lines that end as on Windows", "tokens: 2\r\nrepeat\r\nhello\r\n", Orders{Tokens: 2, Repeat: true}, "hello"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, rest := ParseOrders(tt.text)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("orders (-want +got):\n%s", diff)
			}
			if rest != tt.rest {
				t.Errorf("rest: got %q, want %q", rest, tt.rest)
			}
		})
	}
}

func FuzzOrdersStayInTheirBounds(f *testing.F) {
	for _, s := range []string{"say: x", "tokens: 9\nfail: 529 after 3", "call: a {}\nask: q | a", "cut: -1", "slow: 1e9h"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		o, _ := ParseOrders(text)
		if o.Tokens < 0 || o.Tokens > MaxTokens || o.Think < 0 || o.Think > MaxThink || o.Slow < 0 || o.Slow > MaxSlow || o.Wait < 0 || o.Wait > MaxWait ||
			o.Fail != 0 && (o.Fail < 400 || o.Fail > 599) || o.Cut < 0 || o.FailAfter < 0 || len(o.Calls) > maxCalls {
			t.Errorf("out of bounds: %+v", o)
		}
	})
}

// TestDocumentedOrdersWork parses each order of docs/sandbox.md.
func TestDocumentedOrdersWork(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/sandbox.md")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for line := range strings.Lines(string(page)) {
		order, ok := strings.CutPrefix(line, "| `")
		if !ok {
			continue
		}
		n++
		order, _, _ = strings.Cut(order, "`")
		if _, rest := ParseOrders(strings.ReplaceAll(order, `\|`, "|")); rest != "" {
			t.Errorf("%q is no order", order)
		}
	}
	if n != 15 {
		t.Errorf("the page shows %d orders; there are 15", n)
	}
}
