package agent_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"stoa/internal/agents/drive"
	"stoa/internal/agents/session"
	"stoa/internal/base/extract"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/testkit/sessiontest"
	"stoa/internal/testkit/storetest"
)

// upload stores a file for a message.
func upload(t *testing.T, h *sessiontest.Fixture, a stoa.Agent, name, mimeType string, content []byte) string {
	t.Helper()
	path, err := drive.ParsePath(name)
	if err != nil {
		t.Fatal(err)
	}
	up := stoa.Upload{ID: stoa.NewID("upl"), AccountID: a.AccountID, AgentID: a.ID, Name: name, MimeType: mimeType}
	change, err := h.Drives.Put(t.Context(), drive.Owner{AccountID: a.AccountID, AgentID: up.ID}, path, drive.BytesContent(content), mimeType, drive.Condition{})
	if err != nil {
		t.Fatal(err)
	}
	up.Size, up.SHA256, up.MimeType = change.File.Size, change.File.SHA256, change.File.MimeType
	if err := h.Store.Write(t.Context(), func(tx *store.Tx) error {
		_, err := tx.Work().InsertUpload(t.Context(), up, store.VisitorQuota{})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return up.ID
}

// TestAttachmentsStayAsTheyWereSent attaches a short text, a long one and images: the model is
// sent the short text whole, the beginning of the long one, and the images, and every later call
// begins with the same parts, also after a restart.
func TestAttachmentsStayAsTheyWereSent(t *testing.T) {
	t.Parallel()
	var calls []stoa.Call
	h := sessiontest.Build(t, storetest.New(t), sessiontest.Script(func(_ context.Context, _ stoa.Model, call stoa.Call, yield func(*stoa.Event, error) bool) {
		calls = append(calls, call)
		sessiontest.Say(yield, "noted")
	}))
	a := h.Agent(func(a *stoa.Agent) { a.DriveAccess = stoa.DriveNone })
	r := h.Service()
	stop := sessiontest.Run(t, r)
	scan := []byte(picture(t, 30, 20, 0))
	long := strings.Repeat("A line of the report.\n", 3_000)
	var s stoa.Session
	say := func(message string, uploads ...string) stoa.Call {
		t.Helper()
		if s.ID == "" {
			s = h.Begin(r, a, message, func(req *session.StartRequest) { req.Uploads.IDs = uploads })
		} else if _, err := r.Send(t.Context(), h.Caller(), a.ID, s.ID, session.SendRequest{Message: message, Uploads: session.Uploads{IDs: uploads}}); err != nil {
			t.Fatal(err)
		}
		h.Until(r, s, stoa.SessionCompleted)
		return calls[len(calls)-1]
	}
	one := say("one", upload(t, h, a, "short.md", "", []byte("A short text.\n")), upload(t, h, a, "long.md", "", []byte(long)), upload(t, h, a, "scan.png", "", scan), upload(t, h, a, "raw.bin", "", []byte{0, 1, 2, 0xff}))
	all := strings.Join(texts(one), "\n")
	if !strings.Contains(all, "begin") || !strings.Contains(all, "A short text.\n") || !strings.Contains(all, "the file goes on: use drive_read") {
		t.Errorf("the first call: %.1000s", all)
	}
	if n := strings.Count(all, "A line of the report."); n < 500 || int64(n)*22 > 3*8_000 {
		t.Errorf("%d lines of the long file were sent", n)
	}
	images := func(call stoa.Call) (list []*stoa.Media) {
		for _, m := range call.Messages {
			for _, p := range m.Parts {
				if p.Kind == stoa.PartImage {
					list = append(list, p.Media)
				}
			}
		}
		return list
	}
	if list := images(one); len(list) != 1 || list[0].Base64 == "" || list[0].Width != 30 {
		t.Errorf("the images are %+v", list)
	}
	stop()
	r = h.Service()
	sessiontest.Run(t, r)
	two := say("two", upload(t, h, a, "scan.png", "", scan))
	if list := images(two); len(list) != 2 || list[1].Base64 == "" {
		t.Errorf("the images are %+v", list)
	}
	for i, text := range texts(one) {
		if texts(two)[i] != text {
			t.Errorf("message %d changed: %.300s, before %.300s", i, texts(two)[i], text)
		}
	}
	if text := strings.Join(texts(two), "\n"); !strings.Contains(text, `"scan (2).png"`) {
		t.Errorf("the second call: %.1000s", text)
	}
}

// TestAttachmentsBelongToTheirSession has two sessions of one agent search for the other's file a
// thousand times, and read and list it by its name: neither finds it.
func TestAttachmentsBelongToTheirSession(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, home storetest.Database) {
		h := sessiontest.Build(t, home, nil)
		a := h.Agent()
		r := h.Service()
		sessiontest.Run(t, r)
		secrets, sessions := []string{"marigold", "obsidian"}, []stoa.Session{{}, {}}
		for i, secret := range secrets {
			file := upload(t, h, a, secret+".txt", "", []byte("The secret word is "+secret+".\n"))
			sessions[i] = h.Until(r, h.Begin(r, a, "say: hello", func(req *session.StartRequest) { req.Uploads.IDs = []string{file} }), stoa.SessionCompleted)
		}
		searches := 50
		if home.Config.PostgresURL != "" {
			searches = 10
		}
		for i, s := range sessions {
			own, other := secrets[i], secrets[1-i]
			order := ""
			for n := range 10 {
				order += fmt.Sprintf("call: drive_search {\"query\":\"secret word %s %d\",\"attached\":%v}\n", other, n, n%2 == 0)
			}
			for range searches {
				if _, err := r.Send(t.Context(), h.Caller(), a.ID, s.ID, session.SendRequest{Message: order}); err != nil {
					t.Fatal(err)
				}
				h.Until(r, s, stoa.SessionCompleted)
			}
			if _, err := r.Send(t.Context(), h.Caller(), a.ID, s.ID, session.SendRequest{Message: fmt.Sprintf("call: drive_read {\"path\":\"%s.txt\",\"attached\":true}\ncall: drive_read {\"path\":\"%[1]s.txt\"}\ncall: drive_list {\"attached\":true}\ncall: drive_list {}", other)}); err != nil {
				t.Fatal(err)
			}
			h.Until(r, s, stoa.SessionCompleted)
			found, foreign := 0, 0
			if err := h.Store.Read(t.Context(), func(tx *store.Tx) error {
				steps, err := tx.Work().StepsOf(t.Context(), s.ID, 1, 1000)
				for _, step := range steps {
					for _, result := range step.Results {
						if result == nil {
							continue
						}
						found += strings.Count(result.Content, "The secret word is "+own)
						foreign += strings.Count(result.Content, "The secret word is "+other) + strings.Count(result.Content, `"path":"`+other+".txt\",\"bytes\"")
					}
				}
				return err
			}); err != nil {
				t.Fatal(err)
			}
			if foreign > 0 || found != searches*10 {
				t.Errorf("session %d found its own file %d times, want %d, and the other's %d times", i, found, searches*10, foreign)
			}
		}
	})
}

