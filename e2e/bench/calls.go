//go:build linux

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"stoa/e2e/bench/internal/null"
	"stoa/e2e/bench/internal/proc"
	"stoa/e2e/bench/internal/raw"
)

// A sample is the result of one measurement of one gateway. Values that a mode does not
// measure are zero.
type sample struct {
	Mode    string `json:"mode"`
	Gateway string `json:"gateway"`
	Vendor  string `json:"vendor"` // its protocol
	Wire    string `json:"wire"`   // its format
	Round   int    `json:"round"`

	Requests int64 `json:"requests,omitempty"` // in the measured time
	Deltas   int64 `json:"deltas,omitempty"`

	CPURequest float64 `json:"cpuPerRequestMicros,omitempty"` // of the gateway only
	CPUDelta   float64 `json:"cpuPerDeltaMicros,omitempty"`
	CPUStore   float64 `json:"cpuOfPostgresPerRequestMicros,omitempty"` // of a PostgreSQL on this machine, all of its processes
	Calls      float64 `json:"systemCalls,omitempty"`                   // reads and writes per request, in slow per delta
	Rate       float64 `json:"requestsPerSecond,omitempty"`
	P50        float64 `json:"p50Millis,omitempty"` // of a request; in slow of the gap between two deltas
	P99        float64 `json:"p99Millis,omitempty"`
	First50    float64 `json:"firstDeltaP50Millis,omitempty"`
	First99    float64 `json:"firstDeltaP99Millis,omitempty"`
	IdleMB     float64 `json:"idleMB,omitempty"` // resident after the start
	FullMB     float64 `json:"fullMB,omitempty"` // resident with all streams or connections open
	EachKB     float64 `json:"eachKB,omitempty"` // what a stream or connection adds
}

// body returns a model call of a caller. Its limit is a typical one: with a much larger one
// Stoa may request a stream from a vendor that seems slow because the machine is busy.
func body(model string, plan null.Plan, stream bool) []byte {
	text, err := json.Marshal(map[string]any{"model": model, "input": null.Prompt(plan), "stream": stream, "max_output_tokens": max(1000, 2*plan.Deltas)})
	if err != nil {
		panic(err) // only strings and numbers
	}
	return text
}

// A caller makes one request after the other on one connection and checks each
// reply.
type caller struct {
	conn    *raw.Conn
	request []byte
	stream  bool
	text    string
	check   raw.Stream
	body    []byte

	last  time.Time // of the delta before
	first time.Duration
	gap   func(time.Duration) // receives the time between two deltas; may be nil
	sent  time.Time
}

// newCaller connects a caller to a gateway, to its nodes in turn. A slow stream needs only a
// small buffer.
func newCaller(r *running, wire string, plan null.Plan, stream bool, buffer int) (*caller, error) {
	r = r.node()
	conn, err := raw.Dial(r.address, buffer)
	if err != nil {
		return nil, err
	}
	c := &caller{
		conn: conn, stream: stream, text: null.Text(plan.Bytes),
		request: raw.Request("POST", r.address, r.path, r.key, body(r.model(wire), plan, stream)),
	}
	c.check = raw.Stream{Text: c.text, OnDelta: c.delta}
	return c, nil
}

func (c *caller) delta(int) {
	if c.first == 0 {
		c.first = time.Since(c.sent)
	}
	if c.gap != nil {
		now := time.Now()
		if !c.last.IsZero() {
			c.gap(now.Sub(c.last))
		}
		c.last = now
	}
}

// ask makes one request and keeps its body.
func (c *caller) ask(request []byte, want int) error {
	c.body = c.body[:0]
	status, err := c.conn.Do(request, func(b []byte) error {
		c.body = append(c.body, b...)
		return nil
	})
	if err == nil && status != want {
		err = fmt.Errorf("status %d: %.600s", status, c.body)
	}
	return err
}

// call makes one model call.
func (c *caller) call() error {
	c.sent, c.first, c.last = time.Now(), 0, time.Time{}
	if !c.stream {
		err := c.ask(c.request, 200)
		if err == nil {
			err = raw.Whole(c.body, c.text)
		}
		return err
	}
	c.check.Reset()
	c.body = c.body[:0]
	status, err := c.conn.Do(c.request, func(b []byte) error {
		if len(c.body) < 600 {
			c.body = append(c.body, b[:min(len(b), 600)]...) // to be shown if it is an error
		}
		if c.gap != nil {
			if err := c.conn.Extend(); err != nil {
				return err
			}
		}
		return c.check.Write(b)
	})
	if err == nil && status != 200 {
		err = fmt.Errorf("status %d: %s", status, c.body)
	}
	if err == nil {
		err = c.check.End()
	}
	return err
}

