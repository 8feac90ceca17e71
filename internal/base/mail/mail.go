// Package mail sends plain-text mail through the mail server of the operator.
//
// It makes a connection for each message, and repeats and stores nothing: its caller retries. It
// never sends HTML or attachments, and text of a message cannot add headers. The operator chooses
// the server, so it may be in a private network; the rules for addresses of callers do not apply.
// Start at [New] and [Sender.Send].
package mail

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/mail"
	"net/textproto"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	gomail "github.com/wneessen/go-mail"
	"github.com/wneessen/go-mail/smtp"

	"stoa/internal/base/config"
)

const (
	stepTime   = 10 * time.Second // for the connection with its login, and for a message
	atOnce     = 8                // connections of a process
	maxSubject = 200              // characters
	maxReply   = 512              // bytes of a server's reply that are kept
)

// A Sender sends mail. It may be used by several goroutines.
type Sender struct {
	smtp  config.SMTP
	host  string // of the sender's address, for ids of messages
	roots *x509.CertPool
	slots chan struct{}
}

// New returns a sender for the settings, which were checked; nil without a server. roots are the
// authorities that the server's certificate is checked with; nil means those of the system.
func New(smtp config.SMTP, roots *x509.CertPool) *Sender {
	if smtp.Host == "" {
		return nil
	}
	host := "stoa.invalid"
	if a, err := mail.ParseAddress(smtp.From); err == nil {
		_, host, _ = strings.Cut(a.Address, "@")
	}
	return &Sender{smtp: smtp, host: host, roots: roots, slots: make(chan struct{}, atOnce)}
}

// A Message is a mail to one address.
type Message struct {
	To, Subject, Text string
	ID                string // the same for each attempt to send the message
	At                time.Time
	List              string // what sends it, as a word, for the filters of recipients; may be empty
}

// The reasons why a message was not sent.
const (
	Unreachable = "unreachable"
	TLS         = "tls"
	Login       = "login" // the server refuses the user or the password
	Timeout     = "timeout"
	Refused     = "status" // the server refuses the message
)

// An Error is the reason why a message was not sent.
type Error struct {
	Reason string
	Code   int    // the server's reply code to the message; 0 if there is none
	Reply  string // the server's reply to the message, its sender or its recipient, or to the login; may be empty
	// Permanent means that the server will refuse the message or its recipient again.
	Permanent bool
	err       error
}

func (e *Error) Error() string {
	text := fmt.Sprintf("mail server: %s: %v", e.Reason, e.err)
	if strings.HasSuffix(e.Reply, heloHint) {
		text += heloHint // for the log and for those who check the configuration, who do not see the reply
	}
	return text
}

func (e *Error) Unwrap() error { return e.err }

func (s *Sender) client() (*gomail.Client, error) {
	o := []gomail.Option{
		gomail.WithPort(s.smtp.PortOrDefault()), gomail.WithTimeout(stepTime), gomail.WithoutNoop(), gomail.WithHELO(s.smtp.HeloName()),
		gomail.WithTLSConfig(&tls.Config{ServerName: s.smtp.Host, RootCAs: s.roots, MinVersion: tls.VersionTLS12}),
	}
	switch s.smtp.TLS {
	case config.MailTLS:
		o = append(o, gomail.WithSSL())
	case config.MailPlain:
		o = append(o, gomail.WithTLSPolicy(gomail.NoTLS))
	default:
		o = append(o, gomail.WithTLSPolicy(gomail.TLSMandatory))
	}
	return gomail.NewClient(s.smtp.Host, o...)
}

