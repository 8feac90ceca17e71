package signin_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"stoa/internal/base/config"
	"stoa/internal/base/contract"
)

// TestAWithdrawnGroup takes the groups from the only owner of the operator's account: the role of an owner stays,
// so that the account has one, and everything of an operator ends.
func TestAWithdrawnGroup(t *testing.T) {
	t.Parallel()
	s := start(t, func(p *config.OIDC) {
		p.Groups = []config.GroupRule{{Group: "ops", Role: "owner", Operator: "admin"}, {Group: "help", Role: "viewer", Operator: "support"}}
	})
	b, other := s.browser(), s.browser()
	signIn := func(b browser, groups ...string) string {
		t.Helper()
		s.idp.Set(object{"groups": append([]string{}, groups...)})
		if status, page := b.signIn(); status != http.StatusSeeOther {
			t.Fatalf("%v: %d %s", groups, status, page)
		}
		m := s.members()[0]
		return m.Role + "/" + m.OperatorRole + "/" + m.Source
	}
	signIn(b, "ops")
	signIn(other, "ops")
	keys := map[string]string{}
	for name, scopes := range map[string][]string{"operator": {"*", "operator"}, "reads": {"operator:read", "usage:read"}, "plain": {"usage:read"}} {
		status, _, text := b.do("POST", "/api/v1/keys", object{"name": name, "scopes": scopes}, "Stoa-Account", s.Account.ID, "Origin", s.URL)
		var made struct{ Secret string }
		if err := json.Unmarshal([]byte(text), &made); err != nil || status != 201 {
			t.Fatalf("%s: %d %s", name, status, text)
		}
		keys[name] = made.Secret
	}
	lists := func() int {
		status, _, _ := b.do("GET", "/api/v1/accounts", nil, "Stoa-Account", s.Account.ID)
		return status
	}
	doctor := func() (of contract.DiagnosisCheck) {
		t.Helper()
		var found contract.Diagnosis
		s.Client(t).Want(200, "GET", "/api/v1/doctor", nil).JSON(&found)
		for _, c := range found.Checks {
			if c.Name == "members" {
				of = c
			}
		}
		return of
	}
	if lists() != 200 || doctor().Status != "ok" {
		t.Fatalf("an admin: %d, %+v", lists(), doctor())
	}

	if got := signIn(b, "help"); got != "owner/support/group" || lists() != 200 {
		t.Errorf("with a lower operator role: %s, %d", got, lists())
	}
	if other.account(s.Account.ID) != 401 || b.account(s.Account.ID) != 200 {
		t.Error("an earlier session has not ended, or the new one has")
	}
	for name, want := range map[string]int{"operator": 401, "reads": 200, "plain": 200} {
		s.ClientWith(t, keys[name]).Want(want, "GET", "/api/v1/usage", nil)
	}
	if got := signIn(b); got != "owner//group" || lists() != 403 {
		t.Errorf("without a group: %s, %d", got, lists())
	}
	for name, want := range map[string]int{"reads": 401, "plain": 200} {
		s.ClientWith(t, keys[name]).Want(want, "GET", "/api/v1/usage", nil)
	}
	member := s.members()[0]
	if c := doctor(); c.Status != "attention" || len(c.Items) != 1 || c.Items[0].ID.MustGet() != member.PersonID || c.Items[0].AccountID.MustGet() != s.Account.ID {
		t.Errorf("the diagnosis is %+v", c)
	}
	if log := s.log.String(); !strings.Contains(log, "level=WARN") || !strings.Contains(log, "member="+member.PersonID) {
		t.Errorf("the log is %s", log)
	}
	signIn(b)
	for action, want := range map[string]int{"member.kept": 1, "member.changed": 2, "key.revoked": 2} {
		if rows := s.audited(s.Account.ID, action); len(rows) != want {
			t.Errorf("%s is recorded %d times, want %d", action, len(rows), want)
		}
	}

	if got := signIn(b, "ops"); got != "owner/admin/group" || lists() != 200 || doctor().Status != "ok" {
		t.Errorf("with the group again: %s, %d, %+v", got, lists(), doctor())
	}
	signIn(b)
	s.NewMember(s.Account.ID, "owner", "")
	if status, _ := b.signIn(); status != 403 || doctor().Status != "ok" || b.account(s.Account.ID) != 401 {
		t.Errorf("with another owner: %d, %+v", status, doctor())
	}
}
