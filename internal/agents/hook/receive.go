package hook

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"hash/maphash"
	"mime"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"stoa/internal/agents/session"
	"stoa/internal/base/auth"
	"stoa/internal/base/jsonx"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
)

const (
	requestsPerMinute  = 600 // of a hook
	requestsPerAddress = 300 // of a hook from one address
	unknownSlots       = 1 << 12
	tooManyTurns       = time.Minute // Retry-After at the limit of turns per day

	maxValues       = 50_000 // in a body
	maxExternalID   = 97     // characters, so that it fits next to the hook's id
	maxExternalUser = 128    // characters
	maxChallenge    = 1_000  // characters
)

// A Request is a request of another service, without its body.
type Request struct {
	Header  http.Header
	Address netip.Addr // zero if unknown
	Network string     // the address, or the network of an IPv6 address; empty if unknown
}

// A Receipt is the outcome of an accepted request.
type Receipt struct {
	Duplicate bool   // the event was accepted before
	SessionID string // empty if no turn was started
	Challenge string // answer to url_verification of Slack
	Form      bool   // the body was a form
}

// errRefused is the same for every reason, so that a guess learns nothing.
func errRefused() *stoa.Error {
	return stoa.Errorf(stoa.CodeUnauthorized, "The signature does not match, or there is no such hook. Compare the address, the secret and the kind of signature; a timestamp must be at most five minutes old.")
}

// Receive handles a request. It calls read for the body after the limits have admitted the request.
func (s *Hooks) Receive(ctx context.Context, id string, r Request, read func() ([]byte, error)) (Receipt, error) {
	var h stoa.Hook
	found := false
	err := s.Store.Read(store.Promptly(ctx), func(tx *store.Tx) (err error) {
		h, found, err = tx.Work().HookByID(ctx, id, false)
		return err
	})
	if err == nil {
		err = s.admit(id, found, r.Network)
	}
	if err != nil {
		return Receipt{}, err
	}
	body, err := read()
	if err != nil {
		return Receipt{}, err
	}
	now := time.Now()
	secrets, problem := []string{id}, error(nil) // an unknown hook takes as long as one with a secret
	if found {
		secrets, problem = s.secrets(h, now)
	}
	valid := signed(h.Signature, secrets, r.Header, body, now)
	if !valid || !found || h.Disabled != "" || !stoa.InNetworks(h.Networks, r.Address) {
		return Receipt{}, errRefused().Because(problem)
	}
	e, err := s.read(h, r.Header, body)
	if err != nil || e.key == "" {
		return e.Receipt, err
	}
	return store.Write(ctx, s.Store, func(tx *store.Tx) (Receipt, error) { return s.start(ctx, tx, id, e) })
}

// admit counts a request. Unknown hooks have a bounded number of counters, which behave like those of
// a known one.
func (s *Hooks) admit(id string, found bool, network string) error {
	if s.RateLimited != nil && !s.RateLimited() {
		return nil
	}
	name, from := "hook "+id, "hook "+id+" from "+network
	if !found {
		name, from = "hook "+bounded(id), "hook from "+bounded(id+network)
	}
	for _, l := range []struct {
		name string
		most int
	}{{from, requestsPerAddress}, {name, requestsPerMinute}} {
		if network == "" && l.name == from {
			continue
		}
		if wait, ok := s.Rates.Allow(l.name, l.most, time.Now()); !ok {
			return stoa.Errorf(stoa.CodeRateLimit, "There are too many requests for this hook. Try again in %d seconds.", wait/time.Second).After(wait)
		}
	}
	return nil
}

// slots is random, so that nobody can choose an id that shares a counter with another one, and find out with it whether that
// hook exists.
var slots = maphash.MakeSeed()

func bounded(name string) string {
	return strconv.FormatUint(maphash.String(slots, name)%unknownSlots, 10)
}

// An event is the content of a body. Without a key it starts no turn.
type event struct {
	Receipt
	key, message, externalID, externalUserID string
}