// Send sends a message. Its error is an [*Error], or that of ctx.
func (s *Sender) Send(ctx context.Context, m Message) error {
	msg := gomail.NewMsg(gomail.WithNoDefaultUserAgent())
	if err := errors.Join(msg.From(s.smtp.From), msg.To(m.To)); err != nil {
		return &Error{Reason: Refused, Permanent: true, err: err}
	}
	msg.Subject(header(m.Subject))
	msg.SetMessageIDWithValue(header(m.ID) + "@" + s.host)
	msg.SetDateWithValue(m.At)
	if s.smtp.ReplyTo != "" {
		if err := msg.ReplyTo(s.smtp.ReplyTo); err != nil {
			return &Error{Reason: Refused, err: err}
		}
	}
	msg.SetGenHeader("Auto-Submitted", "auto-generated")
	if m.List != "" {
		msg.SetGenHeader("List-Id", "<"+header(m.List)+"."+s.host+">")
	}
	msg.SetBodyString(gomail.TypeTextPlain, m.Text)
	return s.connected(ctx, func(c *gomail.Client, connection *smtp.Client) error {
		local, _, _ := strings.Cut(m.To, "@")
		if utf8, _ := connection.Extension("SMTPUTF8"); !utf8 && strings.ContainsFunc(local, func(r rune) bool { return r > unicode.MaxASCII }) {
			// Some servers would accept the address, and lose the mail.
			reply := "not sent: the mail server does not support addresses with characters outside of ASCII before the @ (SMTPUTF8)"
			return &Error{Reason: Refused, Reply: reply, Permanent: true, err: errors.New(reply)}
		}
		return refusal(c.SendWithSMTPClient(connection, msg), msg)
	})
}

// Check connects to the server and logs in.
func (s *Sender) Check(ctx context.Context) error {
	return s.connected(ctx, func(*gomail.Client, *smtp.Client) error { return nil })
}

// connected calls do with a connection to the server, logged in.
func (s *Sender) connected(ctx context.Context, do func(*gomail.Client, *smtp.Client) error) error {
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	case <-ctx.Done():
		return &Error{Reason: Timeout, err: ctx.Err()}
	}
	c, err := s.client()
	if err != nil {
		return &Error{Reason: Unreachable, err: err}
	}
	var refused *Error // by the first mechanism, whose reply says most
	for try := 0; ; try++ {
		connection, err := c.DialToSMTPClientWithContext(ctx)
		if err != nil {
			return cmp.Or(refused, unconnected(err))
		}
		if err = s.login(connection, try); err != nil { // because it has ended the connection
			failed := unconnected(fmt.Errorf("AUTH: %w", err))
			failed.Reply = strings.ReplaceAll(failed.Reply, s.smtp.Password(), "…")
			refused = cmp.Or(refused, failed)
			if e, ok := errors.AsType[*textproto.Error](err); ok && e.Code/100 == 5 && try+1 < maxLogins && len(s.mechanisms(connection)) > try+1 {
				continue
			}
			return refused
		}
		defer func() { _ = c.CloseWithSMTPClient(connection) }() // ignored, because the server has accepted the message before
		return do(c, connection)
	}
}

// maxLogins is the number of mechanisms that are tried. It is small, because each is a failed login if
// the password is wrong, and servers lock users out after some.
const maxLogins = 2

// login logs in with one of the mechanisms; try is its place.
func (s *Sender) login(connection *smtp.Client, try int) error {
	if s.smtp.User == "" {
		return nil
	}
	offered := s.mechanisms(connection)
	if try >= len(offered) {
		_ = connection.Quit()
		_, announced := connection.Extension("AUTH")
		return fmt.Errorf("the server offers no mechanism that is supported, but %q", announced)
	}
	return connection.Auth(offered[try])
}

