package fakesmtp

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"stoa/internal/testkit/shape"
)

// A client is a connection to a mail server.
type client struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Reader
	all  *[]shape.Reply
}

// say sends a line and reads the reply to it, which is recorded under a name.
func (c *client) say(name, line string) {
	c.t.Helper()
	if line != "" {
		fmt.Fprintf(c.conn, "%s\r\n", line)
	}
	text := ""
	for {
		line, err := c.in.ReadString('\n')
		if err != nil {
			c.t.Fatalf("%s: %q, %v", name, text, err)
		}
		text += strings.TrimRight(line, "\r\n") + "\n"
		if len(line) < 4 || line[3] != '-' {
			break
		}
	}
	*c.all = append(*c.all, shape.Reply{Name: name, Text: text})
}

// replies has conversations with a mail server that has the user, TLS and the recipients ada and dörte.
func replies(t *testing.T, at string) (all []shape.Reply) {
	dial := func(secure bool) *client {
		t.Helper()
		conn, err := net.Dial("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		c := &client{t, conn, bufio.NewReader(conn), &all}
		c.say("greeting", "")
		if secure {
			c.say("EHLO before TLS", "EHLO client.example.com")
			c.say("AUTH before TLS", "AUTH PLAIN "+plain(Password))
			c.say("STARTTLS", "STARTTLS")
			c.conn = tls.Client(conn, &tls.Config{InsecureSkipVerify: true})
			c.in = bufio.NewReader(c.conn)
			c.say("EHLO", "EHLO client.example.com")
		}
		return c
	}
	encoded := func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

	c := dial(true)
	c.say("AUTH: unknown", "AUTH ODD")
	c.say("AUTH PLAIN: refused", "AUTH PLAIN "+plain("wrong"))
	c.say("AUTH PLAIN", "AUTH PLAIN "+plain(Password))
	c.say("AUTH: again", "AUTH PLAIN "+plain(Password))
	c.say("DATA: no recipient", "DATA")
	c.say("MAIL", "MAIL FROM:<stoa@example.com>")
	c.say("RCPT: unknown", "RCPT TO:<nobody@example.com>")
	c.say("RCPT: not ASCII", "RCPT TO:<dörte@example.com>")
	c.say("RCPT", "RCPT TO:<ada@example.com>")
	c.say("DATA", "DATA")
	c.say(".", "Subject: Hello\r\n\r\nHello\r\n.")
	c.say("MAIL: SMTPUTF8", "MAIL FROM:<stoa@example.com> SMTPUTF8")
	c.say("RCPT: SMTPUTF8", "RCPT TO:<dörte@example.com>")
	c.say("RSET", "RSET")
	c.say("NOOP", "NOOP")
	c.say("unknown command", "ODD")
	c.say("QUIT", "QUIT")

	c = dial(true)
	c.say("AUTH LOGIN", "AUTH LOGIN")
	c.say("AUTH LOGIN: password", encoded(User))
	c.say("AUTH PLAIN: refused", encoded("wrong"))
	c.say("AUTH LOGIN", "AUTH LOGIN")
	c.say("AUTH LOGIN: password", encoded(User))
	c.say("AUTH PLAIN", encoded(Password))

	c = dial(false)
	c.say("HELO", "HELO client.example.com")
	return all
}

func plain(password string) string {
	return base64.StdEncoding.EncodeToString([]byte("\x00" + User + "\x00" + password))
}

const smtpServer = `import { SMTPServer } from "smtp-server";
new SMTPServer({
  name: "mail.example.com",
  authOptional: true,
  onAuth: (auth, _, done) => (auth.username === "stoa" && auth.password === "correct-horse" ? done(null, { user: "stoa" }) : done(new Error("Invalid login"))),
  onRcptTo: (to, _, done) => (to.address.startsWith("nobody") ? done(new Error("No such user")) : done()),
  onData: (stream, _, done) => stream.on("end", done).resume(),
}).listen(PORT, "127.0.0.1");
`

// nodemailer records smtp-server.
func nodemailer(t *testing.T, programs string) (string, []shape.Reply) {
	port := shape.Run(t, programs, nil, "node", "--input-type=module", "-e", smtpServer)
	return shape.NPM(t, programs, "smtp-server"), replies(t, "127.0.0.1:"+port)
}

// postfix records Postfix, which must run as root.
func postfix(t *testing.T, _ string) (string, []shape.Reply) {
	version, err := exec.Command("postconf", "-dh", "mail_version").Output()
	if err != nil {
		t.Skip("Postfix is not installed")
	}
	dir, err := os.MkdirTemp("", "stoa-postfix-") // that another user can reach
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	certified := httptest.NewUnstartedServer(nil)
	certified.StartTLS()
	certified.Close()
	pair := certified.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"tls.pem": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})) + string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]})),
		"main.cf": `compatibility_level = 3.6
queue_directory = DIR/queue
data_directory = DIR/data
maillog_file = /dev/stdout
maillog_file_prefixes = /dev
myhostname = mail.example.com
mydestination =
relay_domains = example.com
relay_recipient_maps = inline:{ ada@example.com=x, dörte@example.com=x }
transport_maps = inline:{ example.com=discard: }
strict_smtputf8 = yes
smtpd_recipient_restrictions = permit_sasl_authenticated, reject
smtpd_tls_security_level = may
smtpd_tls_chain_files = DIR/tls.pem
smtpd_tls_auth_only = yes
smtpd_sasl_auth_enable = yes
smtpd_sasl_type = dovecot
smtpd_sasl_path = inet:` + logins(t) + "\n",
		"master.cf": `PORT inet n - n - - smtpd
cleanup unix n - n - 0 cleanup
qmgr unix n - n 300 1 qmgr
tlsmgr unix - - n 1000? 1 tlsmgr
rewrite unix - - n - - trivial-rewrite
bounce unix - - n - 0 bounce
discard unix - - n - - discard
anvil unix - - n - 1 anvil
proxymap unix - - n - - proxymap
postlog unix-dgram n - n - 1 postlogd
`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(strings.ReplaceAll(text, "DIR", dir)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	port := shape.Run(t, dir, nil, "sh", "-c", "sed -i s/^PO[R]T/PORT/ master.cf; chmod 755 .; mkdir queue data; chown postfix data; exec postfix -c "+dir+" start-fg")
	t.Cleanup(func() { _ = exec.Command("postfix", "-c", dir, "abort").Run() }) // its children as well
	return "Postfix " + strings.TrimSpace(string(version)), replies(t, "127.0.0.1:"+port)
}

