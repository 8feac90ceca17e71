package signin_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"stoa/internal/base/audit"
	"stoa/internal/base/config"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/testkit/apitest"
	"stoa/internal/testkit/apitest/plans"
	"stoa/internal/testkit/fakeidp"
	"stoa/internal/testkit/storetest"
)

func TestMain(m *testing.M) { os.Exit(plans.Checked(storetest.Both(m)).Run()) }

type object = map[string]any

// service is a service with an identity provider.
type service struct {
	*apitest.Service
	t   *testing.T
	idp *fakeidp.Provider
	log *lockedBuffer
}

type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// start starts a service. change changes the settings of the identity provider; with nil there is
// none.
func start(t *testing.T, change func(*config.OIDC)) *service {
	t.Helper()
	s := &service{t: t, log: &lockedBuffer{}}
	cfg := apitest.Config{Idle: true, Logger: slog.New(slog.NewTextHandler(s.log, nil))}
	if change != nil {
		s.idp = fakeidp.New(t)
		p := config.OIDC{Name: "corp", Issuer: s.idp.Issuer, ClientID: fakeidp.ClientID}
		change(&p)
		cfg.SignIn = []config.OIDC{p}
	}
	s.Service = apitest.Start(t, cfg)
	return s
}

// A browser keeps cookies and follows no redirect.
type browser struct {
	*service
	http *http.Client
}

