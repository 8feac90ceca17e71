package client_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"stoa/internal/base/client"
)

func event(seq int, typ, more string) string {
	return fmt.Sprintf("id: %d\nevent: %s\ndata: {\"seq\":%d,\"type\":%q%s}\n\n", seq, typ, seq, typ, more)
}

// A log is read to its end over connections that break anywhere.
func TestEventsResumeWhereAConnectionBroke(t *testing.T) {
	t.Parallel()
	log := []string{
		event(1, "session.created", ""),
		event(2, "session.status", `,"status":"running"`),
		event(3, "message.delta", `,"offset":0,"text":"hel"`),
		event(4, "message.delta", `,"offset":3,"text":"lo"`),
		event(5, "session.status", `,"status":"completed"`),
	}
	var asked []string
	c := against(t, func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/events") {
			io.WriteString(w, `{"status":"running","lastEventSeq":9}`)
			return
		}
		asked = append(asked, r.URL.Query().Get("after"))
		w.Header().Set("Content-Type", "text/event-stream")
		switch len(asked) {
		case 1: // two events, and half of the third
			io.WriteString(w, log[0]+log[1]+log[2][:20])
		case 2: // closed in order, though the session goes on: the service stops
			io.WriteString(w, ": keep-alive\n\n"+log[2])
		default:
			io.WriteString(w, log[2]+log[3]+log[4]) // one that was seen already
		}
	})
	var got []string
	for ev, err := range c.Events(t.Context(), "agt_1", "ses_1", 0, false) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprint(ev.Seq, " ", ev.Type))
	}
	want := []string{"1 session.created", "2 session.status", "3 message.delta", "4 message.delta", "5 session.status"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"0", "2", "3"}, asked); d != "" {
		t.Errorf("asked after: %s", d)
	}
}

func TestEventsOfAStoppedSessionEnd(t *testing.T) {
	t.Parallel()
	c := against(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/events") {
			w.Header().Set("Content-Type", "text/event-stream")
			return
		}
		io.WriteString(w, `{"status":"failed","lastEventSeq":7}`)
	})
	for ev, err := range c.Events(t.Context(), "agt_1", "ses_1", 7, false) {
		t.Errorf("there is an event %v, %v", ev, err)
	}
}

func TestRefusedEventsAreAnError(t *testing.T) {
	t.Parallel()
	c := against(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		io.WriteString(w, `{"error":{"message":"There is no such session.","type":"invalid_request_error","param":null,"code":"session_not_found","requestId":"req_1","retryable":false}}`)
	})
	var last error
	for _, err := range c.Events(t.Context(), "agt_1", "ses_1", 0, false) {
		last = err
	}
	if client.CodeOf(last) != "session_not_found" {
		t.Errorf("got %v", last)
	}
}