// logins answers Postfix's questions about logins as Dovecot does, and returns the address.
func logins(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	answer := func(c net.Conn) {
		defer c.Close()
		fmt.Fprint(c, "VERSION\t1\t1\nMECH\tPLAIN\tplaintext\nMECH\tLOGIN\tplaintext\nSPID\t1\nCUID\t1\nCOOKIE\t1\nDONE\n")
		user := ""
		for in := bufio.NewScanner(c); in.Scan(); {
			parts := strings.Split(in.Text(), "\t")
			proof, _ := base64.StdEncoding.DecodeString(strings.TrimPrefix(parts[len(parts)-1], "resp="))
			switch {
			case parts[0] == "AUTH" && parts[2] == "LOGIN":
				user = ""
				fmt.Fprintf(c, "CONT\t%s\t%s\n", parts[1], base64.StdEncoding.EncodeToString([]byte("Username:")))
			case parts[0] == "CONT" && user == "":
				user = string(proof)
				fmt.Fprintf(c, "CONT\t%s\t%s\n", parts[1], base64.StdEncoding.EncodeToString([]byte("Password:")))
			case strings.HasSuffix(string(proof), Password):
				fmt.Fprintf(c, "OK\t%s\tuser=%s\n", parts[1], User)
			case parts[0] == "AUTH" || parts[0] == "CONT":
				fmt.Fprintf(c, "FAIL\t%s\tuser=%s\n", parts[1], User)
			}
		}
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go answer(c)
		}
	}()
	return l.Addr().String()
}

func TestRecordedServers(t *testing.T) {
	t.Parallel()
	for file, record := range map[string]func(*testing.T, string) (string, []shape.Reply){"smtp-server.txtar": nodemailer, "postfix.txtar": postfix} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			s := New(t, false)
			s.Behave(strings.TrimSuffix(file, ".txtar"))
			fake := replies(t, net.JoinHostPort(s.Host, strconv.Itoa(s.Port)))
			shape.Recording{File: file, Record: record, Random: map[string]string{`queued as \w+`: "queued as 1", `meet you, .*`: "meet you, client"}}.Compare(t, fake)
		})
	}
}
