package agent_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"stoa/internal/agents/tool"
	"stoa/internal/base/seal"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/base/vault"
	"stoa/internal/testkit/fakemcp"
	"stoa/internal/testkit/sessiontest"
	"stoa/internal/testkit/storetest"
)

// holder returns Tools with secrets under a master key.
func holder(t *testing.T, h *sessiontest.Fixture, key string) *tool.Tools {
	t.Helper()
	v, err := vault.Open([]seal.MasterKey{{ID: key, Key: []byte(strings.Repeat(key, seal.KeyBytes))}}, "")
	if err != nil {
		t.Fatal(err)
	}
	return &tool.Tools{Store: h.Store, Vault: v, Network: h.Tools.Network, Emit: h.Tools.Emit}
}

// A service whose master key cannot decrypt the secret of a connection runs, and withholds
// only the connection's tools; the same holds after the secret has expired. Nothing is sent,
// and with the right key, or another value, the tools are available again.
func TestASecretThatCannotBeUsedWithholdsTools(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, home storetest.Database) {
		var results told
		h := sessiontest.Build(t, home, callers(&results, func(string) []stoa.ToolCall {
			return []stoa.ToolCall{call("1", fakemcp.Act, `{}`), {ID: "2", Name: "open__act", Arguments: `{}`}}
		}))
		right, wrong := holder(t, h, "a"), holder(t, h, "b")
		f, open := fakemcp.Start(t), fakemcp.Start(t)
		var secret store.Secret
		set := func(until time.Time) {
			t.Helper()
			h.Write(func(ctx context.Context, tx *store.Tx) (err error) {
				if secret.ID == "" {
					secret, err = tx.Setup().InsertSecret(ctx, store.Secret{ID: stoa.NewID("sec"), AccountID: h.Account.ID, Name: "far", Kind: store.SecretBearer, Origin: strings.TrimSuffix(f.URL, "/"), Version: 1, Sealed: "x"})
				}
				if err != nil {
					return err
				}
				_, err = tx.Setup().SetSecret(ctx, h.Account.ID, secret.ID, func(s *store.Secret) error {
					s.ExpiresAt = until
					return right.Seal(s, "correct-horse-battery")
				})
				return err
			})
		}
		set(time.Time{})
		h.Tools = right
		a := h.Agent(using(connect(h, f, "far", func(c *store.Connection) { c.SecretID = secret.ID }), connect(h, open, "open")))
		run := func(tools *tool.Tools, message string, usable bool) {
			t.Helper()
			r := h.Service(func(c *sessiontest.Config) { c.Tools = tools })
			stop := sessiontest.Run(t, r)
			far, other := len(f.Calls()), len(open.Calls())
			s := h.Until(r, h.Begin(r, a, message), stoa.SessionCompleted)
			rows := callsOf(h, r, s)
			withheld := 0
			for _, w := range s.Withheld {
				if !strings.HasPrefix(w.Tool, "far__") || w.Reason != stoa.WithheldUnauthorized {
					t.Errorf("%s: %+v is withheld", message, w)
				}
				withheld++
			}
			want, sent := 4, 0
			if usable {
				want, sent = 0, 1
			}
			if withheld != want || len(f.Calls())-far != sent || len(open.Calls())-other != 1 || len(rows) != 1+sent || rows[len(rows)-1].Outcome != stoa.OutcomeOK {
				t.Errorf("%s: %d tools are withheld, %d requests with the secret, %d without: %+v", message, withheld, len(f.Calls())-far, len(open.Calls())-other, rows)
			}
			stop()
		}
		run(right, "the right key", true)
		run(wrong, "another key", false)
		run(right, "the right key again", true)
		set(time.Now().Add(-time.Minute))
		run(right, "expired", false)
		set(time.Now().Add(time.Hour))
		run(right, "another value", true)
		for _, seen := range f.Calls() {
			if seen.Header.Get("Authorization") != "Bearer correct-horse-battery" {
				t.Errorf("it carried %q", seen.Header.Get("Authorization"))
			}
		}
	})
}
