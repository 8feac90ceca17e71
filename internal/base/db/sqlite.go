package db

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pressly/goose/v3"
	"modernc.org/sqlite"
)

const (
	defaultReaders = 4
	maxGroup       = 256 // closures in one commit

	// yields is the number of scheduler yields before a commit, so that callers that the
	// last commit answered, and others that are ready, can join this group. It costs
	// nothing if no goroutine is ready, and sets no timer.
	yields = 3

	// lowWait is the maximum wait of a closure of low priority while others arrive without
	// a pause.
	lowWait = 100 * time.Millisecond
)

// oldestSQLite is the first version without the bug that could lose commits
// when a WAL file is reset.
var oldestSQLite = [3]int{3, 51, 3}

// sqliteDB is one file: a writer connection with its goroutine, and reader
// connections.
type sqliteDB struct {
	pool     *sql.DB       // of the writer's one connection
	rpool    *sql.DB       // of the readers
	readers  chan *conn    // the idle ones
	unopened chan struct{} // one element per reader that has not been needed yet, because each keeps a parsed schema in memory
	nread    int
	limit    time.Duration // of a write transaction
	began    atomic.Int64  // start of the writer's transaction, in ns since 1970; 0 if none runs
	log      *slog.Logger
	trace    func(Trace) // may be nil

	mu     sync.RWMutex // guards closed against sends to jobs
	closed bool
	jobs   chan *job // nil when read-only
	low    chan *job // of low priority
	unsync bool      // commits of low priority do not wait for the disk
	done   chan struct{}
	w      *conn
}

type job struct {
	ctx  context.Context
	fn   func(*Tx) error
	tx   *Tx
	err  error
	done chan error
	due  time.Time // of one of low priority: when it runs although others wait
}

// openSQLite opens one writing and several reading connections to a file in
// WAL mode and starts the writer.
func openSQLite(ctx context.Context, cfg Config) (*sqliteDB, error) {
	path, err := filepath.Abs(filepath.Join(cfg.Dir, cfg.File))
	if err != nil {
		return nil, err
	}
	if cfg.ReadOnly {
		if _, err := os.Stat(path); err != nil {
			return nil, fmt.Errorf("db: %w", err)
		}
	} else if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("db: create the data directory: %w", classify(err))
	} else if err := makePrivate(path); err != nil {
		return nil, fmt.Errorf("db: %w", classify(err))
	}
	s := &sqliteDB{log: cfg.Logger, trace: cfg.Trace, nread: cmp.Or(cfg.Readers, defaultReaders), limit: cfg.WriteTimeout, done: make(chan struct{})}
	opened := false
	defer func() {
		if !opened {
			s.closePools()
		}
	}()
	if s.pool, err = sqlitePool(path, cfg, cfg.ReadOnly); err != nil {
		return nil, err
	}
	s.pool.SetMaxOpenConns(1)
	if err := checkSQLiteVersion(ctx, s.pool); err != nil {
		return nil, err
	}
	if err := migrate(ctx, cfg, goose.DialectSQLite3, s.pool); err != nil {
		return nil, fmt.Errorf("db: %s: %w", cfg.File, err)
	}
	// Migrations leave all pages that they wrote in the writer's cache.
	if _, err := s.pool.ExecContext(ctx, "PRAGMA shrink_memory"); err != nil {
		return nil, fmt.Errorf("db: open: %w", classify(err))
	}
	if s.rpool, err = sqlitePool(path, cfg, true); err != nil {
		return nil, err
	}
	s.rpool.SetMaxOpenConns(s.nread)
	s.readers, s.unopened = make(chan *conn, s.nread), make(chan struct{}, s.nread)
	for range s.nread {
		s.unopened <- struct{}{}
	}
	first, err := s.reader(ctx) // so that a file that cannot be read is refused here
	if err != nil {
		return nil, err
	}
	s.readers <- first
	opened = true
	if cfg.ReadOnly {
		close(s.done)
		return s, nil
	}
	c, err := s.pool.Conn(ctx)
	if err != nil {
		opened = false
		return nil, fmt.Errorf("db: open the writer: %w", classify(err))
	}
	s.w = newConn(c)
	s.jobs, s.low = make(chan *job, maxGroup), make(chan *job)
	s.unsync = cfg.Durability == Full
	go s.commitLoop(nil)
	return s, nil
}

