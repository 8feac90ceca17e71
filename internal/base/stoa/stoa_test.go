package stoa

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestIDsAreUniqueAndOrdered(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	last := ""
	for range 1000 {
		id := NewID("resp")
		if !IsID("resp", id) || IsID("msg", id) || len(id) != 31 {
			t.Fatalf("%q is not a resp id", id)
		}
		if seen[id] {
			t.Fatalf("%q twice", id)
		}
		seen[id] = true
		// The first ten characters hold the milliseconds: they never go back.
		if id[:14] < last {
			t.Fatalf("%q sorts before %q", id, last)
		}
		last = id[:14]
	}
	for _, bad := range []string{"", "resp_", "resp_zzzzzzzzzzzzzzzzzzzzzzzzzz", "resp_0", strings.ToUpper(NewID("resp"))} {
		if IsID("resp", bad) {
			t.Errorf("IsID(%q) is true", bad)
		}
	}
}

func TestCost(t *testing.T) {
	t.Parallel()
	p := Price{Input: 3_000_000, CachedInput: 300_000, CacheWrite: 3_750_000, CacheWriteLong: 6_000_000, Output: 15_000_000}
	for _, c := range []struct {
		usage Usage
		want  Credits
	}{
		{Usage{}, 0},
		{Usage{InputTokens: 1}, 3},
		{Usage{InputTokens: 10, OutputTokens: 2}, 60},
		{Usage{InputTokens: 10, CachedTokens: 10}, 3},
		{Usage{InputTokens: 11, CachedTokens: 10, OutputTokens: 1}, 21},
		{Usage{InputTokens: 1, CachedTokens: 1}, 1}, // 0.3 micro-credits are one
		{Usage{InputTokens: 1000, CacheWriteTokens: 1000}, 3750},
		{Usage{InputTokens: 1000, CacheWriteTokens: 1000, CacheWriteLongTokens: 1000}, 6000},
		{Usage{InputTokens: 1000, CachedTokens: 100, CacheWriteTokens: 500, CacheWriteLongTokens: 200, OutputTokens: 10}, 400*3 + 30 + 1125 + 1200 + 150},
	} {
		if got := p.Cost(c.usage); got != c.want {
			t.Errorf("Cost(%+v) = %d, want %d", c.usage, got, c.want)
		}
	}
	dearest := Price{Input: MaxRate, CachedInput: MaxRate, CacheWrite: 2 * MaxRate, CacheWriteLong: 2 * MaxRate, Output: MaxRate}
	if got := dearest.Cost(Usage{InputTokens: MaxTokens, CacheWriteTokens: MaxTokens, CacheWriteLongTokens: MaxTokens, OutputTokens: MaxTokens}); got <= 0 {
		t.Errorf("the dearest call overflows: %d", got)
	}
}

func TestAffordsNeverCostsMoreThanTheAmount(t *testing.T) {
	t.Parallel()
	for _, p := range []Price{{Input: 3_000_000, Output: 15_000_000}, {Input: 3_000_000, CacheWrite: 3_750_000, CacheWriteLong: 6_000_000, Output: 15_000_000}, {Input: 1, Output: 7}, {Output: 999_999}, {Input: MaxRate, Output: MaxRate}} {
		for _, amount := range []Credits{0, 1, 2, 99, 12_345, Credit, 100 * Credit, 1 << 50} {
			for _, input := range []int64{0, 1, 17, 5000} {
				n := p.Affords(amount, input)
				if n < 0 {
					if p.Most(input, 0) <= amount {
						t.Errorf("%+v: %d credits afford nothing beside %d tokens, but the input is covered", p, amount, input)
					}
					continue
				}
				if cost := p.Cost(Usage{InputTokens: input, CacheWriteTokens: input, OutputTokens: n}); p.CacheWrite > 0 && cost > amount {
					t.Errorf("%+v: %d output tokens beside input that is written to a cache cost %d, more than %d", p, n, cost, amount)
				}
				if cost := p.Cost(Usage{InputTokens: input, OutputTokens: n}); cost > amount {
					t.Errorf("%+v: %d output tokens cost %d, more than %d", p, n, cost, amount)
				}
				if more := p.Most(input, n+1); n < MaxTokens && more <= amount {
					t.Errorf("%+v: %d affords more than %d tokens", p, amount, n)
				}
			}
		}
	}
	if n := (Price{Input: 5}).Affords(100, 10); n != MaxTokens {
		t.Errorf("free output affords %d tokens", n)
	}
}

