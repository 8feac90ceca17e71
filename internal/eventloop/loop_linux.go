package eventloop

import (
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// atOnce is how many connections that can be read a loop asks for at a time.
	atOnce = 64

	// showEvery is how often the scheduler sees a loop. It takes the processor from a
	// goroutine that it has not seen for 10 ms, and gives it back at its next system call:
	// from then on it would do so with every one.
	showEvery = 4 * time.Millisecond
)

// A loop runs functions whenever their connections can be read. Its goroutine is there
// while there are functions.
type loop struct {
	mu      sync.Mutex
	poller  int // of epoll; -1: it was not needed yet
	n       int // functions
	running bool
	closed  bool
	tasks   []*Task // by slot; nil: the slot is free
	free    []int32
}

// len returns how many functions are on the loop.
func (l *loop) len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.n
}

// add gives a function to the loop. It fails if the system has no more to give.
func (l *loop) add(t *Task) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.poller < 0 {
		poller, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
		if err != nil {
			return err
		}
		l.poller = poller
	}
	if last := len(l.free) - 1; last >= 0 {
		t.slot, l.free = l.free[last], l.free[:last]
	} else {
		t.slot = int32(len(l.tasks))
		l.tasks = append(l.tasks, nil)
	}
	l.tasks[t.slot] = t
	l.n++
	if err := unix.EpollCtl(l.poller, unix.EPOLL_CTL_ADD, t.fd, &unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLRDHUP, Fd: t.slot}); err != nil {
		l.clear(t)
		return err
	}
	if !l.running {
		l.running = true
		go l.run()
	}
	return nil
}

// clear frees the slot of a function. l.mu is held.
func (l *loop) clear(t *Task) {
	l.tasks[t.slot] = nil
	l.free = append(l.free, t.slot)
	l.n--
}

// remove gives a function back to its caller.
func (l *loop) remove(t *Task, why pause) {
	_ = unix.EpollCtl(l.poller, unix.EPOLL_CTL_DEL, t.fd, nil)
	l.mu.Lock()
	l.clear(t)
	l.mu.Unlock()
	t.onLoop = false
	t.back <- why
}

// run waits for connections and runs their functions, until there are none.
func (l *loop) run() {
	var events [atOnce]unix.EpollEvent
	var ready [atOnce]*Task
	for seen := time.Now(); ; {
		if now := time.Now(); now.Sub(seen) > showEvery {
			seen = now
			runtime.Gosched()
		}
		n, err := unix.EpollWait(l.poller, events[:], -1)
		if err != nil && err != unix.EINTR {
			panic("eventloop: " + err.Error()) // only what a program does wrong
		}
		n = max(n, 0)
		l.mu.Lock()
		for i, ev := range events[:n] {
			ready[i] = l.tasks[ev.Fd]
		}
		l.mu.Unlock()
		for _, t := range ready[:n] {
			if why := t.resume(); why != waits {
				l.remove(t, why)
			}
		}
		clear(ready[:n])
		if !l.more() {
			return
		}
	}
}

// more reports whether there are functions; otherwise the loop must end.
func (l *loop) more() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.running = l.n > 0; !l.running && l.closed {
		l.release()
	}
	return l.running
}

// close gives back what the loop has of the system, at once or after its functions.
func (l *loop) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed = true; !l.running {
		l.release()
	}
}

// release closes the descriptor of epoll. l.mu is held.
func (l *loop) release() {
	if l.poller >= 0 {
		_ = unix.Close(l.poller)
		l.poller = -1
	}
}

// waitAlone waits until a socket can be read, on a thread for it alone.
func waitAlone(fd int) {
	_, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN | unix.POLLRDHUP}}, -1)
}
