package agent_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"image"
	"image/png"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/models/catalog"
	"stoa/internal/testkit/sessiontest"
	"stoa/internal/testkit/storetest"
)

// picture returns a PNG of the given size, followed by more bytes.
func picture(t testing.TB, width, height, more int) string {
	t.Helper()
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, width, height))); err != nil {
		t.Fatal(err)
	}
	return b.String() + strings.Repeat("\x00", more)
}

func TestAnAgentSeesImagesOfItsDrive(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, home storetest.Database) {
		h := sessiontest.Build(t, home, nil)
		a, r := h.Agent(), h.Service()
		logo := picture(t, 30, 20, 0)
		h.File(a, "art/logo.png", logo)
		sessiontest.Run(t, r)
		s := h.Begin(r, a, `call: drive_read {"path":"art/logo.png"}`)
		got := h.Until(r, s, stoa.SessionCompleted)
		if want := fmt.Sprintf("[an image (image/png, 30 × 20 pixels, %d bytes)]", len(logo)); !strings.Contains(got.Reply, want) {
			t.Errorf("the reply lacks %s: %s", want, got.Reply)
		}
		var steps []stoa.Step
		err := h.Store.Read(t.Context(), func(tx *store.Tx) (err error) {
			steps, err = tx.Work().Steps(t.Context(), s.ID, 1)
			return err
		})
		if err != nil || len(steps) != 2 {
			t.Fatalf("%d steps, %v", len(steps), err)
		}
		sources, err := r.Sources(t.Context(), h.Account.ID, a.ID, s.ID, 1, 1, 10)
		if err != nil || len(sources) != 1 {
			t.Fatalf("%d sources, %v", len(sources), err)
		}
		stored := fmt.Sprintf(`{"path":"art/logo.png","mimeType":"image/png","bytes":%d,"width":30,"height":20,"sha256":"%s"}`, len(logo), sources[0].SHA256)
		if diff := cmp.Diff([]stoa.ToolResult{{CallID: steps[0].Calls[0].ID, Name: "drive_read", Content: stored}}, steps[0].Answers()); diff != "" {
			t.Errorf("what is stored (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(stoa.Source{Turn: 1, Path: "art/logo.png", SHA256: sources[0].SHA256, Via: "read"}, sources[0]); diff != "" {
			t.Errorf("the source (-want +got):\n%s", diff)
		}
		h.CheckBooks(r, got)
	})
}

func TestImagesGoToEveryVendorInItsForm(t *testing.T) {
	t.Parallel()
	logo := picture(t, 30, 20, 0)
	data := base64.StdEncoding.EncodeToString([]byte(logo))
	for name, want := range map[string]string{
		"messages":  `},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"` + data + `"}}]}`,
		"gemini":    `"parts":[{"inlineData":{"mimeType":"image/png","data":"` + data + `"}}]}}`,
		"responses": `{"type":"input_image","image_url":"data:image/png;base64,` + data + `"}]`,
		"chat":      `{"type":"image_url","image_url":{"url":"data:image/png;base64,` + data + `"}}]}`,
		"deepseek":  `\"note\":\"This model cannot see images`,
	} {
		t.Run(name, func(t *testing.T) {
			h, vendor := onVendor(t, name)
			a := h.Agent(func(a *stoa.Agent) { a.Model = vendors[name].model })
			h.File(a, "logo.png", logo)
			r := h.Service()
			sessiontest.Run(t, r)
			s := h.Begin(r, a, "think: 60\nrounds: 2\ncall: drive_read {\"path\":\"logo.png\"}\ncall: drive_list {}")
			got := h.Until(r, s, stoa.SessionCompleted)
			checkAccepted(t, vendor)
			served := vendor.Served()
			for round, request := range served {
				if n := strings.Count(string(request.Body), want); n != round {
					t.Errorf("request %d has %d images: %s", round, n, request.Body)
				}
				if request.Dropped > 0 || name == "deepseek" && bytes.Contains(request.Body, []byte(data)) {
					t.Errorf("request %d: %d segments dropped\n%s", round, request.Dropped, request.Body)
				}
				for _, told := range []string{`image/png`, `\"width\":30,\"height\":20`} {
					if round > 0 && !bytes.Contains(request.Body, []byte(told)) {
						t.Errorf("request %d does not tell %s: %s", round, told, request.Body)
					}
				}
			}
			h.CheckBooks(r, got)
		})
	}
}

