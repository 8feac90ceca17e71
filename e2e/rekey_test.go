package e2e

import (
	"context"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"stoa/internal/stoa"
	"stoa/internal/store"
	"stoa/internal/store/storetest"
	"stoa/internal/vault"
)

// written returns how long the logs of the databases in a directory are.
func written(dir string) (n int64) {
	logs, _ := filepath.Glob(filepath.Join(dir, "*-wal"))
	for _, name := range logs {
		if info, err := os.Stat(name); err == nil {
			n += info.Size()
		}
	}
	return n
}

// TestRekeySurvivesKills kills `stoa secrets rekey` with SIGKILL again and again, each time when
// a little more is written, until one run reaches its end. No secret is unreadable at any time, and in
// the end all are under the newest key alone.
func TestRekeySurvivesKills(t *testing.T) {
	const accounts, each = 3, 400
	home := storetest.New(t)
	dir := home.Config.Dir
	keyFile := filepath.Join(dir, vault.KeyFile)
	v, err := vault.Open(nil, keyFile)
	if err != nil {
		t.Fatal(err)
	}
	st := home.Open()
	for i := range accounts {
		account := storetest.Account(t, st, stoa.Credit)
		err := st.Write(t.Context(), func(tx *store.Tx) error {
			for j := range each {
				s := store.Secret{ID: stoa.NewID("sec"), AccountID: account.ID, Name: "x", Kind: store.SecretBearer, Origin: "https://mcp.example.com", Version: 1}
				sealed, err := v.Seal(vault.Ref{AccountID: s.AccountID, ID: s.ID, Kind: s.Kind, Origin: s.Origin, Version: 1}, fmt.Appendf(nil, "value %d %d", i, j))
				if s.Sealed = sealed; err == nil {
					_, err = tx.InsertSecret(t.Context(), s)
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	keys := func() [][]byte {
		t.Helper()
		all, err := vault.KeepKeys(keyFile)
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	// opens returns how many secrets keys open.
	opens := func(keys ...[]byte) (n int) {
		t.Helper()
		text := ""
		for _, k := range keys {
			text += hex.EncodeToString(k) + "\n"
		}
		file := filepath.Join(t.TempDir(), vault.KeyFile)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		v, err := vault.Open(nil, file)
		if err != nil {
			t.Fatal(err)
		}
		st, err := store.Open(t.Context(), home.Config)
		if err != nil {
			t.Fatal(err)
		}
		defer st.Close()
		lost, looked, err := v.Unreadable(context.Background(), st, accounts*each)
		if err != nil || looked != accounts*each {
			t.Fatalf("%d secrets are there: %v", looked, err)
		}
		return looked - len(lost)
	}

	halfway := 0
	for round := range 10 {
		want := len(keys()) + 1 // what --new makes of them
		killed := 0
		for after := int64(1); ; after += 40 << 10 {
			args := []string{"secrets", "rekey", "--data", dir}
			if len(keys()) < want {
				args = append(args, "--new")
			}
			cmd := exec.Command(self(t), args...)
			cmd.Env = []string{asProgram + "=command", "PATH=" + os.Getenv("PATH")}
			var told strings.Builder
			cmd.Stdout, cmd.Stderr = &told, &told
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- cmd.Wait() }()
			var err error
			for over := false; !over; { // until so much is written, or it comes to its end
				select {
				case err = <-ended:
					over = true
				default:
					if written(dir) >= after {
						_ = cmd.Process.Kill()
						err, over = <-ended, true
					}
				}
			}
			if err != nil && cmd.ProcessState.ExitCode() >= 0 { // it was not killed
				t.Fatalf("%v: %s", err, &told)
			}
			if cmd.ProcessState.Success() {
				break
			}
			killed++
			all := keys()
			if n := opens(all...); n != accounts*each {
				t.Fatalf("killed after %d bytes: %d secrets can be read", after, n)
			}
			if n := opens(all[0]); n > 0 && n < accounts*each {
				halfway++
			}
		}
		all := keys()
		if n := opens(all[0]); n != accounts*each || len(all) != want {
			t.Fatalf("in the end %d secrets are under the newest of %d keys", n, len(all))
		}
		if killed > 0 && halfway > 0 {
			return
		}
		t.Logf("round %d: killed %d times, never halfway", round, killed)
	}
	t.Error("no run was killed halfway")
}
