package gateway

import (
	"strings"
	"testing"

	"stoa/internal/base/stoa"
	"stoa/internal/models/catalog"
)

func TestInputBeyondEveryWindowIsRefused(t *testing.T) {
	t.Parallel()
	opts := catalog.Options{Auto: []string{"alpha-haiku-4-5", "beta-3.8-flash"}} // 200,000 and 1,048,576 tokens
	h := open(t, script{"beta-3.8-flash": reply("x", stoa.Usage{InputTokens: 1, OutputTokens: 1})}, opts, 1000*stoa.Credit)
	ask := func(model string, tokens int) (*Stream, error) {
		text := strings.Repeat("abc", tokens-stoa.TokensPerMessage)
		return h.Respond(t.Context(), h.caller(false), Request{
			ID: stoa.NewID("resp"), Model: model, Call: stoa.Call{Messages: []stoa.Message{stoa.TextMessage(stoa.RoleUser, text)}},
		})
	}
	_, err := ask("alpha-haiku-4-5", 800_001)
	if e := stoa.AsError(err); e.Code != stoa.CodeContextLength || e.Param != "input" {
		t.Errorf("four windows and a token are %v", err)
	}
	if b, err := h.ledger.Balance(t.Context(), h.account.ID); err != nil || b.Held != 0 {
		t.Errorf("the balance is %+v, %v", b, err)
	}
	s, err := ask("alpha-haiku-4-5", 800_000) // an estimate may be up to four times too high
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	if s, err = ask("auto", 800_001); err != nil || s.model.ID != "beta-3.8-flash" {
		t.Fatalf("an automatic choice takes %v, %v", s, err)
	}
	s.Close()
}
