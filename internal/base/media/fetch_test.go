package media

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"stoa/internal/base/outbound"
	"stoa/internal/base/outbound/outboundtest"
	"stoa/internal/base/stoa"
)

func TestURLsThatAreRefused(t *testing.T) {
	t.Parallel()
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

// serve starts a server that any public address leads to.
func serve(t *testing.T, handler http.HandlerFunc) (*outboundtest.Site, *Fetcher) {
	t.Helper()
	s := outboundtest.Serve(t, handler)
	allow, err := outbound.ParseDestinations([]string{"10.0.0.0/8", "127.0.0.0/8"}) // for other users than fetchers
	if err != nil {
		t.Fatal(err)
	}
	s.Settings.Allow = allow
	return s, NewFetcher(s.Network())
}

var public = outboundtest.Public

func TestAddressesAreFetched(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var asked *http.Request
		s, f := serve(t, func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/there":
				http.SetCookie(w, &http.Cookie{Name: "a", Value: "b"})
				http.Redirect(w, r, "https://other.images.com/a.png", http.StatusFound)
			default:
				asked = r
				_, _ = io.WriteString(w, "content")
			}
		})
		got, err := f.Fetch(t.Context(), "account", "https://images.com/there", 7)
		if err != nil || string(got) != "content" {
			t.Fatalf("%q, %v", got, err)
		}
		if asked.Host != "other.images.com" || asked.Header.Get("Cookie") != "" || asked.Header.Get("Referer") != "" || asked.Header.Get("Accept-Encoding") != "identity" {
			t.Errorf("asked %s with %v", asked.Host, asked.Header)
		}
		if d := s.Dialed(); len(d) != 2 || d[0] != public.String()+":443" {
			t.Errorf("dialed %v", d)
		}
		if len(f.busy) != 0 {
			t.Errorf("accounts are kept: %v", f.busy)
		}
	})
}

func TestAddressesThatCannotBeFetched(t *testing.T) {
	t.Parallel()
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
				s, f := serve(t, func(w http.ResponseWriter, r *http.Request) {
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
				for host, list := range c.answers {
					s.Answers[host] = list
				}
				began := time.Now()
				_, err := f.Fetch(t.Context(), "account", "https://images.com"+c.path, 100)
				if err == nil || !strings.Contains(err.Error(), c.want) || stoa.CodeOf(err) != stoa.CodeInvalidValue {
					t.Fatalf("%v, want %q", err, c.want)
				}
				if strings.Contains(err.Error(), "10.1") || strings.Contains(err.Error(), "127.") {
					t.Errorf("the error names an address: %v", err)
				}
				if took := time.Since(began); took != c.longest {
					t.Errorf("it took %v, want %v", took, c.longest)
				}
				for _, d := range s.Dialed() {
					if d != public.String()+":443" {
						t.Errorf("dialed %s", d)
					}
				}
			})
		})
	}
}

func TestAnAccountFetchesFourAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var open atomic.Int32
		release := make(chan struct{})
		s := NewFetcher(outbound.New(outbound.Settings{Resolve: func(ctx context.Context, _ string) ([]netip.Addr, error) {
			open.Add(1)
			defer open.Add(-1)
			select {
			case <-release:
			case <-ctx.Done():
			}
			return nil, errors.New("gone")
		}}))
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
