package e2e

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"stoa/internal/testkit/storetest"
)

// TestNodesShareABucket checks that a large file that one node has stored in the bucket is
// read at another, also after a restart; a text stays in the database.
func TestNodesShareABucket(t *testing.T) {
	t.Parallel()
	objects := s3mem.New()
	if err := objects.CreateBucket("stoa-files"); err != nil {
		t.Fatal(err)
	}
	s3 := httptest.NewServer(gofakes3.New(objects).Server())
	t.Cleanup(s3.Close)
	v := newVendor(t, nil)
	database := storetest.Postgres(t)
	var nodes []*server
	for range 2 {
		n := newServer(t, v.url, fmt.Sprintf("drive: {store: {s3: {endpoint: %q, bucket: stoa-files, prefix: stoa/, accessKey: a, secretKey: s}}}\n", s3.URL))
		n.postgres = database.Config.PostgresURL
		n.start()
		nodes = append(nodes, n)
	}
	a := nodes[0].newAccount(t, "pro", 1_000_000)
	nodes[0].newAgent(t, a)
	large := "\x00" + strings.Repeat("bytes", 200_000)
	nodes[0].put(t, a, "large.bin", large)
	nodes[0].put(t, a, "notes.md", strings.Repeat("The windmill turns. ", 10_000))
	list, err := objects.ListBucket("stoa-files", nil, gofakes3.ListBucketPage{})
	if err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("stoa/%x-", sha256.Sum256([]byte(large)))
	if len(list.Contents) != 1 || !strings.HasPrefix(list.Contents[0].Key, name) {
		t.Errorf("the bucket has %+v, want the large file alone", list.Contents)
	}
	read := func() {
		t.Helper()
		for i, n := range nodes {
			if got := n.text(t, a.key, contentOf(a, "large.bin")); got != large {
				t.Errorf("node %d has %d bytes of %d", i, len(got), len(large))
			}
		}
	}
	read()
	for _, n := range nodes {
		if code := n.stop(t); code != 0 {
			t.Errorf("a node exits with %d", code)
		}
		n.start()
	}
	read()
	nodes[0].verify(t)
}

// contentOf returns the path of the content of a file of the account's agent.
func contentOf(a *account, path string) string {
	return "/api-agents/" + a.agent + "/drive/files/content?path=" + url.QueryEscape(path)
}

// put writes a file of the account's agent.
func (h *server) put(t *testing.T, a *account, path, content string) {
	t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPut, h.url+"/api/v1"+contentOf(a, path), strings.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+a.key)
	res, err := h.http.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if text, err := io.ReadAll(res.Body); err != nil || res.StatusCode != http.StatusCreated {
		t.Fatalf("put %s: %s %s %v", path, res.Status, text, err)
	}
}
