package api_test

import (
	"fmt"
	"io"
	"mime/quotedprintable"
	"net/http"
	"strings"
	"testing"

	"stoa/internal/base/config"
	"stoa/internal/base/contract"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/testkit/apitest"
	"stoa/internal/testkit/fakesmtp"
)

// TestEventsAreSentByMail creates a webhook for a member's address, with a mail server that
// requires TLS.
func TestEventsAreSentByMail(t *testing.T) {
	t.Parallel()
	s := fakesmtp.New(t, false)
	h := start(t, apitest.Config{MailRoots: s.Roots, Mail: config.Mail{SMTP: config.SMTP{Host: s.Host, Port: s.Port, From: "stoa@example.com", TLS: config.MailStartTLS}}})
	c := h.Client(t)
	if err := h.Store.Write(t.Context(), func(tx *store.Tx) error {
		p, err := tx.People().PersonOf(t.Context(), stoa.Person{Issuer: "https://id.example.com/", Subject: "ada", Email: "ada@example.com"})
		if err != nil {
			return err
		}
		return tx.People().InsertMember(t.Context(), stoa.Member{AccountID: h.Account.ID, PersonID: p.ID, Role: stoa.RoleOwner, KeyID: "key_1"})
	}); err != nil {
		t.Fatal(err)
	}
	w := newHook(t, c, object{"url": "mailto:ada@example.com"})
	path := hooks + "/" + w.ID
	for url, code := range map[string]stoa.Code{
		"mailto:eve@example.com": stoa.CodeAddressNotAllowed, "mailto:ada@example.com?subject=x": stoa.CodeInvalidURL, "mailto:Ada <ada@example.com>": stoa.CodeInvalidURL,
		"mailto:ada@example.com\r\nBcc: eve@example.com": stoa.CodeInvalidURL, "mailto:": stoa.CodeInvalidURL, "MAILTO:ada@example.com": stoa.CodeInvalidURL,
	} {
		c.WantError(code, "POST", hooks, object{"url": url, "events": []string{"*"}})
		c.WantError(code, "PATCH", path, object{"url": url})
	}
	var d contract.Delivery
	c.Want(202, "POST", path+"/test", nil).JSON(&d)
	d = delivery(t, c, path+"/deliveries/"+d.ID)
	if d.Status != "delivered" || orNone(d.Attempts[0].Status) != 250 {
		t.Errorf("%+v", d)
	}
	if all := s.Mails(); len(all) != 1 || !all[0].TLS || all[0].To != "ada@example.com" || !strings.Contains(all[0].Data, "This is a test.") || strings.Contains(all[0].Data, "console") {
		t.Errorf("%+v", all)
	}
	check := func() (found contract.DiagnosisCheck) {
		var all contract.Diagnosis
		c.Want(200, "GET", "/api/v1/doctor", nil).JSON(&all)
		for _, found = range all.Checks {
			if found.Name == "mail" {
				return found
			}
		}
		t.Fatalf("%+v", all)
		return found
	}
	if found := check(); found.Status != "ok" {
		t.Errorf("%+v", found)
	}
	s.Close()
	if found := check(); found.Status != "attention" || !strings.Contains(found.Summary, "Mail cannot be sent: mail server: unreachable") {
		t.Errorf("%+v", found)
	}
}

func TestMailNeedsASetting(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Idle: true})
	e := h.Client(t).WantError(stoa.CodeInvalidURL, "POST", hooks, object{"url": "mailto:ada@example.com", "events": []string{"*"}})
	if e.Param == nil || *e.Param != "url" || !strings.Contains(e.Message, "mail.smtp") {
		t.Errorf("%+v", e)
	}
}

// withMail starts a service that sends no mail on its own, with a mail server.
func withMail(t *testing.T) (*apitest.Service, *fakesmtp.Server) {
	t.Helper()
	s := fakesmtp.New(t, true)
	h := start(t, apitest.Config{
		Idle: true, PublicURL: "https://stoa.example.com",
		Mail: config.Mail{SMTP: config.SMTP{Host: s.Host, Port: s.Port, From: "stoa@example.com", TLS: config.MailPlain}},
	})
	return h, s
}

// mailed returns the mails that are due, after their texts were decoded.
func mailed(t *testing.T, h *apitest.Service, s *fakesmtp.Server) []fakesmtp.Mail {
	t.Helper()
	if err := h.Server.People.Mailer.Send(t.Context()); err != nil {
		t.Fatal(err)
	}
	all := s.Mails()
	for i, m := range all {
		head, body, _ := strings.Cut(m.Data, "\r\n\r\n")
		text, err := io.ReadAll(quotedprintable.NewReader(strings.NewReader(body)))
		if err != nil {
			t.Fatal(err)
		}
		all[i].Data = head + "\n\n" + string(text)
	}
	return all
}

