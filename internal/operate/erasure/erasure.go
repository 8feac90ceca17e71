// Package erasure removes the data of deleted customers and of end users: from every table, from the drives and their bucket, and
// from the file and the log of SQLite.
//
// An erasure is a row that a node claims. Each step finds its work in the data itself, so that another node can repeat any of them
// after a crash. What is removed and what stays is listed beside the statements, in package store. The package never
// changes an amount. Start at [Eraser.Run].
package erasure

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"time"

	"stoa/internal/agents/drive"
	"stoa/internal/agents/session"
	"stoa/internal/base/audit"
	"stoa/internal/base/db"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
)

const (
	pollEvery = time.Minute
	batch     = 200 // rows in a transaction, so that no charge waits long for its commit
	// again is the time after which a deleted account is erased once more, because calls that were in progress write a receipt, a
	// row of the request log and a stored reply when they end. It is longer than stored replies are kept.
	again    = store.RepliesKept + time.Hour
	logTries = 20 // attempts to empty the log, which a backup can keep in use
)

// An Eraser carries out erasures.
type Eraser struct {
	store    *store.Store
	drives   *drive.Drives
	sessions *session.Sessions
	log      *slog.Logger
	wake     chan struct{}
}

// New returns an eraser. It starts no goroutine.
func New(st *store.Store, drives *drive.Drives, sessions *session.Sessions, log *slog.Logger) *Eraser {
	return &Eraser{store: st, drives: drives, sessions: sessions, log: log, wake: make(chan struct{}, 1)}
}

// Wake makes [Eraser.Run] of this process look for a new erasure.
func (s *Eraser) Wake() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Run carries out erasures until ctx ends. It tries one that fails again a minute later, or when its claim has ended.
func (s *Eraser) Run(ctx context.Context) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		if err := s.RunDue(ctx); err != nil && ctx.Err() == nil {
			s.log.Error("an erasure failed; it is tried again", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-s.wake:
		case <-tick.C:
		}
	}
}

// RunDue carries out the erasures that are due, each once: one that fails does not delay the others.
func (s *Eraser) RunDue(ctx context.Context) error {
	failed := map[string]bool{}
	var failures error
	for {
		var job *job
		err := s.store.Write(ctx, func(tx *store.Tx) error {
			e, found, err := tx.Operations().ClaimErasure(ctx)
			if job = nil; found {
				job = newJob(s, e)
			}
			return err
		})
		if err != nil || job == nil {
			return errors.Join(failures, err)
		}
		again := failed[job.ID]
		if !again {
			if err = job.run(ctx); err == nil {
				continue
			}
			failed[job.ID] = true
			failures = errors.Join(failures, err)
		}
		// Without the claim the next attempt need not wait for its end, also if the process stops.
		free := context.WithoutCancel(ctx)
		err = s.store.Write(free, func(tx *store.Tx) error { return tx.Operations().FreeErasure(free, job.AccountID, job.ID) })
		if again || err != nil || ctx.Err() != nil {
			return errors.Join(failures, err)
		}
	}
}

// A job is a claimed erasure.
type job struct {
	*Eraser
	stoa.Erasure
	caller   stoa.Caller
	sessions map[string]bool // random parts of the ids of the removed sessions
}

func newJob(s *Eraser, e stoa.Erasure) *job {
	return &job{Eraser: s, Erasure: e, caller: stoa.Caller{Account: stoa.Account{ID: e.Target}}, sessions: map[string]bool{}}
}

