package embed

import (
	"cmp"
	"context"
	"slices"
	"time"
	"unicode/utf8"

	"stoa/internal/agents/session"
	"stoa/internal/agents/webhook"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
)

const pageMessages = 200 // number of the latest messages on a visitor's page

// A Chat is a visitor's view of a chat.
type Chat struct {
	Embed     stoa.Embed
	AgentName string
	ExpiresAt time.Time // end of the visitor's token
	Status    stoa.SessionStatus
	Pending   *stoa.Input               // the input that the visitor can answer, without its calls; nil if the agent waits for none
	Confirm   *session.ConfirmationData // the call that Pending is about; nil if Pending is not about a call
	Operator  bool                      // the agent waits for an operator's decision; Status is running
	Problem   *Problem                  // the reason for a missing answer; nil if nothing failed

	Messages    []store.MessageRow       // the latest ones, in order
	Ratings     map[string]stoa.Feedback // of the visitor, by the ids of messages
	Person      time.Time                // latest time at which the visitor asked for a person; zero means never
	HasEarlier  bool
	LastSeq     int64 // number after which the chat's events continue
	MessagesDue int   // number of messages that may still be sent
	Exhausted   bool  // nothing more can be sent
}

// A Problem is a failure described for visitors.
type Problem struct {
	Message   string
	Retryable bool
}

// problemOf returns the description of a failure for visitors. It does not repeat the error, because
// models, balances and internals concern the owner only.
func problemOf(code stoa.Code, retryable bool) Problem {
	switch code {
	case "input_expired":
		return Problem{"The question was not answered in time.", true}
	case codeCreditLimit:
		return Problem{"This chat has reached its limit.", false}
	case "content_filter", stoa.CodeInvalidPrompt:
		return Problem{"This cannot be answered. Try asking in another way.", false}
	}
	return Problem{"No answer at the moment. Try again later.", retryable}
}

// begun returns the session of a chat; nil before its first message.
func begun(ctx context.Context, tx *store.Tx, e stoa.Embed) (*store.SessionRow, error) {
	row, err := tx.Work().Session(ctx, e.AccountID, e.AgentID, e.ChatID)
	if err == nil {
		return &row, nil
	}
	if stoa.CodeOf(err) != stoa.CodeSessionNotFound {
		return nil, err
	}
	_, was, found, chatErr := tx.Setup().EmbedChat(ctx, e.AccountID, e.AgentID, e.ChatID)
	if chatErr != nil {
		return nil, chatErr
	}
	if !found || was {
		return nil, err
	}
	return nil, nil
}

// Begun reports whether a chat has a session, and the number of its latest event.
func (s *Embeds) Begun(ctx context.Context, e stoa.Embed) (has bool, lastSeq int64, err error) {
	err = s.cfg.Store.Read(ctx, func(tx *store.Tx) error {
		row, err := begun(ctx, tx, e)
		if has = row != nil; has {
			lastSeq = row.LastSeq
		}
		return err
	})
	return has, lastSeq, err
}

// Chat returns a visitor's chat.
func (s *Embeds) Chat(ctx context.Context, who Visitor) (Chat, error) {
	return store.Read(ctx, s.cfg.Store, func(tx *store.Tx) (Chat, error) { return view(ctx, tx, who) })
}

