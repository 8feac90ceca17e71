package backup_test

import (
	"context"
	"os"
	"testing"

	"stoa/internal/base/store"
	"stoa/internal/testkit/apitest/plans"
	"stoa/internal/testkit/storetest"
)

func TestMain(m *testing.M) { os.Exit(plans.Checked(storetest.Both(m)).Run()) }

var ctx = context.Background()

func write(t testing.TB, st *store.Store, fn func(tx *store.Tx) error) {
	t.Helper()
	if err := st.Write(ctx, fn); err != nil {
		t.Fatal(err)
	}
}

func read(t testing.TB, st *store.Store, fn func(tx *store.Tx) error) {
	t.Helper()
	if err := st.Read(ctx, fn); err != nil {
		t.Fatal(err)
	}
}
