package api

import (
	"context"
	"net/http"
	"time"

	"github.com/oapi-codegen/nullable"

	"stoa/internal/agents/hook"
	"stoa/internal/base/contract"
	"stoa/internal/base/rest"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
)

func (s *Sessions) createHook(ctx context.Context, tx *store.Tx, in rest.Request[byID, contract.CreateHook]) (rest.Reply[contract.HookWithSecret], error) {
	b := in.Body
	h := stoa.Hook{
		AgentID: in.Params.ID, Name: b.Name, Message: orZero(b.Message), ExternalID: orZero(b.ExternalID), ExternalUserID: orZero(b.ExternalUserID), EventID: orZero(b.EventID),
		Signature: stoa.HookSignature{
			Kind: b.Signature.Kind, Header: orZero(b.Signature.Header), Algorithm: orZero(b.Signature.Algorithm), Encoding: orZero(b.Signature.Encoding), Prefix: orZero(b.Signature.Prefix),
		},
		Mode: stoa.SessionMode(orZero(b.Mode)), Networks: orZero(b.Networks), TurnsPerDay: orZero(b.TurnsPerDay), MaxCredits: stoa.Credits(orZero(b.MaxCreditsMicroPerTurn)),
	}
	if !valueOr(b.Enabled, true) {
		h.Disabled = store.HookDisabledByUser
	}
	if err := s.checkHookName(h); err != nil {
		return rest.Reply[contract.HookWithSecret]{}, err
	}
	made, secret, err := s.hooks.Create(ctx, tx, in.Caller, h, orZero(b.Secret))
	return s.hookWithSecret(made, secret, time.Time{}), err
}

func (s *Sessions) checkHookName(h stoa.Hook) error {
	return checkLengths(lengthLimit{"name", h.Name, s.Limits.NameCharacters})
}

// hookWithSecret answers with a hook and its new secret, which is shown only once.
func (s *Sessions) hookWithSecret(h stoa.Hook, secret string, previousEnds time.Time) rest.Reply[contract.HookWithSecret] {
	body := extend[contract.HookWithSecret](s.contractHook(h))
	body.Secret, body.PreviousEndsAt = secret, nullIfNever(previousEnds)
	reply := rest.Created(agentPath(h.AgentID)+"/hooks/"+h.ID, body)
	reply.ETag, reply.Secret = revisionETag(h.Revision), true
	return reply
}

func (s *Sessions) listHooks(ctx context.Context, in rest.Request[idAnd[contract.ListHooksParams], rest.None]) (rest.Reply[rest.Page[contract.Hook]], error) {
	accountID, q := in.Caller.Account.ID, in.Params.Query
	p := rest.NewPager(q.Limit, q.Cursor, q.Order, "hooks", accountID, in.Params.ID, q.Q)
	return rest.ReadPageTo(ctx, s.Store, p, func(tx *store.Tx) ([]stoa.Hook, store.Cursor, error) {
		if _, err := tx.Setup().Agent(ctx, accountID, in.Params.ID); err != nil {
			return nil, store.Cursor{}, err
		}
		return tx.Work().Hooks(ctx, accountID, in.Params.ID, q.Q, p.Page)
	}, s.contractHook)
}

func agentsHook(ctx context.Context, tx *store.Tx, accountID, agentID, id string) (stoa.Hook, error) {
	if _, err := tx.Setup().Agent(ctx, accountID, agentID); err != nil {
		return stoa.Hook{}, err
	}
	return tx.Work().Hook(ctx, accountID, agentID, id)
}

func (s *Sessions) hookReply(h stoa.Hook) rest.Reply[contract.Hook] {
	return rest.Reply[contract.Hook]{ETag: revisionETag(h.Revision), Body: s.contractHook(h)}
}

func (s *Sessions) getHook(ctx context.Context, tx *store.Tx, in rest.Request[byHookID, rest.None]) (rest.Reply[contract.Hook], error) {
	h, err := agentsHook(ctx, tx, in.Caller.Account.ID, in.Params.ID, in.Params.HookID)
	return s.hookReply(h), err
}

