package cli

import (
	"bytes"
	"context"
	"net/url"
	"slices"
	"strings"
	"testing"

	"stoa/internal/base/client"
	"stoa/internal/base/stoa"
	"stoa/internal/testkit/apitest"
	"stoa/internal/testkit/storetest"
)

// TestFollowPrintsEachRowOnce follows the log while rows come, more at a time than a
// page has.
func TestFollowPrintsEachRowOnce(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, home storetest.Database) {
		h := apitest.Start(t, apitest.Config{Idle: true, Home: &home})
		var want []string
		add := func(n int) {
			for range n {
				r := stoa.Request{ID: stoa.NewID("req"), Route: "POST /api/v1/responses", AccountID: h.Account.ID, KeyID: "key_a", Status: 400 + len(want)%2}
				h.Requests.Add(&r)
				want = append(want, r.ID)
			}
			if err := h.Requests.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		call, err := client.New(h.URL, h.Key)
		if err != nil {
			t.Fatal(err)
		}
		add(5)
		var out, hints bytes.Buffer
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		rounds := []int{0, 1, 250, 3}
		l := requestLog{&output{e: &env{out: &out, err: &hints}}, call, url.Values{}, func(ctx context.Context) error {
			if len(rounds) == 0 {
				stop()
				return ctx.Err()
			}
			add(rounds[0])
			rounds = rounds[1:]
			return nil
		}}
		if err := l.follow(ctx, 3); err != nil {
			t.Fatal(err)
		}
		var got []string
		for line := range strings.Lines(out.String()) {
			id, _, _ := strings.Cut(line, "\t")
			got = append(got, id)
		}
		if !slices.Equal(got, want[2:]) {
			t.Errorf("%d rows were printed, want the last 3 of the first 5 and 254 new ones", len(got))
		}
		if hints.Len() > 0 {
			t.Errorf("it says %s", &hints)
		}
	})
}
