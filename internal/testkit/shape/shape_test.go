package shape

import (
	"slices"
	"testing"
)

// TestDifferencesAreFound compares pairs of replies.
func TestDifferencesAreFound(t *testing.T) {
	t.Parallel()
	const json = "200\nContent-Type: application/json\n\n"
	const stream = "200\nContent-Type: text/event-stream\n\n"
	for name, c := range map[string]struct {
		request, real, fake string
		want                []string
	}{
		"other values":      {"a", json + `{"a":1,"b":[{"c":"x"}]}`, json + `{"a":2,"b":[{"c":"y"},{"c":"z"}]}`, nil},
		"a status":          {"a", "404\n", "400\n", []string{"a: status is 400, not 404"}},
		"a kind of content": {"a", json + `{}`, "200\nContent-Type: text/plain\n\n{}", []string{"a: Content-Type is text/plain, not application/json"}},
		"absent members":    {"a", json + `{"a":{"b":1}}`, json + `{}`, []string{"a: .a (object) is missing"}},
		"other members":     {"a", json + `{}`, json + `{"a":null}`, []string{"a: .a (null) is not in the real reply"}},
		"null":              {"a", json + `{"a":null}`, json + `{"a":""}`, []string{"a: .a is string, not null"}},
		"an order":          {"a", json + `{"a":1,"b":2}`, json + `{"b":1,"a":2}`, []string{"a: .b comes where the real reply has .a"}},
		"parts of a list":   {"a", json + `[{"a":1},{"a":null},{}]`, json + `[{"a":1}]`, []string{"a: [].a is number, not null number absent"}},
		"not JSON":          {"a", json + `{}`, json + `{`, []string{"a:  is string, not object"}},
		"parameters":        {"a", "302\nLocation: http://a/?code=1&state=2\n", "302\nLocation: http://b/?state=1&code=2\n", []string{"a: Location is ?state&code, not ?code&state"}},
		"an event":          {"a", stream + "event: x\ndata: {}\n\nevent: y\ndata: {}\n\n", stream + "event: x\ndata: {}\n\n", []string{"a: events is x(event data), not x(event data), y(event data)", "a: y(event data) (object) is missing"}},
		"repeated events":   {"a", stream + "data: {}\n\ndata: {}\n\ndata: [DONE]\n\n", stream + "data: {}\n\ndata: [DONE]\n\n", nil},
		"fields of events":  {"a", stream + "id: 1\ndata: {}\n\n", stream + "data: {}\n\n", []string{"a: events is (data), not (id data)", "a: (id data) (object) is missing", "a: (data) (object) is not in the real reply"}},
		"mail: other words": {"RCPT", "250 2.1.5 Ok", "250 2.1.5 Accepted", nil},
		"mail: a code":      {"RCPT", "550 5.1.1 no", "550 no", []string{"RCPT: line 0 is 550, not 550 5.1.1"}},
		"mail: extensions":  {"EHLO", "250-a\n250-SIZE 1\n250 AUTH PLAIN", "250-b\n250-AUTH LOGIN\n250 SIZE 2", []string{"EHLO: AUTH is LOGIN, not PLAIN", "EHLO: AUTH comes where the real reply has SIZE"}},
	} {
		if got := Differences([]Reply{{c.request, c.real}}, []Reply{{c.request, c.fake}}); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	if got := Unexpected([]Reply{{"a", "200\n"}}, nil, map[string]string{"a: no reply of the fake": "", "other": "a reason"}); len(got) != 1 {
		t.Errorf("on purpose: %q", got)
	}
}