// read reads the body of a signed request.
func (s *Hooks) read(h stoa.Hook, header http.Header, body []byte) (e event, err error) {
	media, _, _ := mime.ParseMediaType(header.Get("Content-Type"))
	var v any
	raw := body
	if e.Form = media == "application/x-www-form-urlencoded"; e.Form {
		if body, err = jsonOfForm(body); err != nil {
			return e, err
		}
	}
	if v, err = jsonx.Tree(body, maxValues); err != nil {
		return e, stoa.Errorf(stoa.CodeInvalidJSON, "The body is not one JSON object in UTF-8 without duplicate members, or it has more than %d values.", maxValues).Because(err)
	}
	if _, ok := v.(map[string]any); !ok {
		return e, stoa.Errorf(stoa.CodeInvalidJSON, "The body must be a JSON object or a form.")
	}
	if h.Signature.Kind == stoa.SignedSlack && jsonx.At(v, []string{"type"}) == "url_verification" {
		e.Challenge, err = textAt(v, "/challenge", maxChallenge)
		return e, err
	}
	if h.Signature.Kind == stoa.SignedGitHub && header.Get("X-GitHub-Event") == "ping" {
		return e, nil
	}
	if e.message = string(body); h.Message != "" {
		e.message, err = messageAt(v, h.Message)
	}
	if err == nil {
		err = at(s.Sessions.CheckMessage(e.message), h.Message)
	}
	if err == nil && h.ExternalID != "" {
		if e.externalID, err = textAt(v, h.ExternalID, maxExternalID); err == nil {
			e.externalID = h.ID + ":" + e.externalID // so that no request reaches another session of the account
		}
	}
	if err == nil && h.ExternalUserID != "" {
		e.externalUserID, err = textAt(v, h.ExternalUserID, maxExternalUser)
	}
	if err == nil {
		e.key, err = keyOf(h, header, v, raw)
	}
	return e, err
}

// jsonOfForm returns a form as a JSON object. Of a repeated field it has the first value.
func jsonOfForm(body []byte) ([]byte, error) {
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return nil, stoa.Errorf(stoa.CodeInvalidJSON, "The body is not a valid form.").Because(err)
	}
	members := map[string]string{}
	for name := range form {
		members[name] = form.Get(name)
	}
	return jsonx.MarshalModel(members)
}

// keyOf returns the key of an event: a hash of its id, or of the body if it has none.
func keyOf(h stoa.Hook, header http.Header, v any, raw []byte) (string, error) {
	place := h.EventID
	switch {
	case place != "":
	case h.Signature.Kind == stoa.SignedStandard:
		place = "webhook-id"
	case h.Signature.Kind == stoa.SignedGitHub:
		place = "X-GitHub-Delivery"
	case h.Signature.Kind == stoa.SignedSlack:
		place = "/event_id"
	}
	id := ""
	if strings.HasPrefix(place, "/") {
		id, _ = textAt(v, place, len(raw))
	} else if place != "" {
		id = header.Get(place)
	}
	if id == "" && h.EventID != "" {
		return "", stoa.Errorf(stoa.CodeMissingParameter, "The request has no id of its event at %q.", place).At(place)
	}
	if id == "" {
		return auth.Hash("body " + string(raw)), nil
	}
	return auth.Hash("id " + id), nil
}

func pathOf(pointer string) []string {
	path, _ := jsonx.ParsePointer(pointer, maxPointerSteps) // checked when it was stored
	return path
}

// messageAt returns a value as a message: a text as it is, others as JSON.
func messageAt(v any, pointer string) (string, error) {
	switch v := jsonx.At(v, pathOf(pointer)).(type) {
	case nil:
		return "", errMissing(pointer)
	case string:
		return v, checkText(v, pointer)
	default:
		var text strings.Builder
		enc := json.NewEncoder(&text)
		enc.SetEscapeHTML(false) // because models read "<" better
		err := enc.Encode(v)
		return strings.TrimSuffix(text.String(), "\n"), err
	}
}

