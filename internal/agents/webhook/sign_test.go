package webhook

import (
	"errors"
	"net/http"
	"strconv"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// verified checks the signature of a request with the published library.
func verified(t *testing.T, secret string, g got) error {
	t.Helper()
	w, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	return w.VerifyIgnoringTimestamp(g.body, g.header)
}

// The vector comes from the published libraries.
func TestThePublishedVectorIsSigned(t *testing.T) {
	t.Parallel()
	const secret, id, body = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "msg_p5jXN8AQM9LWM0D4loKWxJek", `{"test": 2432232314}`
	const want = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
	at := time.Unix(1614265330, 0)
	if sig, err := Sign([]string{secret}, id, at, []byte(body)); err != nil || sig != want {
		t.Errorf("%q %v", sig, err)
	}
	both, err := Sign([]string{NewSecret(), secret}, id, at, []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	for _, now := range []time.Time{at, at.Add(Tolerance), at.Add(-Tolerance)} {
		if err := Verify(secret, id, "1614265330", both, []byte(body), now); err != nil {
			t.Errorf("at %v: %v", now, err)
		}
	}
	for what, err := range map[string]error{
		"a later time":   Verify(secret, id, "1614265330", want, []byte(body), at.Add(Tolerance+time.Second)),
		"an earlier one": Verify(secret, id, "1614265330", want, []byte(body), at.Add(-Tolerance-time.Second)),
		"no time":        Verify(secret, id, "today", want, []byte(body), at),
	} {
		if !errors.Is(err, ErrTimestamp) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for what, err := range map[string]error{
		"another body":   Verify(secret, id, "1614265330", want, []byte(body+" "), at),
		"another id":     Verify(secret, "msg_2", "1614265330", want, []byte(body), at),
		"another time":   Verify(secret, id, "1614265331", want, []byte(body), at),
		"another secret": Verify(NewSecret(), id, "1614265330", want, []byte(body), at),
		"no signature":   Verify(secret, id, "1614265330", "", []byte(body), at),
	} {
		if !errors.Is(err, ErrSignature) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for _, bad := range []string{"", "whsec_", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_short", "whsec_ÿ"} {
		if err := Verify(bad, id, "1614265330", want, []byte(body), at); !errors.Is(err, ErrSecret) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestThePublishedLibraryVerifiesOurs(t *testing.T) {
	t.Parallel()
	secret, at := NewSecret(), time.Now()
	sig, err := Sign([]string{secret}, "evt_1", at, []byte("{}"))
	if err != nil {
		t.Fatal(err)
	}
	h := http.Header{}
	h.Set(HeaderID, "evt_1")
	h.Set(HeaderTimestamp, strconv.FormatInt(at.Unix(), 10))
	h.Set(HeaderSignature, sig)
	if err := verified(t, secret, got{header: h, body: []byte("{}")}); err != nil {
		t.Error(err)
	}
	if verified(t, NewSecret(), got{header: h, body: []byte("{}")}) == nil {
		t.Error("another secret verifies it")
	}
}