// times are durations; each goroutine may add to its own.
type times struct {
	mu  sync.Mutex
	all []time.Duration
}

func (t *times) add(some []time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all = append(t.all, some...)
}

// quantiles returns the median and the 99th percentile in milliseconds.
func (t *times) quantiles() (p50, p99 float64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.all) == 0 {
		return 0, 0
	}
	slices.Sort(t.all)
	at := func(q float64) float64 { return t.all[int(q*float64(len(t.all)-1))].Seconds() * 1000 }
	return at(0.5), at(0.99)
}

// phases of a measurement.
const (
	warming int32 = iota
	measuring
	over
)

// fast measures a gateway under callers that make one request after the other.
func (d *driver) fast(r *running, wire string, stream bool) (s sample, err error) {
	plan := null.Plan{Deltas: d.deltas, Bytes: d.bytes}
	s, err = d.busy(r, func() (*caller, func() error, error) {
		c, err := newCaller(r, wire, plan, stream, 16<<10)
		if err != nil {
			return nil, nil, err
		}
		return c, c.call, nil
	})
	if stream {
		s.Deltas = s.Requests * int64(d.deltas)
		s.CPUDelta = s.CPURequest / float64(d.deltas)
	}
	return s, err
}

// busy measures a gateway while callers repeat their call, from the end of the warm-up on.
func (d *driver) busy(r *running, newCaller func() (*caller, func() error, error)) (s sample, err error) {
	var phase atomic.Int32
	var requests atomic.Int64
	var latency, first times
	var failed failures
	var all sync.WaitGroup
	for range d.connections {
		c, call, err := newCaller()
		if err != nil {
			return s, err
		}
		all.Go(func() {
			defer c.conn.Close()
			var took, firsts []time.Duration
			for phase.Load() != over {
				begin := time.Now()
				if err := call(); err != nil {
					failed.note(err)
					break
				}
				if phase.Load() == measuring {
					requests.Add(1)
					took = append(took, time.Since(begin))
					if c.first > 0 {
						firsts = append(firsts, c.first)
					}
				}
			}
			latency.add(took)
			first.add(firsts)
		})
	}
	time.Sleep(d.warmUp)
	before, err1 := r.Usage()
	storeBefore, err3 := r.storeTime()
	start := time.Now()
	phase.Store(measuring)
	// A machine that is busy with other things gets more time.
	for range 10 {
		time.Sleep(d.time)
		if requests.Load() >= int64(4*d.connections) || failed.err() != nil {
			break
		}
	}
	phase.Store(over)
	took := time.Since(start)
	after, err2 := r.Usage()
	storeAfter, err4 := r.storeTime()
	n := requests.Load()
	all.Wait()
	if err := errors.Join(failed.err(), err1, err2, err3, err4); err != nil {
		return s, err
	}
	if n == 0 {
		return s, errors.New("nothing was answered in the measured time; give it more by -time")
	}
	s.Requests = n
	s.CPURequest = micros(after.CPU-before.CPU) / float64(n)
	s.CPUStore = micros(storeAfter-storeBefore) / float64(n)
	s.Calls = float64(after.Calls-before.Calls) / float64(n)
	s.Rate = float64(n) / took.Seconds()
	s.P50, s.P99 = latency.quantiles()
	s.First50, s.First99 = first.quantiles()
	return s, nil
}

// A machine that is busy with other work gets more time.
func (r *running) storeTime() (time.Duration, error) {
	if r.postmaster == 0 {
		return 0, nil
	}
	return proc.Family(r.postmaster)
}

func micros(t time.Duration) float64 { return float64(t.Nanoseconds()) / 1000 }

// failures keeps the first errors of callers.
type failures struct {
	mu    sync.Mutex
	first []error
	count int
}

func (f *failures) note(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.count++; len(f.first) < 3 {
		f.first = append(f.first, err)
	}
}

func (f *failures) err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.count == 0 {
		return nil
	}
	return fmt.Errorf("%d callers failed, the first: %w", f.count, errors.Join(f.first...))
}

