package api

import (
	"context"
	"testing"

	"stoa/internal/base/rest"
	"stoa/internal/base/store"
	"stoa/internal/testkit/storetest"
)

// TestAReportLeavesOneForOthers has a report of an account run for ever: another one of it
// waits, that of another account does not.
func TestAReportLeavesOneForOthers(t *testing.T) {
	t.Parallel()
	s := &core{&rest.Base{Store: storetest.New(t).Open()}, &limits{}, reportTime}
	begun, goOn, ended := make(chan struct{}), make(chan struct{}), make(chan error)
	go func() {
		_, err := report(t.Context(), s, "one", func(context.Context, *store.Tx) (int, error) {
			close(begun)
			<-goOn
			return 1, nil
		})
		ended <- err
	}()
	<-begun
	gone, leave := context.WithCancel(t.Context())
	leave()
	if n, err := report(gone, s, "one", func(context.Context, *store.Tx) (int, error) { return 2, nil }); err == nil {
		t.Errorf("an account has two reports: %d", n)
	}
	if n, err := report(t.Context(), s, "two", func(context.Context, *store.Tx) (int, error) { return 3, nil }); n != 3 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	close(goOn)
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
