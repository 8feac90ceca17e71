package tool

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"stoa/internal/agents/mcp"
	"stoa/internal/agents/oauth"
	"stoa/internal/agents/remote"
	"stoa/internal/base/outbound"
	"stoa/internal/base/seal"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/base/vault"
	"stoa/internal/testkit/storetest"
)

// authorized returns a bench with a connection to a server behind an authorization server
// whose first access token has the given lifetime. told counts the notifications.
func authorized(t *testing.T, v *vault.Vault, life time.Duration) (b *bench, demo *oauth.Demo, told *int) {
	t.Helper()
	demo, told = &oauth.Demo{Life: life, Next: mcp.Demo(false)}, new(int)
	server := httptest.NewServer(demo)
	t.Cleanup(server.Close)
	demo.Origin = server.URL
	allow, err := outbound.ParseDestinations([]string{"127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	st := storetest.New(t).Open()
	b = &bench{t: t}
	b.Tools = &Tools{
		Store: st, Vault: v, Network: outbound.New(outbound.Settings{Allow: allow}), Version: "test", Logger: slog.New(slog.DiscardHandler),
		PublicURL: "http://127.0.0.1:1", Emit: func(_ context.Context, _ *store.Tx, kind string, _ store.Connection) error {
			if kind == eventAuthorization {
				*told++
			}
			return nil
		},
	}
	b.account = storetest.Account(t, st, 0).ID
	b.write(func(ctx context.Context, tx *store.Tx) error {
		space, err := tx.Setup().DefaultSpace(ctx, b.account)
		if err != nil {
			return err
		}
		c, err := tx.Setup().InsertConnection(ctx, store.Connection{AccountID: b.account, SpaceID: space.ID, Kind: store.KindMCP, Name: "notes", URL: server.URL + "/mcp", OAuth: &store.OAuth{Grant: store.GrantCode}})
		b.connection = c.ID
		return err
	})
	begun, err := b.Authorize(t.Context(), b.account, b.connection)
	if err != nil {
		t.Fatal(err)
	}
	l := b.Land(t.Context(), answerTo(t, begun.URL))
	if l.Question == nil {
		t.Fatalf("%+v", l)
	}
	if l := b.Confirm(t.Context(), l.Question.Token, true); !l.Authorized {
		t.Fatalf("%+v", l)
	}
	return b, demo, told
}

// answerTo opens the address of an authorization, and returns the answer of its server.
func answerTo(t *testing.T, address string) url.Values {
	t.Helper()
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	to, err := resp.Location()
	if err != nil {
		t.Fatal(err)
	}
	return to.Query()
}

func newVault(t *testing.T, ids ...string) *vault.Vault {
	t.Helper()
	var keys []seal.MasterKey
	for _, id := range ids {
		keys = append(keys, seal.MasterKey{ID: id, Key: []byte(strings.Repeat(id, seal.KeyBytes)[:seal.KeyBytes])})
	}
	v, err := vault.Open(keys, "")
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func (b *bench) use(tools *Tools) error {
	c, err := tools.connection(b.t.Context(), b.account, b.connection)
	if err == nil {
		_, err = tools.token(b.t.Context(), c, "")
	}
	return err
}

// TestManyUsesRefreshOnce checks that a refresh token is used once: most servers, and this
// one, revoke the family of a token that is used twice.
func TestManyUsesRefreshOnce(t *testing.T) {
	t.Parallel()
	b, demo, told := authorized(t, newVault(t, "a"), 30*time.Second) // which is less than a minute
	demo.Life = time.Hour
	other := &Tools{Store: b.Store, Vault: b.Vault, Network: b.Network, Logger: b.Logger} // as on another node
	var group sync.WaitGroup
	errs := make(chan error, 50)
	for i := range 50 {
		group.Go(func() { errs <- b.use([]*Tools{b.Tools, other}[i%2]) })
	}
	group.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			t.Error(err)
		}
	}
	if n := demo.Asked("refresh_token"); n != 1 || *told != 0 {
		t.Errorf("%d requests for a refresh, %d times told", n, *told)
	}
}

func TestLostTokensAreToldOnce(t *testing.T) {
	t.Parallel()
	b, demo, told := authorized(t, newVault(t, "a"), 30*time.Second)
	demo.Revoke(true)
	for range 3 {
		err := b.use(b.Tools)
		if failed, ok := errors.AsType[*remote.Error](err); !ok || !failed.Unauthorized || failed.Class != remote.NotSent {
			t.Errorf("%v", err)
		}
	}
	c, err := b.Tools.connection(t.Context(), b.account, b.connection)
	if err != nil || c.ErrorCode != NeedsAuthorization || c.Authorized || *told != 1 {
		t.Errorf("%+v, told %d times: %v", c, *told, err)
	}
}

func TestIdleTokensAreRefreshed(t *testing.T) {
	t.Parallel()
	b, demo, _ := authorized(t, newVault(t, "a"), time.Hour)
	b.refreshIdle(t.Context())
	if n := demo.Asked("refresh_token"); n != 0 {
		t.Errorf("%d refreshes of tokens that are new", n)
	}
	b.write(func(ctx context.Context, tx *store.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE connection_tokens SET refreshed_at = 1`)
		return err
	})
	for range 2 {
		b.refreshIdle(t.Context())
	}
	if n := demo.Asked("refresh_token"); n != 1 || b.use(b.Tools) != nil {
		t.Errorf("%d refreshes", n)
	}
}

func TestTokensAreBoundToTheirIssuer(t *testing.T) {
	t.Parallel()
	b, _, _ := authorized(t, newVault(t, "a"), time.Hour)
	b.write(func(ctx context.Context, tx *store.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE connection_tokens SET issuer = 'https://evil.example.com'`)
		return err
	})
	if err := b.use(b.Tools); err == nil || !strings.Contains(err.Error(), "can no longer be decrypted") {
		t.Errorf("%v", err)
	}
}

