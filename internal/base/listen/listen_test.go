package listen_test

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"stoa/internal/base/listen"
	"stoa/internal/base/stoa"
)

// A source is a listener whose connections come from a channel.
type source struct {
	conns  chan net.Conn
	closed sync.Once
}

func (s *source) Accept() (net.Conn, error) {
	c, ok := <-s.conns
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}

func (s *source) Close() error   { s.closed.Do(func() { close(s.conns) }); return nil }
func (s *source) Addr() net.Addr { return &net.TCPAddr{} }

// A peer is one end of a pipe that comes from an address.
type peer struct {
	net.Conn
	from string
}

func (p peer) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(p.from))
}

func TestConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		src := &source{conns: make(chan net.Conn)}
		l := listen.New(src, listen.Config{
			Connections: 4, PerAddress: 2,
			Refusal: func(ofAddress bool) []byte {
				if ofAddress {
					return []byte("address")
				}
				return []byte("all")
			},
		})
		accepted := make(chan net.Conn, 10)
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				accepted <- c
			}
		}()
		// dial returns the refusal; empty: the connection was accepted.
		dial := func(from string) string {
			ours, theirs := net.Pipe()
			src.conns <- peer{theirs, from}
			synctest.Wait()
			select {
			case c := <-accepted:
				t.Cleanup(func() { c.Close() })
				return ""
			default:
			}
			text, _ := io.ReadAll(ours)
			ours.Close()
			return string(text)
		}
		for i, test := range []struct{ from, want string }{
			{"192.0.2.1:1", ""},
			{"192.0.2.1:2", ""},
			{"192.0.2.1:3", "address"},
			{"[::ffff:192.0.2.1]:4", "address"}, // the same one
			{"[2001:db8::1]:5", ""},
			{"127.0.0.1:6", ""},
			{"192.0.2.9:7", "all"},
			{"127.0.0.1:8", "all"},
		} {
			if got := dial(test.from); got != test.want {
				t.Errorf("%d: %s was refused with %q, want %q", i, test.from, got, test.want)
			}
		}
		if l.Open() != 4 {
			t.Errorf("%d connections are counted", l.Open())
		}
		src.Close()
	})
}

func TestAClosedConnectionIsNotCounted(t *testing.T) {
	t.Parallel()
	src := &source{conns: make(chan net.Conn, 2)}
	l := listen.New(src, listen.Config{Connections: 1, PerAddress: 1})
	defer l.Close()
	for range 3 {
		_, theirs := net.Pipe()
		src.conns <- peer{theirs, "192.0.2.1:1"}
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
		c.Close() // counted once
		if l.Open() != 0 {
			t.Fatalf("%d connections are counted", l.Open())
		}
	}
}

func TestANetworkIsAnAddressOr64Bits(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"192.0.2.1:80": "192.0.2.1/32", "192.0.2.1": "192.0.2.1/32", "[::ffff:192.0.2.1]:1": "192.0.2.1/32",
		"[2001:db8::5:6:7:8]:1": "2001:db8::/64", "2001:db8::1%eth0": "2001:db8::/64",
		"10.1.2.3:4": "invalid Prefix", "fe80::1%eth0": "invalid Prefix", "[fd00::1]:1": "invalid Prefix",
		"127.0.0.1:1": "invalid Prefix", "100.64.0.9:1": "invalid Prefix", "100.128.0.9:1": "100.128.0.9/32", "[::1]:1": "invalid Prefix", "pipe": "invalid Prefix", "": "invalid Prefix",
	} {
		if got := (stoa.Proxies{}).Network(address).String(); got != want {
			t.Errorf("%q is counted as %s, want %s", address, got, want)
		}
	}
}

func TestAPeerMustKeepReading(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		src := &source{conns: make(chan net.Conn, 1)}
		l := listen.New(src, listen.Config{})
		defer l.Close()
		ours, theirs := net.Pipe()
		src.conns <- peer{theirs, "192.0.2.1:1"}
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		started := time.Now()
		written := make(chan error, 1)
		go func() {
			_, err := c.Write(make([]byte, 200<<10))
			written <- err
		}()
		// 100 KiB at 2 KiB a second are taken, for longer than any one deadline.
		for range 50 {
			if _, err := io.CopyN(io.Discard, ours, 2<<10); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		if err := <-written; !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("a peer that stopped reading: %v", err)
		}
		if took := time.Since(started); took < 50*time.Second || took > 90*time.Second {
			t.Errorf("it was cut after %v", took)
		}
		// A deadline that is set counts as well.
		_ = c.SetWriteDeadline(time.Now().Add(time.Second))
		started = time.Now()
		if _, err := c.Write([]byte("x")); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(started) != time.Second {
			t.Errorf("with a deadline: %v after %v", err, time.Since(started))
		}
		ours.Close()
		c.Close()
	})
}

// A deadlines connection keeps the deadlines of writes that are set.
type deadlines struct {
	peer
	set *[]time.Time
}

func (d deadlines) SetWriteDeadline(t time.Time) error {
	*d.set = append(*d.set, t)
	return d.peer.SetWriteDeadline(t)
}

func TestSmallWritesShareADeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		src := &source{conns: make(chan net.Conn, 1)}
		l := listen.New(src, listen.Config{WriteTimeout: 8 * time.Second})
		defer l.Close()
		ours, theirs := net.Pipe()
		defer ours.Close()
		go func() { _, _ = io.Copy(io.Discard, ours) }()
		var set []time.Time
		src.conns <- deadlines{peer{theirs, "192.0.2.1:1"}, &set}
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		write := func() (left time.Duration) {
			if _, err := c.Write([]byte("x")); err != nil {
				t.Fatal(err)
			}
			return time.Until(set[len(set)-1])
		}
		for range 100 {
			if left := write(); left < 8*time.Second || left > 9*time.Second {
				t.Fatalf("a write may take %v", left)
			}
			time.Sleep(100 * time.Millisecond)
		}
		if len(set) > 11 {
			t.Errorf("in 10 s, %d deadlines were set", len(set))
		}
		for _, bound := range []time.Duration{time.Second, 8*time.Second + 500*time.Millisecond} { // what is set counts if it is earlier
			if err := c.SetWriteDeadline(time.Now().Add(bound)); err != nil {
				t.Fatal(err)
			}
			if left := write(); left != bound {
				t.Errorf("with a deadline after %v, a write may take %v", bound, left)
			}
		}
		for _, at := range []time.Time{time.Now().Add(time.Hour), {}} {
			if err := c.SetWriteDeadline(at); err != nil {
				t.Fatal(err)
			}
			if left := write(); left != 9*time.Second {
				t.Errorf("with the deadline %v, a write may take %v", at, left)
			}
		}
	})
}
