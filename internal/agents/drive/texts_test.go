package drive_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"stoa/internal/agents/drive"
	"stoa/internal/base/db"
	"stoa/internal/base/extract"
	"stoa/internal/base/stoa"
	"stoa/internal/testkit/storetest"
)

// A reader reads documents of the form "%PDF-order text": the order is the status of the
// result, "fail", "late", "wait" or "kill". Pages of the text end with a form feed.
type reader struct {
	mu     sync.Mutex
	reads  map[string]int // by content
	seen   extract.Document
	gate   chan struct{}   // closed: "wait" reads on
	during func()          // called by "wait" before it waits
	suffix string          // of each text
	sheets *extract.Result // of files of other kinds; nil: none
}

func newReader() *reader { return &reader{reads: map[string]int{}, gate: make(chan struct{})} }

func (r *reader) Read(ctx context.Context, d extract.Document) (extract.Result, error) {
	b, err := io.ReadAll(d.Content)
	if err != nil {
		return extract.Result{}, err
	}
	content := string(b)
	r.mu.Lock()
	r.reads[content]++
	r.seen = d
	r.mu.Unlock()
	content, isDocument := strings.CutPrefix(content, "%PDF-")
	if !isDocument && r.sheets != nil {
		return *r.sheets, nil
	}
	if !isDocument { // in an encoding
		if d.Encoding == "" {
			return extract.Result{Status: extract.UnknownEncoding}, nil
		}
		var text []byte
		for _, c := range b {
			text = append(text, string(rune(c))...)
		}
		return extract.Result{Status: extract.Ready, Text: text, Encoding: d.Encoding}, nil
	}
	order, text, _ := strings.Cut(content, " ")
	switch order {
	case "fail":
		return extract.Result{}, errors.New("a fault of the service")
	case "late":
		return extract.Result{}, context.DeadlineExceeded
	case "away":
		return extract.Result{}, extract.ErrUnavailable
	case "busy": // a few times
		if r.count("%PDF-"+content) < 6 {
			return extract.Result{}, extract.ErrBusy
		}
		order = "ready"
	case "kill":
		syscall.Kill(os.Getpid(), syscall.SIGKILL)
	case "wait":
		if r.during != nil {
			r.during()
		}
		select {
		case <-r.gate:
		case <-ctx.Done():
			return extract.Result{}, ctx.Err()
		}
		order = "ready"
	}
	out := extract.Result{Status: extract.Status(order)}
	if out.Status != extract.Ready && out.Status != extract.Partial {
		return out, nil
	}
	var all strings.Builder
	line := int64(1)
	for _, page := range strings.Split(text+r.suffix, "\f") {
		out.Pages++
		out.Places = append(out.Places, extract.Place{Line: line, Name: fmt.Sprintf("p. %d", out.Pages), Page: out.Pages})
		page = fmt.Sprintf("[page %d]\n%s\n", out.Pages, page)
		line += int64(strings.Count(page, "\n"))
		all.WriteString(page)
	}
	out.Text = []byte(all.String())
	return out, nil
}

func (r *reader) Page(_ context.Context, d extract.Document, _ extract.Page) ([]byte, error) {
	if d.Name == "busy.pdf" {
		return nil, extract.ErrBusy
	}
	return []byte("\x89PNG"), nil
}

// count returns the number of times that content was read.
func (r *reader) count(content string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.reads[content]
}

// eachReading runs a test on both databases with drives that read documents.
func eachReading(t *testing.T, limits drive.Limits, test func(t *testing.T, d *drive.Drives, r *reader)) {
	each(t, limits, func(t *testing.T, d *drive.Drives) {
		r := newReader()
		d.UseReader(r)
		d.SetReaders(extract.Version, 0)
		test(t, d, r)
		check(t, d)
	})
}

// late are limits under which a write never waits for a text.
var late = drive.Limits{ReadTime: time.Nanosecond}

