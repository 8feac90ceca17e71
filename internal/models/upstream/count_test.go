package upstream

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"stoa/internal/base/stoa"
	"stoa/internal/testkit/fakeup"
)

func TestACounterIsGivenTwoSeconds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		vendor := fakeup.Start(t, fakeup.Options{Pipe: "vendor"})
		pool := New(Config{Providers: []stoa.Provider{vendor.Provider("messages")}, Transport: fakeup.Transport(&http.Transport{}, vendor)})
		defer pool.CloseIdle()
		m := stoa.Model{ID: "m", Routes: []stoa.Route{{Provider: "gone"}, {Provider: "messages", Model: "claude"}}}
		ask := func(text string) (int64, bool, time.Duration) {
			began := time.Now()
			n, ok, err := pool.Count(t.Context(), m, stoa.Call{Messages: []stoa.Message{stoa.TextMessage(stoa.RoleUser, text)}})
			if err != nil {
				t.Fatal(err)
			}
			return n, ok, time.Since(began)
		}
		if n, ok, _ := ask("Hello"); !ok || n != fakeup.Count(len(vendor.Served()[0].Body)) {
			t.Errorf("%d tokens, %v", n, ok)
		}
		if _, ok, took := ask("fault: hang"); ok || took != CountTime {
			t.Errorf("counted %v after %v", ok, took)
		}
		if _, ok, _ := ask("fail: 500"); ok {
			t.Error("a failure counted")
		}
		synctest.Wait()
		if n := pool.provider(&stoa.Route{Provider: "messages"}).inFlight.Load(); n != 0 {
			t.Errorf("%d calls are in flight", n)
		}
	})
}