func (s *Sessions) updateHook(ctx context.Context, tx *store.Tx, in rest.Request[hookAnd[contract.UpdateHookParams], contract.UpdateHook]) (rest.Reply[contract.Hook], error) {
	b := in.Body
	h, err := s.hooks.Edit(ctx, tx, in.Caller, in.Params.ID, in.Params.HookID, func(h *stoa.Hook, enabled *bool) error {
		if err := ifCurrent(in.Params.Query.IfMatch, h.Revision); err != nil {
			return err
		}
		if b.Name != "" { // because the contract rejects null and an empty text
			h.Name = b.Name
		}
		patch(&h.Message, b.Message, same)
		patch(&h.ExternalID, b.ExternalID, same)
		patch(&h.ExternalUserID, b.ExternalUserID, same)
		patch(&h.EventID, b.EventID, same)
		patch(&h.Mode, b.Mode, func(m string) stoa.SessionMode { return stoa.SessionMode(m) })
		patch(&h.Networks, b.Networks, same)
		patch(&h.TurnsPerDay, b.TurnsPerDay, same)
		patch(&h.MaxCredits, b.MaxCreditsMicroPerTurn, func(n int64) stoa.Credits { return stoa.Credits(n) })
		set(enabled, b.Enabled, valueOr(b.Enabled, true))
		return s.checkHookName(*h)
	})
	return s.hookReply(h), err
}

func (s *Sessions) deleteHook(ctx context.Context, tx *store.Tx, in rest.Request[hookAnd[contract.DeleteHookParams], rest.None]) (rest.Reply[rest.None], error) {
	accountID := in.Caller.Account.ID
	h, err := agentsHook(ctx, tx, accountID, in.Params.ID, in.Params.HookID)
	if err == nil {
		err = ifCurrent(in.Params.Query.IfMatch, h.Revision)
	}
	if err == nil {
		err = tx.Work().DeleteHook(ctx, accountID, in.Params.ID, in.Params.HookID)
	}
	return rest.NoContent(), err
}

func (s *Sessions) rotateHookSecret(ctx context.Context, tx *store.Tx, in rest.Request[byHookID, contract.RotateHookSecret]) (rest.Reply[contract.HookWithSecret], error) {
	overlap := time.Duration(valueOr(in.Body.OverlapSeconds, int64(defaultSecretOverlap/time.Second))) * time.Second
	h, secret, until, err := s.hooks.Rotate(ctx, tx, in.Caller.Account.ID, in.Params.ID, in.Params.HookID, orZero(in.Body.Secret), overlap)
	return s.hookWithSecret(h, secret, until), err
}

func (s *Sessions) contractHook(h stoa.Hook) contract.Hook {
	sig := h.Signature
	out := contract.Hook{
		ID: h.ID, Object: "hook", AgentID: h.AgentID, Name: h.Name, URL: s.link("/api/v1/hooks/" + h.ID), Signature: contract.HookSignature{Kind: sig.Kind},
		Message: h.Message, ExternalID: nullIfZero(h.ExternalID), ExternalUserID: nullIfZero(h.ExternalUserID), EventID: nullIfZero(h.EventID),
		Mode: string(h.Mode), Networks: append([]string{}, h.Networks...), TurnsPerDay: h.TurnsPerDay, MaxCreditsMicroPerTurn: nullIfZero(int64(h.MaxCredits)),
		Enabled: h.Disabled == "", DisabledReason: nullIfZero(h.Disabled), CreatedAt: contract.Time(h.CreatedAt), UpdatedAt: contract.Time(h.UpdatedAt),
	}
	if sig.Kind == stoa.SignedHMAC {
		out.Signature.Header, out.Signature.Algorithm = nullable.NewNullableWithValue(sig.Header), nullable.NewNullableWithValue(sig.Algorithm)
		out.Signature.Encoding, out.Signature.Prefix = nullable.NewNullableWithValue(sig.Encoding), nullIfZero(sig.Prefix)
	}
	return out
}

type byPublicHook struct {
	HookID string `path:"hookId"`
}

// receivedText is the text that Slack shows to the person who sent a slash command.
const receivedText = "Received."

func (s *Sessions) receiveHook(w http.ResponseWriter, in rest.PublicRequest[byPublicHook, rest.None]) error {
	r := in.HTTP
	got, err := s.hooks.Receive(r.Context(), in.Params.HookID, hook.Request{Header: r.Header, Address: s.ClientAddr(r), Network: s.ClientAddress(r)}, func() ([]byte, error) { return s.ReadBytes(w, r) })
	out := contract.HookReceipt{Object: "hook.receipt", Duplicate: got.Duplicate, SessionID: nullIfZero(got.SessionID), Challenge: nullIfZero(got.Challenge)}
	if got.Form {
		out.Text = receivedText
	}
	return rest.Answer(w, rest.Reply[contract.HookReceipt]{Body: out}, err)
}
