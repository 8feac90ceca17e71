package hook

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"time"

	"stoa/internal/agents/webhook"
	"stoa/internal/base/stoa"
)

// signed reports whether one of the secrets signed a request. It computes a signature for each
// secret in any case, so that its time does not depend on what is wrong.
//
// The schemes are those of the vendors: https://github.com/standard-webhooks/standard-webhooks,
// https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries and
// https://docs.slack.dev/authentication/verifying-requests-from-slack.
func signed(sig stoa.HookSignature, secrets []string, h http.Header, body []byte, now time.Time) bool {
	timestamp, before := "", ""
	switch sig.Kind {
	case stoa.SignedStandard:
		sig.Header, sig.Prefix, sig.Encoding = webhook.HeaderSignature, "v1,", "base64"
		timestamp = h.Get(webhook.HeaderTimestamp)
		before = h.Get(webhook.HeaderID) + "." + timestamp + "."
	case stoa.SignedGitHub:
		sig.Header, sig.Prefix = "X-Hub-Signature-256", "sha256="
	case stoa.SignedSlack:
		sig.Header, sig.Prefix = "X-Slack-Signature", "v0="
		timestamp = h.Get("X-Slack-Request-Timestamp")
		before = "v0:" + timestamp + ":"
	}
	given := []string{h.Get(sig.Header)}
	if sig.Kind == stoa.SignedStandard { // several, separated by spaces, after a rotation at the sender
		given = strings.Fields(given[0])
	}
	matches := false
	for _, secret := range secrets {
		key := []byte(secret)
		if sig.Kind == stoa.SignedStandard {
			key, _ = webhook.SecretKey(secret) // checked when it was stored
		}
		mac := hmac.New(sha256.New, key)
		if sig.Algorithm == "sha512" {
			mac = hmac.New(sha512.New, key)
		}
		mac.Write([]byte(before))
		mac.Write(body)
		want := mac.Sum(nil)
		for _, text := range given {
			text, found := strings.CutPrefix(text, sig.Prefix)
			decode := hex.DecodeString
			if sig.Encoding == "base64" {
				decode = base64.StdEncoding.DecodeString
			}
			if got, err := decode(text); found && err == nil && hmac.Equal(got, want) {
				matches = true
			}
		}
	}
	return matches && (before == "" || isFresh(timestamp, now))
}

// isFresh reports whether a timestamp in seconds is within the tolerance. A request that was recorded
// cannot be sent again later.
func isFresh(timestamp string, now time.Time) bool {
	seconds, err := strconv.ParseInt(timestamp, 10, 64)
	d := now.Sub(time.Unix(seconds, 0))
	return err == nil && d <= webhook.Tolerance && d >= -webhook.Tolerance
}
