package cli

import (
	"strings"
	"testing"

	"stoa/internal/base/config"
	"stoa/internal/base/stoa"
	"stoa/internal/testkit/apitest"
	"stoa/internal/testkit/fakesmtp"
	"stoa/internal/testkit/storetest"
)

func TestMembersByCommands(t *testing.T) {
	t.Parallel()
	h := apitest.Start(t, apitest.Config{Idle: true})
	p := newPerson(t, "STOA_BASE_URL="+h.URL, "STOA_API_KEY="+h.Key)
	isLink := func(said string) {
		t.Helper()
		if !strings.Contains(said, "\n"+h.URL+"/join#inv_") {
			t.Errorf("the output is %q", said)
		}
	}
	p.runs(2, "", "members", "invite")
	isLink(p.runs(0, "", "members", "invite", "--role", "member", "--name", "Ada"))
	list := p.runs(0, "", "members", "invitations", "list")
	id, _, _ := strings.Cut(strings.TrimSpace(list[strings.Index(list, "inv_"):]), "\t")
	id = strings.Fields(id)[0]
	p.runs(0, "", "members", "invitations", "revoke", id, "--yes")
	if list := p.runs(0, "", "members", "invitations", "list"); strings.Contains(list, id) {
		t.Errorf("the invitations are %s", list)
	}
	other := storetest.Account(t, h.Store, stoa.Credit)
	isLink(p.runs(0, "", "accounts", "invite", other.ID, "--role", "owner"))

	h.NewMember(h.Account.ID, "owner", "")
	viewer := h.NewMember(h.Account.ID, "viewer", "")
	isLink(p.runs(0, "", "members", "link", "ada.viewer")) // the name of the person
	if said := p.runs(0, "", "members", "set", "ada.viewer", "--role", "member", "--operator", "support", "--json"); !strings.Contains(said, `"role": "member"`) && !strings.Contains(said, `"role":"member"`) {
		t.Errorf("set: %s", said)
	}
	p.runs(0, "", "members", "set", "ada.viewer", "--operator", "")
	if said := p.runs(0, "", "members", "get", viewer.PersonID); strings.Contains(said, "support") || !strings.Contains(said, "member") {
		t.Errorf("get: %s", said)
	}
	p.runs(1, "", "members", "remove", "ada.owner", "--yes") // the last one
	p.runs(0, "", "members", "remove", "ada.viewer", "--keys", "keep", "--yes")
	if list := p.runs(0, "", "members", "list"); strings.Contains(list, viewer.PersonID) {
		t.Errorf("the members are %s", list)
	}
}

func TestCommandsSayWhetherALinkIsMailed(t *testing.T) {
	t.Parallel()
	smtp := fakesmtp.New(t, true)
	for want, cfg := range map[string]config.Mail{
		"not sent by mail (no_mail_server)": {},
		"The link is sent by mail.":         {SMTP: config.SMTP{Host: smtp.Host, Port: smtp.Port, From: "stoa@example.com", TLS: config.MailPlain}},
	} {
		h := apitest.Start(t, apitest.Config{Idle: true, Mail: cfg, PublicURL: "https://stoa.example.com"})
		p := newPerson(t, "STOA_BASE_URL="+h.URL, "STOA_API_KEY="+h.Key)
		if said := p.runs(0, "", "members", "invite", "--role", "viewer", "--email", "ada@example.com"); !strings.Contains(said, want) || !strings.Contains(said, "\nhttps://stoa.example.com/join#inv_") {
			t.Errorf("want %s: %s", want, said)
		}
		if said := p.runs(0, "", "members", "invitations", "list"); !strings.Contains(said, "ada@example.com") {
			t.Error(said)
		}
	}
}

func TestListsAreSearchedAndNamed(t *testing.T) {
	t.Parallel()
	h := apitest.Start(t, apitest.Config{})
	p := newPerson(t, "STOA_BASE_URL="+h.URL, "STOA_API_KEY="+h.Key)
	space := strings.TrimSpace(p.runs(0, "", "spaces", "create", "--name", "Музей", "--jq", ".id"))
	p.runs(0, "", "agents", "create", "--name", "Museum guide", "-i", "x", "--space", space)
	p.runs(0, "", "agents", "create", "--name", "Shop", "-i", "x")
	if said := p.runs(0, "", "agents", "list", "--search", "MUSEUM"); !strings.Contains(said, "Museum guide") || strings.Contains(said, "Shop") {
		t.Errorf("the agents are %s", said)
	}
	if said := p.runs(0, "", "spaces", "list", "--search", "музей"); !strings.Contains(said, space) || strings.Count(said, "spc_") != 1 {
		t.Errorf("the spaces are %s", said)
	}
	if said := p.runs(0, "", "agents", "list", "--space", "Музей"); !strings.Contains(said, "Museum guide") || strings.Contains(said, "Shop") {
		t.Errorf("the agents of a space by its name are %s", said)
	}
	talk := strings.TrimSpace(p.runs(0, "", "sessions", "start", "Shop", "Hello", "--no-watch", "--jq", ".id"))
	alone, after := p.runs(0, "", "sessions", "wait", talk), p.runs(0, "", "sessions", "wait", "Shop", talk)
	if alone == "" || alone != after {
		t.Errorf("the session by its id is %q, after its agent %q", alone, after)
	}
	if said := p.runs(2, "", "sessions", "reply", "Shop", talk); !strings.Contains(said, "MESSAGE") {
		t.Errorf("a reply without a message: %s", said)
	}
	if said := p.runs(2, "", "sessions", "wait", "Shop"); !strings.Contains(said, "not the id of a session") {
		t.Errorf("a name without a session: %s", said)
	}
	if said := p.runs(0, "", "receipts", "list", "--agent", "Shop"); !strings.Contains(said, talk) {
		t.Errorf("the receipts of an agent by its name are %s", said)
	}
	if said := p.runs(0, "", "sessions", "list", "--search", "nothing"); strings.Contains(said, "ses_") {
		t.Errorf("the sessions are %s", said)
	}
	p.runs(0, "", "keys", "create", "--name", "website")
	id := strings.TrimSpace(p.runs(0, "", "keys", "list", "--search", "WEBSITE", "--jq", ".[].id"))
	p.runs(0, "", "keys", "revoke", id, "--yes")
	if said := p.runs(0, "", "keys", "list", "--unrevoked"); strings.Contains(said, id) {
		t.Errorf("the keys are %s", said)
	}
}
