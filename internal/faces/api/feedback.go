package api

import (
	"context"

	"stoa/internal/base/contract"
	"stoa/internal/base/rest"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
)

func (s *Sessions) listFeedback(ctx context.Context, in rest.Request[contract.ListFeedbackParams, rest.None]) (rest.Reply[rest.Page[contract.Feedback]], error) {
	accountID, q := in.Caller.Account.ID, in.Params
	f := store.FeedbackFilter{AgentID: q.AgentID, SessionID: q.SessionID, Rating: q.Rating, By: q.By}
	p := rest.NewPager(q.Limit, q.Cursor, q.Order, "feedback", accountID, f.AgentID, f.SessionID, f.Rating, f.By)
	list, next, err := s.Sessions.ListFeedback(ctx, accountID, f, p.Page)
	n := namesOf(accountID)
	for _, r := range list {
		n.add(store.NamedAgents, r.AgentID)
	}
	return rest.PageTo(p, list, next, n.load(ctx, s.Store, err), func(r store.RatedReply) contract.Feedback {
		return contract.Feedback{
			ID: r.ID, AgentID: r.AgentID, AgentName: n.of(store.NamedAgents, r.AgentID), SessionID: r.SessionID, SessionTitle: nullIfZero(r.Title),
			ExternalUserID: nullIfZero(r.ExternalUserID), MessageID: r.MessageID, Turn: r.Turn, Reply: r.Reply, By: r.By, Rating: r.Rating,
			Comment: nullIfZero(r.Comment), KeyID: nullIfZero(r.KeyID), CreatedAt: contract.Time(r.CreatedAt), UpdatedAt: contract.Time(r.UpdatedAt),
		}
	})
}

type byMessageID struct {
	bySessionID
	MessageID string `path:"messageId"`
}

func (s *Sessions) setFeedback(ctx context.Context, in rest.Request[byMessageID, contract.SetFeedback]) (rest.Reply[contract.MessageFeedback], error) {
	q := in.Params
	r, err := store.Write(ctx, s.Store, func(tx *store.Tx) (stoa.Feedback, error) {
		return s.Sessions.Rate(ctx, tx, in.Caller.Account.ID, q.ID, q.SessionID, q.MessageID, stoa.Feedback{By: stoa.ByAccount, Rating: in.Body.Rating, Comment: orZero(in.Body.Comment), KeyID: in.Caller.Key.ID})
	})
	return rest.Reply[contract.MessageFeedback]{Body: contractFeedback(r)}, err
}

func (s *Sessions) deleteFeedback(ctx context.Context, in rest.Request[byMessageID, rest.None]) (rest.Reply[rest.None], error) {
	q := in.Params
	return rest.NoContent(), s.Store.Write(ctx, func(tx *store.Tx) error {
		return s.Sessions.Unrate(ctx, tx, in.Caller.Account.ID, q.ID, q.SessionID, q.MessageID, stoa.ByAccount)
	})
}

func contractFeedback(r stoa.Feedback) contract.MessageFeedback {
	return contract.MessageFeedback{By: r.By, Rating: r.Rating, Comment: nullIfZero(r.Comment), UpdatedAt: contract.Time(r.UpdatedAt)}
}

type byChatMessage struct {
	byChatID
	MessageID string `path:"messageId"`
}

func (s *Embeds) setEmbedFeedback(ctx context.Context, in VisitorRequest[byChatMessage, contract.SetFeedback]) (rest.Reply[contract.VisitorFeedback], error) {
	r, err := store.Write(ctx, s.Store, func(tx *store.Tx) (stoa.Feedback, error) {
		return s.embeds.Rate(ctx, tx, in.Visitor, in.Params.MessageID, in.Body.Rating, orZero(in.Body.Comment))
	})
	return rest.Reply[contract.VisitorFeedback]{Body: contract.VisitorFeedback{Rating: r.Rating, Comment: nullIfZero(r.Comment)}}, err
}

func (s *Embeds) deleteEmbedFeedback(ctx context.Context, in VisitorRequest[byChatMessage, rest.None]) (rest.Reply[rest.None], error) {
	return rest.NoContent(), s.Store.Write(ctx, func(tx *store.Tx) error {
		_, err := s.embeds.Rate(ctx, tx, in.Visitor, in.Params.MessageID, "", "")
		return err
	})
}
