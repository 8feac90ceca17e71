package logwriter

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A destination is written to. Each write waits for a value in allow, if there is one.
type destination struct {
	allow chan int // how many bytes it may write; beyond them it fails

	mu     sync.Mutex
	writes []string
}

var errFull = errors.New("no space left on device")

func (d *destination) Write(p []byte) (n int, err error) {
	if n = len(p); d.allow != nil {
		n = min(n, <-d.allow)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.writes = append(d.writes, string(p[:n]))
	if n < len(p) {
		err = errFull
	}
	return n, err
}

// text returns what was written.
func (d *destination) text() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return strings.Join(d.writes, "")
}

const all = 1 << 30 // bytes: a write that does not fail

func tell(to io.Writer, lines uint64) { fmt.Fprintf(to, "%d dropped\n", lines) }

func TestABlockedWriterBlocksNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &destination{allow: make(chan int)}
		w := New(d, tell)
		io.WriteString(w, "first\n")
		synctest.Wait() // it is being written
		line := strings.Repeat("x", limit/4-1) + "\n"
		for range 4 {
			io.WriteString(w, line)
		}
		for range 3 {
			if n, err := io.WriteString(w, "beyond\n"); n != 7 || err != nil {
				t.Errorf("a line that is dropped: %d, %v", n, err)
			}
		}
		if n := w.Dropped(); n != 3 {
			t.Errorf("%d lines are dropped, want 3", n)
		}
		d.allow <- all
		synctest.Wait()
		io.WriteString(w, "later\n") // while the four are written
		d.allow <- all
		d.allow <- all
		d.allow <- all
		if !w.Close(time.Second) {
			t.Error("it is not flushed")
		}
		if got, want := d.writes, []string{"first\n", strings.Repeat(line, 4), "3 dropped\n", "later\n"}; !slices.Equal(got, want) {
			t.Errorf("%d writes: %.200q", len(got), got)
		}
	})
}

func TestLinesKeepTheirOrder(t *testing.T) {
	t.Parallel()
	const writers, lines = 8, 2000
	d := &destination{}
	w := New(d, tell)
	var writing sync.WaitGroup
	for i := range writers {
		writing.Go(func() {
			for j := range lines {
				fmt.Fprintf(w, "%d %d %s\n", i, j, strings.Repeat("x", j%40))
			}
		})
	}
	writing.Wait()
	if !w.Close(time.Minute) {
		t.Fatal("it is not flushed")
	}
	var next [writers]int
	for line := range strings.Lines(d.text()) {
		var i, j int
		if _, err := fmt.Sscanf(line, "%d %d", &i, &j); err != nil || line != fmt.Sprintf("%d %d %s\n", i, j, strings.Repeat("x", j%40)) || next[i] != j {
			t.Fatalf("%q in place of line %d", line, next[i])
		}
		next[i]++
	}
	if n := w.Dropped(); n != 0 || next != [writers]int{lines, lines, lines, lines, lines, lines, lines, lines} {
		t.Errorf("%d lines are dropped, of each writer came %d", n, next)
	}
}

// TestAFailedWriteLosesItsLines has writes that fail at their beginning, between two
// lines and within one.
func TestAFailedWriteLosesItsLines(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		writes []int // bytes that each may write
		want   string
		lost   uint64
	}{
		{"nothing is written", []int{0, all, all}, "last\n3 dropped\n", 3},
		{"whole lines are written", []int{8, all, all}, "one\ntwo\nlast\n1 dropped\n", 1},
		{"a line is cut", []int{5, all, all}, "one\ntlast\n2 dropped\n", 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := &destination{allow: make(chan int, 10)}
				w := New(d, tell)
				w.mu.Lock() // the three are one batch
				w.collected = append(w.collected, "one\ntwo\nthree\n"...)
				w.mu.Unlock()
				w.changed.Signal()
				d.allow <- c.writes[0]
				synctest.Wait()
				for _, n := range c.writes[1:] {
					d.allow <- n
				}
				io.WriteString(w, "last\n")
				synctest.Wait()
				if !w.Close(time.Second) {
					t.Error("it is not flushed")
				}
				if got := d.text(); got != c.want || w.Dropped() != c.lost {
					t.Errorf("%d are lost, and written is %q", w.Dropped(), got)
				}
			})
		})
	}
}

func TestCloseGivesUpOnAStuckWriter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &destination{allow: make(chan int)}
		w := New(d, tell)
		io.WriteString(w, "a\n")
		synctest.Wait()
		io.WriteString(w, "b\n")
		began := time.Now()
		if w.Close(2*time.Second) || time.Since(began) != 2*time.Second {
			t.Errorf("it ends after %v", time.Since(began))
		}
		io.WriteString(w, "too late\n")
		for range 3 { // the goroutine ends when it can
			d.allow <- all
		}
		<-w.ended
		if got := d.text(); got != "a\nb\n1 dropped\n" {
			t.Errorf("written is %q", got)
		}
	})
}

// TestNothingRunsBetweenLines looks for a write, or a timer, without a line.
func TestNothingRunsBetweenLines(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &destination{}
		w := New(d, tell)
		for i := range 3 {
			began := time.Now()
			io.WriteString(w, "a\n")
			synctest.Wait()
			if n := len(d.writes); n != i+1 || !time.Now().Equal(began) {
				t.Errorf("%d writes after %d lines", n, i+1)
			}
			time.Sleep(time.Hour)
		}
		w.Close(time.Second)
		if len(d.writes) != 3 {
			t.Errorf("%d writes of 3 lines", len(d.writes))
		}
	})
}

func TestALineAllocatesNothing(t *testing.T) {
	w := New(io.Discard, tell)
	defer w.Close(time.Minute)
	line := bytes.Repeat([]byte("x"), 400)
	if n := testing.AllocsPerRun(1000, func() { w.Write(line) }); n != 0 {
		t.Errorf("a line allocates %v times", n)
	}
}

// BenchmarkLog logs the line of a request to a file, directly and through a Writer. Each
// line lets others run, as the end of a request does.
func BenchmarkLog(b *testing.B) {
	attrs := []slog.Attr{
		slog.String("request", "req_06h08jkeshurb6qa2dle4pb7uo"), slog.String("method", "POST"), slog.String("path", "/api/v1/responses"),
		slog.Int("status", 200), slog.Duration("duration", 12345*time.Microsecond), slog.Int64("bytes", 1234),
		slog.String("account", "acct_06h08jkeshurb6qa2dle4pb7uo"), slog.String("key", "key_06h08jkeshurb6qa2dle4pb7uo"),
		slog.String("model", "auto"), slog.String("served", "claude-haiku-4-5"), slog.Int64("creditsMicro", 123),
	}
	run := func(b *testing.B, to io.Writer) {
		log := slog.New(slog.NewTextHandler(to, nil))
		ctx := b.Context()
		b.SetParallelism(16) // callers per processor
		b.ReportAllocs()
		b.ResetTimer()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				log.LogAttrs(ctx, slog.LevelInfo, "request", attrs...)
				runtime.Gosched()
			}
		})
	}
	open := func(b *testing.B) *os.File {
		f, err := os.Create(filepath.Join(b.TempDir(), "log"))
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { f.Close() })
		return f
	}
	b.Run("direct", func(b *testing.B) { run(b, open(b)) })
	b.Run("gathered", func(b *testing.B) {
		w := New(open(b), tell)
		run(b, w)
		w.Close(time.Minute)
		b.ReportMetric(float64(w.Dropped())/float64(b.N), "dropped/op")
	})
}