// view returns the visitor's view. A message that is still being written has no text, because its
// pieces are among the events after LastSeq.
func view(ctx context.Context, tx *store.Tx, who Visitor) (Chat, error) {
	e, _, err := tx.Setup().EmbedByID(ctx, who.Embed.ID) // read again, because its counters may have changed
	if err != nil {
		return Chat{}, err
	}
	e.Greeting, e.Theme, e.Attachments, e.EmbedLook = who.Embed.Greeting, who.Embed.Theme, who.Embed.Attachments, who.Embed.EmbedLook // for the chat of a script tag, the tag's
	out := Chat{Embed: e, AgentName: who.Agent.Name, ExpiresAt: who.ExpiresAt, Status: stoa.SessionCompleted}
	row, err := begun(ctx, tx, e)
	if err != nil {
		return out, err
	}
	if row != nil {
		out.Status, out.LastSeq, out.Pending = row.Status, row.LastSeq, row.Pending
		if row.Pending.OfOwner() { // the agent seems to work, because the decision concerns the owner only
			out.Operator = row.Pending.Kind == stoa.InputToolApproval
			out.Status, out.Pending = stoa.SessionRunning, nil
		}
		if in := out.Pending; in != nil && in.Kind == stoa.InputToolConfirmation {
			out.Confirm = session.ConfirmationOf(in)
			out.Pending = &stoa.Input{ID: in.ID, Kind: in.Kind, Prompt: confirmPrompt, ExpiresAt: in.ExpiresAt}
		}
		if f := row.Turn.Failure; f != nil {
			p := problemOf(f.Code, f.Retryable)
			out.Problem = &p
		}
		if out.Messages, out.HasEarlier, err = tx.Work().Messages(ctx, row.ID, 0, pageMessages, true); err != nil {
			return out, err
		}
		slices.Reverse(out.Messages)
		if out.Person, err = tx.Work().PersonRequestedAt(ctx, e.AccountID, row.ID); err != nil {
			return out, err
		}
		if len(out.Messages) > 0 {
			ratings, err := tx.Work().SessionFeedback(ctx, row.ID, out.Messages[0].Turn, row.Turn.Number)
			if err != nil {
				return out, err
			}
			out.Ratings = map[string]stoa.Feedback{}
			for _, r := range ratings {
				if r.By == stoa.ByVisitor {
					out.Ratings[r.MessageID] = r
				}
			}
		}
		for _, m := range out.Messages {
			if m.Status == stoa.MessageInProgress {
				out.LastSeq = min(out.LastSeq, m.FirstSeq)
			}
		}
	}
	out.MessagesDue, out.Exhausted = max(0, e.MaxMessages-e.Messages), exhausted(e, row)
	return out, nil
}

// exhausted reports whether nothing more can be sent under an embed, because its messages or its
// credits are used up. row is its chat; nil before the first message.
func exhausted(e stoa.Embed, row *store.SessionRow) bool {
	spent := stoa.Credits(0)
	if row != nil {
		spent = row.Spent
	}
	return e.Messages >= e.MaxMessages || e.MaxCredits > 0 && spent-e.SpentBefore >= e.MaxCredits
}

// lineOf returns the line of a visitor. Those of a script tag wait together, and those of the links and
// embed sessions of an agent, so that a flood under one tag does not delay the others.
func lineOf(e stoa.Embed) string { return cmp.Or(e.TagID, "visitors "+e.AgentID) }

// admit counts an accepted message against the limit of a line for all its visitors together,
// and against the limit of one address, so that a page that creates embeds for everyone
// cannot be used to flood the account, and no visitor uses up the share of the others.
// Messages that an embed's own caps refuse are not counted.
func (s *Embeds) admit(who Visitor) error {
	line := lineOf(who.Embed)
	if who.address != "" {
		if wait, ok := s.allow(line+" from "+who.address, messagesPerAddress); !ok {
			return stoa.Errorf(stoa.CodeEmbedLimit, "Too many messages are being sent from this network. Try again in %d seconds.", wait/time.Second).After(wait)
		}
	}
	if wait, ok := s.allow(line, messagesPerLine); !ok {
		return stoa.Errorf(stoa.CodeEmbedLimit, "Too many people are talking to this agent. Try again in %d seconds.", wait/time.Second).After(wait)
	}
	return nil
}

func checkText(e stoa.Embed, member, text string) error {
	if n := utf8.RuneCountInString(text); n > e.MaxMessageChars {
		return stoa.Errorf(stoa.CodeInvalidValue, "%q must have at most %d characters; it has %d.", member, e.MaxMessageChars, n).At(member)
	}
	return nil
}

// Say sends a visitor's message. The first one starts the chat's session, in the visitor's time zone.
func (s *Embeds) Say(ctx context.Context, tx *store.Tx, who Visitor, text, timezone string, uploads session.Uploads) (Chat, error) {
	e := who.Embed
	if err := checkText(e, "message", text); err != nil {
		return Chat{}, err
	}
	return s.send(ctx, tx, who, false, func() error {
		_, err := s.cfg.Sessions.Start(ctx, tx, who.Caller, session.StartRequest{
			ID: e.ChatID, AgentID: e.AgentID, Message: text, Timezone: timezone, ExternalUserID: e.ExternalUserID, Trigger: stoa.Trigger{Type: "embed", ID: e.ID}, CredentialsOf: cmp.Or(e.TagID, e.ID), Line: lineOf(e), Uploads: uploads,
		})
		return err
	}, func() error {
		_, err := s.cfg.Sessions.Send(ctx, tx, who.Caller, e.AgentID, e.ChatID, session.SendRequest{Message: text, EmbedID: e.ID, Line: lineOf(e), Uploads: uploads})
		return err
	})
}

