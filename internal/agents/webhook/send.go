package webhook

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"stoa/internal/base/jsonx"
	"stoa/internal/base/outbound"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/base/telemetry"
)

// Error words of failed attempts, in addition to those of package outbound.
const (
	errorStatus = "status" // the reply was not 2xx
	errorURL    = "invalid_url"
	errorStore  = "store" // the value of the reply could not be read
)

type outcome struct {
	attempt store.Attempt
	asked   time.Duration // pause by Retry-After, or until the next mail may be sent
	stopped bool          // the process shuts down, so that it does not count as an attempt
	// permanent means that the delivery has failed, because the mail server would refuse the message again.
	permanent bool
	disable   string // the reason for which the webhook is disabled immediately; may be empty
}

func (o outcome) ok() bool { return o.attempt.Error == "" }

func (d *Dispatcher) send(ctx context.Context, w stoa.Webhook, secrets []Secret, of store.Delivery) {
	o := d.attempt(ctx, w, secrets, of)
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
	defer cancel()
	var err error
	if o.stopped {
		err = d.giveBack(stop, of)
	} else {
		err = d.record(stop, w, of, o)
	}
	if err != nil { // nothing else to do, because the delivery is sent again when its lease expires
		d.log.LogAttrs(ctx, slog.LevelError, "an attempt of a webhook could not be recorded", slog.String("delivery", of.ID), slog.Any("error", err))
	}
	d.ended(of, o.ok() && o.attempt.Millis <= slowAnswer.Milliseconds())
}

func (d *Dispatcher) attempt(ctx context.Context, w stoa.Webhook, secrets []Secret, of store.Delivery) (o outcome) {
	began := d.now()
	o.attempt = store.Attempt{Number: of.Attempts + 1, At: began}
	limited, cancel := context.WithTimeout(ctx, AttemptTime)
	defer cancel()
	defer func() { o.attempt.Millis = d.now().Sub(began).Milliseconds() }()
	if address, ok := w.MailAddress(); ok {
		return d.mail(limited, o, address, w, of)
	}
	body, err := d.withReply(limited, w.AccountID, of.Body)
	if err != nil {
		o.attempt.Error, o.stopped = errorStore, ctx.Err() != nil
		return o
	}
	of.Body = body
	req, err := request(limited, w.URL, secrets, of, began, d.cfg.Version)
	if err != nil {
		o.attempt.Error = errorURL
		return o
	}
	resp, err := d.cfg.Client.RoundTrip(req)
	if err != nil {
		return d.broken(ctx, o, err)
	}
	defer resp.Body.Close()
	o.attempt.Status = resp.StatusCode
	reply, _ := io.ReadAll(io.LimitReader(resp.Body, ReplyKept)) // an error is ignored, since only the status matters
	o.attempt.Reply = printable(reply)
	if resp.StatusCode == http.StatusGone {
		o.disable = stoa.WebhookDisabledGone
	}
	if resp.StatusCode/100 != 2 {
		o.attempt.Error = errorStatus
		o.asked = stoa.RetryAfter(resp.Header.Get("Retry-After"), d.now())
	}
	return o
}

// unsentReply ends the stored body of a session that replies by a schema. maxReply is the maximum size of the value that replaces
// null there, in bytes.
const (
	unsentReply = `"replyJson":null}}`
	maxReply    = 64 << 10
)

// withReply completes a body with the value of the turn's reply, which each attempt reads again: what a session says is not
// stored twice, and not sent after the session was deleted.
func (d *Dispatcher) withReply(ctx context.Context, accountID, body string) (string, error) {
	if !strings.HasSuffix(body, unsentReply) {
		return body, nil
	}
	var of struct {
		Data struct {
			SessionID string `json:"sessionId"`
			Turn      int64  `json:"turn"`
		} `json:"data"`
	}
	if err := jsonx.Unmarshal([]byte(body), &of); err != nil {
		return body, err
	}
	reply, err := store.Read(ctx, d.store, func(tx *store.Tx) (store.MessageRow, error) {
		if _, err := tx.Work().Session(ctx, accountID, "", of.Data.SessionID); err != nil {
			return store.MessageRow{}, unlessMissing(err)
		}
		m, _, err := tx.Work().TurnReply(ctx, of.Data.SessionID, of.Data.Turn)
		return m, err
	})
	v := jsonx.ObjectIn(reply.Text)
	if err != nil || len(v) == 0 || len(v) > maxReply {
		return body, err
	}
	return strings.TrimSuffix(body, "null}}") + string(v) + "}}", nil
}

func (d *Dispatcher) broken(ctx context.Context, o outcome, err error) outcome {
	reason := outbound.Broken
	if e, ok := errors.AsType[*outbound.Error](err); ok {
		reason = e.Reason
	}
	switch {
	case ctx.Err() != nil:
		o.stopped = true
	case reason == outbound.Encoded: // the status was 2xx, and the body is not needed
		o.attempt.Status = http.StatusOK
		return o
	}
	o.attempt.Error = string(reason)
	return o
}