// looker is a model that makes the calls of one step after the other, then ends. It records
// its input.
type looker struct {
	steps [][]stoa.ToolCall
	told  []stoa.Call
	model []stoa.Model
}

func (l *looker) script(_ context.Context, m stoa.Model, call stoa.Call, yield func(*stoa.Event, error) bool) {
	at := len(l.told)
	l.told, l.model = append(l.told, call), append(l.model, m)
	if at < len(l.steps) {
		sessiontest.Say(yield, "", l.steps[at]...)
		return
	}
	sessiontest.Say(yield, "done")
}

func readOf(path string) stoa.ToolCall {
	return stoa.ToolCall{ID: path, Name: "drive_read", Arguments: `{"path":"` + path + `"}`}
}

// run runs a session of an agent with these files to its end.
func (l *looker) run(t *testing.T, files map[string]string) stoa.Session {
	t.Helper()
	h := sessiontest.Build(t, storetest.New(t), sessiontest.Script(l.script))
	return l.runOn(t, h, files)
}

func (l *looker) runOn(t *testing.T, h *sessiontest.Fixture, files map[string]string) stoa.Session {
	t.Helper()
	a, r := h.Agent(func(a *stoa.Agent) { a.DriveAccess = stoa.DriveReadWrite }), h.Service()
	for path, text := range files {
		h.File(a, path, text)
	}
	sessiontest.Run(t, r)
	got := h.Until(r, h.Begin(r, a, "look"), stoa.SessionCompleted)
	h.CheckBooks(r, got)
	return got
}

// results returns the tool results in the last call: their texts, and the number of images.
func (l *looker) results() (texts []string, images int) {
	for _, m := range l.told[len(l.told)-1].Messages {
		for _, r := range sessiontest.Results(m) {
			text := r.Content
			for _, p := range r.Parts {
				text += p.Text
				if p.Media != nil && p.Media.Base64 != "" {
					images++
				}
			}
			texts = append(texts, text)
		}
	}
	return texts, images
}

func TestARequestHasFewImages(t *testing.T) {
	t.Parallel()
	files := map[string]string{}
	many := &looker{steps: make([][]stoa.ToolCall, 3)}
	for i := range 12 {
		name := fmt.Sprintf("%02d.png", i)
		files[name] = picture(t, 3, 2, i)
		many.steps[i/4] = append(many.steps[i/4], readOf(name))
	}
	large := &looker{steps: [][]stoa.ToolCall{{readOf("a.png"), readOf("b.png"), readOf("c.png")}}}
	for name, tt := range map[string]struct {
		look         *looker
		files        map[string]string
		images, left int
	}{
		"number": {many, files, 10, 2},
		"bytes":  {large, map[string]string{"a.png": picture(t, 3, 2, 1), "b.png": picture(t, 3, 2, 3_600_000), "c.png": picture(t, 3, 2, 3_700_000)}, 3, 0},
		"more":   {&looker{steps: large.steps}, map[string]string{"a.png": picture(t, 3, 2, 1_000_000), "b.png": picture(t, 3, 2, 3_600_000), "c.png": picture(t, 3, 2, 3_700_000)}, 2, 1},
	} {
		t.Run(name, func(t *testing.T) {
			tt.look.run(t, tt.files)
			texts, images := tt.look.results()
			left := slices.IndexFunc(texts, func(s string) bool { return !strings.Contains(s, "the newest 10 images at most") })
			if images != tt.images || left != tt.left {
				t.Errorf("%d images, and %d left out: %q", images, left, texts)
			}
		})
	}
}

