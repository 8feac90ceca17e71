package api

import (
	"context"
	"net/http"
	"strconv"
	"sync"

	"stoa/internal/contract"
	"stoa/internal/jsonx"
	"stoa/internal/ratelimit"
	"stoa/internal/stoa"
	"stoa/internal/store"
)

// A once is the Idempotency-Key of a model call: the claim while the call runs,
// and what happens to the call when its caller hangs up. Without a key it is nil.
type once struct {
	s     *Server
	claim store.Claim
	used  bool // the claim was finished
}

// claimOnce claims the key for the call. When the key's call was made before, it
// gives that call's reply instead.
func (s *Server) claimOnce(ctx context.Context, c stoa.Caller, r *http.Request, key string, body []byte) (*once, *storedReply, error) {
	k := store.IdempotencyKey{AccountID: c.Account.ID, Method: r.Method, Path: r.URL.Path, Key: key}
	var claim store.Claim
	var earlier *storedReply
	err := s.Store.Write(ctx, func(tx *store.Tx) error {
		earlier = nil
		var stored store.Reply
		var claimed bool
		var err error
		claim, stored, claimed, err = tx.ClaimKey(ctx, k, bodyHash(body))
		if err != nil || claimed {
			return err
		}
		charge, _, err := tx.ChargeByID(ctx, stored.Ref)
		earlier = &storedReply{text: stored.Body, amount: charge.Amount}
		return err
	})
	if err != nil || earlier != nil {
		return nil, earlier, err
	}
	return &once{s: s, claim: claim}, nil, nil
}

// finish stores the reply in the transaction of its charge.
func (o *once) finish(id string, reply []byte) func(context.Context, *store.Tx) error {
	o.used = true
	return func(ctx context.Context, tx *store.Tx) error {
		return tx.FinishClaim(ctx, o.claim, store.Reply{Ref: id, Status: http.StatusOK, Body: string(reply)})
	}
}

// free gives the key back if nothing is stored under it: what failed, or was
// broken off, may be tried again. Where even that fails, the next start frees it.
func (o *once) free(ctx context.Context) {
	if o.used {
		return
	}
	err := o.s.Store.Write(context.WithoutCancel(ctx), func(tx *store.Tx) error { return tx.FreeClaim(context.WithoutCancel(ctx), o.claim) })
	if err != nil {
		o.s.Logger.Warn("an Idempotency-Key could not be given back", "request", LogFields(ctx).RequestID, "error", err)
	}
}

// maxDetached is how many calls of an account may go on after their callers
// hung up.
const maxDetached = 16

// A leash ends a call when its caller hangs up, unless the call is made once and
// may go on without a caller. It is safe for use by several goroutines.
type leash struct {
	account string
	slots   *ratelimit.Slots // nil: the call ends with its caller
	end     func()

	mu            sync.Mutex
	detached, off bool
}

// clientDisconnected reports whether the call goes on all the same.
func (l *leash) clientDisconnected() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.off || l.detached {
		return l.detached
	}
	if l.slots != nil && l.slots.Enter(l.account, maxDetached) {
		l.detached = true
		return true
	}
	l.end()
	return false
}

// done is for when the call has ended.
func (l *leash) done() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.detached && !l.off {
		l.slots.Leave(l.account)
	}
	l.off = true
}

// A storedReply is the reply of an earlier call with the same key.
type storedReply struct {
	text   string
	amount stoa.Credits
}

// replay answers with a stored reply: the same object, or a stream that brings
// its text in one delta.
func (s *Server) replay(w http.ResponseWriter, req *responsesRequest, stored *storedReply) error {
	var was contract.Response
	if err := jsonx.Unmarshal([]byte(stored.text), &was); err != nil {
		return err
	}
	h := w.Header()
	h.Set("Idempotency-Replayed", "true")
	if was.Model != req.model {
		h.Set("stoa-model-requested", req.model)
	}
	if !req.stream {
		h.Set("Content-Type", "application/json")
		h.Set("stoa-charge-micro", strconv.FormatInt(int64(stored.amount), 10))
		_, _ = w.Write([]byte(stored.text)) // a caller who left may ask again
		return nil
	}
	rep := newReply(was.ID, was.CreatedAt, &req.echo)
	o := &outcome{status: string(was.Status), usage: usageOf(was.Usage)}
	if was.CompletedAt != nil {
		o.completedAt = *was.CompletedAt
	}
	if was.IncompleteDetails != nil {
		o.reason = was.IncompleteDetails.Reason
	}
	for _, item := range was.Output {
		rep.item = item.ID
	}
	out := s.stream(w, rep, func() string { return was.Model })
	defer out.release()
	o.text, o.hasOutput = was.OutputText(), true
	if o.text != "" {
		_ = out.delta(o.text, true)
	}
	_ = out.end(o)
	return nil
}

func usageOf(u *contract.ResponseUsage) *stoa.Usage {
	if u == nil {
		return nil
	}
	return &stoa.Usage{
		InputTokens: u.InputTokens, CachedTokens: u.InputTokensDetails.CachedTokens, CacheWriteTokens: u.InputTokensDetails.CacheWriteTokens,
		OutputTokens: u.OutputTokens, ReasoningTokens: u.OutputTokensDetails.ReasoningTokens,
	}
}
