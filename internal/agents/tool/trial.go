package tool

import (
	"cmp"
	"context"
	"math/rand/v2"
	"strings"
	"time"

	"stoa/internal/agents/remote"
	"stoa/internal/base/jsonx"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
)

// trialLost is the age after which the process of an unfinished trial call is considered
// lost; no call takes half as long.
const trialLost = 15 * time.Minute

// beginTrial records a call without a session before it is sent, because this process may die
// during the call.
func (t *Tools) beginTrial(ctx context.Context, c store.Connection, row store.ConnectionTool, trial Trial) (call stoa.ExternalCall, err error) {
	err = t.Store.Write(ctx, func(tx *store.Tx) error {
		call = stoa.ExternalCall{
			ID: stoa.NewID("cal"), AccountID: c.AccountID, Step: tx.Now.UnixMicro(), Place: int(rand.Int32()), // because without a session nothing else is unique
			Type: stoa.ToolConnection, Tool: row.ModelName, Title: remote.Parse(row.ApprovedDefinition).Title, ConnectionID: c.ID, DefinitionSHA256: row.ApprovedSHA256,
			Arguments: cmp.Or(string(trial.Arguments), "{}"), IdempotencyArgument: row.IdempotencyArgument, OnUnknown: row.OnUnknown, Effects: stoa.Effects(row.Effects), Status: stoa.CallClaimed, Attempts: 1, CreatedAt: tx.Now, StartedAt: tx.Now,
			TimeoutSeconds: c.Limits.TimeoutSeconds, SecretID: secretOf(c, nil),
		}
		call.Title = cut(call.Title, 200)
		if call.IdempotencyArgument != "" {
			call.Arguments = jsonx.WithMember(call.Arguments, call.IdempotencyArgument, call.ID)
		}
		if err := tx.Work().EndLostTrials(ctx, c.AccountID, tx.Now.Add(-trialLost)); err != nil {
			return err
		}
		if err := tx.Work().InsertToolCall(ctx, call); err != nil {
			return err
		}
		return tx.Work().UpdateToolCall(ctx, call)
	})
	return call, err
}

// endTrial records the outcome, even if the caller has disconnected.
func (t *Tools) endTrial(ctx context.Context, call stoa.ExternalCall, out Outcome) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	call.Status, call.Outcome = stoa.CallDone, stoa.OutcomeError
	switch out.Outcome {
	case "ok":
		call.Outcome = stoa.OutcomeOK
	case string(remote.Unknown):
		call.Outcome = stoa.OutcomeUnknown
	}
	call.Result = out.Message
	if out.Result != nil {
		call.Result = strings.ReplaceAll(strings.ToValidUTF8(out.Result.Text, "\ufffd"), "\x00", "\ufffd")
	}
	return t.Store.Write(ctx, func(tx *store.Tx) error {
		call.FinishedAt = tx.Now
		return tx.Work().UpdateToolCall(ctx, call)
	})
}
