package responses

import (
	"bytes"
	"fmt"
	"net/http"
	"strconv"

	"stoa/internal/base/contract"
	"stoa/internal/base/jsonx"
	"stoa/internal/base/stoa"
	"stoa/internal/models/wire"
)

// Replay answers a request with the stored reply of an earlier call: the same object, or a
// stream with one piece per item. stored is the JSON that was passed to [Claim], amount the
// charge of the earlier call. An empty text is a reply without use.
func (s *Service) Replay(w http.ResponseWriter, req *Request, stored string, amount stoa.Credits) error {
	h := w.Header()
	h.Set("Idempotency-Replayed", "true")
	if stored == "" {
		return req.unusable(&outcome{other: "unknown"})
	}
	f := req.format.newFormat()
	rep, o, err := f.restore([]byte(stored))
	if err != nil {
		return fmt.Errorf("read a stored reply: %w", err)
	}
	if rep.model != req.Model {
		h.Set("stoa-model-requested", req.Model)
	}
	if !req.Stream {
		h.Set("Content-Type", "application/json")
		h.Set("stoa-charge-micro", strconv.FormatInt(int64(amount), 10))
		_, _ = w.Write([]byte(stored)) // ignored, because a disconnected client may repeat the request
		return nil
	}
	out := s.stream(w, f, rep, func(*reply) {})
	defer out.release()
	for i, was := range o.items {
		it := &item{kind: was.kind, index: i, id: was.id, status: was.status, phase: was.phase, callID: was.callID, name: was.name, namespace: was.namespace, custom: was.custom, vendors: was.vendors, members: was.members}
		out.opened(it)
		for _, p := range was.pieces() {
			_ = out.piece(it, p.kind, p.text, true)
		}
		it.sealed = was.sealed
		out.closed(it)
		o.items[i] = it
	}
	_ = out.end(o)
	return nil
}

// restore implements [format]. Members that repeat the request are copied unchanged.
func (f *responsesFormat) restore(stored []byte) (*reply, *outcome, error) {
	var was contract.Response
	if err := jsonx.Unmarshal(stored, &was); err != nil {
		return nil, nil, err
	}
	if i := bytes.Index(stored, []byte(echoBegins)); i >= 0 {
		f.echoed = stored[i : len(stored)-1]
	}
	o := &outcome{status: string(was.Status), usage: usageOf(was.Usage)}
	if was.CompletedAt != nil {
		o.completedAt = *was.CompletedAt
	}
	if was.IncompleteDetails != nil {
		o.reason = was.IncompleteDetails.Reason
	}
	for i, out := range was.Output {
		it := &item{kind: itemMessage, index: i, id: out.ID, status: out.Status, phase: out.Phase, callID: out.CallID, name: out.Name, namespace: out.Namespace, sealed: out.EncryptedContent}
		switch out.Type {
		case "reasoning":
			it.kind = itemReasoning
			for _, part := range out.Summary {
				it.add(pieceSummary, part.Text)
			}
		case "compaction":
			it.kind = itemCompaction
		case "function_call":
			it.kind = itemCall
			it.add(pieceArguments, out.Arguments)
		case "custom_tool_call":
			it.kind, it.custom = itemCall, true
			it.add(pieceArguments, out.Input)
		default:
			if _, t, _ := wire.ToolOfItem(out.Type); t != nil {
				it.kind, it.vendors, it.members = itemCall, out.Type, out.Members
			}
		}
		for _, part := range out.Content {
			it.add(pieceText, part.Text)
			it.add(pieceRefusal, part.Refusal)
		}
		o.items = append(o.items, it)
	}
	return &reply{id: was.ID, created: was.CreatedAt, model: was.Model}, o, nil
}

type piece struct {
	kind pieceKind
	text string
}

func (it *item) pieces() []piece {
	var all []piece
	add := func(kind pieceKind, text joined) {
		if !text.empty() {
			all = append(all, piece{kind, text.String()})
		}
	}
	switch it.kind {
	case itemReasoning:
		add(pieceSummary, it.text)
	case itemCall:
		add(pieceArguments, it.text)
	default:
		add(pieceText, it.text)
		add(pieceRefusal, it.refusal)
	}
	return all
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
