package agent_test

import (
	"bytes"
	stdcmp "cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"stoa/internal/agents/session"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/models/catalog"
	"stoa/internal/models/schema"
	"stoa/internal/testkit/sessiontest"
	"stoa/internal/testkit/storetest"
)

const citySchema = `{"type":"object","properties":{"city":{"type":"string"},"people":{"type":"integer","minimum":0}},"required":["city"],"additionalProperties":false}`

func replies(schema string) func(*stoa.Agent) {
	return func(a *stoa.Agent) { a.Calls = &stoa.CallSettings{ReplySchema: schema} }
}

// answers is a model that says one text after the other, and records its calls.
func answers(told *[]stoa.Call, texts ...string) sessiontest.Script {
	return func(_ context.Context, _ stoa.Model, call stoa.Call, yield func(*stoa.Event, error) bool) {
		*told = append(*told, call)
		sessiontest.Say(yield, texts[min(len(*told), len(texts))-1])
	}
}

// TestAnAnswerThatDoesNotFitIsAskedForOnce has answers that do and do not fit the schema. Only one that fits completes a turn,
// and only its text is the result of the exchange.
func TestAnAnswerThatDoesNotFitIsAskedForOnce(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, home storetest.Database) {
		for _, c := range []struct {
			name, texts, value string // texts have bars between them
			kinds              string // of the agent's messages
			failed             bool
		}{
			{name: "fits", texts: `{"city":"Athens"}`, value: `{"city":"Athens"}`, kinds: "reply"},
			{name: "in a block", texts: "```json\n{\"city\": \"Athens\"}\n```", value: `{"city": "Athens"}`, kinds: "reply"},
			{name: "mended", texts: `Athens|{"city":"Athens","people":643452}`, value: `{"city":"Athens","people":643452}`, kinds: "comment reply"},
			{name: "with other text", texts: `Here it is: {"city":"Athens"}|{"city":"Athens"}`, value: `{"city":"Athens"}`, kinds: "comment reply"},
			{name: "never", texts: `{"people":-1}|{"city":7}`, kinds: "comment comment", failed: true},
			{name: "no object", texts: `["city"]|null`, kinds: "comment comment", failed: true},
		} {
			t.Run(c.name, func(t *testing.T) {
				var told []stoa.Call
				h := sessiontest.Build(t, home, answers(&told, strings.Split(c.texts, "|")...))
				r := h.Service()
				defer sessiontest.Run(t, r)()
				s := h.Begin(r, h.Agent(replies(citySchema)), "Where?")
				status := stoa.SessionCompleted
				if c.failed {
					status = stoa.SessionFailed
				}
				got := h.Until(r, s, status)
				if c.failed && got.Turn.Failure.Code != "reply_schema_mismatch" {
					t.Errorf("it failed with %+v", got.Turn.Failure)
				}
				if value := string(session.ReplyJSON(got)); value != c.value {
					t.Errorf("its value is %s, want %s", value, c.value)
				}
				x, err := r.Read(t.Context(), s.AccountID, s.ID, s.LastSeq)
				if err != nil {
					t.Fatal(err)
				}
				if want := got.Reply; x.Text != want {
					t.Errorf("its exchange says %q, want %q", x.Text, want)
				}
				messages, _, err := r.Messages(t.Context(), s.AccountID, "", s.ID, 0, 100, false)
				if err != nil {
					t.Fatal(err)
				}
				var kinds, texts []string
				for _, m := range messages[1:] {
					kinds, texts = append(kinds, m.Kind), append(texts, m.Text)
				}
				if want := strings.NewReplacer("```json\n", "", "\n```", "").Replace(c.texts); strings.Join(kinds, " ") != c.kinds || strings.Join(texts, "|") != want {
					t.Errorf("its messages are %q of the kinds %q", texts, kinds)
				}
				for i, call := range told {
					if f := call.TextFormat(); f.Kind != stoa.FormatSchema || f.Schema != citySchema {
						t.Errorf("call %d has the format %+v", i+1, f)
					}
				}
				h.CheckBooks(r, got)
			})
		}
	})
}

