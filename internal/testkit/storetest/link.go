package storetest

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// commitMessage is the beginning of the message with which a node runs COMMIT: a Bind of
// pgx's prepared statement, named by its hash.
var commitMessage = func() []byte {
	sum := sha256.Sum256([]byte("COMMIT"))
	return fmt.Appendf(nil, "\x00stmtcache_%x\x00", sum[:24])
}()

// A Cut is the treatment of the next COMMIT by a [Link].
type Cut int32

// The cuts: the connection breaks before the server has the COMMIT, when it may have
// it, or once it has answered; or the server gets it only when [Link.Deliver] is called.
const (
	NoCut Cut = iota
	CutBefore
	CutInside
	CutAfter
	CutLate
)

// A Link relays connections to PostgreSQL and can break, slow down and stop them.
type Link struct {
	URL     string       // of the database through the link
	Deaf    atomic.Bool  // notices of other nodes are lost
	Delay   atomic.Int64 // of every piece to the server, in nanoseconds
	Cuts    atomic.Int64 // number of COMMITs that were cut
	still   sync.RWMutex // locked: nothing passes
	away    atomic.Bool  // connections are refused
	cut     atomic.Int32 // a Cut, of one COMMIT
	onCut   func()       // when that is cut; set before cut
	server  string
	deliver chan struct{} // closed by Deliver

	mu   sync.Mutex
	open map[net.Conn]struct{}
}

// NewLink returns a link to the database of an address. It ends with the test.
func NewLink(t testing.TB, address string) *Link {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	l := &Link{deliver: make(chan struct{}), server: u.Host, open: map[net.Conn]struct{}{}}
	var relaying sync.WaitGroup
	t.Cleanup(func() {
		l.Leave()
		relaying.Wait()
	})
	u.Host = Listen(t, func(c net.Conn) { relaying.Go(func() { l.relay(c) }) })
	l.URL = u.String()
	return l
}

// Listen accepts connections at the address that it returns, until the test ends, and
// has each of them taken over, which must not block.
func Listen(t testing.TB, take func(net.Conn)) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	t.Cleanup(func() {
		listener.Close()
		<-ended
	})
	go func() {
		defer close(ended)
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			take(c)
		}
	}()
	return listener.Addr().String()
}

// CutNext cuts the next COMMIT, after which then is called.
func (l *Link) CutNext(how Cut, then func()) {
	l.onCut = then
	l.cut.Store(int32(how))
}

// Deliver sends the COMMIT of a [CutLate] to the server.
func (l *Link) Deliver() { close(l.deliver) }

// Leave breaks all connections and refuses others until [Link.Return].
func (l *Link) Leave() {
	l.away.Store(true)
	l.breakAll()
}

// Return ends [Link.Leave].
func (l *Link) Return() { l.away.Store(false) }

// Hold blocks all traffic until the returned function is called.
func (l *Link) Hold() (free func()) {
	l.still.Lock()
	return l.still.Unlock
}

func (l *Link) breakAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.open {
		c.Close()
	}
}

// track registers a connection for breakAll until the returned function is called,
// which closes it.
func (l *Link) track(c net.Conn) (closed func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open[c] = struct{}{}
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.open, c)
		c.Close()
	}
}

// gate waits while nothing passes.
func (l *Link) gate() {
	l.still.RLock()
	defer l.still.RUnlock()
}

func (l *Link) relay(from net.Conn) {
	defer l.track(from)()
	if l.away.Load() {
		return
	}
	to, err := net.Dial("tcp", l.server)
	if err != nil {
		return
	}
	defer l.track(to)()
	var lost atomic.Bool // later answers of the server
	answers := make(chan struct{})
	go func() {
		defer close(answers)
		defer from.Close()
		l.answers(from, bufio.NewReader(to), &lost)
	}()
	defer func() { to.Close(); <-answers }()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		l.gate()
		if d := time.Duration(l.Delay.Load()); d > 0 {
			slow, over := context.WithTimeout(context.Background(), d)
			<-slow.Done()
			over()
		}
		how := NoCut
		if bytes.Contains(buf[:n], commitMessage) {
			how = Cut(l.cut.Swap(int32(NoCut)))
		}
		lost.Store(how != NoCut)
		if how == CutLate {
			from.Close()
			l.onCut()
			<-l.deliver
		}
		if how != CutBefore {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if how == NoCut {
			continue
		}
		l.Cuts.Add(1)
		if how == CutAfter || how == CutLate {
			<-answers
		}
		if how != CutLate {
			l.onCut()
		}
		return
	}
}

// answers relays the server's messages: a byte for the type, four for the length.
func (l *Link) answers(client io.Writer, from *bufio.Reader, lost *atomic.Bool) {
	to := bufio.NewWriter(client)
	var message []byte
	for {
		if from.Buffered() == 0 && to.Flush() != nil {
			return
		}
		head, err := from.Peek(5)
		if err != nil {
			return
		}
		if lost.Load() {
			return
		}
		n := 1 + int(binary.BigEndian.Uint32(head[1:]))
		message = append(message[:0], make([]byte, n)...)
		if _, err := io.ReadFull(from, message); err != nil {
			return
		}
		if message[0] == 'A' && l.Deaf.Load() {
			continue
		}
		l.gate()
		if _, err := to.Write(message); err != nil {
			return
		}
	}
}
