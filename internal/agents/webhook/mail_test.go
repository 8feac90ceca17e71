package webhook

import (
	"context"
	"io"
	"mime"
	"mime/quotedprintable"
	"net/mail"
	"slices"
	"strings"
	"testing"
	"time"

	"stoa/internal/base/config"
	"stoa/internal/base/contract"
	mailer "stoa/internal/base/mail"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/testkit/fakesmtp"
)

// withMail gives the account a member with a verified address, and the dispatcher a mail server.
func (b *bench) withMail() (*fakesmtp.Server, stoa.Person) {
	b.t.Helper()
	s := fakesmtp.New(b.t, true)
	b.cfg.Mail = Mail{
		Sender: mailer.New(config.SMTP{Host: s.Host, Port: s.Port, From: "stoa@example.com", TLS: config.MailPlain}, nil),
		Texts:  true, Addresses: []string{"Team@example.com"}, PublicURL: "https://stoa.example.com",
	}
	b.hooks.Mail = b.cfg.Mail
	var p stoa.Person
	b.write(func(ctx context.Context, tx *store.Tx) (err error) {
		if p, err = tx.People().PersonOf(ctx, stoa.Person{Issuer: "https://id.example.com/", Subject: "ada", Email: "Ada@Example.com", Name: "Ada"}); err != nil {
			return err
		}
		return tx.People().InsertMember(ctx, stoa.Member{AccountID: b.account.ID, PersonID: p.ID, Role: stoa.RoleOwner, KeyID: "key_1"})
	})
	return s, p
}

// mail returns a message whose body is decoded.
func (b *bench) mail(m fakesmtp.Mail) (subject, text string, header mail.Header) {
	b.t.Helper()
	got, err := mail.ReadMessage(strings.NewReader(strings.ReplaceAll(m.Data, "\r\n..", "\r\n.")))
	if err != nil {
		b.t.Fatal(err)
	}
	body, err := io.ReadAll(quotedprintable.NewReader(got.Body))
	if err != nil {
		b.t.Fatal(err)
	}
	if subject, err = new(mime.WordDecoder).DecodeHeader(got.Header.Get("Subject")); err != nil {
		b.t.Fatal(err)
	}
	return subject, strings.ReplaceAll(string(body), "\r\n", "\n"), got.Header
}

func TestAnEventIsSentByMail(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s, _ := b.withMail()
	w, _ := b.hook(stoa.Webhook{URL: "mailto:ada@example.com"})
	b.emit(1, Event{Type: BudgetThreshold, Data: budgetData{
		AccountID: b.account.ID, BudgetID: "bud_1", Scope: "end_user", Subject: "eve\r\nBcc: eve@example.com\r\n\r\nhi", Percent: 80, SpentMicro: 8_500_000, LimitMicro: 10_000_000,
	}})
	b.drain()
	d := b.all(b.account.ID, w.ID)[0]
	if d.Status != store.DeliveryDelivered || d.Attempts != 1 || d.Log[0].Status != 250 {
		t.Fatalf("%+v", d)
	}
	all := s.Mails()
	if len(all) != 1 || all[0].To != "ada@example.com" {
		t.Fatalf("%+v", all)
	}
	subject, text, header := b.mail(all[0])
	if subject != "Stoa: A budget has reached a threshold" || header.Get("Bcc") != "" || !strings.HasPrefix(header.Get("Message-Id"), "<"+d.EventID+".") {
		t.Errorf("%v", header)
	}
	if id := header.Get("List-Id"); id != "<"+w.ID+".example.com>" {
		t.Errorf("the list is %q", id)
	}
	for _, line := range []string{
		"A budget has reached a threshold.", "Budget of: end user", "Name: eve Bcc: eve@example.com hi", "Share: 80 %", "Spent: 8.50 credits", "Limit: 10.00 credits",
		"Account: " + b.account.Name, "Ids: " + b.account.ID + " bud_1 " + d.EventID,
		"https://stoa.example.com/console#/budgets", "https://stoa.example.com/console#/webhooks/" + w.ID,
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("the text has no line %q:\n%s", line, text)
		}
	}
}

