package config

import (
	"net/mail"
	"net/netip"
	"strings"

	"stoa/internal/base/stoa"
)

// Mail configures mail to people. Without a server no mail is sent.
type Mail struct {
	SMTP SMTP `yaml:"smtp"`
	// Texts adds the beginnings of questions and replies to the mails of webhooks.
	Texts bool `yaml:"texts"`
	// Addresses are permitted for webhooks of the operator's account in addition to the verified ones of
	// its members, such as the address of a team.
	Addresses []string `yaml:"addresses"`
}

// SMTP is the mail server that accepts the mail of the service.
type SMTP struct {
	Host         string `yaml:"host"`                   // empty means no mail
	Port         int    `yaml:"port"`                   // 0 means the usual port for TLS; see [SMTP.PortOrDefault]
	User         string `yaml:"user"`                   // empty means no login
	PasswordEnv  string `yaml:"passwordEnv,omitempty"`  // variable with the password; set one of these two
	PasswordFile string `yaml:"passwordFile,omitempty"` // file with the password
	From         string `yaml:"from"`                   // sender, with or without a name
	ReplyTo      string `yaml:"replyTo,omitempty"`      // address for replies, with or without a name; empty means the sender
	TLS          string `yaml:"tls"`                    // [MailStartTLS], [MailTLS] or [MailPlain]
	Helo         string `yaml:"helo,omitempty"`         // name of the service for the server; see [SMTP.HeloName]

	public   string  // host of publicUrl
	password *string // password from one of the two; a pointer for the reason in Provider
}

// The values of [SMTP.TLS].
const (
	MailStartTLS = "starttls" // TLS begins on a plain connection, and nothing is sent before
	MailTLS      = "tls"
	MailPlain    = "none"
)

// Password returns the password of the user; empty for none.
func (s SMTP) Password() string { return or(s.password) }

// PortOrDefault returns the configured port, or the usual one: 465 for TLS, 587 for submission, or 25.
func (s SMTP) PortOrDefault() int {
	switch {
	case s.Port != 0:
		return s.Port
	case s.TLS == MailTLS:
		return 465
	case s.TLS == MailPlain:
		return 25
	}
	return 587
}

// HeloName returns the name of the service for the mail server. It contains a point, because many servers
// refuse a name without a domain, such as a container's.
func (s SMTP) HeloName() string {
	from := ""
	if a, err := mail.ParseAddress(s.From); err == nil {
		from = a.Address[strings.LastIndex(a.Address, "@")+1:]
	}
	for _, name := range []string{s.Helo, s.public, from} {
		if name != "" && (name == s.Helo || strings.Contains(name, ".") && isHelo(name) && !isIP(name) && !strings.HasSuffix(name, ".localhost")) {
			return name
		}
	}
	return "localhost.localdomain" // from is invalid, or its domain is not a name
}

// isHelo reports whether a text is an ASCII server name or an address in brackets (RFC 5321, 4.1.3).
func isHelo(name string) bool {
	inner, bracketed := strings.CutPrefix(name, "[")
	if bracketed {
		inner, bracketed = strings.CutSuffix(inner, "]")
		return bracketed && isIP(strings.TrimPrefix(inner, "IPv6:"))
	}
	return name != "" && len(name) <= 255 && !strings.ContainsFunc(name, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '-' || r == '_')
	})
}

// mail checks the mail settings. It does not connect, so that the service starts without the server.
func (c *checker) mail() {
	s := c.Mail.SMTP
	for _, a := range c.Mail.Addresses {
		if !stoa.IsEmail(a) {
			c.problem("mail.addresses", "%q is not an email address; write one such as team@example.com", a)
		}
	}
	if s.Host == "" {
		if s.From != "" || s.User != "" || len(c.Mail.Addresses) > 0 {
			c.problem("mail.smtp.host", "mail needs a server that sends it; write its name, such as smtp.example.com")
		}
		return
	}
	if strings.ContainsAny(s.Host, ":/@ ") && !isIP(s.Host) {
		c.problem("mail.smtp.host", "%q is not the name of a server; write one such as smtp.example.com, and the port in mail.smtp.port", s.Host)
	}
	if s.Port < 0 || s.Port > 65535 {
		c.problem("mail.smtp.port", "%d is out of range; use 1 to 65535", s.Port)
	}
	if _, err := mail.ParseAddress(s.From); err != nil {
		c.problem("mail.smtp.from", "%q is not a sender; write one such as stoa@example.com, or Stoa <stoa@example.com>", s.From)
	}
	if s.ReplyTo != "" {
		if _, err := mail.ParseAddress(s.ReplyTo); err != nil {
			c.problem("mail.smtp.replyTo", "%q is not an address; write one such as help@example.com, or Help <help@example.com>", s.ReplyTo)
		}
	}
	if s.Helo != "" && !isHelo(s.Helo) {
		c.problem("mail.smtp.helo", "%q is not the name of a server; write one such as stoa.example.com, or leave it empty for the host of publicUrl", s.Helo)
	}
	switch s.TLS {
	case MailStartTLS, MailTLS:
	case MailPlain:
		if s.User != "" && !isLocal(s.Host) {
			c.problem("mail.smtp.tls", "the password would be sent without encryption; use starttls or tls, or remove user")
		}
	default:
		c.problem("mail.smtp.tls", "%q is not one of starttls, tls, none", s.TLS)
	}
	switch {
	case s.PasswordEnv != "" && s.PasswordFile != "":
		c.problem("mail.smtp", "passwordEnv and passwordFile are set; keep one of them")
	case s.User == "" && (s.PasswordEnv != "" || s.PasswordFile != ""):
		c.problem("mail.smtp.user", "there is a password without a user; set user")
	case s.User != "" && s.PasswordEnv == "" && s.PasswordFile == "":
		c.problem("mail.smtp.passwordEnv", "the user needs a password; set passwordEnv or passwordFile")
	}
}

func isIP(host string) bool {
	_, err := netip.ParseAddr(host)
	return err == nil
}