// Upload records a visitor's upload before its content is stored. It counts as a message, so that the
// embed's caps limit it too. bytes is the maximum size of the uploads of all visitors of the account.
func (s *Embeds) Upload(ctx context.Context, tx *store.Tx, who Visitor, u stoa.Upload, bytes int64) (stoa.Upload, error) {
	e := who.Embed
	row, err := begun(ctx, tx, e)
	if err != nil {
		return u, err
	}
	if e.TagID != "" {
		u.TagID, u.Network = e.TagID, networkOf(e.AccountID, who.address)
	}
	if u, err = tx.Work().InsertUpload(ctx, u, store.VisitorQuota{Files: e.Attachments.MaxFiles, Bytes: bytes, Silent: row == nil && e.TagID != ""}); err != nil {
		return u, err
	}
	if err := count(ctx, tx, e.ID, row, false); err != nil {
		return u, err
	}
	return u, s.admit(who)
}

// Uploaded emits the event of a visitor's upload whose content is stored.
func (s *Embeds) Uploaded(ctx context.Context, tx *store.Tx, who Visitor, u stoa.Upload) error {
	return webhook.AttachmentAdded(ctx, tx, who.Agent.SpaceID, who.Embed.ExternalUserID, u)
}

// Answer answers the input that the agent waits for, or confirms or declines its call. An
// input for programs or operators of the account is CodeScope.
func (s *Embeds) Answer(ctx context.Context, tx *store.Tx, who Visitor, req session.AnswerRequest) (Chat, error) {
	row, err := begun(ctx, tx, who.Embed)
	decides := false
	ofOwner := len(req.Outputs)+len(req.Decisions) > 0 || row != nil && row.Pending.OfOwner()
	if err == nil && row != nil && !ofOwner { // looked up, because it may be an earlier input
		var in stoa.Input
		in, _, err = tx.Work().Input(ctx, row.ID, req.InputID)
		ofOwner, decides = in.OfOwner(), in.Kind == stoa.InputToolConfirmation
	}
	if err == nil && ofOwner {
		return Chat{}, stoa.Errorf(stoa.CodeScope, "The agent is not waiting for the visitor.")
	}
	if err != nil {
		return Chat{}, err
	}
	if err := checkText(who.Embed, "answer", req.Answer); err != nil {
		return Chat{}, err
	}
	req.EmbedID = who.Embed.ID
	return s.send(ctx, tx, who, decides, nil, func() error {
		_, err := s.cfg.Sessions.Answer(ctx, tx, who.Caller, who.Embed.AgentID, who.Embed.ChatID, req)
		return err
	})
}

// Retry repeats a message whose answer failed or was stopped.
func (s *Embeds) Retry(ctx context.Context, tx *store.Tx, who Visitor) (Chat, error) {
	e := who.Embed
	return s.send(ctx, tx, who, false, nil, func() error {
		_, err := s.cfg.Sessions.Retry(ctx, tx, who.Caller, e.AgentID, e.ChatID, false)
		if stoa.CodeOf(err) == stoa.CodeSessionNotFound {
			if _, was, found, chatErr := tx.Setup().EmbedChat(ctx, e.AccountID, e.AgentID, e.ChatID); chatErr == nil && found && !was {
				err = stoa.Errorf(stoa.CodeSessionFinished, "There is no message yet whose answer could be retried.")
			}
		}
		return err
	})
}

// Cancel stops the agent. It does nothing if the chat has not begun.
func (s *Embeds) Cancel(ctx context.Context, who Visitor) (Chat, error) {
	_, err := s.cfg.Sessions.Cancel(ctx, who.Caller, who.Embed.AgentID, who.Embed.ChatID)
	if err != nil && stoa.CodeOf(err) != stoa.CodeSessionNotFound {
		return Chat{}, err
	}
	return s.Chat(ctx, who)
}

// send calls first or, once the chat has begun, other; counts the message against the embed's
// caps; and sets the chat's credit cap. If first is nil, it leaves a chat that has not begun to
// other, which fails. It accepts a message that decides about a call even if no messages are left,
// because it ends what an earlier one began.
func (s *Embeds) send(ctx context.Context, tx *store.Tx, who Visitor, decides bool, first, other func() error) (Chat, error) {
	e := who.Embed
	row, err := begun(ctx, tx, e)
	if err != nil {
		return Chat{}, err
	}
	if row == nil && first == nil {
		return Chat{}, other()
	}
	verb, begins := other, false
	if row == nil {
		if begins, err = tx.Setup().BeginEmbedChat(ctx, e.AccountID, e.ChatID); err != nil {
			return Chat{}, err
		}
	}
	if begins {
		verb = first
	}
	if err := verb(); err != nil {
		return Chat{}, err
	}
	// Counted last, so that an error of the request itself takes precedence; an error here
	// rolls back everything.
	if err := count(ctx, tx, e.ID, row, decides); err != nil {
		return Chat{}, err
	}
	if begins && e.TagID != "" {
		if err := s.beginTagChat(ctx, tx, who); err != nil {
			return Chat{}, err
		}
	}
	if err := s.admit(who); err != nil {
		return Chat{}, err
	}
	var most stoa.Credits
	if e.MaxCredits > 0 {
		most = e.SpentBefore + e.MaxCredits
	}
	if err := tx.Setup().ServeVisitor(ctx, e.AccountID, e.ChatID, lineOf(e), most); err != nil {
		return Chat{}, err
	}
	return view(ctx, tx, who)
}

