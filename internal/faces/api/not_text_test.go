package api_test

import (
	"fmt"
	"strings"
	"testing"

	"stoa/internal/base/contract"
	"stoa/internal/base/stoa"
	"stoa/internal/testkit/apitest"
)

// TestAReplyThatIsNotTextIsCharged asks a model that draws, in each format and in a session. The
// provider bills the picture, so each call has a receipt, and clients are told not to repeat it.
func TestAReplyThatIsNotTextIsCharged(t *testing.T) {
	t.Parallel()
	made := 0
	vendor := chatVendor(t, "vendor", func([]map[string]any) chatReply {
		made++
		return chatReply{[]string{`"content":"","images":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}]`}, "stop", 20, 1290}
	})
	h := start(t, apitest.Config{
		Providers: []stoa.Provider{vendor},
		Families:  map[string][]stoa.Route{"gamma": {{Provider: "vendor"}}},
	})
	for _, path := range allFormats {
		for _, stream := range []bool{false, true} {
			c := h.Client(t).With("Idempotency-Key", fmt.Sprint("k", made))
			for range 2 {
				r := c.Do("POST", path, callTools(path, "gamma-6-luna", "Draw a cat.", body{"stream": stream}))
				if text := string(r.Body); r.Status != 502 || !strings.Contains(text, "was charged") || !strings.Contains(text, `"retryable":false`) || r.Header.Get("x-should-retry") != "false" {
					t.Errorf("%s, stream %v: %d %s", path, stream, r.Status, r.Body)
				}
			}
			if all := receipts(t, h); len(all) != made || all[0].Usage.OutputTokens != 1290 || all[0].Amount == 0 {
				t.Errorf("%s, stream %v: %d requests, %d receipts", path, stream, made, len(all))
			}
		}
	}
	a := newAuthor(t, h, h.Client(t), object{"model": "gamma-6-luna"})
	_, path := a.begin(t, "Draw a cat.", nil)
	var s contract.Session
	if a.Want(200, "GET", path+"?waitSeconds=60", nil).JSON(&s); s.Status != "failed" || orNone(s.Error).Retryable || orNone(s.Error).Code != "upstream_error" {
		t.Errorf("the session is %s, %+v", s.Status, s.Error)
	}
	if n := len(receipts(t, h)); made != len(allFormats)*2+1 || n != made {
		t.Errorf("%d requests and %d receipts", made, n)
	}
	quiet(t, h)
}