func TestAnImageThatIsGoneIsNotShown(t *testing.T) {
	t.Parallel()
	l := &looker{steps: [][]stoa.ToolCall{
		{readOf("a.png"), readOf("b.png")},
		{{ID: "w", Name: "drive_write", Arguments: `{"path":"a.png","content":"no image any more"}`}},
	}}
	l.run(t, map[string]string{"a.png": picture(t, 3, 2, 0), "b.png": picture(t, 5, 4, 0)})
	texts, images := l.results()
	if images != 1 || !strings.Contains(texts[0], "has been changed, moved or deleted") || strings.Contains(texts[1], "note") {
		t.Errorf("%d images: %q", images, texts)
	}
}

func TestFilesThatAreNoImagesAreNotShown(t *testing.T) {
	t.Parallel()
	l := &looker{steps: [][]stoa.ToolCall{{readOf("a.zip"), readOf("b.png"), readOf("c.png"), readOf("d.png")}}}
	l.run(t, map[string]string{
		"a.zip": "PK\x03\x04\x00\xff", "b.png": picture(t, 3, 2, 4_000_000),
		"c.png": "\x89PNG\r\n\x1a\n\x00\xff", "d.png": picture(t, 8001, 1, 0),
	})
	texts, images := l.results()
	for i, want := range []string{"has no text to read (application/zip, 6 bytes)", "is too large", "The header of the image is damaged.", "8001 x 1 pixels"} {
		if !strings.Contains(texts[i], want) {
			t.Errorf("result %d is %q", i, texts[i])
		}
	}
	if images != 0 {
		t.Errorf("%d images", images)
	}
}

// TestRoutesThatSeeServeImages has a model with a route that does not accept images, and one
// that does: the second serves as soon as there is an image, whose tokens are those of that
// route.
func TestRoutesThatSeeServeImages(t *testing.T) {
	t.Parallel()
	l := &looker{steps: [][]stoa.ToolCall{{readOf("a.png")}}}
	h := sessiontest.Build(t, storetest.New(t), sessiontest.Script(l.script))
	cat, err := catalog.New(catalog.Options{
		Providers: []stoa.Provider{{Name: "blind", Wire: "messages", BaseURL: "http://a.test"}, {Name: "sees", Wire: "messages", BaseURL: "http://b.test"}},
		Families: map[string][]stoa.Route{"alpha": {
			{Provider: "blind", Override: &stoa.Traits{}},
			{Provider: "sees", Override: &stoa.Traits{Vision: true, ImageTokens: 1234}},
		}},
		Sandbox: "off",
	})
	if err != nil {
		t.Fatal(err)
	}
	h.Gateway.Catalog = new(atomic.Pointer[catalog.Catalog])
	h.Gateway.Catalog.Store(cat)
	l.runOn(t, h, map[string]string{"a.png": picture(t, 3, 2, 0)})
	var served []string
	for _, m := range l.model {
		for _, r := range m.Routes {
			served = append(served, r.Provider)
		}
	}
	if got := strings.Join(served, " "); got != "blind sees sees" {
		t.Errorf("served by %s", got)
	}
	last := sessiontest.Results(l.told[1].Messages[len(l.told[1].Messages)-1])[0]
	if grown := l.told[1].EstimateInput() - l.told[0].EstimateInput(); last.Parts[1].Media.Tokens != 1234 || grown < 1234 || grown > 1500 {
		t.Errorf("the image takes %d tokens, and the estimate grew by %d", last.Parts[1].Media.Tokens, grown)
	}
}

