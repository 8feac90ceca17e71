// Package storetest gives tests a real store of their own: on SQLite always, on
// PostgreSQL when STOA_TEST_POSTGRES names a server.
//
// It is for tests alone and never replaces a part of the store. Start with
// [Each], or with [New] where one database is enough.
package storetest

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"stoa/internal/stoa"
	"stoa/internal/store"
)

// Env is the variable that holds the address of a PostgreSQL server, as a user
// who may create schemas.
const Env = "STOA_TEST_POSTGRES"

// A Home is where a store lives. It can be opened again and again, one store at
// a time.
type Home struct {
	Config store.Config
	t      testing.TB
}

// Each runs a test on SQLite and, where there is one, on PostgreSQL.
func Each(t *testing.T, test func(t *testing.T, home Home)) {
	t.Run("sqlite", func(t *testing.T) { test(t, New(t)) })
	t.Run("postgres", func(t *testing.T) {
		if os.Getenv(Env) == "" {
			t.Skip(Env + " is not set")
		}
		test(t, Postgres(t))
	})
}

// New is a home in a directory of the test's own.
func New(t testing.TB) Home {
	return Home{Config: store.Config{Dir: t.TempDir()}, t: t}
}

// Postgres is a home in a schema of the test's own, dropped at its end.
func Postgres(t testing.TB) Home {
	t.Helper()
	address := os.Getenv(Env)
	if address == "" {
		t.Skip(Env + " is not set")
	}
	schema := strings.ToLower(stoa.NewID("test"))
	run(t, address, "CREATE SCHEMA "+schema)
	t.Cleanup(func() { run(t, address, "DROP SCHEMA "+schema+" CASCADE") })
	u, err := url.Parse(address)
	if err != nil {
		t.Fatalf("%s: %v", Env, err)
	}
	q := u.Query()
	q.Set("search_path", schema)
	u.RawQuery = q.Encode()
	return Home{Config: store.Config{PostgresURL: u.String()}, t: t}
}

func run(t testing.TB, address, statement string) {
	t.Helper()
	ctx := context.Background()
	c, err := pgx.Connect(ctx, address)
	if err != nil {
		t.Fatalf("connect to PostgreSQL: %v", err)
	}
	defer c.Close(ctx)
	if _, err := c.Exec(ctx, statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// Open opens the store; it is closed when the test ends, if not before.
func (h Home) Open() *store.Store {
	h.t.Helper()
	st, err := store.Open(context.Background(), h.Config)
	if err != nil {
		h.t.Fatalf("open the store: %v", err)
	}
	h.t.Cleanup(func() { st.Close() })
	return st
}

// Account adds an account on plan pro, with that much granted.
func Account(t testing.TB, st *store.Store, credits stoa.Credits) stoa.Account {
	t.Helper()
	var a stoa.Account
	err := st.Write(context.Background(), func(tx *store.Tx) (err error) {
		ctx := context.Background()
		if a, err = tx.InsertAccount(ctx, stoa.Account{Name: "test", Plan: "pro"}); err != nil || credits == 0 {
			return err
		}
		_, created, err := tx.InsertGrant(ctx, stoa.Grant{AccountID: a.ID, Amount: credits, Reason: "test"})
		if err == nil && !created {
			err = fmt.Errorf("the grant was not made")
		}
		return err
	})
	if err != nil {
		t.Fatalf("add an account: %v", err)
	}
	return a
}
