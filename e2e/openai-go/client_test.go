// Package openaigo tests a running Stoa with the official Go clients of OpenAI and of Google;
// only the base URL and the key are changed.
package openaigo

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"
)

const key = "sk_test_0123456789abcdefghijklmnopqrstuvwxyz"

var base string // of the live server, with /api/v1

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "stoa")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	bin := filepath.Join(dir, "stoa")
	build := exec.Command("go", "build", "-o", bin, "./cmd/stoa")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		panic(string(out))
	}
	serve := exec.Command(bin, "serve", "--listen", "127.0.0.1:0", "--data", filepath.Join(dir, "data"))
	serve.Env = append(os.Environ(), "STOA_BOOTSTRAP_KEY="+key, "STOA_SANDBOX=always", "STOA_EXTENSIONS=all", "STOA_KEEP_ALIVE=1s")
	serve.Stderr = os.Stderr
	out, err := serve.StdoutPipe()
	if err != nil {
		panic(err)
	}
	if err := serve.Start(); err != nil {
		panic(err)
	}
	defer func() { serve.Process.Signal(syscall.SIGTERM); serve.Wait() }()
	address := regexp.MustCompile(`http://127\.0\.0\.1:\d+`)
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if a := address.FindString(lines.Text()); a != "" {
			base = a + "/api/v1"
			break
		}
	}
	if base == "" {
		panic("the server did not say where it listens")
	}
	go io.Copy(io.Discard, out)
	return m.Run()
}

func client(opts ...option.RequestOption) openai.Client {
	return openai.NewClient(append([]option.RequestOption{option.WithBaseURL(base), option.WithAPIKey(key)}, opts...)...)
}

func ask(model, text string) responses.ResponseNewParams {
	return responses.ResponseNewParams{
		Model: model,
		Input: responses.ResponseNewParamsInputUnion{OfString: openai.String(text)},
	}
}

func TestAWholeReply(t *testing.T) {
	c := client()
	r, err := c.Responses.New(t.Context(), ask("alpha-haiku-4-5", "say: Hello from here"))
	if err != nil {
		t.Fatal(err)
	}
	if r.OutputText() != "Hello from here" || r.Status != "completed" || r.Model != "alpha-haiku-4-5" || !strings.HasPrefix(r.ID, "resp_") {
		t.Errorf("got %s %s %s %q", r.ID, r.Status, r.Model, r.OutputText())
	}
	if u := r.Usage; u.InputTokens == 0 || u.OutputTokens == 0 || u.TotalTokens != u.InputTokens+u.OutputTokens {
		t.Errorf("usage %+v", u)
	}
}

func TestAStreamedReplyInOrder(t *testing.T) {
	c := client()
	s := c.Responses.NewStreaming(t.Context(), ask("beta-3.8-flash", "say: one two three, with “quotes” and 日本語 🙂"))
	defer s.Close()
	var text strings.Builder
	var kinds []string
	var seq int64
	for s.Next() {
		ev := s.Current()
		if ev.SequenceNumber != seq {
			t.Fatalf("event %s has number %d, want %d", ev.Type, ev.SequenceNumber, seq)
		}
		seq++
		if ev.Type == "response.output_text.delta" {
			text.WriteString(ev.Delta)
			if kinds[len(kinds)-1] == ev.Type {
				continue
			}
		}
		kinds = append(kinds, ev.Type)
		if ev.Type == "response.completed" {
			if got := ev.Response.OutputText(); got != text.String() {
				t.Errorf("the final object says %q, the deltas %q", got, text.String())
			}
			if ev.Response.Usage.TotalTokens == 0 {
				t.Error("the final object has no usage")
			}
		}
	}
	if err := s.Err(); err != nil {
		t.Fatal(err)
	}
	want := "response.created response.in_progress response.output_item.added response.content_part.added response.output_text.delta " +
		"response.output_text.done response.content_part.done response.output_item.done response.completed"
	if got := strings.Join(kinds, " "); got != want {
		t.Errorf("events\n %s\nwant\n %s", got, want)
	}
	if text.String() != "one two three, with “quotes” and 日本語 🙂" {
		t.Errorf("text %q", text.String())
	}
}

