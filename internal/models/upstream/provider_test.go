package upstream

import (
	"testing"
	"time"

	"stoa/internal/base/stoa"
)

func TestBaseURL(t *testing.T) {
	t.Parallel()
	tests := []struct{ wire, base, path, want string }{
		{"messages", "https://a.example", "/v1/messages", "https://a.example/v1/messages"},
		{"messages", "https://a.example/", "/v1/messages", "https://a.example/v1/messages"},
		{"messages", " https://a.example/v1/ ", "/v1/messages", "https://a.example/v1/messages"},
		{"messages", "https://a.example/proxy/v1", "/v1/messages", "https://a.example/proxy/v1/messages"},
		{"messages", "https://a.example/v1/messages", "/v1/messages", "https://a.example/v1/messages"},
		{"messages", "https://a.example/messages", "/v1/messages", "https://a.example/messages/v1/messages"},
		{"gemini", "https://g.example", "/v1beta/models/m:generateContent?alt=sse", "https://g.example/v1beta/models/m:generateContent?alt=sse"},
		{"gemini", "https://g.example/v1beta/", "/v1beta/models/m:x?alt=sse", "https://g.example/v1beta/models/m:x?alt=sse"},
		{"gemini", "https://g.example/v1", "/v1beta/models/m:x?alt=sse", "https://g.example/v1beta/models/m:x?alt=sse"},
		{"gemini", "https://g.example?key=1", "/v1beta/models/a%2Fb:x?alt=sse", "https://g.example/v1beta/models/a%2Fb:x?key=1&alt=sse"},
		{"responses", "https://o.example/v1", "/responses", "https://o.example/v1/responses"},
		{"responses", "https://o.example/v1/responses", "/responses", "https://o.example/v1/responses"},
		{"chat", "https://o.example/v1/", "/chat/completions", "https://o.example/v1/chat/completions"},
		{"chat", "http://127.0.0.1:11434/v1/chat/completions", "/chat/completions", "http://127.0.0.1:11434/v1/chat/completions"},
		{"chat", "https://d.example", "/chat/completions", "https://d.example/chat/completions"},
		{"chat", "https://d.example/a%20b#part", "/chat/completions", "https://d.example/a%20b/chat/completions"},
	}
	for _, tt := range tests {
		t.Run(tt.wire+" "+tt.base, func(t *testing.T) {
			base, err := baseURL(tt.wire, tt.base)
			if err != nil {
				t.Fatal(err)
			}
			got, err := join(base, tt.path)
			if err != nil {
				t.Fatal(err)
			}
			if got.String() != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
	for _, wrong := range []string{"", "a.example", "ftp://a.example", "https://", "https://a b/", "/v1"} {
		if u, err := baseURL("messages", wrong); err == nil {
			t.Errorf("%q was read as %s", wrong, u)
		}
	}
}

func TestBreakerWindowAfterClockSetBack(t *testing.T) {
	t.Parallel()
	var b breaker
	b.slot = time.Now().Add(time.Hour).UnixNano() / int64(breakerSlot)
	for range breakerFailures {
		p, ok, _ := b.acquire("")
		if !ok {
			t.Fatal("it opened too early")
		}
		b.done(p, failed, 0)
	}
	if b.ready("") {
		t.Error("it never opened")
	}
}

func TestAnAccountLeavesPlacesForOthers(t *testing.T) {
	t.Parallel()
	for _, most := range []int{1, 7, 8, 16, 100} {
		pr := keepOrCreate(nil, stoa.Provider{Name: "p", Wire: "messages", BaseURL: "http://p.test", MaxInFlight: most}, stoa.Timeouts{})
		for round := range 2 {
			one, others := 0, 0
			for pr.enter("one") {
				one++
			}
			for pr.enter("two") {
				others++
			}
			if one+others != most || others != most/8 {
				t.Errorf("round %d of %d places: one account has %d, the others %d", round, most, one, others)
			}
			for range one {
				pr.leave("one")
			}
			for range others {
				pr.leave("two")
			}
		}
	}
}
