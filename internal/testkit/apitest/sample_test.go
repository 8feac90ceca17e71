package apitest

import (
	"bytes"
	"testing"
)

// TestSamplesMayBeChanged empties the body of a sample of each operation. The document,
// which all tests of a process share, stays as it is.
func TestSamplesMayBeChanged(t *testing.T) {
	text := func() []byte {
		t.Helper()
		out, err := Document().MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	before := text()
	changed := 0
	for _, op := range Operations() {
		changed += empty(op.Sample("x").Body)
		for _, x := range op.Excesses("x") {
			empty(x.Request.Body)
		}
	}
	if changed < 100 {
		t.Errorf("only %d members were taken out", changed)
	}
	if !bytes.Equal(text(), before) {
		t.Error("the document has changed with the samples")
	}
}

// empty removes all members within a value and returns their number.
func empty(v any) (n int) {
	switch v := v.(type) {
	case map[string]any:
		for name, e := range v {
			n += 1 + empty(e)
			delete(v, name)
		}
	case []any:
		for i, e := range v {
			n += empty(e)
			v[i] = nil
		}
	}
	return n
}
