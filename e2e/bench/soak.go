//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"stoa/e2e/bench/internal/null"
	"stoa/e2e/bench/internal/raw"
)

// A soak is work of every kind at an even rate, far below the capacity of the service: growth
// is then a leak, not load.
type soak struct {
	d     *driver
	r     *running
	agent string

	mu     sync.Mutex
	idle   []*raw.Conn // kept connections
	done   map[string]int
	failed failures
}

// works are the kinds of work with their shares.
var works = []struct {
	name  string
	share int
	do    func(*soak, *raw.Conn) (keep bool, err error)
}{
	{"whole", 25, (*soak).whole},
	{"stream", 20, (*soak).stream},
	{"disconnect", 15, (*soak).disconnect},
	{"list", 15, (*soak).list},
	{"session", 10, (*soak).session},
	{"drive", 10, (*soak).drive},
	{"connect", 5, (*soak).connect},
}

// errLeft ends a stream whose caller has received enough.
var errLeft = errors.New("the caller disconnects")

func (s *soak) callOn(c *raw.Conn, plan null.Plan, stream bool, leaveAfter int) (bool, error) {
	wire := s.d.wires[rand.IntN(len(s.d.wires))]
	one := &caller{
		conn: c, stream: stream, text: null.Text(plan.Bytes),
		request: raw.Request("POST", s.r.address, s.r.path, s.r.key, body(s.r.model(wire), plan, stream)),
	}
	one.check = raw.Stream{Text: one.text}
	if leaveAfter == 0 {
		return true, one.call()
	}
	deltas := 0
	one.check.OnDelta = func(int) { deltas++ }
	status, err := c.Do(one.request, func(b []byte) error {
		if err := one.check.Write(b); err != nil {
			return err
		}
		if deltas >= leaveAfter {
			return errLeft
		}
		return nil
	})
	if errors.Is(err, errLeft) {
		return false, nil
	}
	return false, fmt.Errorf("a stream of %d deltas ended before %d came: status %d, %w", plan.Deltas, leaveAfter, status, err)
}

func (s *soak) whole(c *raw.Conn) (bool, error) {
	return s.callOn(c, null.Plan{Deltas: 50, Bytes: 1 << rand.IntN(13)}, false, 0)
}

func (s *soak) stream(c *raw.Conn) (bool, error) {
	return s.callOn(c, null.Plan{Deltas: 10 + rand.IntN(50), Bytes: 500, Delay: 20 * time.Millisecond}, true, 0)
}

func (s *soak) disconnect(c *raw.Conn) (bool, error) {
	return s.callOn(c, null.Plan{Deltas: 500, Bytes: 5000, Delay: 20 * time.Millisecond}, true, 1+rand.IntN(20))
}

// connect sends a request on a separate connection.
func (s *soak) connect(c *raw.Conn) (bool, error) {
	return false, s.plane(c, 200, "GET", "/health", nil)
}

func (s *soak) list(c *raw.Conn) (bool, error) {
	paths := []string{"/receipts", "/credits/ledger", "/credits", "/usage", "/keys", "/spaces", "/api-agents", "/meta", "/api-agents/" + s.agent + "/sessions", "/api-agents/" + s.agent + "/drive/files"}
	return true, s.plane(c, 200, "GET", paths[rand.IntN(len(paths))], nil)
}

func (s *soak) session(c *raw.Conn) (bool, error) {
	p := &plane{caller: &caller{conn: c}, r: s.r}
	return true, p.session(s.agent, null.Prompt(null.Plan{Deltas: 20, Bytes: 200, Delay: 5 * time.Millisecond}), null.Text(200))
}

// drive writes one of a few files, so that versions are stored and dropped, or removes it.
func (s *soak) drive(c *raw.Conn) (bool, error) {
	path := fmt.Sprintf("notes/%02d.md", rand.IntN(40))
	p := &plane{caller: &caller{conn: c}, r: s.r}
	if rand.IntN(5) == 0 {
		if _, err := p.do(200, "GET", "/api-agents/"+s.agent+"/drive/search?q=w17", nil); err != nil {
			return true, err
		}
	}
	status, err := p.status("PUT", "/api-agents/"+s.agent+"/drive/files", object{"path": path, "content": null.Text(1 + rand.IntN(20_000)), "mimeType": "text/markdown"})
	if err == nil && status != 200 && status != 201 && status != 409 { // 409: another caller wrote it at the same time
		err = fmt.Errorf("PUT of a file: status %d: %.300s", status, p.body)
	}
	return true, err
}

