// Package console serves the sign-in of the console: it exchanges an API key for a session, whose
// secret is in a cookie that scripts cannot read, reports who is signed in, and ends sessions.
//
// It never stores a key. Package rest accepts the cookie on the routes of the API, package auth
// stores and verifies sessions. Its paths are not part of the contract of the API, because they change
// together with the pages. Start at [Server.Session].
package console

import (
	"context"
	"net/http"
	"time"

	"stoa/internal/base/audit"
	"stoa/internal/base/auth"
	"stoa/internal/base/contract"
	"stoa/internal/base/jsonx"
	"stoa/internal/base/rest"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/operate/member"
)

const maxBody = 4 << 10 // maximum in bytes

// A Server serves the sign-in of the console. Its fields must not change after its first use.
type Server struct {
	Base *rest.Base // required
	// Failed counts a sign-in with a wrong key, so that keys cannot be guessed. It returns the error or, if there
	// were too many from the address, CodeRateLimit. It is required.
	Failed func(r *http.Request, err error) error
	// SignIn are the identity providers that the sign-in screen offers.
	SignIn []Provider
}

// A Provider is an identity provider with the path that begins a sign-in with it.
type Provider struct {
	Name string `json:"name"`
	URL  string `json:"url"`
}

type state struct {
	SignedIn  bool           `json:"signedIn"`
	Person    *person        `json:"person"` // null if a key is signed in
	Accounts  []account      `json:"accounts"`
	KeyID     *string        `json:"keyId"` // null if a person is signed in
	ExpiresAt *contract.Time `json:"expiresAt"`
	SignIn    []Provider     `json:"signIn"`
}

type person struct {
	ID    string `json:"id"`
	Name  string `json:"name"`
	Email string `json:"email"`
}

type account struct {
	ID   string  `json:"id"`
	Name string  `json:"name"`
	Role *string `json:"role"` // null if a key is signed in
}

// SetCookie sends the secret of a session to the browser.
func (s *Server) SetCookie(w http.ResponseWriter, secret string) {
	c := s.Base.SessionCookie(secret)
	c.MaxAge = int(s.Base.Keys.SessionLife / time.Second)
	http.SetCookie(w, c)
}

// Session returns the handler of /console/session: POST signs in with a key, GET reports who is signed in,
// DELETE signs out.
func (s *Server) Session() http.Handler {
	return s.Base.Outside(maxBody, func(x *rest.Exchange) error {
		// Checked first, so that a page of another site cannot sign anybody in or out.
		if err := s.Base.SameOrigin(x.HTTP); err != nil {
			return err
		}
		switch x.HTTP.Method {
		case http.MethodGet:
			return s.show(x)
		case http.MethodPost:
			return s.begin(x)
		case http.MethodDelete:
			return s.end(x)
		}
		x.Header().Set("Allow", "DELETE, GET, POST")
		return stoa.Errorf(stoa.CodeMethodNotAllowed, "%s is not a method of this path; use GET, POST or DELETE.", x.HTTP.Method)
	})
}

func (s *Server) show(x *rest.Exchange) error {
	var shown state
	err := s.Base.Store.Read(x.Context(), func(tx *store.Tx) (err error) {
		session, found, err := s.Base.Keys.Session(x.Context(), tx, s.Base.Session(x.HTTP))
		if err != nil {
			return err
		}
		if !found {
			session = stoa.ConsoleSession{}
		}
		shown, err = s.stateOf(x.Context(), tx, session)
		return err
	})
	return rest.Answer(x, rest.Reply[state]{Body: shown}, err)
}

