package gateway

import (
	"errors"
	"strings"
	"testing"

	"stoa/internal/base/stoa"
	"stoa/internal/models/catalog"
	"stoa/internal/models/upstream"
	"stoa/internal/models/wire"
	"stoa/internal/testkit/fakeup"
)

// TestSmallContextServesCalls calls a server that enforces a context smaller than the default
// limit, as vLLM does.
func TestSmallContextServesCalls(t *testing.T) {
	t.Parallel()
	fake := fakeup.Start(t, fakeup.Options{Context: 4096})
	provider := fake.Provider("compatible")
	pool := upstream.New(upstream.Config{Providers: []stoa.Provider{provider}, Retries: -1})
	routes := []stoa.Route{{Provider: provider.Name, Model: "m"}}
	free := &stoa.Tariff{Input: 1, Output: 1}
	h := open(t, pool, catalog.Options{Providers: []stoa.Provider{provider}, Models: map[string]stoa.ModelChange{
		"unknown": {Family: "local", Price: free, Routes: routes},
		"known":   {Family: "local", Price: free, Routes: routes, ContextTokens: 4096},
		"wrong":   {Family: "local", Price: free, Routes: routes, DefaultOutput: 8192},
	}}, stoa.Credit)
	for name, tt := range map[string]struct {
		model string
		limit int64
		input string
		code  stoa.Code
		param string
	}{
		"no limit named":                    {model: "unknown"},
		"no limit named, known context":     {model: "known"},
		"a limit named, known context":      {model: "known", limit: 8000},
		"a limit that fits":                 {model: "unknown", limit: 1000},
		"a limit named, unknown context":    {model: "unknown", limit: 8000, code: stoa.CodeInvalidValue, param: "max_output_tokens"},
		"an operator's default that is not": {model: "wrong", code: stoa.CodeContextLength, param: "input"},
		"an input that is too long":         {model: "unknown", input: strings.Repeat("long ", 4096), code: stoa.CodeContextLength, param: "input"},
		"and with a known context":          {model: "known", input: strings.Repeat("long ", 4096), code: stoa.CodeContextLength, param: "input"},
	} {
		t.Run(name, func(t *testing.T) {
			call := stoa.Call{Messages: []stoa.Message{stoa.TextMessage(stoa.RoleUser, "hi "+tt.input)}, MaxOutputTokens: tt.limit}
			s, err := h.Respond(t.Context(), h.caller(true), Request{ID: stoa.NewID("resp"), Model: tt.model, Call: call})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			for _, err = range s.Events(t.Context()) {
			}
			if stoa.CodeOf(err) != tt.code || tt.code != "" && stoa.AsError(err).Param != tt.param {
				t.Errorf("%v", err)
			}
			if f, ok := errors.AsType[*wire.Failure](err); ok && !f.Caller {
				t.Errorf("it counts against the route: %+v", f)
			}
		})
	}
}
