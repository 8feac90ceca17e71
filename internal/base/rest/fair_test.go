package rest

import (
	"bytes"
	"fmt"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"stoa/internal/base/config"
	"stoa/internal/base/stoa"
)

func TestAnAccountLeavesMemoryForOthers(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	b := budget{most: 240 * mib}
	// takeAll returns how many MiB an account gets.
	takeAll := func(account string) (n int) {
		for b.reserve(account, mib) {
			n++
		}
		return n
	}
	var got []int
	for _, account := range []string{"a", "b", "c", "d", "a"} {
		got = append(got, takeAll(account))
	}
	if want := []int{120, 60, 30, 15, 0}; !slices.Equal(got, want) {
		t.Errorf("four accounts that take all they can got %d MiB, want %d", got, want)
	}
	// As long as any are free, small bodies are taken.
	for b.reserve("e", mib/2) {
	}
	for b.reserve("f", mib/2) {
	}
	for range 2 {
		if !b.reserve("g", mib/2) {
			t.Error("a small body found no memory")
		}
	}
	if b.reserve("g", 15*mib) {
		t.Error("a large body found memory")
	}
	b.release("a", 120*mib)
	if n := takeAll("h"); n < 50 {
		t.Errorf("what was given back is not taken: %d MiB", n)
	}
	for account, held := range b.by {
		b.release(account, held)
	}
	if b.used != 0 || len(b.by) != 0 {
		t.Errorf("%d bytes are held: %v", b.used, b.by)
	}
}

func TestLargeBodiesAreParsedInTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := new(Base)
		var mu sync.Mutex
		var parsing, most int
		end := make(chan struct{})
		parse := func([]byte) (int, error) {
			mu.Lock()
			parsing++
			most = max(most, parsing)
			mu.Unlock()
			<-end
			mu.Lock()
			parsing--
			mu.Unlock()
			return 0, nil
		}
		send := func(account string, size int, parse func([]byte) (int, error)) {
			x := &Exchange{HTTP: httptest.NewRequest("POST", "/", nil)}
			x.Log.Caller = stoa.Caller{Account: stoa.Account{ID: account}}
			if _, err := InTurn(s, x, make([]byte, size), parse); err != nil {
				t.Error(err)
			}
		}
		for range 8 {
			go send("large", largeBody, parse)
		}
		synctest.Wait()
		if want := largeBodies(); most != want {
			t.Errorf("%d large bodies were parsed at once, want %d", most, want)
		}
		// A small one of the same account does not wait.
		send("large", largeBody-1, func([]byte) (int, error) { return 0, nil })
		close(end)
		synctest.Wait()
	})
}

func TestLargeBodiesGrowInTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &Base{bodies: budget{most: 64 << 20}}
		var give []func()
		for range largeBodies() {
			end, err := s.parsing.Acquire(t.Context(), "other", largeBodies(), largeBodies())
			if err != nil {
				t.Fatal(err)
			}
			give = append(give, end)
		}
		var mu sync.Mutex
		read := map[int]bool{}
		for _, size := range []int{largeBody / 2, 4 * largeBody} {
			go func() {
				r := httptest.NewRequest("POST", "/", bytes.NewReader(make([]byte, size)))
				x := &Exchange{HTTP: r, maxBody: 16 << 20}
				body, err := s.ReadBody(x, r)
				mu.Lock()
				defer mu.Unlock()
				if read[size] = true; err != nil || len(body) != size {
					t.Errorf("%d bytes of %d, %v", len(body), size, err)
				}
			}()
		}
		synctest.Wait()
		if !read[largeBody/2] || read[4*largeBody] {
			t.Errorf("without a turn these were read: %v", read)
		}
		for _, end := range give {
			end()
		}
		synctest.Wait()
		if !read[4*largeBody] {
			t.Error("with a turn the large body was not read")
		}
	})
}

func TestFewConnectionsAreReadAfterTheirReply(t *testing.T) {
	t.Parallel()
	s := new(Base)
	var leave []func()
	enter := func(remote string) bool {
		end, ok := s.enterLinger(remote)
		if ok {
			leave = append(leave, end)
		}
		return ok
	}
	for i := range lingering {
		if remote := fmt.Sprintf("192.0.2.%d:%d", i/lingeringPerAddress, 1000+i); !enter(remote) {
			t.Fatalf("connection %d (%s) is closed at once", i, remote)
		}
		if i == lingeringPerAddress-1 && enter("192.0.2.0:9") {
			t.Error("an address has more than its share")
		}
	}
	if enter("192.0.2.99:1") {
		t.Errorf("more than %d are read", lingering)
	}
	for _, end := range leave {
		end()
	}
	if !enter("192.0.2.99:1") {
		t.Error("those that ended are still counted")
	}
}

func TestAnAccountLeavesConnectionsForOthers(t *testing.T) {
	t.Parallel()
	for connections, want := range map[int]int{1: 1, 3: 1, 40: 10, 10_000: 2_500} {
		b := &Base{Limits: config.Limits{Connections: connections}}
		of := func(account string) *Exchange {
			x := &Exchange{}
			x.Log.Caller.Account.ID = account
			return x
		}
		var one []*Exchange
		for {
			x := of("one")
			if err := b.enterRequest(x); err != nil {
				if stoa.CodeOf(err) != stoa.CodeRateLimit {
					t.Error(err)
				}
				b.leaveRequest(x) // it was not counted
				break
			}
			one = append(one, x)
		}
		if len(one) != want {
			t.Errorf("of %d connections an account has %d, want %d", connections, len(one), want)
		}
		if err := b.enterRequest(of("two")); err != nil {
			t.Error(err)
		}
		b.leaveRequest(one[0])
		if err := b.enterRequest(of("one")); err != nil {
			t.Error(err)
		}
	}
	b := &Base{} // without a limit
	for range 100 {
		if err := b.enterRequest(&Exchange{}); err != nil {
			t.Fatal(err)
		}
	}
}
