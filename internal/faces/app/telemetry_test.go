package app_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"stoa/internal/base/contract"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/base/telemetry"
	"stoa/internal/faces/api"
	"stoa/internal/testkit/apitest"
	"stoa/internal/testkit/fakeup"
	"stoa/internal/testkit/storetest"
)

// marker is in every text of callers and models here, and must not occur in exposed data.
const marker = "xMARKERx"

type object = map[string]any

const responses = "/api/v1/responses"

func metrics(accounts int) *telemetry.Metrics {
	var codes []stoa.Code
	for _, c := range contract.Codes() {
		codes = append(codes, c.Code)
	}
	return telemetry.NewMetrics(telemetry.MetricsConfig{Version: "v", Commit: "c", Codes: codes, Routes: api.Routes(), Accounts: accounts})
}

// vendors starts a service with two providers for one model: the first rejects its key.
func vendors(t *testing.T, cfg apitest.Config) (*apitest.Service, *fakeup.Server) {
	t.Helper()
	f := fakeup.Start(t)
	down := f.Provider("messages")
	down.Name, down.APIKey = "down", "wrong"
	cfg.Providers = []stoa.Provider{down, f.Provider("messages")}
	cfg.Families = map[string][]stoa.Route{"alpha": {{Provider: "down"}, {Provider: "messages"}}}
	return apitest.Start(t, cfg), f
}

// scrape returns the samples of /metrics by their names with labels, and the text.
func scrape(t *testing.T, m *telemetry.Metrics) (map[string]float64, string) {
	t.Helper()
	out := httptest.NewRecorder()
	server := telemetry.Admin(m, nil, false)
	server.Handler.ServeHTTP(out, httptest.NewRequest("GET", "/metrics", nil))
	if out.Code != 200 {
		t.Fatalf("/metrics answered %d: %s", out.Code, out.Body)
	}
	samples := map[string]float64{}
	for line := range strings.Lines(out.Body.String()) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		cut := strings.LastIndexByte(line, ' ')
		v, err := strconv.ParseFloat(strings.TrimSpace(line[cut:]), 64)
		if err != nil {
			t.Fatal(err)
		}
		samples[line[:cut]] = v
	}
	return samples, out.Body.String()
}