// TestFewStepsHoldImagesAtOnce has more sessions of two accounts send images than may do so
// at the same time: each has half of the places.
func TestFewStepsHoldImagesAtOnce(t *testing.T) {
	t.Parallel()
	const sessions, most = 9, 3 // half of the places of the process
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		holding, goOn := 0, make(chan struct{})
		h := sessiontest.Build(t, storetest.SQLite(t), sessiontest.Script(func(_ context.Context, _ stoa.Model, call stoa.Call, yield func(*stoa.Event, error) bool) {
			if len(sessiontest.Results(call.Messages[len(call.Messages)-1])) == 0 {
				sessiontest.Say(yield, "", readOf("a.png"))
				return
			}
			mu.Lock()
			holding++
			mu.Unlock()
			<-goOn
			sessiontest.Say(yield, "done")
		}))
		r := h.Service()
		sessiontest.Run(t, r)
		var all []stoa.Session
		for round := range 2 {
			if round > 0 {
				h.Account = storetest.Account(t, h.Store, stoa.Credit)
			}
			a := h.Agent()
			h.File(a, "a.png", picture(t, 3, 2, 0))
			for range sessions {
				all = append(all, h.Begin(r, a, "look"))
			}
			synctest.Wait()
			mu.Lock()
			if holding != (round+1)*most {
				t.Errorf("%d steps hold images, and %d of an account may", holding, most)
			}
			mu.Unlock()
		}
		close(goOn)
		for _, s := range all {
			h.Account.ID = s.AccountID
			h.Until(r, s, stoa.SessionCompleted)
		}
	})
}

// TestImagesFitTheWindow lets a model with a small window read three images at the same time:
// it receives the newest.
func TestImagesFitTheWindow(t *testing.T) {
	t.Parallel()
	l := &looker{steps: [][]stoa.ToolCall{{readOf("a.png"), readOf("b.png"), readOf("c.png")}}}
	h := sessiontest.Build(t, storetest.New(t), sessiontest.Script(l.script))
	cat, err := catalog.New(catalog.Options{Sandbox: "always", Models: map[string]stoa.ModelChange{"alpha-haiku-4-5": {ContextTokens: 16_000}}})
	if err != nil {
		t.Fatal(err)
	}
	h.Gateway.Catalog = new(atomic.Pointer[catalog.Catalog])
	h.Gateway.Catalog.Store(cat)
	l.runOn(t, h, map[string]string{"a.png": picture(t, 3, 2, 0), "b.png": picture(t, 3, 2, 1), "c.png": picture(t, 3, 2, 2)})
	texts, images := l.results()
	if images != 1 || !strings.Contains(texts[0], "left out here") || !strings.Contains(texts[1], "left out here") || strings.Contains(texts[2], "left out") {
		t.Errorf("%d images: %q", images, texts)
	}
}

// TestAnImageThatIsRefusedIsLeftOut lets an agent read a PNG with only a valid header: its
// vendor refuses the request, and the turn continues without it.
func TestAnImageThatIsRefusedIsLeftOut(t *testing.T) {
	t.Parallel()
	h, vendor := onVendor(t, "messages")
	a, r := h.Agent(func(a *stoa.Agent) { a.Model = vendors["messages"].model }), h.Service()
	h.File(a, "cut.png", picture(t, 30, 20, 0)[:45])
	sessiontest.Run(t, r)
	got := h.Until(r, h.Begin(r, a, "think: 60\nrounds: 2\ncall: drive_read {\"path\":\"cut.png\"}"), stoa.SessionCompleted)
	refused, last := 0, ""
	for _, served := range vendor.Served() {
		last = string(served.Body)
		if served.Refused != "" {
			refused++
		}
		if served.Dropped > 0 {
			t.Errorf("%d segments of reasoning were dropped", served.Dropped)
		}
	}
	if refused != 1 || got.Turn.Attempt != 1 || strings.Count(last, "refused the request that had it") != 2 || strings.Contains(last, `"type":"image"`) {
		t.Errorf("refused %d times, attempt %d: %s", refused, got.Turn.Attempt, last)
	}
	h.CheckBooks(r, got)
}
