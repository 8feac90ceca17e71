package rest

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"regexp"
	"testing"
	"time"

	"stoa/internal/base/stoa"
)

// ofACall returns the fields of a call that was charged.
func ofACall() *Fields {
	f := &Fields{}
	f.ID, f.Asked, f.FirstToken = "req_1", "auto", 321*time.Millisecond
	f.AccountID, f.KeyID, f.Status, f.Duration = "acct_1", "key_1", http.StatusOK, 1234567*time.Microsecond
	f.Charged(stoa.Charge{ID: "resp_1", Served: "claude-haiku-4-5", Provider: "anthropic", Usage: stoa.Usage{InputTokens: 10, OutputTokens: 100}, Amount: 123})
	return f
}

// TestALogLineHasItsOwnAttributes writes the lines of two requests one after the other:
// nothing of the first is in the second, and no attribute is in a group.
func TestALogLineHasItsOwnAttributes(t *testing.T) {
	t.Parallel()
	failed := &Fields{}
	failed.ID, failed.Status = "req_2", http.StatusInternalServerError
	failed.Failed(errors.New("boom"))
	for name, c := range map[string]struct {
		handler func(io.Writer) slog.Handler
		want    string
	}{
		"text": {
			func(to io.Writer) slog.Handler { return slog.NewTextHandler(to, nil) },
			"level=INFO msg=request request=req_1 method=POST path=/a status=200 duration=1.234567s bytes=99 account=acct_1 key=key_1 model=auto" +
				" response=resp_1 served=claude-haiku-4-5 provider=anthropic inputTokens=10 outputTokens=100 creditsMicro=123 firstText=321ms\n" +
				"level=ERROR msg=request request=req_2 method=GET path=/b status=500 duration=0s bytes=0 code=server_error error=boom\n",
		},
		"json": {
			func(to io.Writer) slog.Handler { return slog.NewJSONHandler(to, nil) },
			`{"level":"INFO","msg":"request","request":"req_1","method":"POST","path":"/a","status":200,"duration":1234567000,"bytes":99,"account":"acct_1","key":"key_1","model":"auto",` +
				`"response":"resp_1","served":"claude-haiku-4-5","provider":"anthropic","inputTokens":10,"outputTokens":100,"creditsMicro":123,"firstText":321000000}` + "\n" +
				`{"level":"ERROR","msg":"request","request":"req_2","method":"GET","path":"/b","status":500,"duration":0,"bytes":0,"code":"server_error","error":"boom"}` + "\n",
		},
	} {
		var out bytes.Buffer
		log := slog.New(c.handler(&out))
		ofACall().line(t.Context(), log, "POST", "/a", 99)
		failed.line(t.Context(), log, "GET", "/b", 0)
		if got := regexp.MustCompile(`"?time"?[=:]\S+?[ ,]`).ReplaceAllString(out.String(), ""); got != c.want {
			t.Errorf("%s:\n%s", name, got)
		}
	}
}

func BenchmarkLogLine(b *testing.B) {
	f, log := ofACall(), slog.New(slog.NewTextHandler(io.Discard, nil))
	b.ReportAllocs()
	for b.Loop() {
		f.line(b.Context(), log, "POST", "/api/v1/responses", 1234)
	}
}