// textAt returns a text or a number of at most most characters.
func textAt(v any, pointer string, most int) (string, error) {
	text := ""
	switch v := jsonx.At(v, pathOf(pointer)).(type) {
	case string:
		text = v
	case json.Number:
		text = v.String()
	}
	if text == "" {
		return "", errMissing(pointer)
	}
	if n := utf8.RuneCountInString(text); n > most {
		return "", stoa.Errorf(stoa.CodeInvalidValue, "The value at %q has %d characters; the maximum is %d.", pointer, n, most).At(pointer)
	}
	return text, checkText(text, pointer)
}

func errMissing(pointer string) error {
	return stoa.Errorf(stoa.CodeMissingParameter, "The body has no value at %q, which this hook reads. Change the pointer of the hook, or send other events to it.", pointer).At(pointer)
}

// checkText refuses the character that PostgreSQL cannot store.
func checkText(text, pointer string) error {
	if strings.Contains(text, "\x00") {
		return stoa.Errorf(stoa.CodeInvalidValue, "The value at %q contains the character U+0000.", pointer).At(pointer)
	}
	return nil
}

func at(err error, param string) error {
	if e, ok := errors.AsType[*stoa.Error](err); ok {
		return e.At(param)
	}
	return err
}

// start records an event and starts its turn. The hook is locked, so that its events are counted, and
// the session of an external id begins once.
func (s *Hooks) start(ctx context.Context, tx *store.Tx, id string, e event) (Receipt, error) {
	h, found, err := tx.Work().HookByID(ctx, id, true)
	if err != nil {
		return Receipt{}, err
	}
	account, err := tx.Books().Account(ctx, h.AccountID)
	ended, keyErr := auth.EndsWithKey(ctx, tx, h.AccountID, h.KeyID, tx.Now)
	switch {
	case !found || h.Disabled != "" || err == nil && account.Suspended || keyErr == nil && ended:
		return Receipt{}, errRefused()
	case err != nil || keyErr != nil:
		return Receipt{}, cmp.Or(err, keyErr)
	}
	isNew, err := tx.Work().InsertHookEvent(ctx, h, e.key)
	if err != nil || !isNew {
		e.Duplicate = !isNew
		return e.Receipt, err
	}
	n, err := tx.Work().HookEvents(ctx, h, tx.Now.Add(-24*time.Hour), h.TurnsPerDay+1)
	if err == nil && n > h.TurnsPerDay {
		err = stoa.Errorf(stoa.CodeRateLimit, "This hook has started %d turns within 24 hours, its limit. Its owner can raise turnsPerDay.", h.TurnsPerDay).After(tooManyTurns)
	}
	if err == nil {
		e.SessionID, err = s.turn(ctx, tx, h, e)
	}
	if stoa.CodeOf(err) == stoa.CodeAgentNotFound {
		err = errRefused()
	}
	return e.Receipt, err
}

// turn starts the session of an event, or continues the one with its external id.
func (s *Hooks) turn(ctx context.Context, tx *store.Tx, h stoa.Hook, e event) (id string, err error) {
	if e.externalID != "" {
		if id, err = tx.Work().HookSession(ctx, h, e.externalID); err != nil {
			return "", err
		}
	}
	caller := stoa.Caller{Account: stoa.Account{ID: h.AccountID}, Key: stoa.Key{ID: h.KeyID}}
	if id != "" {
		_, err = s.Sessions.Send(ctx, tx, caller, h.AgentID, id, session.SendRequest{Message: e.message, EmbedID: h.ID, Hook: true, Line: h.ID})
	} else {
		var began stoa.Session
		began, err = s.Sessions.Start(ctx, tx, caller, session.StartRequest{
			AgentID: h.AgentID, Message: e.message, Mode: h.Mode, Title: h.Name, ExternalID: e.externalID, ExternalUserID: e.externalUserID,
			Limits: stoa.TurnLimits{MaxCredits: h.MaxCredits}, Trigger: stoa.Trigger{Type: stoa.TriggerHook, ID: h.ID}, Line: h.ID,
		})
		id = began.ID
	}
	if err != nil {
		return "", err
	}
	return id, tx.Setup().ServeVisitor(ctx, h.AccountID, id, h.ID, 0)
}
