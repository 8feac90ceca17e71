package responses

import (
	"bufio"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"stoa/internal/base/listen"
)

// TestTextDoesNotWaitForASlowCharge reads a stream whose last text is still buffered when its
// charge begins: the text arrives although the charge ends only after it was read.
func TestTextDoesNotWaitForASlowCharge(t *testing.T) {
	t.Parallel()
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	read := make(chan bool)
	s := &Service{HeaderWait: time.Hour, KeepAlive: time.Hour, WriteTimeout: time.Hour}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e := s.stream(w, (&echo{}).newFormat(), &reply{model: "m"}, nil)
		defer e.release()
		it := &item{kind: itemMessage, id: "msg_1", status: statusInProgress}
		e.opened(it)
		if err := e.piece(it, pieceText, "sent", false); err != nil {
			t.Error(err)
		}
		if err := e.piece(it, pieceText, "waits", true); err != nil {
			t.Error(err)
		}
		e.settling()
		<-read
		it.status = statusCompleted
		if err := e.end(&outcome{status: statusCompleted, items: []*item{it}, last: it}); err != nil {
			t.Error(err)
		}
	})}
	defer server.Close()
	go func() { _ = server.Serve(listen.New(plain, listen.Config{})) }()
	res, err := http.Get("http://" + plain.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	for lines.Scan() && !strings.Contains(lines.Text(), `"delta":"waits"`) {
		if strings.Contains(lines.Text(), "response.completed") {
			t.Fatal("the reply is complete without its text")
		}
	}
	close(read)
	var last string
	for lines.Scan() {
		if lines.Text() != "" {
			last = lines.Text()
		}
	}
	if err := lines.Err(); last != "data: [DONE]" || err != nil {
		t.Errorf("the stream ends with %q, %v", last, err)
	}
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		t.Error(err)
	}
}

func TestNoDeltaIsALongLine(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("\x01é€\U0001F642", 9000)
	for name, m := range map[string]formatMaker{"chat": &chatMaker{}, "messages": messagesMaker{}, "responses": &echo{}} {
		s := &Service{HeaderWait: time.Hour, KeepAlive: time.Hour, WriteTimeout: time.Hour}
		w := httptest.NewRecorder()
		e := s.stream(w, m.newFormat(), &reply{model: "m"}, nil)
		it := &item{kind: itemCall, id: "fc_1", callID: "call_1", name: "f", status: statusInProgress}
		e.opened(it)
		if err := e.piece(it, pieceArguments, long, false); err != nil {
			t.Error(err)
		}
		e.release()
		var got strings.Builder
		lines := bufio.NewScanner(w.Body)
		for lines.Scan() {
			var event struct {
				Type    string
				Delta   json.RawMessage
				Choices []struct {
					Delta struct {
						Calls []struct{ Function struct{ Arguments string } } `json:"tool_calls"`
					}
				}
			}
			data, ok := strings.CutPrefix(lines.Text(), "data: ")
			if !ok {
				continue
			}
			if err := json.Unmarshal([]byte(data), &event); err != nil {
				t.Fatal(err)
			}
			var delta struct {
				Part string `json:"partial_json"`
			}
			if json.Unmarshal(event.Delta, &delta.Part) != nil {
				_ = json.Unmarshal(event.Delta, &delta)
			}
			got.WriteString(delta.Part)
			for _, c := range event.Choices {
				for _, call := range c.Delta.Calls {
					got.WriteString(call.Function.Arguments)
				}
			}
		}
		if err := lines.Err(); err != nil || got.String() != long {
			t.Errorf("%s: %d of %d bytes, %v", name, got.Len(), len(long), err)
		}
	}
}
