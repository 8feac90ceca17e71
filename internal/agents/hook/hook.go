// Package hook starts turns of agents with signed requests of other services. It checks the
// signature of a request, reads the message and the ids that the settings of the hook point to, and
// starts or continues a session.
//
// An event starts at most one turn: a row with its id is written in the transaction of the turn, so
// that retries, concurrent deliveries, several nodes and a kill between any two lines change
// nothing. The content of a request is data of an outsider: its session offers the tools of visitors. Only
// the owner of the secret learns from a reply whether the hook exists.
//
// It reads no HTTP bodies and writes no replies; package api does. Start at [Hooks.Receive].
package hook

import (
	"cmp"
	"context"
	"strings"
	"time"

	"stoa/internal/agents/session"
	"stoa/internal/agents/webhook"
	"stoa/internal/base/auth"
	"stoa/internal/base/jsonx"
	"stoa/internal/base/ratelimit"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/base/vault"
)

const (
	defaultTurnsPerDay = 200
	maxPointerSteps    = 16
)

// Hooks creates hooks and receives their requests. All fields are required, except RateLimited.
type Hooks struct {
	Store       *store.Store
	Sessions    *session.Sessions
	Vault       *vault.Vault
	Rates       *ratelimit.Rates
	RateLimited func() bool // reports whether rates are enforced; nil means that they are
}

// check sets the defaults of a hook. It fails with CodeInvalidValue, CodeInvalidMode or
// CodeMissingParameter.
func check(h *stoa.Hook) error {
	h.TurnsPerDay = cmp.Or(h.TurnsPerDay, defaultTurnsPerDay)
	if h.Mode == "" {
		h.Mode = stoa.ModeOnce
		if h.ExternalID != "" {
			h.Mode = stoa.ModeChat
		}
	}
	sig := &h.Signature
	switch of := []string{sig.Header, sig.Algorithm, sig.Encoding, sig.Prefix}; {
	case h.Mode != stoa.ModeChat && h.Mode != stoa.ModeOnce:
		return stoa.Errorf(stoa.CodeInvalidMode, "The mode must be %q or %q.", stoa.ModeChat, stoa.ModeOnce).At("mode")
	case h.Mode == stoa.ModeOnce && h.ExternalID != "":
		return stoa.Errorf(stoa.CodeInvalidValue, "A session of mode %q accepts only one message: to continue one by its externalId, use mode %q.", stoa.ModeOnce, stoa.ModeChat).At("mode")
	case sig.Kind != stoa.SignedHMAC && strings.Join(of, "") != "":
		return stoa.Errorf(stoa.CodeInvalidValue, "The signature of %q is fixed: header, algorithm, encoding and prefix are only for %q.", sig.Kind, stoa.SignedHMAC).At("signature")
	case sig.Kind == stoa.SignedHMAC && sig.Header == "":
		return stoa.Errorf(stoa.CodeMissingParameter, "A signature of kind %q requires the name of its header.", sig.Kind).At("signature.header")
	case sig.Kind == stoa.SignedHMAC:
		sig.Algorithm, sig.Encoding = cmp.Or(sig.Algorithm, "sha256"), cmp.Or(sig.Encoding, "hex")
	}
	for _, m := range []struct{ member, pointer string }{{"message", h.Message}, {"externalId", h.ExternalID}, {"externalUserId", h.ExternalUserID}, {"eventId", h.EventID}} {
		if m.pointer == "" || m.member == "eventId" && isHeader(m.pointer) {
			continue
		}
		if _, err := jsonx.ParsePointer(m.pointer, maxPointerSteps); err != nil {
			return stoa.Errorf(stoa.CodeInvalidValue, "%q is not a JSON Pointer: %v.", m.pointer, err).At(m.member)
		}
	}
	return auth.CheckNetworks(h.Networks)
}

// isHeader reports whether the place of an event's id is a header.
func isHeader(place string) bool {
	return !strings.ContainsFunc(place, func(r rune) bool {
		return r != '-' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	})
}