// status sends a request and returns its status for the caller to check.
func (p *plane) status(method, path string, in any) (int, error) {
	_, err := p.do(200, method, path, in)
	for _, status := range []int{201, 409} {
		if err != nil && strings.Contains(err.Error(), fmt.Sprintf(": status %d:", status)) {
			return status, nil
		}
	}
	return 200, err
}

func (s *soak) plane(c *raw.Conn, want int, method, path string, in any) error {
	p := &plane{caller: &caller{conn: c}, r: s.r}
	_, err := p.do(want, method, path, in)
	return err
}

// one does one piece of work of a random kind.
func (s *soak) one() {
	n := rand.IntN(100)
	i := 0
	for ; n >= works[i].share; i++ {
		n -= works[i].share
	}
	work := works[i]
	c, err := s.conn(work.name == "connect")
	if err == nil {
		var keep bool
		if keep, err = work.do(s, c); err == nil && keep {
			s.mu.Lock()
			s.idle = append(s.idle, c)
			s.mu.Unlock()
		} else {
			c.Close()
		}
	}
	if err != nil {
		s.failed.note(fmt.Errorf("%s: %w", work.name, err))
	}
	s.mu.Lock()
	s.done[work.name]++
	s.mu.Unlock()
}

// conn returns a free connection, or a new one.
func (s *soak) conn(fresh bool) (*raw.Conn, error) {
	s.mu.Lock()
	if n := len(s.idle); n > 0 && !fresh {
		c := s.idle[n-1]
		s.idle = s.idle[:n-1]
		s.mu.Unlock()
		return c, nil
	}
	s.mu.Unlock()
	return raw.Dial(s.r.address, 64<<10)
}

func (s *soak) closeIdle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.idle {
		c.Close()
	}
	s.idle = nil
}

// A state contains the values that must not grow.
type state struct {
	at          time.Duration
	rss         float64 // MB
	threads     float64
	descriptors float64
	wal         float64 // MB, of all write-ahead logs; 0 on PostgreSQL
}

// grows are the values of a state with their allowed growth from the second quarter of a soak
// to its last: a share of the value, plus a constant.
var grows = []struct {
	name  string
	value func(state) float64
	share float64
	plus  float64
}{
	{"RSS MB", func(s state) float64 { return s.rss }, 0.15, 8},
	{"threads", func(s state) float64 { return s.threads }, 0, 5},
	{"descriptors", func(s state) float64 { return s.descriptors }, 0.1, 10},
	{"WAL MB", func(s state) float64 { return s.wal }, 0.5, 16},
}

func (s *soak) state(since time.Time) (state, error) {
	memory, err1 := s.r.Memory()
	counts, err2 := s.r.Counts()
	out := state{at: time.Since(since), rss: mb(memory), threads: float64(counts.Threads), descriptors: float64(counts.Descriptors)}
	logs, err3 := filepath.Glob(filepath.Join(s.r.home, "data", "*-wal"))
	for _, l := range logs {
		if i, err := os.Stat(l); err == nil {
			out.wal += mb(i.Size())
		}
	}
	return out, errors.Join(err1, err2, err3)
}

// runSoak works on the first service for the requested time, and fails if a value has grown.
func (d *driver) runSoak(ctx context.Context, gateways []*gateway) (err error) {
	i := slices.IndexFunc(gateways, func(g *gateway) bool { return strings.Contains(g.name, "/") && !g.isOld })
	if i < 0 {
		return errors.New("a soak needs the target stoa")
	}
	g := gateways[i]
	if err := d.refuseGrown(ctx, g); err != nil {
		return fmt.Errorf("soak of %s: %w", g.name, err)
	}
	return nil
}