// due makes the mails that wait for another attempt due.
func due(t *testing.T, h *apitest.Service) {
	t.Helper()
	if err := h.Store.Write(t.Context(), func(tx *store.Tx) error {
		_, err := tx.Exec(t.Context(), `UPDATE link_mails SET due_at = 1`)
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

func TestLinksAreSentByMail(t *testing.T) {
	t.Parallel()
	h, s := withMail(t)
	c := h.Client(t)
	var made contract.InvitationWithLink
	c.Want(201, "POST", membersPath, object{"role": "member", "name": "Ada", "email": "ada@example.com"}).JSON(&made)
	if !made.Mailed || made.NotMailed != "" || orNone(made.Email) != "ada@example.com" {
		t.Errorf("%+v", made)
	}
	all := mailed(t, h, s)
	if len(all) != 1 || all[0].To != "ada@example.com" || !strings.Contains(all[0].Data, "\n"+made.Link+"\r\n") || !strings.Contains(all[0].Data, "the account “"+h.Account.Name+"” of the service stoa.example.com, with the role member.") {
		t.Fatalf("%+v", all)
	}
	if all := mailed(t, h, s); len(all) != 0 {
		t.Errorf("sent again: %+v", all)
	}
	// A link that was replaced or revoked before it was sent is not sent.
	first := made.Link
	path := invitationsPath + "/" + made.ID
	c.Want(201, "POST", path+"/link", nil)
	c.Want(201, "POST", path+"/link", nil).JSON(&made)
	if all := mailed(t, h, s); len(all) != 1 || !made.Mailed || made.Link == first || !strings.Contains(all[0].Data, made.Link) {
		t.Errorf("%+v", all)
	}
	var other contract.InvitationWithLink
	c.Want(201, "POST", "/api/v1/accounts/invitations", object{"accountName": "Acme", "email": "eve@example.com"}).JSON(&other)
	c.Want(204, "DELETE", invitationsPath+"/"+other.ID, nil)
	if all := mailed(t, h, s); !other.Mailed || len(all) != 0 {
		t.Errorf("%+v %+v", other, all)
	}
	// The person who has accepted gets sign-in links.
	_, token, _ := strings.Cut(made.Link, "#")
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.URL+"/console/join", strings.NewReader(`{"token": "`+token+`"}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Origin", "https://stoa.example.com")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	resp, err := http.DefaultClient.Do(r)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatal(resp, err)
	}
	resp.Body.Close()
	var list contract.MemberList
	if c.Want(200, "GET", membersPath, nil).JSON(&list); len(list.Data) != 1 || orNone(list.Data[0].Email) != "ada@example.com" {
		t.Fatalf("%+v", list.Data)
	}
	var link contract.SignInLink
	c.Want(201, "POST", membersPath+"/"+list.Data[0].ID+"/link", nil).JSON(&link)
	if all := mailed(t, h, s); !link.Mailed || len(all) != 1 || all[0].To != "ada@example.com" || !strings.Contains(all[0].Data, "Your sign-in link") || !strings.Contains(all[0].Data, link.Link) {
		t.Errorf("%+v %+v", link, all)
	}
	for _, e := range auditLog(t, h, h.Account.ID) {
		if strings.Contains(e.Before+e.After, "ada@example.com") {
			t.Errorf("the audit log has the address: %+v", e)
		}
	}
	for _, bad := range []string{"ada", "ada@example.com\r\nBcc: eve@example.com", "ada@example.com,eve@example.com", "Ada<ada@example.com>"} {
		if e := c.WantError(stoa.CodeInvalidValue, "POST", membersPath, object{"role": "viewer", "email": bad}); e.Param == nil || *e.Param != "email" {
			t.Errorf("%q: %+v", bad, e)
		}
	}
}

// TestMailedLinksAreRetried: a mail is stored with its link, and sent once the mail server accepts it.
func TestMailedLinksAreRetried(t *testing.T) {
	t.Parallel()
	h, s := withMail(t)
	c := h.Client(t)
	s.Refuse("RCPT", "450 4.2.0 greylisted")
	var made contract.InvitationWithLink
	c.Want(201, "POST", membersPath, object{"role": "viewer", "email": "ada@example.com"}).JSON(&made)
	if all := mailed(t, h, s); len(all) != 0 {
		t.Errorf("%+v", all)
	}
	s.Refuse("RCPT", "")
	if all := mailed(t, h, s); len(all) != 0 {
		t.Errorf("sent without a pause: %+v", all)
	}
	due(t, h)
	if all := mailed(t, h, s); len(all) != 1 || !strings.Contains(all[0].Data, made.Link) {
		t.Errorf("%+v", all)
	}
	s.Refuse("RCPT", "550 5.1.1 no such user")
	c.Want(201, "POST", membersPath, object{"role": "viewer", "email": "nobody@example.com"})
	mailed(t, h, s)
	s.Refuse("RCPT", "")
	due(t, h)
	if all := mailed(t, h, s); len(all) != 0 {
		t.Errorf("refused for good, and sent again: %+v", all)
	}
	var tokens int
	if err := h.Store.Read(t.Context(), func(tx *store.Tx) error {
		_, err := tx.Get(t.Context(), `SELECT COUNT(*) FROM link_mails WHERE sealed <> '' OR sealed LIKE '%inv_%'`, nil, &tokens)
		return err
	}); err != nil || tokens != 0 {
		t.Errorf("%d tokens are stored after their mails, %v", tokens, err)
	}
}

// TestMailsWithLinksAreLimited: an account cannot use the service to send mail to strangers at will. The links
// work without mail.
func TestMailsWithLinksAreLimited(t *testing.T) {
	t.Parallel()
	h, s := withMail(t)
	c := h.Client(t)
	var made contract.InvitationWithLink
	c.Want(201, "POST", membersPath, object{"role": "viewer", "email": "ada@example.com"}).JSON(&made)
	path := invitationsPath + "/" + made.ID + "/link"
	for range store.MaxLinkMailsTo - 1 {
		if c.Want(201, "POST", path, nil).JSON(&made); !made.Mailed {
			t.Errorf("%+v", made)
		}
	}
	if c.Want(201, "POST", path, nil).JSON(&made); made.Mailed || made.NotMailed != "mail_limit" || made.Link == "" {
		t.Errorf("to one address: %+v", made)
	}
	var upper contract.InvitationWithLink
	if c.Want(201, "POST", membersPath, object{"role": "viewer", "email": "ADA@example.com"}).JSON(&upper); upper.Mailed {
		t.Errorf("in capitals: %+v", upper)
	}
	for i := range store.MaxLinkMails - store.MaxLinkMailsTo {
		var i2 contract.InvitationWithLink
		c.Want(201, "POST", membersPath, object{"role": "viewer", "email": fmt.Sprintf("p%d@example.com", i)}).JSON(&i2)
		if !i2.Mailed {
			t.Fatalf("mail %d: %+v", i, i2)
		}
		c.Want(204, "DELETE", invitationsPath+"/"+i2.ID, nil)
	}
	if c.Want(201, "POST", membersPath, object{"role": "viewer", "email": "eve@example.com"}).JSON(&upper); upper.Mailed || upper.NotMailed != "mail_limit" {
		t.Errorf("in a day: %+v", upper)
	}
	if err := h.Store.Write(t.Context(), func(tx *store.Tx) error {
		_, err := tx.Exec(t.Context(), `UPDATE link_mails SET created_at = created_at - 86400000000`)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if c.Want(201, "POST", membersPath, object{"role": "viewer", "email": "eve@example.com"}).JSON(&upper); !upper.Mailed {
		t.Errorf("a day later: %+v", upper)
	}
	if all := mailed(t, h, s); len(all) != 1 { // the other links were replaced or revoked
		t.Errorf("%d mails", len(all))
	}
	if err := h.Store.Write(t.Context(), func(tx *store.Tx) error {
		if _, err := tx.Exec(t.Context(), `UPDATE link_mails SET created_at = created_at - 604800000000 WHERE recipient <> 'eve@example.com'`); err != nil {
			return err
		}
		n, err := tx.People().PurgeLinkMails(t.Context(), 1000)
		if n != store.MaxLinkMails {
			t.Errorf("%d mails are deleted after a week", n)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

func TestLinksAreNotMailedWithoutAServer(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Idle: true})
	var made contract.InvitationWithLink
	h.Client(t).Want(201, "POST", membersPath, object{"role": "viewer", "email": "ada@example.com"}).JSON(&made)
	if made.Mailed || made.NotMailed != "no_mail_server" || made.Link == "" {
		t.Errorf("%+v", made)
	}
	var without contract.InvitationWithLink
	h.Client(t).Want(201, "POST", membersPath, object{"role": "viewer"}).JSON(&without)
	if without.Mailed || without.NotMailed != "" {
		t.Errorf("without an address: %+v", without)
	}
}
