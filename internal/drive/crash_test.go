package drive_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"stoa/internal/apitest/plans"
	"stoa/internal/db"
	"stoa/internal/drive"
	"stoa/internal/storetest"
)

// crashChild marks a child process in its environment. crashDir is the directory of its
// store, crashPostgres the address of one on PostgreSQL.
const (
	crashChild    = "STOA_DRIVE_CRASH"
	crashDir      = "STOA_DRIVE_CRASH_DIR"
	crashPostgres = "STOA_DRIVE_CRASH_POSTGRES"
)

// TestMain runs the process that the crash test kills, if crashChild is set.
func TestMain(m *testing.M) {
	if os.Getenv(crashChild) != "" {
		err := writeUntilKilled(db.Config{Dir: os.Getenv(crashDir), PostgresURL: os.Getenv(crashPostgres)})
		fmt.Println("failed:", err)
		os.Exit(1)
	}
	os.Exit(plans.Checked(storetest.Both(m)).Run())
}

const crashFiles = 12

// writeUntilKilled writes batches: batch n writes n into all of its files, and moves one file
// back and forth. The number of a batch is its idempotency key.
func writeUntilKilled(cfg db.Config) error {
	ctx := context.Background()
	d, err := drive.Open(ctx, cfg, drive.Limits{})
	if err != nil {
		return err
	}
	s, err := d.Stats(ctx, who)
	if err != nil {
		return err
	}
	for n := s.Revision; ; n++ {
		text := fmt.Sprintf("number %d\n", n) + strings.Repeat("some words to be indexed ", 200)
		var ops []drive.Op
		for i := range crashFiles {
			p, err := drive.ParsePath(fmt.Sprintf("f/%d.txt", i))
			if err != nil {
				return err
			}
			ops = append(ops, drive.Op{Verb: drive.VerbPut, Path: p, Content: drive.BytesContent([]byte(text))})
		}
		r, err := d.Apply(ctx, who, drive.Claim{Scope: "crash", Ref: fmt.Sprint(n)}, ops)
		if err != nil {
			return err
		}
		fmt.Println("wrote", n, r.Revision)
	}
}

func TestAKillLeavesABatchWholeOrAbsent(t *testing.T) {
	t.Parallel()
	cfg := dbConfig(t)
	for round := range 6 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), crashChild+"=yes", crashDir+"="+cfg.Dir, crashPostgres+"="+cfg.PostgresURL)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		var last int64 = -1
		lines := bufio.NewScanner(out)
		for seen := 0; lines.Scan(); {
			var revision int64
			if _, err := fmt.Sscanf(lines.Text(), "wrote %d %d", &last, &revision); err != nil {
				t.Fatalf("the writer says %q", lines.Text())
			}
			if seen++; seen == 3+7*round {
				cmd.Process.Kill() // somewhere in the next batch
			}
		}
		cmd.Wait()
		func() {
			d, err := drive.Open(t.Context(), cfg, drive.Limits{})
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			check(t, d)
			var texts []string
			for i := range crashFiles {
				texts = append(texts, strings.SplitN(read(t, d, fmt.Sprintf("f/%d.txt", i)), "\n", 2)[0])
			}
			var n int64
			fmt.Sscanf(texts[0], "number %d", &n)
			for _, text := range texts {
				if text != texts[0] {
					t.Fatalf("half a batch: %v", texts)
				}
			}
			if n < last {
				t.Errorf("batch %d was answered and %d is there", last, n)
			}
			hits, err := searchDrive(d, t.Context(), who, fmt.Sprintf(`"number %d"`, n), "", 100)
			if err != nil || len(hits) != crashFiles {
				t.Errorf("%d files are found by what they hold, %v", len(hits), err)
			}
		}()
	}
}