func (d *driver) refuseGrown(ctx context.Context, g *gateway) error {
	// A process that has done everything once is the reference for the last one.
	short, _, err := d.soakOnce(ctx, g, max(d.soak/60, 5*time.Second))
	if err != nil {
		return err
	}
	long, states, err := d.soakOnce(ctx, g, d.soak)
	if err != nil {
		return err
	}
	quarter := len(states) / 4
	if quarter < 2 {
		return fmt.Errorf("only %d samples: a soak needs a minute at least", len(states))
	}
	second, last := states[quarter:2*quarter], states[3*quarter:]
	var grown []error
	w := tabwriter.NewWriter(d.out, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "\nafter\tfirst sample\tsecond quarter\tlast quarter\tmost\tmay be\n")
	for _, m := range grows {
		before, after := middle(second, m.value), middle(last, m.value)
		limit := before*(1+m.share) + m.plus
		fmt.Fprintf(w, "%s\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\n", m.name, m.value(states[0]), before, after, most(states, m.value), limit)
		if after > limit {
			grown = append(grown, fmt.Errorf("%s grew from %.1f in the second quarter to %.1f in the last, at most %.1f is allowed", m.name, before, after, limit))
		}
	}
	const spare = 12 // connections to the vendor that are kept, and the like
	fmt.Fprintf(w, "goroutines\t%d\t\t%d\t\t%d\n", len(short), len(long), len(short)+spare)
	if len(long) > len(short)+spare {
		grown = append(grown, fmt.Errorf("%d goroutines at rest after the soak, %d after a short one; the stacks are in the log:\n%s", len(long), len(short), commonest(long)))
	}
	return errors.Join(errors.Join(grown...), w.Flush())
}

func middle(of []state, value func(state) float64) float64 {
	var v []float64
	for _, s := range of {
		v = append(v, value(s))
	}
	return median(v)
}

func most(of []state, value func(state) float64) (n float64) {
	for _, s := range of {
		n = max(n, value(s))
	}
	return n
}

// soakOnce works for a time and returns the goroutines that the process has at
// rest afterwards.
func (d *driver) soakOnce(ctx context.Context, g *gateway, t time.Duration) (stacks []string, states []state, err error) {
	r, err := g.start(d.vendors[0], "GOTRACEBACK=all")
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, r.Stop()) }()
	s := &soak{d: d, r: r, done: map[string]int{}}
	first, err := newPlane(r)
	if err != nil {
		return nil, nil, err
	}
	s.agent, err = first.newAgent("bench-chat")
	first.conn.Close()
	if err != nil {
		return nil, nil, err
	}
	start := time.Now()
	every := max(t/60, time.Second)
	next := start.Add(every)
	var all sync.WaitGroup
	slots := make(chan struct{}, 256)
	for time.Since(start) < t {
		if err := ctx.Err(); err != nil {
			return nil, nil, err
		}
		if err := s.failed.err(); err != nil {
			return nil, nil, err
		}
		if time.Now().After(next) {
			now, err := s.state(start)
			if err != nil {
				return nil, nil, err
			}
			next = next.Add(every)
			states = append(states, now)
			fmt.Fprintf(d.note, "%-9v RSS %.1f MB, %.0f threads, %.0f descriptors, WAL %.1f MB, done %v\n", now.at.Round(time.Second), now.rss, now.threads, now.descriptors, now.wal, s.counts())
		}
		slots <- struct{}{}
		all.Go(func() {
			s.one()
			<-slots
		})
		time.Sleep(time.Duration(rand.ExpFloat64() / d.soakRate * float64(time.Second)))
	}
	all.Wait()
	s.closeIdle()
	if err := s.failed.err(); err != nil {
		return nil, nil, err
	}
	time.Sleep(d.settle + 2*time.Second)
	stacks, err = r.goroutines()
	return stacks, states, err
}

func (s *soak) counts() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.TrimPrefix(fmt.Sprint(s.done), "map")
}

// goroutine is the first line of a stack.
var goroutine = regexp.MustCompile(`(?m)^goroutine \d+ .*\[.*\]:$`)

// goroutines ends the process by a signal that makes Go print all stacks, and returns the
// function with which each goroutine was started.
func (r *running) goroutines() ([]string, error) {
	before, err := os.Stat(r.log)
	if err != nil {
		return nil, err
	}
	if err := r.Quit(); err != nil {
		return nil, err
	}
	text, err := os.ReadFile(r.log)
	if err != nil {
		return nil, err
	}
	var out []string
	for stack := range bytes.SplitSeq(text[before.Size():], []byte("\n\n")) {
		if goroutine.Match(stack) {
			_, created, _ := bytes.Cut(stack, []byte("created by "))
			created, _, _ = bytes.Cut(created, []byte(" in goroutine"))
			out = append(out, string(created))
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no stacks in %s", r.log)
	}
	return out, nil
}

// commonest lists the functions with which goroutines were started, the most frequent first.
func commonest(stacks []string) string {
	count := map[string]int{}
	for _, s := range stacks {
		count[s]++
	}
	var lines []string
	for s, n := range count {
		lines = append(lines, fmt.Sprintf("%6d %s", n, s))
	}
	slices.Sort(lines)
	slices.Reverse(lines)
	return strings.Join(lines[:min(len(lines), 10)], "\n")
}