// TestRekeyCoversTokens covers tokens, registered clients and pending authorizations, also
// after a run that ended halfway.
func TestRekeyCoversTokens(t *testing.T) {
	t.Parallel()
	b, _, _ := authorized(t, newVault(t, "a"), time.Hour)
	if _, err := b.Authorize(t.Context(), b.account, b.connection); err != nil {
		t.Fatal(err)
	}
	both, next := newVault(t, "b", "a"), newVault(t, "b")
	b.write(func(ctx context.Context, tx *store.Tx) error { // half of it is done
		rows, err := tx.SealedRows(ctx, "oauth_clients", "", 10)
		if err != nil || len(rows) != 1 {
			t.Errorf("%d clients: %v", len(rows), err)
			return err
		}
		r := rows[0]
		ref := vault.Ref{AccountID: r.AccountID, ID: r.ID, Kind: r.Kind, Origin: r.Origin, Version: r.Version}
		plain, err := both.Open(ref, r.Sealed)
		if err != nil {
			return err
		}
		sealed, err := both.Seal(ref, plain)
		if err == nil {
			_, err = tx.Reseal(ctx, "oauth_clients", r, sealed)
		}
		return err
	})
	b.Vault = next
	if err := b.use(b.Tools); err == nil {
		t.Error("tokens open with another key")
	}
	done, err := both.Rekey(t.Context(), b.Store)
	if err != nil || done != (vault.Rekeyed{Done: 2, Current: 1}) {
		t.Errorf("%+v: %v", done, err)
	}
	if err := b.use(b.Tools); err != nil {
		t.Errorf("after it was encrypted anew: %v", err)
	}
}

