package cluster

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"stoa/internal/base/db"
)

// A HintKind is the subject of a hint.
type HintKind string

// The kinds of hints, with the meaning of their text.
const (
	HintKeys     HintKind = "keys"     // a key, an account or a plan has changed; no text
	HintSession  HintKind = "session"  // a session has new events: its id and the number of the newest
	HintAsked    HintKind = "asked"    // another node needs credits of an account: its id
	HintConfig   HintKind = "config"   // a version of the managed settings was applied; no text
	HintReturned HintKind = "returned" // credits of an account have been returned: its id
)

const (
	maxHints = 4096                  // maximum of pending hints; further ones are dropped
	hintGap  = 10 * time.Millisecond // between two sends, to collect hints
)

// Hints are messages between the nodes of one database, which reduce the delay of polling
// rows. A hint may be lost, repeated or late, and means only that rows are worth reading;
// see docs/decisions/0041-lease-parts-of-a-balance-to-each-node.md.
type Hints struct {
	node    string
	address string // of PostgreSQL; empty on SQLite, where nothing is sent
	lineage *db.Lineage
	db      *db.DB
	log     *slog.Logger
	alone   atomic.Bool // no other node is known, so nothing is sent

	mu       sync.Mutex
	waiting  map[hint]string // the latest text by subject
	wake     chan struct{}
	handlers map[HintKind]func(text string)
	began    []func()
}

// hint is the subject of a message: several hints about it are sent once, with the latest
// text.
type hint struct {
	kind HintKind
	name string
}

// NewHints returns the hints of a node. address is that of PostgreSQL; if it is empty the
// store is SQLite and nothing is sent. lineage may be nil.
func NewHints(node, address string, lineage *db.Lineage, log *slog.Logger) *Hints {
	return &Hints{node: node, address: address, lineage: lineage, log: log, waiting: map[hint]string{}, wake: make(chan struct{}, 1), handlers: map[HintKind]func(string){}}
}

// Hint sends a hint to the other nodes soon. It never waits, and pending hints with the
// same kind and name are sent once. Call it after the commit, for example with
// [db.Tx.AfterCommit]. The text has at most 256 bytes and no line break. On SQLite it does
// nothing.
func (h *Hints) Hint(kind HintKind, name, text string) {
	if !h.HasPeers() {
		return
	}
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

// HasPeers reports whether a hint could reach another node.
func (h *Hints) HasPeers() bool { return h.address != "" && !h.alone.Load() }

// OnHint sets the function that receives the name and the text, separated by a space, of
// each hint of that kind from another node. It must be quick. Each kind has one function;
// set them before [Hints.Listen] runs.
func (h *Hints) OnHint(kind HintKind, fn func(text string)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.handlers[kind] = fn
}

// OnListening adds a function that is called whenever the node begins to receive hints,
// because earlier ones may have been lost. It must be quick.
func (h *Hints) OnListening(fn func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.began = append(h.began, fn)
}

// SetAlone records whether no other node is known; then hints are not sent.
func (h *Hints) SetAlone(alone bool) { h.alone.Store(alone) }

// Open sets the database. Nothing is sent before it.
func (h *Hints) Open(d *db.DB) { h.db = d }

// Listen sends and receives hints until ctx ends: it keeps one connection to the address,
// or to that of the store if it is empty. On SQLite it returns immediately.
func (h *Hints) Listen(ctx context.Context, address string) error {
	if h.address == "" {
		return nil
	}
	address = cmp.Or(address, h.address)
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		h.sendHints(ctx)
	}()
	err := db.Listen(ctx, address, h.db.Channel(), h.lineage, h.log, h.listening, h.receive)
	<-sent
	return err
}

func (h *Hints) sendHints(ctx context.Context) {
	for {
		select {
		case <-h.wake:
		case <-ctx.Done():
			return
		}
		if err := h.db.Notify(ctx, h.drain(h.node)); err != nil && ctx.Err() == nil {
			h.log.LogAttrs(ctx, slog.LevelDebug, "hints for other nodes were not sent", slog.Any("error", err))
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

const noticeBytes = 7800 // of one notice, because PostgreSQL accepts less than 8,000

// drain removes the pending hints and returns them as notices: the node on the first line,
// then one hint per line: kind, name, text.
func (h *Hints) drain(node string) (notices []string) {
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

func (h *Hints) listening() {
	h.mu.Lock()
	began := slices.Clone(h.began)
	h.mu.Unlock()
	for _, fn := range began {
		fn()
	}
}

func (h *Hints) receive(notice string) {
	node, rest, _ := strings.Cut(notice, "\n")
	if node == h.node {
		return
	}
	for line := range strings.SplitSeq(rest, "\n") {
		kind, text, _ := strings.Cut(line, " ")
		h.mu.Lock()
		fn := h.handlers[HintKind(kind)]
		h.mu.Unlock()
		if fn != nil {
			fn(text)
		}
	}
}
