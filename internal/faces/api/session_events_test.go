package api_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"iter"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"stoa/internal/agents/agent"
	"stoa/internal/base/config"
	"stoa/internal/base/contract"
	"stoa/internal/base/stoa"
	"stoa/internal/faces/api"
	"stoa/internal/testkit/apitest"
)

// A logStream is an open stream of a session's events.
type logStream struct {
	body  io.ReadCloser
	lines *bufio.Scanner
}

// follow opens a stream after an event.
func (a author) follow(t *testing.T, path string, after int64, query ...string) *logStream {
	t.Helper()
	return open(t, a.h, a.Key, path, after, query...)
}

func open(t *testing.T, h *apitest.Service, key, path string, after int64, query ...string) *logStream {
	t.Helper()
	header := http.Header{"Authorization": {"Bearer " + key}}
	if after > 0 {
		header.Set("Last-Event-ID", fmt.Sprint(after))
	}
	return openWith(t, h, path+"/events?"+strings.Join(query, "&"), header)
}

// openWith opens the event stream at a path with headers.
func openWith(t *testing.T, h *apitest.Service, path string, header http.Header) *logStream {
	t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), "GET", h.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header = header
	req.Header.Set("Accept", "text/event-stream")
	res, err := h.HTTP.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { res.Body.Close() })
	if res.StatusCode != 200 || !strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		t.Fatalf("the stream answers %d %s", res.StatusCode, res.Header.Get("Content-Type"))
	}
	s := &logStream{body: res.Body, lines: bufio.NewScanner(res.Body)}
	s.lines.Buffer(nil, 1<<20)
	return s
}

func (s *logStream) close() { s.body.Close() }

// blocks ranges over the blocks of the stream, including comments, until it ends.
func (s *logStream) blocks() iter.Seq[string] {
	return func(yield func(string) bool) {
		block := ""
		for s.lines.Scan() {
			if line := s.lines.Text(); line != "" {
				block += line + "\n"
				continue
			}
			if !yield(strings.TrimSuffix(block, "\n")) {
				return
			}
			block = ""
		}
	}
}

// events ranges over the events, until the stream ends.
func (s *logStream) events(t *testing.T) iter.Seq[apitest.LogEvent] {
	return func(yield func(apitest.LogEvent) bool) {
		for block := range s.blocks() {
			if strings.HasPrefix(block, ":") {
				continue
			}
			ev, err := apitest.ReadLogEvent(block)
			if err != nil {
				t.Error(err)
				return
			}
			if !yield(ev) {
				return
			}
		}
	}
}

func TestAStreamCutAnywhereJoinsToTheStoredText(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	a := newAuthor(t, h, h.Client(t), nil)
	_, path := a.begin(t, "tokens: 60\nslow: 25ms", nil)
	var all []apitest.LogEvent
	stopped := false
	for cuts := 0; !stopped; cuts++ {
		after := int64(len(all))
		stream := a.follow(t, path, after)
		ended := true
		for ev := range stream.events(t) {
			if ev.Seq != after+1 {
				t.Fatalf("after event %d comes %d", after, ev.Seq)
			}
			all = append(all, ev)
			ended = false
			break
		}
		stream.close()
		stopped = ended
	}
	s := a.until(t, path, "completed")
	if int64(len(all)) != s.LastEventSeq {
		t.Errorf("%d events came, there are %d", len(all), s.LastEventSeq)
	}
	var messages contract.MessageList
	a.Want(200, "GET", path+"/messages", nil).JSON(&messages)
	reply := messages.Data[len(messages.Data)-1]
	if joined := apitest.Join(all, reply.ID); joined != reply.Text || joined != orNone(s.Reply) || joined == "" {
		t.Errorf("joined %q, stored %q", joined, reply.Text)
	}
	// Whatever it was cut at, the rest is the same, as a stream and as pages.
	for after := range all {
		var rest []apitest.LogEvent
		for ev := range a.follow(t, path, int64(after)).events(t) {
			rest = append(rest, ev)
		}
		if diff := cmp.Diff(all[after:], rest); diff != "" {
			t.Fatalf("after event %d the stream differs:\n%s", after, diff)
		}
	}
	var pages []apitest.LogEvent
	for more, after := true, int64(0); more; {
		var p struct {
			Data    []apitest.LogEvent
			LastSeq int64
			HasMore bool
		}
		a.Want(200, "GET", fmt.Sprintf("%s/events?after=%d&limit=7", path, after), nil).JSON(&p)
		pages, after, more = append(pages, p.Data...), p.LastSeq, p.HasMore
	}
	if diff := cmp.Diff(all, pages); diff != "" {
		t.Errorf("the pages differ from the stream:\n%s", diff)
	}
	// A number that is beyond the end is the end.
	for range a.follow(t, path, 1<<40).events(t) {
		t.Error("an event comes after the last")
	}
	a.Want(200, "HEAD", path+"/events", nil)
}