// slow measures a gateway under streams with rare deltas: the cost of a delta, and the memory
// of a stream.
func (d *driver) slow(r *running, wire string) (s sample, err error) {
	delay := d.slowDelay
	if delay == 0 { // 10,000 deltas a second in all
		delay = time.Duration(d.streams) * 100 * time.Microsecond
	}
	idle, err := r.settled(d.settle)
	if err != nil {
		return s, err
	}
	s.IdleMB = mb(idle)
	ramp := max(2*delay, time.Second)
	const settle = time.Second // after the last has begun
	deltas := int((7*ramp+settle+d.time)/delay) + 2
	plan := null.Plan{Deltas: deltas, Bytes: deltas * 10, Delay: delay}
	var phase atomic.Int32
	var began, counted atomic.Int64
	var gaps times
	var failed failures
	var all sync.WaitGroup
	start := time.Now()
	for i := range d.streams {
		// Streams begin evenly over the ramp, like those of independent callers.
		time.Sleep(time.Until(start.Add(ramp * time.Duration(i) / time.Duration(d.streams))))
		c, err := newCaller(r, wire, plan, true, 4<<10)
		if err != nil {
			failed.note(err)
			break
		}
		all.Go(func() {
			defer c.conn.Close()
			var mine []time.Duration
			seen := false
			c.check.OnDelta = func(n int) {
				c.delta(n)
				if !seen {
					seen = true
					began.Add(1)
				}
				if phase.Load() == measuring {
					counted.Add(1)
				}
			}
			c.gap = func(t time.Duration) {
				if phase.Load() == measuring {
					mine = append(mine, t)
				}
			}
			if err := c.call(); err != nil {
				failed.note(err)
			}
			gaps.add(mine)
		})
	}
	for began.Load() < int64(d.streams) && failed.err() == nil && time.Since(start) < 7*ramp {
		time.Sleep(10 * time.Millisecond)
	}
	opened := began.Load()
	time.Sleep(settle)
	before, err1 := r.Usage()
	phase.Store(measuring)
	time.Sleep(d.time)
	phase.Store(over)
	after, err2 := r.Usage()
	n := counted.Load()
	full, err3 := r.Memory()
	all.Wait()
	if err := errors.Join(failed.err(), err1, err2, err3); err != nil {
		return s, err
	}
	if 100*opened < 99*int64(d.streams) || n == 0 {
		return s, fmt.Errorf("only %d of %d streams began in time, with %d deltas in the measured time: the machine is too slow for so many, or too busy", opened, d.streams, n)
	}
	s.Deltas = n
	s.CPUDelta = micros(after.CPU-before.CPU) / float64(n)
	s.Calls = float64(after.Calls-before.Calls) / float64(n)
	s.P50, s.P99 = gaps.quantiles()
	s.FullMB = mb(full)
	s.EachKB = float64(full-idle) / float64(opened) / 1024
	return s, nil
}

// idle measures the memory of connections that are kept after one call each.
func (d *driver) idle(r *running, wire string) (s sample, err error) {
	before, err := r.settled(d.settle)
	if err != nil {
		return s, err
	}
	s.IdleMB = mb(before)
	plan := null.Plan{Deltas: d.deltas, Bytes: d.bytes}
	callers := make([]*caller, d.idleConnections)
	defer func() {
		for _, c := range callers {
			if c != nil {
				c.conn.Close()
			}
		}
	}()
	calls := func(each func(i int) error) error {
		var failed failures
		var all sync.WaitGroup
		var next atomic.Int64
		for range d.connections {
			all.Go(func() {
				for {
					i := int(next.Add(1)) - 1
					if i >= len(callers) {
						return
					}
					if err := each(i); err != nil {
						failed.note(err)
						return
					}
				}
			})
		}
		all.Wait()
		return failed.err()
	}
	if err := calls(func(i int) error {
		c, err := newCaller(r, wire, plan, false, 4<<10)
		if err != nil {
			return err
		}
		callers[i] = c
		return c.call()
	}); err != nil {
		return s, err
	}
	after, err := r.settled(d.settle)
	if err != nil {
		return s, err
	}
	s.Requests = int64(len(callers))
	s.FullMB = mb(after)
	s.EachKB = float64(after-before) / float64(len(callers)) / 1024
	// All of them still work.
	return s, calls(func(i int) error { return callers[i].call() })
}

func mb(bytes int64) float64 { return float64(bytes) / 1e6 }
