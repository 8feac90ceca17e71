package cli

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"stoa/internal/base/audit"
	"stoa/internal/base/client"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/testkit/apitest"
	"stoa/internal/testkit/storetest"
)

// TestAnAuditLogIsVerifiedOffline exports a log, damages it, and cuts its end.
func TestAnAuditLogIsVerifiedOffline(t *testing.T) {
	t.Parallel()
	h := apitest.Start(t, apitest.Config{Idle: true})
	p := newPerson(t, "STOA_BASE_URL="+h.URL, "STOA_API_KEY="+h.Key)
	if said := p.runs(0, "", "audit", "verify"); !strings.Contains(said, "has no entries") {
		t.Errorf("an empty log: %s", said)
	}
	for _, name := range []string{"one", "two", "three"} {
		p.runs(0, "", "spaces", "create", "--name", name)
	}
	if said := p.runs(0, "", "audit", "list", "--action", "createSpace"); strings.Count(said, "createSpace") != 3 || !strings.Contains(said, "spc_") {
		t.Errorf("the list is %s", said)
	}
	if said := p.runs(0, "", "audit", "verify"); !strings.Contains(said, "complete from entry 1 to 3") {
		t.Errorf("verify says %s", said)
	}
	export := p.runs(0, "", "audit", "export")
	lines := strings.SplitAfter(strings.TrimSpace(export), "\n")
	if len(lines) != 3 {
		t.Fatalf("the export is %s", export)
	}
	head := lines[2][strings.Index(lines[2], `"hash":"`)+8:][:64]
	rest := p.runs(0, "", "audit", "export", "--after", "2")
	if !strings.HasPrefix(rest, `{"checkpoint":{"accountId":"`+h.Account.ID+`","seq":2,`) || strings.Count(rest, "\n") != 2 {
		t.Errorf("the rest is %s", rest)
	}

	offline := newPerson(t) // without an address or a key
	file := filepath.Join(t.TempDir(), "audit.jsonl")
	check := func(want int, says string, text string, args ...string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if said := offline.runs(want, "", append([]string{"audit", "verify", file}, args...)...); !strings.Contains(said, says) {
			t.Errorf("verify says %s, want %q", said, says)
		}
	}
	check(0, "from entry 1 to 3, whose hash is "+head, export, "--anchor", head)
	check(0, "begins after a checkpoint", rest)
	check(0, "from entry 1 to 3", lines[0]+lines[1]+rest) // two exports in one file
	check(1, "line 2, entry 2: it was changed", strings.Replace(export, "two", "2", 1))
	check(1, "line 2, entry 3: entry 2 was expected", lines[0]+lines[2])
	check(0, "from entry 1 to 2", lines[0]+lines[1])
	check(1, "the end of the log was cut", lines[0]+lines[1], "--anchor", head)
	if said := offline.runs(0, export, "audit", "verify", "-"); !strings.Contains(said, "complete") {
		t.Errorf("standard input: %s", said)
	}
	offline.runs(2, "", "audit", "verify", file, "--account", "acc_1")
	offline.runs(1, "", "audit", "verify", file+".none")
}

// TestAnAuditLogIsFollowed makes changes while the log is followed: each is printed once.
func TestAnAuditLogIsFollowed(t *testing.T) {
	t.Parallel()
	h := apitest.Start(t, apitest.Config{Idle: true})
	call, err := client.New(h.URL, h.Key)
	if err != nil {
		t.Fatal(err)
	}
	owner := h.Client(t)
	create := func(names ...string) {
		for _, name := range names {
			owner.Want(201, "POST", "/api/v1/spaces", map[string]any{"name": name})
		}
	}
	create("one", "two")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var out strings.Builder
	pauses := 0
	err = followAudit(ctx, call, &out, "", 1, func(context.Context) error {
		switch pauses++; pauses {
		case 1:
			create("three", "four")
		case 3:
			create("five")
		case 4:
			cancel()
		}
		return ctx.Err()
	})
	if err != nil {
		t.Fatal(err)
	}
	if v, err := audit.Verify(strings.NewReader(out.String()), ""); err != nil || v.First != 2 || v.Last != 5 || strings.Count(out.String(), "\n") != 5 {
		t.Errorf("%+v, %v: %s", v, err, out.String())
	}
}

// TestKeysOfACommandAreAudited creates a key in a store without a service.
func TestKeysOfACommandAreAudited(t *testing.T) {
	t.Parallel()
	database := storetest.SQLite(t) // the directory that --data names
	st := database.Open()
	account := storetest.Account(t, st, stoa.Credit)
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	p := newPerson(t)
	secret := p.runs(0, "", "keys", "create", "--data", database.Config.Dir)
	var rows []audit.Entry
	if err := database.Open().Read(t.Context(), func(tx *store.Tx) (err error) {
		_, rows, err = tx.People().AuditRows(t.Context(), account.ID, 0, 10)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if len(rows) != 1 || rows[0].Actor != audit.CommandLine || rows[0].Action != "createKey" || !strings.Contains(secret, rows[0].Object) || strings.Contains(rows[0].After, "sk_") {
		t.Errorf("the rows are %+v", rows)
	}
}
