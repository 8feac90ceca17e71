// Package fakesmtp is a mail server for tests: STARTTLS with the certificate of an authority of
// its own, a login, and refusals on request. It keeps what it accepts. It is for tests only; start
// with [New].
package fakesmtp

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"net"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"unicode"
)

// User and Password are what the server accepts.
const (
	User     = "stoa"
	Password = "correct-horse"
)

// Mail is a message that the server has accepted.
type Mail struct {
	From, To string
	Data     string // headers and body
	TLS      bool
	User     string // that has logged in
	Helo     string // the name of the client
}

// A Server is a running server.
type Server struct {
	Host  string
	Port  int
	Roots *x509.CertPool // that its certificate is valid for

	listener net.Listener
	tls      *tls.Config
	noTLS    bool

	mu      sync.Mutex
	refuse  map[string]string // reply to a command, by its verb
	offers  string            // the mechanisms of the login
	utf8    bool              // SMTPUTF8 is offered
	all     []Mail
	open    map[net.Conn]bool
	serving sync.WaitGroup
}

// New starts a server, which ends with the test. With plain it offers no TLS.
func New(t testing.TB, plain bool) *Server {
	t.Helper()
	certified := httptest.NewUnstartedServer(nil)
	certified.StartTLS() // for its certificate of 127.0.0.1
	defer certified.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{listener: l, noTLS: plain, Roots: x509.NewCertPool(), tls: &tls.Config{Certificates: certified.TLS.Certificates}, refuse: map[string]string{}, offers: "PLAIN", open: map[net.Conn]bool{}}
	s.Roots.AddCert(certified.Certificate())
	host, port, _ := net.SplitHostPort(l.Addr().String())
	s.Host = host
	s.Port, _ = strconv.Atoi(port)
	s.serving.Go(s.accept)
	t.Cleanup(s.Close)
	return s
}

// Close ends the server and its connections.
func (s *Server) Close() {
	s.listener.Close()
	s.mu.Lock()
	for c := range s.open {
		c.Close()
	}
	s.mu.Unlock()
	s.serving.Wait()
}

// Offer sets the mechanisms of the login, of which the server implements PLAIN and LOGIN, and whether it supports
// SMTPUTF8.
func (s *Server) Offer(mechanisms string, utf8 bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.offers, s.utf8 = mechanisms, utf8
}

// Refuse makes the server answer a command, such as RCPT or AUTH PLAIN, or "." for the end of a message, with
// this reply; an empty one accepts it again.
func (s *Server) Refuse(verb, reply string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refuse[verb] = reply
}

// Mails returns the messages since the last call.
func (s *Server) Mails() []Mail {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.all
	s.all = nil
	return all
}

func (s *Server) accept() {
	for {
		c, err := s.listener.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		s.open[c] = true
		s.mu.Unlock()
		s.serving.Go(func() {
			defer c.Close()
			s.serve(c)
			s.mu.Lock()
			delete(s.open, c)
			s.mu.Unlock()
		})
	}
}

// notASCII refuses an address without the parameter SMTPUTF8, as RFC 6531 has it.
const notASCII = "553 5.6.7 addresses outside of ASCII are not permitted"

func ascii(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r > unicode.MaxASCII })
}

// serve speaks SMTP on a connection.
func (s *Server) serve(c net.Conn) {
	in := bufio.NewReader(c)
	say := func(format string, args ...any) { fmt.Fprintf(c, format+"\r\n", args...) }
	var now Mail
	international := false // MAIL had the parameter SMTPUTF8
	say("220 fake ESMTP")
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		line = strings.TrimRight(line, "\r\n")
		verb, rest, _ := strings.Cut(line, " ")
		verb = strings.ToUpper(verb)
		s.mu.Lock()
		refusal, offers, utf8 := s.refuse[verb], s.offers, s.utf8
		mechanism, proof, _ := strings.Cut(rest, " ")
		if refusal == "" && verb == "AUTH" {
			refusal = s.refuse["AUTH "+mechanism]
		}
		s.mu.Unlock()
		secured := now.TLS || s.noTLS // until then it offers STARTTLS only
		switch {
		case refusal != "":
			say("%s", refusal)
		case verb == "EHLO" || verb == "HELO":
			now.Helo = rest
			say("250-fake")
			if secured && utf8 {
				say("250-SMTPUTF8")
			}
			if secured {
				say("250 AUTH %s", offers)
			} else {
				say("250 STARTTLS")
			}
		case verb == "STARTTLS" && !s.noTLS:
			say("220 go ahead")
			secure := tls.Server(c, s.tls)
			if secure.Handshake() != nil {
				return
			}
			c, in = secure, bufio.NewReader(secure)
			say = func(format string, args ...any) { fmt.Fprintf(secure, format+"\r\n", args...) }
			now = Mail{TLS: true}
		case verb == "AUTH" && (!secured || !slices.Contains(strings.Fields(offers), mechanism)):
			say("504 5.5.4 the mechanism is not offered")
		case verb == "AUTH":
			text, _ := base64.StdEncoding.DecodeString(proof)
			if mechanism == "LOGIN" {
				text = nil
				for _, prompt := range []string{"Username:", "Password:"} {
					say("334 %s", base64.StdEncoding.EncodeToString([]byte(prompt)))
					line, err := in.ReadString('\n')
					if err != nil {
						return
					}
					part, _ := base64.StdEncoding.DecodeString(strings.TrimSpace(line))
					text = append(append(text, 0), part...)
				}
			}
			if parts := strings.Split(string(text), "\x00"); len(parts) != 3 || parts[1] != User || parts[2] != Password {
				say("535 5.7.8 authentication failed")
				continue
			}
			now.User = User
			say("235 welcome")
		case verb == "MAIL":
			international = secured && utf8 && slices.Contains(strings.Fields(rest), "SMTPUTF8")
			if !international && !ascii(rest) {
				say("%s", notASCII)
				continue
			}
			now.From = rest
			say("250 ok")
		case verb == "RCPT" && !international && !ascii(rest):
			say("%s", notASCII)
		case verb == "RCPT":
			now.To = strings.Trim(strings.TrimPrefix(rest, "TO:"), "<>")
			say("250 ok")
		case verb == "DATA":
			say("354 send it")
			var data strings.Builder
			for {
				line, err := in.ReadString('\n')
				if err != nil {
					return
				}
				if line == ".\r\n" {
					break
				}
				data.WriteString(line)
			}
			s.mu.Lock()
			refusal := s.refuse["."]
			if refusal == "" {
				now.Data = data.String()
				s.all = append(s.all, now)
				refusal = "250 queued"
			}
			s.mu.Unlock()
			say("%s", refusal)
		case verb == "QUIT":
			say("221 bye")
			return
		default:
			say("250 ok")
		}
	}
}
