package webhook

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"golang.org/x/time/rate"

	"stoa/internal/base/mail"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
)

// Mail sends the events of webhooks whose address is a mailto: URL. A nil Sender means that the
// service sends no mail.
type Mail struct {
	Sender    *mail.Sender
	Texts     bool     // mails contain the beginnings of questions and replies
	Addresses []string // addresses that the operator's account may use besides those of its members
	PublicURL string   // origin of the console, for links; may be empty
}

// Error words of failed attempts of mail, besides those of package mail.
const (
	errorNoMail    = "mail_off"      // the service sends no mail
	errorRecipient = "not_allowed"   // the address does not belong to a member
	errorMailLimit = "mail_limit"    // the address has received too many in the last hour
	mailStatus     = 250             // reply code of a mail server that has accepted a message
	mailTime       = 2 * time.Second // timeout of the query of the recipient

	mailsPerHour = 60 // mails of each process to an address, and burst after an hour without one, because a person reads them
)

// Check rejects an address that the mail of an account is not sent to: CodeInvalidURL without a
// mail server, otherwise CodeAddressNotAllowed.
func (m *Mail) Check(ctx context.Context, tx *store.Tx, accountID, address string) error {
	if m.Sender == nil {
		return stoa.Errorf(stoa.CodeInvalidURL, "This service sends no mail, because it has no mail server. Its operator can set mail.smtp.").At("url")
	}
	allowed, err := m.allowed(ctx, tx, accountID, address)
	if err == nil && !allowed {
		err = stoa.Errorf(stoa.CodeAddressNotAllowed, "Mail is sent only to members of the account, at the address that their identity provider has verified. Use the address of one; GET /api/v1/members lists them.").At("url")
	}
	return err
}

func (m *Mail) allowed(ctx context.Context, tx *store.Tx, accountID, address string) (bool, error) {
	if slices.ContainsFunc(m.Addresses, func(a string) bool { return strings.EqualFold(a, address) }) {
		if owner, err := tx.People().OwnerAccount(ctx); err != nil || owner == accountID {
			return err == nil, err
		}
	}
	return tx.People().HasVerifiedEmail(ctx, accountID, address)
}

func (d *Dispatcher) mail(ctx context.Context, o outcome, address string, w stoa.Webhook, of store.Delivery) outcome {
	if d.cfg.Mail.Sender == nil {
		o.attempt.Error = errorNoMail
		return o
	}
	allowed := false
	var n news
	query, cancel := context.WithTimeout(ctx, mailTime)
	defer cancel()
	if err := d.store.Read(query, func(tx *store.Tx) (err error) {
		if allowed, err = d.cfg.Mail.allowed(query, tx, w.AccountID, address); err != nil || !allowed {
			return err
		}
		n, err = readNews(query, tx, w, of, d.cfg.Mail.Texts)
		return err
	}); err != nil { // sends nothing, because it is unknown whose address it is
		o.attempt.Error, o.stopped = errorRecipient, ctx.Err() != nil
		return o
	}
	if !allowed {
		o.attempt.Error, o.disable = errorRecipient, stoa.WebhookDisabledRecipient
		return o
	}
	if wait := d.mailWait(address); wait > 0 {
		o.attempt.Error, o.asked = errorMailLimit, wait
		return o
	}
	subject, text := n.mail(d.cfg.Mail.PublicURL)
	err := d.cfg.Mail.Sender.Send(ctx, mail.Message{To: address, Subject: subject, Text: text, ID: of.EventID + "." + of.WebhookID, At: o.attempt.At, List: w.ID})
	if err == nil {
		o.attempt.Status = mailStatus
		return o
	}
	if e, ok := errors.AsType[*mail.Error](err); ok {
		o.attempt.Error, o.attempt.Status, o.attempt.Reply, o.permanent = e.Reason, e.Code, printable([]byte(e.Reply)), e.Permanent
	}
	return o
}

// mailWait counts a mail to an address, or returns the pause before the next one.
func (d *Dispatcher) mailWait(address string) time.Duration {
	address = strings.ToLower(address)
	d.mu.Lock()
	defer d.mu.Unlock()
	limit := d.mails[address]
	if limit == nil {
		limit = rate.NewLimiter(rate.Every(time.Hour/mailsPerHour), mailsPerHour)
		d.mails[address] = limit
	}
	now := d.now()
	r := limit.ReserveN(now, 1)
	wait := r.DelayFrom(now)
	if wait > 0 {
		r.CancelAt(now)
	}
	return wait
}
