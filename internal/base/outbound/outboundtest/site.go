// Package outboundtest provides a test server that every public address leads to.
//
// Start with [Serve].
package outboundtest

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"sync"
	"testing"

	"stoa/internal/base/outbound"
)

// Public is the address of every name, unless Answers contains another.
var Public = netip.MustParseAddr("93.184.216.34")

// A Site is a server over pipes, so that time can be that of a synctest bubble.
type Site struct {
	// Settings are the settings of a network in which every name and address leads to the
	// site.
	Settings outbound.Settings
	// Answers contains the resolver's answers per host: used in turn, the last one for ever.
	Answers map[string][][]netip.Addr

	conns  chan net.Conn
	mu     sync.Mutex
	asked  map[string]int
	dialed []string
}

// Serve starts a server with TLS for every name. Without a handler it speaks neither TLS nor
// HTTP: [Site.Accept] returns the connections.
func Serve(t testing.TB, handler http.Handler) *Site {
	t.Helper()
	s := &Site{Answers: map[string][][]netip.Addr{}, asked: map[string]int{}, conns: make(chan net.Conn)}
	s.Settings.Resolve, s.Settings.Dial = s.resolve, s.dial
	if handler == nil {
		return s
	}
	server := httptest.NewUnstartedServer(handler) // for its certificate
	server.Listener.Close()
	server.Listener = &listener{conns: s.conns, closed: make(chan struct{})}
	server.StartTLS()
	t.Cleanup(server.Close)
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	s.Settings.TLS = &tls.Config{RootCAs: roots, ServerName: "example.com"}
	return s
}

// Network returns the network of the settings.
func (s *Site) Network() *outbound.Network { return outbound.New(s.Settings) }

// Accept returns the next connection to a site without a handler.
func (s *Site) Accept() net.Conn { return <-s.conns }

// Dialed returns the addresses dialed so far.
func (s *Site) Dialed() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.dialed)
}

func (s *Site) resolve(_ context.Context, host string) ([]netip.Addr, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{a}, nil
	}
	list := s.Answers[host]
	if list == nil {
		return []netip.Addr{Public}, nil
	}
	n := s.asked[host]
	s.asked[host]++
	return list[min(n, len(list)-1)], nil
}

func (s *Site) dial(ctx context.Context, _, address string) (net.Conn, error) {
	s.mu.Lock()
	s.dialed = append(s.dialed, address)
	s.mu.Unlock()
	ours, theirs := net.Pipe()
	select {
	case s.conns <- theirs:
		return ours, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
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