func (j *job) run(ctx context.Context) error {
	steps := []func(context.Context) error{j.endSessions, j.eraseTexts, j.removeSessions, j.eraseTexts, j.eraseEndUser, j.eraseDrives}
	switch {
	case j.Kind == stoa.EraseAccount:
		steps = []func(context.Context) error{j.removeSessions, j.deleteAgents, j.removeSessions, j.eraseAudit, j.eraseAccount, j.eraseDrives}
	case j.Subject == "": // the process died after all steps; without the name they would remove the data of all
		steps = nil
	}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return err
		}
		if err := j.save(ctx); err != nil {
			return err
		}
	}
	j.Subject = ""
	if err := j.save(ctx); err != nil {
		return err
	}
	if err := j.emptyLogs(ctx); err != nil {
		return err
	}
	return j.store.Write(ctx, func(tx *store.Tx) error {
		done := j.Erasure
		if done.AgainAt = (time.Time{}); done.CompletedAt.IsZero() {
			done.CompletedAt = tx.Now
			if done.Kind == stoa.EraseAccount {
				done.AgainAt = tx.Now.Add(again)
			}
		}
		return tx.Operations().SaveErasure(ctx, &done)
	})
}

// save extends the claim, so that no other node begins the same erasure.
func (j *job) save(ctx context.Context) error {
	return j.store.Write(ctx, func(tx *store.Tx) error { return tx.Operations().SaveErasure(ctx, &j.Erasure) })
}

// drain runs a transaction until it reports that nothing is left.
func (j *job) drain(ctx context.Context, fn func(tx *store.Tx) (int64, error)) (total int64, err error) {
	for round := 1; ; round++ {
		n, err := store.Write(ctx, j.store, fn)
		if total += n; err != nil || n == 0 {
			return total, err
		}
		if round%100 == 0 {
			if err := j.save(ctx); err != nil {
				return total, err
			}
		}
	}
}

// deleteAgents deletes the agents of a deleted account, so that no task, hook or visitor begins another session.
func (j *job) deleteAgents(ctx context.Context) error {
	_, err := j.drain(ctx, func(tx *store.Tx) (int64, error) {
		ids, err := tx.Setup().LiveAgents(ctx, j.Target, 10)
		for _, id := range ids {
			if err == nil {
				err = j.Eraser.sessions.DeleteAgent(ctx, tx, j.Target, id)
			}
		}
		return int64(len(ids)), err
	})
	return err
}

// endSessions cancels the turns that run, and notes the ids. The search for texts precedes the removal, because a crash in between
// would lose the ids, and is repeated after it, because the end of a turn sends events. Sessions that were created after the erasure
// are new data.
func (j *job) endSessions(ctx context.Context) error {
	for after := ""; ; {
		ids, err := store.Read(ctx, j.store, func(tx *store.Tx) ([]string, error) {
			return tx.Work().SessionsOfUser(ctx, j.Target, j.Subject, j.CreatedAt, after, batch)
		})
		if err != nil || len(ids) == 0 {
			return err
		}
		for _, id := range ids {
			after = id
			j.sessions[strings.TrimPrefix(id, "ses_")] = true
			if _, err := j.Eraser.sessions.Cancel(ctx, j.caller, "", id); err != nil && stoa.CodeOf(err) != stoa.CodeSessionNotFound { // because another request deleted it meanwhile
				return err
			}
		}
		if err := j.save(ctx); err != nil {
			return err
		}
	}
}

// removeSessions removes the sessions of the deleted account, or those of the end user.
func (j *job) removeSessions(ctx context.Context) error {
	for {
		ids, err := store.Read(ctx, j.store, func(tx *store.Tx) ([]string, error) {
			if j.Kind == stoa.EraseAccount {
				return tx.Work().SessionsOfAccount(ctx, j.Target, batch)
			}
			return tx.Work().SessionsOfUser(ctx, j.Target, j.Subject, j.CreatedAt, "", batch)
		})
		if err != nil || len(ids) == 0 {
			return err
		}
		for _, id := range ids {
			if err := j.Eraser.sessions.Delete(ctx, j.caller, "", id); err != nil && stoa.CodeOf(err) != stoa.CodeSessionNotFound {
				return err
			}
			j.Sessions++
		}
		if err := j.save(ctx); err != nil {
			return err
		}
	}
}

