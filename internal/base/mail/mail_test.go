package mail

import (
	"errors"
	"fmt"
	"mime"
	"net/mail"
	"strings"
	"testing"
	"time"

	"stoa/internal/base/config"
	"stoa/internal/testkit/fakesmtp"
)

// settings returns the settings for a server, as they are read.
func settings(t *testing.T, s *fakesmtp.Server, tls, password string) config.SMTP {
	t.Helper()
	text := fmt.Sprintf("mail: {smtp: {host: %s, port: %d, from: Stoa <stoa@example.com>, tls: %s", s.Host, s.Port, tls)
	if password != "" {
		text += ", user: " + fakesmtp.User + ", passwordEnv: MAIL"
	}
	cfg, err := config.Load(config.Flags{Config: "stoa.yaml"}, func(name string) string {
		if name == "MAIL" {
			return password
		}
		return ""
	}, func(string) ([]byte, error) { return []byte(text + "}}"), nil })
	if err != nil {
		t.Fatal(err)
	}
	return cfg.Mail.SMTP
}

// inStyles runs a test with each kind of server.
func inStyles(t *testing.T, test func(t *testing.T, start func(plain bool) *fakesmtp.Server)) {
	for _, style := range fakesmtp.Styles {
		t.Run(style, func(t *testing.T) {
			t.Parallel()
			test(t, func(plain bool) *fakesmtp.Server {
				s := fakesmtp.New(t, plain)
				s.Behave(style)
				return s
			})
		})
	}
}

var message = Message{To: "ada@example.com", Subject: "Hello", Text: "One line.\n.\nAnother, with ö.\n", ID: "evt_1", At: time.Unix(1795450470, 0)}

func TestAMessageIsSentWithTLSAndLogin(t *testing.T) {
	t.Parallel()
	inStyles(t, func(t *testing.T, start func(plain bool) *fakesmtp.Server) {
		s := start(false)
		with := settings(t, s, config.MailStartTLS, fakesmtp.Password)
		with.ReplyTo = "Help <help@example.com>"
		sender := New(with, s.Roots)
		if err := errors.Join(sender.Check(t.Context()), sender.Send(t.Context(), message)); err != nil {
			t.Fatal(err)
		}
		all := s.Mails()
		if len(all) != 1 || !all[0].TLS || all[0].User != fakesmtp.User || all[0].To != message.To || !strings.Contains(all[0].From, "<stoa@example.com>") {
			t.Fatalf("%+v", all)
		}
		m, err := mail.ReadMessage(strings.NewReader(all[0].Data))
		if err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]string{
			"From": `"Stoa" <stoa@example.com>`, "To": "<ada@example.com>", "Reply-To": `"Help" <help@example.com>`, "Subject": "Hello", "Message-Id": "<evt_1@example.com>", "Auto-Submitted": "auto-generated", "Content-Type": "text/plain; charset=UTF-8",
		} {
			if got := m.Header.Get(name); got != want {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}
		if !strings.Contains(all[0].Data, "One line.\r\n..\r\nAnother") {
			t.Errorf("%q", all[0].Data)
		}
	})
}

func TestTextsAddNoHeaders(t *testing.T) {
	t.Parallel()
	s := fakesmtp.New(t, true)
	sender := New(settings(t, s, config.MailPlain, ""), nil)
	bad := message
	bad.Subject, bad.ID = "a\r\nBcc: eve@example.com\r\n\r\nb\u2028c", "evt\r\nX-Evil: 1"
	if err := sender.Send(t.Context(), bad); err != nil {
		t.Fatal(err)
	}
	m, err := mail.ReadMessage(strings.NewReader(s.Mails()[0].Data))
	if err != nil {
		t.Fatal(err)
	}
	if m.Header.Get("Bcc") != "" || m.Header.Get("X-Evil") != "" || len(m.Header["Subject"]) != 1 {
		t.Errorf("%v", m.Header)
	}
	if got, err := new(mime.WordDecoder).DecodeHeader(m.Header.Get("Subject")); err != nil || got != "a Bcc: eve@example.com b c" {
		t.Errorf("the subject is %q, %v", got, err)
	}
	for _, to := range []string{"ada@example.com\r\nBcc: eve@example.com", "ada@example.com, eve@example.com", "ada@example.com>\r\nRCPT TO:<eve@example.com"} {
		bad := message
		bad.To = to
		e, ok := errors.AsType[*Error](sender.Send(t.Context(), bad))
		if !ok || !e.Permanent {
			t.Errorf("%q: %v", to, e)
		}
	}
	if all := s.Mails(); len(all) != 0 {
		t.Errorf("%+v", all)
	}
}

