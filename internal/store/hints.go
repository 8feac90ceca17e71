package store

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"stoa/internal/db"
)

// A HintKind says what a hint is about.
type HintKind string

// The kinds of hints, and what the text of each is.
const (
	HintKeys     HintKind = "keys"     // a key, an account or a plan has changed; no text
	HintSession  HintKind = "session"  // a session has new events: its id and the number of the newest
	HintAsked    HintKind = "asked"    // credits of an account are wanted by another node: its id
	HintReturned HintKind = "returned" // credits of an account have been returned: its id
)

const (
	maxHints = 4096                  // that wait to be sent; further ones are dropped
	hintGap  = 10 * time.Millisecond // between two sends, in which hints collect
)

// hints are what the nodes of one database tell each other to be faster than their
// polling of rows. A hint may be lost, repeated or late, and means only that rows
// are worth reading; see docs/decisions/0041-leases-are-parts-of-a-balance.md.
type hints struct {
	alone atomic.Bool // no other node is known: nothing is sent

	mu       sync.Mutex
	waiting  map[hint]string // the text of the latest, by what is told
	wake     chan struct{}
	handlers map[HintKind]func(text string)
	began    []func()
}

// hint is what is told: the same is told once, with the latest text.
type hint struct {
	kind HintKind
	name string
}

func newHints() *hints {
	return &hints{waiting: map[hint]string{}, wake: make(chan struct{}, 1), handlers: map[HintKind]func(string){}}
}

// Hint tells the other nodes something soon. It never waits, and what is not sent
// yet is sent once for each name. Call it after the commit, as with
// [db.Tx.AfterCommit]. The text has at most 256 bytes and no line break. On SQLite
// it does nothing.
func (s *Store) Hint(kind HintKind, name, text string) {
	if !s.Hints() {
		return
	}
	h := s.hints
	h.mu.Lock()
	defer h.mu.Unlock()
	key := hint{kind, name}
	if _, there := h.waiting[key]; !there && len(h.waiting) >= maxHints {
		return
	}
	h.waiting[key] = text
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// Hints reports whether a hint could reach another node.
func (s *Store) Hints() bool { return s.Postgres() && !s.hints.alone.Load() }

// OnHint sets the function that is called with the name and the text, separated by
// a space, of each hint of that kind that another node gave. It must be quick.
// There is one for each kind; set them before [Store.Listen] runs.
func (s *Store) OnHint(kind HintKind, fn func(text string)) {
	s.hints.mu.Lock()
	defer s.hints.mu.Unlock()
	s.hints.handlers[kind] = fn
}

// OnListening adds a function that is called whenever the node begins to receive
// hints: earlier ones may have been lost. It must be quick.
func (s *Store) OnListening(fn func()) {
	s.hints.mu.Lock()
	defer s.hints.mu.Unlock()
	s.hints.began = append(s.hints.began, fn)
}

// Alone records whether this node is the only one, as far as is known: then hints
// are not sent.
func (s *Store) Alone(alone bool) { s.hints.alone.Store(alone) }

// Listen sends and receives hints until ctx ends: it keeps one connection to the
// address, or to that of the store where it is empty. On SQLite it returns at once.
func (s *Store) Listen(ctx context.Context, address string) error {
	if !s.Postgres() {
		return nil
	}
	if address == "" {
		address = s.address
	}
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		s.sendHints(ctx)
	}()
	err := db.Listen(ctx, address, s.db.Channel(), s.log, s.listening, s.heard)
	<-sent
	return err
}

// sendHints sends what waits, at most once in hintGap.
func (s *Store) sendHints(ctx context.Context) {
	for {
		select {
		case <-s.hints.wake:
		case <-ctx.Done():
			return
		}
		if err := s.db.Notify(ctx, s.hints.take(s.node)); err != nil && ctx.Err() == nil {
			s.log.LogAttrs(ctx, slog.LevelDebug, "hints for other nodes were not sent", slog.Any("error", err))
		}
		gap := time.NewTimer(hintGap)
		select {
		case <-gap.C:
		case <-ctx.Done():
			gap.Stop()
			return
		}
	}
}

// noticeBytes is the most bytes of one notice of hints.
const noticeBytes = 7800

// take returns what waits as notices: the node on the first line, then a hint on
// each: kind, name, text.
func (h *hints) take(node string) (notices []string) {
	h.mu.Lock()
	waiting := h.waiting
	h.waiting = map[hint]string{}
	h.mu.Unlock()
	var b strings.Builder
	for key, text := range waiting {
		if b.Len() > 0 && b.Len()+len(key.kind)+len(key.name)+len(text)+3 > noticeBytes {
			notices = append(notices, b.String())
			b.Reset()
		}
		if b.Len() == 0 {
			b.WriteString(node)
		}
		b.WriteString("\n" + string(key.kind) + " " + key.name)
		if text != "" {
			b.WriteString(" " + text)
		}
	}
	if b.Len() > 0 {
		notices = append(notices, b.String())
	}
	return notices
}

func (s *Store) listening() {
	s.hints.mu.Lock()
	began := slices.Clone(s.hints.began)
	s.hints.mu.Unlock()
	for _, fn := range began {
		fn()
	}
}

// heard passes on the hints of a notice, unless they are this node's own.
func (s *Store) heard(notice string) {
	node, rest, _ := strings.Cut(notice, "\n")
	if node == s.node {
		return
	}
	for line := range strings.SplitSeq(rest, "\n") {
		kind, text, _ := strings.Cut(line, " ")
		s.hints.mu.Lock()
		fn := s.hints.handlers[HintKind(kind)]
		s.hints.mu.Unlock()
		if fn != nil {
			fn(text)
		}
	}
}
