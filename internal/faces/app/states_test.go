package app

import (
	"os"
	"path/filepath"
	"testing"

	"stoa/internal/base/config"
	"stoa/internal/base/stoa"
)

func TestStateIsSealedWithAKeyThatIsKept(t *testing.T) {
	t.Parallel()
	cfg := config.Defaults()
	cfg.Data = t.TempDir()
	if box, err := newStates(cfg); box != nil || err != nil {
		t.Fatalf("without the extension: %v %v", box, err)
	}
	cfg.Extensions.Tools = true
	first, err := newStates(cfg)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(cfg.Data, stateKeyFile)
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%v %v", info, err)
	}
	sealed := first.Seal("acc_1", stoa.State{Wire: "w", Data: "d"})
	again, err := newStates(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if s, ok := again.Open("acc_1", sealed); !ok || s.Data != "d" {
		t.Error("the next process does not open what the first sealed")
	}
	cfg.StateKeys = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
	other, err := newStates(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := other.Open("acc_1", sealed); ok {
		t.Error("keys of the settings do not count before the file")
	}
	cfg.StateKeys = ""
	if err := os.WriteFile(path, []byte("no key\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := newStates(cfg); err == nil {
		t.Error("a file without keys is taken")
	}
}
