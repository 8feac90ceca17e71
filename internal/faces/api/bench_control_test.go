package api_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"stoa/internal/faces/api"
	"stoa/internal/testkit/apitest"
)

// BenchmarkControlPlane calls the handler of the API without a network: what is
// measured is authentication, decoding, validation, the store and the reply.
func BenchmarkControlPlane(b *testing.B) {
	var server *api.Server
	h := apitest.Start(b, apitest.Config{Server: func(s *api.Server) { server = s; s.RateLimited = func() bool { return false } }})
	handler := server.Handler()
	call := func(method, path, body string) int {
		req := httptest.NewRequest(method, path, strings.NewReader(body))
		req.Header.Set("Authorization", "Bearer "+h.Key)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, req)
		return w.Code
	}
	for range 20 {
		call(http.MethodPost, "/api/v1/spaces", `{"name":"one of a page"}`)
	}
	for _, c := range []struct {
		name, method, path, body string
		status                   int
	}{
		{"getMe", http.MethodGet, "/api/v1/users/me", "", 200},
		{"listSpaces", http.MethodGet, "/api/v1/spaces?limit=20&order=asc", "", 200},
		{"createSpace", http.MethodPost, "/api/v1/spaces", `{"name":"a space","description":"of the benchmark","externalId":null,"metadata":{"a":"b"}}`, 201},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			before := cpu(b)
			for b.Loop() {
				if status := call(c.method, c.path, c.body); status != c.status {
					b.Fatalf("%d", status)
				}
			}
			b.ReportMetric(float64((cpu(b)-before).Microseconds())/float64(b.N), "cpu-µs/op")
		})
	}
}
