package agent_test

import (
	"testing"

	"stoa/internal/jsonx"
	"stoa/internal/stoa"
)

func decode[T any](t testing.TB, e stoa.SessionEvent) T {
	t.Helper()
	var d T
	if err := jsonx.UnmarshalKnown([]byte(e.Data), &d); err != nil {
		t.Fatalf("event %d (%s) holds %s: %v", e.Seq, e.Type, e.Data, err)
	}
	return d
}
