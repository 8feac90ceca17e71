package drive_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"stoa/internal/agents/drive"
	"stoa/internal/base/db"
	"stoa/internal/base/extract"
	"stoa/internal/testkit/apitest/plans"
	"stoa/internal/testkit/storetest"
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
	if child := os.Getenv(crashChild); child != "" {
		run := writeUntilKilled
		if child == "texts" {
			run = readUntilKilled
		}
		err := run(db.Config{Dir: os.Getenv(crashDir), PostgresURL: os.Getenv(crashPostgres)})
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

// readUntilKilled writes documents, of which one in three is late, and reads those that wait.
func readUntilKilled(cfg db.Config) error {
	ctx := context.Background()
	d, err := drive.Open(ctx, cfg, drive.Limits{ReadTime: time.Millisecond})
	if err != nil {
		return err
	}
	r := newReader()
	close(r.gate)
	d.UseReader(slowReader{r})
	d.SetReaders(extract.Version, 0)
	go d.Run(ctx, time.Hour, nil, func(err error) { fmt.Println("failed:", err) })
	s, err := d.Stats(ctx, who)
	if err != nil {
		return err
	}
	for n := s.Revision; ; n++ {
		p, err := drive.ParsePath(fmt.Sprintf("f/%d.pdf", n%crashFiles))
		if err != nil {
			return err
		}
		order := []string{"ready", "ready", "wait"}[n%3]
		if _, err := d.PutText(ctx, who, drive.Claim{}, p, fmt.Sprintf("%%PDF-%s words of document%dx", order, n), ""); err != nil {
			return err
		}
		fmt.Println("wrote", n, n)
	}
}

// slowReader is late with the documents that wait, within the time of a write.
type slowReader struct{ *reader }

func (r slowReader) Read(ctx context.Context, d extract.Document) (extract.Result, error) {
	b, err := io.ReadAll(d.Content)
	if err != nil {
		return extract.Result{}, err
	}
	if end, ok := ctx.Deadline(); ok && time.Until(end) < time.Second && strings.HasPrefix(string(b), "%PDF-wait") {
		<-ctx.Done()
		return extract.Result{}, ctx.Err()
	}
	d.Content = bytes.NewReader(b)
	return r.reader.Read(ctx, d)
}

func TestAKillLeavesNoFileWithoutItsText(t *testing.T) {
	t.Parallel()
	cfg := dbConfig(t)
	for round := range 8 {
		kill(t, cfg, "texts", 5+9*round)
		func() {
			d, err := drive.Open(t.Context(), cfg, drive.Limits{})
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			check(t, d)
			d.UseReader(newReader())
			all, err := d.List(t.Context(), who, drive.Listing{Limit: 100})
			if err != nil || len(all.Files) == 0 {
				t.Fatal(all, err)
			}
			for _, f := range all.Files { // what is there is found or says that it waits
				status(t, d, f.Path, "words of")
				if f.TextStatus != extract.Ready && f.TextStatus != extract.Pending {
					t.Errorf("%s is %s", f.Path, f.TextStatus)
				}
			}
		}()
	}
}

func TestAFileThatKillsItsReaderIsGivenUp(t *testing.T) {
	t.Parallel()
	cfg := dbConfig(t)
	d, err := drive.Open(t.Context(), cfg, drive.Limits{ReadTime: time.Nanosecond})
	if err != nil {
		t.Fatal(err)
	}
	d.UseReader(newReader())
	put(t, d, "k.pdf", "%PDF-kill words")
	for range 3 {
		if got := status(t, d, "k.pdf", "words"); got != extract.Pending {
			t.Fatal(got)
		}
		d.Close()
		kill(t, cfg, "texts", 0)
		if d, err = drive.Open(t.Context(), cfg, drive.Limits{}); err != nil {
			t.Fatal(err)
		}
		check(t, d)
		// The lease ends.
		if err := d.DB().Write(t.Context(), func(tx *db.Tx) error {
			_, err := tx.Exec(t.Context(), `UPDATE drive_texts SET lease_until = 0`)
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	defer d.Close()
	r := newReader()
	close(r.gate)
	d.UseReader(r)
	sweepTexts(t, d)
	if got := status(t, d, "k.pdf", "words"); got != extract.Timeout {
		t.Error(got)
	}
	check(t, d)
}

// kill runs a child process on a store and kills it after some writes; after 0, the child ends
// itself.
func kill(t *testing.T, cfg db.Config, child string, after int) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), crashChild+"="+child, crashDir+"="+cfg.Dir, crashPostgres+"="+cfg.PostgresURL)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for seen := 0; lines.Scan(); {
		if !strings.HasPrefix(lines.Text(), "wrote") {
			t.Errorf("the writer says %q", lines.Text())
		}
		if seen++; seen == after {
			cmd.Process.Kill()
		}
	}
	cmd.Wait()
}