// mechanisms returns those that the server offers, the best first. That is PLAIN, because the connection is
// encrypted or within this machine, and every server can check it; servers also announce mechanisms for which
// they do not have the password in the form that is needed.
func (s *Sender) mechanisms(connection *smtp.Client) (offered []smtp.Auth) {
	_, announced := connection.Extension("AUTH")
	names := strings.Fields(strings.ToUpper(announced))
	local := s.smtp.TLS == config.MailPlain
	user, password := s.smtp.User, s.smtp.Password()
	for _, m := range []struct {
		name string
		auth smtp.Auth
	}{
		{"PLAIN", smtp.PlainAuth("", user, password, s.smtp.Host, local)},
		{"LOGIN", smtp.LoginAuth(user, password, s.smtp.Host, local)},
		{"SCRAM-SHA-256", smtp.ScramSHA256Auth(user, password)},
		{"SCRAM-SHA-1", smtp.ScramSHA1Auth(user, password)},
		{"CRAM-MD5", smtp.CRAMMD5Auth(user, password)},
		{"NTLM", smtp.NTLMAuth(user, password, "")},
	} {
		if slices.Contains(names, m.name) {
			offered = append(offered, m.auth)
		}
	}
	return offered
}

func unconnected(err error) *Error {
	e := &Error{Reason: notConnected(err), err: err}
	if reply, ok := errors.AsType[*textproto.Error](err); ok {
		e.Reply = cut(fmt.Sprintf("%d %s", reply.Code, reply.Msg))
		if aboutHelo.MatchString(e.Reply) {
			e.Reason, e.Code, e.Reply = Refused, reply.Code, e.Reply+heloHint
		}
	}
	return e
}

// heloHint is added to a refusal of the name with which the service introduces itself.
const heloHint = " (see mail.smtp.helo)"

// aboutHelo matches a reply that refuses that name. Servers refuse it at any command, often that with the
// recipient, whose fault it is not. It does not match a part of an address.
var aboutHelo = regexp.MustCompile(`(?i)(?:^|[\s(/])(?:helo|ehlo)(?:[\s:;,/)]|[.]?$)`)

func cut(reply string) string {
	return strings.ToValidUTF8(reply[:min(len(reply), maxReply-len(heloHint))], "")
}

func refusal(err error, msg *gomail.Msg) error {
	if err == nil || msg.IsDelivered() {
		return nil
	}
	e := &Error{Reason: Refused, err: err}
	of, ok := errors.AsType[*gomail.SendError](err)
	if !ok || of.ErrorCode() == 0 {
		e.Reason = notConnected(err)
		return e
	}
	e.Code, e.Reply = of.ErrorCode(), cut(err.Error())
	e.Permanent = !of.IsTemp() && of.Reason != gomail.ErrSMTPMailFrom // a setting mends a refused sender, and then the mail can be sent
	if aboutHelo.MatchString(e.Reply) {
		e.Reply, e.Permanent = e.Reply+heloHint, false
	}
	return e
}

// notConnected returns the reason of an error before a message.
func notConnected(err error) string {
	if e, ok := errors.AsType[net.Error](err); ok && e.Timeout() || errors.Is(err, context.DeadlineExceeded) {
		return Timeout
	}
	if e, ok := errors.AsType[*textproto.Error](err); ok && e.Code/10 == 53 {
		return Login
	}
	var certificate *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	switch {
	case errors.As(err, &certificate), errors.As(err, &record), strings.Contains(err.Error(), "STARTTLS"), strings.Contains(err.Error(), "tls: "):
		return TLS
	case strings.Contains(err.Error(), "AUTH"):
		return Login
	}
	return Unreachable
}

// Line returns a text as one line of at most limit characters, without control characters and those that
// change the direction of writing, with which a text can pretend to be another one. A longer text ends at a
// word, with an ellipsis.
func Line(text string, limit int) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' || unicode.Is(unicode.Bidi_Control, r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text[:min(len(text), 8*limit)], ""))
	runes := []rune(strings.Join(strings.Fields(text), " "))
	if len(runes) <= limit {
		return string(runes)
	}
	runes = runes[:limit-1]
	for i := len(runes) - 1; i > limit/2; i-- {
		if runes[i] == ' ' {
			runes = runes[:i]
			break
		}
	}
	return string(runes) + "…"
}

func header(text string) string { return Line(text, maxSubject) }
