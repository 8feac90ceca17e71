package extract_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"image/color"
	"image/png"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"stoa/internal/base/extract"
	"stoa/internal/base/extract/extracttest"
)

// shell returns a command that runs a script as a child.
func shell(t *testing.T, script string) []string {
	if _, err := os.Stat("/bin/sh"); err != nil {
		t.Skip("no shell")
	}
	return []string{"/bin/sh", "-c", script}
}

func TestServiceFaults(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, script, want string
		timeout            time.Duration
	}{
		{"crash", "exit 2", "failed", 0},
		{"no memory", "cat >/dev/null; echo 'fatal error: runtime: out of memory' >&2; exit 2", "timeout", 0},
		{"no thread", "cat >/dev/null; echo 'runtime/cgo: pthread_create failed: Resource temporarily unavailable' >&2; exit 2", "timeout", 0},
		{"loop", "sleep 1000 & wait", "timeout", 50 * time.Millisecond},
		{"no reply", "cat >/dev/null; echo hello", "failed", 0},
		{"half a reply", `cat >/dev/null; echo '{"status":"ready","bytes":10}'; echo x`, "failed", 0},
		{"too long a reply", `echo '{"status":"ready","bytes":9999999999999}'; yes`, "failed", 0},
		{"endless line", "yes | tr -d '\\n'", "failed", 0},
		{"unread document", `echo '{"status":"ready","bytes":2}'; echo hi`, "ready", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := service(extract.Config{Command: shell(t, c.script), Timeout: c.timeout})
			r, err := s.Read(t.Context(), extract.Document{Name: "a.txt", Content: repeated("x", 10<<20)})
			if err != nil || string(r.Status) != c.want {
				t.Errorf("%v %s %s, not %s", err, r.Status, r.Note, c.want)
			}
		})
	}
}

// TestCrashIsLogged checks that the log names the document and the place of a crash, and that
// the owner does not read that the document is damaged.
func TestCrashIsLogged(t *testing.T) {
	t.Parallel()
	const stack = `goroutine 1 [running]:
runtime/debug.Stack()
	/go/src/runtime/debug/stack.go:26 +0x5e
stoa/internal/base/extract.parser.parse.func1()
	/src/internal/extract/read.go:29 +0x8e
panic({0x9d4f20?, 0xc1a5b0?})
	/go/src/runtime/panic.go:792 +0x132
strings.(*Builder).copyCheck(...)
	/go/src/strings/builder.go:31
stoa/internal/base/extract.(*walker).add(0xc000130000, {0xc00001, 0x4})
	/src/internal/extract/docx.go:188 +0x1a
`
	for _, c := range []struct{ name, script, frame, status string }{
		{"a crash", "cat >/dev/null; echo 'panic: oops' >&2; cat >&2 <<'E'\n" + stack + "E\nexit 2", "stoa/internal/base/extract.(*walker).add docx.go:188", "failed"},
		{"a crash before the document", "echo 'panic: oops' >&2; cat >&2 <<'E'\n" + stack + "E\nexit 2", "stoa/internal/base/extract.(*walker).add docx.go:188", "failed"},
		{"a stopped panic", "cat >/dev/null; echo 'the reader panicked: oops' >&2; cat >&2 <<'E'\n" + stack + `E
echo '{"status":"failed","bytes":0}'`, "stoa/internal/base/extract.(*walker).add docx.go:188", "failed"},
		{"no stack", "cat >/dev/null; exit 2", "", "failed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var log bytes.Buffer
			s := service(extract.Config{Command: shell(t, c.script), Logger: slog.New(slog.NewJSONHandler(&log, nil))})
			r, err := s.Read(t.Context(), extract.Document{Name: "a.txt", Content: repeated("x", 1<<20)})
			if err != nil || string(r.Status) != c.status || strings.Contains(r.Note, "damaged") {
				t.Errorf("%v %s %q", err, r.Status, r.Note)
			}
			var line struct{ Level, Msg, SHA256, Frame string }
			if err := json.Unmarshal(log.Bytes(), &line); err != nil || line.Level != "ERROR" || line.Frame != c.frame {
				t.Errorf("%v %+v", err, line)
			}
			if want := sha256.Sum256(bytes.Repeat([]byte("x"), 1<<20)); line.SHA256 != hex.EncodeToString(want[:]) {
				t.Errorf("the hash %q is not that of the document", line.SHA256)
			}
		})
	}
}

// TestStoppedChild checks that a child which another program stops is not a fault of the document.
func TestStoppedChild(t *testing.T) {
	t.Parallel()
	for _, signal := range []string{"KILL", "TERM"} {
		s := service(extract.Config{Command: shell(t, "cat >/dev/null; kill -"+signal+" $$")})
		if r, err := s.Read(t.Context(), extract.Document{Content: strings.NewReader("x")}); !errors.Is(err, extract.ErrStopped) {
			t.Errorf("%s: %v %+v, not %v", signal, err, r, extract.ErrStopped)
		}
	}
}

