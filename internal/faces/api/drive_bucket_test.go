package api_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"stoa/internal/agents/drive"
	"stoa/internal/base/config"
)

// A file whose bucket does not answer is a 503 with Retry-After, not a reply that
// breaks after its status.
func TestABucketThatIsAwayIsA503(t *testing.T) {
	t.Parallel()
	h := startDrive(t, drive.Limits{})
	away := false
	var stored []byte
	bucket := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if away {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		if r.Method == http.MethodPut {
			stored = make([]byte, r.ContentLength)
			io.ReadFull(r.Body, stored)
			return
		}
		w.Write(stored)
	}))
	t.Cleanup(bucket.Close)
	b, err := drive.NewBucket(config.S3{Endpoint: bucket.URL, Bucket: "files", Region: "us-east-1", AccessKey: "a", SecretKey: "s"})
	if err != nil {
		t.Fatal(err)
	}
	h.Drives.UseBucket(b)
	content := "\x00" + strings.Repeat("bytes", 20_000)
	send := func(method, path, body string) *http.Response {
		t.Helper()
		req, err := http.NewRequest(method, h.HTTP.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+h.Service.Key)
		req.Header.Set("Content-Type", "application/octet-stream")
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		return res
	}
	file := h.at("/files/content", "path", "a.bin")
	if res := send("PUT", file, content); res.StatusCode != http.StatusCreated {
		t.Fatalf("put: %s", res.Status)
	}
	away = true
	for _, method := range []string{"GET", "PUT"} {
		body := ""
		if method == "PUT" {
			body = content + "more"
		}
		if res := send(method, file, body); res.StatusCode != http.StatusServiceUnavailable || res.Header.Get("Retry-After") == "" {
			t.Errorf("%s without the bucket: %s, Retry-After %q", method, res.Status, res.Header.Get("Retry-After"))
		}
	}
	away = false
	if res := send("GET", file, ""); res.StatusCode != http.StatusOK || res.ContentLength != int64(len(content)) {
		t.Errorf("with the bucket again: %s", res.Status)
	}
}
