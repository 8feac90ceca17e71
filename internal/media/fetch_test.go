package media

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"stoa/internal/stoa"
)

func TestURLsThatAreRefused(t *testing.T) {
	for _, bad := range []string{
		"", "http://images.example.com/a.png", "ftp://images.example.com/a", "https:images.example.com", "https://", "//images.example.com/a",
		"https://user@images.example.com/", "https://user:password@images.example.com/", "https://images.example.com/#a", "https://images.example.com/#",
		"https://images.example.com:8443/", "https://images.example.com:80/", "https://images.example.com:/", "https://images.example.com\\@10.0.0.1/",
		"https://127.0.0.1/", "https://8.8.8.8/", "https://2130706433/", "https://0x7f000001/", "https://0x7f.1/", "https://0177.0.0.1/", "https://127.1/",
		"https://[::1]/", "https://[::ffff:127.0.0.1]/", "https://[2606:4700::1111]/", "https://[fe80::1%25eth0]/", "https://1.1.1.1./",
		"https://localhost/", "https://localhost./", "https://a.localhost/", "https://printer.local/", "https://metadata.google.internal/", "https://metadata/",
		"https://a..b.com/", "https://exämple.com/", "https://a b.com/", "https://images.example.com/a b", "https://images.example.com/%zz\n",
		"https://" + strings.Repeat("a", 64) + ".com/", "https://a.com/" + strings.Repeat("a", maxURL),
	} {
		if err := CheckURL(bad); stoa.CodeOf(err) != stoa.CodeInvalidValue {
			t.Errorf("%q: %v", bad, err)
		}
	}
	for _, good := range []string{
		"https://images.example.com/a.png", "https://images.example.com:443/a?b=c%20d&e=1", "HTTPS://Images.Example.COM./a", "https://xn--exmple-cua.com/",
		"https://3com.com/", "https://a.co/" + strings.Repeat("a", 4_000),
	} {
		if err := CheckURL(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
}

func TestAddressesThatAreNotPublic(t *testing.T) {
	for _, private := range []string{
		"0.0.0.0", "0.1.2.3", "10.0.0.1", "100.64.0.1", "127.0.0.1", "127.255.255.255", "169.254.169.254", "172.16.0.1", "172.31.255.255", "192.0.0.8",
		"192.0.2.1", "192.168.1.1", "198.18.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.1", "240.0.0.1", "255.255.255.255", "100.100.100.200", "168.63.129.16",
		"::", "::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::127.0.0.1", "fe80::1", "fe80::1%eth0", "fc00::1", "fd00:ec2::254", "ff02::1", "2001::1",
		"2001:db8::1", "2002:7f00:1::", "2002:a00:1::1", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::1", "fec0::1", "100::1", "4000::1",
	} {
		if IsPublic(netip.MustParseAddr(private)) {
			t.Errorf("%s counts as public", private)
		}
	}
	for _, public := range []string{"8.8.8.8", "::ffff:8.8.8.8", "172.32.0.1", "2606:4700:4700::1111", "2002:808:808::1", "64:ff9b::808:808", "100.128.0.1"} {
		if !IsPublic(netip.MustParseAddr(public)) {
			t.Errorf("%s does not count as public", public)
		}
	}
	if IsPublic(netip.Addr{}) {
		t.Error("no address counts as public")
	}
}

// A site is a server that any public address leads to.
type site struct {
	*Fetcher
	dialed  []string
	answers map[string][][]netip.Addr // of a host: one answer after the other
	asked   map[string]int
}

var public = netip.MustParseAddr("93.184.216.34")

// serve starts a server over pipes, so that time can be that of a synctest bubble.
func serve(t *testing.T, handler http.HandlerFunc) *site {
	t.Helper()
	s := &site{Fetcher: NewFetcher(), answers: map[string][][]netip.Addr{}, asked: map[string]int{}}
	conns := make(chan net.Conn)
	server := httptest.NewUnstartedServer(handler) // for its certificate
	server.Listener.Close()
	server.Listener = &listener{conns: conns, closed: make(chan struct{})}
	server.StartTLS()
	t.Cleanup(server.Close)
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	s.client = s.newClient(&tls.Config{RootCAs: roots, ServerName: "example.com"})
	s.resolve = func(_ context.Context, host string) ([]netip.Addr, error) {
		list := s.answers[host]
		if list == nil {
			return []netip.Addr{public}, nil
		}
		n := s.asked[host]
		s.asked[host]++
		return list[min(n, len(list)-1)], nil
	}
	s.dial = func(ctx context.Context, _, address string) (net.Conn, error) {
		s.dialed = append(s.dialed, address)
		ours, theirs := net.Pipe()
		select {
		case conns <- theirs:
			return ours, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return s
}

type listener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}
func (l *listener) Close() error { l.once.Do(func() { close(l.closed) }); return nil }
func (*listener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

func TestAddressesAreFetched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked *http.Request
		s := serve(t, func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/there":
				http.SetCookie(w, &http.Cookie{Name: "a", Value: "b"})
				http.Redirect(w, r, "https://other.images.com/a.png", http.StatusFound)
			default:
				asked = r
				_, _ = io.WriteString(w, "content")
			}
		})
		got, err := s.Fetch(t.Context(), "account", "https://images.com/there", 7)
		if err != nil || string(got) != "content" {
			t.Fatalf("%q, %v", got, err)
		}
		if asked.Host != "other.images.com" || asked.Header.Get("Cookie") != "" || asked.Header.Get("Referer") != "" || asked.Header.Get("Accept-Encoding") != "identity" {
			t.Errorf("asked %s with %v", asked.Host, asked.Header)
		}
		if len(s.dialed) != 2 || s.dialed[0] != public.String()+":443" {
			t.Errorf("dialed %v", s.dialed)
		}
		if len(s.busy) != 0 {
			t.Errorf("accounts are kept: %v", s.busy)
		}
	})
}

