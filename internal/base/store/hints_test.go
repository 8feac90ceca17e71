package store_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"stoa/internal/base/cluster"
	"stoa/internal/base/store"
	"stoa/internal/testkit/storetest"
)

// listen has a store receive hints until the test ends. Each time that it begins to
// listen is a value in the channel.
func listen(t *testing.T, st *store.Store, address string) (begun chan struct{}) {
	t.Helper()
	begun = make(chan struct{}, 10)
	st.OnListening(func() { begun <- struct{}{} })
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := st.Listen(ctx, address); err != nil {
			t.Error(err)
		}
	}()
	t.Cleanup(func() { stop(); <-ended })
	<-begun
	return begun
}

func TestHintsReachTheOtherNodes(t *testing.T) {
	t.Parallel()
	database := storetest.Postgres(t)
	a, b := database.Open(), database.Open()
	heard := make(chan string, 10_000)
	a.OnHint(cluster.HintSession, func(text string) { t.Errorf("its own hint came back: %q", text) })
	b.OnHint(cluster.HintSession, func(text string) { heard <- text })
	listen(t, a, "")
	begun := listen(t, b, "")

	a.Hint(cluster.HintKeys, "nobody", "hears this")
	a.Hint(cluster.HintSession, "ses_1", "7")
	if got := <-heard; got != "ses_1 7" {
		t.Errorf("heard %q", got)
	}
	// Pending hints are sent once, with the latest text, in as many notices as needed.
	for n := range 3 {
		for i := range 1000 {
			a.Hint(cluster.HintSession, fmt.Sprintf("ses_%026d", i), fmt.Sprint(n))
		}
	}
	last := map[string]string{}
	for len(last) < 1000 || slices.ContainsFunc(values(last), func(s string) bool { return s != "2" }) {
		var id, n string
		fmt.Sscan(<-heard, &id, &n)
		last[id] = n
	}

	// A connection that breaks is replaced.
	kill(t, database.Config.PostgresURL, b)
	<-begun
	a.Hint(cluster.HintSession, "ses_2", "1")
	for got := <-heard; got != "ses_2 1"; got = <-heard {
	}
}

func values(m map[string]string) (list []string) {
	for _, v := range m {
		list = append(list, v)
	}
	return list
}

// kill ends the connections that listen to the channel of a store.
func kill(t *testing.T, address string, st *store.Store) {
	t.Helper()
	ctx := context.Background()
	c, err := pgx.Connect(ctx, address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(ctx)
	tag, err := c.Exec(ctx, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query = $1 AND datname = current_database()`, `LISTEN "`+st.Channel()+`"`)
	if err != nil || tag.RowsAffected() == 0 {
		t.Fatalf("%d connections were ended: %v", tag.RowsAffected(), err)
	}
}

func TestHintsMayTakeAnotherAddress(t *testing.T) {
	t.Parallel()
	database := storetest.EmptyPostgres(t) // a schema of that server's database
	a, b := database.Open(), database.Open()
	heard := make(chan string, 1)
	b.OnHint(cluster.HintKeys, func(text string) { heard <- text })
	listen(t, b, os.Getenv(storetest.Env)) // without the schema in its address
	listen(t, a, "")
	a.Hint(cluster.HintKeys, "", "")
	<-heard
}

func TestWhoIsAloneGivesNoHints(t *testing.T) {
	t.Parallel()
	if storetest.SQLite(t).Open().HasPeers() { // with one node
		t.Error("a store on SQLite gives hints")
	}
	st := storetest.Postgres(t).Open()
	if !st.HasPeers() {
		t.Error("a node that knows nothing of others gives no hints")
	}
	st.SetAlone(true)
	if st.HasPeers() {
		t.Error("a node without others gives hints")
	}
}
