package responses

import (
	"fmt"
	"net/http"
	"strconv"

	"stoa/internal/contract"
	"stoa/internal/jsonx"
	"stoa/internal/stoa"
)

// Replay answers a request with the stored reply of an earlier call: the same
// object, or a stream with the whole text in one delta. stored is the JSON that
// [Claim] was given, amount what the earlier call was charged.
func (s *Service) Replay(w http.ResponseWriter, req *Request, stored string, amount stoa.Credits) error {
	var was contract.Response
	if err := jsonx.Unmarshal([]byte(stored), &was); err != nil {
		return fmt.Errorf("read a stored reply: %w", err)
	}
	h := w.Header()
	h.Set("Idempotency-Replayed", "true")
	if was.Model != req.Model {
		h.Set("stoa-model-requested", req.Model)
	}
	if !req.Stream {
		h.Set("Content-Type", "application/json")
		h.Set("stoa-charge-micro", strconv.FormatInt(int64(amount), 10))
		_, _ = w.Write([]byte(stored)) // a client that is gone may repeat the request
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
	out := s.stream(w, nil, rep, func() string { return was.Model })
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