// makePrivate creates the file if it does not exist, readable only by its owner; SQLite
// creates its WAL with the same permissions.
func makePrivate(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

// sqlitePool returns a pool of connections with the settings that every connection needs. A
// slow disk delays the writers that wait for a commit. It stops the whole process if a page
// of the WAL's memory-mapped index has to wait for the disk. This happens on network and
// FUSE file systems, so the data directory belongs on a local disk.
func sqlitePool(path string, cfg Config, queryOnly bool) (*sql.DB, error) {
	sync := "FULL"
	if cfg.Durability == Process {
		sync = "NORMAL"
	}
	pragmas := []string{"busy_timeout(10000)"}
	cache := 8000 // KiB
	if !queryOnly {
		// secure_delete overwrites deleted rows, because the texts of erased customers must not stay in free pages.
		pragmas = append(pragmas, "journal_mode(WAL)", "wal_autocheckpoint(4000)", "journal_size_limit(67108864)", "secure_delete(1)")
	} else {
		// Small, because a commit of the writer empties the caches of all others, so that a large
		// one is filled again and again, and their memory is never given back.
		cache = 1000
		pragmas = append(pragmas, "query_only(1)")
	}
	// trusted_schema is off, so that functions in the schema of a restored backup do not run with
	// more rights than the tables need.
	pragmas = append(pragmas, "synchronous("+sync+")", "foreign_keys(1)", "trusted_schema(0)", "temp_store(MEMORY)", fmt.Sprintf("cache_size(-%d)", cache))
	values := url.Values{"_pragma": pragmas}
	if queryOnly {
		values.Set("mode", "rw") // a reader that opens later must not create a file that was removed: SQLite would delete its WAL
	}
	u := url.URL{Scheme: "file", Path: path, RawQuery: values.Encode()}
	connector, err := sqlite.NewConnector(u.String())
	if err != nil {
		return nil, fmt.Errorf("db: %w", err)
	}
	pool := sql.OpenDB(connector)
	pool.SetConnMaxLifetime(0)
	return pool, nil
}

func checkSQLiteVersion(ctx context.Context, pool *sql.DB) error {
	var version string
	if err := pool.QueryRowContext(ctx, "SELECT sqlite_version()").Scan(&version); err != nil {
		return fmt.Errorf("db: open: %w", classify(err))
	}
	if !newEnough(version) {
		return fmt.Errorf("db: SQLite %s can lose commits; at least %d.%d.%d is needed", version, oldestSQLite[0], oldestSQLite[1], oldestSQLite[2])
	}
	return nil
}

func newEnough(version string) bool {
	var v [3]int
	fmt.Sscanf(version, "%d.%d.%d", &v[0], &v[1], &v[2])
	for i := range v {
		if v[i] != oldestSQLite[i] {
			return v[i] > oldestSQLite[i]
		}
	}
	return true
}

// write hands a closure to the writer and waits for its commit. See
// [DB.Write].
func (s *sqliteDB) write(ctx context.Context, fn func(*Tx) error) error {
	return s.enqueue(s.jobs, &job{ctx: ctx, fn: fn, done: make(chan error, 1)})
}

func (s *sqliteDB) writeLow(ctx context.Context, fn func(*Tx) error) error {
	return s.enqueue(s.low, &job{ctx: ctx, fn: fn, done: make(chan error, 1), due: time.Now().Add(lowWait)})
}

// enqueue adds a job to one of the writer's queues and waits for its commit.
func (s *sqliteDB) enqueue(to chan *job, j *job) error {
	if s.jobs == nil {
		return ErrReadOnly
	}
	s.mu.RLock()
	if s.closed {
		s.mu.RUnlock()
		return ErrClosed
	}
	select {
	case to <- j:
		s.mu.RUnlock()
	case <-j.ctx.Done():
		s.mu.RUnlock()
		return j.ctx.Err()
	}
	// No select on ctx here, because the closure may be running, and it uses variables of the
	// caller. A closure that has not begun is answered when its turn comes.
	return <-j.done
}

// commitLoop is the only writer of the file. Jobs that were queued during one commit form
// the next one. A job of low priority runs between two of them. todo are the jobs that a
// previous loop has left.
func (s *sqliteDB) commitLoop(todo []*job) {
	finished := false
	var group []*job
	var low *job // waits until there is nothing else to do, or until it is due
	defer func() {
		if finished {
			close(s.done)
			return
		}
		// A closure ended this goroutine (runtime.Goexit). The other callers must not hang:
		// the group is rolled back, and another goroutine continues.
		s.w.ExecContext(context.Background(), "ROLLBACK")
		if low != nil {
			group = append(group, low)
		}
		answer(group, errors.New("db: a closure ended the writer's goroutine"))
		go s.commitLoop(nil)
	}()
	for {
		group = append(group[:0], todo...)
		todo = nil
		if low == nil {
			select {
			case low = <-s.low:
			default:
			}
		}
		if low != nil && (len(s.jobs) == 0 && len(group) == 0 || !time.Now().Before(low.due)) {
			s.commitLow(low)
			low, todo = nil, append(todo, group...)
			continue
		}
		if len(group) == 0 {
			select {
			case low = <-s.low:
				continue
			case j, ok := <-s.jobs:
				if !ok {
					finished = true
					return
				}
				group = append(group, j)
			}
		}
		for range yields {
			runtime.Gosched()
		}
	fill:
		for len(group) < maxGroup {
			select {
			case j, ok := <-s.jobs:
				if !ok {
					break fill // the outer receive returns again
				}
				group = append(group, j)
			default:
				break fill
			}
		}
		todo = s.commit(group)
	}
}

// commitLow commits a job of low priority. The next commit of another one brings it
// to the disk too, as they are written to one WAL.
func (s *sqliteDB) commitLow(j *job) {
	ctx := context.Background()
	if s.unsync {
		if _, err := s.w.ExecContext(ctx, "PRAGMA synchronous = NORMAL"); err != nil {
			j.done <- classify(err)
			return
		}
		defer s.w.ExecContext(ctx, "PRAGMA synchronous = FULL")
	}
	for left := []*job{j}; len(left) > 0; {
		left = s.commit(left)
	}
}

// commit runs a group of closures in one transaction and answers them. It returns those
// that have to run in another one, because they did not begin, or because one of the group
// timed out and all were rolled back.
func (s *sqliteDB) commit(group []*job) (rest []*job) {
	ctx := context.Background()
	ready := group[:0:0]
	for _, j := range group {
		if err := j.ctx.Err(); err != nil {
			j.done <- err
			continue
		}
		ready = append(ready, j)
	}
	if len(ready) == 0 {
		return nil
	}
	s.began.Store(time.Now().UnixNano())
	defer s.began.Store(0)
	if _, err := s.w.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		answer(ready, classify(err))
		return nil
	}
	at := now()
	var broken error
	ran := 0
	for _, j := range ready {
		broken = s.run(j, at, len(ready) == 1)
		ran++
		if broken != nil {
			break
		}
	}
	if broken == nil {
		if _, err := s.w.ExecContext(ctx, "COMMIT"); err != nil {
			broken = classify(err)
		}
	}
	if broken != nil {
		// The error does not matter, because without a transaction there is nothing to roll back.
		s.w.ExecContext(ctx, "ROLLBACK")
	}
	for i, j := range ready[:ran] {
		if j.err == nil && i < ran-1 && errors.Is(broken, ErrTimeout) {
			rest = append(rest, j)
			continue
		}
		if j.err == nil {
			j.err = broken
		}
		if s.trace != nil {
			s.trace(Trace{Write: true, Statements: j.tx.ran})
		}
		if j.err == nil {
			j.tx.committed()
		}
		j.done <- j.err
	}
	return append(rest, ready[ran:]...)
}