func TestTurnsTravelInTheInput(t *testing.T) {
	c := client()
	first, err := c.Responses.New(t.Context(), ask("auto", "say: first answer"))
	if err != nil {
		t.Fatal(err)
	}
	var input responses.ResponseInputParam
	input = append(input, responses.ResponseInputItemParamOfMessage("say: first answer", responses.EasyInputMessageRoleUser))
	for _, item := range first.Output {
		m := item.AsMessage().ToParam()
		input = append(input, responses.ResponseInputItemUnionParam{OfOutputMessage: &m})
	}
	input = append(input, responses.ResponseInputItemParamOfMessage("say: second answer", responses.EasyInputMessageRoleUser))
	r, err := c.Responses.New(t.Context(), responses.ResponseNewParams{
		Model:        "auto",
		Instructions: openai.String("You are brief."),
		Input:        responses.ResponseNewParamsInputUnion{OfInputItemList: input},
	})
	if err != nil {
		t.Fatal(err)
	}
	if r.OutputText() != "second answer" {
		t.Errorf("got %q", r.OutputText())
	}
	if r.Instructions.OfString != "You are brief." {
		t.Errorf("instructions echoed as %q", r.Instructions.OfString)
	}
}

func TestAliasesResolve(t *testing.T) {
	c := client()
	for asked, served := range map[string]string{
		"alpha-sonnet-5": "alpha-sonnet-5-5", "alpha-opus-5": "alpha-opus-5-5",
		"gamma-5.6-sol": "gamma-6.1-sol", "gamma-5.6-terra": "gamma-6.1-sol", "gamma-5.6-luna": "gamma-6-luna",
	} {
		r, err := c.Responses.New(t.Context(), ask(asked, "say: hi"))
		if err != nil {
			t.Fatal(err)
		}
		if r.Model != served {
			t.Errorf("%s was served as %s, want %s", asked, r.Model, served)
		}
	}
}

// refused makes a call that must fail and returns the client's error.
func refused(t *testing.T, c openai.Client, p responses.ResponseNewParams) *openai.Error {
	t.Helper()
	_, err := c.Responses.New(t.Context(), p)
	var e *openai.Error
	if !errors.As(err, &e) {
		t.Fatalf("the error is %v, not the client's own", err)
	}
	return e
}

func TestModelsAreListed(t *testing.T) {
	c := client(option.WithBaseURL(strings.TrimSuffix(base, "/api/v1") + "/v1"))
	page, err := c.Models.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(page.Data) < 5 || page.Data[0].ID != "auto" || page.Data[1].Created == 0 {
		t.Errorf("the models are %+v", page.Data)
	}
	one, err := c.Models.Get(t.Context(), "alpha-sonnet-5")
	if err != nil || one.ID != "alpha-sonnet-5-5" || one.OwnedBy != "stoa" {
		t.Errorf("one is %+v, %v", one, err)
	}
	var failed *openai.Error
	if _, err := c.Models.Get(t.Context(), "nope"); !errors.As(err, &failed) || failed.StatusCode != http.StatusNotFound {
		t.Errorf("an unknown model is %v", err)
	}
}

