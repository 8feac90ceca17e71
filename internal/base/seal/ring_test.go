package seal

import (
	"bytes"
	"strings"
	"testing"
)

func master(id string, b byte) MasterKey {
	return MasterKey{ID: id, Key: bytes.Repeat([]byte{b}, KeyBytes)}
}

func ring(t *testing.T, keys ...MasterKey) *Ring {
	t.Helper()
	r, err := NewRing(keys...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestStoredSecretsOpenWhereTheyBelong(t *testing.T) {
	t.Parallel()
	r := ring(t, master("a", 1))
	sealed, err := r.Seal([]byte("whsec_x"), "acc_1", "whk_1", "2")
	if err != nil || strings.Contains(sealed, "whsec") || !strings.HasPrefix(sealed, "stoa2.a.") {
		t.Fatal(sealed, err)
	}
	if plain, ok := r.Open(sealed, "acc_1", "whk_1", "2"); !ok || string(plain) != "whsec_x" {
		t.Errorf("%q %t", plain, ok)
	}
	for _, bound := range [][]string{{"acc_2", "whk_1", "2"}, {"acc_1", "whk_2", "2"}, {"acc_1", "whk_1", "1"}, {"acc_1whk_1", "", "2"}, {"acc_1", "whk_1"}, nil} {
		if _, ok := r.Open(sealed, bound...); ok {
			t.Errorf("a row that was moved to %q opens", bound)
		}
	}
	for i := range len(sealed) - len("stoa2.a.") {
		b := []byte(sealed)
		if b[len(b)-1-i] ^= 1; b[len(b)-1-i] == '.' {
			continue
		}
		if _, ok := r.Open(string(b), "acc_1", "whk_1", "2"); ok {
			t.Fatalf("a change at %d is not noticed", i)
		}
	}
	for _, text := range []string{"", "stoa2.", "stoa2.a.", "stoa2.a", "stoa1." + sealed[6:], sealed[:len(sealed)-1]} {
		if _, ok := r.Open(text, "acc_1", "whk_1", "2"); ok {
			t.Errorf("%q opens", text)
		}
	}
}

func TestMasterKeysAreReplacedInSteps(t *testing.T) {
	t.Parallel()
	sealed, err := ring(t, master("a", 1)).Seal([]byte("x"), "b")
	if err != nil {
		t.Fatal(err)
	}
	both := ring(t, master("b", 2), master("a", 1))
	if _, ok := both.Open(sealed, "b"); !ok || both.Newest(sealed) {
		t.Error("the former key does not open, or is held to be the newest")
	}
	again, err := both.Seal([]byte("x"), "b")
	if err != nil || !both.Newest(again) {
		t.Error("the first key does not seal")
	}
	if _, ok := ring(t, master("b", 2)).Open(sealed, "b"); ok {
		t.Error("a key that is gone opens")
	}
	if _, ok := ring(t, master("a", 3)).Open(sealed, "b"); ok {
		t.Error("another key of the same name opens")
	}
}

func TestARingNeedsWholeKeys(t *testing.T) {
	t.Parallel()
	for _, keys := range [][]MasterKey{nil, {{ID: "a"}}, {master("", 1)}, {master("a.b", 1)}, {master("a", 1), master("a", 2)}, make([]MasterKey, MaxKeys+1)} {
		if _, err := NewRing(keys...); err == nil {
			t.Errorf("%d keys are taken", len(keys))
		}
	}
	if _, err := ring(t, master("a", 1)).Seal(make([]byte, MaxPlain+1)); err == nil {
		t.Error("too long a text is sealed")
	}
}
