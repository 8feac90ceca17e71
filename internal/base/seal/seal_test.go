package seal

import (
	"bytes"
	"encoding/base64"
	"os"
	"strings"
	"testing"

	"stoa/internal/base/stoa"
)

func box(t *testing.T, keys ...byte) *Box {
	t.Helper()
	var list [][]byte
	for _, k := range keys {
		list = append(list, bytes.Repeat([]byte{k}, KeyBytes))
	}
	b, err := New(list...)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

var sample = stoa.State{Wire: "messages", Provider: "0123456789abcdef", Model: "m", Tokens: 7, Data: "{\"type\":\"thinking\",\"x\":\"é<>\u2028\xff\"}"}

func TestWhatIsSealedComesBackUnchanged(t *testing.T) {
	t.Parallel()
	b := box(t, 1)
	want := sample
	want.Data = strings.ToValidUTF8(want.Data, "")
	sealed := b.Seal("acc_1", want)
	if got, ok := b.Open("acc_1", sealed); !ok || got != want {
		t.Errorf("%t %+v", ok, got)
	}
	if again := b.Seal("acc_1", want); again == sealed {
		t.Error("the same state is sealed alike twice")
	}
	if strings.Contains(sealed, "thinking") || !strings.HasPrefix(sealed, "stoa1.") {
		t.Error(sealed)
	}
}

func TestWhatWasChangedIsNotOpened(t *testing.T) {
	t.Parallel()
	b := box(t, 1)
	sealed := b.Seal("acc_1", sample)
	raw, _ := base64.RawURLEncoding.DecodeString(sealed[len("stoa1."):])
	for i := range raw {
		raw[i] ^= 1
		if _, ok := b.Open("acc_1", "stoa1."+base64.RawURLEncoding.EncodeToString(raw)); ok {
			t.Fatalf("a change of byte %d is not noticed", i)
		}
		raw[i] ^= 1
	}
	for n := range len(sealed) {
		if _, ok := b.Open("acc_1", sealed[:n]); ok {
			t.Fatalf("the first %d characters are opened", n)
		}
	}
	for _, text := range []string{"", "stoa1.", "stoa2." + sealed[6:], "gAAAAAB", sealed + "A", strings.Repeat("x", 2<<20)} {
		if _, ok := b.Open("acc_1", text); ok {
			t.Errorf("%.20q is opened", text)
		}
	}
	if _, ok := b.Open("acc_2", sealed); ok {
		t.Error("another account opens it")
	}
}

func TestAKeyIsReplacedInTwoSteps(t *testing.T) {
	t.Parallel()
	sealed := box(t, 1).Seal("a", sample)
	if _, ok := box(t, 2, 1).Open("a", sealed); !ok {
		t.Error("the previous key does not open any more")
	}
	if _, ok := box(t, 3, 2).Open("a", sealed); ok {
		t.Error("a key that is gone opens")
	}
	if _, ok := box(t, 2, 1).Open("a", box(t, 2).Seal("a", sample)); !ok {
		t.Error("the first key is not the one that seals")
	}
}

func TestWhatIsTooLargeIsNotSealed(t *testing.T) {
	t.Parallel()
	b := box(t, 1)
	for _, data := range []string{"", strings.Repeat("x", MaxPlain)} {
		if s := b.Seal("a", stoa.State{Data: data}); s != "" {
			t.Errorf("%d bytes are sealed", len(data))
		}
	}
	if s := b.Seal("a", stoa.State{Data: strings.Repeat("x", MaxPlain-100)}); s == "" {
		t.Error("what just fits is not sealed")
	}
}

func TestABoxNeedsWholeKeys(t *testing.T) {
	t.Parallel()
	for _, keys := range [][][]byte{nil, {NewKey()[1:]}, {NewKey(), nil}, make([][]byte, MaxKeys+1)} {
		if _, err := New(keys...); err == nil {
			t.Errorf("%d keys are taken", len(keys))
		}
	}
}

// TestStatesOfTheLastReleaseAreOpened opens testdata/state.sealed, which the release
// before sealed: callers keep such states. The file is never rewritten.
func TestStatesOfTheLastReleaseAreOpened(t *testing.T) {
	t.Parallel()
	sealed, err := os.ReadFile("testdata/state.sealed")
	if err != nil {
		t.Fatal(err)
	}
	want := sample
	want.Data = `{"after":"","block":{"type":"thinking","thinking":"é<>\u2028","signature":"s"}}`
	if got, ok := box(t, 1).Open("acc_1", strings.TrimSpace(string(sealed))); !ok || got != want {
		t.Errorf("%t %+v", ok, got)
	}
}