// A tool is called, streamed, and its result is sent back, three times.
func TestToolsAreCalled(t *testing.T) {
	c := client()
	call := ask("alpha-haiku-4-5", "")
	call.Tools = []responses.ToolUnionParam{responses.ToolParamOfFunction("weather", map[string]any{
		"type": "object", "properties": map[string]any{"city": map[string]any{"type": "string"}}, "required": []string{"city"}, "additionalProperties": false,
	}, true)}
	var items responses.ResponseInputParam
	for round := range 3 {
		items = append(items, responses.ResponseInputItemParamOfMessage("call: weather {\"city\":\"Oslo\"}\ncall: weather {\"city\":\"Rome\"}\nsay: sunny", responses.EasyInputMessageRoleUser))
		call.Input = responses.ResponseNewParamsInputUnion{OfInputItemList: items}
		stream := c.Responses.NewStreaming(t.Context(), call)
		var r responses.Response
		for stream.Next() {
			if ev := stream.Current(); ev.Type == "response.completed" {
				r = ev.Response
			}
		}
		if err := stream.Err(); err != nil {
			t.Fatal(err)
		}
		calls := 0
		for _, item := range r.Output {
			if item.Type == "function_call" {
				calls++
				items = append(items, responses.ResponseInputItemParamOfFunctionCall(item.Arguments.OfString, item.CallID, item.Name))
				output := responses.ResponseInputItemParamOfFunctionCallOutput("sunny")
				output.OfFunctionCallOutput.CallID = openai.String(item.CallID)
				items = append(items, output)
			}
		}
		if calls != 2 {
			t.Fatalf("round %d: %d calls in %s", round, calls, r.RawJSON())
		}
		call.Input = responses.ResponseNewParamsInputUnion{OfInputItemList: items}
		last, err := c.Responses.New(t.Context(), call)
		if err != nil || last.OutputText() != "sunny" {
			t.Fatalf("round %d: %q, %v", round, last.OutputText(), err)
		}
		items = append(items, responses.ResponseInputItemParamOfMessage(last.OutputText(), responses.EasyInputMessageRoleAssistant))
	}
}

func TestErrorsAreTyped(t *testing.T) {
	search := ask("auto", "hi")
	search.Tools = []responses.ToolUnionParam{responses.ToolParamOfFileSearch([]string{"vs_1"})}
	for name, c := range map[string]struct {
		client openai.Client
		call   responses.ResponseNewParams
		status int
		code   string
		param  string
	}{
		"a wrong key":      {client(option.WithAPIKey("sk_wrong")), ask("auto", "hi"), 401, "Unauthorized", ""},
		"an unknown model": {client(), ask("gpt-5", "hi"), 400, "model_not_found", "model"},
		"a vendor's tool":  {client(), search, 400, "unsupported_value", "tools[0].type"},
		"an empty input":   {client(), ask("auto", ""), 400, "invalid_value", "input"},
	} {
		e := refused(t, c.client, c.call)
		if e.StatusCode != c.status || e.Code != c.code || e.Param != c.param || e.Message == "" {
			t.Errorf("%s: %d %q %q %q", name, e.StatusCode, e.Code, e.Param, e.Message)
		}
	}
}

func TestAVendorsFailureIsRetriedAndThenReported(t *testing.T) {
	var tries atomic.Int32
	counted := client(option.WithMaxRetries(1), option.WithMiddleware(func(r *http.Request, next option.MiddlewareNext) (*http.Response, error) {
		tries.Add(1)
		return next(r)
	}))
	if e := refused(t, counted, ask("alpha-haiku-4-5", "fail: 529")); e.StatusCode != 503 || e.Code != "server_is_overloaded" {
		t.Errorf("got %d %q", e.StatusCode, e.Code)
	}
	if tries.Load() != 2 {
		t.Errorf("%d tries, want 2", tries.Load())
	}
}

func TestAStreamThatBreaksIsAnError(t *testing.T) {
	c := client()
	s := c.Responses.NewStreaming(t.Context(), ask("alpha-haiku-4-5", "tokens: 50\ncut: 5"))
	defer s.Close()
	deltas := 0
	for s.Next() {
		if s.Current().Type == "response.output_text.delta" {
			deltas++
		}
	}
	if s.Err() == nil {
		t.Error("the stream ended without an error")
	}
	if deltas == 0 {
		t.Error("nothing was relayed before the break")
	}
}

func TestAnAbortEndsTheCall(t *testing.T) {
	c := client()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s := c.Responses.NewStreaming(ctx, ask("alpha-haiku-4-5", "tokens: 10000\nslow: 5ms"))
	defer s.Close()
	for s.Next() {
		if s.Current().Type == "response.output_text.delta" {
			cancel()
			break
		}
	}
	for s.Next() {
	}
	if !errors.Is(s.Err(), context.Canceled) {
		t.Errorf("after an abort the error is %v", s.Err())
	}
}