// TestARejectedAnswerOutlivesItsWorker stops the worker between an answer that does not fit and the next one: the next worker
// sends what the first would have sent, and the next turn begins with it.
func TestARejectedAnswerOutlivesItsWorker(t *testing.T) {
	t.Parallel()
	var told []stoa.Call
	second := make(chan struct{})
	h := sessiontest.Build(t, storetest.New(t), sessiontest.Script(func(ctx context.Context, _ stoa.Model, call stoa.Call, yield func(*stoa.Event, error) bool) {
		switch told = append(told, call); len(told) {
		case 1:
			sessiontest.Say(yield, `{"people":"many"}`)
		case 2:
			close(second)
			<-ctx.Done()
			yield(nil, ctx.Err())
		default:
			sessiontest.Say(yield, `{"city":"Athens"}`)
		}
	}))
	r := h.Service()
	stop := sessiontest.Run(t, r)
	s := h.Begin(r, h.Agent(replies(citySchema)), "Where?")
	<-second
	stop()
	r = h.Service()
	sessiontest.Run(t, r)
	h.Until(r, s, stoa.SessionCompleted)
	if diff := cmp.Diff(told[1].Messages, told[2].Messages); diff != "" {
		t.Errorf("the second worker sends other messages:\n%s", diff)
	}
	if last := told[2].Messages[len(told[2].Messages)-1].Text(); !strings.Contains(last, "/people") || !strings.Contains(last, "city") {
		t.Errorf("the model is told %q", last)
	}
	if _, err := r.Send(t.Context(), h.Caller(), s.AgentID, s.ID, session.SendRequest{Message: "And now?"}); err != nil {
		t.Fatal(err)
	}
	h.CheckBooks(r, h.Until(r, s, stoa.SessionCompleted))
	before, after := told[2].Messages, told[3].Messages
	if diff := cmp.Diff(before, after[:len(before)]); diff != "" {
		t.Errorf("the next turn does not begin with this one:\n%s", diff)
	}
}

// TestALastStepIsNotAskedAgain has no step, or no room, left for another answer.
func TestALastStepIsNotAskedAgain(t *testing.T) {
	t.Parallel()
	for _, stop := range []stoa.Stop{stoa.StopEnd, stoa.StopLength} {
		var told []stoa.Call
		h := sessiontest.Build(t, storetest.New(t), sessiontest.Script(func(_ context.Context, _ stoa.Model, call stoa.Call, yield func(*stoa.Event, error) bool) {
			told = append(told, call)
			yield(&stoa.Event{Kind: stoa.Started, Provider: "test"}, nil)
			yield(&stoa.Event{Kind: stoa.Delta, Text: `{"city":"Ath`}, nil)
			yield(&stoa.Event{Kind: stoa.Finished, Stop: stop, HasUsage: true, Usage: stoa.Usage{InputTokens: 10, OutputTokens: 5}}, nil)
		}))
		r := h.Service()
		sessiontest.Run(t, r)
		s := h.Begin(r, h.Agent(replies(citySchema)), "Where?", func(req *session.StartRequest) {
			if stop == stoa.StopEnd {
				req.Limits.MaxSteps = 1
			}
		})
		got := h.Until(r, s, stoa.SessionFailed)
		if f := got.Turn.Failure; f.Code != session.CodeSchema || len(told) != 1 || strings.Contains(f.Message, "limit of output tokens") != (stop == stoa.StopLength) {
			t.Errorf("after %s: %+v, %d calls", stop, f, len(told))
		}
	}
}

// TestASchemaOfItsOwn has sessions with a schema of their own, and an agent whose next version has another one.
func TestASchemaOfItsOwn(t *testing.T) {
	t.Parallel()
	var told []stoa.Call
	h := sessiontest.Build(t, storetest.New(t), answers(&told, `{"city":"Athens"}`))
	r := h.Service()
	sessiontest.Run(t, r)
	a := h.Agent()
	own := h.Begin(r, a, "Where?", func(req *session.StartRequest) { req.ReplySchema = citySchema })
	plain := h.Until(r, h.Begin(r, a, "Where?"), stoa.SessionCompleted)
	if own = h.Until(r, own, stoa.SessionCompleted); session.ReplyJSON(own) == nil || session.ReplyJSON(plain) != nil {
		t.Errorf("the values are %s and %s", session.ReplyJSON(own), session.ReplyJSON(plain))
	}
	send := func(s stoa.Session, schema string) error {
		_, err := r.Send(t.Context(), h.Caller(), a.ID, s.ID, session.SendRequest{Message: "And now?", ReplySchema: schema})
		return err
	}
	if err := send(own, `{"type":"object"}`); stoa.CodeOf(err) != stoa.CodeUnsupportedValue {
		t.Errorf("another schema: %v", err)
	}
	if err := send(own, citySchema); err != nil {
		t.Errorf("the same schema: %v", err)
	}
	if err := send(plain, citySchema); stoa.CodeOf(err) != stoa.CodeUnsupportedValue {
		t.Errorf("a schema for a session without one: %v", err)
	}
	h.Until(r, own, stoa.SessionCompleted)
}

// shapes makes random schemas, each with a value that fits it and one that does not.
type shapes struct{ *rand.Rand }

