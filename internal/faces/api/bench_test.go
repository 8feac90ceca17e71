package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"syscall"
	"testing"
	"time"

	"stoa/internal/base/stoa"
	"stoa/internal/models/wire"
	"stoa/internal/testkit/apitest"
	"stoa/internal/testkit/fakeup"
)

// BenchmarkOverhead makes the same call straight to a vendor that does nothing
// but answer with 50 deltas, and through the service: the difference is what the
// service takes, charge included. Client, vendor and service share the process, so
// "cpu-µs/op" is the sum of all three.
func BenchmarkOverhead(b *testing.B) {
	f := fakeup.Start(b, fakeup.Options{Null: 50})
	p := f.Provider("messages")
	h := apitest.Start(b, apitest.Config{
		Providers: []stoa.Provider{p}, Families: map[string][]stoa.Route{"alpha": {{Provider: "messages"}}}, Grant: 1_000_000 * stoa.Credit,
	})
	codec, _ := wire.For("messages")
	direct, err := codec.Encode(stoa.Call{Messages: []stoa.Message{stoa.TextMessage(stoa.RoleUser, "hi")}, MaxOutputTokens: 100}, stoa.Route{Model: "claude-haiku-4-5", Wire: "messages"}, p.APIKey)
	if err != nil {
		b.Fatal(err)
	}
	direct.Header.Set("Content-Type", "application/json")
	through := http.Header{"Authorization": {"Bearer " + h.Key}, "Content-Type": {"application/json"}}
	call := func(stream bool) []byte {
		text, _ := json.Marshal(body{"model": "alpha-haiku-4-5", "input": "hi", "stream": stream})
		return text
	}
	for _, c := range []struct {
		name   string
		url    string
		header http.Header
		body   []byte
	}{
		{"straight_to_the_vendor", p.BaseURL + direct.Path, direct.Header, direct.Body},
		{"through_the_service/streamed", h.URL + responses, through, call(true)},
		{"through_the_service/whole", h.URL + responses, through, call(false)},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetParallelism(16) // callers per processor: charges are committed in groups
			before := cpu(b)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					req, err := http.NewRequestWithContext(context.Background(), "POST", c.url, bytes.NewReader(c.body))
					if err != nil {
						b.Error(err)
						return
					}
					req.Header = c.header
					res, err := http.DefaultTransport.RoundTrip(req)
					if err != nil {
						b.Error(err)
						return
					}
					if _, err := io.Copy(io.Discard, res.Body); err != nil || res.StatusCode != 200 {
						b.Errorf("%d, %v", res.StatusCode, err)
					}
					res.Body.Close()
				}
			})
			b.ReportMetric(float64((cpu(b)-before).Microseconds())/float64(b.N), "cpu-µs/op")
		})
	}
}

// cpu is the processor time that this process has taken.
func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
