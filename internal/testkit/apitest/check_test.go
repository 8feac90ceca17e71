package apitest_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"stoa/internal/base/stoa"
	"stoa/internal/testkit/apitest"
)

// TestPlantedMistakesAreFound checks the checker: each reply has one mistake.
func TestPlantedMistakesAreFound(t *testing.T) {
	const health = `{"status":"ok","timestamp":"2026-11-20T12:00:00.000Z"}`
	envelope := func(id, code, kind string) string {
		return fmt.Sprintf(`{"error":{"message":"m","type":%q,"param":null,"code":%q,"requestId":%q,"retryable":false}}`, kind, code, id)
	}
	tests := []struct {
		name, path, media string
		status            int
		body              func(id string) string
		want              string // part of the complaint; empty if none is expected
	}{
		{"nothing wrong", "/api/v1/health", "application/json", 200, func(string) string { return health }, ""},
		{"a status that is not documented", "/api/v1/health", "application/json", 201, func(string) string { return health }, "not documented"},
		{"a member too many", "/api/v1/health", "application/json", 200, func(string) string { return health[:len(health)-1] + `,"extra":1}` }, "extra"},
		{"a member too few", "/api/v1/health", "application/json", 200, func(string) string { return `{"status":"ok"}` }, "timestamp"},
		{"another type", "/api/v1/health", "text/plain", 200, func(string) string { return health }, "content type"},
		{"not JSON", "/api/v1/health", "application/json", 200, func(string) string { return "ok" }, "not JSON"},
		{"a code of another status", "/nowhere", "application/json", 404, func(id string) string { return envelope(id, "Unauthorized", "invalid_request_error") }, "the table says 401"},
		{"an unknown code", "/nowhere", "application/json", 404, func(id string) string { return envelope(id, "gone_fishing", "invalid_request_error") }, "not in the table"},
		{"another request id", "/nowhere", "application/json", 404, func(string) string { return envelope("req_x", "not_found", "invalid_request_error") }, "request id"},
		{"plain text for an error", "/nowhere", "text/plain", 404, func(string) string { return "404 page not found" }, "of the type"},
		{"a header too few", "/api/v1/users/me", "application/json", 401, func(id string) string { return envelope(id, "Unauthorized", "invalid_request_error") }, "WWW-Authenticate"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				id := stoa.NewID("req")
				w.Header().Set("x-request-id", id)
				w.Header().Set("X-Content-Type-Options", "nosniff")
				w.Header().Set("x-should-retry", "false")
				w.Header().Set("Content-Type", test.media)
				w.WriteHeader(test.status)
				fmt.Fprint(w, test.body(id))
			}))
			defer s.Close()
			_, err := apitest.NewClient(t, s.URL, "", nil).Try(t.Context(), "GET", test.path, nil)
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("complained of %v, want %q", err, test.want)
			}
		})
	}
}

// TestPlantedMistakesInAStreamAreFound changes one detail of a valid stream.
func TestPlantedMistakesInAStreamAreFound(t *testing.T) {
	h := apitest.Start(t, apitest.Config{})
	good := string(h.Client(t).Want(200, "POST", "/api/v1/responses", map[string]any{"model": "auto", "input": "say: one two", "stream": true}).Body)
	change := func(old, replacement string) string {
		if !strings.Contains(good, old) {
			t.Fatalf("the stream has no %q:\n%s", old, good)
		}
		return strings.Replace(good, old, replacement, 1)
	}
	for name, text := range map[string]string{
		"no end":                good[:strings.LastIndex(good, "data: [DONE]")],
		"a number twice":        change(`"sequence_number":4`, `"sequence_number":3`),
		"another text":          change(`"delta":"`, `"delta":"x`),
		"an event of our own":   change("event: response.in_progress", "event: response.thinking"),
		"a member of our own":   change(`"sequence_number":1,`, `"sequence_number":1,"mine":1,`),
		"a top-level error":     change(`"sequence_number":1,`, `"sequence_number":1,"error":null,`),
		"created is missing":    good[strings.Index(good, "\n\n")+2:],
		"an event over lines":   change(`"logprobs":[]}`, "\ndata: \"logprobs\":[]}"),
		"a comment in an event": change("event: response.in_progress", ": hm\nevent: response.in_progress"),
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("x-request-id", stoa.NewID("req"))
			w.Header().Set("X-Content-Type-Options", "nosniff")
			w.Header().Set("x-should-retry", "false")
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, text)
		}))
		if _, err := apitest.NewClient(t, s.URL, "", nil).Try(t.Context(), "POST", "/api/v1/responses", map[string]any{"model": "auto", "input": "x", "stream": true}); err == nil {
			t.Errorf("%s: not found", name)
		}
		s.Close()
	}
}