func secretRef(h stoa.Hook) vault.Ref {
	return vault.Ref{AccountID: h.AccountID, ID: h.ID, Kind: "hook", Version: h.SecretVersion}
}

// secretFor returns the secret of a kind of signature: the given one, or a new one.
func secretFor(kind, given string) (string, error) {
	switch {
	case given == "" && kind == stoa.SignedSlack:
		return "", stoa.Errorf(stoa.CodeMissingParameter, "Slack chooses the secret: copy the signing secret of your app.").At("secret")
	case given == "":
		return webhook.NewSecret(), nil
	case kind == stoa.SignedStandard:
		if _, err := webhook.SecretKey(given); err != nil {
			return "", stoa.Errorf(stoa.CodeInvalidValue, "A secret of Standard Webhooks has another form: %v.", err).At("secret")
		}
	}
	return given, nil
}

// Create stores a hook of the caller's agent, and returns it with its secret: the given one, or a
// new one if that is empty.
func (s *Hooks) Create(ctx context.Context, tx *store.Tx, c stoa.Caller, h stoa.Hook, secret string) (stoa.Hook, string, error) {
	h.ID, h.AccountID, h.KeyID = stoa.NewID("hok"), c.Account.ID, c.Key.ID
	err := check(&h)
	if err == nil {
		secret, err = secretFor(h.Signature.Kind, secret)
	}
	if err == nil {
		_, err = tx.Setup().AgentForShare(ctx, h.AccountID, h.AgentID)
	}
	if err == nil {
		h.SecretVersion = 1
		h.Sealed, err = webhook.SealSecrets(s.Vault, secretRef(h), []webhook.Secret{{Text: secret}})
	}
	if err != nil {
		return h, "", err
	}
	h, err = tx.Work().InsertHook(ctx, h)
	return h, secret, err
}

// Edit lets change modify a hook and whether it is enabled. A hook that is enabled again belongs to
// the caller's key.
func (s *Hooks) Edit(ctx context.Context, tx *store.Tx, c stoa.Caller, agentID, id string, change func(h *stoa.Hook, enabled *bool) error) (stoa.Hook, error) {
	return edit(ctx, tx, c.Account.ID, agentID, id, func(h *stoa.Hook) error {
		was := h.Disabled == ""
		enabled := was
		if err := change(h, &enabled); err != nil {
			return err
		}
		switch {
		case enabled && !was:
			h.Disabled, h.KeyID = "", c.Key.ID
		case !enabled && was:
			h.Disabled = store.HookDisabledByUser
		}
		return check(h)
	})
}

func edit(ctx context.Context, tx *store.Tx, accountID, agentID, id string, fn func(*stoa.Hook) error) (stoa.Hook, error) {
	if _, err := tx.Setup().Agent(ctx, accountID, agentID); err != nil {
		return stoa.Hook{}, err
	}
	return tx.Work().EditHook(ctx, accountID, agentID, id, fn)
}

// Rotate replaces the secret of a hook, which it returns. Until the overlap has passed, the former
// one is accepted too, so that the other service can change in the meantime.
func (s *Hooks) Rotate(ctx context.Context, tx *store.Tx, accountID, agentID, id, given string, overlap time.Duration) (h stoa.Hook, secret string, until time.Time, err error) {
	until = tx.Now.Add(overlap)
	h, err = edit(ctx, tx, accountID, agentID, id, func(h *stoa.Hook) (err error) {
		if secret, err = secretFor(h.Signature.Kind, given); err != nil {
			return err
		}
		all := webhook.RotateSecrets(s.Vault, secretRef(*h), h.Sealed, secret, until, tx.Now)
		h.SecretVersion++
		h.Sealed, err = webhook.SealSecrets(s.Vault, secretRef(*h), all)
		return err
	})
	return h, secret, until, err
}

// secrets returns the secrets that are valid at a time.
func (s *Hooks) secrets(h stoa.Hook, now time.Time) ([]string, error) {
	all, err := webhook.OpenSecrets(s.Vault, secretRef(h), h.Sealed, now)
	var texts []string
	for _, secret := range all {
		texts = append(texts, secret.Text)
	}
	return texts, err
}
