package app

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"stoa/internal/base/stoa"
	"stoa/internal/models/catalog"
	"stoa/internal/models/upstream"
)

// TestDiscoveryFollowsTheConfiguration reloads the configuration with the same and with another
// server, and runs until the list of the other one is read.
func TestDiscoveryFollowsTheConfiguration(t *testing.T) {
	t.Parallel()
	serve := func(model string) stoa.Provider {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintf(w, `{"data":[{"id":%q}]}`, model) }))
		t.Cleanup(server.Close)
		return stoa.Provider{Name: "upstream", Wire: "chat", Dialect: "compatible", BaseURL: server.URL + "/v1", Discover: stoa.Discovery{On: true}}
	}
	cat := func(p stoa.Provider) *catalog.Catalog {
		c, err := catalog.New(catalog.Options{Providers: []stoa.Provider{p}})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	var now atomic.Pointer[catalog.Catalog]
	used := make(chan struct{}, 100)
	first, second := serve("first"), serve("second")
	d := newDiscovery(upstream.New(upstream.Config{}), cat(first), slog.New(slog.DiscardHandler), func(c *catalog.Catalog) {
		now.Store(c)
		used <- struct{}{}
	})
	<-used
	has := func(id string) bool {
		_, ok := now.Load().Model(id)
		return ok
	}
	if has("first") || d.Read(t.Context()) || !has("first") {
		t.Fatal("the list was not read when it should be")
	}
	<-used
	d.rebase(cat(first))
	if <-used; !has("first") {
		t.Error("a reload of the same settings lost the list")
	}
	d.rebase(cat(second))
	if <-used; has("first") {
		t.Error("the models of another server are still offered")
	}
	go func() { _ = d.Run(t.Context()) }()
	for !has("second") {
		<-used
	}
}