// begin exchanges a key for a session, which replaces the session of the request.
func (s *Server) begin(x *rest.Exchange) error {
	raw, err := s.Base.ReadBody(x, x.HTTP)
	if err != nil {
		return err
	}
	var body struct {
		Key string `json:"key"`
	}
	if err := jsonx.UnmarshalKnown(raw, &body); err != nil {
		return stoa.Errorf(stoa.CodeInvalidJSON, `The body must be JSON with one member, "key".`).Because(err)
	}
	c, err := s.Base.Keys.Verify(x.Context(), "Bearer "+body.Key)
	x.Log.Caller = c
	switch stoa.CodeOf(err) {
	case "":
	case stoa.CodeUnauthorized:
		return s.Failed(x.HTTP, err)
	default:
		return err
	}
	var shown state
	var secret string
	err = s.Base.Store.Write(x.Context(), func(tx *store.Tx) (err error) {
		if err := s.Base.Keys.EndSession(x.Context(), tx, s.Base.Session(x.HTTP)); err != nil {
			return err
		}
		session := stoa.ConsoleSession{KeyID: c.Key.ID, ExpiresAt: tx.Now.Add(s.Base.Keys.SessionLife)}
		if secret, err = s.Base.Keys.BeginSession(x.Context(), tx, session); err != nil {
			return err
		}
		tx.Audit(audit.Entry{
			AccountID: c.Account.ID, Actor: c.Key.ID, Action: "signIn", Object: c.Key.ID,
			RequestID: x.Log.ID, Address: s.Base.LoggedAddress(x.HTTP),
		})
		shown, err = s.stateOf(x.Context(), tx, session)
		return err
	})
	if err != nil {
		return err
	}
	s.SetCookie(x, secret)
	return rest.Answer(x, rest.Reply[state]{Status: http.StatusCreated, Body: shown}, nil)
}

func (s *Server) end(x *rest.Exchange) error {
	err := s.Base.Store.Write(x.Context(), func(tx *store.Tx) error {
		return s.Base.Keys.EndSession(x.Context(), tx, s.Base.Session(x.HTTP))
	})
	if err != nil {
		return err
	}
	c := s.Base.SessionCookie("")
	c.MaxAge = -1
	http.SetCookie(x, c)
	http.SetCookie(x, s.Base.SignedOut(true))
	return rest.Answer(x, rest.NoContent(), nil)
}

// stateOf returns the state of a session. The zero value is not signed in, nor is a session whose key or
// memberships have ended.
func (s *Server) stateOf(ctx context.Context, tx *store.Tx, session stoa.ConsoleSession) (state, error) {
	out := state{Accounts: []account{}, SignIn: append([]Provider{}, s.SignIn...)}
	if session.KeyID != "" {
		key, a, err := keyOf(ctx, tx, session.KeyID)
		if err != nil {
			return out, err
		}
		if auth.InForce(key, tx.Now) {
			out.KeyID = &key.ID
			out.Accounts = append(out.Accounts, account{ID: a.ID, Name: a.Name})
		}
	}
	if session.PersonID != "" {
		p, err := tx.People().Person(ctx, session.PersonID)
		if err != nil {
			return out, err
		}
		out.Person = &person{ID: p.ID, Name: p.Name, Email: p.Email}
		accounts, err := tx.People().ConsoleAccounts(ctx, p.ID, member.MaxMemberships)
		if err != nil {
			return out, err
		}
		for _, a := range accounts {
			out.Accounts = append(out.Accounts, account{ID: a.ID, Name: a.Name, Role: &a.Role})
		}
	}
	if out.SignedIn = len(out.Accounts) > 0; out.SignedIn {
		out.ExpiresAt = new(contract.Time(session.ExpiresAt))
	} else {
		out.Person = nil
	}
	return out, nil
}

func keyOf(ctx context.Context, tx *store.Tx, id string) (key stoa.Key, a stoa.Account, err error) {
	accountID, err := tx.People().AccountOfKey(ctx, id)
	if err != nil {
		return key, a, err
	}
	if key, err = tx.People().Key(ctx, accountID, id); err != nil {
		return key, a, err
	}
	a, err = tx.Books().Account(ctx, accountID)
	return key, a, err
}
