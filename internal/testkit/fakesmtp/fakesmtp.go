// Package fakesmtp is a mail server for tests: STARTTLS with the certificate of an authority of
// its own, a login, and refusals on request. It answers with the recorded replies of real servers; see
// [Styles]. It keeps what it accepts. It is for tests only; start with [New].
package fakesmtp

import (
	"bufio"
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"embed"
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

	"stoa/internal/testkit/shape"
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
	style   string
	refuse  map[string]string // reply to a command, by its verb
	offers  string            // the mechanisms of the login; empty means those of the recording
	noUTF8  bool              // SMTPUTF8 is not offered
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
	s := &Server{listener: l, noTLS: plain, Roots: x509.NewCertPool(), tls: &tls.Config{Certificates: certified.TLS.Certificates}, refuse: map[string]string{}, style: Styles[0], open: map[net.Conn]bool{}}
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

// Styles are the servers whose replies the fake has. Postfix sends enhanced codes and requires the parameter
// SMTPUTF8 for addresses outside of ASCII; smtp-server does neither, and offers logins before TLS that it refuses.
var Styles = []string{"postfix", "smtp-server"}

//go:embed testdata/*.txtar
var recordings embed.FS

// recorded returns the replies of a style by their names.
func recorded(style string) map[string]string {
	recording, err := recordings.ReadFile("testdata/" + style + ".txtar")
	if err != nil {
		panic(err) // it is embedded
	}
	all := map[string]string{}
	for _, r := range shape.Replies(recording) {
		all[r.Name] = strings.TrimSpace(r.Text)
	}
	return all
}

// Reply returns a recorded reply of the server's style by its name.
func (s *Server) Reply(name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return recorded(s.style)[name]
}

// Behave sets the style of the next connections.
func (s *Server) Behave(style string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.style = style
}

// Offer sets the mechanisms of the login, of which the server implements PLAIN and LOGIN, and whether it supports
// SMTPUTF8.
func (s *Server) Offer(mechanisms string, utf8 bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.offers, s.noUTF8 = mechanisms, !utf8
}

// extensions returns the reply to EHLO with the extensions that are offered, and the mechanisms of the login.
func (s *Server) extensions(reply string) (lines, mechanisms []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for line := range strings.SplitSeq(reply, "\n") {
		switch word, rest, _ := strings.Cut(line[4:], " "); {
		case word == "SMTPUTF8" && s.noUTF8:
			continue
		case word == "AUTH":
			mechanisms = strings.Fields(cmp.Or(s.offers, rest))
			line = "250-AUTH " + strings.Join(mechanisms, " ")
		}
		lines = append(lines, "250-"+line[4:])
	}
	lines[len(lines)-1] = "250 " + lines[len(lines)-1][4:]
	return lines, mechanisms
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

func ascii(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r > unicode.MaxASCII })
}

// serve speaks SMTP on a connection.
func (s *Server) serve(c net.Conn) {
	s.mu.Lock()
	replies := recorded(s.style)
	s.mu.Unlock()
	in := bufio.NewReader(c)
	write := func(lines ...string) { fmt.Fprint(c, strings.Join(lines, "\r\n")+"\r\n") }
	say := func(name string) { write(strings.Split(replies[name], "\n")...) }
	var now Mail
	international := false // MAIL had the parameter SMTPUTF8
	say("greeting")
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		line = strings.TrimRight(line, "\r\n")
		verb, rest, _ := strings.Cut(line, " ")
		verb = strings.ToUpper(verb)
		mechanism, proof, _ := strings.Cut(rest, " ")
		s.mu.Lock()
		refusal := cmp.Or(s.refuse[verb], s.refuse[verb+" "+mechanism])
		s.mu.Unlock()
		secured := now.TLS || s.noTLS
		list := "EHLO"
		if !secured {
			list = "EHLO before TLS"
		}
		extensions, mechanisms := s.extensions(replies[list])
		switch {
		case refusal != "":
			write(refusal)
		case verb == "EHLO":
			now.Helo = rest
			write(extensions...)
		case verb == "HELO":
			now.Helo = rest
			say("HELO")
		case verb == "STARTTLS" && !secured:
			say("STARTTLS")
			secure := tls.Server(c, s.tls)
			if secure.Handshake() != nil {
				return
			}
			c, in = secure, bufio.NewReader(secure)
			now = Mail{TLS: true}
		case verb == "AUTH" && !secured:
			say("AUTH before TLS")
		case verb == "AUTH" && now.User != "":
			say("AUTH: again")
		case verb == "AUTH" && !slices.Contains(mechanisms, mechanism):
			say("AUTH: unknown")
		case verb == "AUTH":
			text, _ := base64.StdEncoding.DecodeString(proof)
			if mechanism == "LOGIN" {
				text = nil
				for _, prompt := range []string{"AUTH LOGIN", "AUTH LOGIN: password"} {
					say(prompt)
					line, err := in.ReadString('\n')
					if err != nil {
						return
					}
					part, _ := base64.StdEncoding.DecodeString(strings.TrimSpace(line))
					text = append(append(text, 0), part...)
				}
			}
			if parts := strings.Split(string(text), "\x00"); len(parts) != 3 || parts[1] != User || parts[2] != Password {
				say("AUTH PLAIN: refused")
				continue
			}
			now.User = User
			say("AUTH PLAIN")
		case verb == "MAIL":
			international = slices.ContainsFunc(extensions, func(e string) bool { return e[4:] == "SMTPUTF8" }) && slices.Contains(strings.Fields(rest), "SMTPUTF8")
			now.From = rest
			say("MAIL")
		case verb == "RCPT" && strings.HasPrefix(rest, "TO:<nobody@"):
			say("RCPT: unknown")
		case verb == "RCPT":
			name := "RCPT"
			if !international && !ascii(rest) {
				name = "RCPT: not ASCII"
			}
			if strings.HasPrefix(replies[name], "250") {
				now.To = strings.Trim(strings.TrimPrefix(rest, "TO:"), "<>")
			}
			say(name)
		case verb == "DATA" && now.To == "":
			say("DATA: no recipient")
		case verb == "DATA":
			say("DATA")
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
			}
			s.mu.Unlock()
			now.From, now.To = "", ""
			write(cmp.Or(refusal, replies["."]))
		case verb == "QUIT":
			say("QUIT")
			return
		case verb == "RSET" || verb == "NOOP":
			say(verb)
		default:
			say("unknown command")
		}
	}
}
