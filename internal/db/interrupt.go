package db

import (
	"database/sql"
	"errors"
	"reflect"
	"sync"
	"time"

	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"
)

// interruptAgain is how often a transaction that ran out of time is interrupted
// until it ends: SQLite ignores an interrupt while no statement runs.
const interruptAgain = 10 * time.Millisecond

// An interrupter stops what a connection of SQLite runs. The driver offers that
// only with a context for each statement, which costs it one or two goroutines per
// statement; one timer per transaction takes 40 % less CPU per charge.
type interrupter struct {
	handle uintptr // of the connection, as SQLite's functions take it

	mu  sync.Mutex // guards tls
	tls *libc.TLS
}

// newInterrupter reads the connection's handle from the driver's connection by
// reflection, so that one timer per transaction can call sqlite3_interrupt. A
// context per statement costs one or two goroutines each: 77 to 85 µs of CPU
// per charge, against 66 with the timer and 46 to 49 without a limit (8
// callers, durability process). Checking the time between statements only
// would not stop one endless statement. A driver version that hides the handle
// fails when a database is opened.
func newInterrupter(c *sql.Conn) (*interrupter, error) {
	i := &interrupter{}
	err := c.Raw(func(driverConn any) error {
		v := reflect.Indirect(reflect.ValueOf(driverConn))
		if v.Kind() != reflect.Struct {
			return nil
		}
		if f := v.FieldByName("db"); f.IsValid() && f.Kind() == reflect.Uintptr {
			i.handle = uintptr(f.Uint())
		}
		return nil
	})
	if err == nil && i.handle == 0 {
		err = errors.New("db: this version of the SQLite driver hides its connection; a test of write time limits finds that")
	}
	if err == nil {
		i.tls = libc.NewTLS()
	}
	return i, err
}

func (i *interrupter) interrupt() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.tls != nil {
		sqlite3.Xsqlite3_interrupt(i.tls, i.handle)
	}
}

// close must be called before the connection is closed.
func (i *interrupter) close() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.tls != nil {
		i.tls.Close()
		i.tls = nil
	}
}

// watch ends tx when its time limit is over, until stop is called. After stop the
// connection is not interrupted any more.
func (i *interrupter) watch(tx *Tx) (stop func()) {
	var mu sync.Mutex // so that stop waits for an interrupt that is being made
	stopped := false
	var timer *time.Timer
	mu.Lock()
	defer mu.Unlock()
	timer = time.AfterFunc(tx.limit, func() {
		mu.Lock()
		defer mu.Unlock()
		if stopped {
			return
		}
		tx.expired.Store(true)
		i.interrupt()
		timer.Reset(interruptAgain)
	})
	return func() {
		mu.Lock()
		defer mu.Unlock()
		stopped = true
		timer.Stop()
	}
}
