package api

import (
	"context"
	"slices"

	"github.com/oapi-codegen/nullable"

	"stoa/internal/auth"
	"stoa/internal/contract"
	"stoa/internal/session"
	"stoa/internal/stoa"
	"stoa/internal/store"
)

// embedMessages is how many messages a visitor's page gets at once.
const embedMessages = 200

// embedded is who shows a token, as the adapter found out.
func embedded(ctx context.Context) auth.Embedded { return LogFields(ctx).embedded }

// ExchangeEmbedURL serves POST /api/v1/embed/exchange.
func (s *Server) ExchangeEmbedURL(ctx context.Context, in contract.ExchangeEmbedURLRequestObject) (contract.ExchangeEmbedURLResponseObject, error) {
	if r := LogFields(ctx).request; !s.fromOurPage(r) {
		if stoa.IsID("emu", in.Body.EmbedURLID) {
			s.refuseExchange(ctx, in.Body.EmbedURLID)
		}
		return nil, wrongOrigin()
	}
	var out contract.EmbedToken
	err := s.Store.Write(ctx, func(tx *store.Tx) error {
		who, token, err := s.embeds().Exchange(ctx, tx, in.Body.EmbedURLID, in.Body.Ticket)
		out = contractToken(who, token)
		return err
	})
	return contract.ExchangeEmbedURL200JSONResponse(out), err
}

// refuseExchange notes a page that tried, if there is such an embed.
func (s *Server) refuseExchange(ctx context.Context, id string) {
	found := false
	err := s.Store.Read(ctx, func(tx *store.Tx) (err error) {
		_, found, err = tx.EmbedByID(ctx, id)
		return err
	})
	if err == nil && found {
		s.refuseOrigin(LogFields(ctx).request, id)
	}
}

func contractToken(who auth.Embedded, token string) contract.EmbedToken {
	return contract.EmbedToken{
		Token: token, ChatSessionID: who.Embed.ChatID,
		ExpiresAt: contract.Time(who.ExpiresAt), ChatExpiresAt: contract.Time(who.Embed.ChatExpiresAt),
	}
}

// RefreshEmbedToken serves POST /api/v1/embed/refresh.
func (s *Server) RefreshEmbedToken(ctx context.Context, _ contract.RefreshEmbedTokenRequestObject) (contract.RefreshEmbedTokenResponseObject, error) {
	var out contract.EmbedToken
	err := s.Store.Write(ctx, func(tx *store.Tx) error {
		who := embedded(ctx)
		e, found, err := tx.LockEmbed(ctx, who.Embed.ID)
		if err != nil {
			return err
		}
		if !found || !e.RevokedAt.IsZero() {
			return stoa.Errorf(stoa.CodeUnauthorized, "The embed token is no longer valid.")
		}
		var token string
		token, who.ExpiresAt, err = s.embeds().NewToken(ctx, tx, e)
		out = contractToken(who, token)
		return err
	})
	return contract.RefreshEmbedToken200JSONResponse(out), err
}

// GetEmbedChat serves GET /api/v1/embed/chat-sessions/{chatId}.
func (s *Server) GetEmbedChat(ctx context.Context, _ contract.GetEmbedChatRequestObject) (contract.GetEmbedChatResponseObject, error) {
	var out contract.EmbedChat
	err := s.Store.Read(ctx, func(tx *store.Tx) (err error) {
		out, err = chatView(ctx, tx, embedded(ctx))
		return err
	})
	return contract.GetEmbedChat200JSONResponse(out), err
}

// chatSession is the session of a chat; nil while its first message has not
// come.
func chatSession(ctx context.Context, tx *store.Tx, e store.Embed) (*store.SessionRow, error) {
	row, err := tx.Session(ctx, e.AccountID, e.AgentID, e.ChatID)
	if err == nil {
		return &row, nil
	}
	if stoa.CodeOf(err) != stoa.CodeSessionNotFound {
		return nil, err
	}
	_, begun, found, chatErr := tx.EmbedChat(ctx, e.AccountID, e.AgentID, e.ChatID)
	if chatErr != nil {
		return nil, chatErr
	}
	if !found || begun {
		return nil, err
	}
	return nil, nil
}

