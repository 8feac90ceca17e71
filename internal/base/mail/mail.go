// Package mail sends plain-text mail through the mail server of the operator.
//
// It makes a connection for each message, and repeats and stores nothing: its caller retries. It
// never sends HTML or attachments, and text of a message cannot add headers. The operator chooses
// the server, so it may be in a private network; the rules for addresses of callers do not apply.
// Start at [New] and [Sender.Send].
package mail

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/mail"
	"net/textproto"
	"strings"
	"time"
	"unicode"

	gomail "github.com/wneessen/go-mail"

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
	Reply  string // the server's reply to the message; may be empty
	// Permanent means that the server will refuse the message or its recipient again.
	Permanent bool
	err       error
}

func (e *Error) Error() string { return fmt.Sprintf("mail server: %s: %v", e.Reason, e.err) }
func (e *Error) Unwrap() error { return e.err }

// client returns a client for one connection.
func (s *Sender) client() (*gomail.Client, error) {
	o := []gomail.Option{
		gomail.WithPort(s.smtp.PortOrDefault()), gomail.WithTimeout(stepTime), gomail.WithoutNoop(),
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
	if s.smtp.User != "" {
		auth := gomail.SMTPAuthAutoDiscover
		if s.smtp.TLS == config.MailPlain { // on this machine
			auth = gomail.SMTPAuthPlainNoEnc
		}
		o = append(o, gomail.WithSMTPAuth(auth), gomail.WithUsername(s.smtp.User), gomail.WithPassword(s.smtp.Password()))
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
	msg.SetGenHeader("Auto-Submitted", "auto-generated")
	msg.SetBodyString(gomail.TypeTextPlain, m.Text)
	return s.connected(ctx, func(send func(*gomail.Msg) error) error { return send(msg) })
}

// Check connects to the server and logs in.
func (s *Sender) Check(ctx context.Context) error {
	return s.connected(ctx, func(func(*gomail.Msg) error) error { return nil })
}

// connected calls do with a connection to the server.
func (s *Sender) connected(ctx context.Context, do func(send func(*gomail.Msg) error) error) error {
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
	connection, err := c.DialToSMTPClientWithContext(ctx)
	if err != nil {
		return &Error{Reason: notConnected(err), err: err}
	}
	defer func() { _ = c.CloseWithSMTPClient(connection) }() // the server has accepted the message before
	return do(func(msg *gomail.Msg) error { return refusal(c.SendWithSMTPClient(connection, msg), msg) })
}

// refusal returns the error of a message; nil if the server has accepted it.
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
	e.Code, e.Reply = of.ErrorCode(), err.Error()
	e.Reply = strings.ToValidUTF8(e.Reply[:min(len(e.Reply), maxReply)], "")
	e.Permanent = !of.IsTemp() && of.Reason != gomail.ErrSMTPMailFrom // a sender that the server refuses is a setting
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

// OneLine replaces control characters with spaces, so that a text stays on its line.
func OneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, ""))
}

// header returns a text that stays in its header, cut to maxSubject characters.
func header(text string) string {
	runes := []rune(OneLine(text))
	if len(runes) > maxSubject {
		runes = append(runes[:maxSubject-1], '…')
	}
	return string(runes)
}
