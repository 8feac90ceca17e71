package extract

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"stoa/internal/base/media"
	"stoa/internal/base/ratelimit"
)

// ErrUnavailable means that the PDF reader could not be prepared. [NoPDF] says so to the owners
// of documents.
var ErrUnavailable = errors.New("the PDF reader is not available")

// ErrBusy means that too many documents wait already. Read the document later.
var ErrBusy = errors.New("too many documents wait to be read")

// ErrStopped means that another program or the system stopped the reader of a document. Read the
// document again.
var ErrStopped = errors.New("the reader of the document was stopped")

// Limits of a [Service] that its Config leaves out.
const (
	defaultTimeout  = 20 * time.Second
	defaultChildren = 2
	defaultWaiting  = 256
)

const (
	warmTimeout = 5 * time.Minute
	warmPause   = time.Minute // pause after a failed start of the PDF reader
	maxHeader   = 2 << 20     // bytes of the first line of a reply
	maxStderr   = 8 << 10     // bytes of the messages of a child
)

// Config are the settings of a [Service]. All of them are optional.
type Config struct {
	// Command starts a child; [Child] must run in it. Nil means the running program with
	// the argument "extract".
	Command []string
	// Cache is the directory of the compiled PDF reader. It contains executable code, so it
	// must be writable by this user only. Reading PDF files fails with [ErrUnavailable] if it is "".
	Cache    string
	Timeout  time.Duration // maximum for one document
	Children int           // maximum running at the same time; one account gets at most half of them
	Waiting  int           // maximum of documents that wait for a child; one account gets at most a tenth of them
	Logger   *slog.Logger  // nil disables logging
}

// A Service reads documents in child processes. It is safe for concurrent use.
type Service struct {
	cfg   Config
	turns ratelimit.Turns

	mu     sync.Mutex
	all    int            // documents that wait for a child
	by     map[string]int // the same by account
	warm   chan struct{}  // closed when the running attempt ends; nil before the first one
	failed error          // error of the last attempt
	retry  time.Time      // time at which a failed attempt may be repeated
}