func (r shapes) object(depth int) (schema, fits, fails map[string]any) {
	properties, value := map[string]any{}, map[string]any{}
	for i := range 1 + r.IntN(4) {
		name := fmt.Sprintf("m%d", i)
		properties[name], value[name] = r.any(depth - 1)
	}
	names := slices.Sorted(maps.Keys(properties))
	schema = map[string]any{"type": "object", "properties": properties, "required": names}
	if r.IntN(2) == 0 {
		schema["additionalProperties"] = false
	}
	if len(names) > 1 && r.IntN(3) == 0 { // one that may be missing
		schema["required"] = names[1:]
		delete(value, names[0])
	}
	fails = maps.Clone(value)
	delete(fails, names[len(names)-1])
	return schema, value, fails
}

func (r shapes) any(depth int) (schema, value any) {
	kind := r.IntN(10)
	if depth <= 0 {
		kind = r.IntN(5)
	}
	switch kind {
	case 0:
		return map[string]any{"type": "string", "description": "a text"}, "a \"text\""
	case 1:
		return map[string]any{"type": "string", "enum": []string{"red", "green"}}, "green"
	case 2:
		return map[string]any{"type": "integer", "minimum": 1, "maximum": 5}, 3
	case 3:
		return map[string]any{"type": []string{"number", "null"}}, nil
	case 4:
		return map[string]any{"type": "boolean"}, true
	case 5:
		items, value := r.any(depth - 1)
		return map[string]any{"type": "array", "items": items, "maxItems": 3}, []any{value, value}
	case 6:
		one, _ := r.any(0)
		two, value := r.any(depth - 1)
		return map[string]any{"anyOf": []any{one, two}}, value
	}
	if kind == 7 { // a map, which some vendors cannot express
		values, value := r.any(depth - 1)
		return map[string]any{"type": "object", "additionalProperties": values}, map[string]any{"one": value, "two": value}
	}
	schema, fits, _ := r.object(depth)
	return schema, fits
}

// enforced returns the schema that a request tells the vendor to enforce, and whether it has one.
func enforced(t *testing.T, body []byte) (string, bool) {
	t.Helper()
	var b struct {
		Text struct {
			Format struct{ Schema json.RawMessage }
		}
		ResponseFormat struct {
			JSONSchema struct{ Schema json.RawMessage } `json:"json_schema"`
		} `json:"response_format"`
		OutputConfig struct {
			Format struct{ Schema json.RawMessage }
		} `json:"output_config"`
		GenerationConfig struct{ ResponseJSONSchema json.RawMessage }
	}
	if err := json.Unmarshal(body, &b); err != nil {
		t.Fatal(err)
	}
	s := stdcmp.Or(string(b.Text.Format.Schema), string(b.ResponseFormat.JSONSchema.Schema), string(b.OutputConfig.Format.Schema), string(b.GenerationConfig.ResponseJSONSchema))
	return s, s != ""
}

var replySchemas = flag.Int("reply.schemas", 20, "the number of random schemas of the test of reply schemas, in each format of vendors")

// TestRandomSchemasInEveryFormat has agents with random schemas, half of them with a tool call before the answer. An answer that fits
// is the value of the session, any other fails with its code. No vendor refuses a request, and each begins with the one before.
func TestRandomSchemasInEveryFormat(t *testing.T) {
	t.Parallel()
	routes := maps.Clone(vendors)
	routes["gemini before 3"] = struct{ family, model string }{"beta", "beta-3.8-flash"}
	for name, tt := range routes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			provider, old, _ := strings.Cut(name, " ")
			h, vendor := onVendor(t, provider, func(o *catalog.Options) {
				if old != "" {
					o.Families = map[string][]stoa.Route{tt.family: {{Provider: provider, Model: "gemini-2.5-flash"}}}
				}
			})
			r := h.Service()
			sessiontest.Run(t, r)
			random, natively := shapes{rand.New(rand.NewPCG(uint64(len(name)), 57))}, 0
			for n := range *replySchemas {
				shape, fits, fails := random.object(3)
				value, failing := fits, n%4 == 3
				if failing {
					value = fails
				}
				said, text := marshal(t, value), marshal(t, shape)
				message := "say: " + said
				if n%2 == 0 {
					message = "call: drive_list {}\n" + message
				}
				before := len(vendor.Served())
				a := h.Agent(func(a *stoa.Agent) { a.Model = tt.model }, replies(text))
				h.File(a, "a.md", "The handbook.\n")
				s := h.Begin(r, a, message)
				s = h.Stopped(r, s)
				switch {
				case failing && (s.Status != stoa.SessionFailed || s.Turn.Failure.Code != session.CodeSchema):
					t.Errorf("the session is %s (%+v) though %s does not fit %s", s.Status, s.Turn.Failure, said, text)
				case !failing && (s.Status != stoa.SessionCompleted || string(session.ReplyJSON(s)) != said):
					t.Errorf("the session is %s (%+v) with %s though %s fits %s\n%s", s.Status, s.Turn.Failure, session.ReplyJSON(s), said, text, h.Log(r, s))
				}
				served := vendor.Served()[before:]
				for _, request := range served {
					if !bytes.Contains(request.Body, []byte("m0")) {
						t.Errorf("a request does not have the schema: %s", request.Body)
					}
					if sent, ok := enforced(t, request.Body); ok && !failing {
						natively++
						if check, err := schema.ReadParameters(sent); err != nil || check.Check(said) != nil {
							t.Errorf("the vendor is told to refuse %s, which fits %s, by %s: %v", said, text, sent, err)
						}
					}
				}
				checkPrefixes(t, served)
				h.CheckBooks(r, s)
			}
			checkAccepted(t, vendor)
			if words := name == "deepseek" || old != ""; (natively == 0) != words {
				t.Errorf("%d schemas were enforced", natively)
			}
		})
	}
}