// chatView is what a visitor may know. lastEventSeq is where its events go on:
// a message that is being written comes without text, and its pieces are among
// the events after that number.
func chatView(ctx context.Context, tx *store.Tx, who auth.Embedded) (contract.EmbedChat, error) {
	e, _, err := tx.EmbedByID(ctx, who.Embed.ID) // its counters may have changed
	if err != nil {
		return contract.EmbedChat{}, err
	}
	out := contract.EmbedChat{
		ID: e.ChatID, Object: "embed.chat_session", Agent: contract.EmbedAgent{Name: who.Agent.Name}, Status: string(stoa.SessionCompleted),
		Messages: []contract.EmbedMessage{}, PendingInput: contractInput(nil), Error: nullable.NewNullNullable[contract.EmbedError](),
		Greeting: unlessZero(e.Greeting), Theme: e.Theme, MaxMessageChars: e.MaxMessageChars,
		ExpiresAt: contract.Time(who.ExpiresAt), ChatExpiresAt: contract.Time(e.ChatExpiresAt),
	}
	row, err := chatSession(ctx, tx, e)
	if err != nil {
		return out, err
	}
	var spent stoa.Credits
	if row != nil {
		spent = row.Spent
		out.Status, out.LastEventSeq, out.PendingInput = string(row.Status), row.LastSeq, contractInput(row.Pending)
		if f := row.Turn.Failure; f != nil {
			message, again := toVisitor(f.Code, f.Retryable)
			out.Error = nullable.NewNullableWithValue(contract.EmbedError{Message: message, Retryable: again})
		}
		list, more, err := tx.Messages(ctx, row.ID, 0, embedMessages, true)
		if err != nil {
			return out, err
		}
		slices.Reverse(list)
		for _, m := range list {
			if m.Status == stoa.MessageInProgress {
				out.LastEventSeq = min(out.LastEventSeq, m.FirstSeq)
			}
			out.Messages = append(out.Messages, contract.EmbedMessage{
				ID: m.ID, Role: string(m.Role), Kind: m.Kind, Status: string(m.Status), Text: m.Text, CreatedAt: contract.Time(m.CreatedAt),
			})
		}
		out.HasEarlierMessages = more
	}
	out.Remaining = contract.EmbedRemaining{Messages: max(0, e.MaxMessages-e.Messages), LimitReached: auth.Exhausted(e, spent)}
	return out, nil
}

// toVisitor says why there is no answer, as far as a visitor need know: models,
// balances and the workings of the service are the owner's business.
func toVisitor(code stoa.Code, again bool) (message string, retryable bool) {
	switch code {
	case "input_expired":
		return "The question was not answered in time.", true
	case "credit_limit_reached":
		return "This chat has reached its limit.", false
	case "content_filter", stoa.CodeInvalidPrompt:
		return "There is no answer to this. Ask in another way.", false
	}
	return "There is no answer at the moment.", again
}

// inChat is what a visitor's verb does in its transaction: the verb runs on the
// chat, the message is counted, the cap set. begin is called for the
// first message, other for every other.
func (s *Server) inChat(ctx context.Context, tx *store.Tx, begin, other func() (stoa.Session, error)) (contract.EmbedChat, error) {
	who := embedded(ctx)
	e := who.Embed
	row, err := chatSession(ctx, tx, e)
	if err != nil {
		return contract.EmbedChat{}, err
	}
	if row == nil && begin == nil {
		_, err := other()
		return contract.EmbedChat{}, err
	}
	var spent stoa.Credits
	if row != nil {
		spent = row.Spent
	}
	verb := other
	if row == nil {
		first, err := tx.BeginEmbedChat(ctx, e.AccountID, e.ChatID)
		if err != nil {
			return contract.EmbedChat{}, err
		}
		if first {
			verb = begin
		}
	}
	var most stoa.Credits
	if e.MaxCredits > 0 {
		most = e.SpentBefore + e.MaxCredits
	}
	if _, err := verb(); err != nil {
		return contract.EmbedChat{}, err
	}
	// Counted last, so that what is wrong with the request itself is told first;
	// a refusal takes all of it back.
	if err := s.embeds().Send(ctx, tx, e.ID, spent); err != nil {
		return contract.EmbedChat{}, err
	}
	if err := tx.CapSession(ctx, e.AccountID, e.ChatID, most); err != nil {
		return contract.EmbedChat{}, err
	}
	return chatView(ctx, tx, who)
}

func checkVisitorText(e store.Embed, member, text string) error {
	return checkLengths(lengthLimit{member, text, e.MaxMessageChars})
}

