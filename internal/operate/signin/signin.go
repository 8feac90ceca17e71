// Package signin lets people sign in to the console: with invitations and sign-in links at
// /console/join, and with identity providers of OpenID Connect at /signin/{name}.
//
// A person is an issuer and a subject, never an email address. The package identifies the
// person and begins a session of the console; package member decides what the person may do. It never
// logs or returns a reply of an identity provider, because that can contain tokens. oidc.go talks to identity
// providers, flow.go contains the steps of a sign-in with one, join.go the links. Start at [Server.Routes].
package signin

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"stoa/internal/base/audit"
	"stoa/internal/base/config"
	"stoa/internal/base/contract"
	"stoa/internal/base/jsonx"
	"stoa/internal/base/ratelimit"
	"stoa/internal/base/rest"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/base/vault"
	"stoa/internal/operate/member"
)

// A Server serves the sign-in. Its fields are required and must not change after [Server.Routes].
type Server struct {
	*rest.Base
	Members   *member.Members
	Vault     *vault.Vault // seals the state of a sign-in
	Providers []config.OIDC
	// Client sends requests to identity providers.
	Client http.RoundTripper
	// Page shows a page with a title and a text.
	Page func(w http.ResponseWriter, status int, title, text string)
	// Begin sets the cookie of a session of the console.
	Begin func(w http.ResponseWriter, secret string)
	// EndObjects ends the objects that a revoked key created.
	EndObjects func(ctx context.Context, accountID, keyID string) error

	providers map[string]*provider
	failures  failures
	starts    ratelimit.Rates // begun sign-ins with an identity provider, by slots of addresses
}

// Routes mounts /console/join and the paths below /signin.
func (s *Server) Routes(mux *http.ServeMux) {
	s.providers = map[string]*provider{}
	for _, p := range s.Providers {
		s.providers[p.Name] = newProvider(p, s.PublicURL, s.Client)
	}
	mux.Handle("POST /console/join", s.Outside(maxJoin, s.join))
	mux.Handle("GET /signin/{name}", s.Outside(0, s.start))
	mux.Handle("GET /signin/{name}/callback", s.Outside(0, s.callback))
}

// begin begins a session for a person in tx, and records the sign-in in the audit log of each account. It
// returns the session's secret.
func (s *Server) begin(ctx context.Context, tx *store.Tx, r *http.Request, requestID, personID, by string) (secret string, err error) {
	memberships, err := tx.People().MembershipsOf(ctx, personID, member.MaxMemberships)
	if err != nil {
		return "", err
	}
	if len(memberships) == 0 {
		return "", errNotMember
	}
	after, err := jsonx.Marshal(map[string]string{"id": personID, "by": by})
	if err != nil {
		return "", err
	}
	for _, m := range memberships {
		tx.Audit(audit.Entry{AccountID: m.AccountID, Actor: m.KeyID, Action: "signIn", Object: personID, RequestID: requestID, Address: s.LoggedAddress(r), After: string(after)})
	}
	if err := tx.People().SignedIn(ctx, personID); err != nil {
		return "", err
	}
	if s.Keys.PauseAfter > 0 {
		s.Keys.ForgetAfter(tx) // so that paused keys work immediately
	}
	return s.Keys.BeginSession(ctx, tx, stoa.ConsoleSession{PersonID: personID})
}

var errNotMember = stoa.Errorf(stoa.CodeScope, "You have signed in, but you are not a member of any account of this service. Ask an owner of an account to invite you.")

// failures counts failed sign-ins until [Server.Run] records them, because a row for each would let strangers
// fill the audit log.
type failures struct {
	mu     sync.Mutex
	counts map[failure]int
}

// A failure is a kind of failed sign-in from one network. address is empty unless the configuration stores
// addresses; network still separates the counts.
type failure struct{ network, address, reason string }

// maxFailures is the maximum number of rows for one minute; further networks share one row.
const maxFailures = 1000

// Failed counts a sign-in that failed because of the person. It returns the error, or CodeRateLimit if too many came
// from the network.
func (s *Server) Failed(r *http.Request, err error) error {
	if contract.Code(stoa.CodeOf(err)).Status >= http.StatusInternalServerError {
		return err // a fault of this service or of the identity provider
	}
	f := failure{network: s.ClientAddress(r), address: s.LoggedAddress(r), reason: string(contract.Code(stoa.CodeOf(err)).Code)}
	s.failures.mu.Lock()
	defer s.failures.mu.Unlock()
	if s.failures.counts == nil {
		s.failures.counts = map[failure]int{}
	}
	if _, known := s.failures.counts[f]; !known && len(s.failures.counts) >= maxFailures {
		f = failure{reason: "more"}
	}
	s.failures.counts[f]++
	return s.WrongSecret(r, err)
}

// Run records failed sign-ins in the audit log every minute until ctx ends, and then once more: a row with a
// count for each network.
func (s *Server) Run(ctx context.Context) error {
	t := time.NewTicker(time.Minute)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			if err := s.Flush(ctx); err != nil {
				s.Logger.Error("failed sign-ins could not be recorded in the audit log", "error", err)
			}
		case <-ctx.Done():
			return s.Flush(context.WithoutCancel(ctx))
		}
	}
}

// Flush records the failed sign-ins since the last call. After an error they are lost.
func (s *Server) Flush(ctx context.Context) error {
	s.failures.mu.Lock()
	counts := s.failures.counts
	s.failures.counts = nil
	s.failures.mu.Unlock()
	if len(counts) == 0 {
		return nil
	}
	return s.Store.Write(ctx, func(tx *store.Tx) error {
		for f, n := range counts {
			after, err := jsonx.Marshal(struct {
				Count  int    `json:"count"`
				Reason string `json:"reason"`
			}{n, f.reason})
			if err != nil {
				return err
			}
			tx.Audit(audit.Entry{AccountID: audit.Service, Actor: audit.Service, Action: "sign_in.failed", Object: "signIn", Address: f.address, After: string(after)})
		}
		return nil
	})
}

// names returns the names of the identity providers in configured order.
func (s *Server) names() []string {
	names := make([]string, len(s.Providers))
	for i, p := range s.Providers {
		names[i] = p.Name
	}
	return names
}

// clean returns a text of an identity provider for display, without control characters and shortened to limit
// characters.
func clean(text string, limit int) string {
	runes := slices.DeleteFunc([]rune(strings.ToValidUTF8(text, "")), func(r rune) bool { return r < ' ' || r == 0x7f })
	return string(runes[:min(len(runes), limit)])
}
