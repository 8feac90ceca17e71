package drive

import (
	"errors"
)

type otherDrives struct{ bytes, oldBytes int64 }

// account returns the sums of the account's other drives, read once per write.
func (w *writer) account() (otherDrives, error) {
	if w.others != nil {
		return *w.others, nil
	}
	var o otherDrives
	_, err := w.tx.Get(w.ctx, `SELECT CAST(COALESCE(SUM(bytes), 0) AS BIGINT), CAST(COALESCE(SUM(old_bytes), 0) AS BIGINT)
		FROM drive_drives WHERE account_id = $1 AND agent_id <> $2`, []any{w.who.AccountID, w.who.AgentID}, &o.bytes, &o.oldBytes)
	if err == nil {
		w.others = &o
	}
	return o, err
}

// While less than 3/4 of an account's limit are used, a write that grows a drive by at most
// 1/smallWrite of the limit does not wait for other such writes, because 256 of them at the same
// time, far more than there are connections, cannot exceed the limit together.
const smallWrite = 1024

// reserve is [writer.account] for a write that grows the drive. It makes concurrent writes to
// drives of the account wait if they could exceed the account's limit together, because they do not
// see each other before their commits. On SQLite it does nothing, since there is one writer.
func (w *writer) reserve() (otherDrives, error) {
	if !w.tx.Postgres() || w.reserved {
		return w.account()
	}
	limit := w.d.limits.MaxAccountBytes
	far := func() (bool, error) {
		o, err := w.account()
		return o.bytes+w.drive.bytes < limit/4*3, err
	}
	lock := func(fn string) error {
		w.others = nil
		_, err := w.tx.Exec(w.ctx, `SELECT `+fn+`(hashtextextended($1, 0))`, "drives "+w.who.AccountID)
		return err
	}
	if w.grows <= limit/smallWrite {
		ok, err := far()
		if ok && err == nil {
			// The savepoint releases the shared lock, because two writes that hold it and request
			// the exclusive one would wait for each other.
			err = w.tx.Savepoint(w.ctx, func() error {
				if err := lock("pg_advisory_xact_lock_shared"); err != nil {
					return err
				}
				ok, err := far()
				if err == nil && !ok {
					return errNear
				}
				return err
			})
		}
		if err != nil && !errors.Is(err, errNear) {
			return otherDrives{}, err
		}
		w.reserved = ok && err == nil
	}
	if !w.reserved {
		if err := lock("pg_advisory_xact_lock"); err != nil {
			return otherDrives{}, err
		}
		w.reserved = true
	}
	return w.account()
}

// errNear means that less than a quarter of an account's limit is left.
var errNear = errors.New("drive: near the limit")

func (d *Drives) growth(ops []Op) (bytes int64) {
	for _, op := range ops {
		switch op.Verb {
		case VerbPut:
			bytes += op.Content.size
		case VerbRestore:
			bytes += d.limits.MaxFileBytes
		}
	}
	return bytes
}