// eraseAudit removes the texts of the log of a deleted account, and of the entries of the account that deleted it and of the
// service that name it.
func (j *job) eraseAudit(ctx context.Context) error {
	account, err := store.Read(ctx, j.store, func(tx *store.Tx) (stoa.Account, error) { return tx.Books().Account(ctx, j.Target) })
	if err != nil {
		return err
	}
	if err := j.eraseChain(ctx, j.Target, func(*store.Tx, audit.Entry) (bool, error) { return true, nil }); err != nil || account.Name == "" {
		return err
	}
	for _, chain := range []string{j.AccountID, audit.Service} {
		err := j.eraseChain(ctx, chain, func(_ *store.Tx, e audit.Entry) (bool, error) {
			return e.Object == j.Target || mentions(e.Before, account.Name, "accountName") || mentions(e.After, account.Name, "accountName"), nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (j *job) eraseChain(ctx context.Context, chain string, which func(*store.Tx, audit.Entry) (bool, error)) error {
	for after := int64(0); ; {
		var last, n int64
		err := j.store.Write(ctx, func(tx *store.Tx) (err error) {
			last, n, err = tx.People().EraseAudit(ctx, chain, j.ID, after, func(e audit.Entry) (bool, error) { return which(tx, e) })
			return err
		})
		if err != nil || last == 0 {
			return err
		}
		after = last
		j.AuditEntries += n
		if err := j.save(ctx); err != nil {
			return err
		}
	}
}

func (j *job) eraseAccount(ctx context.Context) error {
	if err := j.store.Write(ctx, func(tx *store.Tx) error { return tx.People().EraseMembers(ctx, j.Target) }); err != nil {
		return err
	}
	if _, err := j.drain(ctx, func(tx *store.Tx) (int64, error) {
		return tx.Operations().PurgeRequestsBeyond(ctx, j.Target, 0, batch)
	}); err != nil {
		return err
	}
	n, err := j.drain(ctx, func(tx *store.Tx) (int64, error) { return tx.Operations().EraseRows(ctx, j.Target, batch) })
	if j.Removed += n; err != nil {
		return err
	}
	if err := j.renameReceipts(ctx); err != nil {
		return err
	}
	return j.store.Write(ctx, func(tx *store.Tx) error { return tx.Books().EraseNames(ctx, j.Target) })
}

func (j *job) renameReceipts(ctx context.Context) error {
	n, err := j.drain(ctx, func(tx *store.Tx) (int64, error) {
		return tx.Books().RenameEndUser(ctx, j.Target, j.Subject, j.Replacement, batch)
	})
	j.Receipts += n
	return err
}

// namingMembers are the members of events, replies and audited objects whose value can be the name of an end user.
var namingMembers = []string{"externalUserId", "endUser", "user", "safety_identifier", "user_id", "subject"}

var randomParts = regexp.MustCompile(`_([0-9a-z]{26})`)

// names reports whether a text has the id of a removed session, or of a response or step of it, or names the end user.
func (j *job) names(text string) bool {
	for _, id := range randomParts.FindAllStringSubmatch(text, -1) {
		if j.sessions[id[1]] {
			return true
		}
	}
	return mentions(text, j.Subject, namingMembers...)
}

// mentions reports whether a JSON text has one of the members with that value. It compares whole values of these members only, since
// an end user may have a common word as the name. A path before the JSON is ignored.
func mentions(text, value string, members ...string) bool {
	start := strings.IndexByte(text, '{')
	if start < 0 || !strings.Contains(text, value) && !strings.Contains(text, `\`) {
		return false
	}
	var v any
	if json.NewDecoder(bytes.NewReader([]byte(text[start:]))).Decode(&v) != nil {
		return false
	}
	return hasMember(v, value, members)
}

func hasMember(v any, value string, members []string) bool {
	switch v := v.(type) {
	case []any:
		return slices.ContainsFunc(v, func(v any) bool { return hasMember(v, value, members) })
	case map[string]any:
		for name, of := range v {
			if of == any(value) && slices.Contains(members, name) || hasMember(of, value, members) {
				return true
			}
		}
	}
	return false
}

// eraseTexts removes deliveries and stored replies, and the texts of audit entries, that name the end user or a session.
func (j *job) eraseTexts(ctx context.Context) error {
	for _, list := range []func(tx *store.Tx, after store.KeptText) ([]store.KeptText, error){
		func(tx *store.Tx, after store.KeptText) ([]store.KeptText, error) {
			return tx.Operations().DeliveryTexts(ctx, j.Target, after, batch)
		},
		func(tx *store.Tx, after store.KeptText) ([]store.KeptText, error) {
			return tx.Operations().ReplyTexts(ctx, j.Target, after, batch)
		},
	} {
		for after, more := (store.KeptText{}), true; more; {
			rows, err := store.Read(ctx, j.store, func(tx *store.Tx) ([]store.KeptText, error) { return list(tx, after) })
			if err != nil {
				return err
			}
			found := slices.Clone(rows)
			found = slices.DeleteFunc(found, func(t store.KeptText) bool { return !j.names(t.Text) })
			if err := j.store.Write(ctx, func(tx *store.Tx) error {
				for _, t := range found {
					if err := tx.Operations().RemoveText(ctx, j.Target, t); err != nil {
						return err
					}
				}
				return nil
			}); err != nil {
				return err
			}
			j.Removed += int64(len(found))
			if err := j.save(ctx); err != nil {
				return err
			}
			if more = len(rows) == batch; more {
				after = rows[len(rows)-1]
			}
		}
	}
	return j.eraseChain(ctx, j.Target, func(tx *store.Tx, e audit.Entry) (bool, error) {
		if e.Action == "resolveToolCall" { // whose note is about the call of a session
			id, err := tx.Work().SessionOfCall(ctx, j.Target, e.Object)
			return j.names(id), err
		}
		return j.names(e.Object) || j.names(e.Before) || j.names(e.After), nil
	})
}

func (j *job) eraseEndUser(ctx context.Context) error {
	n, err := j.drain(ctx, func(tx *store.Tx) (int64, error) {
		return tx.Setup().EraseEndUser(ctx, j.Target, j.Subject, j.Replacement, batch)
	})
	if j.Removed += n; err != nil {
		return err
	}
	if err := j.store.Write(ctx, func(tx *store.Tx) error { return tx.Operations().EraseRequestsOf(ctx, j.Target, j.Subject) }); err != nil {
		return err
	}
	return j.renameReceipts(ctx)
}

// eraseDrives removes the drives of the deleted account, or those of uploads that are gone.
func (j *job) eraseDrives(ctx context.Context) error {
	all := j.Kind == stoa.EraseAccount
	n, err := j.drives.Erase(ctx, j.Target, all, func(ctx context.Context, o drive.Owner) (gone bool, err error) {
		if all || !strings.HasPrefix(o.AgentID, "upl_") {
			return all, nil
		}
		err = j.store.Read(ctx, func(tx *store.Tx) error {
			there, err := tx.Work().HasUpload(ctx, o.AccountID, o.AgentID)
			gone = !there
			return err
		})
		return gone, err
	})
	j.Drives += int64(n)
	return err
}

// emptyLogs removes the earlier contents of pages from the logs of SQLite. It waits while a backup reads one.
func (j *job) emptyLogs(ctx context.Context) error {
	for _, empty := range []func(context.Context) error{j.store.EmptyLog, j.drives.DB().EmptyLog} {
		err := db.ErrInUse
		for try := 0; errors.Is(err, db.ErrInUse) && try < logTries; try++ {
			if err = empty(ctx); errors.Is(err, db.ErrInUse) {
				select {
				case <-time.After(time.Second):
				case <-ctx.Done():
					return ctx.Err()
				}
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}