func (s *service) browser() browser {
	jar, err := cookiejar.New(nil)
	if err != nil {
		s.t.Fatal(err)
	}
	transport := &http.Transport{}
	s.t.Cleanup(transport.CloseIdleConnections)
	return browser{s, &http.Client{Jar: jar, Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

// do sends a request and returns the status, the Location and the body.
func (b browser) do(method, address string, body any, headers ...string) (int, string, string) {
	b.t.Helper()
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			b.t.Fatal(err)
		}
		content = bytes.NewReader(text)
	}
	if strings.HasPrefix(address, "/") {
		address = b.URL + address
	}
	r, err := http.NewRequestWithContext(b.t.Context(), method, address, content)
	if err != nil {
		b.t.Fatal(err)
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := b.http.Do(r)
	if err != nil {
		b.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	if strings.Contains(string(text), fakeidp.Secret) {
		b.t.Errorf("%s %s repeats the identity provider: %s", method, address, text)
	}
	return resp.StatusCode, resp.Header.Get("Location"), string(text)
}

// signIn signs in with the identity provider, and returns the status and the page.
func (b browser) signIn() (int, string) {
	b.t.Helper()
	status, location, page := b.do("GET", "/signin/corp", nil)
	if status != http.StatusSeeOther {
		return status, page
	}
	status, _, page = b.do("GET", b.idp.SignIn(b.t, location), nil)
	return status, page
}

// account returns the status of a request in an account with the session of the browser.
func (b browser) account(id string) int {
	b.t.Helper()
	status, _, _ := b.do("GET", "/api/v1/users/me", nil, "Stoa-Account", id)
	return status
}

// invite creates an invitation and returns its token.
func (s *service) invite(body object) string {
	s.t.Helper()
	var made struct{ Link string }
	s.Client(s.t).Want(201, "POST", "/api/v1/members", body).JSON(&made)
	_, token, ok := strings.Cut(made.Link, s.URL+"/join#")
	if !ok {
		s.t.Fatalf("the link is %q", made.Link)
	}
	return token
}

func (s *service) members() (list []store.MemberRow) {
	s.t.Helper()
	if err := s.Store.Read(s.t.Context(), func(tx *store.Tx) (err error) {
		list, _, err = tx.People().Members(s.t.Context(), s.Account.ID, "", store.Page{Limit: 100, Asc: true})
		return err
	}); err != nil {
		s.t.Fatal(err)
	}
	return list
}

// audited returns the entries of a chain with an action.
func (s *service) audited(account, action string) (list []audit.Entry) {
	s.t.Helper()
	if err := s.Store.Read(s.t.Context(), func(tx *store.Tx) error {
		_, rows, err := tx.People().AuditRows(s.t.Context(), account, 0, 1000)
		for _, e := range rows {
			if e.Action == action {
				list = append(list, e)
			}
		}
		return err
	}); err != nil {
		s.t.Fatal(err)
	}
	return list
}

// TestJoinWithANewAccount accepts an invitation without an account twice: it creates one account, whose owner
// the person is.
func TestJoinWithANewAccount(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	operator := s.Client(t)
	var made struct{ ID, Link, AccountName string }
	operator.Want(201, "POST", "/api/v1/accounts/invitations", object{"accountName": "Acme", "plan": "pro", "grantMicro": 5_000_000, "name": "Ada"}).JSON(&made)
	_, token, _ := strings.Cut(made.Link, "#")
	var accounts, invitations struct {
		Data []struct {
			ID, Name, Plan string
			Credits        struct{ AvailableMicro int64 }
			GrantMicro     int64
		}
	}
	operator.Want(200, "GET", "/api/v1/invitations", nil).JSON(&invitations)
	if len(invitations.Data) != 1 || invitations.Data[0].Plan != "pro" || invitations.Data[0].GrantMicro != 5_000_000 {
		t.Errorf("the invitations are %+v", invitations)
	}
	b := s.browser()
	if status, _, text := b.do("POST", "/console/join", object{"token": token, "look": true}); status != 200 || !strings.Contains(text, `"accountName":"Acme"`) {
		t.Errorf("a look: %d %s", status, text)
	}
	var in struct{ AccountID string }
	status, _, text := b.do("POST", "/console/join", object{"token": token})
	if err := json.Unmarshal([]byte(text), &in); status != 200 || err != nil || in.AccountID == s.Account.ID || b.account(in.AccountID) != 200 || b.account(s.Account.ID) == 200 {
		t.Fatalf("the invitation: %d %s", status, text)
	}
	if status, _, _ := s.browser().do("POST", "/console/join", object{"token": token}); status != 410 {
		t.Errorf("again: %d", status)
	}
	operator.Want(200, "GET", "/api/v1/accounts?q=acme", nil).JSON(&accounts)
	if len(accounts.Data) != 1 || accounts.Data[0].ID != in.AccountID || accounts.Data[0].Plan != "pro" || accounts.Data[0].Credits.AvailableMicro != 5_000_000 {
		t.Errorf("the accounts are %+v", accounts)
	}
	var members struct{ Data []struct{ Name, Role string } }
	operator.Want(200, "GET", "/api/v1/members?accountId="+in.AccountID, nil).JSON(&members)
	if len(members.Data) != 1 || members.Data[0].Role != "owner" || members.Data[0].Name != "Ada" {
		t.Errorf("the members are %+v", members)
	}
	if rows := s.audited(in.AccountID, "account.created"); len(rows) != 1 {
		t.Errorf("the creation is recorded as %+v", rows)
	}
	if e := operator.WantError(stoa.CodeInvalidValue, "POST", "/api/v1/accounts/invitations", object{"accountName": "Acme", "plan": "gold"}); e.Param == nil || *e.Param != "plan" {
		t.Errorf("an unknown plan: %+v", e)
	}
}

func TestJoinWithALink(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	b := s.browser()
	token := s.invite(object{"role": "member", "name": "Ada"})
	for range 2 {
		status, _, text := b.do("POST", "/console/join", object{"token": token, "look": true})
		if status != 200 || !strings.Contains(text, `"accountId":"`+s.Account.ID+`"`) || !strings.Contains(text, `"personName":"Ada"`) || !strings.Contains(text, `"kind":"invitation"`) || len(s.members()) != 0 {
			t.Fatalf("a look: %d %s", status, text)
		}
	}
	for name, headers := range map[string][]string{"another site": {"Origin", "https://evil.example"}, "another site's fetch": {"Sec-Fetch-Site", "cross-site"}} {
		if status, _, text := b.do("POST", "/console/join", object{"token": token}, headers...); status != 403 || len(s.members()) != 0 {
			t.Errorf("%s: %d %s", name, status, text)
		}
	}
	if status, _, _ := b.do("GET", "/console/join", nil); status != 404 {
		t.Errorf("a GET of the path: %d", status)
	}
	if status, _, text := b.do("POST", "/console/join", object{"token": token}); status != 200 || b.account(s.Account.ID) != 200 {
		t.Fatalf("the invitation: %d %s", status, text)
	}
	other := s.browser()
	if status, _, text := other.do("POST", "/console/join", object{"token": token}); status != 410 || !strings.Contains(text, "invitation_ended") {
		t.Errorf("a used invitation: %d %s", status, text)
	}
	m := s.members()[0]
	if rows := s.audited(s.Account.ID, "signIn"); len(rows) != 1 || rows[0].Actor != m.KeyID || rows[0].Object != m.PersonID {
		t.Errorf("the sign-in is recorded as %+v", rows)
	}
	// A sign-in link begins another session of the same person.
	var link struct{ Link string }
	s.Client(t).Want(201, "POST", "/api/v1/members/"+m.PersonID+"/link", nil).JSON(&link)
	_, token, _ = strings.Cut(link.Link, "#")
	if _, _, text := other.do("POST", "/console/join", object{"token": token, "look": true}); !strings.Contains(text, `"kind":"signIn"`) || !strings.Contains(text, `"personName":"Ada"`) {
		t.Errorf("a look at a sign-in link: %s", text)
	}
	if status, _, _ := other.do("POST", "/console/join", object{"token": token}); status != 200 || other.account(s.Account.ID) != 200 || len(s.members()) != 1 {
		t.Errorf("the sign-in link: %d", status)
	}
	// The end of the membership ends both sessions.
	s.Client(t).Want(204, "DELETE", "/api/v1/members/"+m.PersonID, nil)
	if b.account(s.Account.ID) != 401 || other.account(s.Account.ID) != 401 {
		t.Error("a removed member still has a session")
	}
}

func TestTwoJoinWithOneLink(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	token := s.invite(object{"role": "member"})
	statuses := make([]int, 4)
	var all sync.WaitGroup
	for i := range statuses {
		b := s.browser()
		all.Go(func() { statuses[i], _, _ = b.do("POST", "/console/join", object{"token": token}) })
	}
	all.Wait()
	slices.Sort(statuses)
	if !slices.Equal(statuses, []int{200, 410, 410, 410}) || len(s.members()) != 1 {
		t.Errorf("the statuses are %v, and there are %d members", statuses, len(s.members()))
	}
}

func TestWrongTokensAreLimited(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	b := s.browser()
	for i, body := range []any{object{"token": "inv_x"}, object{"token": "sk_x"}, object{}, object{"token": strings.Repeat("x", 5000)}, "no object"} {
		want := []int{410, 410, 410, 413, 400}[i]
		if status, _, text := b.do("POST", "/console/join", body); status != want {
			t.Errorf("%.40v: %d %s", body, status, text)
		}
	}
	limited := false
	for range 70 {
		status, _, _ := b.do("POST", "/console/join", object{"token": "inv_x"})
		limited = limited || status == 429
	}
	if !limited {
		t.Error("guesses are not limited")
	}
	if err := s.SignIn.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	rows := s.audited(audit.Service, "sign_in.failed")
	if len(rows) != 1 || !strings.Contains(rows[0].After, `"count":73`) || !strings.Contains(rows[0].After, "invitation_ended") || rows[0].Address != "" {
		t.Errorf("the failures are recorded as %+v", rows)
	}
}

func TestSignInByGroups(t *testing.T) {
	t.Parallel()
	s := start(t, func(p *config.OIDC) {
		p.Groups = []config.GroupRule{{Group: "ops", Role: "owner", Operator: "admin"}, {Group: "ml", Account: "acc_none", Role: "member"}, {Group: "staff", Role: "viewer"}, {Group: "help", Operator: "support"}}
	})
	b := s.browser()
	s.idp.Set(object{"groups": []string{}})
	if status, page := b.signIn(); status != 403 || !strings.Contains(page, "not a member of any account") || len(s.members()) != 0 {
		t.Fatalf("without groups: %d %s", status, page)
	}
	if log := s.log.String(); !strings.Contains(log, `has 0 groups`) {
		t.Errorf("the log is %s", log)
	}
	role := func(groups any) string {
		t.Helper()
		s.idp.Set(object{"groups": groups})
		status, page := b.signIn()
		members := s.members()
		if len(members) == 0 {
			return page
		}
		if status != http.StatusSeeOther {
			t.Fatalf("%v: %d %s", groups, status, page)
		}
		m := members[0]
		return m.Role + "/" + m.OperatorRole + "/" + m.Source
	}
	if got := role([]string{"staff", "ml", "else"}); got != "viewer//group" || b.account(s.Account.ID) != 200 {
		t.Errorf("staff are %s", got)
	}
	if got := role([]string{"help"}); got != "viewer/support/group" {
		t.Errorf("help is %s", got)
	}
	first := s.members()[0]
	actsBy := func() (k stoa.Key) {
		t.Helper()
		if err := s.Store.Read(t.Context(), func(tx *store.Tx) (err error) {
			k, err = tx.People().Key(t.Context(), s.Account.ID, first.KeyID)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return k
	}
	since := actsBy().SignedInAt
	if first.Person.Name != "Ada" || first.Person.Email != "ada@example.com" || first.Person.Issuer != s.idp.Issuer || first.Person.Subject != "ada" {
		t.Errorf("the person is %+v", first.Person)
	}
	if got := role([]string{"staff", "ops", "help"}); got != "owner/admin/group" || b.account(s.Account.ID) != 200 {
		t.Errorf("of several groups the highest role wins: %s", got)
	}
	if at := actsBy().SignedInAt; !at.After(since) {
		t.Errorf("the keys know of a sign-in at %v, want after %v", at, since)
	}
	// The last owner stays an owner, and is an operator no longer.
	if got := role([]string{"staff"}); got != "owner//group" {
		t.Errorf("the last owner becomes %s", got)
	}
	s.NewMember(s.Account.ID, "owner", "")
	if got := role("staff"); got != "viewer//group" {
		t.Errorf("with another owner and one group as a text: %s", got)
	}
	// The same address of another subject, and another address of the same subject.
	s.idp.Set(object{"sub": "eve"})
	other := s.browser()
	if status, _ := other.signIn(); status != http.StatusSeeOther || len(s.members()) != 3 {
		t.Errorf("another subject with the same email: %d, %d members", status, len(s.members()))
	}
	s.idp.Set(object{"sub": "ada", "email": "new@example.com", "email_verified": false, "groups": []string{}})
	if status, _ := b.signIn(); status != 403 || len(s.members()) != 2 || b.account(s.Account.ID) != 401 {
		t.Errorf("without a group: %d, %d members", status, len(s.members()))
	}
	for action, want := range map[string]int{"member.added": 2, "member.changed": 4, "member.kept": 1, "member.removed": 1} {
		if rows := s.audited(s.Account.ID, action); len(rows) != want {
			t.Errorf("%s is recorded %d times, want %d", action, len(rows), want)
		}
	}
}

// TestGroupsMoveAPerson moves the only membership of a person to another account.
func TestGroupsMoveAPerson(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, home storetest.Database) {
		idp := fakeidp.New(t)
		st := home.Open()
		storetest.Account(t, st, stoa.Credit) // the operator's
		one, two := storetest.Account(t, st, stoa.Credit).ID, storetest.Account(t, st, stoa.Credit).ID
		if err := st.Close(); err != nil {
			t.Fatal(err)
		}
		h := apitest.Start(t, apitest.Config{Idle: true, Home: &home, SignIn: []config.OIDC{{Name: "corp", Issuer: idp.Issuer, ClientID: fakeidp.ClientID, Groups: []config.GroupRule{
			{Group: "a", Account: one, Role: "member"}, {Group: "b", Account: two, Role: "viewer"},
		}}}})
		s := &service{Service: h, t: t, idp: idp, log: &lockedBuffer{}}
		b := s.browser()
		for _, step := range []struct {
			groups   []string
			one, two int
		}{{[]string{"a"}, 200, 401}, {[]string{"b"}, 401, 200}, {[]string{"a", "b"}, 200, 200}, {[]string{"a"}, 200, 401}} {
			idp.Set(object{"groups": step.groups})
			if status, page := b.signIn(); status != http.StatusSeeOther {
				t.Fatalf("%v: %d %s", step.groups, status, page)
			}
			if b.account(one) != step.one || b.account(two) != step.two {
				t.Errorf("%v: %d and %d", step.groups, b.account(one), b.account(two))
			}
		}
		idp.Set(object{"groups": []string{}})
		if status, _ := b.signIn(); status != http.StatusForbidden || b.account(one) != 401 {
			t.Errorf("without groups: %d", status)
		}
		err := h.Store.Read(t.Context(), func(tx *store.Tx) error {
			people := 0
			_, err := tx.Get(t.Context(), `SELECT COUNT(*) FROM people`, nil, &people)
			if people != 0 {
				t.Errorf("%d people are kept", people)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}

func TestInvitedByAnIdentityProvider(t *testing.T) {
	t.Parallel()
	s := start(t, staff)
	s.idp.Set(object{"groups": []string{}})
	b := s.browser()
	token := s.invite(object{"role": "member"})
	if status, _, text := b.do("POST", "/console/join", object{"token": token, "signIn": "other"}); status != 400 || !strings.Contains(text, "corp") {
		t.Errorf("an unknown identity provider: %d %s", status, text)
	}
	accept := func(token string) int {
		t.Helper()
		status, _, text := b.do("POST", "/console/join", object{"token": token})
		var reply struct{ Location string }
		if err := json.Unmarshal([]byte(text), &reply); err != nil || status != 200 || reply.Location == "" {
			t.Fatalf("%d %s", status, text)
		}
		status, _, _ = b.do("GET", s.idp.SignIn(t, reply.Location), nil)
		return status
	}
	if got := accept(token); got != http.StatusSeeOther || b.account(s.Account.ID) != 200 {
		t.Fatalf("the invitation: %d", got)
	}
	m := s.members()[0]
	if m.Role != "member" || m.Source != "invited" || m.Person.Issuer != s.idp.Issuer {
		t.Errorf("the member is %+v", m)
	}
	s.idp.Set(object{"groups": []string{"staff"}})
	if status, _ := b.signIn(); status != http.StatusSeeOther || s.members()[0].Role != "member" {
		t.Errorf("groups change an invited member: %d %+v", status, s.members()[0])
	}
	// An invitation never lowers a role.
	if got := accept(s.invite(object{"role": "viewer"})); got != http.StatusSeeOther || s.members()[0].Role != "member" || len(s.members()) != 1 {
		t.Errorf("a second invitation: %d %+v", got, s.members())
	}
	// Of two who return with one invitation, one is a member.
	token = s.invite(object{"role": "owner"})
	two := s.browser()
	_, _, one := b.do("POST", "/console/join", object{"token": token})
	_, _, other := two.do("POST", "/console/join", object{"token": token})
	var first, second struct{ Location string }
	if json.Unmarshal([]byte(one), &first) != nil || json.Unmarshal([]byte(other), &second) != nil {
		t.Fatal(one, other)
	}
	if status, _, _ := b.do("GET", s.idp.SignIn(t, first.Location), nil); status != http.StatusSeeOther {
		t.Errorf("the first: %d", status)
	}
	s.idp.Set(object{"sub": "eve", "groups": []string{}})
	if status, _, page := two.do("GET", s.idp.SignIn(t, second.Location), nil); status != 410 || len(s.members()) != 1 {
		t.Errorf("the second: %d %s", status, page)
	}
}

// TestSignInCreatesAnAccount: a person without a membership gets an account, once, and its credits once even if the
// membership ends.
func TestSignInCreatesAnAccount(t *testing.T) {
	t.Parallel()
	s := start(t, func(p *config.OIDC) { p.NewAccounts = &config.NewAccounts{Plan: "pro", GrantMicro: 7} })
	accounts := func() (list []store.AccountRow) {
		t.Helper()
		if err := s.Store.Read(t.Context(), func(tx *store.Tx) (err error) {
			list, _, err = tx.Books().Accounts(t.Context(), store.AccountFilter{}, store.Page{Asc: true})
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return list[1:] // without the operator's
	}
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			if status, page := s.browser().signIn(); status != http.StatusSeeOther {
				t.Errorf("signing in: %d %s", status, page)
			}
		})
	}
	both.Wait()
	b := s.browser()
	if status, _ := b.signIn(); status != http.StatusSeeOther {
		t.Fatalf("again: %d", status)
	}
	list := accounts()
	if len(list) != 1 || list[0].Plan != "pro" || list[0].Funds.Granted != 7 || b.account(list[0].ID) != 200 || b.account(s.Account.ID) != 401 {
		t.Fatalf("the accounts are %+v", list)
	}
	if rows := s.audited(list[0].ID, "account.created"); len(rows) != 1 {
		t.Errorf("the audit log has %+v", rows)
	}
	if err := s.Store.Write(t.Context(), func(tx *store.Tx) error {
		_, err := tx.Exec(t.Context(), `DELETE FROM members`)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if status, page := s.browser().signIn(); status != http.StatusSeeOther {
		t.Fatalf("after the end of the membership: %d %s", status, page)
	}
	if list = accounts(); len(list) != 2 || list[1].Funds.Granted != 0 {
		t.Errorf("the accounts are %+v", list)
	}
}

// TestAFaultyIdentityProvider lets the identity provider misbehave in each way and style.
func TestAFaultyIdentityProvider(t *testing.T) {
	t.Parallel()
	for _, style := range []fakeidp.Style{{}, {Thin: true}, {Zitadel: true}} {
		t.Run(fmt.Sprintf("%+v", style), func(t *testing.T) {
			t.Parallel()
			faultyProvider(t, style)
		})
	}
}

func faultyProvider(t *testing.T, style fakeidp.Style) {
	s := start(t, func(p *config.OIDC) {
		staff(p)
		p.MaxAge = time.Hour
	})
	s.idp.Behave(style)
	s.idp.Set(object{"groups": []string{"staff"}})
	for fault, want := range map[fakeidp.Fault]string{
		fakeidp.WrongIssuer: "another issuer", fakeidp.WrongAudience: "another audience", fakeidp.MoreAudiences: "another client", fakeidp.WrongParty: "another client",
		fakeidp.WrongNonce: "another nonce", fakeidp.NoNonce: "another nonce", fakeidp.AlgNone: "algorithm is not allowed", fakeidp.AlgHS256: "algorithm is not allowed",
		fakeidp.Expired: "expired", fakeidp.Foreign: "signature cannot be verified", fakeidp.NoSubject: "0 bytes", fakeidp.NoToken: "malformed",
		fakeidp.OldSignIn: "older than maxAge", fakeidp.RefuseCode: "answered 400", fakeidp.CallbackIssuer: "",
	} {
		s.idp.Misbehave(fault)
		b := s.browser()
		if status, page := b.signIn(); status != 401 || !strings.Contains(page, "Not signed in") || b.account(s.Account.ID) != 401 {
			t.Errorf("%s: %d %s", fault, status, page)
		}
		if !strings.Contains(s.log.String(), want) {
			t.Errorf("%s: the log does not say %q", fault, want)
		}
	}
	s.idp.Misbehave(fakeidp.Overage)
	if status, page := s.browser().signIn(); status != 403 || !strings.Contains(page, "app roles") {
		t.Errorf("an overage: %d %s", status, page)
	}
	if len(s.members()) != 0 {
		t.Errorf("there are members: %+v", s.members())
	}
	s.idp.Misbehave(fakeidp.None)
	s.idp.Rotate(t)
	if status, page := s.browser().signIn(); status != http.StatusSeeOther {
		t.Errorf("after a rotation of the key: %d %s", status, page)
	}
	if strings.Contains(s.log.String(), fakeidp.Secret) {
		t.Error("the log repeats the identity provider")
	}
}

func TestAnIdentityProviderThatIsAway(t *testing.T) {
	t.Parallel()
	for fault, want := range map[fakeidp.Fault]string{fakeidp.Down: "answered 502", fakeidp.DiscoveryIssuer: "but the provider's is"} {
		s := start(t, func(*config.OIDC) {})
		s.idp.Misbehave(fault)
		if status, page := s.browser().signIn(); status != 502 || !strings.Contains(page, "discovery document") {
			t.Errorf("%s: %d %s", fault, status, page)
		}
		if log := s.log.String(); !strings.Contains(log, want) || strings.Contains(log, fakeidp.Secret) {
			t.Errorf("%s: the log is %s", fault, log)
		}
		s.idp.Misbehave(fakeidp.None) // it is asked again
		if status, _ := s.browser().signIn(); status != 403 {
			t.Errorf("after %s: %d", fault, status)
		}
	}
}

func TestACallbackIsUsedOnceInItsBrowser(t *testing.T) {
	t.Parallel()
	s := start(t, staff)
	s.idp.Set(object{"groups": []string{"staff"}})
	b := s.browser()
	depart := func(b browser) string {
		t.Helper()
		status, location, text := b.do("GET", "/signin/corp", nil)
		if status != http.StatusSeeOther {
			t.Fatalf("%d %s", status, text)
		}
		return s.idp.SignIn(t, location)
	}
	back := depart(b)
	if status, _, _ := s.browser().do("GET", back, nil); status != 401 {
		t.Errorf("in another browser: %d", status)
	}
	other := s.browser()
	depart(other)
	if status, _, _ := other.do("GET", back, nil); status != 401 {
		t.Errorf("in a browser with another state: %d", status)
	}
	if status, _, _ := b.do("HEAD", back, nil); status != 404 {
		t.Errorf("HEAD: %d", status)
	}
	cookies := b.http.Jar.Cookies(mustParse(t, s.URL))
	if status, _, page := b.do("GET", back, nil); status != http.StatusSeeOther {
		t.Errorf("the callback: %d %s", status, page)
	}
	if status, _, _ := b.do("GET", back, nil); status != 401 {
		t.Errorf("again: %d", status)
	}
	b.http.Jar.SetCookies(mustParse(t, s.URL), cookies)
	if status, _, _ := b.do("GET", back, nil); status != 401 {
		t.Errorf("again with the old cookie: %d", status)
	}
	denied := s.browser()
	_, location, _ := denied.do("GET", "/signin/corp", nil)
	state := mustParse(t, location).Query().Get("state")
	if status, _, page := denied.do("GET", "/signin/corp/callback?error=access_denied&error_description="+fakeidp.Secret+"&state="+state, nil); status != 401 || !strings.Contains(page, "was refused at the identity provider") || strings.Contains(page, fakeidp.Secret) {
		t.Errorf("a refusal: %d %s", status, page)
	}
	for _, path := range []string{"/signin/none", "/signin/none/callback"} {
		if status, _, _ := b.do("GET", path, nil); status != 404 {
			t.Errorf("%s: %d", path, status)
		}
	}
}

func mustParse(t *testing.T, address string) *url.URL {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// TestAnyNodeFinishesASignIn begins on one node and returns to another.
func TestAnyNodeFinishesASignIn(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, home storetest.Database) {
		if home.Config.PostgresURL == "" {
			t.Skip("one node")
		}
		idp := fakeidp.New(t)
		idp.Set(object{"groups": []string{"staff"}})
		var nodes []*service
		for range 2 {
			cfg := apitest.Config{Idle: true, Home: &home, SignIn: []config.OIDC{{Name: "corp", Issuer: idp.Issuer, ClientID: fakeidp.ClientID, Groups: []config.GroupRule{{Group: "staff", Role: "viewer"}}}}}
			cfg.PublicURL = "http://127.0.0.1" // of the proxy before the nodes
			nodes = append(nodes, &service{t: t, idp: idp, log: &lockedBuffer{}, Service: apitest.Start(t, cfg)})
		}
		b := nodes[0].browser()
		_, location, _ := b.do("GET", "/signin/corp", nil)
		back := mustParse(t, idp.SignIn(t, location))
		if status, _, page := b.do("GET", nodes[1].URL+back.RequestURI(), nil); status != http.StatusSeeOther {
			t.Errorf("%d %s", status, page)
		}
	})
}
