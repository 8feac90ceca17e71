package eventloop

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newLoops returns so many loops.
func newLoops(t testing.TB, n int) *Loops {
	l := &Loops{}
	for range n {
		l.loops = append(l.loops, &loop{poller: -1})
	}
	t.Cleanup(l.Close)
	return l
}

// pair returns two sockets that are connected; the first does not block.
func pair(t testing.TB) (ours, theirs int) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.SetNonblock(fds[0], true); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fds[0]); unix.Close(fds[1]) })
	return fds[0], fds[1]
}

// read waits for the next bytes; empty at the end.
func read(task *Task, fd int) string {
	var buf [100]byte
	for {
		task.Wait(fd)
		n, err := unix.Read(fd, buf[:])
		if err != unix.EAGAIN {
			return string(buf[:max(n, 0)])
		}
	}
}

func send(t testing.TB, fd int, text string) {
	if _, err := unix.Write(fd, []byte(text)); err != nil {
		t.Error(err)
	}
}

// TestFunctionsWaitTogether: many functions exchange texts with their peers.
func TestFunctionsWaitTogether(t *testing.T) {
	const functions, rounds = 200, 20
	l := newLoops(t, 3)
	var all sync.WaitGroup
	for i := range functions {
		ours, theirs := pair(t)
		all.Go(func() {
			var got []string
			l.Run(t.Context(), func(ctx context.Context) {
				task := Of(ctx)
				if task.OnLoop() {
					t.Error("a function began on a loop")
				}
				for range rounds {
					text := read(task, ours)
					if !task.OnLoop() {
						t.Error("a function is on no loop after a wait")
					}
					got = append(got, text)
					send(t, ours, text)
				}
			})
			for k, text := range got {
				if want := fmt.Sprintf("%d of %d", k, i); text != want {
					t.Errorf("%q, not %q", text, want)
				}
			}
		})
		all.Go(func() {
			var buf [100]byte
			for k := range rounds {
				send(t, theirs, fmt.Sprintf("%d of %d", k, i))
				if _, err := unix.Read(theirs, buf[:]); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if n := l.OnLoops(); n != 0 {
		t.Errorf("%d functions are on a loop after they have returned", n)
	}
}

// TestAFunctionThatLeftMayBlock, and the others of its loop go on.
func TestAFunctionThatLeftMayBlock(t *testing.T) {
	l := newLoops(t, 1)
	left, goOn := make(chan struct{}), make(chan struct{})
	a, toA := pair(t)
	b, toB := pair(t)
	var all sync.WaitGroup
	all.Go(func() {
		l.Run(t.Context(), func(ctx context.Context) {
			task := Of(ctx)
			read(task, a)
			task.Leave()
			if task.OnLoop() {
				t.Error("it is on a loop after it left")
			}
			task.Leave() // once more changes nothing
			close(left)
			<-goOn
			if text := read(task, a); text != "again" || !task.OnLoop() {
				t.Errorf("%q after it came back", text)
			}
		})
	})
	all.Go(func() {
		l.Run(t.Context(), func(ctx context.Context) {
			for got := 0; got < 3; {
				got += len(read(Of(ctx), b))
			}
		})
		close(goOn) // b went on to its end while a blocked
	})
	send(t, toA, "x")
	<-left
	for range 3 {
		send(t, toB, "x")
	}
	<-goOn
	send(t, toA, "again")
	all.Wait()
}

// TestAnEndEndsTheWait for a peer.
func TestAnEndEndsTheWait(t *testing.T) {
	l := newLoops(t, 1)
	ours, theirs := pair(t)
	if err := unix.Shutdown(theirs, unix.SHUT_RDWR); err != nil {
		t.Fatal(err)
	}
	l.Run(t.Context(), func(ctx context.Context) {
		if text := read(Of(ctx), ours); text != "" {
			t.Errorf("%q", text)
		}
	})
}

// TestWhatNoLoopTakes is waited for all the same: a file is no socket.
func TestWhatNoLoopTakes(t *testing.T) {
	l := newLoops(t, 1)
	f, err := os.Open("/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	l.Run(t.Context(), func(ctx context.Context) {
		for range 2 {
			if Of(ctx).Wait(int(f.Fd())); Of(ctx).OnLoop() {
				t.Error("a file is on a loop")
			}
		}
	})
	if n := l.OnLoops(); n != 0 {
		t.Errorf("%d functions are on a loop", n)
	}
}

// TestAPanicIsThatOfItsCaller, wherever the function was.
func TestAPanicIsThatOfItsCaller(t *testing.T) {
	l := newLoops(t, 1)
	for _, onLoop := range []bool{false, true} {
		for _, what := range []any{"a fault", http.ErrAbortHandler} {
			ours, theirs := pair(t)
			send(t, theirs, "x")
			func() {
				defer func() {
					v := recover()
					p, ok := v.(*Panic)
					switch {
					case what == any(http.ErrAbortHandler) && v == what:
					case ok && p.Value == what && p.Error() == "a fault" && strings.Contains(string(p.Stack), "faulty"):
					default:
						t.Errorf("panic(%v) became %v", what, v)
					}
				}()
				l.Run(t.Context(), func(ctx context.Context) { faulty(Of(ctx), ours, onLoop, what) })
			}()
		}
	}
	ran := false
	if l.Run(t.Context(), func(context.Context) { ran = true }); !ran {
		t.Error("no function runs after a panic")
	}
}

func faulty(task *Task, fd int, onLoop bool, what any) {
	if onLoop {
		read(task, fd)
	}
	panic(what)
}

// TestFunctionsGoToTheLoopWithFewest.
func TestFunctionsGoToTheLoopWithFewest(t *testing.T) {
	const each = 5
	l := newLoops(t, 3)
	var all sync.WaitGroup
	var ends []int
	for k := range each * len(l.loops) {
		ours, theirs := pair(t)
		ends = append(ends, theirs)
		waiting := make(chan struct{})
		all.Go(func() {
			l.Run(t.Context(), func(ctx context.Context) {
				read(Of(ctx), ours)
				close(waiting)
				read(Of(ctx), ours)
			})
		})
		send(t, theirs, "x")
		<-waiting
		if n := l.OnLoops(); n != k+1 {
			t.Errorf("%d functions of %d are on a loop", n, k+1)
		}
	}
	for _, lo := range l.loops {
		if n := lo.len(); n != each {
			t.Errorf("%d functions are on one loop, not %d", n, each)
		}
	}
	for _, fd := range ends {
		send(t, fd, "x")
	}
	all.Wait()
}

// TestWithoutLoops functions run as they are.
func TestWithoutLoops(t *testing.T) {
	var l *Loops
	var task *Task
	ran := false
	l.Run(t.Context(), func(ctx context.Context) {
		ran = Of(ctx) == nil
		Of(ctx).Leave()
	})
	if l.Close(); !ran || task.OnLoop() || l.OnLoops() != 0 {
		t.Error("nil loops did not run the function as it is")
	}
}

// TestClosedLoopsRunFunctions but keep nothing: goleak sees what is left.
func TestClosedLoopsRunFunctions(t *testing.T) {
	l := newLoops(t, 1)
	var all sync.WaitGroup
	for range 2 * keepWorkers {
		all.Go(func() { l.Run(t.Context(), func(context.Context) {}) })
	}
	all.Wait()
	l.Close()
	err := errors.New("did not run")
	if l.Run(t.Context(), func(context.Context) { err = nil }); err != nil {
		t.Error(err)
	}
	if len(l.idle) != 0 {
		t.Errorf("%d workers are kept", len(l.idle))
	}
}

// TestClosedLoopsKeepNoDescriptor, whether functions are on them when they are closed or
// come later.
func TestClosedLoopsKeepNoDescriptor(t *testing.T) {
	l := newLoops(t, 1)
	ours, theirs := pair(t)
	open := func() bool { // is there a descriptor?
		lo := l.loops[0]
		lo.mu.Lock()
		defer lo.mu.Unlock()
		return lo.poller >= 0 || lo.running
	}
	for _, closed := range []bool{false, true} {
		l.Run(t.Context(), func(ctx context.Context) {
			send(t, theirs, "x")
			read(Of(ctx), ours)
			if l.Close(); !open() {
				t.Error("it is closed under a function")
			}
			send(t, theirs, "x")
			if text := read(Of(ctx), ours); text != "x" {
				t.Errorf("%q after Close", text)
			}
		})
		for open() { // the loop ends after its last function has
			runtime.Gosched()
		}
		if len(l.idle) != 0 {
			t.Errorf("closed before: %v: %d workers are kept", closed, len(l.idle))
		}
	}
}