func TestServiceErrors(t *testing.T) {
	t.Parallel()
	missing := service(extract.Config{Command: []string{filepath.Join(t.TempDir(), "missing")}})
	if _, err := missing.Read(t.Context(), extract.Document{Content: strings.NewReader("x")}); err == nil {
		t.Error("a child that cannot start is the service's fault")
	}
	cause := errors.New("the disk failed")
	if _, err := service(extract.Config{}).Read(t.Context(), extract.Document{Content: io.MultiReader(strings.NewReader("x"), failing{cause})}); !errors.Is(err, cause) {
		t.Errorf("%v, not %v", err, cause)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	s := service(extract.Config{Command: shell(t, "sleep 1000"), Children: 1, Waiting: 1})
	read := func() chan error {
		ended := make(chan error, 1)
		go func() {
			_, err := s.Read(ctx, extract.Document{Account: "a", Content: strings.NewReader("x")})
			ended <- err
		}()
		return ended
	}
	// One document is read, one waits, and the third one is refused, whichever they are.
	ends := []chan error{read(), read(), read()}
	var refused error
	select {
	case refused = <-ends[0]:
	case refused = <-ends[1]:
	case refused = <-ends[2]:
	}
	if !errors.Is(refused, extract.ErrBusy) {
		t.Errorf("%v, not %v", refused, extract.ErrBusy)
	}
	cancel(cause)
	stopped := 0
	for range 2 {
		select {
		case err := <-ends[0]:
			refused = err
		case err := <-ends[1]:
			refused = err
		case err := <-ends[2]:
			refused = err
		}
		if errors.Is(refused, cause) {
			stopped++
		}
	}
	if stopped != 2 {
		t.Errorf("%d readers ended with the cause of their context", stopped)
	}
}

// A failing reader fails.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// TestChildSeesNothing checks that a child has no variables and a directory without files of
// the service.
func TestChildSeesNothing(t *testing.T) {
	t.Setenv("STOA_SECRET", "x") // so this test is not parallel
	s := service(extract.Config{Command: shell(t, `cat >/dev/null; x="$STOA_SECRET,$HOME"; printf '{"status":"ready","note":"%s","bytes":0}\n' "$x"`)})
	r, err := s.Read(t.Context(), extract.Document{Content: strings.NewReader("x")})
	if err != nil || r.Note != "," {
		t.Errorf("%v %q", err, r.Note)
	}
}

func TestPDFNeedsACache(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s := service(extract.Config{Cache: filepath.Join(file, "cache")})
	pdf := makePDF(pdfForm{}, [][]string{{"text"}})
	r, err := s.Read(t.Context(), extract.Document{Name: "a.pdf", Content: bytes.NewReader(pdf)})
	if !errors.Is(err, extract.ErrUnavailable) || r.Status != "" || strings.Contains(err.Error(), file) {
		t.Errorf("%v %+v", err, r)
	}
	if err := s.Warm(t.Context()); err == nil || !strings.Contains(err.Error(), file) {
		t.Error(err)
	}
	if _, err := s.Page(t.Context(), extract.Document{Content: bytes.NewReader(pdf)}, extract.Page{Number: 1}); !isPageError(err, extract.Unsupported) {
		t.Error(err)
	}
	if r, err := s.Read(t.Context(), extract.Document{Name: "a.html", Content: strings.NewReader("<p>text")}); err != nil || r.Status != extract.Ready {
		t.Errorf("%v %+v", err, r)
	}
}

// TestMemoryIsLimited reads a document whose tree needs more memory than a child may use.
func TestMemoryIsLimited(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" || testing.Short() {
		t.Skip("other systems, and the race detector, have no limit")
	}
	r, err := service(extract.Config{}).Read(t.Context(), extract.Document{Name: "a.html", Content: repeated("<table><tr><td>x</table>", 2<<20)})
	if err != nil || r.Status != extract.Timeout || !strings.Contains(r.Note, "memory") {
		t.Errorf("%v %s %s", err, r.Status, r.Note)
	}
}

// TestDamagedCacheIsReplaced starts with compiled code of which a part is missing.
func TestDamagedCacheIsReplaced(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("compiling takes long with the race detector")
	}
	if err := service(extract.Config{}).Warm(t.Context()); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "cache")
	if err := os.CopyFS(dir, os.DirFS(extracttest.Cache())); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	damaged := 0
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			damaged++
			return os.Truncate(path, 1000)
		}
		return err
	})
	if err != nil || damaged == 0 {
		t.Fatal(err, damaged)
	}
	s := service(extract.Config{Cache: dir})
	r, err := s.Read(t.Context(), extract.Document{Content: bytes.NewReader(extracttest.PDF("text"))})
	if err != nil || r.Status != extract.Ready {
		t.Errorf("%v %s %s: %v", err, r.Status, r.Note, s.Warm(t.Context()))
	}
}