func TestAddressesThatCannotBeFetched(t *testing.T) {
	private, loopback := netip.MustParseAddr("10.1.2.3"), netip.MustParseAddr("::ffff:127.0.0.1")
	for name, c := range map[string]struct {
		path    string
		answers map[string][][]netip.Addr
		want    string
		longest time.Duration
	}{
		"a private host":             {"/", map[string][][]netip.Addr{"images.com": {{private}}}, "could not be fetched", 0},
		"one of two is private":      {"/", map[string][][]netip.Addr{"images.com": {{public, loopback}}}, "could not be fetched", 0},
		"another address later":      {"/again", map[string][][]netip.Addr{"images.com": {{public}, {private}}}, "could not be fetched", 0},
		"a redirect to a private":    {"/elsewhere", map[string][][]netip.Addr{"elsewhere.com": {{private}}}, "could not be fetched", 0},
		"a redirect to an address":   {"/address", nil, "could not be fetched", 0},
		"a redirect without TLS":     {"/plain", nil, "could not be fetched", 0},
		"redirects without end":      {"/again", nil, "could not be fetched", 0},
		"no address":                 {"/", map[string][][]netip.Addr{"images.com": {{}}}, "could not be fetched", 0},
		"not found":                  {"/missing", nil, "could not be fetched", 0},
		"a body that says its size":  {"/large", nil, "larger than 100 bytes", 0},
		"a body without end":         {"/endless", nil, "larger than 100 bytes", 0},
		"a slow body":                {"/slow", nil, "could not be fetched", connectTime + fetchTime},
		"no answer":                  {"/silent", nil, "could not be fetched", connectTime + fetchTime},
		"a body that was compressed": {"/gzip", nil, "could not be fetched", 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := serve(t, func(w http.ResponseWriter, r *http.Request) {
					switch r.URL.Path {
					case "/again":
						http.Redirect(w, r, "/again", http.StatusFound)
					case "/elsewhere":
						http.Redirect(w, r, "https://elsewhere.com/", http.StatusFound)
					case "/address":
						http.Redirect(w, r, "https://169.254.169.254/latest", http.StatusFound)
					case "/plain":
						http.Redirect(w, r, "http://images.com/", http.StatusFound)
					case "/missing":
						http.NotFound(w, r)
					case "/large":
						w.Header().Set("Content-Length", "101")
						_, _ = w.Write(make([]byte, 101))
					case "/endless":
						for r.Context().Err() == nil {
							if _, err := w.Write(make([]byte, 1000)); err != nil {
								return
							}
						}
					case "/slow":
						for r.Context().Err() == nil {
							_, _ = w.Write([]byte("x"))
							w.(http.Flusher).Flush()
							select {
							case <-time.After(time.Second):
							case <-r.Context().Done():
							}
						}
					case "/silent":
						<-r.Context().Done()
					case "/gzip":
						w.Header().Set("Content-Encoding", "gzip")
						_, _ = w.Write([]byte("x"))
					}
				})
				s.answers = c.answers
				began := time.Now()
				_, err := s.Fetch(t.Context(), "account", "https://images.com"+c.path, 100)
				if err == nil || !strings.Contains(err.Error(), c.want) || stoa.CodeOf(err) != stoa.CodeInvalidValue {
					t.Fatalf("%v, want %q", err, c.want)
				}
				if strings.Contains(err.Error(), "10.1") || strings.Contains(err.Error(), "127.") {
					t.Errorf("the error names an address: %v", err)
				}
				if took := time.Since(began); took != c.longest {
					t.Errorf("it took %v, want %v", took, c.longest)
				}
				for _, d := range s.dialed {
					if d != public.String()+":443" {
						t.Errorf("dialed %s", d)
					}
				}
			})
		})
	}
}

func TestAnAccountFetchesFourAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var open atomic.Int32
		release := make(chan struct{})
		s := NewFetcher()
		s.resolve = func(ctx context.Context, _ string) ([]netip.Addr, error) {
			open.Add(1)
			defer open.Add(-1)
			select {
			case <-release:
			case <-ctx.Done():
			}
			return nil, errors.New("gone")
		}
		for range 9 {
			go func() { _, _ = s.Fetch(t.Context(), "one", "https://images.com/", 1) }()
		}
		synctest.Wait()
		if n := open.Load(); n != 4 {
			t.Errorf("%d fetches at a time", n)
		}
		go func() { _, _ = s.Fetch(t.Context(), "two", "https://images.com/", 1) }()
		synctest.Wait()
		if n := open.Load(); n != 5 {
			t.Errorf("another account waits: %d", n)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := s.Fetch(ctx, "one", "https://images.com/", 1); err == nil {
			t.Error("a caller who left waits")
		}
		close(release)
		synctest.Wait()
		if len(s.busy) != 0 {
			t.Errorf("accounts are kept: %v", s.busy)
		}
	})
}