func marshal(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestWhatAModelLacksIsNamed has an agent with effort and temperature at each vendor. The receipt names exactly the settings that the request
// does not have, and says if the schema was sent in words.
func TestWhatAModelLacksIsNamed(t *testing.T) {
	t.Parallel()
	temperature := 0.5
	efforts := map[string]string{"messages": `"effort":"low"`, "gemini": `"thinkingLevel":"LOW"`, "responses": `"effort":"low"`, "chat": `"reasoning_effort":"low"`, "deepseek": `"reasoning_effort":`}
	words := map[string]bool{"deepseek": true}
	for name, tt := range vendors {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, vendor := onVendor(t, name)
			r := h.Service()
			sessiontest.Run(t, r)
			a := h.Agent(func(a *stoa.Agent) {
				a.Model, a.Calls = tt.model, &stoa.CallSettings{ReplySchema: citySchema, Effort: "low", Temperature: &temperature}
			})
			s := h.Until(r, h.Begin(r, a, `say: {"city":"Athens"}`), stoa.SessionCompleted)
			receipts, _, err := r.Receipts(t.Context(), s.AccountID, a.ID, s.ID, store.Page{Limit: 10})
			if err != nil || len(receipts) != 1 {
				t.Fatalf("%d receipts, %v", len(receipts), err)
			}
			body := string(vendor.Served()[0].Body)
			ignored := strings.Split(receipts[0].Ignored, "\n")
			for setting, sent := range map[string]bool{"temperature": strings.Contains(body, `"temperature":0.5`), "reasoning.effort": strings.Contains(body, efforts[name])} {
				if sent == slices.Contains(ignored, setting) {
					t.Errorf("%s is sent: %t; the receipt names %q\n%s", setting, sent, ignored, body)
				}
			}
			if inWords := receipts[0].Adjustments&stoa.FormatInWords != 0; inWords != words[name] || inWords != strings.Contains(body, "Answer with JSON that fits") {
				t.Errorf("in words: %t; %v\n%s", inWords, receipts[0].Adjustments.Names(), body)
			}
		})
	}
}

// TestAServerThatRefusesTheFormatIsAskedInWords has a server of the chat format that does not know response_format.
func TestAServerThatRefusesTheFormatIsAskedInWords(t *testing.T) {
	t.Parallel()
	h, vendor := onVendor(t, "deepseek", func(o *catalog.Options) {
		o.Providers[0].Dialect = "" // as of any server with this format
	})
	r := h.Service()
	sessiontest.Run(t, r)
	s := h.Until(r, h.Begin(r, h.Agent(func(a *stoa.Agent) { a.Model = vendors["deepseek"].model }, replies(citySchema)), `say: {"city":"Athens"}`), stoa.SessionCompleted)
	if served := vendor.Served(); len(served) != 2 || served[0].Refused == "" || !bytes.Contains(served[1].Body, []byte("Answer with JSON that fits")) || string(session.ReplyJSON(s)) != `{"city":"Athens"}` {
		t.Errorf("%d requests, %q; %s", len(served), served[0].Refused, session.ReplyJSON(s))
	}
	if receipts, _, err := r.Receipts(t.Context(), s.AccountID, s.AgentID, s.ID, store.Page{Limit: 10}); err != nil || len(receipts) != 1 || receipts[0].Adjustments&stoa.FormatInWords == 0 {
		t.Errorf("the receipts are %+v, %v", receipts, err)
	}
	h.CheckBooks(r, s)
	checkSent(t, h, r, s, nil)
}
