package upstream

import (
	"io"
	"net/http"
	"testing"

	"stoa/internal/base/stoa"
	"stoa/internal/testkit/fakeup"
)

// BenchmarkStream measures one streamed call of fifty deltas over a local socket; it includes
// the fake vendor's time.
func BenchmarkStream(b *testing.B) {
	for _, w := range wires {
		b.Run(w.name, func(b *testing.B) {
			fake := fakeup.Start(b, fakeup.Options{Null: 50})
			pr := fake.Provider(w.name)
			benchmark(b, open(b, quick(pr)), at(w.model, pr))
		})
	}
}

// BenchmarkPool measures the same call without a socket: only the pool and the codec.
func BenchmarkPool(b *testing.B) {
	for _, w := range wires {
		b.Run(w.name, func(b *testing.B) {
			fake := fakeup.Start(b, fakeup.Options{Null: 50})
			pr := fake.Provider(w.name)
			p, m := open(b, quick(pr)), at(w.model, pr)
			rec := &recorder{RoundTripper: p.cfg.Transport}
			p.cfg.Transport = rec
			for range p.Stream(b.Context(), m, ask("hi")) {
			}
			p.cfg.Transport = replay{rec}
			benchmark(b, p, m)
		})
	}
}

// BenchmarkSandbox measures the same call on the built-in model.
func BenchmarkSandbox(b *testing.B) {
	p, m := open(b, quick()), sandboxModel()
	call := ask("tokens: 50")
	b.ReportAllocs()
	for b.Loop() {
		for _, err := range p.Stream(b.Context(), m, call) {
			if err != nil {
				b.Fatal(err)
			}
		}
	}
}

func benchmark(b *testing.B, p *Pool, m stoa.Model) {
	call := ask("hi")
	b.ReportAllocs()
	for b.Loop() {
		deltas := 0
		for ev, err := range p.Stream(b.Context(), m, call) {
			if err != nil {
				b.Fatal(err)
			}
			if ev.Kind == stoa.Delta {
				deltas++
			}
		}
		if deltas != 50 {
			b.Fatalf("%d deltas", deltas)
		}
	}
}

// A recorder records the last reply.
type recorder struct {
	http.RoundTripper
	header http.Header
	body   []byte
}

func (r *recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := r.RoundTripper.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	r.header = res.Header
	res.Body = &tee{res.Body, r}
	return res, nil
}

type tee struct {
	io.ReadCloser
	to *recorder
}

func (t *tee) Read(p []byte) (int, error) {
	n, err := t.ReadCloser.Read(p)
	t.to.body = append(t.to.body, p[:n]...)
	return n, err
}

// replay answers with the recorded reply.
type replay struct{ *recorder }

func (r replay) RoundTrip(req *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: 200, Header: r.header, Body: io.NopCloser(&plainReader{r.body}), Request: req}, nil
}

// A plainReader reads from memory; unlike a bytes.Reader it has no WriteTo.
type plainReader struct{ b []byte }

func (r *plainReader) Read(p []byte) (int, error) {
	if len(r.b) == 0 {
		return 0, io.EOF
	}
	n := copy(p, r.b)
	r.b = r.b[n:]
	return n, nil
}
