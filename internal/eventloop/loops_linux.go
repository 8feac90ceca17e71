package eventloop

import (
	"context"
	"iter"
	"net/http"
	"runtime"
	"runtime/debug"
	"sync"
)

// keepWorkers is how many workers are kept for the next functions. Each has a stack that
// has grown, of 8 to 16 KB.
const keepWorkers = 64

// Loops run functions. Nil ones call them as they are. They are safe for concurrent use.
type Loops struct {
	loops []*loop

	mu     sync.Mutex
	idle   []*worker // the one used last is the last
	closed bool
}

// New returns as many loops as the process has processors. A loop takes a thread only
// while functions are on it.
func New() *Loops {
	l := &Loops{}
	for range min(runtime.NumCPU(), runtime.GOMAXPROCS(0)) {
		l.loops = append(l.loops, &loop{poller: -1})
	}
	return l
}

// Close ends what is kept for the next functions. Those under way go on.
func (l *Loops) Close() {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for _, w := range l.idle {
		w.stop()
	}
	l.idle = nil
	for _, lo := range l.loops {
		lo.close()
	}
}

// OnLoops returns how many functions are on a loop.
func (l *Loops) OnLoops() (n int) {
	if l == nil {
		return 0
	}
	for _, lo := range l.loops {
		n += lo.len()
	}
	return n
}

// Run calls f with a context that has its [Task], and returns when f has returned.
func (l *Loops) Run(ctx context.Context, f func(context.Context)) {
	if l == nil {
		f(ctx)
		return
	}
	t := &Task{loops: l, worker: l.worker()}
	t.f = func() { f(context.WithValue(ctx, taskKey{}, t)) }
	t.worker.task = t
	for t.resume() != returned {
		if t.toLoop() == returned {
			break
		}
	}
	l.put(t.worker)
	if t.panic != nil {
		panic(t.panicked())
	}
}

// least returns the loop with the fewest functions.
func (l *Loops) least() *loop {
	best, n := l.loops[0], l.loops[0].len()
	for _, lo := range l.loops[1:] {
		if m := lo.len(); m < n {
			best, n = lo, m
		}
	}
	return best
}

// A pause is why a function does not run.
type pause uint8

const (
	waits    pause = iota // for its connection
	leaves                // its loop: it may block
	returned              // or panicked
)

// A worker is a coroutine that runs one function after another: whoever resumes it runs
// the function, on its own thread, up to the next pause.
type worker struct {
	task  *Task
	next  func() (pause, bool) // resumes
	stop  func()
	yield func(pause) bool // pauses
}

// worker returns a worker that has nothing to do.
func (l *Loops) worker() *worker {
	l.mu.Lock()
	if last := len(l.idle) - 1; last >= 0 {
		w := l.idle[last]
		l.idle[last] = nil
		l.idle = l.idle[:last]
		l.mu.Unlock()
		return w
	}
	l.mu.Unlock()
	w := &worker{}
	w.next, w.stop = iter.Pull(func(yield func(pause) bool) {
		w.yield = yield
		for goOn := true; goOn; goOn = yield(returned) {
			w.task.call()
			w.task = nil
		}
	})
	return w
}

// put keeps a worker whose function has returned.
func (l *Loops) put(w *worker) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || len(l.idle) >= keepWorkers {
		w.stop()
		return
	}
	l.idle = append(l.idle, w)
}

// A Task is a function under way. Its methods may be called by that function alone.
type Task struct {
	loops  *Loops
	worker *worker
	f      func()
	panic  *Panic

	fd     int   // that it waits for
	loop   *loop // that it is on, or was on last
	slot   int32 // of loop
	onLoop bool
	back   chan pause // what takes it from its loop
}

// call calls the function.
func (t *Task) call() {
	defer func() {
		if v := recover(); v != nil {
			t.panic = &Panic{Value: v, Stack: debug.Stack()}
		}
	}()
	t.f()
}

// panicked returns what Run panics with.
func (t *Task) panicked() any {
	if t.panic.Value == any(http.ErrAbortHandler) {
		return http.ErrAbortHandler
	}
	return t.panic
}

// resume runs the function up to its next pause.
func (t *Task) resume() pause {
	why, _ := t.worker.next()
	return why
}

// OnLoop reports whether the function is on a loop.
func (t *Task) OnLoop() bool { return t != nil && t.onLoop }

// Leave takes the function from its loop, if it is on one. It may block from then on.
func (t *Task) Leave() {
	if t.OnLoop() {
		t.worker.yield(leaves)
	}
}

// Wait waits on a loop until a socket can be read: something has come, or nothing will.
// It may return earlier. The function must leave the loop before it closes the socket.
func (t *Task) Wait(fd int) {
	t.fd = fd
	t.worker.yield(waits)
}

// toLoop has the function run by a loop until it leaves or returns.
func (t *Task) toLoop() pause {
	if t.back == nil {
		t.back = make(chan pause, 1)
	}
	if t.loop == nil {
		t.loop = t.loops.least()
	}
	t.onLoop = true
	if err := t.loop.add(t); err != nil {
		t.onLoop = false
		waitAlone(t.fd)
		return leaves
	}
	return <-t.back
}