func TestFailuresHaveReasons(t *testing.T) {
	t.Parallel()
	inStyles(t, func(t *testing.T, start func(plain bool) *fakesmtp.Server) {
		s, plain, gone := start(false), start(true), start(true)
		gone.Close()
		good := New(settings(t, s, config.MailStartTLS, fakesmtp.Password), s.Roots)
		check := func(what string, err error, reason string, code int, permanent bool) {
			t.Helper()
			e, ok := errors.AsType[*Error](err)
			if !ok || e.Reason != reason || e.Code != code || e.Permanent != permanent || strings.Contains(err.Error(), fakesmtp.Password) {
				t.Errorf("%s: %+v", what, err)
			}
		}
		check("another authority", New(settings(t, s, config.MailStartTLS, ""), nil).Send(t.Context(), message), TLS, 0, false)
		check("no TLS there", New(settings(t, plain, config.MailStartTLS, ""), s.Roots).Send(t.Context(), message), TLS, 0, false)
		check("TLS from the start", New(settings(t, s, config.MailTLS, ""), s.Roots).Check(t.Context()), TLS, 0, false)
		check("a wrong password", New(settings(t, s, config.MailStartTLS, "wrong"), s.Roots).Check(t.Context()), Login, 0, false)
		check("no server", New(settings(t, gone, config.MailPlain, ""), nil).Send(t.Context(), message), Unreachable, 0, false)
		for _, tt := range []struct {
			verb, reply string
			code        int
			permanent   bool
		}{
			{"RCPT", "450 4.2.0 greylisted", 450, false}, {"RCPT", "550 5.1.1 no such user", 550, true}, {"MAIL", "550 5.7.1 not yours", 550, false}, {".", "554 5.7.1 spam", 554, true}, {".", "451 later", 451, false},
		} {
			s.Refuse(tt.verb, tt.reply)
			err := good.Send(t.Context(), message)
			check(tt.verb+" "+tt.reply, err, Refused, tt.code, tt.permanent)
			if e, ok := errors.AsType[*Error](err); !ok || !strings.Contains(e.Reply, tt.reply[4:]) {
				t.Errorf("%s: the reply is %q", tt.reply, e.Reply)
			}
			s.Refuse(tt.verb, "")
		}
		if all := append(s.Mails(), plain.Mails()...); len(all) != 0 {
			t.Errorf("%+v", all)
		}
	})
}

func TestTheNextMechanismIsTried(t *testing.T) {
	t.Parallel()
	inStyles(t, func(t *testing.T, start func(plain bool) *fakesmtp.Server) {
		for name, c := range map[string]struct{ offers, refused, password, reply string }{
			"PLAIN before others":        {"CRAM-MD5 PLAIN", "", fakesmtp.Password, ""},
			"the next one":               {"LOGIN PLAIN", "AUTH PLAIN", fakesmtp.Password, ""},
			"only LOGIN":                 {"LOGIN", "", fakesmtp.Password, ""},
			"a wrong password":           {"PLAIN LOGIN", "", "wrong", ""},
			"all are refused":            {"PLAIN LOGIN", "AUTH", fakesmtp.Password, "535 5.7.9 not this one"},
			"none is known, but XOAUTH2": {"XOAUTH2", "", fakesmtp.Password, ""},
		} {
			s := start(false)
			s.Offer(c.offers, false)
			if c.password == "wrong" {
				c.reply = s.Reply("AUTH PLAIN: refused")
			}
			if c.refused != "" {
				s.Refuse(c.refused, "535 5.7.9 not this one")
			}
			err := New(settings(t, s, config.MailStartTLS, c.password), s.Roots).Send(t.Context(), message)
			works := c.reply == "" && c.offers != "XOAUTH2"
			if e, ok := errors.AsType[*Error](err); works != (err == nil) || !works && (!ok || e.Reason != Login || e.Reply != c.reply || e.Permanent) {
				t.Errorf("%s: %+v", name, err)
			}
		}
	})
}

func TestARefusedHeloIsASetting(t *testing.T) {
	t.Parallel()
	inStyles(t, func(t *testing.T, start func(plain bool) *fakesmtp.Server) {
		s := start(true)
		sender := New(settings(t, s, config.MailPlain, ""), nil)
		for _, verb := range []string{"RCPT", "MAIL", "EHLO"} {
			const reply = "504 5.5.2 <example.com>: Helo command rejected: need fully-qualified hostname"
			s.Refuse(verb, reply)
			s.Refuse("HELO", reply)
			err := sender.Send(t.Context(), message)
			if e, ok := errors.AsType[*Error](err); !ok || e.Permanent || e.Reason != Refused || e.Code != 504 || !strings.Contains(e.Reply, "need fully-qualified hostname") || !strings.Contains(e.Reply, "mail.smtp.helo") || !strings.Contains(err.Error(), "mail.smtp.helo") {
				t.Errorf("%s: %+v", verb, err)
			}
			s.Refuse(verb, "")
		}
		s.Refuse("HELO", "")
		s.Refuse("RCPT", "550 5.1.1 <helo@example.com>: User unknown (ehlo.example.com)")
		other := message
		other.To = "helo@example.com"
		if e, ok := errors.AsType[*Error](sender.Send(t.Context(), other)); !ok || !e.Permanent {
			t.Errorf("an unknown recipient: %+v", e)
		}
		s.Refuse("RCPT", "")
		if err := sender.Send(t.Context(), message); err != nil {
			t.Fatal(err)
		}
		if all := s.Mails(); len(all) != 1 || all[0].Helo != "example.com" {
			t.Errorf("%+v", all)
		}
	})
}

func TestLocalPartsOutsideOfASCIINeedSMTPUTF8(t *testing.T) {
	t.Parallel()
	inStyles(t, func(t *testing.T, start func(plain bool) *fakesmtp.Server) {
		s := start(true)
		sender := New(settings(t, s, config.MailPlain, ""), nil)
		to := message
		to.To = "dörte@example.com"
		s.Offer("PLAIN", false)
		err := sender.Send(t.Context(), to)
		if e, ok := errors.AsType[*Error](err); !ok || !e.Permanent || e.Reason != Refused || !strings.Contains(e.Reply, "SMTPUTF8") {
			t.Errorf("%+v", err)
		}
		if all := s.Mails(); len(all) != 0 {
			t.Errorf("%+v", all)
		}
		s.Offer("PLAIN", true)
		if err := sender.Send(t.Context(), to); err != nil || len(s.Mails()) != 1 {
			t.Errorf("with SMTPUTF8: %v", err)
		}
	})
}
