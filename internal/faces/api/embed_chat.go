package api

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"github.com/oapi-codegen/nullable"

	"stoa/internal/agents/embed"
	"stoa/internal/agents/session"
	"stoa/internal/base/contract"
	"stoa/internal/base/rest"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
)

func (s *Embeds) exchangeEmbedURL(ctx context.Context, in rest.PublicRequest[rest.None, contract.ExchangeEmbedURL]) (rest.Reply[contract.EmbedToken], error) {
	b := in.Body
	if err := s.embeds.CheckExchange(ctx, b.EmbedURLID, s.pageFrom(in.HTTP)); err != nil {
		return rest.Reply[contract.EmbedToken]{}, err
	}
	out, err := store.Write(ctx, s.Store, func(tx *store.Tx) (contract.EmbedToken, error) {
		who, token, err := s.embeds.Exchange(ctx, tx, b.EmbedURLID, b.Ticket)
		return contractToken(who, token), err
	})
	return rest.Reply[contract.EmbedToken]{Body: out}, err
}

func contractToken(who embed.Visitor, t embed.Token) contract.EmbedToken {
	return contract.EmbedToken{
		Token: t.Secret, ChatSessionID: who.Embed.ChatID,
		ExpiresAt: contract.Time(t.ExpiresAt), ChatExpiresAt: contract.Time(who.Embed.ChatExpiresAt),
	}
}

func (s *Embeds) refreshEmbedToken(ctx context.Context, in VisitorRequest[rest.None, rest.None]) (rest.Reply[contract.EmbedToken], error) {
	out, err := store.Write(ctx, s.Store, func(tx *store.Tx) (contract.EmbedToken, error) {
		token, err := s.embeds.Renew(ctx, tx, in.Visitor)
		return contractToken(in.Visitor, token), err
	})
	return rest.Reply[contract.EmbedToken]{Body: out}, err
}

func (s *Embeds) getEmbedChat(ctx context.Context, in VisitorRequest[byChatID, rest.None]) (rest.Reply[contract.EmbedChat], error) {
	chat, err := s.embeds.Chat(ctx, in.Visitor)
	return rest.Reply[contract.EmbedChat]{Body: s.contractChat(chat)}, err
}

func (s *Embeds) contractChat(c embed.Chat) contract.EmbedChat {
	e := c.Embed
	out := contract.EmbedChat{
		ID: e.ChatID, Object: "embed.chat_session", Agent: contract.EmbedAgent{Name: c.AgentName}, Status: string(c.Status), LastEventSeq: c.LastSeq,
		Messages: []contract.EmbedMessage{}, HasEarlierMessages: c.HasEarlier, PendingInput: visitorInput(c), WaitingFor: nullUnless(c.Operator, "operator"), Error: nullable.NewNullNullable[contract.EmbedError](),
		Greeting: nullIfZero(e.Greeting), Title: nullIfZero(e.Title), LogoURL: nullIfZero(s.logoLink(e.Logo)), Starters: e.Starters, Feedback: e.Feedback, Contact: e.Contact, PersonRequestedAt: nullIfNever(c.Person), Theme: e.Theme, MaxMessageChars: e.MaxMessageChars, Attachments: contractVisitorAttachments(e.Attachments),
		Remaining: contract.EmbedRemaining{Messages: c.MessagesDue, LimitReached: c.Exhausted},
		ExpiresAt: contract.Time(c.ExpiresAt), ChatExpiresAt: contract.Time(e.ChatExpiresAt),
	}
	if c.Problem != nil {
		out.Error = nullable.NewNullableWithValue(contract.EmbedError{Message: c.Problem.Message, Retryable: c.Problem.Retryable})
	}
	for _, m := range c.Messages {
		message := contract.EmbedMessage{
			ID: m.ID, Role: string(m.Role), Kind: m.Kind, Status: string(m.Status), Text: m.Text, Attachments: contractAttachments(m.Attachments), CreatedAt: contract.Time(m.CreatedAt),
		}
		if r, ok := c.Ratings[m.ID]; ok {
			message.Feedback = contract.VisitorFeedback{Rating: r.Rating, Comment: nullIfZero(r.Comment)}
		}
		out.Messages = append(out.Messages, message)
	}
	return out
}

func visitorInput(c embed.Chat) nullable.Nullable[contract.PendingInput] {
	in, err := contractInput(c.Pending).Get()
	if err != nil {
		return nullable.NewNullNullable[contract.PendingInput]()
	}
	in.Calls, in.Confirmation = nil, contractConfirmation(c.Confirm)
	return nullable.NewNullableWithValue(in)
}

func contractConfirmation(c *session.ConfirmationData) (out contract.ToolConfirmation) {
	if c == nil {
		return out
	}
	out = contract.ToolConfirmation{Title: c.Title, Fields: []contract.ToolConfirmationField{}, PreviousOutcome: c.PreviousOutcome}
	for _, f := range c.Fields {
		out.Fields = append(out.Fields, contract.ToolConfirmationField{Name: f.Name, Value: f.Value, Cut: f.Cut})
	}
	return out
}

func (s *Embeds) acceptedChat(c embed.Chat) rest.Reply[contract.EmbedChat] {
	return rest.Reply[contract.EmbedChat]{Status: http.StatusAccepted, RetryAfter: pollAfter, Body: s.contractChat(c)}
}