// SendEmbedMessage serves POST …/chat-sessions/{chatId}/messages.
func (s *Server) SendEmbedMessage(ctx context.Context, in contract.SendEmbedMessageRequestObject) (contract.SendEmbedMessageResponseObject, error) {
	who := embedded(ctx)
	e, text := who.Embed, in.Body.Message
	if err := checkVisitorText(e, "message", text); err != nil {
		return nil, err
	}
	if err := s.admitVisitor(e); err != nil {
		return nil, err
	}
	return makeOnce(ctx, s, false, contract.SendEmbedMessageResponseObject.VisitSendEmbedMessageResponse, func(tx *store.Tx) (contract.SendEmbedMessageResponseObject, error) {
		chat, err := s.inChat(ctx, tx, func() (stoa.Session, error) {
			return s.Sessions.Start(ctx, tx, who.Caller, session.StartRequest{
				ID: e.ChatID, AgentID: e.AgentID, Message: text, ExternalUserID: e.ExternalUserID, Trigger: stoa.Trigger{Type: "embed", ID: e.ID},
			})
		}, func() (stoa.Session, error) {
			return s.Sessions.Send(ctx, tx, who.Caller, e.AgentID, e.ChatID, session.SendRequest{Message: text})
		})
		return contract.SendEmbedMessage202JSONResponse{Headers: contract.SendEmbedMessage202ResponseHeaders{RetryAfter: pollAfter}, Body: chat}, err
	})
}

// AnswerEmbedInput serves POST …/chat-sessions/{chatId}/input.
func (s *Server) AnswerEmbedInput(ctx context.Context, in contract.AnswerEmbedInputRequestObject) (contract.AnswerEmbedInputResponseObject, error) {
	who := embedded(ctx)
	req := session.AnswerRequest{
		InputID: in.Body.InputID, Answer: orZero(in.Body.Answer), Choice: orZero(in.Body.Choice), Decision: orZero(in.Body.Decision),
	}
	if err := checkVisitorText(who.Embed, "answer", req.Answer); err != nil {
		return nil, err
	}
	if err := s.admitVisitor(who.Embed); err != nil {
		return nil, err
	}
	return makeOnce(ctx, s, false, contract.AnswerEmbedInputResponseObject.VisitAnswerEmbedInputResponse, func(tx *store.Tx) (contract.AnswerEmbedInputResponseObject, error) {
		chat, err := s.inChat(ctx, tx, nil, func() (stoa.Session, error) {
			return s.Sessions.Answer(ctx, tx, who.Caller, who.Embed.AgentID, who.Embed.ChatID, req)
		})
		return contract.AnswerEmbedInput202JSONResponse{Headers: contract.AnswerEmbedInput202ResponseHeaders{RetryAfter: pollAfter}, Body: chat}, err
	})
}

// RetryEmbedChat serves POST …/chat-sessions/{chatId}/retry.
func (s *Server) RetryEmbedChat(ctx context.Context, _ contract.RetryEmbedChatRequestObject) (contract.RetryEmbedChatResponseObject, error) {
	who := embedded(ctx)
	if err := s.admitVisitor(who.Embed); err != nil {
		return nil, err
	}
	return makeOnce(ctx, s, false, contract.RetryEmbedChatResponseObject.VisitRetryEmbedChatResponse, func(tx *store.Tx) (contract.RetryEmbedChatResponseObject, error) {
		chat, err := s.inChat(ctx, tx, nil, func() (stoa.Session, error) {
			session, err := s.Sessions.Retry(ctx, tx, who.Caller, who.Embed.AgentID, who.Embed.ChatID)
			if stoa.CodeOf(err) == stoa.CodeSessionNotFound {
				if _, begun, found, chatErr := tx.EmbedChat(ctx, who.Embed.AccountID, who.Embed.AgentID, who.Embed.ChatID); chatErr == nil && found && !begun {
					err = stoa.Errorf(stoa.CodeSessionFinished, "Nothing was said yet that could be answered again.")
				}
			}
			return session, err
		})
		return contract.RetryEmbedChat202JSONResponse{Headers: contract.RetryEmbedChat202ResponseHeaders{RetryAfter: pollAfter}, Body: chat}, err
	})
}

// CancelEmbedChat serves POST …/chat-sessions/{chatId}/cancel.
func (s *Server) CancelEmbedChat(ctx context.Context, _ contract.CancelEmbedChatRequestObject) (contract.CancelEmbedChatResponseObject, error) {
	who := embedded(ctx)
	_, err := s.Sessions.Cancel(ctx, who.Caller, who.Embed.AgentID, who.Embed.ChatID)
	if err != nil && stoa.CodeOf(err) != stoa.CodeSessionNotFound {
		return nil, err
	}
	var chat contract.EmbedChat // a chat that has not begun is idle
	err = s.Store.Read(ctx, func(tx *store.Tx) (err error) {
		chat, err = chatView(ctx, tx, who)
		return err
	})
	if err != nil {
		return nil, err
	}
	if stoa.SessionStatus(chat.Status).Stopped() {
		return contract.CancelEmbedChat200JSONResponse(chat), nil
	}
	return contract.CancelEmbedChat202JSONResponse{Headers: contract.CancelEmbedChat202ResponseHeaders{RetryAfter: pollAfter}, Body: chat}, nil
}
