package wire

import (
	"fmt"
	"testing"
)

// TestCallIDsFitTheirServer gives calls the ids of other vendors.
func TestCallIDsFitTheirServer(t *testing.T) {
	t.Parallel()
	nine, any := callIDs{nine: true}, callIDs{}
	seen := map[string]string{}
	given := []string{"call_PTLP8xhu3uwZk4l3nlnrrJha", "call_PTLP8xhu3uwZk4l3nlnrrJhb", "D681PevKs", "toolu_01", "a b", "", "123456789", "1234567890", "12345678ü"}
	for i := range 2000 {
		given = append(given, fmt.Sprintf("call_%030d", i))
	}
	for _, id := range given {
		sent := nine.of(id)
		if !nineID.MatchString(sent) || nineID.MatchString(id) != (sent == id) {
			t.Errorf("%q is sent as %q", id, sent)
		}
		if was, ok := seen[sent]; ok {
			t.Errorf("%q and %q are both sent as %q", was, id, sent)
		}
		seen[sent] = id
	}
	if first, again := "call_PTLP8xhu3uwZk4l3nlnrrJha", nine.of("call_PTLP8xhu3uwZk4l3nlnrrJha"); seen[again] != "" || !nineID.MatchString(again) {
		t.Errorf("%q, when it is used again, is sent as %q", first, again)
	}
	if repeated := nine.of("D681PevKs"); repeated == "D681PevKs" || !nineID.MatchString(repeated) {
		t.Errorf("a repeated id is sent as %q", repeated)
	}
	if sent := any.of("call_PTLP8xhu3uwZk4l3nlnrrJha"); sent != "call_PTLP8xhu3uwZk4l3nlnrrJha" {
		t.Errorf("a server that accepts any id receives %q", sent)
	}
}