func TestAStreamFollowsFurtherTurnsWhenAsked(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	a := newAuthor(t, h, h.Client(t), nil)
	_, path := a.begin(t, "say: one", nil)
	s := a.until(t, path, "completed")
	stream := a.follow(t, path, s.LastEventSeq, "follow=true")
	a.Want(202, "POST", path+"/messages", object{"message": "say: two"})
	for ev := range stream.events(t) {
		if ev.Type == "message.completed" && ev.Kind == "reply" {
			if ev.Text != "two" || ev.Turn != 2 {
				t.Errorf("the reply is %+v", ev)
			}
			break
		}
	}
	a.Want(204, "DELETE", path, nil)
	for range stream.events(t) { // it ends with the session
	}
}

// TestManyWatchersOfOneSession checks that each of many streams contains every event
// once, in order.
func TestManyWatchersOfOneSession(t *testing.T) {
	t.Parallel()
	const watchers = 500
	h := start(t, apitest.Config{Server: func(s *api.Server) {
		s.Limits = config.Defaults().Limits
		s.Limits.EventStreamsPerKey, s.Limits.EventStreamsPerAccount = watchers, watchers
	}})
	a := newAuthor(t, h, h.Client(t), nil)
	_, path := a.begin(t, "tokens: 30\nslow: 20ms", nil)
	logs := make([][]apitest.LogEvent, watchers)
	var all sync.WaitGroup
	for i := range logs {
		stream := a.follow(t, path, 0)
		all.Go(func() { logs[i] = slices.Collect(stream.events(t)) })
	}
	all.Wait()
	s := a.until(t, path, "completed")
	for i := range logs {
		if int64(len(logs[i])) != s.LastEventSeq {
			t.Fatalf("watcher %d saw %d events of %d", i, len(logs[i]), s.LastEventSeq)
		}
		if diff := cmp.Diff(logs[0], logs[i]); diff != "" {
			t.Fatalf("watcher %d saw something else:\n%s", i, diff)
		}
	}
}

// TestAReaderWhoStopsReadingHoldsUpNobody leaves a stream unread until the
// session is long over; others see it end, and nothing is lost to the first.
func TestAReaderWhoStopsReadingHoldsUpNobody(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	a := newAuthor(t, h, h.Client(t), nil)
	text := strings.Repeat("a long line of text that fills whatever lies in between. ", 1500)
	_, path := a.begin(t, "say: "+text, nil)
	slow := a.follow(t, path, 0, "follow=true")
	for range 20 { // more than sockets take unread
		a.until(t, path, "completed")
		a.Want(202, "POST", path+"/messages", object{"message": "say: " + text})
	}
	for a.until(t, path, "completed").Turn.Number < 21 {
	}
	s := a.until(t, path, "completed")
	quick := slices.Collect(a.follow(t, path, 0).events(t))
	if int64(len(quick)) != s.LastEventSeq {
		t.Fatalf("a quick reader has %d events of %d", len(quick), s.LastEventSeq)
	}
	for ev := range slow.events(t) {
		if diff := cmp.Diff(quick[ev.Seq-1], ev); diff != "" {
			t.Fatalf("event %d differs:\n%s", ev.Seq, diff)
		}
		if ev.Seq == s.LastEventSeq {
			return
		}
	}
	t.Error("the slow reader's stream ended early")
}