// expect compares samples; other samples that begin with one of the prefixes must be zero.
func expect(t *testing.T, samples, want map[string]float64, prefixes ...string) {
	t.Helper()
	for name, v := range want {
		if got, ok := samples[name]; !ok || got != v {
			t.Errorf("%s is %v (there: %v), want %v", name, got, ok, v)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(samples)) {
		for _, p := range prefixes {
			if _, known := want[name]; strings.HasPrefix(name, p) && !known && samples[name] != 0 {
				t.Errorf("%s is %v, want 0", name, samples[name])
			}
		}
	}
}

// TestCountsAreExact makes calls of each kind and compares every count with the calls.
func TestCountsAreExact(t *testing.T) {
	t.Parallel()
	m := metrics(5)
	h, _ := vendors(t, apitest.Config{Metrics: m})
	c := h.Client(t)
	call := func(model, input string, stream bool) object {
		return object{"model": model, "input": input + "\nsay: " + marker, "stream": stream}
	}
	var input, output, charged float64
	note := func(r *apitest.Reply) {
		t.Helper()
		var reply contract.Response
		if len(r.Events) > 0 {
			reply = *r.Events[len(r.Events)-1].Response
		} else {
			r.JSON(&reply)
		}
		input += float64(reply.Usage.InputTokens)
		output += float64(reply.Usage.OutputTokens)
	}
	for range 2 {
		note(c.Want(200, "POST", responses, call("alpha-haiku-4-5", "", true)))
	}
	for range 3 {
		note(c.Want(200, "POST", responses, call("alpha-haiku-4-5", "", false)))
	}
	keyed := c.With("Idempotency-Key", "k-1")
	note(keyed.Want(200, "POST", responses, call("alpha-haiku-4-5", "", false)))
	keyed.Want(200, "POST", responses, call("alpha-haiku-4-5", "", false))
	c.WantError(stoa.CodeInvalidValue, "POST", responses, call("alpha-haiku-4-5", "fail: 400", false))
	c.WantError(stoa.CodeModelNotFound, "POST", responses, call(marker, "", false))
	c.WantError(stoa.CodeModelNotFound, "POST", responses, call(marker+"2", "", true))
	bad := h.ClientWith(t, "sk_0123456789abcdefghijklmnopqrstuvwxyzABCD")
	wrong := stoa.Code(bad.Do("GET", "/api/v1/credits", nil).Error().Code)
	bad.WantError(wrong, "POST", responses, call("auto", "", false))
	c.Want(200, "GET", "/api/v1/credits", nil)
	c.WantError(stoa.CodeNotFound, "GET", "/api/v1/"+marker, nil)

	h.Server.Drain()
	<-h.Server.Idle() // each request is counted at its end
	balance, err := h.Ledger.Balance(context.Background(), h.Account.ID)
	if err != nil {
		t.Fatal(err)
	}
	charged = float64(balance.Spent)
	samples, text := scrape(t, m)
	of := func(provider, more string) string {
		return fmt.Sprintf(`gen_ai_operation_name="chat",gen_ai_provider_name=%q,gen_ai_request_model="alpha-haiku-4-5"%s}`, provider, more)
	}
	duration := func(code, provider string) string {
		return fmt.Sprintf(`gen_ai_client_operation_duration_seconds_count{error_type=%q,%s`, code, of(provider, ""))
	}
	expect(t, samples, map[string]float64{
		`stoa_http_requests_total{route="POST /api/v1/responses",status="2xx"}`: 7,
		`stoa_http_requests_total{route="POST /api/v1/responses",status="4xx"}`: 4,
		`stoa_http_requests_total{route="POST /api/v1/responses",status="5xx"}`: 0,
		`stoa_http_requests_total{route="GET /api/v1/credits",status="2xx"}`:    1,
		`stoa_http_requests_total{route="GET /api/v1/credits",status="4xx"}`:    1,
		`stoa_http_requests_total{route="none",status="4xx"}`:                   1,

		`stoa_errors_total{code="invalid_value"}`:        1,
		`stoa_errors_total{code="model_not_found"}`:      2,
		`stoa_errors_total{code="not_found"}`:            1,
		fmt.Sprintf(`stoa_errors_total{code=%q}`, wrong): 2,
		`stoa_replays_total`:                             1,
		`stoa_client_disconnects_total`:                  0,
		`stoa_http_requests_in_flight`:                   0,
		`stoa_calls_in_flight`:                           0,
		`stoa_body_bytes`:                                0,
		duration("", "messages"):                         6,
		duration("invalid_value", "none"):                1,
		`gen_ai_client_token_usage_count{` + of("messages", `,gen_ai_token_type="input"`):                         6,
		`gen_ai_client_token_usage_sum{` + of("messages", `,gen_ai_token_type="input"`):                           input,
		`gen_ai_client_token_usage_sum{` + of("messages", `,gen_ai_token_type="output"`):                          output,
		`gen_ai_client_token_usage_count{` + of("messages", `,gen_ai_token_type="output"`):                        6,
		`gen_ai_server_time_to_first_token_seconds_count{` + of("messages", ""):                                   6,
		`stoa_charged_microcredits_total{gen_ai_provider_name="messages",gen_ai_request_model="alpha-haiku-4-5"}`: charged,
		`stoa_charges_total{state="completed"}`:                                                                   6,
		`stoa_commit_charges_sum`:                                                                                 6,
		fmt.Sprintf(`stoa_account_calls_total{account=%q}`, h.Account.ID):                                         7,
		fmt.Sprintf(`stoa_account_charged_microcredits_total{account=%q}`, h.Account.ID):                          charged,
		`stoa_provider_requests_total{model="claude-haiku-4-5",provider="down"}`:                                  7,
		`stoa_provider_failures_total{model="claude-haiku-4-5",provider="down"}`:                                  7,
		`stoa_provider_requests_total{model="claude-haiku-4-5",provider="messages"}`:                              7,
		`stoa_provider_failures_total{model="claude-haiku-4-5",provider="messages"}`:                              1,
		`stoa_provider_circuit_state{model="claude-haiku-4-5",provider="down"}`:                                   0,
		`stoa_store_latched{database="core"}`:                                                                     0,
		`stoa_sessions{status="queued"}`:                                                                          0,
	},
		"stoa_http_requests_total", "stoa_errors_total", "stoa_charges_total", "gen_ai_client_token_usage_count", "gen_ai_client_operation_duration_seconds_count",
		"gen_ai_server_time_to_first_token_seconds_count", "stoa_charged", "stoa_account", "stoa_provider_requests", "stoa_provider_failures", "stoa_session")
	if charged == 0 || input == 0 || output == 0 {
		t.Errorf("%v credits for %v and %v tokens", charged, input, output)
	}
	for _, secret := range []string{marker, h.Key} {
		if strings.Contains(text, secret) {
			t.Errorf("the metrics hold %q", secret)
		}
	}
}

// session runs a session of an agent that calls a tool, on the sandbox.
func session(t *testing.T, h *apitest.Service) (id string) {
	t.Helper()
	c := h.Client(t)
	var me struct{ DefaultSpaceID string }
	c.Want(200, "GET", "/api/v1/users/me", nil).JSON(&me)
	var agent, made struct{ ID string }
	c.Want(201, "POST", "/api/v1/api-agents", object{"spaceId": me.DefaultSpaceID, "name": marker, "instructions": marker, "driveAccess": "read_write", "memory": "user"}).JSON(&agent)
	path := "/api/v1/api-agents/" + agent.ID + "/sessions"
	c.Want(202, "POST", path, object{"externalUserId": marker, "message": "call: drive_list {}\ncall: drive_read {\"path\":\"" + marker + "\"}\n" +
		"call: memory_write {\"name\":\"diet\",\"content\":\"" + marker + "\"}\ncall: memory_write {\"name\":\"Not a name\",\"content\":\"x\"}\nsay: " + marker}).JSON(&made)
	var done struct{ Status, Reply string }
	c.Want(200, "GET", path+"/"+made.ID+"?waitSeconds=60", nil).JSON(&done)
	for h.Worker.Running() > 0 { // the turn's goroutine ends just after its session
		runtime.Gosched()
	}
	if done.Status != "completed" {
		t.Fatalf("the session is %+v", done)
	}
	return made.ID
}

func TestSessionsAreCounted(t *testing.T) {
	t.Parallel()
	m := metrics(0)
	h := apitest.Start(t, apitest.Config{Metrics: m})
	session(t, h)
	h.Server.Drain()
	<-h.Server.Idle()
	samples, text := scrape(t, m)
	expect(t, samples, map[string]float64{
		`stoa_session_transitions_total{status="queued"}`:            1,
		`stoa_session_transitions_total{status="running"}`:           1,
		`stoa_session_transitions_total{status="completed"}`:         1,
		`stoa_steps_total{outcome="recorded"}`:                       2,
		`stoa_tool_calls_total{outcome="ok",tool="drive_list"}`:      1,
		`stoa_tool_calls_total{outcome="error",tool="drive_read"}`:   1,
		`stoa_tool_calls_total{outcome="ok",tool="memory_write"}`:    1,
		`stoa_tool_calls_total{outcome="error",tool="memory_write"}`: 1,
		`stoa_charges_total{state="completed"}`:                      2,
		`stoa_sessions{status="running"}`:                            0,
		`stoa_inputs_waiting{kind="tool_approval"}`:                  0,
		`stoa_input_age_seconds{kind="tool_approval"}`:               0,
		`stoa_turns_running`:                                         0,
	}, "stoa_session_transitions", "stoa_steps", "stoa_tool_calls", "stoa_turn_failures", "stoa_charges_total")
	if strings.Contains(text, marker) {
		t.Error("the metrics hold what the model or its caller wrote")
	}
}

// TestSpansOfACall checks that the request is a child of its caller's span, and each attempt
// a child of the request. The provider receives its attempt, and no baggage.
func TestSpansOfACall(t *testing.T) {
	t.Parallel()
	r := receive(t)
	tracer := r.tracer()
	h, f := vendors(t, apitest.Config{Tracer: tracer})
	const caller = "0123456789abcdef0123456789abcdef"
	c := h.Client(t).With("traceparent", "00-"+caller+"-00f067aa0ba902b7-01").With("baggage", "b="+marker).With("tracestate", "s="+marker)
	ok := c.Want(200, "POST", responses, object{"model": "alpha-haiku-4-5", "input": "say: " + marker, "stream": true})
	c.WantError(stoa.CodeModelNotFound, "POST", responses, object{"model": marker, "input": marker})
	h.Server.Drain()
	<-h.Server.Idle()
	list := r.spans(tracer)
	requests, attempts := named(list, "POST /api/v1/responses"), named(list, "chat alpha-haiku-4-5")
	if len(list) != 4 || len(requests) != 2 || len(attempts) != 2 {
		t.Fatalf("%d spans, of them %d requests and %d attempts; want 4, 2 and 2: %v", len(list), len(requests), len(attempts), list)
	}
	reply := *ok.Events[len(ok.Events)-1].Response
	for _, span := range []span{requests[0], attempts[1]} {
		read, written := span.attr("gen_ai.usage.cache_read.input_tokens"), span.attr("gen_ai.usage.cache_creation.input_tokens")
		if u := reply.Usage.InputTokensDetails; read != fmt.Sprint(u.CachedTokens) || written != fmt.Sprint(u.CacheWriteTokens) {
			t.Errorf("%s read %q and wrote %q, want %+v", span.Name, read, written, u)
		}
	}
	for name, want := range map[string]string{
		"http.route": "/api/v1/responses", "http.request.method": "POST", "http.response.status_code": "200", "stoa.request.id": ok.Header.Get("x-request-id"),
		"gen_ai.response.id": reply.ID, "gen_ai.response.model": "alpha-haiku-4-5", "gen_ai.provider.name": "messages",
		"gen_ai.usage.output_tokens": fmt.Sprint(reply.Usage.OutputTokens), "error.type": "",
	} {
		if got := requests[0].attr(name); got != want {
			t.Errorf("%s of the request is %q, want %q", name, got, want)
		}
	}
	if requests[0].parent != "00f067aa0ba902b7" || requests[1].attr("error.type") != "model_not_found" {
		t.Errorf("the requests are %v", requests)
	}
	for i, provider := range []string{"down", "messages"} {
		a := attempts[i]
		if a.trace != caller || a.parent != requests[0].id || a.attr("gen_ai.provider.name") != provider || a.attr("gen_ai.request.model") != "claude-haiku-4-5" || a.attr("server.address") != "127.0.0.1" {
			t.Errorf("attempt %d is %v", i, a)
		}
	}
	if attempts[0].attr("error.type") == "" || attempts[0].attr("http.response.status_code") != "401" || attempts[1].attr("error.type") != "" || attempts[1].attr("gen_ai.response.finish_reasons") == "" {
		t.Errorf("the attempts ended as %v", attempts)
	}
	for i, s := range f.Served() {
		if want := "00-" + caller + "-" + attempts[i].id + "-01"; s.Header.Get("Traceparent") != want {
			t.Errorf("the provider got the traceparent %q, want %q", s.Header.Get("Traceparent"), want)
		}
		if s.Header.Get("Baggage") != "" || s.Header.Get("Tracestate") != "" {
			t.Errorf("the provider got %v", s.Header)
		}
	}
	if bytes.Contains(r.raw, []byte(marker)) {
		t.Error("a span holds what the caller or the model wrote")
	}
	if got := attribute(r.got[0].Resource.Attributes, "service.name") + attribute(r.got[0].Resource.Attributes, "service.instance.id"); got != "stoanode-1" || r.path != "/v1/traces" {
		t.Errorf("the resource is %s at %s", got, r.path)
	}
}

// TestSpansOfASession checks session → turn → steps and tools, and below a step its attempt.
func TestSpansOfASession(t *testing.T) {
	t.Parallel()
	r := receive(t)
	tracer := r.tracer()
	h := apitest.Start(t, apitest.Config{Tracer: tracer})
	id := session(t, h)
	list := r.spans(tracer)
	one := func(name string) span {
		t.Helper()
		found := named(list, name)
		if len(found) == 0 {
			t.Fatalf("no span %q among %v", name, list)
		}
		return found[0]
	}
	root, turn := one("session"), one("invoke_agent")
	if root.parent != "" || turn.parent != root.id || turn.trace != root.trace || turn.attr("gen_ai.conversation.id") != id || turn.attr("stoa.turn") != "1" {
		t.Errorf("the session is %v, its turn %v", root, turn)
	}
	steps := named(list, "step")
	if len(steps) != 2 || steps[0].attr("stoa.step") != "1" || steps[1].attr("stoa.step") != "2" {
		t.Fatalf("the steps are %v", steps)
	}
	for _, s := range append(steps, one("execute_tool drive_list"), one("execute_tool drive_read")) {
		if s.parent != turn.id || s.trace != root.trace {
			t.Errorf("%v does not belong to the turn", s)
		}
	}
	if one("execute_tool drive_read").attr("error.type") != "tool_error" {
		t.Error("a file that does not exist was read")
	}
	if writes := named(list, "execute_tool memory_write"); len(writes) != 2 || writes[0].attr("error.type")+writes[1].attr("error.type") != "tool_error" {
		t.Errorf("of two notes one has a name that is not allowed: %v", writes)
	}
	calls := 0
	for _, s := range list {
		if strings.HasPrefix(s.Name, "chat ") {
			if s.parent != steps[calls].id {
				t.Errorf("%v is no child of step %d", s, calls+1)
			}
			calls++
		}
	}
	if calls != 2 {
		t.Errorf("%d attempts, want 2", calls)
	}
	if bytes.Contains(r.raw, []byte(marker)) {
		t.Error("a span holds what the caller or the model wrote")
	}
}

// TestTracesThatAreOffSendNothing checks that without a tracer no traceparent is sent.
func TestTracesThatAreOffSendNothing(t *testing.T) {
	t.Parallel()
	h, f := vendors(t, apitest.Config{})
	h.Client(t).With("traceparent", "00-0123456789abcdef0123456789abcdef-00f067aa0ba902b7-01").
		Want(200, "POST", responses, object{"model": "alpha-haiku-4-5", "input": "say: hi"})
	for _, s := range f.Served() {
		if s.Header.Get("Traceparent") != "" {
			t.Errorf("the provider got %v", s.Header)
		}
	}
}

// TestCallersDoNotReachMetrics checks that the listener of callers serves none of the paths.
func TestCallersDoNotReachMetrics(t *testing.T) {
	t.Parallel()
	h := apitest.Start(t, apitest.Config{Metrics: metrics(0)})
	for _, path := range []string{"/metrics", "/livez", "/readyz", "/debug/pprof/", "/debug/pprof/heap"} {
		res, err := http.Get(h.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if res.StatusCode != 404 {
			t.Errorf("%s answers %d: %.100s", path, res.StatusCode, body)
		}
	}
}

// readiness calls the admin listener's handler.
func readiness(t *testing.T, server *http.Server, path string) (int, telemetry.Readiness) {
	t.Helper()
	out := httptest.NewRecorder()
	server.Handler.ServeHTTP(out, httptest.NewRequest("GET", path, nil))
	var r telemetry.Readiness
	if err := json.Unmarshal(out.Body.Bytes(), &r); err != nil {
		t.Fatalf("%s answered %d %q: %v", path, out.Code, out.Body, err)
	}
	return out.Code, r
}

// TestReadyzFollowsTheService checks for 503 with the reason while the store does not commit,
// and while the service drains. /livez is not affected.
func TestReadyzFollowsTheService(t *testing.T) {
	t.Parallel()
	storetest.OnlySQLite(t) // it limits the pages
	m := metrics(0)
	h := apitest.Start(t, apitest.Config{Metrics: m})
	server := telemetry.Admin(m, h.Readiness, false)
	want := func(status int, says, reason string, latched float64) {
		t.Helper()
		if code, r := readiness(t, server, "/readyz"); code != status || r.Status != says || !strings.Contains(r.Reason, reason) || (reason == "") != (r.Reason == "") {
			t.Errorf("/readyz answers %d %+v, want %d %s %q", code, r, status, says, reason)
		}
		if code, r := readiness(t, server, "/livez"); code != 200 || r.Status != "ok" {
			t.Errorf("/livez answers %d %+v", code, r)
		}
		samples, _ := scrape(t, m)
		expect(t, samples, map[string]float64{`stoa_store_latched{database="core"}`: latched, `stoa_store_latched{database="drives"}`: 0})
	}
	want(200, "ok", "", 0)
	pages := func(n int) {
		t.Helper()
		if err := h.Store.Write(t.Context(), func(tx *store.Tx) error {
			_, err := tx.Get(t.Context(), fmt.Sprint("PRAGMA max_page_count = ", n), nil, new(int))
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	pages(1)
	if err := h.Store.Write(t.Context(), func(tx *store.Tx) error {
		_, err := tx.Setup().InsertSpace(t.Context(), stoa.Space{AccountID: h.Account.ID, Description: strings.Repeat("x", 100_000)})
		return err
	}); stoa.CodeOf(err) != stoa.CodeStorageFull {
		t.Fatalf("a write on a full disk: %v", err)
	}
	want(503, "unavailable", "The database core: The service has run out of storage.", 1)
	pages(1 << 30)
	for h.Store.Usable(t.Context()) != nil { // until the next probe is due
	}
	want(200, "ok", "", 0)
	h.Server.Drain()
	want(503, "draining", "about to stop", 0)
}

// TestReadyzOfADeadNode checks that a node that others have declared dead is unready as soon
// as it detects that, and live until its process ends.
func TestReadyzOfADeadNode(t *testing.T) {
	t.Parallel()
	home := storetest.Postgres(t)
	home.Config.Life, home.Config.Observe = storetest.Still, nil
	m := metrics(0)
	h := apitest.Start(t, apitest.Config{Metrics: m, Home: &home, Idle: true})
	server := telemetry.Admin(m, h.Readiness, false)
	if code, r := readiness(t, server, "/readyz"); code != 200 {
		t.Fatalf("/readyz answers %d %+v", code, r)
	}
	home.Expire()
	home.Open() // declares the first one dead
	err := h.Store.Write(t.Context(), func(tx *store.Tx) error {
		_, err := tx.Setup().InsertSpace(t.Context(), stoa.Space{AccountID: h.Account.ID})
		return err
	})
	if stoa.CodeOf(err) != stoa.CodeOverloaded {
		t.Fatalf("a dead node writes: %v", err)
	}
	<-h.Store.Lost()
	if code, r := readiness(t, server, "/readyz"); code != 503 || r.Status != "unavailable" || !strings.Contains(r.Reason, "is considered dead") {
		t.Errorf("/readyz answers %d %+v", code, r)
	}
	if code, _ := readiness(t, server, "/livez"); code != 200 {
		t.Errorf("/livez answers %d", code)
	}
}