// TestCacheIsPrivate checks that a directory which others may write to is not used: its files
// are executable code.
func TestCacheIsPrivate(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "cache")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := service(extract.Config{Cache: dir}).Warm(t.Context()); err == nil || !strings.Contains(err.Error(), "only this user") {
		t.Error(err)
	}
}

func isPageError(err error, status extract.Status) bool {
	e, ok := errors.AsType[*extract.PageError](err)
	return ok && e.Status == status
}

func TestPageImage(t *testing.T) {
	t.Parallel()
	s := service(extract.Config{})
	pdf := makePDF(pdfForm{flate: true}, [][]string{{"one"}, {"two"}})
	shown, err := s.Page(t.Context(), extract.Document{Content: bytes.NewReader(pdf)}, extract.Page{Number: 2})
	if err != nil {
		t.Fatal(err)
	}
	img, err := png.Decode(bytes.NewReader(shown))
	if err != nil || img.Bounds().Dx() != 1275 || img.Bounds().Dy() != 1754 {
		t.Fatalf("%v %v", err, img.Bounds())
	}
	dark := 0
	for y := range img.Bounds().Dy() {
		for x := range img.Bounds().Dx() {
			if r, _, _, _ := img.At(x, y).RGBA(); r < 0x4000 {
				dark++
			}
		}
	}
	if dark < 50 {
		t.Errorf("the page has %d dark pixels", dark)
	}
	for _, c := range []struct {
		content []byte
		page    int64
		want    extract.Status
	}{
		{pdf, 3, extract.None},
		{pdf, 0, extract.None},
		{[]byte("%PDF-1.4 broken"), 1, extract.Broken},
		{makePDF(pdfForm{password: "x"}, [][]string{{"one"}}), 1, extract.Encrypted},
		{[]byte("text"), 1, extract.Unsupported},
	} {
		if _, err := s.Page(t.Context(), extract.Document{Content: bytes.NewReader(c.content)}, extract.Page{Number: c.page}); !isPageError(err, c.want) {
			t.Errorf("%v, not %s", err, c.want)
		}
	}
	narrow := pdfOf("<< /Type /Catalog /Pages 2 0 R >>", "<< /Type /Pages /Count 1 /Kids [3 0 R] >>",
		"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 10 30000] /Contents 4 0 R >>", rawStream("", []byte("0 0 5 5 re f")))
	if shown, err := s.Page(t.Context(), extract.Document{Content: strings.NewReader(narrow)}, extract.Page{Number: 1}); err != nil {
		t.Error(err)
	} else if img, err := png.Decode(bytes.NewReader(shown)); err != nil || img.Bounds().Dy() > 8000 || img.At(0, 0) != (color.RGBA{255, 255, 255, 255}) {
		t.Errorf("%v %v %v", err, img.Bounds(), img.At(0, 0))
	}
	photo := pdfPage(rawStream("", []byte("q 600 0 0 800 0 0 cm /X Do Q")), rawStream("/Type /XObject /Subtype /Image /Width 1250 /Height 1667 /ColorSpace /DeviceRGB /BitsPerComponent 8", []byte(noise(3*1250*1667))))
	if shown, err := s.Page(t.Context(), extract.Document{Content: strings.NewReader(photo)}, extract.Page{Number: 1}); err != nil || len(shown) > 3_750_000 || len(shown) < 1_000_000 {
		t.Errorf("%v, %d bytes", err, len(shown))
	}
	huge := bytes.Replace(pdf, []byte("[0 0 612 842]"), []byte("[0 0 90000 90000]"), -1)
	shown, err = s.Page(t.Context(), extract.Document{Content: bytes.NewReader(huge)}, extract.Page{Number: 1})
	if err != nil {
		t.Fatal(err)
	}
	if c, err := png.DecodeConfig(bytes.NewReader(shown)); err != nil || c.Width*c.Height > 4_000_000 || c.Width < 1000 {
		t.Errorf("%v %+v", err, c)
	}
}

// TestDocumentsThatAreTooLarge: a smaller document helps, and not another format.
func TestDocumentsThatAreTooLarge(t *testing.T) {
	t.Parallel()
	s := service(extract.Config{})
	for size, want := range map[int64]extract.Status{64 << 20: extract.None, 64<<20 + 1: extract.Timeout} {
		r, err := s.Read(t.Context(), extract.Document{Name: "a.csv", Size: size, Content: io.LimitReader(zeros{}, size)})
		if err != nil || r.Status != want || (want == extract.Timeout) != (r.Note == "Documents of more than 64 MB are not read.") {
			t.Errorf("%d bytes: %s %q, %v", size, r.Status, r.Note, err)
		}
	}
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}