func (s *Embeds) sendEmbedMessage(ctx context.Context, tx *store.Tx, in VisitorRequest[byChatID, contract.SendEmbedMessage]) (rest.Reply[contract.EmbedChat], error) {
	uploads := session.Uploads{ChatID: in.Visitor.Embed.ChatID}
	for _, a := range orZero(in.Body.Attachments) {
		uploads.IDs = append(uploads.IDs, a.UploadID)
	}
	chat, err := s.embeds.Say(ctx, tx, in.Visitor, in.Body.Message, in.Body.Timezone, uploads)
	return s.acceptedChat(chat), err
}

func (s *Embeds) answerEmbedInput(ctx context.Context, tx *store.Tx, in VisitorRequest[byChatID, contract.AnswerInput]) (rest.Reply[contract.EmbedChat], error) {
	chat, err := s.embeds.Answer(ctx, tx, in.Visitor, answerRequest(in.Body))
	return s.acceptedChat(chat), err
}

func (s *Embeds) retryEmbedChat(ctx context.Context, tx *store.Tx, in VisitorRequest[byChatID, rest.None]) (rest.Reply[contract.EmbedChat], error) {
	chat, err := s.embeds.Retry(ctx, tx, in.Visitor)
	return s.acceptedChat(chat), err
}

func (s *Embeds) cancelEmbedChat(ctx context.Context, in VisitorRequest[byChatID, rest.None]) (rest.Reply[contract.EmbedChat], error) {
	chat, err := s.embeds.Cancel(ctx, in.Visitor)
	if chat.Status.Stopped() {
		return rest.Reply[contract.EmbedChat]{Body: s.contractChat(chat)}, err
	}
	return s.acceptedChat(chat), err
}

const (
	embedWatch   = 700 * time.Millisecond // interval of the checks of a stream's token
	embedStreams = 10                     // concurrent streams of one embed
	tagStreams   = 3                      // maximum for one embed of a script tag; one before its first message
)

func (s *Embeds) listEmbedEvents(w http.ResponseWriter, in VisitorRequest[chatAnd[contract.ListEmbedEventsParams], rest.None]) error {
	ctx, e, q := in.HTTP.Context(), in.Visitor.Embed, in.Params.Query
	begun, last, err := s.embeds.Begun(ctx, e)
	if err != nil {
		return err
	}
	if in.HTTP.Method != http.MethodGet || !wantsStream(in.HTTP.Header.Values("Accept")) {
		var list []stoa.SessionEvent
		var more bool
		if begun {
			if list, more, err = s.sessions.Sessions.Log(ctx, e.AccountID, e.AgentID, e.ChatID, q.After, cmp.Or(q.Limit, defaultEventPage)); err != nil {
				return err
			}
		}
		sendEvents(w, list, q.After, more, embed.Visible)
		return nil
	}
	after := q.After
	if q.LastEventID != nil {
		after = *q.LastEventID
	}
	if begun {
		after = min(after, last)
	} else {
		after = 0
	}
	stream := &sessionStream{
		ctx: ctx, s: s.sessions, slot: e.ID, most: embedStreams,
		account: "visitors " + e.AccountID, mostOfAccount: s.Limits.VisitorStreamsPerAccount, only: embed.Visible,
		req: session.EventsRequest{AccountID: e.AccountID, AgentID: e.AgentID, SessionID: e.ChatID, After: after, Follow: q.Follow, ThroughTools: true, Heartbeat: watchEvery},
	}
	authorization := in.HTTP.Header.Get("Authorization")
	checked := time.Now()
	stream.mayWatch = func() bool {
		if time.Since(checked) < embedWatch {
			return true
		}
		checked = time.Now()
		return s.embeds.StillValid(ctx, authorization, e.ID)
	}
	begins := func() {}
	if e.TagID != "" {
		if stream.most = tagStreams; !begun {
			stream.most = 1
		}
		var leave func()
		if begins, leave, err = s.enterTagStream(e, !begun); err != nil {
			return err
		}
		defer leave()
	}
	if !begun {
		stream.first = func() bool {
			defer begins()
			return q.Follow && s.awaitChat(ctx, stream, e)
		}
	}
	return stream.serve(w)
}

func (s *Embeds) awaitChat(ctx context.Context, stream *sessionStream, e stoa.Embed) bool {
	t := time.NewTicker(watchEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-t.C:
		}
		begun, _, err := s.embeds.Begun(ctx, e)
		if begun || err != nil {
			return begun
		}
		if time.Since(stream.wrote) >= cmp.Or(s.sessions.Heartbeat, heartbeat) && stream.beat() != nil {
			return false
		}
		if !stream.mayGoOn() {
			return false
		}
	}
}

func (s *Embeds) requestPerson(ctx context.Context, in VisitorRequest[byChatID, rest.None]) (rest.Reply[contract.RequestedPerson], error) {
	at, err := store.Write(ctx, s.Store, func(tx *store.Tx) (time.Time, error) { return s.embeds.RequestPerson(ctx, tx, in.Visitor) })
	return rest.Reply[contract.RequestedPerson]{Body: contract.RequestedPerson{RequestedAt: contract.Time(at)}}, err
}
