package vault

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"stoa/internal/base/config"
	"stoa/internal/base/seal"
	"stoa/internal/base/stoa"
)

var ref = Ref{AccountID: "acc_1", ID: "whk_1", Kind: "webhook", Version: 1}

func open(t *testing.T, path string, keys ...seal.MasterKey) *Vault {
	t.Helper()
	v, err := Open(keys, path)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func sealed(t *testing.T, v *Vault) string {
	t.Helper()
	s, err := v.Seal(ref, []byte("secret"))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestTheKeyIsMadeForTheFirstSecret(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), KeyFile)
	v := open(t, path)
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("a key is made that nothing needs: %v", err)
	}
	text := sealed(t, v)
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%v %v", info, err)
	}
	if plain, err := open(t, path).Open(ref, text); err != nil || string(plain) != "secret" {
		t.Errorf("the next process reads %q: %v", plain, err)
	}
}

func TestSecretsOpenInTheirRowAlone(t *testing.T) {
	t.Parallel()
	v := open(t, filepath.Join(t.TempDir(), KeyFile))
	text := sealed(t, v)
	for _, other := range []Ref{
		{AccountID: "acc_2", ID: "whk_1", Kind: "webhook", Version: 1},
		{AccountID: "acc_1", ID: "whk_2", Kind: "webhook", Version: 1},
		{AccountID: "acc_1", ID: "whk_1", Kind: "bearer", Version: 1},
		{AccountID: "acc_1", ID: "whk_1", Kind: "webhook", Version: 2},
		{AccountID: "acc_1", ID: "whk_1", Kind: "webhook", Version: 1, Origin: "https://a.example"},
	} {
		if _, err := v.Open(other, text); !errors.Is(err, ErrUnreadable) {
			t.Errorf("it opens as %+v: %v", other, err)
		}
	}
}

func TestWithoutAFileAKeyIsDemanded(t *testing.T) {
	t.Parallel()
	if _, err := open(t, "").Seal(ref, []byte("x")); stoa.CodeOf(err) != stoa.CodeSecretsKeyMissing {
		t.Error(err)
	}
	key := seal.MasterKey{ID: "a", Key: seal.NewKey()}
	text := sealed(t, open(t, "", key))
	if _, err := open(t, "").Open(ref, text); !errors.Is(err, ErrUnreadable) {
		t.Error(err)
	}
	if _, err := open(t, "", seal.MasterKey{ID: "a", Key: seal.NewKey()}).Open(ref, text); !errors.Is(err, ErrUnreadable) {
		t.Errorf("a wrong key: %v", err)
	}
}

func TestADamagedKeyFileIsNotReplaced(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), KeyFile)
	for _, text := range []string{"", "no key\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		v := open(t, path)
		if v.Err() == nil {
			t.Errorf("%q: no error is kept", text)
		}
		if _, err := v.Seal(ref, []byte("x")); stoa.CodeOf(err) != stoa.CodeSecretsKeyMissing {
			t.Errorf("%q: %v", text, err)
		}
		if now, err := os.ReadFile(path); err != nil || string(now) != text {
			t.Errorf("%q became %q: %v", text, now, err)
		}
	}
}

func TestKeysOfTheSettingsComeFirst(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), KeyFile)
	old := sealed(t, open(t, path))
	cfg := config.Defaults()
	both := open(t, path, seal.MasterKey{ID: "new", Key: seal.NewKey()})
	if _, err := both.Open(ref, old); err != nil {
		t.Errorf("what the file's key encrypted: %v", err)
	}
	if _, err := open(t, path).Open(ref, sealed(t, both)); !errors.Is(err, ErrUnreadable) {
		t.Errorf("the file's key encrypts although one is set: %v", err)
	}
	cfg.Data = filepath.Dir(path)
	v, err := Of(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := v.Open(ref, old); err != nil {
		t.Errorf("the vault of a configuration: %v", err)
	}
}