// TestAMailSaysWhatAPersonKnows: who was asked what, what came of it, its price and when, whatever the texts
// contain.
func TestAMailSaysWhatAPersonKnows(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s, _ := b.withMail()
	w, _ := b.hook(stoa.Webhook{URL: "mailto:ada@example.com"})
	var row store.SessionRow
	b.write(func(ctx context.Context, tx *store.Tx) error {
		space, err := tx.Setup().InsertSpace(ctx, stoa.Space{AccountID: b.account.ID, Name: "Shop"})
		if err != nil {
			return err
		}
		a, err := tx.Setup().InsertAgent(ctx, stoa.Agent{AccountID: b.account.ID, SpaceID: space.ID, Name: "Support\r\nBcc: eve@example.com", AgentSettings: stoa.AgentSettings{Timezone: "Asia/Tokyo"}})
		if err != nil {
			return err
		}
		row.Session = stoa.Session{
			ID: "ses_1", AccountID: b.account.ID, SpaceID: space.ID, AgentID: a.ID, Mode: stoa.ModeChat, Status: stoa.SessionCompleted, Trigger: stoa.Trigger{Type: "api"}, LastSeq: 12,
			Turn: stoa.Turn{ID: "trn_1", SessionID: "ses_1", Number: 1, Status: stoa.SessionCompleted, MessageID: "msg_1", Spent: 1_250_000},
		}
		if err := tx.Work().InsertSession(ctx, &row); err != nil {
			return err
		}
		question := "Where is\x00 my\r\n.\r\nSubject: order \u202e4711? <b>" + strings.Repeat("I wait. ", 100)
		for _, m := range []stoa.SessionMessage{
			{ID: "msg_1", SessionID: "ses_1", Turn: 1, Role: stoa.RoleUser, Kind: stoa.KindMessage, Status: stoa.MessageCompleted, Text: strings.ReplaceAll(question, "\x00", "")},
			{ID: "msg_2", SessionID: "ses_1", Turn: 1, Step: 1, Role: stoa.RoleAssistant, Kind: stoa.KindReply, Status: stoa.MessageCompleted, Text: "On its way.\nTomorrow."},
			{ID: "msg_3", SessionID: "ses_1", Turn: 2, Step: 1, Role: stoa.RoleAssistant, Kind: stoa.KindReply, Status: stoa.MessageCompleted, Text: "Another turn."},
		} {
			if err := tx.Work().InsertMessage(ctx, store.MessageRow{SessionMessage: m}); err != nil {
				return err
			}
		}
		if err := tx.Work().UpdateTurn(ctx, row.Turn); err != nil {
			return err
		}
		if err := SessionStopped(ctx, tx, row.Session); err != nil {
			return err
		}
		next := row // it continues before the mail is sent
		next.Turn = stoa.Turn{ID: "trn_2", SessionID: "ses_1", Number: 2, Status: stoa.SessionQueued, MessageID: "msg_4"}
		if err := tx.Work().InsertTurn(ctx, next.Turn); err != nil {
			return err
		}
		return tx.Work().SaveSession(ctx, &next)
	})
	b.drain()
	subject, text, header := b.mail(s.Mails()[0])
	if header.Get("Bcc") != "" || subject != "Stoa: The agent “Support Bcc: eve@example.com” has answered: Where is my . Subject: order 4711? <b>I wait. I wait. I…" {
		t.Errorf("%q", subject)
	}
	at := b.all(b.account.ID, w.ID)[0].CreatedAt
	tokyo, err := time.LoadLocation("Asia/Tokyo")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"The agent “Support Bcc: eve@example.com” has answered.", "Reply: On its way. Tomorrow.", "Cost: 1.25 credits", "Space: Shop", "Account: " + b.account.Name,
		"When: " + at.UTC().Format("2006-01-02 15:04 UTC") + at.In(tokyo).Format(" (2006-01-02 15:04 Asia/Tokyo)"),
		"https://stoa.example.com/console#/agents/" + row.AgentID + "/sessions/ses_1",
	} {
		if !strings.Contains(text, "\n"+line+"\n") && !strings.HasPrefix(text, line+"\n") {
			t.Errorf("the text has no line %q:\n%s", line, text)
		}
	}
	question, _, _ := strings.Cut(text[strings.Index(text, "Question: "):], "\n")
	if n := len([]rune(question)); n > maxText+len("Question: ") || n < maxText/2 || !strings.HasSuffix(question, "I…") {
		t.Errorf("%d characters: %q", n, question)
	}
	for _, bad := range []string{"{", "seq", "\u202e", "Another turn"} {
		if strings.Contains(text, bad) {
			t.Errorf("the text has %q:\n%s", bad, text)
		}
	}
	b.write(func(ctx context.Context, tx *store.Tx) error {
		return ScheduledTaskPaused(ctx, tx, stoa.ScheduledTask{ID: "tsk_1", AccountID: b.account.ID, AgentID: row.AgentID, PauseReason: "invalid_key"})
	})
	b.drain()
	if subject, text, _ = b.mail(s.Mails()[0]); subject != "Stoa: A schedule is paused" || !strings.Contains(text, "\n\nReason: invalid key\nAgent: Support Bcc: eve@example.com\nAccount: "+b.account.Name+"\nWhen: ") {
		t.Errorf("a paused schedule: %q\n%s", subject, text)
	}
	b.cfg.Mail.Texts = false
	row.Status, row.Turn.Status, row.Turn.Failure = stoa.SessionFailed, stoa.SessionFailed, &stoa.Failure{Code: stoa.CodeInternal, Message: "The turn took too long."}
	b.write(func(ctx context.Context, tx *store.Tx) error {
		if err := tx.Work().UpdateTurn(ctx, row.Turn); err != nil {
			return err
		}
		return SessionStopped(ctx, tx, row.Session)
	})
	b.drain()
	if subject, text, _ = b.mail(s.Mails()[0]); subject != "Stoa: The agent “Support Bcc: eve@example.com” could not answer" || !strings.Contains(text, "\nError: The turn took too long.\n") || strings.Contains(text, "Question") {
		t.Errorf("without texts: %q\n%s", subject, text)
	}
}

