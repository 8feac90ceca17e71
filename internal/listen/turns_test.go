//go:build unix

package listen

import (
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// pair returns both ends of a TCP connection; ours was accepted by a [Listener].
func pair(t *testing.T) (ours *conn, theirs *net.TCPConn) {
	t.Helper()
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	l := New(plain, Config{})
	defer l.Close()
	accepted := make(chan net.Conn, 1)
	go func() {
		c, _ := l.Accept()
		accepted <- c
	}()
	c, err := net.Dial("tcp", plain.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	theirs, ours = c.(*net.TCPConn), (<-accepted).(*conn)
	t.Cleanup(func() { ours.Close(); theirs.Close() })
	return ours, theirs
}

func TestUnreadBytesAreBounded(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux bounds them")
	}
	ours, theirs := pair(t)
	_ = theirs.SetReadBuffer(4096)
	// What the system takes before it says that it is full.
	taken, piece := 0, make([]byte, 4096)
	var err error
	waited := ours.bulk.raw.Write(func(fd uintptr) bool {
		for err == nil {
			var n int
			n, err = writeNow(fd, piece)
			taken += n
		}
		return true
	})
	// The window of the peer is more than its buffer of 4 KiB at first, since it
	// was opened with the default one.
	if waited != nil || err != errBlocks || taken < unread || taken > 4*unread {
		t.Errorf("the system keeps %d unread bytes (%v), want about %d", taken, err, unread)
	}
}

func TestMoreThreadsAreNoMoreTurns(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for _, test := range []struct{ threads, want int }{
		{1, 1},
		{100 * runtime.NumCPU(), max(1, runtime.NumCPU()/2)},
	} {
		if runtime.GOMAXPROCS(test.threads); AtOnce() != test.want {
			t.Errorf("with %d threads on %d processors: %d at once, want %d", test.threads, runtime.NumCPU(), AtOnce(), test.want)
		}
	}
}

func TestLargeReadsAndWritesTakeTurns(t *testing.T) {
	reading, data := pair(t)
	writing, sink := pair(t)
	if _, err := data.Write(make([]byte, 4*small)); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		turns := newTurns()
		for range cap(turns) {
			turns.take()
		}
		reading.bulk.turns, writing.bulk.turns = turns, turns
		var mu sync.Mutex
		var got []string
		does := func(what string, n int, err error) {
			mu.Lock()
			defer mu.Unlock()
			if err != nil || n == 0 {
				t.Errorf("%s: %d bytes, %v", what, n, err)
			}
			got = append(got, what)
		}
		// Small ones never wait for a turn.
		n, err := reading.Read(make([]byte, small))
		does("small read", n, err)
		n, err = writing.Write(make([]byte, small))
		does("small write", n, err)
		go func() {
			n, err := reading.Read(make([]byte, 3*small))
			does("large read", n, err)
		}()
		synctest.Wait()
		go func() {
			n, err := writing.Write(make([]byte, 2*small))
			does("large write", n, err)
		}()
		synctest.Wait()
		mu.Lock()
		if len(got) != 2 {
			t.Errorf("without a turn there were %q", got)
		}
		mu.Unlock()
		turns.give()
		synctest.Wait()
		if mu.Lock(); len(got) != 4 || got[2] != "large read" {
			t.Errorf("with a turn there were %q", got)
		}
		mu.Unlock()
	})
	_, _ = io.ReadFull(sink, make([]byte, 3*small))
}

func TestWaitingForAPeerTakesNoTurn(t *testing.T) {
	turns := newTurns()
	var waiting sync.WaitGroup
	defer waiting.Wait()
	for range cap(turns) + 1 {
		silent, peer := pair(t)
		waiting.Go(func() {
			silent.bulk.turns = turns
			if n, err := silent.Read(make([]byte, chunk)); n != 1 || err != nil {
				t.Errorf("read %d bytes, %v", n, err)
			}
		})
		full, slow := pair(t)
		const most = 8 << 20 // more than the system keeps
		waiting.Go(func() {
			full.bulk.turns = turns
			if n, err := full.Write(make([]byte, most)); n != most || err != nil {
				t.Errorf("wrote %d bytes, %v", n, err)
			}
		})
		defer func() {
			_, _ = peer.Write([]byte{1})
			_, _ = io.CopyN(io.Discard, slow, most)
		}()
	}
	moving, peer := pair(t)
	moving.bulk.turns = turns
	for range 500 { // which ends only if nobody keeps a turn
		if _, err := peer.Write(make([]byte, small)); err != nil {
			t.Fatal(err)
		}
		for left := small; left > 0; {
			n, err := moving.Read(make([]byte, chunk))
			if err != nil {
				t.Fatal(err)
			}
			left -= n
		}
	}
}

func TestManyBytesAreGathered(t *testing.T) {
	ours, theirs := pair(t)
	send := func(n int) {
		t.Helper()
		if _, err := theirs.Write(make([]byte, n)); err != nil {
			t.Fatal(err)
		}
	}
	var sending sync.WaitGroup
	sending.Go(func() { send(gatherFrom) })
	defer sending.Wait()
	synctest.Test(t, func(t *testing.T) {
		ours.bulk.turns = newTurns()
		began := time.Now()
		// reads reads once and wants so many pauses until now.
		reads := func(size, pauses int) int {
			t.Helper()
			n, err := ours.Read(make([]byte, size))
			if err != nil || n == 0 {
				t.Fatalf("%d bytes, %v", n, err)
			}
			if got := time.Since(began); got != time.Duration(pauses)*gather {
				t.Errorf("the pauses took %v, want %d of %v", got, pauses, gather)
			}
			return n
		}
		for got := 0; got < gatherFrom; { // a body of medium size is never kept waiting
			got += reads(min(chunk, gatherFrom-got+small), 0)
		}
		pauses := 0
		if ours.bulk.short {
			pauses = 1
		}
		send(1)
		reads(chunk, pauses)
		send(1)
		reads(chunk, pauses+1) // the one before was short
		send(1)
		reads(small, pauses+1) // of the next head
		send(2)
		reads(small+1, pauses+1)
	})
}

func TestErrorsOfLargeReads(t *testing.T) {
	for _, test := range []struct {
		name string
		end  func(ours *conn, theirs *net.TCPConn)
		want error
	}{
		{"the peer ended", func(_ *conn, theirs *net.TCPConn) { theirs.Close() }, io.EOF},
		{"the peer reset", func(_ *conn, theirs *net.TCPConn) { _ = theirs.SetLinger(0); theirs.Close() }, syscall.ECONNRESET},
		{"closed here", func(ours *conn, _ *net.TCPConn) { ours.Close() }, net.ErrClosed},
		{"too late", func(ours *conn, _ *net.TCPConn) { _ = ours.SetReadDeadline(time.Unix(1, 0)) }, os.ErrDeadlineExceeded},
	} {
		ours, theirs := pair(t)
		test.end(ours, theirs)
		if n, err := ours.Read(make([]byte, chunk)); n != 0 || !errors.Is(err, test.want) {
			t.Errorf("%s: %d bytes, %v, want %v", test.name, n, err, test.want)
		}
	}
}
