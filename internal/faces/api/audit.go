package api

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"stoa/internal/base/audit"
	"stoa/internal/base/contract"
	"stoa/internal/base/jsonx"
	"stoa/internal/base/rest"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
)

// auditPage is the number of rows that an export keeps in memory.
const auditPage = 200

func (s *Books) auditAccount(ctx context.Context, c stoa.Caller, asked string) (string, error) {
	if asked == audit.Service && c.Key.Has(stoa.ScopeOperatorRead) {
		return asked, nil
	}
	return s.requestedAccount(ctx, c, asked)
}

func (s *Books) listAudit(ctx context.Context, in rest.Request[contract.ListAuditParams, rest.None]) (rest.Reply[rest.Page[contract.AuditEntry]], error) {
	q := in.Params
	all := q.AccountID == allAccounts && in.Caller.Key.Has(stoa.ScopeOperatorRead)
	accountID, err := allAccounts, error(nil)
	if !all {
		accountID, err = s.auditAccount(ctx, in.Caller, q.AccountID)
	}
	if err != nil {
		return rest.Reply[rest.Page[contract.AuditEntry]]{}, err
	}
	f := store.AuditFilter{Actor: q.Actor, Action: q.Action, Object: q.Object, From: q.From.Time(), To: q.To.Time()}
	p := rest.NewPager(q.Limit, q.Cursor, q.Order, "audit", accountID, f.Actor, f.Action, f.Object, f.From.String(), f.To.String())
	n := namesOf(accountID)
	if all {
		n.accountID = ""
	}
	return rest.ReadPageTo(ctx, s.Store, p, func(tx *store.Tx) ([]audit.Entry, store.Cursor, error) {
		if all {
			rows, next, err := tx.People().AuditOfAll(ctx, f, p.Page)
			for _, e := range rows {
				n.add(store.NamedKeys, e.Actor)
				n.add(store.NamedAccounts, e.AccountID)
			}
			return rows, next, n.read(ctx, tx, err)
		}
		rows, next, err := tx.People().AuditEntries(ctx, accountID, f, p.Page, p.Number())
		for _, e := range rows {
			n.add(store.NamedKeys, e.Actor)
		}
		err = n.read(ctx, tx, err)
		if next == 0 {
			return rows, store.Cursor{}, err
		}
		return rows, store.Cursor{At: rest.Numbered(next).At}, err
	}, func(e audit.Entry) contract.AuditEntry {
		out := contractAudit(e)
		out.ActorName, out.AccountName = n.of(store.NamedKeys, e.Actor), n.of(store.NamedAccounts, e.AccountID)
		return out
	})
}

func (s *Books) listAuditActions(ctx context.Context, in rest.Request[contract.ListAuditActionsParams, rest.None]) (rest.Reply[rest.Page[contract.AuditAction]], error) {
	accountID, err := s.auditAccount(ctx, in.Caller, in.Params.AccountID)
	if err != nil {
		return rest.Reply[rest.Page[contract.AuditAction]]{}, err
	}
	actions, err := store.Read(ctx, s.Store, func(tx *store.Tx) ([]string, error) {
		return tx.People().AuditActions(ctx, accountID)
	})
	page := rest.Whole(actions, func(action string) contract.AuditAction { return contract.AuditAction{Action: action} })
	return rest.Reply[rest.Page[contract.AuditAction]]{Body: page}, err
}

func contractAudit(e audit.Entry) contract.AuditEntry {
	return contract.AuditEntry{
		AccountID: e.AccountID, Seq: e.Seq, At: contract.Time(e.At), Actor: e.Actor, Action: e.Action, Object: e.Object,
		RequestID: nullIfZero(e.RequestID), Address: nullIfZero(e.Address), Before: nullIfZero(e.Before), After: nullIfZero(e.After),
		Prev: nullIfZero(e.Prev), Hash: e.Hash,
	}
}

func (s *Books) exportAudit(w http.ResponseWriter, in *rest.Request[contract.ExportAuditParams, rest.None]) error {
	ctx := in.HTTP.Context()
	accountID, err := s.auditAccount(ctx, in.Caller, in.Params.AccountID)
	if err != nil {
		return err
	}
	after := in.Params.After
	for begun := false; ; begun = true {
		var from audit.Checkpoint
		var rows []audit.Entry
		err := s.Store.Report(ctx, func(tx *store.Tx) (err error) {
			if from, rows, err = tx.People().AuditRows(ctx, accountID, after, auditPage); err == nil && begun && from.Seq != after {
				err = errors.New("the audit log was purged during its export")
			}
			return err
		})
		if err != nil {
			return err
		}
		var lines strings.Builder
		line := func(v any) error {
			text, err := jsonx.MarshalModel(v)
			lines.Write(text)
			lines.WriteByte('\n')
			return err
		}
		if !begun {
			attach(w.Header(), accountID+".audit.jsonl")
			w.Header().Set("Content-Type", "application/jsonl")
			if from.Seq > 0 {
				err = line(map[string]any{"checkpoint": from})
			}
		}
		for _, e := range rows {
			if err == nil {
				err = line(contractAudit(e))
			}
		}
		if err != nil {
			return err
		}
		if _, err := w.Write([]byte(lines.String())); err != nil {
			return stoa.ErrClientGone
		}
		if len(rows) < auditPage {
			return nil
		}
		after = rows[len(rows)-1].Seq
	}
}