// TestAQuestionOutlivesItsProcess checks that every process may die between the page and its
// button, and that nothing is half authorized.
func TestAQuestionOutlivesItsProcess(t *testing.T) {
	t.Parallel()
	b, demo, _ := authorized(t, newVault(t, "a"), time.Hour)
	ask := func() *Question {
		begun, err := b.Authorize(t.Context(), b.account, b.connection)
		if err != nil {
			t.Fatal(err)
		}
		u, err := url.Parse(begun.URL)
		if err != nil {
			t.Fatal(err)
		}
		l := b.Land(t.Context(), url.Values{"code": {"none"}, "state": u.Query()["state"], "iss": {demo.Origin}})
		if l.Question == nil || l.Question.ExpiresAt != begun.ExpiresAt {
			t.Fatalf("%+v", l)
		}
		return l.Question
	}
	asked := ask()
	other := &Tools{Store: b.Store, Vault: newVault(t, "a"), Network: b.Network, Logger: b.Logger}
	if l := other.Confirm(t.Context(), asked.Token, true); l.Authorized || !strings.Contains(l.Message, "invalid_grant") || demo.Asked("authorization_code") != 2 {
		t.Errorf("%+v", l)
	}
	if l := b.Confirm(t.Context(), asked.Token, true); l.Authorized || demo.Asked("authorization_code") != 2 {
		t.Errorf("once more: %+v", l)
	}
	if err := b.use(b.Tools); err != nil {
		t.Errorf("what was authorized before: %v", err)
	}

	// A code that is not confirmed is removed, together with the pending authorization.
	ask()
	b.write(func(ctx context.Context, tx *store.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE oauth_states SET expires_at = 1`)
		return err
	})
	b.refreshIdle(t.Context())
	b.write(func(ctx context.Context, tx *store.Tx) error {
		if rows, err := tx.SealedRows(ctx, "oauth_states", "", 10); err != nil || len(rows) != 0 {
			t.Errorf("%d rows: %v", len(rows), err)
		}
		return nil
	})
}

// TestTokensThatCannotBeRead loses the key of a connection's tokens, or of its client's
// secret: its tools are withheld, and the reason is reported where they are needed.
func TestTokensThatCannotBeRead(t *testing.T) {
	t.Parallel()
	b, _, _ := authorized(t, newVault(t, "a"), time.Hour)
	var secret store.Secret
	refused := func(keys *vault.Vault) (is bool) {
		b.write(func(ctx context.Context, tx *store.Tx) error {
			c, err := tx.Setup().LocateConnection(ctx, b.account, b.connection)
			if err == nil {
				is, err = unauthorized(ctx, tx, Audience{AccountID: b.account}, *c, keys)
			}
			return err
		})
		return is
	}
	drop := func() {
		b.write(func(ctx context.Context, tx *store.Tx) error {
			row, err := tx.Setup().Tokens(ctx, b.account, b.connection)
			if err == nil {
				_, err = tx.Setup().DropTokens(ctx, *row)
			}
			return err
		})
	}
	for _, step := range []struct {
		name        string
		change      func()
		have, other bool
	}{
		{"of a user", func() {}, false, true},
		{"of a client", func() {
			b.write(func(ctx context.Context, tx *store.Tx) error {
				secret = store.Secret{ID: stoa.NewID("sec"), AccountID: b.account, Name: "client", Kind: store.SecretBearer, Origin: "https://as.example.com", Version: 1}
				err := b.Seal(&secret, "correct-horse")
				if err == nil {
					_, err = tx.Setup().InsertSecret(ctx, secret)
				}
				if err == nil {
					_, err = tx.Setup().EditConnection(ctx, b.account, b.connection, func(c *store.Connection) error {
						c.OAuth.Grant, c.ClientSecretID = store.GrantClient, secret.ID
						return nil
					})
				}
				return err
			})
		}, false, true},
		{"of a client before its first", drop, false, true},
		{"of a user before the first", func() {
			b.write(func(ctx context.Context, tx *store.Tx) error {
				_, err := tx.Setup().EditConnection(ctx, b.account, b.connection, func(c *store.Connection) error {
					c.OAuth.Grant = store.GrantCode
					return nil
				})
				return err
			})
		}, true, true},
	} {
		step.change()
		if have, other, none := refused(b.Vault), refused(newVault(t, "b")), refused(nil); have != step.have || other != step.other || none != step.have {
			t.Errorf("tokens %s: %t with the key, %t with another, %t when nobody looks", step.name, have, other, none)
		}
	}
}

func TestALostKeyOfTokensIsToldOf(t *testing.T) {
	t.Parallel()
	b, _, _ := authorized(t, newVault(t, "a"), time.Hour)
	var log bytes.Buffer
	other := &Tools{Store: b.Store, Vault: newVault(t, "b"), Network: b.Network, Logger: slog.New(slog.NewTextHandler(&log, nil))}
	if failed, ok := errors.AsType[*remote.Error](b.use(other)); !ok || !failed.Unauthorized || failed.Class != remote.NotSent {
		t.Errorf("%v", failed)
	}
	if line := log.String(); !strings.Contains(line, `level=ERROR msg="a secret cannot be read" account=`+b.account+" connection="+b.connection) {
		t.Errorf("the log has %q", line)
	}
}

// TestAnOldServerHasNoMetadata has an authorization server without metadata, as the protocol's
// version 2025-03-26 allows: its endpoints are those of that version. A server that has none
// of them is not an authorization server.
func TestAnOldServerHasNoMetadata(t *testing.T) {
	t.Parallel()
	b, demo, _ := authorized(t, newVault(t, "a"), time.Hour)
	for register, want := range map[bool]string{true: "", false: "No authorization server was found"} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case strings.HasPrefix(r.URL.Path, "/.well-known/") || r.URL.Path == "/register" && !register:
				http.NotFound(w, r)
			case r.URL.Path == "/mcp" && r.Header.Get("Authorization") == "":
				w.WriteHeader(http.StatusUnauthorized)
			default:
				demo.ServeHTTP(w, r)
			}
		}))
		defer server.Close()
		b.write(func(ctx context.Context, tx *store.Tx) error {
			_, err := tx.Setup().EditConnection(ctx, b.account, b.connection, func(c *store.Connection) error {
				c.URL = server.URL + "/mcp"
				return nil
			})
			return err
		})
		begun, err := b.Authorize(t.Context(), b.account, b.connection)
		if want != "" {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%+v, %v", begun, err)
			}
			continue
		}
		if err != nil || !strings.HasPrefix(begun.URL, server.URL+"/authorize?") {
			t.Fatalf("%+v, %v", begun, err)
		}
		demo.Redirect = func(answer url.Values) { answer.Del("iss") }
		if l := b.Land(t.Context(), answerTo(t, begun.URL)); l.Question == nil || !b.Confirm(t.Context(), l.Question.Token, true).Authorized {
			t.Errorf("%+v", l)
		}
	}
}
