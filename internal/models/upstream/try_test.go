package upstream

import (
	"net/http"
	"testing"
	"testing/synctest"

	"stoa/internal/base/stoa"
)

type silent struct{}

func (silent) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

func TestATryEndsAfterItsTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := New(Config{Providers: []stoa.Provider{{Name: "claude", Wire: "messages", BaseURL: "http://claude.example", APIKey: "k"}}, Transport: silent{}})
		got, err := p.Try(t.Context(), "acc_a", "alpha-1", stoa.Route{Provider: "claude", Wire: "messages", Model: "claude-1"})
		if err != nil || got.Failed != stoa.CodeUpstreamTimeout || got.Duration != TryTime || got.Attempts != 1 || got.Status != 0 {
			t.Errorf("%+v, %v", got, err)
		}
	})
}