func TestSaneUsage(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		u    Usage
		want bool
	}{
		{Usage{}, true},
		{Usage{InputTokens: 10, CachedTokens: 6, CacheWriteTokens: 4, OutputTokens: 5, ReasoningTokens: 5}, true},
		{Usage{InputTokens: -1}, false},
		{Usage{OutputTokens: MaxTokens + 1}, false},
		{Usage{InputTokens: 10, CachedTokens: 8, CacheWriteTokens: 4}, false},
		{Usage{OutputTokens: 4, ReasoningTokens: 5}, false},
		{Usage{InputTokens: 10, CacheWriteTokens: 4, CacheWriteLongTokens: 4}, true},
		{Usage{InputTokens: 10, CacheWriteTokens: 4, CacheWriteLongTokens: 5}, false},
	} {
		if got := c.u.Sane(); got != c.want {
			t.Errorf("Sane(%+v) = %v", c.u, got)
		}
	}
}

func TestCreditsString(t *testing.T) {
	t.Parallel()
	for c, want := range map[Credits]string{
		0: "0.00", 1: "0.000001", 10_000: "0.01", 1_500_000: "1.50", 100 * Credit: "100.00", -2_345_678: "-2.345678", -1 << 63: "-9223372036854.775808",
	} {
		if got := c.String(); got != want {
			t.Errorf("%d reads %q, want %q", int64(c), got, want)
		}
	}
}

func TestSystemJoinsTextsInOrder(t *testing.T) {
	t.Parallel()
	c := Call{Instructions: "first", Messages: []Message{
		TextMessage(RoleSystem, "second"), TextMessage(RoleUser, "hi"), TextMessage(RoleSystem, "third"), {Role: RoleSystem},
	}}
	if got, want := c.System(), "first\n\nsecond\n\nthird"; got != want {
		t.Errorf("System() = %q, want %q", got, want)
	}
	if got := (Call{}).System(); got != "" {
		t.Errorf("an empty call has the system text %q", got)
	}
}

func TestEstimateCountsBytesAndMessages(t *testing.T) {
	t.Parallel()
	if got := (Call{Messages: []Message{TextMessage(RoleUser, "abcd")}}).EstimateInput(); got != 2+4 {
		t.Errorf("four bytes in one message are %d tokens, want 6", got)
	}
	if got := (Call{Instructions: "ab", Messages: []Message{TextMessage(RoleUser, "c")}}).EstimateInput(); got != 1+8 {
		t.Errorf("three bytes in two messages are %d tokens, want 9", got)
	}
}

func TestMayGrant(t *testing.T) {
	t.Parallel()
	all, first, one := Key{Scopes: []string{"*"}}, Key{Scopes: []string{"*", "operator"}}, Key{Scopes: []string{"responses"}}
	for _, c := range []struct {
		key   Key
		scope string
		has   bool
		grant bool
	}{
		{all, "responses", true, true},
		{all, "operator", false, false},
		{all, "*", true, true},
		{first, "operator", true, true},
		{one, "responses", true, true},
		{one, "keys:write", false, false},
		{one, "*", false, false},
	} {
		if got := c.key.Has(c.scope); got != c.has {
			t.Errorf("%v has %q: %v", c.key.Scopes, c.scope, got)
		}
		if got := c.key.MayGrant(c.scope); got != c.grant {
			t.Errorf("%v may grant %q: %v", c.key.Scopes, c.scope, got)
		}
	}
}

