package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"stoa/internal/agents/webhook"
	"stoa/internal/base/client"
	"stoa/internal/base/contract"
	"stoa/internal/base/jsonx"
	"stoa/internal/base/stoa"
)

const (
	listenEvery = time.Second
	listenTime  = 30 * time.Second // maximum for the local address; events wait meanwhile, because they are sent in order
)

func (e *env) hooksListen() *cobra.Command {
	c := command("listen URL", "Forward events to an address on this machine",
		`Forward events of the account to an address on this machine or in its network, signed like a webhook. The
service need not reach the address: events are read with your key, so this works behind a firewall. The secret
is printed on standard output at the start.

It creates a webhook without an address while it runs, and deletes it at the end (ctrl-c). An event that the
address does not answer with 2xx is not sent again.`,
		"  stoa webhooks listen http://localhost:3000/hooks --event session.completed")
	settings := e.flags(c, hookFields...)
	c.RunE = func(c *cobra.Command, args []string) error {
		u, err := url.Parse(args[0])
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return usagef("%q is not an address; write one such as http://localhost:3000/hooks", args[0])
		}
		body := map[string]any{"events": []string{"*"}, "description": "stoa webhooks listen"}
		if err := settings(body); err != nil {
			return err
		}
		call, err := e.client()
		if err != nil {
			return err
		}
		var w contract.WebhookWithSecret
		if _, err := call.JSON(c.Context(), http.MethodPost, hooksPath, nil, body, &w); err != nil {
			return err
		}
		defer func() {
			end, cancel := context.WithTimeout(context.WithoutCancel(c.Context()), 5*time.Second)
			defer cancel()
			if _, err := call.JSON(end, http.MethodDelete, hookPath(w.ID), nil, nil, nil); err != nil && stoa.Code(client.CodeOf(err)) != stoa.CodeWebhookNotFound {
				e.say("The webhook %s could not be deleted; delete it with \"stoa webhooks delete %s\".", w.ID, w.ID)
			}
		}()
		e.say("Forwarding events to %s, signed with this secret; ctrl-c ends it.", args[0])
		if _, err := fmt.Fprintln(e.out, w.Secret); err != nil {
			return err
		}
		l := &listener{e: e, call: call, hook: w, to: args[0], http: &http.Client{
			Timeout: listenTime, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}}
		return l.run(c.Context())
	}
	return c
}

type listener struct {
	e    *env
	call *client.Client
	hook contract.WebhookWithSecret
	to   string
	http *http.Client
	last string // the newest delivery that was forwarded
}

func (l *listener) run(ctx context.Context) error {
	tick := time.NewTicker(listenEvery)
	defer tick.Stop()
	for {
		ids, err := l.fresh(ctx)
		for _, id := range ids {
			if err == nil {
				err = l.forward(ctx, id)
			}
		}
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (l *listener) fresh(ctx context.Context) (ids []string, err error) {
	for raw, err := range l.call.All(ctx, hookPath(l.hook.ID)+"/deliveries", nil, 0) {
		if err != nil {
			return nil, err
		}
		var d contract.DeliverySummary
		if err := jsonx.Unmarshal(raw, &d); err != nil {
			return nil, err
		}
		if d.ID == l.last {
			break
		}
		ids = append(ids, d.ID)
	}
	slices.Reverse(ids)
	return ids, nil
}

func (l *listener) forward(ctx context.Context, id string) error {
	var d contract.Delivery
	if _, err := l.call.JSON(ctx, http.MethodGet, hookPath(l.hook.ID)+"/deliveries/"+url.PathEscape(id), nil, nil, &d); err != nil {
		return err
	}
	l.last = id
	now := time.Now()
	signature, err := webhook.Sign([]string{l.hook.Secret}, d.EventID, now, []byte(d.Body))
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, l.to, bytes.NewReader([]byte(d.Body)))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", userAgent())
	req.Header.Set(webhook.HeaderID, d.EventID)
	req.Header.Set(webhook.HeaderTimestamp, strconv.FormatInt(now.Unix(), 10))
	req.Header.Set(webhook.HeaderSignature, signature)
	resp, err := l.http.Do(req)
	if err != nil {
		if ctx.Err() == nil {
			l.e.say("%s %s: %v", d.Type, d.EventID, errors.Unwrap(err))
		}
		return nil
	}
	defer resp.Body.Close()
	_, _ = io.CopyN(io.Discard, resp.Body, 64<<10) // read, so that the connection is reused; only the status counts
	l.e.say("%s %s: %s", d.Type, d.EventID, clean(resp.Status))
	return nil
}

func (e *env) hooksVerify() *cobra.Command {
	c := command("verify", "Check the signature of a request",
		`Check the signature of a webhook request as a receiver does. The exact body is read from standard input. The
secret is in STOA_WEBHOOK_SECRET or in a file, because other users of the machine can see the arguments of a
program. The exit code is 1 if the signature is invalid.`,
		"  STOA_WEBHOOK_SECRET=whsec_… stoa webhooks verify --id evt_… --timestamp 1795450470 --signature v1,… < body.json")
	f := c.Flags()
	id, timestamp, signature := f.String("id", "", "the value of the header webhook-id"), f.String("timestamp", "", "the value of the header webhook-timestamp"), f.String("signature", "", "the value of the header webhook-signature")
	file := f.String("secret-file", "", "a `file` with the secret")
	old := f.Bool("any-time", false, "accept a timestamp that is more than five minutes from now")
	c.RunE = func(*cobra.Command, []string) error {
		secret := e.getenv("STOA_WEBHOOK_SECRET")
		if *file != "" {
			text, err := os.ReadFile(*file)
			if err != nil {
				return usageError{err}
			}
			secret = string(text)
		}
		if *id == "" || *timestamp == "" || *signature == "" || secret == "" {
			return usagef("--id, --timestamp, --signature and a secret are required: STOA_WEBHOOK_SECRET, or --secret-file")
		}
		body, err := io.ReadAll(io.LimitReader(e.stdin, 1<<20))
		if err != nil {
			return fmt.Errorf("read the body: %w", err)
		}
		now := time.Now()
		if seconds, err := strconv.ParseInt(*timestamp, 10, 64); err == nil && *old {
			now = time.Unix(seconds, 0)
		}
		if err := webhook.Verify(strings.TrimSpace(secret), *id, *timestamp, *signature, body, now); err != nil {
			return err
		}
		_, err = fmt.Fprintln(e.out, "The signature is valid.")
		return err
	}
	return c
}