// TestRefusedMail: a mail server that refuses for now gets the message again; one that refuses it
// for good does not.
func TestRefusedMail(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s, _ := b.withMail()
	w, _ := b.hook(stoa.Webhook{URL: "mailto:ada@example.com"})
	newest := func() store.Delivery {
		all := b.all(b.account.ID, w.ID)
		return all[len(all)-1]
	}
	s.Refuse("RCPT", "450 4.2.0 greylisted")
	b.emit(1, Event{})
	b.drain()
	d := newest()
	if d.Status != store.DeliveryPending || d.Log[0].Status != 450 || d.Log[0].Error != errorStatus || !strings.Contains(d.Log[0].Reply, "greylisted") {
		t.Errorf("%+v", d)
	}
	s.Refuse("RCPT", "")
	b.add(d.DueAt.Sub(b.now()))
	if b.drain(); newest().Status != store.DeliveryDelivered {
		t.Errorf("%+v", newest())
	}
	s.Refuse("RCPT", "550 5.1.1 no such user")
	b.emit(1, Event{})
	b.drain()
	if d := newest(); d.Status != store.DeliveryFailed || d.Attempts != 1 || d.Log[0].Status != 550 {
		t.Errorf("%+v", d)
	}
	if w := b.read(w.ID); w.Disabled != "" || w.Failed != 1 || w.FailingSince.IsZero() {
		t.Errorf("%+v", w)
	}
	s.Close()
	b.emit(1, Event{})
	b.drain()
	if d := newest(); d.Status != store.DeliveryPending || d.Log[0].Error != mailer.Unreachable {
		t.Errorf("%+v", d)
	}
	b.cfg.Mail.Sender = nil
	b.emit(1, Event{})
	b.add(gaps[0])
	b.drain()
	if d := newest(); d.Status != store.DeliveryPending || d.Log[0].Error != errorNoMail {
		t.Errorf("%+v", d)
	}
}

// TestMailsOfAnHourAreLimited: the rest is sent later, and other addresses are not affected.
func TestMailsOfAnHourAreLimited(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s, _ := b.withMail()
	w, _ := b.hook(stoa.Webhook{URL: "mailto:ada@example.com"})
	upper, _ := b.hook(stoa.Webhook{URL: "mailto:Ada@example.com"})
	other, _ := b.hook(stoa.Webhook{URL: "mailto:team@example.com"})
	b.emit(mailsPerHour, Event{})
	b.drain()
	delivered := func(id string) int { return b.statuses(id)[store.DeliveryDelivered] }
	if got := delivered(w.ID) + delivered(upper.ID); got != mailsPerHour || delivered(other.ID) != mailsPerHour || len(s.Mails()) != 2*mailsPerHour {
		t.Errorf("%d mails to one address in an hour, %d to another", got, delivered(other.ID))
	}
	if !slices.ContainsFunc(b.all(b.account.ID, w.ID), func(d store.Delivery) bool {
		return d.Status == store.DeliveryPending && d.Log[0].Error == errorMailLimit && d.DueAt.After(b.now())
	}) {
		t.Error("no delivery waits because of the limit")
	}
	for range 3 {
		b.add(time.Hour)
		b.drain()
	}
	if got := delivered(w.ID) + delivered(upper.ID); got != 2*mailsPerHour {
		t.Errorf("%d of %d mails are sent after some hours", got, 2*mailsPerHour)
	}
}

