package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"golang.org/x/time/rate"

	"stoa/internal/base/mail"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
)

// Mail sends the events of webhooks whose address is a mailto: URL. A nil Sender means that the
// service sends no mail.
type Mail struct {
	Sender    *mail.Sender
	Addresses []string // that the operator's account may use besides those of its members
	PublicURL string   // origin of the console, for links; may be empty
}

// Error words of failed attempts of mail, besides those of package mail.
const (
	errorNoMail    = "mail_off"      // the service sends no mail
	errorRecipient = "not_allowed"   // the address does not belong to a member
	errorMailLimit = "mail_limit"    // the address has received too many in the last hour
	mailStatus     = 250             // reply code of a mail server that has accepted a message
	mailTime       = 2 * time.Second // for the query of the recipient

	mailsPerHour = 60 // of each process to an address, and at once after an hour without one
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

// allowed reports whether events of an account may be sent to an address.
func (m *Mail) allowed(ctx context.Context, tx *store.Tx, accountID, address string) (bool, error) {
	if slices.ContainsFunc(m.Addresses, func(a string) bool { return strings.EqualFold(a, address) }) {
		if owner, err := tx.OwnerAccount(ctx); err != nil || owner == accountID {
			return err == nil, err
		}
	}
	return tx.HasVerifiedEmail(ctx, accountID, address)
}

// mail makes an attempt of a delivery to an address of mail.
func (d *Dispatcher) mail(ctx context.Context, o outcome, address string, w stoa.Webhook, of store.Delivery) outcome {
	if d.cfg.Mail.Sender == nil {
		o.attempt.Error = errorNoMail
		return o
	}
	allowed := false
	query, cancel := context.WithTimeout(ctx, mailTime)
	defer cancel()
	if err := d.store.Read(query, func(tx *store.Tx) (err error) {
		allowed, err = d.cfg.Mail.allowed(query, tx, w.AccountID, address)
		return err
	}); err != nil { // it is unknown whose address it is: nothing is sent
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
	subject, text := mailText(w, of, d.cfg.Mail.PublicURL)
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

// mailWait counts a mail to an address, or returns how long to wait before the next one.
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

// sentences say what an event is, without its final point. A test compares them with the contract.
var sentences = map[string]string{
	SessionCompleted:  "A session has completed",
	SessionFailed:     "A session has failed",
	SessionCancelled:  "A session was cancelled",
	SessionWaiting:    "A session waits for input",
	RunFinished:       "A scheduled run has finished",
	RunSkipped:        "Scheduled runs were skipped",
	TaskPaused:        "A schedule is paused",
	CreditsLow:        "Credits are low",
	CreditsExhausted:  "Credits are used up",
	KeyExpiring:       "An API key expires soon",
	KeyPauseSoon:      "An API key will be paused soon, because its member has not signed in",
	WebhookFailing:    "A webhook does not work",
	WebhookDisabled:   "A webhook was disabled",
	CallUnknown:       "It is unknown whether a tool call was executed",
	ReviewNeeded:      "A tool of a connection needs a review",
	NeedsAuth:         "A connection needs an authorization",
	AttachmentCreated: "A visitor has uploaded a file",
	AuditAnchor:       "The audit log has new entries",
	AuditRecorded:     "The audit log has a new entry",
	BudgetThreshold:   "A budget has reached a threshold",
	ProviderDown:      "A provider does not answer",
	ProviderUp:        "A provider answers again",
	ErrorsHigh:        "Many model calls fail",
	BalanceLow:        "A customer is low on credits",
	NodeLost:          "A node was lost",
	ConfigRefused:     "A configuration was refused",
	test:              "This is a test",
}

// Sentence says what an event is, for people, without a final point.
func Sentence(kind string) string {
	if what := sentences[kind]; what != "" {
		return what
	}
	return "Event " + kind // of a newer version of the service
}

// A field is a member of the data of an event.
type field struct{ name, text string }

// fields returns the members of the data of an event in their order. Objects are JSON.
func fields(data json.RawMessage) (list []field) {
	in := json.NewDecoder(bytes.NewReader(data))
	if start, err := in.Token(); err != nil || start != json.Delim('{') {
		return nil
	}
	for in.More() {
		name, err := in.Token()
		var value json.RawMessage
		if err != nil || in.Decode(&value) != nil {
			return list
		}
		text := string(value)
		if unquoted := ""; json.Unmarshal(value, &unquoted) == nil {
			text = unquoted
		}
		list = append(list, field{name.(string), text})
	}
	return list
}

// mailText returns the subject and the text of a delivery. base is the origin of the console;
// without it there are no links.
func mailText(w stoa.Webhook, of store.Delivery, base string) (subject, text string) {
	var event struct {
		Timestamp time.Time       `json:"timestamp"`
		Data      json.RawMessage `json:"data"`
	}
	_ = json.Unmarshal([]byte(of.Body), &event) // the body was written here
	what := Sentence(of.Type)
	all := fields(event.Data)
	byName := map[string]string{}
	var b strings.Builder
	fmt.Fprintf(&b, "%s.\n\n", what)
	for _, f := range all {
		byName[f.name] = f.text
		if f.text == "" || f.text == "null" {
			continue
		}
		label, value := label(f)
		fmt.Fprintf(&b, "%s: %s\n", label, mail.OneLine(value))
	}
	fmt.Fprintf(&b, "Time: %s\nEvent: %s\n", event.Timestamp.UTC().Format("2006-01-02 15:04:05 UTC"), of.EventID)
	subject = "Stoa: " + what
	if id := about(byName); id != "" {
		subject += " (" + id + ")"
	}
	if base != "" {
		if path := page(byName, of.Type); path != "" {
			fmt.Fprintf(&b, "\n%s/console#/%s\n", base, path)
		}
	}
	fmt.Fprintf(&b, "\n-- \nThe webhook %s of the account %s sends you its events by mail. An owner of the account can change that", w.ID, w.AccountID)
	if base != "" {
		fmt.Fprintf(&b, ":\n%s/console#/webhooks/%s", base, url.PathEscape(w.ID))
	} else {
		b.WriteString(".")
	}
	b.WriteString("\n")
	return subject, b.String()
}

// label returns a member for people: availableMicro is "Available" in credits.
func label(f field) (name, value string) {
	name, value = f.name, f.text
	if stem, micro := strings.CutSuffix(name, "Micro"); micro {
		if n, err := strconv.ParseInt(value, 10, 64); err == nil {
			name, value = stem, strconv.FormatFloat(float64(n)/float64(stoa.Credit), 'f', -1, 64)+" credits"
		}
	}
	var words strings.Builder
	for i, r := range name {
		switch {
		case i == 0:
			r = unicode.ToUpper(r)
		case unicode.IsUpper(r):
			words.WriteByte(' ')
			r = unicode.ToLower(r)
		}
		words.WriteRune(r)
	}
	return words.String(), value
}

// about returns the id of the object of an event; empty if it is the account.
func about(data map[string]string) string {
	for _, name := range []string{"sessionId", "taskId", "budgetId", "keyId", "connectionId", "provider", "customerId", "nodeId", "webhookId"} {
		if data[name] != "" {
			return data[name]
		}
	}
	return ""
}

// AlertPage returns the page of the console about an alert, after "#/".
func AlertPage(kind, subject string) string {
	name := map[string]string{BalanceLow: "customerId", ProviderDown: "provider", NodeLost: "nodeId", ConfigRefused: "nodeId"}[kind]
	return page(map[string]string{name: subject}, kind)
}

// page returns the page of the console about an event, after "#/"; empty if there is none.
func page(data map[string]string, kind string) string {
	at := func(name string) string { return url.PathEscape(data[name]) }
	switch {
	case data["sessionId"] != "":
		return "agents/" + at("agentId") + "/sessions/" + at("sessionId")
	case data["taskId"] != "":
		return "agents/" + at("agentId") + "/tasks/" + at("taskId")
	case data["connectionId"] != "":
		return "connections/" + at("connectionId")
	case data["budgetId"] != "":
		return "budgets"
	case data["keyId"] != "":
		return "keys"
	case data["webhookId"] != "":
		return "webhooks/" + at("webhookId")
	case kind == BalanceLow:
		return "accounts/" + at("customerId")
	case data["provider"] != "":
		return "providers"
	case data["nodeId"] != "":
		return "nodes"
	case kind == ErrorsHigh:
		return "requests"
	case kind == CreditsLow || kind == CreditsExhausted:
		return "credits"
	case kind == AuditAnchor || kind == AuditRecorded:
		return "audit"
	}
	return ""
}