// TestDocumentsAreAttached attaches documents: the model is sent their texts, or why they have
// none, and reads and sees their pages.
func TestDocumentsAreAttached(t *testing.T) {
	t.Parallel()
	call := func(arguments string) stoa.ToolCall {
		return stoa.ToolCall{ID: arguments, Name: "drive_read", Arguments: arguments}
	}
	l := &looker{steps: [][]stoa.ToolCall{{
		call(`{"path":"a.pdf","attached":true,"page":2}`), call(`{"path":"scan.pdf","attached":true,"page":1}`),
		{ID: "l", Name: "drive_list", Arguments: `{"attached":true}`},
		{ID: "s", Name: "drive_search", Arguments: `{"query":"needle"}`},
	}}}
	h := sessiontest.Build(t, storetest.New(t), sessiontest.Script(l.script))
	h.Drives.UseReader(paged{picture(t, 3, 2, 0)})
	a, r := h.Agent(), h.Service()
	sessiontest.Run(t, r)
	var files []string
	for name, content := range map[string]string{"a.pdf": "%PDF-first page\fa needle here", "scan.pdf": "%PDF-\f", "locked.pdf": "%PDF-?"} {
		files = append(files, upload(t, h, a, name, "application/pdf", []byte(content)))
	}
	h.Until(r, h.Begin(r, a, "look", func(req *session.StartRequest) { req.Uploads.IDs = files }), stoa.SessionCompleted)
	first := strings.Join(texts(l.told[0]), "\n")
	for _, part := range []string{"[page 2]\na needle here", `[attached file "scan.pdf": application/pdf, 6 bytes; it has no text to read. It contains no text, such as scanned pages. It has 2 pages; drive_read shows one with attached: true and page.]`, "It needs a password."} {
		if !strings.Contains(first, part) {
			t.Errorf("the first call lacks %q: %s", part, first)
		}
	}
	results, images := l.results()
	for i, part := range []string{`"path":"a.pdf","place":"p. 2"`, `"path":"scan.pdf","page":1`, `"path":"locked.pdf","bytes":6,"mimeType":"application/pdf","unread":"It needs a password."`, `"attached":true,"path":"a.pdf","place":"p. 1–2"`} {
		if !strings.Contains(results[i], part) {
			t.Errorf("result %d is %s, without %s", i, results[i], part)
		}
	}
	if images != 1 {
		t.Errorf("%d images", images)
	}
}

// A lateReader fails until its gate opens, and then reads as [paged] does.
type lateReader struct {
	paged
	began, may chan struct{}
}

func (r *lateReader) Read(ctx context.Context, d extract.Document) (extract.Result, error) {
	select {
	case <-r.may:
		return r.paged.Read(ctx, d)
	default:
	}
	select {
	case r.began <- struct{}{}:
	default:
	}
	return extract.Result{}, errors.New("not yet")
}

// TestATurnWaitsForTexts attaches a document whose text is read after the message was accepted:
// the turn waits for it.
func TestATurnWaitsForTexts(t *testing.T) {
	t.Parallel()
	l := &looker{}
	h := sessiontest.Build(t, storetest.New(t), sessiontest.Script(l.script))
	reader := &lateReader{began: make(chan struct{}, 1), may: make(chan struct{})}
	h.Drives.UseReader(reader)
	a, r := h.Agent(), h.Service()
	file := upload(t, h, a, "a.pdf", "application/pdf", []byte("%PDF-a late text"))
	<-reader.began
	s := h.Begin(r, a, "look", func(req *session.StartRequest) { req.Uploads.IDs = []string{file} })
	sessiontest.Run(t, r)
	close(reader.may)
	path, err := drive.ParsePath("a.pdf")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := h.Drives.Reread(t.Context(), drive.Owner{AccountID: a.AccountID, AgentID: file}, path, ""); err != nil {
		t.Fatal(err)
	}
	h.Until(r, s, stoa.SessionCompleted)
	if first := strings.Join(texts(l.told[0]), "\n"); !strings.Contains(first, "a late text") {
		t.Errorf("the first call is %s", first)
	}
}
