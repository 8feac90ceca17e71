package e2e

import (
	"context"
	"encoding/hex"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/base/vault"
	"stoa/internal/testkit/storetest"
)

// written returns the total length of the logs of the databases in a directory.
func written(dir string) (n int64) {
	logs, _ := filepath.Glob(filepath.Join(dir, "*-wal"))
	for _, name := range logs {
		if info, err := os.Stat(name); err == nil {
			n += info.Size()
		}
	}
	return n
}

// Numbers of encrypted rows of an account, by kind.
const (
	sealedSecrets  = 400
	sealedTokens   = 120 // of OAuth, and clients that registered themselves
	sealedStates   = 3   // started authorizations
	sealedWebhooks = store.MaxWebhooks
	sealedRows     = sealedSecrets + 2*sealedTokens + sealedStates + sealedWebhooks
)

// sealRows adds encrypted rows of all kinds to an account.
func sealRows(ctx context.Context, tx *store.Tx, v *vault.Vault, accountID string) (err error) {
	seal := func(id, kind, origin string) string {
		sealed, failed := v.Seal(vault.Ref{AccountID: accountID, ID: id, Kind: kind, Origin: origin, Version: 1}, []byte("value of "+id))
		err = errors.Join(err, failed)
		return sealed
	}
	add := func(failed error) { err = errors.Join(err, failed) }
	const issuer, origin = "https://id.example.com", "https://mcp.example.com"
	for range sealedSecrets {
		id := stoa.NewID("sec")
		_, failed := tx.Setup().InsertSecret(ctx, store.Secret{ID: id, AccountID: accountID, Name: "x", Kind: store.SecretBearer, Origin: origin, Version: 1, Sealed: seal(id, store.SecretBearer, origin)})
		add(failed)
	}
	for range sealedTokens {
		id := stoa.NewID("con")
		add(tx.Setup().PutTokens(ctx, store.Tokens{AccountID: accountID, ConnectionID: id, Issuer: issuer, Resource: origin, Version: 1, Sealed: seal(id, "oauth", issuer+" "+origin)}))
		id = stoa.NewID("oac")
		add(tx.Setup().PutOAuthClient(ctx, store.OAuthClient{ID: id, AccountID: accountID, Issuer: issuer, RedirectURI: origin + "/" + id, Version: 1, Sealed: seal(id, "oauth_client", issuer)}))
	}
	for range sealedStates {
		id := stoa.NewID("state")
		add(tx.Setup().InsertOAuthState(ctx, store.OAuthState{Hash: id, AccountID: accountID, ConnectionID: stoa.NewID("con"), ExpiresAt: tx.Now.Add(time.Hour), Sealed: seal(id, "oauth_state", "")}))
	}
	for range sealedWebhooks {
		id := stoa.NewID("whk")
		_, failed := tx.Operations().InsertWebhook(ctx, stoa.Webhook{ID: id, AccountID: accountID, Events: []string{"*"}, SecretVersion: 1, Sealed: seal(id, "webhook", "")})
		add(failed)
	}
	return err
}

// TestRekeySurvivesKills kills `stoa secrets rekey` with SIGKILL repeatedly, each time after
// a little more progress, until one run completes. No secret of a connection, of OAuth or of
// a webhook is unreadable at any time, and in the end all are encrypted under the newest key
// only.
func TestRekeySurvivesKills(t *testing.T) {
	t.Parallel()
	const accounts, each = 3, sealedRows
	home := storetest.New(t)
	dir := home.Config.Dir
	keyFile := filepath.Join(dir, vault.KeyFile)
	v, err := vault.Open(nil, keyFile)
	if err != nil {
		t.Fatal(err)
	}
	st := home.Open()
	for range accounts {
		account := storetest.Account(t, st, stoa.Credit)
		if err := st.Write(t.Context(), func(tx *store.Tx) error { return sealRows(t.Context(), tx, v, account.ID) }); err != nil {
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
	// opens returns the number of secrets that keys can decrypt.
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
			for over := false; !over; { // until the amount is written, or it completes
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
