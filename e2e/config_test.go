package e2e

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"flag"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"stoa/internal/testkit/fakeup"
)

var applies = flag.Int("applies", 12, "the versions of the managed settings that TestConfigAppliesEverywhere applies")

// TestConfigAppliesEverywhere applies versions of the managed settings at three nodes under load.
// Each changes the price and replaces the provider. Nodes are killed meanwhile. Every call has a reply unless its node was killed, with the provider and the price of
// one version, which is not older than the one that all nodes used when it began.
func TestConfigAppliesEverywhere(t *testing.T) {
	t.Parallel()
	v := newVendor(t, nil)
	key := make([]byte, 32)
	rand.Read(key)
	file := filepath.Join(t.TempDir(), "secrets.key")
	if err := os.WriteFile(file, []byte(hex.EncodeToString(key)), 0o600); err != nil {
		t.Fatal(err)
	}
	_, servers := nodes(t, v.url, 3, "secrets: {keys: [{id: first, file: "+file+"}]}\n")
	h := servers[0]
	a := h.newAccount(t, "pro", 1_000_000_000)

	// used waits until all nodes use a version.
	used := func(version int64) {
		for _, s := range servers {
			for got := int64(-1); got != version; {
				var now struct{ Version int64 }
				if _, err := s.call(t.Context(), http.MethodGet, ownerKey, "/config", nil, &now); err == nil {
					got = now.Version
				} else {
					s.await(t.Context())
				}
			}
		}
	}
	change := func(s *server, method, path string, body any) (made struct{ Version int64 }) {
		t.Helper()
		if _, err := s.call(t.Context(), method, ownerKey, path, body, &made); err != nil {
			t.Fatalf("%s %s: %v", method, path, err)
		}
		return made
	}
	apply := func(s *server, version int) {
		t.Helper()
		provider := fmt.Sprint("version-", version)
		change(s, http.MethodPut, "/config/draft", object{"settings": object{
			"providers": []object{{"name": provider, "wire": "messages", "baseURL": v.url, "apiKey": fakeup.Key}},
			"models": object{"load-1": object{
				"family": "load", "price": object{"input": 1000 * version, "output": 7000 * version},
				"routes": []object{{"provider": provider, "model": "load"}},
			}},
		}})
		if made := change(s, http.MethodPost, "/config/draft/apply", nil); made.Version != int64(version) {
			t.Fatalf("version %d was applied as %d", version, made.Version)
		}
	}
	apply(h, 1)
	used(1)

	var floor atomic.Int64 // the version that all nodes use at least
	floor.Store(1)
	var mu sync.Mutex
	least := map[string]int64{} // by call
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var callers sync.WaitGroup
	var calls, cut atomic.Int64
	for w := range 12 {
		callers.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				s := servers[(w+i)%3]
				at := floor.Load()
				r := s.ask(context.Background(), a.key, "", object{"model": "load-1", "input": fmt.Sprintf("tokens: %d", 5+(w+i)%40), "stream": w%2 == 0}, nil)
				switch {
				case r.done():
					calls.Add(1)
					mu.Lock()
					least[r.id] = at
					mu.Unlock()
				case r.broken != nil: // its node was killed
					cut.Add(1)
					s.await(ctx)
				default:
					t.Errorf("a call ended as %+v", r)
					return
				}
			}
		})
	}
	kill := max(min(*applies/4, 10), 2)
	for version := 2; version <= *applies; version++ {
		apply(servers[version%3], version)
		if version%kill == 0 { // in the middle of the change
			victim := servers[(version+1)%3]
			victim.kill()
			victim.start()
		}
		used(int64(version))
		floor.Store(int64(version))
	}
	restored := change(h, http.MethodPost, "/config/versions/1/restore", nil).Version
	used(restored)
	stop()
	callers.Wait()
	h.quiet(t, a)
	last := h.ask(t.Context(), a.key, "", object{"model": "load-1", "input": "tokens: 1"}, nil)
	if !last.done() {
		t.Fatalf("after the restore: %+v", last)
	}

	receipts, versions := 0, map[int64]int{}
	for cursor := ""; ; {
		var page struct {
			Data []struct {
				ID    string
				Route struct{ Provider string }
				Usage struct{ InputTokens, CachedInputTokens, CacheWriteTokens, OutputTokens int64 }
				Price struct {
					Version                                     string
					InputMicroPerMillion, OutputMicroPerMillion int64
				}
				CreditsMicro int64
				Capped       bool
			}
			NextCursor string
		}
		h.get(t, a.key, "/receipts?limit=100&cursor="+url.QueryEscape(cursor), &page)
		for _, r := range page.Data {
			receipts++
			version := r.Price.InputMicroPerMillion / 1000
			versions[version]++
			want := r.Usage.InputTokens*1000*version + r.Usage.OutputTokens*7000*version
			want = (want + 999_999) / 1_000_000
			// A call that began before the restore may have the newest version.
			if least := least[r.ID]; r.Route.Provider != fmt.Sprint("version-", version) || r.Price.OutputMicroPerMillion != 7000*version || r.CreditsMicro != want || r.Capped ||
				version < least && version != 1 || !strings.HasPrefix(r.Price.Version, "own-") {
				t.Errorf("version %d was used by all nodes when this call began: %+v", least, r)
			}
			if r.ID == last.id && version != 1 {
				t.Errorf("after version 1 was restored, version %d is in force", version)
			}
		}
		if cursor = page.NextCursor; cursor == "" {
			break
		}
	}
	if int64(receipts) < calls.Load()+1 || len(versions) < *applies/2 {
		t.Errorf("%d calls have %d receipts, of %d versions", calls.Load()+1, receipts, len(versions))
	}
	t.Logf("%d versions, %d calls, %d of them cut by kills", *applies, calls.Load(), cut.Load())
}