func TestAKeyHasSoManyStreams(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Idle: true, Server: func(s *api.Server) { s.Limits = config.Defaults().Limits; s.Limits.EventStreamsPerKey = 2 }})
	a := newAuthor(t, h, h.Client(t), nil)
	_, path := a.begin(t, "say: x", nil)
	first := a.follow(t, path, 0)
	a.follow(t, path, 0)
	sse := a.With("Accept", "text/event-stream")
	e := sse.WantError(stoa.CodeRateLimit, "GET", path+"/events", nil)
	if !e.Retryable {
		t.Error("a stream may be free later")
	}
	other, _ := h.NewKey(h.Account.ID, "sessions:read")
	open(t, h, other, path, 0).close()
	first.close()
	eventually(t, "a closed stream counts no more", func() bool {
		req, err := http.NewRequestWithContext(t.Context(), "GET", h.URL+path+"/events", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+h.Key)
		req.Header.Set("Accept", "text/event-stream")
		res, err := h.HTTP.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != 200 && res.StatusCode != 429 {
			t.Fatalf("the stream answers %d", res.StatusCode)
		}
		return res.StatusCode == 200
	})
}

func TestAStreamEndsWithItsKey(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Idle: true})
	a := newAuthor(t, h, h.Client(t), nil)
	_, path := a.begin(t, "say: x", nil)
	secret, key := h.NewKey(h.Account.ID, "sessions:read")
	weak, weakKey := h.NewKey(h.Account.ID, "sessions:read")
	revoked, narrowed, open := open(t, h, secret, path, 0), open(t, h, weak, path, 0), a.follow(t, path, 0)
	a.Want(204, "DELETE", "/api/v1/keys/"+key.ID, nil)
	a.Want(200, "PATCH", "/api/v1/keys/"+weakKey.ID, object{"scopes": []string{"usage:read"}})
	for range revoked.events(t) {
	}
	for range narrowed.events(t) { // it ends for no other reason than its key
	}
	a.Want(200, "POST", path+"/cancel", nil)
	cancelled := false
	for ev := range open.events(t) { // that of another key goes on
		if cancelled = ev.Type == "session.status" && ev.Status == "cancelled"; cancelled {
			break
		}
	}
	if !cancelled {
		t.Error("the stream of another key ended too")
	}
	ended := make(chan struct{})
	go func() {
		for range open.events(t) {
		}
		close(ended)
	}()
	h.Server.Drain()
	late, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	select {
	case <-ended:
	case <-late.Done():
		t.Error("a stream holds up the end of the service")
	}
}

func TestASilentStreamShowsThatItLives(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Idle: true, Server: func(s *api.Server) { s.Sessions.Heartbeat = time.Millisecond }})
	a := newAuthor(t, h, h.Client(t), nil)
	_, path := a.begin(t, "say: x", nil)
	var session contract.Session
	a.Want(200, "GET", path, nil).JSON(&session)
	comments := 0
	for block := range a.follow(t, path, session.LastEventSeq).blocks() {
		if !strings.HasPrefix(block, ":") {
			if comments == 0 {
				t.Errorf("the first thing of a silent stream is %q, not a comment", block)
			}
			return // the event of the cancellation
		}
		if comments++; comments == 1 {
			a.Want(200, "POST", path+"/cancel", nil)
		}
	}
	t.Error("the stream ended without an event")
}

// TestAnAgentsToolsOverTheVendors runs a session with a call of a tool over each
// vendor's format.
func TestAnAgentsToolsOverTheVendors(t *testing.T) {
	t.Parallel()
	h, _ := vendors(t, apitest.Config{Worker: func(c *agent.Config) { c.KnowledgeSize = 1 }})
	for _, model := range []string{"alpha-haiku-4-5", "beta-3.8-flash", "gamma-6-luna", "delta-v4-flash"} {
		t.Run(model, func(t *testing.T) {
			a := newAuthor(t, h, h.Client(t), object{"model": model, "driveAccess": "read_write"})
			a.file("prices.md", "A ticket costs seven drachmas.\n")
			_, path := a.begin(t, `call: drive_search {"query":"ticket"}`, nil)
			s := a.until(t, path, "completed")
			var types []string
			for ev := range a.follow(t, path, 0).events(t) {
				types = append(types, ev.Type)
			}
			for _, want := range []string{"tool.called", "drive.read", "tool.completed"} {
				if !slices.Contains(types, want) {
					t.Errorf("the log has no %s: %v", want, types)
				}
			}
			var sources contract.SourceList
			a.Want(200, "GET", path+"/sources", nil).JSON(&sources)
			if len(sources.Data) != 1 || sources.Data[0].Via != "search" || orNone(s.Model.Served) != model || s.Usage.Steps != 2 {
				t.Errorf("sources %+v of %+v", sources.Data, s)
			}
		})
	}
}
