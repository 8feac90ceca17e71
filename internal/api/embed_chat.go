package api

import (
	"context"

	"github.com/oapi-codegen/nullable"

	"stoa/internal/contract"
	"stoa/internal/embed"
	"stoa/internal/session"
	"stoa/internal/store"
)

// embedded returns the visitor that sends the request.
func embedded(ctx context.Context) embed.Visitor { return LogFields(ctx).embedded }

// ExchangeEmbedURL serves POST /api/v1/embed/exchange.
func (s *Server) ExchangeEmbedURL(ctx context.Context, in contract.ExchangeEmbedURLRequestObject) (contract.ExchangeEmbedURLResponseObject, error) {
	if err := s.embeds.CheckExchange(ctx, in.Body.EmbedURLID, pageOf(LogFields(ctx).request)); err != nil {
		return nil, err
	}
	var out contract.EmbedToken
	err := s.Store.Write(ctx, func(tx *store.Tx) error {
		who, token, err := s.embeds.Exchange(ctx, tx, in.Body.EmbedURLID, in.Body.Ticket)
		out = contractToken(who, token)
		return err
	})
	return contract.ExchangeEmbedURL200JSONResponse(out), err
}

func contractToken(who embed.Visitor, t embed.Token) contract.EmbedToken {
	return contract.EmbedToken{
		Token: t.Secret, ChatSessionID: who.Embed.ChatID,
		ExpiresAt: contract.Time(t.ExpiresAt), ChatExpiresAt: contract.Time(who.Embed.ChatExpiresAt),
	}
}

// RefreshEmbedToken serves POST /api/v1/embed/refresh.
func (s *Server) RefreshEmbedToken(ctx context.Context, _ contract.RefreshEmbedTokenRequestObject) (contract.RefreshEmbedTokenResponseObject, error) {
	var out contract.EmbedToken
	err := s.Store.Write(ctx, func(tx *store.Tx) error {
		token, err := s.embeds.Renew(ctx, tx, embedded(ctx))
		out = contractToken(embedded(ctx), token)
		return err
	})
	return contract.RefreshEmbedToken200JSONResponse(out), err
}

// GetEmbedChat serves GET /api/v1/embed/chat-sessions/{chatId}.
func (s *Server) GetEmbedChat(ctx context.Context, _ contract.GetEmbedChatRequestObject) (contract.GetEmbedChatResponseObject, error) {
	chat, err := s.embeds.Chat(ctx, embedded(ctx))
	return contract.GetEmbedChat200JSONResponse(contractChat(chat)), err
}

func contractChat(c embed.Chat) contract.EmbedChat {
	e := c.Embed
	out := contract.EmbedChat{
		ID: e.ChatID, Object: "embed.chat_session", Agent: contract.EmbedAgent{Name: c.AgentName}, Status: string(c.Status), LastEventSeq: c.LastSeq,
		Messages: []contract.EmbedMessage{}, HasEarlierMessages: c.HasEarlier, PendingInput: contractInput(c.Pending), Error: nullable.NewNullNullable[contract.EmbedError](),
		Greeting: unlessZero(e.Greeting), Theme: e.Theme, MaxMessageChars: e.MaxMessageChars,
		Remaining: contract.EmbedRemaining{Messages: c.MessagesDue, LimitReached: c.Exhausted},
		ExpiresAt: contract.Time(c.ExpiresAt), ChatExpiresAt: contract.Time(e.ChatExpiresAt),
	}
	if c.Problem != nil {
		out.Error = nullable.NewNullableWithValue(contract.EmbedError{Message: c.Problem.Message, Retryable: c.Problem.Retryable})
	}
	for _, m := range c.Messages {
		out.Messages = append(out.Messages, contract.EmbedMessage{
			ID: m.ID, Role: string(m.Role), Kind: m.Kind, Status: string(m.Status), Text: m.Text, CreatedAt: contract.Time(m.CreatedAt),
		})
	}
	return out
}

// SendEmbedMessage serves POST …/chat-sessions/{chatId}/messages.
func (s *Server) SendEmbedMessage(ctx context.Context, in contract.SendEmbedMessageRequestObject) (contract.SendEmbedMessageResponseObject, error) {
	who := embedded(ctx)
	if err := embed.CheckText(who.Embed, "message", in.Body.Message); err != nil {
		return nil, err
	}
	if err := s.embeds.Admit(who.Embed); err != nil {
		return nil, err
	}
	return makeOnce(ctx, s, false, contract.SendEmbedMessageResponseObject.VisitSendEmbedMessageResponse, func(tx *store.Tx) (contract.SendEmbedMessageResponseObject, error) {
		chat, err := s.embeds.Say(ctx, tx, who, in.Body.Message)
		return contract.SendEmbedMessage202JSONResponse{Headers: contract.SendEmbedMessage202ResponseHeaders{RetryAfter: pollAfter}, Body: contractChat(chat)}, err
	})
}

// AnswerEmbedInput serves POST …/chat-sessions/{chatId}/input.
func (s *Server) AnswerEmbedInput(ctx context.Context, in contract.AnswerEmbedInputRequestObject) (contract.AnswerEmbedInputResponseObject, error) {
	who := embedded(ctx)
	req := session.AnswerRequest{
		InputID: in.Body.InputID, Answer: orZero(in.Body.Answer), Choice: orZero(in.Body.Choice), Decision: orZero(in.Body.Decision),
	}
	if err := embed.CheckText(who.Embed, "answer", req.Answer); err != nil {
		return nil, err
	}
	if err := s.embeds.Admit(who.Embed); err != nil {
		return nil, err
	}
	return makeOnce(ctx, s, false, contract.AnswerEmbedInputResponseObject.VisitAnswerEmbedInputResponse, func(tx *store.Tx) (contract.AnswerEmbedInputResponseObject, error) {
		chat, err := s.embeds.Answer(ctx, tx, who, req)
		return contract.AnswerEmbedInput202JSONResponse{Headers: contract.AnswerEmbedInput202ResponseHeaders{RetryAfter: pollAfter}, Body: contractChat(chat)}, err
	})
}

// RetryEmbedChat serves POST …/chat-sessions/{chatId}/retry.
func (s *Server) RetryEmbedChat(ctx context.Context, _ contract.RetryEmbedChatRequestObject) (contract.RetryEmbedChatResponseObject, error) {
	who := embedded(ctx)
	if err := s.embeds.Admit(who.Embed); err != nil {
		return nil, err
	}
	return makeOnce(ctx, s, false, contract.RetryEmbedChatResponseObject.VisitRetryEmbedChatResponse, func(tx *store.Tx) (contract.RetryEmbedChatResponseObject, error) {
		chat, err := s.embeds.Retry(ctx, tx, who)
		return contract.RetryEmbedChat202JSONResponse{Headers: contract.RetryEmbedChat202ResponseHeaders{RetryAfter: pollAfter}, Body: contractChat(chat)}, err
	})
}

// CancelEmbedChat serves POST …/chat-sessions/{chatId}/cancel.
func (s *Server) CancelEmbedChat(ctx context.Context, _ contract.CancelEmbedChatRequestObject) (contract.CancelEmbedChatResponseObject, error) {
	chat, err := s.embeds.Cancel(ctx, embedded(ctx))
	if err != nil {
		return nil, err
	}
	if chat.Status.Stopped() {
		return contract.CancelEmbedChat200JSONResponse(contractChat(chat)), nil
	}
	return contract.CancelEmbedChat202JSONResponse{Headers: contract.CancelEmbedChat202ResponseHeaders{RetryAfter: pollAfter}, Body: contractChat(chat)}, nil
}
