package db

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"stoa/internal/base/stoa"
)

const (
	probePause   = 250 * time.Millisecond // between two probe writes
	probeTimeout = 5 * time.Second
	// A file that seems damaged is checked again after recheckPause; a check of all its pages
	// takes at most recheckTime.
	recheckPause = time.Minute
	recheckTime  = 10 * time.Minute
	// slowWrite is the default of Config.SlowWrite. It is far below writeTimeout and
	// far above any transaction in use.
	slowWrite = 5 * time.Second
)

// latch remembers that the database could not commit, so that work which must be
// recorded is refused before it is begun. A probe write clears it. Only a check of all pages
// clears damage, since a database with one unreadable page may still accept writes: SQLite
// reports an I/O error of a read as damage too.
type latch struct {
	set atomic.Bool // whether err is not nil

	mu      sync.Mutex
	err     error // for callers; nil means the database commits
	damaged bool
	probed  time.Time
	probing bool
}

// observe sets the latch when err shows that the database cannot commit. One broken connection does
// not, because the next transaction finds out whether there is another.
func (d *DB) observe(err error) {
	if err == nil || d.probe == nil || isBroken(err) && !errors.Is(err, errUnreached) {
		return
	}
	reason := commitFailure(err)
	if reason == nil {
		return
	}
	l := &d.latch
	l.mu.Lock()
	defer l.mu.Unlock()
	first := l.err == nil || isDamage(err) && !l.damaged
	l.damaged = l.damaged || isDamage(err)
	if l.damaged {
		reason = errDamaged(err)
	}
	l.err = reason
	l.set.Store(true)
	if first {
		d.log.LogAttrs(context.Background(), slog.LevelError, "the database cannot commit; new work is refused",
			slog.String("file", d.file), slog.Bool("damaged", l.damaged), slog.Any("error", err))
	}
}

// Latched reports whether new work is refused because the database does not commit. It
// makes no probe write.
func (d *DB) Latched() bool { return d.latch.set.Load() }

// Usable returns nil while the database commits. After a write failed because the disk is
// full, a page is damaged, the file cannot be written or PostgreSQL is unreachable, it
// returns that error until a probe write succeeds: CodeStorageFull or CodeOverloaded.
// Callers of Usable make the probes, at least 250 ms apart. In normal operation it costs
// one atomic load.
func (d *DB) Usable(ctx context.Context) error {
	l := &d.latch
	if !l.set.Load() {
		return nil
	}
	l.mu.Lock()
	pause := probePause
	if l.damaged {
		pause = recheckPause
	}
	if l.err == nil || l.probing || time.Since(l.probed) < pause || l.damaged && (d.pages == nil || d.closing.Err() != nil) {
		defer l.mu.Unlock()
		return l.err
	}
	l.probing = true
	if l.damaged {
		defer l.mu.Unlock()
		d.checks.Go(d.checkAgain)
		return l.err
	}
	l.mu.Unlock()

	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), probeTimeout)
	defer cancel()
	err := d.write(ctx, func(tx *Tx) error { return d.probe(ctx, tx) })

	l.mu.Lock()
	defer l.mu.Unlock()
	l.probing, l.probed = false, time.Now()
	if l.damaged {
		return l.err
	}
	if err != nil {
		if reason := commitFailure(err); reason != nil {
			l.err = reason
		}
		return l.err
	}
	l.err = nil
	l.set.Store(false)
	d.log.LogAttrs(ctx, slog.LevelInfo, "the database commits again", slog.String("file", d.file))
	return nil
}

// checkAgain clears the latch if the pages of a file that seemed damaged are in order.
func (d *DB) checkAgain() {
	ctx, stop := context.WithTimeout(d.closing, recheckTime)
	defer stop()
	err := d.pages(ctx)
	l := &d.latch
	l.mu.Lock()
	defer l.mu.Unlock()
	l.probing, l.probed = false, time.Now()
	if err != nil {
		return
	}
	l.err, l.damaged = nil, false
	l.set.Store(false)
	d.log.LogAttrs(ctx, slog.LevelWarn, "the pages of the database are in order: a read had failed; run stoa ledger verify", slog.String("file", d.file))
}

// Health is like [DB.Usable], and also returns an error if a write transaction has been
// running for longer than Config.SlowWrite, since the writers after it wait.
func (d *DB) Health(ctx context.Context) error {
	if err := d.Usable(ctx); err != nil {
		return err
	}
	if began := d.writing(); !began.IsZero() && time.Since(began) > d.slow {
		return stoa.Errorf(stoa.CodeOverloaded, "The database has not committed for %d s.", int(time.Since(began).Seconds())).After(time.Second)
	}
	return nil
}

// commitFailure returns the error for callers when err shows that the database
// cannot commit at all; nil for any other error.
func commitFailure(err error) error {
	switch {
	case isFull(err):
		return stoa.Errorf(stoa.CodeStorageFull, "The service has run out of storage. The operator has to free some.").After(probeRetry).Because(err)
	case isDamage(err):
		return errDamaged(err)
	case isReadOnly(err):
		return stoa.Errorf(stoa.CodeOverloaded, "The service's database is read-only at the moment, as a standby is. Try again later; if it stays so, the operator has to connect the service to the primary.").After(probeRetry).Because(err)
	case isUnwritable(err):
		return stoa.Errorf(stoa.CodeOverloaded, "The service cannot write to its database at the moment. Try again later.").After(probeRetry).Because(err)
	case isBroken(err):
		return errUnreachable(err)
	}
	return nil
}

const probeRetry = 5 * time.Second

func errDamaged(err error) error {
	return stoa.Errorf(stoa.CodeOverloaded, "The service's database seems to be damaged. If it does not recover within minutes, the operator has to restart the service and run \"stoa ledger verify\", and restore a backup if that fails.").Because(err)
}

func errUnreachable(err error) error {
	return stoa.Errorf(stoa.CodeOverloaded, "The service cannot reach its database at the moment. Try again.").After(time.Second).Because(err)
}

// errUnknown is the error of a transaction whose connection broke after its commit
// was sent.
func errUnknown(err error) error {
	return stoa.Errorf(stoa.CodeOverloaded, "The connection to the database broke while the change was committed, so it may have been made. Check, or try again with the same Idempotency-Key.").
		After(time.Second).Because(fmt.Errorf("%w: %w", errDoubt, err))
}
