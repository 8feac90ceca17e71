package rest

import (
	"context"
	"fmt"
	"net/http"

	"stoa/internal/base/audit"
	"stoa/internal/base/contract"
	"stoa/internal/base/jsonx"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
)

// An Audited says how the audit log records an operation. Without Read and Body, the operation creates an
// object, whose row contains the reply.
type Audited struct {
	// Param is the path parameter with the id of the changed object; empty if it is created. Then Account
	// returns the object's account from its id; nil means the caller's.
	Param   string
	Account func(x *Exchange, id string) string
	// Read returns the object in the contract's form, and its account. A row is written only if the object
	// differs after the change, so that repeats add nothing.
	Read func(ctx context.Context, tx *store.Tx, x *Exchange) (accountID string, object any, err error)
	// Body returns the part of a body that is logged instead, for a change that the object does not show; nil
	// if the request is not recorded.
	Body func(body []byte) any
	// Personal lists members with a person's name or address. They are not logged, so that the log can outlive
	// the person's removal.
	Personal []string
}

// A change is the audit record of a running request. It implements [store.Auditor].
type change struct {
	base *Base
	x    *Exchange
	name string // operationId
	rule *Audited

	account, before string // account and object of the running transaction
	reply           []byte // reply that the running transaction stores; nil if none
	done            bool   // only for Body: a transaction with the row is committed
}

// Before reads and locks the object, because each row of the log must continue the one before.
func (c *change) Before(ctx context.Context, tx *store.Tx) (err error) {
	c.reply, c.before = nil, ""
	if c.rule.Read == nil {
		return nil
	}
	if err := tx.People().LockAudited(ctx, c.x.HTTP.PathValue(c.rule.Param)); err != nil {
		return err
	}
	c.account, c.before, err = c.read(ctx, tx)
	return err
}

// read returns the object's account and masked JSON; empty if the object does not exist.
func (c *change) read(ctx context.Context, tx *store.Tx) (accountID, text string, err error) {
	accountID, object, err := c.rule.Read(ctx, tx, c.x)
	if err != nil {
		if contract.Code(stoa.CodeOf(err)).Status == http.StatusNotFound {
			return "", "", nil
		}
		return "", "", err
	}
	raw, err := jsonx.MarshalModel(object)
	if err != nil {
		return "", "", fmt.Errorf("audit log: %w", err)
	}
	text, err = audit.Mask(raw, c.rule.Personal...)
	return accountID, text, err
}

// After adds a row to the transaction if it changed something.
func (c *change) After(ctx context.Context, tx *store.Tx) error {
	e := audit.Entry{
		AccountID: c.x.Log.Caller.Account.ID, Actor: c.x.Log.Caller.Key.ID, Action: c.name,
		Object: c.x.HTTP.PathValue(c.rule.Param), RequestID: c.x.Log.ID, Before: c.before, Address: c.base.LoggedAddress(c.x.HTTP),
	}
	switch {
	case c.rule.Body != nil:
		part := c.rule.Body(c.x.body)
		if part == nil || c.done {
			return nil
		}
		raw, err := jsonx.Marshal(part)
		if err != nil {
			return err
		}
		if e.After, err = audit.Mask(raw, c.rule.Personal...); err != nil {
			return err
		}
		tx.AfterCommit(func() { c.done = true })
	case c.reply != nil:
		var made struct {
			ID string `json:"id"`
		}
		err := jsonx.Unmarshal(c.reply, &made)
		if err != nil {
			return err
		}
		if e.After, err = audit.Mask(c.reply, c.rule.Personal...); err != nil {
			return err
		}
		if c.rule.Param == "" {
			e.Object = made.ID
			if c.rule.Account != nil {
				e.AccountID = c.rule.Account(c.x, made.ID)
			}
		} else {
			e.AccountID = c.account
		}
	case c.rule.Read != nil:
		account, after, err := c.read(ctx, tx)
		if err != nil || after == c.before {
			return err
		}
		if e.After = after; account != "" {
			c.account = account
		}
		e.AccountID = c.account
	default: // an answer was stored before, or another transaction creates the object
		return nil
	}
	tx.Audit(e)
	return nil
}
