package cli

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A paste that comes in many reads is one line; what is typed passes.
func TestPastedTextIsOneLine(t *testing.T) {
	t.Parallel()
	chunks := []string{"a\x1b[200~one\r", "\ntwo\x1b]0;x\a\x1b[20", "1~b\r", "\x1b[A"}
	p := &pasteReader{in: readerFunc(func(b []byte) (int, error) {
		if len(chunks) == 0 {
			return 0, io.EOF
		}
		n := copy(b, chunks[0])
		chunks = chunks[1:]
		return n, nil
	})}
	got, err := io.ReadAll(p)
	if want := "aone" + newlineSign + "two]0;xb\r\x1b[A"; err != nil || string(got) != want {
		t.Errorf("reads %q, %v, want %q", got, err, want)
	}
	if got := p.expand("aone" + newlineSign + "two"); got != "aone\ntwo" {
		t.Errorf("the line is %q", got)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }

func TestTheHistoryIsBounded(t *testing.T) {
	t.Parallel()
	e := &env{environ: []string{"XDG_CONFIG_HOME=" + t.TempDir()}}
	h := e.openHistory(true)
	for _, line := range []string{"", "  ", " secret", strings.Repeat("x", historyLine+1)} {
		h.Add(line)
	}
	if h.Len() != 0 {
		t.Errorf("it keeps %q", h.lines)
	}
	for i := range historyLines + 5 {
		h.Add(fmt.Sprint("line ", i))
		h.Add(fmt.Sprint("line ", i))
	}
	again := e.openHistory(true)
	if again.Len() != historyLines || again.At(0) != fmt.Sprint("line ", historyLines+4) || again.At(historyLines-1) != "line 5" {
		t.Errorf("%d lines from %q to %q", again.Len(), again.At(again.Len()-1), again.At(0))
	}
	if e.openHistory(false).Len() != 0 {
		t.Error("it is read although it is not wanted")
	}
	if err := os.WriteFile(h.path, []byte("\"good\"\nbad\n\"\\u001b[A\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if h = e.openHistory(true); h.Len() != 1 || h.At(0) != "good" {
		t.Errorf("a damaged file in %s is read as %q", filepath.Base(h.path), h.lines)
	}
}