// request returns the request of an attempt. Its body is the stored one, so that each attempt reports
// the same state.
func request(ctx context.Context, address string, secrets []Secret, of store.Delivery, at time.Time, version string) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, strings.NewReader(of.Body))
	if err != nil {
		return nil, err
	}
	texts := make([]string, 0, len(secrets))
	for _, s := range secrets {
		texts = append(texts, s.Text)
	}
	signature, err := Sign(texts, of.EventID, at, []byte(of.Body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", strings.TrimSpace(userAgent+" stoa/"+version))
	req.Header.Set(HeaderID, of.EventID)
	req.Header.Set(HeaderTimestamp, strconv.FormatInt(at.Unix(), 10))
	req.Header.Set(HeaderSignature, signature)
	return req, nil
}

// printable returns the beginning of a reply as a text. It replaces NUL, because PostgreSQL
// cannot store that.
func printable(b []byte) string {
	return strings.ReplaceAll(strings.ToValidUTF8(string(b), "\uFFFD"), "\x00", "\uFFFD")
}

func (d *Dispatcher) giveBack(ctx context.Context, of store.Delivery) error {
	lease := of.Lease
	of.Lease, of.DueAt = "", d.now()
	return d.store.Write(ctx, func(tx *store.Tx) error {
		_, err := tx.Operations().SaveDelivery(ctx, of, lease)
		return err
	})
}

// record writes the result of an attempt, unless another process has claimed the delivery in the
// meantime, because then that one decides.
func (d *Dispatcher) record(ctx context.Context, w stoa.Webhook, of store.Delivery, o outcome) error {
	now, lease := d.now(), of.Lease
	of.Lease, of.Round, of.Attempts = "", of.Round+1, of.Attempts+1
	if of.FirstAt.IsZero() {
		of.FirstAt = o.attempt.At
	}
	if of.Log = append(of.Log, o.attempt); len(of.Log) > logKept {
		of.Log = of.Log[len(of.Log)-logKept:]
	}
	switch {
	case o.ok():
		of.Status, of.FinishedAt = store.DeliveryDelivered, now
	case o.permanent || o.disable != "":
		of.Status, of.FinishedAt = store.DeliveryFailed, now
	default:
		if of.DueAt = d.next(of, now, o.asked); of.DueAt.IsZero() {
			of.Status, of.FinishedAt, of.DueAt = store.DeliveryFailed, now, now
		}
	}
	var saved bool
	var disabled string
	err := d.store.Write(ctx, func(tx *store.Tx) (err error) {
		disabled = ""
		if saved, err = tx.Operations().SaveDelivery(ctx, of, lease); err != nil || !saved || of.Once && !o.ok() {
			return err
		}
		if o.ok() {
			return tx.Operations().WebhookSucceeded(ctx, w.AccountID, w.ID, now)
		}
		disabled, err = d.failed(ctx, tx, w, now, of.Status == store.DeliveryFailed, o.disable)
		return err
	})
	if err != nil || !saved {
		return err
	}
	d.tell(ctx, w, of, o, disabled)
	return nil
}

// failed counts a failed attempt, and disables the webhook for the given reason, or if that is
// due. It returns the reason, empty if the webhook was not disabled.
func (d *Dispatcher) failed(ctx context.Context, tx *store.Tx, w stoa.Webhook, now time.Time, givenUp bool, reason string) (disabled string, err error) {
	w, found, err := tx.Operations().WebhookFailed(ctx, w.AccountID, w.ID, now, givenUp)
	if err != nil || !found {
		return "", err
	}
	since := w.EnabledAt
	if w.LastSuccessAt.After(since) {
		since = w.LastSuccessAt
	}
	switch {
	case reason != "":
	case givenUp && w.Failed >= failedMany && now.Sub(since) >= failedLong:
		reason = stoa.WebhookDisabledByFailures
	default:
		return "", nil
	}
	changed, err := tx.Operations().DisableWebhook(ctx, w.AccountID, w.ID, reason)
	if err != nil || !changed {
		return "", err
	}
	tx.AuditAutomatic(w.AccountID, store.WebhookDisabledAction, w.ID, reason)
	return reason, Emit(ctx, tx, Event{
		AccountID: w.AccountID, Type: WebhookDisabled, except: w.ID, Data: disabledData{w.AccountID, w.ID, reason},
	})
}

type disabledData struct {
	AccountID string `json:"accountId"`
	WebhookID string `json:"webhookId"`
	Reason    string `json:"reason"`
}

func (d *Dispatcher) tell(ctx context.Context, w stoa.Webhook, of store.Delivery, o outcome, disabled string) {
	result := telemetry.HookDelivered
	switch {
	case o.ok():
	case of.Status == store.DeliveryFailed:
		result = telemetry.HookGivenUp
	default:
		result = telemetry.HookFailed
	}
	d.cfg.Metrics.WebhookAttempt(result, time.Duration(o.attempt.Millis)*time.Millisecond)
	level := slog.LevelDebug
	if result == telemetry.HookGivenUp {
		level = slog.LevelWarn
	}
	d.log.LogAttrs(ctx, level, "webhook", slog.String("account", w.AccountID), slog.String("webhook", w.ID), slog.String("delivery", of.ID), slog.String("event", of.EventID),
		slog.String("type", of.Type), slog.Int("attempt", o.attempt.Number), slog.String("deliveryStatus", string(of.Status)), slog.Int("status", o.attempt.Status),
		slog.String("code", o.attempt.Error), slog.Duration("duration", time.Duration(o.attempt.Millis)*time.Millisecond))
	if disabled != "" {
		d.log.LogAttrs(ctx, slog.LevelWarn, "a webhook was disabled", slog.String("account", w.AccountID), slog.String("webhook", w.ID), slog.String("reason", disabled))
	}
}

// Signatures are those of Standard Webhooks,
// https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md.
