package member

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"time"

	"stoa/internal/base/mail"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/base/vault"
)

// A Mailer sends links by mail. A mail is a row that commits together with its link ([Mailer.Queue]), so that another
// process sends it if this one dies; it may then arrive twice. All fields except Sender and
// PublicURL are required.
type Mailer struct {
	Store     *store.Store
	Vault     *vault.Vault
	Sender    *mail.Sender // nil means that the service sends no mail
	PublicURL string
	Logger    *slog.Logger

	Wake chan struct{} // signals a stored mail; of capacity 1
}

// The reasons why a link is not sent.
const (
	NoMailServer = "no_mail_server"
	NoPublicURL  = "no_public_url"
	NoSecretsKey = "no_secrets_key"
	MailLimit    = "mail_limit"
)

const (
	mailKind  = "link"           // kind of the tokens in the vault
	mailPoll  = 10 * time.Second // interval of checks for due mails
	mailLease = time.Minute      // time in which no other process sends the mail, so that it is not sent twice
	mailTime  = 30 * time.Second // timeout of an attempt, shorter than the lease
	maxName   = 60               // maximum of an account's name in characters, because a stranger chooses it
)

// mailGaps are the pauses between attempts. A mail ends earlier if its link does, because it would be useless.
var mailGaps = [...]time.Duration{
	10 * time.Second, time.Minute, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 6 * time.Hour, 15 * time.Hour,
}

// Queue stores a mail with the token of a link, which this transaction creates for a key of the account
// accountID. It returns the reason why the link will not be sent, or "".
func (m *Mailer) Queue(ctx context.Context, tx *store.Tx, accountID, to, token string) (reason string, err error) {
	switch {
	case m.Sender == nil:
		return NoMailServer, nil
	case m.PublicURL == "":
		return NoPublicURL, nil
	case !m.Vault.CanSeal():
		return NoSecretsKey, nil
	}
	row := store.LinkMail{ID: stoa.NewID("lml"), AccountID: accountID, Recipient: to}
	if row.Sealed, err = m.Vault.Seal(mailRef(row), []byte(token)); err != nil {
		return "", err
	}
	if ok, err := tx.People().InsertLinkMail(ctx, row); err != nil || !ok {
		return MailLimit, err
	}
	tx.AfterCommit(func() {
		select {
		case m.Wake <- struct{}{}:
		default:
		}
	})
	return "", nil
}

func mailRef(m store.LinkMail) vault.Ref {
	return vault.Ref{AccountID: m.AccountID, ID: m.ID, Kind: mailKind, Version: 1}
}

// Run sends mails until ctx ends.
func (m *Mailer) Run(ctx context.Context) error {
	if m.Sender == nil {
		return nil
	}
	tick := time.NewTicker(mailPoll)
	defer tick.Stop()
	for {
		if err := m.Send(ctx); err != nil && ctx.Err() == nil {
			m.Logger.LogAttrs(ctx, slog.LevelError, "mails with links could not be processed", slog.Any("error", err))
		}
		select {
		case <-tick.C:
		case <-m.Wake:
		case <-ctx.Done():
			return nil
		}
	}
}

// Send sends the due mails until the mail server cannot be reached.
func (m *Mailer) Send(ctx context.Context) error {
	for ctx.Err() == nil {
		if more, err := m.sendNext(ctx); err != nil || !more {
			return err
		}
	}
	return nil
}

// sendNext sends the mail that has been due the longest. It reports whether the next one can be tried
// immediately: not if none is due, or if the mail server cannot be reached.
func (m *Mailer) sendNext(ctx context.Context) (more bool, err error) {
	var row store.LinkMail
	var message mail.Message
	var valid bool
	err = m.Store.Write(ctx, func(tx *store.Tx) (err error) {
		if row, more, err = tx.People().ClaimLinkMail(ctx, tx.Now.Add(mailLease)); err != nil || !more {
			return err
		}
		message, valid, err = m.message(ctx, tx, row)
		return err
	})
	if err != nil || !more {
		return false, err
	}
	var failed *mail.Error
	if valid {
		limited, cancel := context.WithTimeout(ctx, mailTime)
		defer cancel()
		if err := m.Sender.Send(limited, message); err != nil && !errors.As(err, &failed) {
			return false, err
		}
	}
	ended := failed == nil || failed.Permanent || row.Attempts > len(mailGaps)
	err = m.Store.Write(context.WithoutCancel(ctx), func(tx *store.Tx) error {
		if ended {
			row.Sealed = ""
		} else {
			row.DueAt = tx.Now.Add(mailGaps[row.Attempts-1])
		}
		return tx.People().SaveLinkMail(ctx, row)
	})
	if failed != nil { // without the reply, because it can repeat the mail
		what := "a mail with a link was not accepted; it is sent again"
		if ended {
			what = "a mail with a link was not accepted, and is given up"
		}
		m.Logger.LogAttrs(ctx, slog.LevelWarn, what, slog.String("account", row.AccountID), slog.String("delivery", row.ID),
			slog.Int("attempt", row.Attempts), slog.String("code", failed.Reason), slog.Int("status", failed.Code))
	}
	return failed == nil || failed.Reason == mail.Refused, err
}

// message returns the mail of a row, and whether its link is still valid.
func (m *Mailer) message(ctx context.Context, tx *store.Tx, row store.LinkMail) (out mail.Message, valid bool, err error) {
	token, err := m.Vault.Open(mailRef(row), row.Sealed)
	if err != nil {
		return out, false, nil // its key was removed, so that the link cannot be sent
	}
	i, a, err := new(Members).Find(ctx, tx, string(token))
	if err != nil {
		if stoa.CodeOf(err) == stoa.CodeInvitationEnded {
			err = nil
		}
		return out, false, err
	}
	host := m.PublicURL
	if u, err := url.Parse(m.PublicURL); err == nil {
		host = u.Host
	}
	name := mail.Line(a.Name, maxName)
	subject := fmt.Sprintf("Stoa: You are invited to the account “%s”", name)
	what := fmt.Sprintf("You are invited to the account “%s” of the service %s, with the role %s. Accept the invitation with this link:", name, host, i.Role)
	if i.PersonID != "" {
		subject = "Stoa: Your sign-in link"
		what = fmt.Sprintf("This link signs you in to the account “%s” of the service %s:", name, host)
	}
	text := fmt.Sprintf("%s\n\n%s/join#%s\n\nIt works once, until %s. Do not forward it: it works for everyone who has it.\nIf you do not expect this mail, ignore it.\n",
		what, m.PublicURL, token, i.ExpiresAt.UTC().Format("2006-01-02 15:04 UTC"))
	return mail.Message{To: row.Recipient, Subject: subject, Text: text, ID: row.ID, At: row.CreatedAt}, true, nil
}