func sweepTexts(t testing.TB, d *drive.Drives) {
	t.Helper()
	for range 5 { // a text that fails may be due again after the sweep looked for the next one
		if err := d.ReadDue(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// status returns the status of the text of a file, and checks that a search finds the words
// exactly if there is a text.
func status(t testing.TB, d *drive.Drives, p, words string) extract.Status {
	t.Helper()
	f, err := d.Get(t.Context(), who, path(t, p))
	if err != nil {
		t.Fatal(err)
	}
	hits, err := searchDrive(d, t.Context(), who, `"`+words+`"`, p, 100)
	if err != nil || (len(hits) > 0) != f.Text {
		t.Errorf("%s is %s, text %v; %d hits, %v", p, f.TextStatus, f.Text, len(hits), err)
	}
	if f.Text != (f.TextStatus == extract.Ready || f.TextStatus == extract.Partial) {
		t.Errorf("%s is %s, text %v", p, f.TextStatus, f.Text)
	}
	return f.TextStatus
}

func TestTextOfADocumentIsSearchableWithItsWrite(t *testing.T) {
	t.Parallel()
	eachReading(t, drive.Limits{}, func(t *testing.T, d *drive.Drives, r *reader) {
		const document = "%PDF-ready first words\fsecond words"
		const text = "[page 1]\nfirst words\n[page 2]\nsecond words\n"
		f := put(t, d, "a.pdf", document).File
		if !f.Text || f.TextStatus != extract.Ready || f.Pages != 2 || f.Lines != 4 || f.Version != 1 || f.Size != int64(len(document)) {
			t.Errorf("%+v", f)
		}
		hits, err := searchDrive(d, t.Context(), who, "second", "", 0)
		if err != nil || len(hits) != 1 || hits[0].Place != "p. 1–2" || hits[0].SHA256 != f.SHA256 || hits[0].Text != text {
			t.Errorf("%+v, %v", hits, err)
		}
		lines, err := d.Read(t.Context(), who, path(t, "a.pdf"), 4, 4)
		if err != nil || lines.Text != "second words\n" || lines.Place != "p. 2" {
			t.Errorf("%+v, %v", lines, err)
		}
		if first, last, err := d.PageLines(t.Context(), who, path(t, "a.pdf"), 2); err != nil || first != 3 || last != 4 {
			t.Errorf("page 2 has the lines %d to %d, %v", first, last, err)
		}
		_, _, err = d.PageLines(t.Context(), who, path(t, "a.pdf"), 3)
		wantCode(t, err, stoa.CodeInvalidValue)
		_, sum, size, content, err := d.Text(t.Context(), who, path(t, "a.pdf"))
		if err != nil || sum != hash(text) || size != int64(len(text)) || string(drain(t, content)) != text {
			t.Errorf("%s %d %v", sum, size, err)
		}
		if read(t, d, "a.pdf") != document {
			t.Error("the original is not the content")
		}
		k, err := d.Knowledge(t.Context(), who, 10_000, "")
		if err != nil || !k.Whole || !strings.Contains(k.Text, text) || len(k.Files) != 1 || k.Files[0].TextSHA256 != hash(text) {
			t.Errorf("%+v, %v", k, err)
		}
		if again, ok, err := d.KnownText(t.Context(), who, k.Files); err != nil || !ok || again != k.Text {
			t.Errorf("%q, %v, %v", again, ok, err)
		}
		if k.Stats.Bytes != int64(len(document)+len(text)) {
			t.Errorf("the drive has %d bytes", k.Stats.Bytes)
		}
		// Copies, moves and restores use what was read.
		put(t, d, "copy.pdf", document)
		if _, err := d.Apply(t.Context(), who, drive.Claim{}, []drive.Op{{Verb: drive.VerbMove, Path: path(t, "a.pdf"), To: path(t, "b.pdf")}}); err != nil {
			t.Fatal(err)
		}
		put(t, d, "b.pdf", "%PDF-ready third words")
		check(t, d)
		if _, err := d.Apply(t.Context(), who, drive.Claim{}, []drive.Op{{Verb: drive.VerbRestore, Path: path(t, "a.pdf"), Version: 1}}); err != nil {
			t.Fatal(err)
		}
		for p, words := range map[string]string{"a.pdf": "second words", "copy.pdf": "second words", "b.pdf": "third words"} {
			if got := status(t, d, p, words); got != extract.Ready {
				t.Errorf("%s is %s", p, got)
			}
		}
		if n := r.count(document); n != 1 || d.Waits() {
			t.Errorf("read %d times, waits %v", n, d.Waits())
		}
		if _, err := d.DeleteFolder(t.Context(), who, "a.pdf/"); err != nil {
			t.Fatal(err)
		}
		for _, p := range []string{"a.pdf", "b.pdf", "copy.pdf"} {
			if _, err := d.Delete(t.Context(), who, path(t, p), drive.Condition{}); err != nil {
				t.Fatal(err)
			}
		}
		if hits, err := searchDrive(d, t.Context(), who, "words", "", 0); err != nil || len(hits) != 0 {
			t.Errorf("after the deletion: %+v, %v", hits, err)
		}
		if s, _ := d.Stats(t.Context(), who); s.Bytes != 0 {
			t.Errorf("%+v", s)
		}
	})
}

func TestTextHasAStatusThatSaysWhyItIsMissing(t *testing.T) {
	t.Parallel()
	eachReading(t, drive.Limits{}, func(t *testing.T, d *drive.Drives, _ *reader) {
		for _, s := range []extract.Status{
			extract.Ready, extract.Partial, extract.None, extract.Empty, extract.Encrypted, extract.Broken, extract.Timeout, extract.Unsupported, extract.UnknownEncoding,
		} {
			p := string(s) + ".pdf"
			put(t, d, p, "%PDF-"+string(s)+" some words")
			if got := status(t, d, p, "some words"); got != s {
				t.Errorf("%s is %s", p, got)
			}
			_, _, _, _, err := d.Text(t.Context(), who, path(t, p))
			if f, _ := d.Get(t.Context(), who, path(t, p)); f.Text {
				continue
			}
			wantCode(t, err, stoa.CodeNoText)
			if !strings.Contains(err.Error(), string(s)) {
				t.Error(err)
			}
		}
		k, err := d.Knowledge(t.Context(), who, 10_000, "")
		if err != nil || !strings.Contains(k.Text, "no text (encrypted)") {
			t.Errorf("%q, %v", k.Text, err)
		}
		// An image needs no reader, a text with tags that cannot be read is its own text.
		put(t, d, "i.png", "\x89PNG\r\n\x1a\n some words")
		if got := status(t, d, "i.png", "some words"); got != extract.None {
			t.Error(got)
		}
		put(t, d, "page.html", "<p>some words")
		if got := status(t, d, "page.html", "some words"); got != extract.Ready {
			t.Error(got)
		}
	})
}

func TestTextThatIsLateIsReadSoon(t *testing.T) {
	t.Parallel()
	eachReading(t, late, func(t *testing.T, d *drive.Drives, r *reader) {
		for i := range 3 {
			put(t, d, fmt.Sprintf("%d.pdf", i), fmt.Sprintf("%%PDF-ready words of %d", i))
			if got := status(t, d, fmt.Sprintf("%d.pdf", i), "words of"); got != extract.Pending || !d.Waits() {
				t.Errorf("%s, waits %v", got, d.Waits())
			}
		}
		put(t, d, "plain.txt", "words of a text") // waits for nothing
		before, err := d.Stats(t.Context(), who)
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			done <- d.Run(ctx, time.Hour, nil, func(err error) { t.Error(err) })
		}()
		for i := range 3 {
			for ready := false; !ready; {
				f, err := d.Get(t.Context(), who, path(t, fmt.Sprintf("%d.pdf", i)))
				if err != nil {
					t.Fatal(err)
				}
				ready = f.TextStatus == extract.Ready
			}
			status(t, d, fmt.Sprintf("%d.pdf", i), "words of")
		}
		stop()
		<-done
		if s, err := d.Stats(t.Context(), who); err != nil || s.Revision <= before.Revision {
			t.Errorf("prompts would not see it: %+v, %v", s, err)
		}
	})
}

// TestTextFollowsTheContent changes a file while its text is read.
func TestTextFollowsTheContent(t *testing.T) {
	t.Parallel()
	changes := map[string]func(t *testing.T, d *drive.Drives){
		"overwrite": func(t *testing.T, d *drive.Drives) { put(t, d, "a.pdf", "a text") },
		"delete": func(t *testing.T, d *drive.Drives) {
			if _, err := d.Delete(t.Context(), who, path(t, "a.pdf"), drive.Condition{}); err != nil {
				t.Error(err)
			}
		},
		"move": func(t *testing.T, d *drive.Drives) {
			if _, err := d.Apply(t.Context(), who, drive.Claim{}, []drive.Op{{Verb: drive.VerbMove, Path: path(t, "a.pdf"), To: path(t, "b.pdf")}}); err != nil {
				t.Error(err)
			}
		},
		"copy":   func(t *testing.T, d *drive.Drives) { put(t, d, "b.pdf", "%PDF-wait the words") },
		"remove": func(t *testing.T, d *drive.Drives) { d.Remove(t.Context(), who) },
	}
	eachReading(t, late, func(t *testing.T, d *drive.Drives, r *reader) {
		close(r.gate)
		for name, change := range changes {
			put(t, d, "a.pdf", "%PDF-wait the words")
			r.during = func() {
				r.during = nil
				change(t, d)
			}
			sweepTexts(t, d)
			var found []string
			hits, err := searchDrive(d, t.Context(), who, `"the words"`, "", 0)
			for _, h := range hits {
				found = append(found, h.Path)
			}
			slices.Sort(found)
			want := map[string]string{"overwrite": "", "delete": "", "move": "b.pdf", "copy": "a.pdf b.pdf", "remove": ""}[name]
			if got := strings.Join(found, " "); err != nil || got != want {
				t.Errorf("%s: found in %q, want %q; %v", name, got, want, err)
			}
			check(t, d)
			if name == "overwrite" || name == "delete" { // the earlier version has its text again
				v, err := d.Versions(t.Context(), who, path(t, "a.pdf"))
				i := slices.IndexFunc(v, func(v drive.Version) bool { return v.SHA256 == hash("%PDF-wait the words") })
				if err != nil || i < 0 {
					t.Fatal(v, err)
				}
				if _, err := d.Apply(t.Context(), who, drive.Claim{}, []drive.Op{{Verb: drive.VerbRestore, Path: path(t, "a.pdf"), Version: v[i].Number}}); err != nil {
					t.Fatal(err)
				}
				sweepTexts(t, d)
				if got := status(t, d, "a.pdf", "the words"); got != extract.Ready {
					t.Errorf("restored after %s: %s", name, got)
				}
			}
			if err := d.Remove(t.Context(), who); err != nil {
				t.Fatal(err)
			}
			if n := count(t, d, "drive_drives"); n != 0 {
				t.Errorf("after %s: %d drives", name, n)
			}
		}
	})
}

// TestTextThatWasReadAgainMeanwhileStays reads a file again while the sweep reads it.
func TestTextThatWasReadAgainMeanwhileStays(t *testing.T) {
	t.Parallel()
	each(t, drive.Limits{}, func(t *testing.T, d *drive.Drives) {
		put(t, d, "a.pdf", "%PDF-wait the words") // without a reader
		r := newReader()
		close(r.gate)
		d.UseReader(r)
		r.during = func() {
			r.during, r.suffix = nil, " of the request"
			if _, waits, err := d.Reread(t.Context(), who, path(t, "a.pdf"), ""); err != nil || waits {
				t.Error(waits, err)
			}
			r.suffix = " of the sweep"
		}
		sweepTexts(t, d)
		if got := status(t, d, "a.pdf", "the words of the request"); got != extract.Ready {
			t.Error(got)
		}
		check(t, d)
	})
}

func TestTextOfAVersionWithoutAFileIsReadWhenItIsRestored(t *testing.T) {
	t.Parallel()
	eachReading(t, late, func(t *testing.T, d *drive.Drives, r *reader) {
		put(t, d, "a.pdf", "%PDF-ready old words")
		put(t, d, "a.pdf", "a text")
		sweepTexts(t, d)
		if n := r.count("%PDF-ready old words"); n != 0 {
			t.Errorf("read %d times", n)
		}
		if _, err := d.Apply(t.Context(), who, drive.Claim{}, []drive.Op{{Verb: drive.VerbRestore, Path: path(t, "a.pdf"), Version: 1}}); err != nil {
			t.Fatal(err)
		}
		sweepTexts(t, d)
		if got := status(t, d, "a.pdf", "old words"); got != extract.Ready {
			t.Error(got)
		}
	})
}

func TestTextIsReadAgainByANewReader(t *testing.T) {
	t.Parallel()
	each(t, drive.Limits{}, func(t *testing.T, d *drive.Drives) {
		put(t, d, "a.pdf", "%PDF-ready old words") // without a reader
		put(t, d, "a.html", "<p>old words")
		put(t, d, "a.bin", "\x00\xff")
		sweepTexts(t, d)
		if a, b := status(t, d, "a.pdf", "old words"), status(t, d, "a.html", "old words"); a != extract.Unsupported || b != extract.Ready {
			t.Errorf("without a reader: %s, %s", a, b)
		}
		r := newReader()
		d.UseReader(r)
		sweepTexts(t, d)
		if got := status(t, d, "a.pdf", "old words"); got != extract.Ready || r.count("<p>old words") != 1 {
			t.Errorf("with a reader: %s", got)
		}
		r.suffix = " and new ones"
		d.SetReaders(extract.Version+1, 0)
		sweepTexts(t, d)
		if got := status(t, d, "a.pdf", "old words and new ones"); got != extract.Ready || r.count("%PDF-ready old words") != 2 {
			t.Errorf("with a newer reader: %s", got)
		}
		check(t, d)
		sweepTexts(t, d)
		if n := r.count("%PDF-ready old words"); n != 2 {
			t.Errorf("read %d times", n)
		}
	})
}

func TestTextIsReadByOneNode(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, home storetest.Database) {
		r := newReader()
		close(r.gate)
		var nodes []*drive.Drives
		for range 2 {
			d := open(t, configOf(home), late)
			d.UseReader(r)
			nodes = append(nodes, d)
			if !d.DB().Postgres() {
				nodes = append(nodes, d) // SQLite has one node: two sweeps of it
				break
			}
		}
		for i := range 20 {
			put(t, nodes[0], fmt.Sprintf("%d.pdf", i), fmt.Sprintf("%%PDF-wait words of %d", i))
		}
		var sweeps sync.WaitGroup
		for _, d := range nodes {
			sweeps.Go(func() {
				if err := d.ReadDue(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		sweeps.Wait()
		for i := range 20 {
			if n := r.count(fmt.Sprintf("%%PDF-wait words of %d", i)); n != 1 {
				t.Errorf("%d was read %d times", i, n)
			}
			if got := status(t, nodes[1], fmt.Sprintf("%d.pdf", i), "words of"); got != extract.Ready {
				t.Errorf("%d is %s", i, got)
			}
		}
		check(t, nodes[0])
	})
}

// TestBusyReadersAreNotAFaultOfThePage shows a page while all readers work.
func TestBusyReadersAreNotAFaultOfThePage(t *testing.T) {
	t.Parallel()
	eachReading(t, drive.Limits{}, func(t *testing.T, d *drive.Drives, r *reader) {
		put(t, d, "busy.pdf", "%PDF-ready words")
		if _, _, err := d.Page(t.Context(), who, path(t, "busy.pdf"), 1); err == nil || !strings.Contains(err.Error(), "Try again") {
			t.Error(err)
		}
	})
}

func TestTextThatTheServiceCannotReadIsGivenUp(t *testing.T) {
	t.Parallel()
	eachReading(t, drive.Limits{}, func(t *testing.T, d *drive.Drives, r *reader) {
		put(t, d, "fail.pdf", "%PDF-fail words")
		put(t, d, "late.pdf", "%PDF-late words")
		put(t, d, "away.pdf", "%PDF-away words")
		put(t, d, "busy.pdf", "%PDF-busy words")
		sweepTexts(t, d)
		if a, b := status(t, d, "away.pdf", "words"), status(t, d, "busy.pdf", "words"); a != extract.Unsupported || b != extract.Ready {
			t.Errorf("%s, %s", a, b)
		}
		if a, b := status(t, d, "fail.pdf", "words"), status(t, d, "late.pdf", "words"); a != extract.Failed || b != extract.Timeout {
			t.Errorf("%s, %s", a, b)
		}
		if n := r.count("%PDF-fail words"); n != 4 {
			t.Errorf("read %d times: once by the write, three times later", n)
		}
		f, err := d.Get(t.Context(), who, path(t, "fail.pdf"))
		if err != nil || f.TextNote == "" {
			t.Errorf("%+v, %v", f, err)
		}
		d.SetReaders(extract.Version, time.Hour)
		if f, waits, err := d.Reread(t.Context(), who, path(t, "fail.pdf"), ""); err != nil || !waits || f.TextStatus != extract.Failed || !d.Waits() {
			t.Errorf("%+v, %v, %v", f, waits, err)
		}
	})
}

func TestTextInAnEncodingThatTheOwnerNames(t *testing.T) {
	t.Parallel()
	eachReading(t, drive.Limits{}, func(t *testing.T, d *drive.Drives, r *reader) {
		const content = "caf\xe9 au lait"
		put(t, d, "a.txt", content)
		put(t, d, "b.txt", content)
		if got := status(t, d, "a.txt", "café au lait"); got != extract.UnknownEncoding {
			t.Error(got)
		}
		res, err := d.Apply(t.Context(), who, drive.Claim{}, []drive.Op{
			{Verb: drive.VerbPut, Path: path(t, "a.txt"), Content: drive.BytesContent([]byte(content)), Encoding: "windows-1252"},
		})
		if err != nil || res.Changes[0].Outcome != drive.Unchanged || res.Changes[0].File.TextStatus != extract.Ready || res.Changes[0].File.TextEncoding != "windows-1252" {
			t.Errorf("%+v, %v", res, err)
		}
		for _, p := range []string{"a.txt", "b.txt"} { // it is that of the content
			if got := status(t, d, p, "café au lait"); got != extract.Ready {
				t.Errorf("%s: %s", p, got)
			}
		}
		put(t, d, "utf8.txt", "caf\u00e9")
		f, waits, err := d.Reread(t.Context(), who, path(t, "utf8.txt"), "latin1")
		if err != nil || waits || f.TextEncoding != "latin1" || r.seen.Encoding != "latin1" {
			t.Errorf("%+v, %v, %v", f, waits, err)
		}
		if got := status(t, d, "utf8.txt", "cafã"); got != extract.Ready {
			t.Error(got)
		}
		put(t, d, "utf8.txt", "other")
		check(t, d)
	})
}

func TestTextCountsInTheDrive(t *testing.T) {
	t.Parallel()
	eachReading(t, drive.Limits{MaxBytes: 100}, func(t *testing.T, d *drive.Drives, r *reader) {
		document := "%PDF-ready " + strings.Repeat("x", 50)
		_, err := d.PutText(t.Context(), who, drive.Claim{}, path(t, "a.pdf"), document, "")
		wantCode(t, err, stoa.CodeStorageFull)
		if s, err := d.Stats(t.Context(), who); err != nil || s.Files != 0 {
			t.Errorf("%+v, %v", s, err)
		}
	})
	eachReading(t, drive.Limits{MaxBytes: 100, ReadTime: time.Nanosecond}, func(t *testing.T, d *drive.Drives, r *reader) {
		put(t, d, "a.pdf", "%PDF-ready "+strings.Repeat("x", 50))
		sweepTexts(t, d)
		if got := status(t, d, "a.pdf", "x"); got != extract.Timeout {
			t.Error(got)
		}
		f, err := d.Get(t.Context(), who, path(t, "a.pdf"))
		if err != nil || !strings.Contains(f.TextNote, "no space") {
			t.Errorf("%+v, %v", f, err)
		}
	})
}

// TestTextMigration reads 1,000 files that were stored without a reader while they are changed.
func TestTextMigration(t *testing.T) {
	t.Parallel()
	each(t, drive.Limits{}, func(t *testing.T, d *drive.Drives) {
		const files = 1000
		for begin := 0; begin < files; begin += 100 {
			var ops []drive.Op
			for i := begin; i < begin+100; i++ {
				ops = append(ops, drive.Op{Verb: drive.VerbPut, Path: path(t, fmt.Sprintf("%d/%d.pdf", i%10, i)), Content: drive.BytesContent(fmt.Appendf(nil, "%%PDF-ready words of document%dx", i))})
			}
			if _, err := d.Apply(t.Context(), who, drive.Claim{}, ops); err != nil {
				t.Fatal(err)
			}
		}
		d.UseReader(newReader())
		done := make(chan struct{})
		var load sync.WaitGroup
		load.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-done:
					return
				default:
				}
				p := path(t, fmt.Sprintf("9/%d.pdf", i*10%files+9))
				var err error
				switch i % 3 {
				case 0:
					_, err = d.Delete(t.Context(), who, p, drive.Condition{})
				case 1:
					_, err = d.PutText(t.Context(), who, drive.Claim{}, p, fmt.Sprintf("%%PDF-ready other words of %d", i), "")
				case 2:
					_, err = d.Search(t.Context(), who, "words", "", 5)
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
		sweepTexts(t, d)
		close(done)
		load.Wait()
		for i := range files {
			if i%10 == 9 {
				continue
			}
			if got := status(t, d, fmt.Sprintf("%d/%d.pdf", i%10, i), fmt.Sprintf("document%dx", i)); got != extract.Ready {
				t.Fatalf("%d is %s", i, got)
			}
		}
		check(t, d)
	})
}

// TestTextOfAnEarlierProgram migrates tables of the version before texts were read.
func TestTextOfAnEarlierProgram(t *testing.T) {
	t.Parallel()
	each(t, drive.Limits{}, func(t *testing.T, d *drive.Drives) {
		contents := map[string]string{
			"a.pdf": "%PDF-ready words", "t.csv": "words,of,a table", "l.txt": "caf\xe9 words", "p.html": "<p>words", "p.txt": "plain words", "i.png": "\x89PNG\r\n\x1a\nwords",
		}
		for p, content := range contents {
			put(t, d, p, content)
		}
		// What the earlier program had: only the type of a text made it one.
		err := d.DB().Write(t.Context(), func(tx *db.Tx) error {
			for _, q := range []string{
				`DELETE FROM drive_texts`,
				`UPDATE drive_files SET text_blob_id = 0`,
				`UPDATE drive_files SET is_text = 0, lines = 0 WHERE path = 't.csv'`,
				`DELETE FROM drive_index WHERE rowid IN (SELECT id FROM drive_passages WHERE file_rid = (SELECT rid FROM drive_files WHERE path = 't.csv'))`,
				`DELETE FROM drive_passages WHERE file_rid = (SELECT rid FROM drive_files WHERE path = 't.csv')`,
			} {
				if tx.Postgres() && strings.Contains(q, "drive_index") {
					continue
				}
				if _, err := tx.Exec(t.Context(), q); err != nil {
					return err
				}
			}
			script, err := os.ReadFile("migrations/sqlite/00006_texts.sql")
			if err != nil {
				return err
			}
			for q := range strings.SplitSeq(string(script), ";\n") {
				if i := strings.Index(q, "INSERT INTO"); i >= 0 || strings.Contains(q, "UPDATE drive_files") {
					if _, err := tx.Exec(t.Context(), q); err != nil {
						return err
					}
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := status(t, d, "t.csv", "words"); got != extract.Pending {
			t.Error(got)
		}
		r := newReader()
		d.UseReader(r)
		sweepTexts(t, d)
		for p, want := range map[string]extract.Status{"a.pdf": "ready", "t.csv": "ready", "l.txt": "unknown_encoding", "p.html": "ready", "p.txt": "ready", "i.png": "none"} {
			if got := status(t, d, p, "words"); got != want {
				t.Errorf("%s is %s", p, got)
			}
		}
		if r.count(contents["p.html"]) != 1 || r.count(contents["p.txt"]) != 0 {
			t.Error("read: ", r.reads)
		}
		check(t, d)
	})
}

func TestTextOfALongLineCanBeReadOn(t *testing.T) {
	t.Parallel()
	each(t, drive.Limits{}, func(t *testing.T, d *drive.Drives) {
		long := strings.Repeat("números 12 ", 40_000) // 480 KB
		all := "one\ntwo\n" + long + "\nlast\n" + long + "\n"
		put(t, d, "a.txt", all)
		p := path(t, "a.txt")
		var got strings.Builder
		for skip := int64(0); skip < int64(len(long)); skip = int64(got.Len()) {
			lines, err := d.ReadFrom(t.Context(), who, p, 3, 3, skip)
			if err != nil || lines.FirstLine != 3 || lines.LastLine != 3 || lines.Text == "" {
				t.Fatalf("from %d: %+v, %v", skip, lines, err)
			}
			got.WriteString(lines.Text)
		}
		if got.String() != long+"\n" {
			t.Errorf("%d of %d bytes", got.Len(), len(long))
		}
		put(t, d, "b.txt", "one\n"+long[:192_000]+"needle "+long[192_000:])
		hits, err := searchDrive(d, t.Context(), who, "needle", "b", 1)
		if err != nil || len(hits) != 1 || hits[0].FirstLine != 2 {
			t.Fatalf("%+v, %v", hits, err)
		}
		if lines, err := d.ReadFrom(t.Context(), who, path(t, "b.txt"), 2, 2, hits[0].FromByte); err != nil || !strings.HasPrefix(lines.Text, hits[0].Text) {
			t.Errorf("from byte %d: %.40q, the hit is %.40q; %v", hits[0].FromByte, lines.Text, hits[0].Text, err)
		}
		if hits, err := searchDrive(d, t.Context(), who, "two", "a", 1); err != nil || len(hits) != 1 || hits[0].FromByte != 0 {
			t.Errorf("%+v, %v", hits, err)
		}
		in := int64(strings.Index(long, "ú")) + 1 // within a character
		if lines, err := d.ReadFrom(t.Context(), who, p, 3, 3, in); err != nil || !strings.HasPrefix(lines.Text, "meros") {
			t.Errorf("%.20q, %v", lines.Text, err)
		}
		for line, skip := range map[int64]int64{1: 4, 2: 100, 3: int64(len(long)) + 5000, 4: 1 << 40} {
			_, err := d.ReadFrom(t.Context(), who, p, line, line, skip)
			wantCode(t, err, stoa.CodeInvalidValue)
		}
		if lines, err := d.ReadFrom(t.Context(), who, p, 4, 4, 2); err != nil || lines.Text != "st\n" {
			t.Errorf("%+v, %v", lines, err)
		}
	})
}

func TestTextOfATableIsFoundWithItsHeader(t *testing.T) {
	t.Parallel()
	each(t, drive.Limits{}, func(t *testing.T, d *drive.Drives) {
		put(t, d, "t.csv", "name,amount\n"+strings.Repeat("somebody,12\n", 300)+"needle,99\n")
		hits, err := searchDrive(d, t.Context(), who, "needle", "", 0)
		if err != nil || len(hits) != 1 || hits[0].Header != "name,amount" || hits[0].Place != "" {
			t.Errorf("%+v, %v", hits, err)
		}
		put(t, d, "t.md", "# Prices\n\n| Name | 2025 |  |\n|  | Q1 | Q2 |\n"+strings.Repeat("| somebody | 12 | 13 |\n", 100)+"| willow | 99 | 98 |\n\nAfter the table comes the birch.\n")
		if hits, err := searchDrive(d, t.Context(), who, "willow", "", 0); err != nil || len(hits) != 1 || hits[0].Header != "| Name | 2025 |  |\n|  | Q1 | Q2 |" {
			t.Errorf("%+v, %v", hits, err)
		}
		put(t, d, "t.txt", "name,amount\n"+strings.Repeat("somebody,12\n", 300)+"thread,99\n")
		if hits, err := searchDrive(d, t.Context(), who, "thread", "", 0); err != nil || len(hits) != 1 || hits[0].Header != "" {
			t.Errorf("%+v, %v", hits, err)
		}
	})
}

func TestTextPlacesNameTheirLines(t *testing.T) {
	t.Parallel()
	pages := []extract.Place{{Line: 1, Name: "p. 1", Page: 1}, {Line: 5, Name: "p. 2", Page: 2}, {Line: 9, Name: "p. 3", Page: 3}}
	sheets := []extract.Place{
		{Line: 1, Name: "sheet Sales", Page: 1},
		{Line: 2, Name: "sheet Sales", Page: 1, Row: 3},
		{Line: 10, Name: "sheet Sales", Page: 1, Row: 500},
		{Line: 20, Name: "sheet Costs", Page: 2},
		{Line: 21, Name: "sheet Costs", Page: 2, Row: 1},
	}
	for _, c := range []struct {
		places      []extract.Place
		first, last int64
		want        string
	}{
		{nil, 1, 2, ""},
		{pages, 1, 4, "p. 1"},
		{pages, 4, 9, "p. 1–3"},
		{pages, 6, 100, "p. 2–3"},
		{pages[1:], 1, 3, ""},
		{pages[1:], 1, 5, "p. 2"},
		{[]extract.Place{{Line: 1, Name: "slide 4", Page: 4}}, 1, 2, "slide 4"},
		{sheets, 4, 9, "sheet Sales, rows 5–10"},
		{sheets, 1, 3, "sheet Sales, rows 3–4"},
		{sheets, 1, 1, "sheet Sales"},
		{sheets, 12, 12, "sheet Sales, row 502"},
		{sheets, 19, 21, "sheet Sales, row 509 – sheet Costs, row 1"},
	} {
		if got := drive.PlaceOf(c.places, c.first, c.last); got != c.want {
			t.Errorf("lines %d to %d are %q, want %q", c.first, c.last, got, c.want)
		}
	}
}