// TestMailEndsWithTheMember removes the member, and the service says why the webhook is disabled.
func TestMailEndsWithTheMember(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s, p := b.withMail()
	w, _ := b.hook(stoa.Webhook{URL: "mailto:ada@example.com"})
	other, _ := b.hook(stoa.Webhook{Events: []string{WebhookDisabled}})
	b.write(func(ctx context.Context, tx *store.Tx) error {
		return tx.People().DeleteMember(ctx, b.account.ID, p.ID)
	})
	b.write(func(ctx context.Context, tx *store.Tx) error {
		_, err := b.hooks.Test(ctx, tx, b.account.ID, w.ID)
		return err
	})
	b.drain()
	if got := b.read(w.ID); got.Disabled != "" {
		t.Errorf("a test has disabled it: %+v", got)
	}
	b.emit(2, Event{})
	b.drain()
	if got := b.read(w.ID); got.Disabled != stoa.WebhookDisabledRecipient {
		t.Errorf("%+v", got)
	}
	if got := b.all(b.account.ID, other.ID); len(got) != 1 || !strings.Contains(got[0].Body, stoa.WebhookDisabledRecipient) {
		t.Errorf("%+v", got)
	}
	for _, d := range b.all(b.account.ID, w.ID) {
		if len(d.Log) > 0 && d.Log[0].Error != errorRecipient || d.Status == store.DeliveryPending || d.Status == store.DeliveryDelivered {
			t.Errorf("%+v", d)
		}
	}
	if all := s.Mails(); len(all) != 0 {
		t.Errorf("%+v", all)
	}
}

func TestRecipientsAreChecked(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.withMail()
	check := func(accountID, address string) (code stoa.Code) {
		b.write(func(ctx context.Context, tx *store.Tx) error {
			code = stoa.CodeOf(b.hooks.Mail.Check(ctx, tx, accountID, address))
			return nil
		})
		return code
	}
	var owner string
	b.write(func(ctx context.Context, tx *store.Tx) (err error) {
		p, err := tx.People().PersonOf(ctx, stoa.Person{Email: "link@example.com"}) // verified by nobody
		if err != nil {
			return err
		}
		if err = tx.People().InsertMember(ctx, stoa.Member{AccountID: b.account.ID, PersonID: p.ID, Role: stoa.RoleViewer, KeyID: "key_2"}); err != nil {
			return err
		}
		owner, err = tx.People().OwnerAccount(ctx)
		return err
	})
	for _, tt := range []struct {
		account, address string
		want             stoa.Code
	}{
		{b.account.ID, "ADA@example.com", ""},
		{b.account.ID, "eve@example.com", stoa.CodeAddressNotAllowed},
		{b.account.ID, "link@example.com", stoa.CodeAddressNotAllowed},
		{"acc_other", "ada@example.com", stoa.CodeAddressNotAllowed},
		{owner, "team@example.com", ""},
		{"acc_other", "team@example.com", stoa.CodeAddressNotAllowed},
	} {
		if got := check(tt.account, tt.address); got != tt.want {
			t.Errorf("%s of %s: %q, want %q", tt.address, tt.account, got, tt.want)
		}
	}
	b.hooks.Mail.Sender = nil
	if got := check(b.account.ID, "ada@example.com"); got != stoa.CodeInvalidURL {
		t.Errorf("without a mail server: %q", got)
	}
}

// TestEventsHaveSentences: the mail of each type of event says what it is.
func TestEventsHaveSentences(t *testing.T) {
	t.Parallel()
	doc, err := contract.Load()
	if err != nil {
		t.Fatal(err)
	}
	schema := doc.Components.Schemas["CreateWebhook"].Value.Properties["events"].Value.Items.Value
	for _, kind := range schema.Enum {
		if kind != "*" && sentences[kind.(string)] == "" {
			t.Errorf("%s has no sentence", kind)
		}
		for _, found := range placeholder.FindAllStringSubmatch(sentences[kind.(string)], -1) {
			if nouns[found[2]] == "" {
				t.Errorf("%s names %q, which no member identifies", kind, found[2])
			}
		}
	}
}