// count counts a message of a visitor. Above the embed's messages per minute it is
// CodeEmbedLimit with a Retry-After; above its total of messages or credits it is
// CodeEmbedLimit, unless the message decides about a call. row is its chat; nil before the
// first message.
func count(ctx context.Context, tx *store.Tx, id string, row *store.SessionRow, decides bool) error {
	e, found, err := tx.Setup().LockEmbed(ctx, id)
	if err != nil {
		return err
	}
	if !found || !e.RevokedAt.IsZero() {
		return errToken()
	}
	if !decides && exhausted(e, row) {
		return stoa.Errorf(stoa.CodeEmbedLimit, "This chat has reached its limit. Nothing more can be sent.")
	}
	recent := e.Recent[:0:0]
	for _, t := range e.Recent {
		if tx.Now.Sub(t) < time.Minute {
			recent = append(recent, t)
		}
	}
	if len(recent) >= e.MessagesPerMinute {
		wait := max(time.Second, time.Minute-tx.Now.Sub(recent[len(recent)-e.MessagesPerMinute]))
		return stoa.Errorf(stoa.CodeEmbedLimit, "At most %d messages can be sent per minute. Try again in %d seconds.", e.MessagesPerMinute, (wait+time.Second-1)/time.Second).After(wait)
	}
	return tx.Setup().SendUnderEmbed(ctx, e, append(recent, tx.Now))
}

// Rate sets a visitor's rating of an answer, or removes it if rating is empty. It fails with [stoa.CodeScope] if the embed has no
// ratings, and like [session.Sessions.Rate].
func (s *Embeds) Rate(ctx context.Context, tx *store.Tx, who Visitor, messageID, rating, comment string) (stoa.Feedback, error) {
	e := who.Embed
	if !e.Feedback {
		return stoa.Feedback{}, stoa.Errorf(stoa.CodeScope, "Answers of this chat cannot be rated. Its owner can allow it with the embed's \"feedback\".")
	}
	if row, err := begun(ctx, tx, e); err != nil {
		return stoa.Feedback{}, err
	} else if row == nil {
		return stoa.Feedback{}, stoa.Errorf(stoa.CodeNotFound, "The chat has no such answer.")
	}
	if wait, ok := s.allow(e.ID+" rates", messagesPerAddress); !ok {
		return stoa.Feedback{}, stoa.Errorf(stoa.CodeRateLimit, "Too many ratings. Try again in %d seconds.", wait/time.Second).After(wait)
	}
	if rating == "" {
		return stoa.Feedback{}, s.cfg.Sessions.Unrate(ctx, tx, e.AccountID, e.AgentID, e.ChatID, messageID, stoa.ByVisitor)
	}
	return s.cfg.Sessions.Rate(ctx, tx, e.AccountID, e.AgentID, e.ChatID, messageID, stoa.Feedback{By: stoa.ByVisitor, Rating: rating, Comment: comment})
}

// RequestPerson announces that the visitor asks for a person; see [session.Sessions.RequestPerson]. It fails with [stoa.CodeScope] if
// the embed does not offer it, and with [stoa.CodeNotFound] before the first message.
func (s *Embeds) RequestPerson(ctx context.Context, tx *store.Tx, who Visitor) (time.Time, error) {
	e := who.Embed
	if !e.Contact {
		return time.Time{}, stoa.Errorf(stoa.CodeScope, "Visitors of this chat cannot ask for a person. Its owner can allow it with the embed's \"contact\".")
	}
	if row, err := begun(ctx, tx, e); err != nil {
		return time.Time{}, err
	} else if row == nil {
		return time.Time{}, stoa.Errorf(stoa.CodeNotFound, "The chat has no message yet. Send one first, so that the person knows what it is about.")
	}
	return s.cfg.Sessions.RequestPerson(ctx, tx, e.AccountID, e.AgentID, e.ChatID)
}
