package billing

import "testing"

func TestDaysOfUnusedKeysAreDropped(t *testing.T) {
	t.Parallel()
	a := &account{}
	a.key("old", 10).spent = 1
	a.key("held", 10).held = 1
	a.key("yesterday", 11).spent = 1
	a.key("new", 12)
	if len(a.keys) != 3 || a.keys["old"] != nil {
		t.Errorf("the account keeps %d keys: %v", len(a.keys), a.keys)
	}
	empty := &Hold{a: a, capped: true, book: "old"}
	empty.end(holdReleased) // of 0 credits
}
