package cli

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestACutSearchSaysSo: a search that was ended early is never shown as if it had
// seen everything.
func TestACutSearchSaysSo(t *testing.T) {
	t.Parallel()
	hit := `{"path":"notes.md","startLine":3,"endLine":9,"snippet":"Money back.","score":1,"sha256":"9f86","mimeType":"text/markdown","version":2}`
	for name, test := range map[string]struct {
		data, cut string
		ended     bool // the command says so
	}{
		"cut with hits":    {hit, "true", true},
		"cut without hits": {"", "true", true},
		"whole":            {hit, "false", false},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				io.WriteString(w, `{"data":[`+test.data+`],"cut":`+test.cut+`}`)
			}))
			defer s.Close()
			p := newPerson(t, "STOA_BASE_URL="+s.URL, "STOA_API_KEY=sk_test_of_a_search_with_a_long_secret")
			said := p.runs(0, "", "drive", "search", "agt_06h03i5s3prfd1l3n0000000", "refund")
			if strings.Contains(said, "timed out. There may be better passages") != test.ended {
				t.Errorf("it says %q", said)
			}
		})
	}
}