// run runs one closure of a group. It returns an error if the whole transaction has to be
// rolled back, and nil if it can continue, whatever the outcome of the closure.
func (s *sqliteDB) run(j *job, at time.Time, alone bool) (broken error) {
	ctx, cancel := context.WithTimeout(context.Background(), s.limit)
	defer cancel()
	j.tx = &Tx{Now: at, ctx: ctx, limit: s.limit, on: s.w}
	if !alone {
		j.err = j.tx.Savepoint(ctx, func() error { return j.fn(j.tx) })
		return j.tx.broken
	}
	j.err = recovered(func() error { return j.fn(j.tx) })
	if j.err != nil {
		return j.err // because it was all there was in the transaction
	}
	return j.tx.broken
}

func (s *sqliteDB) writing() time.Time {
	if at := s.began.Load(); at != 0 {
		return time.Unix(0, at)
	}
	return time.Time{}
}

func answer(jobs []*job, err error) {
	for _, j := range jobs {
		select {
		case j.done <- err:
		default: // answered before
		}
	}
}

// reader returns an idle reading connection, or opens another one if there are fewer than nread. It waits for
// one until ctx ends.
func (s *sqliteDB) reader(ctx context.Context) (*conn, error) {
	var c *conn
	open := false
	select {
	case c = <-s.readers:
	default:
		select {
		case c = <-s.readers:
		case _, open = <-s.unopened:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	switch {
	case c != nil:
		return c, nil
	case !open:
		return nil, ErrClosed
	}
	added, err := s.rpool.Conn(ctx)
	if err != nil {
		s.unopened <- struct{}{}
		return nil, fmt.Errorf("db: open a reader: %w", classify(err))
	}
	return newConn(added), nil
}

// read runs a closure in a read transaction on one of the reading connections,
// for which it waits until ctx ends.
func (s *sqliteDB) read(ctx context.Context, fn func(*Tx) error) error {
	c, err := s.reader(ctx)
	if err != nil {
		return err
	}
	defer func() { s.readers <- c }()
	outer := context.WithoutCancel(ctx)
	if _, err := c.ExecContext(outer, "BEGIN"); err != nil {
		return classify(err)
	}
	defer c.ExecContext(outer, "ROLLBACK")
	tx := &Tx{Now: now(), on: c}
	if s.trace != nil {
		defer func() { s.trace(Trace{Statements: tx.ran}) }()
	}
	return fn(tx)
}

// emptyWAL moves the commits of the WAL into the file and truncates the WAL. It is [ErrInUse]
// while a reader needs the WAL.
func (s *sqliteDB) emptyWAL(ctx context.Context) error {
	c, err := s.reader(ctx) // query_only allows checkpoints
	if err != nil {
		return err
	}
	defer func() { s.readers <- c }()
	var busy, frames, moved int
	if err := c.c.QueryRowContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &frames, &moved); err != nil {
		return classify(err)
	}
	if busy != 0 {
		return ErrInUse
	}
	return nil
}

// close waits for the writer to finish its running work and closes the connections.
func (s *sqliteDB) close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	if s.jobs != nil {
		close(s.jobs)
	}
	s.mu.Unlock()
	<-s.done
	for range s.nread { // waits for the reads under way
		select {
		case c := <-s.readers:
			c.close()
		case <-s.unopened:
		}
	}
	close(s.readers)
	close(s.unopened)
	if s.w != nil {
		s.w.close()
	}
	return s.closePools()
}

func (s *sqliteDB) closePools() error {
	var errs []error
	for _, p := range []*sql.DB{s.rpool, s.pool} { // the writer last, because it checkpoints the WAL
		if p != nil {
			errs = append(errs, p.Close())
		}
	}
	return errors.Join(errs...)
}