func TestSessionStatusTransitions(t *testing.T) {
	t.Parallel()
	all := []SessionStatus{SessionQueued, SessionRunning, SessionCompleted, SessionWaiting, SessionFailed, SessionCancelled}
	legal := map[SessionStatus][]SessionStatus{
		SessionQueued:    {SessionRunning, SessionCancelled, SessionFailed},
		SessionRunning:   {SessionQueued, SessionCompleted, SessionWaiting, SessionFailed, SessionCancelled},
		SessionWaiting:   {SessionQueued, SessionFailed, SessionCancelled},
		SessionCompleted: {SessionQueued},
		SessionFailed:    {SessionQueued},
		SessionCancelled: {SessionQueued},
	}
	for _, from := range all {
		for _, to := range all {
			if got, want := from.CanBecome(to), slices.Contains(legal[from], to); got != want {
				t.Errorf("%s can become %s: %v, want %v", from, to, got, want)
			}
		}
	}
	if SessionStatus("else").CanBecome(SessionQueued) {
		t.Error("an unknown status moves")
	}
}

func TestErrorsKeepTheirCodeWhenWrapped(t *testing.T) {
	t.Parallel()
	made := Errorf(CodeQuota, "%d are left", 3).At("model")
	up := fmt.Errorf("hold: %w", made)
	if got := AsError(up); got != made || got.Param != "model" || CodeOf(up) != CodeQuota {
		t.Errorf("AsError(%v) = %v", up, got)
	}
	if CodeOf(nil) != "" {
		t.Error("no error has a code")
	}
	cause := errors.New("disk on fire at /secret")
	e := AsError(fmt.Errorf("settle: %w", cause))
	if e.Code != CodeInternal || strings.Contains(e.Message, "secret") || !errors.Is(e, cause) {
		t.Errorf("an unknown error becomes %+v", e)
	}
}

func TestHintHidesTheSecret(t *testing.T) {
	t.Parallel()
	if got := Hint("sk_abcdefghijklmnopqrstuvwxyz"); got != "sk_a…wxyz" {
		t.Errorf("Hint = %q", got)
	}
	if got := Hint("sk_short"); got != "********" {
		t.Errorf("Hint = %q", got)
	}
}

func TestAProviderIsPrintedWithoutItsKey(t *testing.T) {
	t.Parallel()
	p := Provider{Name: "anthropic", APIKey: "a-secret"}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
		for _, what := range []any{p, &p, []Provider{p}, struct{ P Provider }{p}} {
			if text := fmt.Sprintf(verb, what); strings.Contains(text, "a-secret") || strings.Contains(text, "612d736563726574") {
				t.Errorf("%s prints the key: %s", verb, text)
			}
		}
	}
}

func TestAStepGoesBackInItsOrder(t *testing.T) {
	t.Parallel()
	state := func(data string) State { return State{Wire: "w", Data: data} }
	step := Step{
		Text: "onetwo", Calls: []ToolCall{{ID: "a"}, {ID: "b"}},
		Reasoning: []Segment{{State: state("1")}, {State: state("2"), Text: 3}, {Text: 6, Phase: "late"}, {State: state("3"), Text: 6, Calls: 1}},
	}
	step.Text, step.Reasoning = "onetwosix", append(step.Reasoning, Segment{Text: 6, Calls: 2, Phase: "last"})
	var got []string
	for _, p := range step.Message().Parts {
		switch p.Kind {
		case PartText:
			got = append(got, strings.TrimSuffix(p.Text+":"+p.Phase, ":"))
		case PartCall:
			got = append(got, p.Call.ID)
		case PartReasoning:
			got = append(got, p.State.Data)
		}
	}
	if text := strings.Join(got, " "); text != "1 one 2 two a 3 b six:last" {
		t.Errorf("the parts are %s", text)
	}
	step.Reasoning = nil
	if m := step.Message(); len(m.Parts) != 3 || m.Parts[0].Text != "onetwosix" || m.Parts[1].Call.ID != "a" || m.Parts[2].Call.ID != "b" {
		t.Errorf("without reasoning: %+v", m)
	}
}
