//go:build unix

package extract_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"stoa/internal/base/extract"
)

// A stage shows the starts of children in their order, and ends them by the first letter of their
// document's name.
type stage struct {
	t       *testing.T
	dir     string
	service *extract.Service
	starts  *bufio.Reader
	reads   sync.WaitGroup
}

func newStage(t *testing.T, cfg extract.Config) *stage {
	s := &stage{t: t, dir: t.TempDir()}
	s.starts = bufio.NewReader(s.pipe("starts"))
	cfg.Command = shell(t, `IFS= read -r line; n=${line#*\"name\":\"}; n=${n%%\"*}; echo $n >`+s.dir+`/starts; read x <`+s.dir+`/${n%${n#?}}; cat >/dev/null; echo '{"status":"empty","bytes":0}'`)
	s.service = service(cfg)
	return s
}

// pipe makes a named pipe. Opened for both directions, it neither waits nor ends.
func (s *stage) pipe(name string) *os.File {
	s.t.Helper()
	path := filepath.Join(s.dir, name)
	if err := syscall.Mkfifo(path, 0o600); err != nil && !os.IsExist(err) {
		s.t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { f.Close() })
	return f
}

// read begins to read a number of documents of an account, whose name is a letter, and returns when
// all of them have been looked at.
func (s *stage) read(account string, n int, failed func(error)) (gate *os.File) {
	gate = s.pipe(account)
	var seen sync.WaitGroup
	for i := range n {
		seen.Add(1)
		s.reads.Go(func() {
			d := extract.Document{Account: account, Name: fmt.Sprint(account, i), Content: &noticed{strings.NewReader("x"), sync.OnceFunc(seen.Done)}}
			if _, err := s.service.Read(s.t.Context(), d); err != nil {
				failed(err)
			}
		})
	}
	seen.Wait()
	return gate
}

// next returns the account of the next started child.
func (s *stage) next() string {
	s.t.Helper()
	line, err := s.starts.ReadString('\n')
	if err != nil {
		s.t.Fatal(err)
	}
	return line[:1]
}

// A noticed reader calls a function when it is read.
type noticed struct {
	io.Reader
	notice func()
}

func (n *noticed) Read(p []byte) (int, error) {
	n.notice()
	return n.Reader.Read(p)
}

// TestAnAccountHasOneChild lets ten documents of an account wait, and then has others read theirs.
func TestAnAccountHasOneChild(t *testing.T) {
	t.Parallel()
	s := newStage(t, extract.Config{Children: 2})
	none := func(err error) { t.Error(err) }
	a := s.read("a", 10, none)
	if got := s.next(); got != "a" {
		t.Fatal(got)
	}
	b := s.read("b", 2, none)
	if got := s.next(); got != "b" {
		t.Errorf("%s started before b", got)
	}
	c := s.read("c", 1, none)
	fmt.Fprint(b, "\n\n")
	fmt.Fprintln(c) // which of the two is first depends on when they began to wait
	if one, two := s.next(), s.next(); one == two || one+two != "bc" && one+two != "cb" {
		t.Errorf("%s and %s started instead of b and c", one, two)
	}
	for range 9 {
		fmt.Fprintln(a)
		if got := s.next(); got != "a" {
			t.Errorf("%s started before a", got)
		}
	}
	fmt.Fprintln(a)
	s.reads.Wait()
}

// TestAFullQueueIsThatOfItsAccount has an account send more documents than may wait.
func TestAFullQueueIsThatOfItsAccount(t *testing.T) {
	t.Parallel()
	s := newStage(t, extract.Config{Children: 2, Waiting: 10})
	var refused sync.Map
	a := s.read("a", 30, func(err error) { refused.Store(err, true) })
	if got := s.next(); got != "a" {
		t.Fatal(got)
	}
	b := s.read("b", 1, func(err error) { t.Error(err) })
	if got := s.next(); got != "b" {
		t.Errorf("%s started before b", got)
	}
	fmt.Fprint(a, strings.Repeat("\n", 30))
	fmt.Fprintln(b)
	s.reads.Wait()
	if _, ok := refused.Load(extract.ErrBusy); !ok {
		t.Error("no document of the full queue was refused")
	}
}

// TestAChildEndsWithItsParent kills a process that reads a document.
func TestAChildEndsWithItsParent(t *testing.T) {
	t.Parallel()
	s := newStage(t, extract.Config{})
	life := filepath.Join(s.dir, "life")
	if err := syscall.Mkfifo(life, 0o600); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// The child alone keeps the pipe open, and writes to it if it outlives its parent.
	parent := exec.Command(self, "parent", `exec 3>`+life+`; echo >&3; sleep 10 3>&-; echo late >&3`)
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(life)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait()
	if rest, err := io.ReadAll(f); err != nil || len(rest) > 0 {
		t.Errorf("the child outlived its parent: %q, %v", rest, err)
	}
}

// TestQueriesOfTablesCountAsDocuments has an account send queries while its document is read: one of them waits for it, the
// others are refused, and another account is served meanwhile.
func TestQueriesOfTablesCountAsDocuments(t *testing.T) {
	t.Parallel()
	s := newStage(t, extract.Config{Children: 2, Waiting: 10})
	a, b := s.read("a", 1, func(err error) { t.Error(err) }), s.pipe("b")
	if got := s.next(); got != "a" {
		t.Fatal(got)
	}
	ends := make(chan error, 4)
	query := func(account string) {
		_, err := s.service.Tables(t.Context(), extract.TableQuery{Account: account, SQL: "SELECT 1 FROM t", Files: []extract.TableFile{
			{Base: account, Document: extract.Document{Content: strings.NewReader("")}},
		}})
		ends <- err
	}
	for range 3 {
		go query("a")
	}
	for range 2 {
		if err := <-ends; err != extract.ErrBusy {
			t.Errorf("a query ended with %v", err)
		}
	}
	go query("b")
	if got := s.next(); got != "b" {
		t.Errorf("%s started instead of b", got)
	}
	fmt.Fprintln(b)
	if err := <-ends; err != nil {
		t.Error(err)
	}
	fmt.Fprintln(a)
	if got := s.next(); got != "a" {
		t.Errorf("%s started after the document", got)
	}
	fmt.Fprintln(a)
	if err := <-ends; err != nil {
		t.Error(err)
	}
	s.reads.Wait()
}