// New returns a service. It starts nothing; [Service.Warm] prepares the PDF reader.
func New(cfg Config) *Service {
	if cfg.Timeout == 0 {
		cfg.Timeout = defaultTimeout
	}
	if cfg.Children == 0 {
		cfg.Children = defaultChildren
	}
	if cfg.Waiting == 0 {
		cfg.Waiting = defaultWaiting
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Service{cfg: cfg, by: map[string]int{}}
}

// A request is the first line that a child reads. The document follows it.
type request struct {
	Task      string `json:"task"` // read, page, tables or warm
	Name      string `json:"name,omitempty"`
	MediaType string `json:"mediaType,omitempty"`
	Encoding  string `json:"encoding,omitempty"`
	Page      Page   `json:"page,omitzero"`
	Cache     string `json:"cache,omitempty"`
	Seconds   int64  `json:"seconds"` // of processor time

	Tables *tableTask `json:"tables,omitempty"`
}

// work names the task in notes.
func (q request) work() string {
	if q.Task == "tables" {
		return "The query with its tables"
	}
	return "Reading the document"
}

// A reply is the first line that a child writes. Bytes of text or of an image follow it.
type reply struct {
	Status   Status  `json:"status"`
	Pages    int64   `json:"pages,omitempty"`
	Places   []Place `json:"places,omitempty"`
	Encoding string  `json:"encoding,omitempty"`
	Note     string  `json:"note,omitempty"`
	Bytes    int     `json:"bytes"`
}

// Read implements [Reader].
func (s *Service) Read(ctx context.Context, d Document) (Result, error) {
	content := bufio.NewReaderSize(d.Content, headPDF)
	if head, _ := content.Peek(headPDF); isPDF(head) {
		if err := s.ready(ctx); err != nil {
			return Result{}, err
		}
	}
	r, err := s.run(ctx, d.Account, request{Task: "read", Name: d.Name, MediaType: d.MediaType, Encoding: d.Encoding}, content, MaxText)
	if r.Note == NoPDF {
		return Result{}, ErrUnavailable
	}
	return r, err
}

// Page implements [Reader].
func (s *Service) Page(ctx context.Context, d Document, page Page) ([]byte, error) {
	err := s.ready(ctx)
	if err == ErrUnavailable {
		return nil, &PageError{Status: Unsupported, Note: NoPDF}
	}
	if err != nil {
		return nil, err
	}
	r, err := s.run(ctx, d.Account, request{Task: "page", Name: d.Name, MediaType: d.MediaType, Page: page}, d.Content, media.MaxImage)
	if err == nil && r.Status != Ready {
		err = &PageError{Status: r.Status, Note: r.Note}
	}
	return r.Text, err
}

// A PageError means that a page cannot be shown as an image.
type PageError struct {
	Status Status // of the document
	Note   string
}

func (e *PageError) Error() string {
	return fmt.Sprintf("the page cannot be shown (%s): %s", e.Status, e.Note)
}

// Warm compiles the PDF reader into the cache, so that no document waits for that. The error
// says why PDF files cannot be read.
func (s *Service) Warm(ctx context.Context) error {
	if err := s.ready(ctx); err != ErrUnavailable {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed
}

// NoPDF is for the owners of documents, who must not learn about the files of the service.
const NoPDF = "This service cannot read PDF files at the moment. Its operator can find the reason with stoa doctor."

// ready waits until the PDF reader is compiled. Its error is that of ctx, or [ErrUnavailable] without the
// reason, because that names files of the service.
func (s *Service) ready(ctx context.Context) error {
	s.mu.Lock()
	if s.warm == nil || s.failed != nil && time.Now().After(s.retry) {
		s.warm, s.failed = make(chan struct{}), nil
		go s.compile(s.warm)
	}
	warm := s.warm
	s.mu.Unlock()
	select {
	case <-warm:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed != nil {
		return ErrUnavailable
	}
	return nil
}

// compile runs a child that compiles the PDF reader. It is separate from the caller, since
// others wait for it too.
func (s *Service) compile(done chan struct{}) {
	err := CheckCache(s.cfg.Cache)
	if err == nil {
		ctx, cancel := context.WithTimeout(context.Background(), warmTimeout)
		defer cancel()
		var r Result
		if r, err = s.child(ctx, request{Task: "warm", Cache: s.cfg.Cache}, strings.NewReader(""), 0); err == nil && r.Status != Ready {
			err = errors.New(r.Note)
		}
	}
	if err != nil {
		s.cfg.Logger.Warn("PDF files cannot be read", "error", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed, s.retry = err, time.Now().Add(warmPause)
	close(done)
}

// CheckCache creates the directory of the compiled PDF reader. It fails unless the directory is private, because it
// contains executable code, and writable.
func CheckCache(dir string) error {
	if dir == "" {
		return errors.New("no directory for the compiled reader is configured")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make the directory for the compiled reader: %w", err)
	}
	if err := private(dir); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, "probe-")
	if err != nil {
		return fmt.Errorf("write to the directory of the compiled reader: %w", err)
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

func (s *Service) run(ctx context.Context, account string, q request, content io.Reader, limit int) (Result, error) {
	if !s.enqueue(account) {
		return Result{}, ErrBusy
	}
	release, err := s.turns.Acquire(ctx, account, s.cfg.Children, max(1, s.cfg.Children/2))
	s.dequeue(account)
	if err != nil {
		return Result{}, context.Cause(ctx)
	}
	defer release()
	limited, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	q.Cache, q.Seconds = s.cfg.Cache, childThreads*int64(s.cfg.Timeout/time.Second)+1
	r, err := s.child(limited, q, content, limit)
	spent := r.Spent
	switch {
	case ctx.Err() != nil:
		return Result{Spent: spent}, context.Cause(ctx)
	case err == nil:
		return r, nil
	case limited.Err() != nil || errors.Is(err, errTime):
		return Result{Status: Timeout, Spent: spent, Note: fmt.Sprintf("%s took longer than %v.", q.work(), s.cfg.Timeout)}, nil
	}
	var ended *childError
	if !errors.As(err, &ended) {
		return Result{Spent: spent}, err
	}
	if ended.memory() {
		s.cfg.Logger.Warn("a document needs too much memory", "sha256", ended.sha256, "error", ended)
		return Result{Status: Timeout, Spent: spent, Note: q.work() + " takes too much memory."}, nil
	}
	if stopped(ended.state) {
		s.cfg.Logger.Warn("the reader of a document was stopped", "sha256", ended.sha256, "error", ended)
		return Result{Spent: spent}, ErrStopped
	}
	s.crashed(ended)
	r = failed()
	r.Spent = spent
	return r, nil
}

// enqueue reserves a place in the queue for a document of an account. The account's share is limited, so that it cannot
// fill the queue of the others.
func (s *Service) enqueue(account string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all >= s.cfg.Waiting || s.by[account] >= max(1, s.cfg.Waiting/10) {
		return false
	}
	s.all++
	s.by[account]++
	return true
}

func (s *Service) dequeue(account string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all--
	if s.by[account]--; s.by[account] == 0 {
		delete(s.by, account)
	}
}

// crashed logs the crash of a reader as an error, because it is a bug in Stoa or in one of its libraries.
func (s *Service) crashed(e *childError) {
	s.cfg.Logger.Error("the reader of a document crashed", "sha256", e.sha256, "frame", frame(e.stderr), "error", e)
}

// frame returns the function and the line of this program at which a stack crashed; "" without one.
func frame(stack string) string {
	if _, after, ok := strings.Cut(stack, "\npanic("); ok { // before it are the frames that report the panic
		stack = after
	}
	lines := strings.Split(stack, "\n")
	for i, line := range lines[:len(lines)-1] {
		if place := strings.Fields(lines[i+1]); strings.HasPrefix(line, "stoa/") && len(place) > 0 {
			name := line
			if end := strings.LastIndexByte(line, '('); end > 0 {
				name = line[:end]
			}
			return fmt.Sprintf("%.150s %.50s", name, path.Base(place[0]))
		}
	}
	return ""
}

var errTime = errors.New("the reader used up its processor time")

type childError struct {
	err    error
	stderr string
	sha256 string           // hash of the document
	state  *os.ProcessState // nil if the child wrote a reply
}

func (e *childError) Error() string {
	line, _, _ := strings.Cut(e.stderr, "\n")
	return fmt.Sprintf("%v: %.200s", e.err, line)
}

// memory reports whether a child reached its limit of memory. A segmentation violation and a failure to start a thread
// count, because Go's runtime also ends with them if it gets no memory.
func (e *childError) memory() bool {
	for _, limit := range []string{"out of memory", "cannot allocate memory", "stack exceeds", "SIGSEGV: segmentation violation", "pthread_create failed", "failed to create new OS thread"} {
		if strings.Contains(e.stderr, limit) {
			return true
		}
	}
	return false
}

// child runs one child. Its errors are a childError, or a failure to start it or to read
// content. The processor time of the child is in the result in any case.
func (s *Service) child(ctx context.Context, q request, content io.Reader, limit int) (Result, error) {
	command := s.cfg.Command
	if command == nil {
		self, err := os.Executable()
		if err != nil {
			return Result{}, fmt.Errorf("find the program that reads documents: %w", err)
		}
		command = []string{self, "extract"}
	}
	line, err := json.Marshal(q)
	if err != nil {
		return Result{}, err
	}
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Env, cmd.Dir = []string{}, string(filepath.Separator)
	isolate(cmd)
	stderr := &beginning{}
	cmd.Stderr = stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return Result{}, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return Result{}, err
	}
	// The thread is locked because a child ends with the thread that started it on Linux; see [isolate].
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := cmd.Start(); err != nil {
		return Result{}, fmt.Errorf("start the program that reads documents: %w", err)
	}
	source := &sourceReader{r: io.LimitReader(content, maxDocument+1), hash: sha256.New()}
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		defer in.Close()
		if _, err := in.Write(append(line, '\n')); err == nil {
			_, _ = io.Copy(in, source) // a child need not read everything
		}
	}()
	r, readErr := readReply(out, limit)
	if readErr != nil {
		_ = cmd.Cancel()
	}
	out.Close()
	in.Close()
	waitErr := cmd.Wait()
	<-sent
	spent := Result{Spent: cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()}
	ended := &childError{err: waitErr, stderr: stderr.String(), state: cmd.ProcessState}
	panicked := strings.Contains(ended.stderr, errReader.Error())
	if ctx.Err() == nil && (readErr != nil || panicked) { // the child may have ended before it read everything
		_, _ = io.Copy(io.Discard, source)
		ended.sha256 = hex.EncodeToString(source.hash.Sum(nil))
	}
	switch {
	case source.err != nil:
		return spent, fmt.Errorf("read the document: %w", source.err)
	case readErr == nil:
		r.Spent = spent.Spent
		if panicked {
			ended.err = errReader
			s.crashed(ended)
		}
		return r, nil
	case q.Seconds > 0 && spent.Spent.Seconds() >= float64(q.Seconds):
		return spent, errTime
	case waitErr == nil || ctx.Err() == nil && errors.Is(readErr, errReply):
		ended.err, ended.state = readErr, nil
	}
	return spent, ended
}

var errReply = errors.New("the reply of the reader is not complete")

// readReply reads the reply of a child, with at most limit bytes after its first line.
func readReply(out io.Reader, limit int) (Result, error) {
	in := bufio.NewReader(io.LimitReader(out, maxHeader+int64(limit)))
	line, err := in.ReadBytes('\n')
	if err == io.EOF && len(line) == 0 {
		return Result{}, io.ErrUnexpectedEOF
	}
	var r reply
	if err != nil || json.Unmarshal(line, &r) != nil || r.Bytes < 0 || r.Bytes > limit || r.Status == "" {
		return Result{}, errReply
	}
	got := Result{Status: r.Status, Pages: r.Pages, Places: r.Places, Encoding: r.Encoding, Note: r.Note}
	if r.Bytes > 0 {
		got.Text = make([]byte, r.Bytes)
		if _, err := io.ReadFull(in, got.Text); err != nil {
			return Result{}, errReply
		}
	}
	return got, nil
}

// A sourceReader keeps the error of the document's source, so that it is not taken for one of the child, and hashes what
// it reads.
type sourceReader struct {
	r    io.Reader
	hash hash.Hash
	err  error
}

func (s *sourceReader) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	s.hash.Write(p[:n])
	if err != nil && err != io.EOF {
		s.err = err
	}
	return n, err
}

// A beginning keeps the first bytes that are written to it and discards the rest.
type beginning struct{ bytes.Buffer }

func (b *beginning) Write(p []byte) (int, error) {
	b.Buffer.Write(p[:min(len(p), maxStderr-b.Len())])
	return len(p), nil
}
