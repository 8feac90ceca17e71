package hook

import (
	"net/http"
	"testing"
	"time"

	"stoa/internal/base/stoa"
)

// TestPublishedSignaturesAreAccepted checks the vectors of the vendors' documentation, of the
// libraries of Standard Webhooks and of RFC 4231.
func TestPublishedSignaturesAreAccepted(t *testing.T) {
	t.Parallel()
	const slackBody = "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c"
	hmacOf := func(algorithm, encoding string) stoa.HookSignature {
		return stoa.HookSignature{Kind: stoa.SignedHMAC, Header: "X-Signature", Algorithm: algorithm, Encoding: encoding}
	}
	for name, v := range map[string]struct {
		sig    stoa.HookSignature
		secret string
		header map[string]string
		body   string
		at     int64 // 0 means that the scheme has no timestamp
	}{
		"standard": {
			stoa.HookSignature{Kind: stoa.SignedStandard},
			"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
			map[string]string{"webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek", "webhook-timestamp": "1614265330", "webhook-signature": "v1a,x v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE= v1,eA=="},
			`{"test": 2432232314}`, 1614265330,
		},
		"github": {
			stoa.HookSignature{Kind: stoa.SignedGitHub},
			"It's a Secret to Everybody",
			map[string]string{"X-Hub-Signature-256": "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"},
			"Hello, World!", 0,
		},
		"slack": {
			stoa.HookSignature{Kind: stoa.SignedSlack},
			"8f742231b10e8888abcd99yyyzzz85a5",
			map[string]string{"X-Slack-Request-Timestamp": "1531420618", "X-Slack-Signature": "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503"},
			slackBody, 1531420618,
		},
		"hmac sha256": {
			hmacOf("sha256", "hex"), "Jefe", map[string]string{"X-Signature": "5BDCC146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"}, "what do ya want for nothing?", 0,
		},
		"hmac sha512 base64": {
			hmacOf("sha512", "base64"), "Jefe",
			map[string]string{"X-Signature": "Fkt6e/z4GeLjlfvnO1bgo4e9ZCIugx/WECcM1+olBVSXWL91wFqZSm0DT2X48Ob9yuqxo01Ka0tjbgcKOLznNw=="},
			"what do ya want for nothing?", 0,
		},
	} {
		h := http.Header{}
		for k, text := range v.header {
			h.Set(k, text)
		}
		now := time.Unix(v.at, 0)
		check := func(what string, want bool, got bool) {
			t.Helper()
			if got != want {
				t.Errorf("%s: %s: %v", name, what, got)
			}
		}
		check("the vector", true, signed(v.sig, []string{v.secret}, h, []byte(v.body), now))
		check("after a rotation", true, signed(v.sig, []string{"whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=", v.secret}, h, []byte(v.body), now))
		check("another secret", false, signed(v.sig, []string{"whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="}, h, []byte(v.body), now))
		check("no secret", false, signed(v.sig, nil, h, []byte(v.body), now))
		check("another body", false, signed(v.sig, []string{v.secret}, h, []byte(v.body+" "), now))
		check("without headers", false, signed(v.sig, []string{v.secret}, http.Header{}, []byte(v.body), now))
		for _, after := range []time.Duration{5 * time.Minute, -5 * time.Minute} {
			check("five minutes", true, signed(v.sig, []string{v.secret}, h, []byte(v.body), now.Add(after)))
			check("more than five minutes", v.at == 0, signed(v.sig, []string{v.secret}, h, []byte(v.body), now.Add(after+after/300)))
		}
	}
}
