package api

import (
	"context"
	"net/http"
	"strconv"

	"stoa/internal/base/rest"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
)

// maxDetached limits the calls of an account that continue after their clients have disconnected.
const maxDetached = 16

type callClaim struct {
	s        *Calls
	account  string
	claim    store.Claim
	finished bool

	// Of a call of an agent: what the claim refers to, whether its turn has failed, so that it may be repeated, and its cost.
	ref    string
	failed bool
	amount stoa.Credits
}

type storedReply struct {
	id     string // resp_…
	text   string
	amount stoa.Credits
}

// claimCall claims the Idempotency-Key for the call. If a call with the key has already finished, it
// returns the reply of that call instead. hash is the hash of the body, computed outside of the
// transaction to keep it short.
func (s *Calls) claimCall(in *rest.Request[rest.None, rest.None], key, hash string) (*callClaim, *storedReply, error) {
	ctx, account := in.HTTP.Context(), in.Caller.Account.ID
	k := store.IdempotencyKey{AccountID: account, Method: in.HTTP.Method, Path: in.HTTP.URL.Path, Key: key}
	var claim store.Claim
	var earlier *storedReply
	var ref string
	made := false
	err := s.Store.Write(store.Promptly(ctx), func(tx *store.Tx) error {
		earlier, made = nil, false
		var stored store.Reply
		var claimed bool
		var err error
		claim, stored, claimed, err = tx.ClaimKey(ctx, k, hash)
		if err != nil || claimed {
			made, ref = claimed, stored.Ref
			return err
		}
		charge, _, err := tx.Books().ChargeByID(ctx, stored.Ref)
		if amount, err := strconv.ParseInt(stored.Headers, 10, 64); err == nil { // because an agent's steps have their own charges
			charge.Amount = stoa.Credits(amount)
		}
		earlier = &storedReply{id: stored.Ref, text: stored.Body, amount: charge.Amount}
		return err
	})
	if err != nil && made { // because the result of the commit may be lost
		s.Store.FreeLater(claim)
	}
	if err != nil || earlier != nil {
		return nil, earlier, err
	}
	return &callClaim{s: s, account: account, claim: claim, ref: ref}, nil, nil
}

// Finish returns the function that stores the reply in the transaction of its charge.
func (c *callClaim) Finish(id string, reply []byte) func(context.Context, *store.Tx) error {
	return func(ctx context.Context, tx *store.Tx) error {
		stored := store.Reply{Ref: id, Status: http.StatusOK, Body: string(reply)}
		if c.ref != "" {
			stored.Headers = strconv.FormatInt(int64(c.amount), 10)
		}
		return tx.FinishClaim(ctx, c.claim, stored)
	}
}

// Finished records that the reply is stored, so that the key is not freed.
func (c *callClaim) Finished() { c.finished = true }

// Detach reports whether the call may continue without its client. An account can have
// maxDetached such calls at the same time.
func (c *callClaim) Detach() (release func(), ok bool) {
	slots := &c.s.limits.detached
	if !slots.Enter(c.account, maxDetached) {
		return nil, false
	}
	return func() { slots.Leave(c.account) }, true
}

// free releases the key if no reply is stored under it, so that a failed or interrupted call can be
// repeated. It retries until the store commits again.
func (c *callClaim) free(ctx context.Context, requestID string) {
	if c.finished {
		return
	}
	ctx = context.WithoutCancel(ctx)
	err := c.s.Store.Write(ctx, func(tx *store.Tx) error {
		if c.failed {
			if err := tx.SetClaimRef(ctx, c.claim, ""); err != nil {
				return err
			}
		}
		return tx.FreeClaim(ctx, c.claim)
	})
	if err != nil {
		c.s.Logger.Warn("an Idempotency-Key could not be freed; retrying", "request", requestID, "error", err)
		c.s.Store.FreeLater(c.claim)
	}
}
