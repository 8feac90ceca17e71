package api_test

import (
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
		p, err := tx.PersonOf(t.Context(), stoa.Person{Issuer: "https://id.example.com/", Subject: "ada", Email: "ada@example.com"})
		if err != nil {
			return err
		}
		return tx.InsertMember(t.Context(), stoa.Member{AccountID: h.Account.ID, PersonID: p.ID, Role: stoa.RoleOwner, KeyID: "key_1"})
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
