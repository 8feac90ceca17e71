package web_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"stoa/internal/base/contract"
	"stoa/internal/faces/web"
)

const (
	goodKey = "sk_stub0000000000000000000000000000000abcdef"
	freeKey = "sk_free0000000000000000000000000000000abcdef"
)

// A stub stands in for the API: the pages' own tests must not need a database. A
// separate test checks its replies against the contract.
type stub struct {
	t    *testing.T
	site *web.Site

	mu    sync.Mutex
	asked []string      // method and path of each call, in order
	urls  []string      // likewise, with the query
	sends []string      // bodies of what starts sessions, changes agents and asks models
	fresh []string      // rows of the request log that come after those of the list
	left  chan struct{} // receives when a caller leaves an endless stream
	bare  bool          // an account in which nothing ever happened
	runs  bool          // the session has not ended
	title string        // of the session, if it has another one

	extensions string // the member of the metadata, if any

	sessions   map[string]string // keys by the secrets of cookies
	person     bool              // a person is signed in, with two accounts
	signIn     string            // identity providers, as JSON; empty means none
	cookieless bool              // the browser gets no cookie

	cut       atomic.Bool // connections break
	lengthens atomic.Bool // names and titles are long
	waiting   atomic.Bool // many tool calls wait for an approval
	sandbox   atomic.Bool // no vendor is connected
	outlier   atomic.Bool // one day of three cost a hundred times as much as the others
	refuse    atomic.Bool // no key is good any more
}

// serve starts the site with the stub behind /api/v1.
func serve(t *testing.T) (*stub, *httptest.Server) {
	t.Helper()
	site, err := web.New(web.Config{Version: "1.0.0"})
	if err != nil {
		t.Fatal(err)
	}
	s := &stub{t: t, site: site, left: make(chan struct{}, 8)}
	mux := http.NewServeMux()
	site.Routes(mux)
	mux.Handle("/api/v1/", http.HandlerFunc(s.api))
	mux.HandleFunc("/console/session", s.session)
	mux.HandleFunc("/console/join", s.join)
	srv := httptest.NewServer(mux)
	t.Cleanup(func() {
		srv.CloseClientConnections() // an open stream would keep Close waiting
		srv.Close()
	})
	return s, srv
}

func (s *stub) api(w http.ResponseWriter, r *http.Request) {
	if s.cut.Load() {
		panic(http.ErrAbortHandler)
	}
	s.mu.Lock()
	s.asked = append(s.asked, r.Method+" "+r.URL.Path)
	s.urls = append(s.urls, r.Method+" "+r.URL.RequestURI())
	s.mu.Unlock()
	w.Header().Set("x-request-id", "req_01k9zqd3m8w5x7y2c4b6n8p0rc")
	path := strings.TrimPrefix(r.URL.Path, "/api/v1")
	switch path {
	case "/openapi.json":
		w.Header().Set("Content-Type", "application/json")
		w.Write(contract.JSON())
		return
	case "/health", "/meta":
		s.json(w, 200, strings.Replace(stubReplies()["GET "+path], `"models":[`, s.extensions+`"models":[`, 1))
		return
	}
	key := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	account := r.Header.Get("Stoa-Account")
	if s.mu.Lock(); key == "" && (account == stubAccount || s.person && account == otherAccount) {
		s.mu.Unlock()
		key = s.keyOf(r)
	} else {
		s.mu.Unlock()
	}
	if s.refuse.Load() || key != goodKey && key != freeKey {
		s.fail(w, "Unauthorized", "The API key is missing or not valid. Send it as Authorization: Bearer sk_….")
		return
	}
	if r.Method == "POST" && path == "/responses" {
		s.respond(w, r)
		return
	}
	if strings.HasPrefix(path, "/api-agents") || path == "/spaces" || path == "/sessions" || path == "/feedback" {
		s.agents(w, r, path)
		return
	}
	if path == "/usage" && s.outlier.Load() {
		var rows []string
		for day, micro := range []int{3_000_000, 300_000_000, 2_000_000} {
			rows = append(rows, fmt.Sprintf(`{"day":%q,"model":"beta-3.8-flash","calls":1,"inputTokens":1,"cachedInputTokens":0,"outputTokens":1,"totalTokens":2,"creditsMicro":%d,"savedMicro":0}`, time.Now().UTC().AddDate(0, 0, -day).Format(time.DateOnly), micro))
		}
		s.json(w, 200, stubUsage(rows, 305_000_000))
		return
	}
	op := r.Method + " " + path
	if r.Method == "GET" && path == "/users/me" && (key == freeKey || account == otherAccount) {
		op = "GET /users/me as free"
	}
	s.mu.Lock()
	if s.sandbox.Load() && path == "/providers" || s.bare && (path == "/usage" || path == "/receipts" || path == "/providers" || path == "/credits") {
		op += " of nobody"
	}
	s.mu.Unlock()
	if rest, ok := strings.CutPrefix(path, "/accounts/"); ok && rest != "invitations" {
		op = r.Method + " /accounts/{id}"
		if _, below, ok := strings.Cut(rest, "/"); ok {
			op += "/" + below
		}
	}
	if strings.HasPrefix(path, "/providers/") && r.Method == "POST" {
		s.json(w, 200, operatorReplies()["POST /providers/{name}/test of "+strings.Split(path, "/")[2]])
		return
	}
	if path == "/keys" && r.URL.Query().Get("unrevoked") == "true" {
		op += " unrevoked"
	}
	if path == "/requests/summary" && r.URL.Query().Get("interval") != "" {
		op += " by time"
	}
	if path == "/requests" && r.URL.Query().Get("order") == "asc" {
		s.mu.Lock()
		rows := s.fresh
		s.fresh = nil
		s.mu.Unlock()
		s.json(w, 200, stubRequests(rows, "", "null"))
		return
	}
	if path == "/requests" && r.URL.Query().Get("cursor") == "page2" {
		s.json(w, 200, stubRequests([]string{stubRequest("old", 200, "")}, "", "null"))
		return
	}
	if path == "/requests" && r.URL.Query().Get("status") == "3xx" {
		s.json(w, 200, stubRequests(nil, "", "null"))
		return
	}
	if strings.HasPrefix(path, "/requests/") && path != "/requests/summary" {
		if !strings.HasSuffix(path, "found") {
			s.fail(w, "not_found", "There is no request with that id in the log.")
			return
		}
		op = "GET /requests/{id}"
	}
	if strings.HasPrefix(path, "/receipts/") && path != "/receipts/summary" {
		op = "GET /receipts/{id}"
	}
	if strings.HasPrefix(path, "/invitations/") && r.Method == "POST" {
		op = "POST /invitations/{id}/link"
	}
	if strings.HasPrefix(path, "/members/") {
		op = r.Method + " /members/{id}"
		if strings.HasSuffix(path, "/link") {
			op += "/link"
		}
	}
	if strings.HasPrefix(path, "/end-users/") {
		op = "DELETE /end-users/{externalUserId}"
	}
	if strings.HasPrefix(path, "/statements/") {
		op = "GET /statements/{month}"
	}
	if strings.HasSuffix(path, "/windows") {
		op = "GET /budgets/{id}/windows"
	}
	if strings.HasPrefix(path, "/keys/") {
		op = r.Method + " /keys/{id}"
		if strings.HasSuffix(path, "/rotate") {
			op = "POST /keys/{id}/rotate"
		}
	}
	for _, collection := range []string{"/connections/", "/webhooks/"} {
		if rest, ok := strings.CutPrefix(path, collection); ok && r.Method == "GET" {
			_, below, _ := strings.Cut(rest, "/")
			op = strings.TrimSuffix("GET "+collection+"{id}/"+below, "/")
		}
	}
	if path == "/inputs" && s.waiting.Load() && r.URL.Query().Get("kind") == "tool_approval" {
		s.json(w, 200, stubInputs(r.URL.Query().Get("cursor"), 50))
		return
	}
	status := 200
	if r.Method == "POST" {
		status = 201
	}
	if r.Method == "DELETE" {
		w.WriteHeader(204)
		return
	}
	reply, ok := stubReplies()[op]
	if !ok {
		reply, ok = operatorReplies()[op]
	}
	if !ok {
		reply, ok = connectionReplies()[op]
	}
	if !ok {
		s.fail(w, "not_found", "There is nothing at "+r.URL.Path+".")
		return
	}
	s.json(w, status, reply)
}

func (s *stub) json(w http.ResponseWriter, status int, body string) {
	if s.lengthens.Load() {
		body = lengthen(s.t, body)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	fmt.Fprint(w, body)
}

func (s *stub) fail(w http.ResponseWriter, code, message string) {
	for _, c := range contract.Codes() {
		if string(c.Code) == code {
			body, _ := json.Marshal(contract.ErrorEnvelope{Error: contract.ErrorBody{Message: message, Type: c.Type, Code: code, RequestID: w.Header().Get("x-request-id"), Retryable: c.Retryable}})
			s.json(w, c.Status, string(body))
			return
		}
	}
	s.t.Errorf("the stub has no code %q", code)
}

// respond streams. A prompt "forever" never ends, "broke" is refused, "break"
// fails half way; anything else is answered with a little Markdown.
func (s *stub) respond(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Model string
		Input []struct {
			Type, Role string
			Content    json.RawMessage
		}
		Tools  []struct{ Name string }
		Stream bool
	}
	body, err := io.ReadAll(r.Body)
	s.mu.Lock()
	s.sends = append(s.sends, string(body))
	s.mu.Unlock()
	if err := errors.Join(err, json.Unmarshal(body, &in)); err != nil || len(in.Input) == 0 || !in.Stream {
		s.fail(w, "invalid_json", "The body is not what the console should send.")
		return
	}
	last := in.Input[len(in.Input)-1]
	var prompt string
	_ = json.Unmarshal(last.Content, &prompt) // with images it is an array
	if prompt == "broke" {
		s.fail(w, "insufficient_quota", "This call may cost 0.0061 credits and 0.0002 are left. Top up, or ask for fewer tokens.")
		return
	}
	model := in.Model
	if model == "auto" {
		model = "beta-3.8-flash"
	}
	w.Header().Set("Content-Type", "text/event-stream")
	n := 0
	send := func(kind string, members string) {
		fmt.Fprintf(w, "event: %s\ndata: {\"type\":%q,\"sequence_number\":%d,%s}\n\n", kind, kind, n, members)
		n++
		w.(http.Flusher).Flush()
	}
	const item = `"item_id":"msg_01k9zqd3m8w5x7y2c4b6n8p0rb","output_index":0,"content_index":0,"logprobs":[]`
	reply := func(status, usage string) string {
		return fmt.Sprintf(`"response":{"id":"resp_01k9zqd3m8w5x7y2c4b6n8p0ra","object":"response","status":%q,"model":%q,"error":null,"incomplete_details":null,"output":[],"usage":%s}`, status, model, usage)
	}
	send("response.created", reply("in_progress", "null"))
	fmt.Fprint(w, ": still here\n\n")
	if prompt == "forever" {
		for range 20 {
			send("response.output_text.delta", item+`,"delta":"and on "`)
		}
		<-r.Context().Done()
		s.left <- struct{}{}
		return
	}
	if len(in.Tools) > 0 && last.Type != "function_call_output" {
		// A call of each tool, after sealed reasoning.
		var items []string
		items = append(items, `{"id":"rs_1","type":"reasoning","summary":[],"encrypted_content":"stoa1.AAAA"}`)
		for i, tool := range in.Tools {
			added := fmt.Sprintf(`"id":"fc_%d","type":"function_call","call_id":"call_%d","name":%q`, i, i, tool.Name)
			send("response.output_item.added", fmt.Sprintf(`"output_index":%d,"item":{%s,"arguments":"","status":"in_progress"}`, i+1, added))
			for _, piece := range []string{`{\"city\":`, `\"Oslo\"}`} {
				send("response.function_call_arguments.delta", fmt.Sprintf(`"item_id":"fc_%d","output_index":%d,"delta":"%s"`, i, i+1, piece))
			}
			items = append(items, fmt.Sprintf(`{%s,"arguments":"{\"city\":\"Oslo\"}","status":"completed"}`, added))
		}
		end := reply("completed", `{"input_tokens":14,"input_tokens_details":{"cached_tokens":0,"cache_write_tokens":0},"output_tokens":41,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":55}`)
		send("response.completed", strings.Replace(end, `"output":[]`, `"output":[`+strings.Join(items, ",")+`]`, 1))
		fmt.Fprint(w, "data: [DONE]\n\n")
		return
	}
	text := "Because **air scatters** blue light more than red.\n\n- first\n- second <img src=x onerror=alert(1)>\n\n```\nsky = blue\n```\n\n[a link](https://example.com) [a trap](javascript:alert(1)) ![a picture](https://example.com/x.png)\n"
	for i, word := range strings.SplitAfter(text, " ") {
		if prompt == "break" && i == 4 {
			send("error", `"code":"upstream_error","message":"The model's provider broke off.","param":null,"error":{"type":"server_error","code":"upstream_error","message":"The model's provider broke off.","param":null}`)
			send("response.failed", reply("failed", "null"))
			fmt.Fprint(w, "data: [DONE]\n\n")
			return
		}
		delta, _ := json.Marshal(word)
		send("response.output_text.delta", item+`,"delta":`+string(delta))
	}
	send("response.completed", reply("completed", `{"input_tokens":14,"input_tokens_details":{"cached_tokens":0,"cache_write_tokens":0},"output_tokens":41,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":55}`))
	fmt.Fprint(w, "data: [DONE]\n\n")
}

func stubModel(id, family, aliases string, gated, available bool, in, out int) string {
	return fmt.Sprintf(`{"id":%q,"family":%q,"gated":%v,"aliases":[%s],"deprecatedAliases":[],"contextTokens":1000000,"maxOutputTokens":64000,"available":%v,"sandbox":false,"price":{"inputMicroPerMillion":%d,"cachedInputMicroPerMillion":%d,"cacheWriteMicroPerMillion":%[6]d,"cacheWriteLongMicroPerMillion":%[6]d,"outputMicroPerMillion":%[8]d,"version":"2026-11-20"}}`,
		id, family, gated, aliases, available, in, in/10, out)
}

func stubUsage(rows []string, sum int) string {
	return fmt.Sprintf(`{"from":"2026-11-07T00:00:00.000Z","to":"2026-11-21T00:00:00.000Z","groupBy":["day","model"],"data":[%s],"totals":{"calls":%d,"inputTokens":1,"cachedInputTokens":0,"outputTokens":1,"totalTokens":2,"creditsMicro":%d,"savedMicro":412}}`, strings.Join(rows, ","), len(rows), sum)
}

// stubReplies contains the stub's replies, by operation.
func stubReplies() map[string]string {
	limits, _ := json.Marshal(contract.Limits{RequestsKeptSeconds: 2_592_000, RequestsKeptPerAccount: 100_000}) // every one has to be there
	me := func(plan, name string, gated bool, scopes, cap, spent string) string {
		return fmt.Sprintf(`{"id":"acc_01k9zqd3m8w5x7y2c4b6n8p0ra","name":"Ada's workshop","email":"ada@example.com","plan":{"id":%q,"name":%q,"gatedModels":%v},"credits":{"availableMicro":18420613,"heldMicro":61000},"defaultSpaceId":null,"key":{"id":"key_01k9zqd3m8w5x7y2c4b6n8p0ra","name":"first key","hint":"sk_s…cdef","scopes":%s,"expiresAt":null,"maxCreditsMicroPerDay":%s,"spentTodayMicro":%s},"createdAt":"2026-09-01T08:00:00.000Z"}`, plan, name, gated, scopes, cap, spent)
	}
	var rows []string
	var sum int
	today := time.Now().UTC()
	for i, m := range []string{"beta-3.8-flash", "alpha-sonnet-5-5", "gamma-6-luna", "alpha-opus-5-5"} {
		for day := range 14 {
			if (day*7+i*3)%5 == 0 {
				continue
			}
			micro := 20000 + (day*31+i*17)%40*4000 + i*9000
			sum += micro
			rows = append(rows, fmt.Sprintf(`{"day":%q,"model":%q,"calls":%d,"inputTokens":%d,"cachedInputTokens":0,"outputTokens":%d,"totalTokens":%d,"creditsMicro":%d,"savedMicro":412}`,
				today.AddDate(0, 0, -day).Format(time.DateOnly), m, 3+day, 900+day*10, 400+day*5, 1300+day*15, micro))
		}
	}
	price := `{"inputMicroPerMillion":1500000,"cachedInputMicroPerMillion":150000,"cacheWriteMicroPerMillion":1500000,"cacheWriteLongMicroPerMillion":1500000,"outputMicroPerMillion":7500000,"version":"2026-11-20"}`
	receipt := func(id, asked, served, why string, micro int) string {
		return fmt.Sprintf(`{"id":%q,"model":{"requested":%q,"served":%q,"fallbackReason":%s},"route":{"provider":"claude","key":null,"reason":"order"},"usage":{"inputTokens":14,"cachedInputTokens":0,"cacheWriteTokens":0,"cacheWriteLongTokens":0,"outputTokens":41,"reasoningTokens":0,"totalTokens":55},"price":%s,"cache":{"broke":null,"marks":"stoa","savedMicro":412},"creditsMicro":%d,"estimated":false,"clamped":false,"capped":false,"writtenOffMicro":0,"status":"completed","keyId":"key_01k9zqd3m8w5x7y2c4b6n8p0ra","keyName":"first key","endUser":null,"spaceId":null,"agentId":null,"sessionId":null,"memberId":null,"embedId":null,"startedAt":%q,"timeToFirstTokenMilliseconds":312,"durationMilliseconds":1204,"createdAt":%q}`,
			id, asked, served, why, price, micro, today.Add(-7*time.Minute).Format("2006-01-02T15:04:05.000Z"), today.Add(-7*time.Minute).Format("2006-01-02T15:04:05.000Z"))
	}
	key := func(id, name, status, scopes, revoked, used string) string {
		return fmt.Sprintf(`{"id":%q,"name":%q,"hint":"sk_A…w3Qz","status":%q,"scopes":[%s],"expiresAt":null,"requestsPerMinute":null,"maxCreditsMicroPerDay":null,"models":null,"networks":null,"requireEndUser":false,"revokedAt":%s,"lastUsedAt":%s,"createdAt":"2026-09-01T08:00:00.000Z","memberId":null,"pausesAt":null}`, id, name, status, scopes, revoked, used)
	}
	list := func(items ...string) string {
		return `{"data":[` + strings.Join(items, ",") + `],"nextCursor":null,"hasMore":false}`
	}
	usage := stubUsage
	secret := strings.TrimSuffix(key("key_01k9zqd3m8w5x7y2c4b6n8p0rz", "website", "active", `"responses"`, "null", "null"), "}") + `,"replaces":null,"secret":"sk_shownonce00000000000000000000000001a2b3c"}`
	account := `"id":"acc_01k9zqd3m8w5x7y2c4b6n8p0rz","name":"Acme","email":"it@acme.example","plan":"free","suspended":false,"defaultSpaceId":null,"createdAt":"2026-09-01T08:00:00.000Z"`
	balance := `"credits":{"availableMicro":4000000,"heldMicro":0,"grantedMicro":5000000,"spentMicro":1000000}`
	const recent = `"spentLast30DaysMicro":750000,"lastUsedAt":"2026-11-20T11:58:00.000Z"`
	return map[string]string{
		"GET /inputs":      list(),
		"GET /connections": list(),
		"GET /accounts": list(`{`+account+`,`+balance+`,`+recent+`}`,
			strings.NewReplacer("p0rz", "p1rz", "Acme", "Broke Inc", "it@acme", "it@broke", `"availableMicro":4000000`, `"availableMicro":0`, `"2026-11-20T11:58:00.000Z"`, "null").Replace(`{`+account+`,`+balance+`,`+recent+`}`)),
		"POST /accounts":                  `{` + account + `,` + balance + `,"key":` + secret + `}`,
		"GET /accounts/{id}":              `{` + account + `,` + balance + `,` + recent + `}`,
		"PATCH /accounts/{id}":            `{` + account + `,` + balance + `,` + recent + `}`,
		"POST /accounts/{id}/keys":        secret,
		"POST /accounts/{id}/withdrawals": `{"id":"led_01k9zqd3m8w5x7y2c4b6n8p0rw","accountId":"acc_01k9zqd3m8w5x7y2c4b6n8p0rz","amountMicro":7000000,"takenMicro":5000000,"owedMicro":2000000,"reason":null,"externalRef":"refund_1","createdAt":"2026-09-01T08:00:00.000Z"}`,
		"POST /accounts/{id}/grants":      `{"id":"led_01k9zqd3m8w5x7y2c4b6n8p0rz","accountId":"acc_01k9zqd3m8w5x7y2c4b6n8p0rz","amountMicro":5000000,"reason":"top-up","externalRef":null,"createdAt":"2026-09-01T08:00:00.000Z"}`,
		"GET /providers":                  stubProviders(),
		"GET /health":                     `{"status":"ok","timestamp":"2026-11-20T12:00:00.000Z"}`,
		"GET /members": list(
			`{"id":"`+stubPerson+`","name":"Ada Lovelace","email":"ada@example.com","issuer":null,"role":"owner","operatorRole":"admin","source":"invited","keyId":"key_01k9zqd3m8w5x7y2c4b6n8p0ra","lastUsedAt":"2026-11-20T11:58:00.000Z","createdAt":"2026-09-01T12:00:00.000Z"}`,
			`{"id":"per_01k9zqd3m8w5x7y2c4b6n8p0rb","name":"Grace Hopper","email":"grace@example.com","issuer":"https://id.example.com/","role":"viewer","operatorRole":null,"source":"group","keyId":"key_01k9zqd3m8w5x7y2c4b6n8p0rb","lastUsedAt":null,"createdAt":"2026-09-01T12:00:00.000Z"}`),
		"GET /receipts/summary":       `{"calls":412,"inputTokens":5768,"cachedInputTokens":0,"outputTokens":16892,"totalTokens":22660,"creditsMicro":1518387,"savedMicro":412}`,
		"GET /keys unrevoked":         list(key("key_01k9zqd3m8w5x7y2c4b6n8p0ra", "first key", "active", `"*"`, "null", `"2026-11-20T11:58:00.000Z"`), key("key_01k9zqd3m8w5x7y2c4b6n8p0rb", "website", "active", `"responses"`, "null", "null")),
		"POST /members":               `{"id":"inv_01k9zqd3m8w5x7y2c4b6n8p0ra","name":"Alan","email":"alan@example.com","role":"member","operatorRole":null,"mailed":true,"link":"https://stoa.example/join#inv_shownonce","createdBy":"key_01k9zqd3m8w5x7y2c4b6n8p0ra","createdAt":"2026-11-20T11:58:00.000Z","expiresAt":"2026-11-27T11:58:00.000Z"}`,
		"POST /accounts/invitations":  `{"id":"inv_01k9zqd3m8w5x7y2c4b6n8p0ra","name":"Alan","email":"alan@example.com","role":"member","operatorRole":null,"mailed":true,"link":"https://stoa.example/join#inv_shownonce","createdBy":"key_01k9zqd3m8w5x7y2c4b6n8p0ra","createdAt":"2026-11-20T11:58:00.000Z","expiresAt":"2026-11-27T11:58:00.000Z"}`,
		"PATCH /members/{id}":         `{"id":"` + stubPerson + `","name":"Ada Lovelace","email":"ada@example.com","issuer":null,"role":"owner","operatorRole":"admin","source":"invited","keyId":"key_01k9zqd3m8w5x7y2c4b6n8p0ra","lastUsedAt":null,"createdAt":"2026-09-01T12:00:00.000Z"}`,
		"POST /members/{id}/link":     `{"id":"inv_01k9zqd3m8w5x7y2c4b6n8p0rb","mailed":false,"link":"https://stoa.example/join#inv_signinonce","expiresAt":"2026-11-20T12:15:00.000Z"}`,
		"POST /invitations/{id}/link": `{"id":"inv_01k9zqd3m8w5x7y2c4b6n8p0ra","name":null,"email":"alan@example.com","role":"member","operatorRole":null,"mailed":false,"notMailed":"mail_limit","link":"https://stoa.example/join#inv_renewedonce","createdBy":"key_01k9zqd3m8w5x7y2c4b6n8p0ra","createdAt":"2026-11-20T11:58:00.000Z","expiresAt":"2026-11-27T11:58:00.000Z"}`,
		"GET /invitations":            list(`{"id":"inv_01k9zqd3m8w5x7y2c4b6n8p0ra","name":null,"email":null,"role":"member","operatorRole":null,"createdBy":"key_01k9zqd3m8w5x7y2c4b6n8p0ra","createdByName":"first key","createdAt":"2026-11-20T11:58:00.000Z","expiresAt":"2026-11-27T11:58:00.000Z"}`),
		"GET /users/me":               me("pro", "Pro", true, `["*","operator"]`, "null", "null"),
		"GET /users/me as free":       me("free", "Free", false, `["*"]`, "1000000", "990000"),
		"GET /usage":                  usage(rows, sum),
		"GET /providers of nobody":    `{"active":0,"retrying":0,"data":[{"name":"sandbox","wire":"sandbox","disabled":false,"models":[],"listProblem":null,"inFlight":0,"maxInFlight":512,"refused":0,"requests":0,"retries":0,"failures":0,"timeouts":0,"lastFailure":null,"routes":[]}]}`,
		"GET /credits of nobody":      `{"availableMicro":0,"heldMicro":0,"grantedMicro":20000000,"spentMicro":20000000}`,
		"GET /usage of nobody":        usage(nil, 0),
		"GET /notices":                `{"data":[{"object":"notice","type":"provider.down","scope":"service","subject":"claude","message":"A provider does not answer: claude","consolePath":"providers","since":"2026-11-20T12:00:00.000Z"}]}`,
		"GET /credits":                `{"availableMicro":18420613,"heldMicro":61000,"grantedMicro":20000000,"spentMicro":1518387}`,
		"GET /receipts":               list(receipt("resp_01k9zqd3m8w5x7y2c4b6n8p0ra", "auto", "beta-3.8-flash", `"auto"`, 329), receipt("resp_01k9zqd3m8w5x7y2c4b6n8p0rb", "alpha-sonnet-5-5", "alpha-sonnet-5-5", "null", 438)),
		"GET /receipts of nobody":     list(),
		"GET /receipts/{id}":          receipt("resp_01k9zqd3m8w5x7y2c4b6n8p0ra", "auto", "beta-3.8-flash", `"auto"`, 329),
		"GET /credits/ledger":         list(`{"id":"led_01k9zqd3m8w5x7y2c4b6n8p0ra","type":"charge","amountMicro":-329,"ref":"resp_01k9zqd3m8w5x7y2c4b6n8p0ra","reason":null,"createdAt":"2026-11-20T11:00:00.000Z"}`, `{"id":"led_01k9zqd3m8w5x7y2c4b6n8p0rb","type":"grant","amountMicro":20000000,"ref":null,"reason":"first grant","createdAt":"2026-09-01T08:00:00.000Z"}`),
		"GET /usage/reconcile":        `{"balanced":true,"grantedMicro":20000000,"availableMicro":18420613,"heldMicro":61000,"chargesMicro":1518387,"receiptsMicro":1518387,"charges":412,"differences":[],"checkedAt":"2026-11-20T12:00:00.000Z"}`,
		"GET /keys":                   list(key("key_01k9zqd3m8w5x7y2c4b6n8p0ra", "first key", "active", `"*"`, "null", `"2026-11-20T11:58:00.000Z"`), key("key_01k9zqd3m8w5x7y2c4b6n8p0rb", "website", "active", `"responses"`, "null", "null"), key("key_01k9zqd3m8w5x7y2c4b6n8p0rc", "old laptop", "revoked", `"*"`, `"2026-10-02T09:00:00.000Z"`, "null")),
		"PATCH /keys/{id}":            key("key_01k9zqd3m8w5x7y2c4b6n8p0ra", "first key", "active", `"*"`, "null", "null"),
		"POST /keys":                  secret,
		"POST /keys/{id}/rotate":      secret,
		"GET /payments": list(
			stubPayment("pay_01k9zqd3m8w5x7y2c4b6n8p0ra", `"pending"`, `"https://checkout.stripe.com/c/pay/cs_1"`, 0, 0),
			stubPayment("pay_01k9zqd3m8w5x7y2c4b6n8p0rb", `"paid"`, "null", 500, 5000000),
		),
		"GET /payments/packs": list(`{"id":"small","name":"20 credits","amount":2000,"currency":"eur","creditsMicro":20000000}`),
		"POST /payments":      stubPayment("pay_01k9zqd3m8w5x7y2c4b6n8p0rc", `"pending"`, `"https://checkout.stripe.com/c/pay/cs_2"`, 0, 0),
		"GET /meta": `{"payments":true,"name":"stoa","version":"1.0.0","apiVersion":"v1","commit":"unknown","defaultModel":"beta-3.8-flash","models":[` + strings.Join([]string{
			stubModel("alpha-sonnet-5-5", "alpha", `"alpha-sonnet-5"`, false, true, 2000000, 10000000),
			stubModel("alpha-opus-5-5", "alpha", `"alpha-opus-5"`, true, true, 4000000, 20000000),
			stubModel("beta-3.8-flash", "beta", "", false, true, 1500000, 7500000),
			strings.Replace(stubModel("gamma-6-luna", "gamma", "", false, true, 100000, 500000), `"sandbox":false`, `"sandbox":true`, 1),
			stubModel("delta-v4-pro", "delta", "", true, false, 1320000, 3960000),
		}, ",") + `],"plans":[{"id":"free","name":"Free","gatedModels":false,"requestsPerMinute":null,"requestsPerMinutePerAccount":null,"concurrentPerKey":null,"concurrentPerAccount":null,"activeSessions":null}],"limits":` + string(limits) + `,"contact":{"url":"https://example.com/top-up","email":"help@example.com"},"docs":{"openapi":"/api/v1/openapi.json","explorer":"/api/v1/doc","reference":"/docs/api-openapi"}}`,
	}
}

func TestTheStubMatchesTheContract(t *testing.T) {
	t.Parallel()
	doc, err := contract.Load()
	if err != nil {
		t.Fatal(err)
	}
	replies := stubReplies()
	maps.Copy(replies, agentReplies())
	maps.Copy(replies, laterReplies())
	maps.Copy(replies, operatorReplies())
	maps.Copy(replies, connectionReplies())
	for op, reply := range replies {
		fields := strings.Fields(op)
		path, _, _ := strings.Cut(fields[1], "?")
		item := doc.Paths.Value("/api/v1" + path)
		if item == nil || item.GetOperation(fields[0]) == nil {
			t.Errorf("%s: not in the contract", op)
			continue
		}
		var body any
		if err := json.Unmarshal([]byte(reply), &body); err != nil {
			t.Errorf("%s: %v", op, err)
			continue
		}
		for status, answer := range item.GetOperation(fields[0]).Responses.Map() {
			if status[0] != '2' {
				continue
			}
			if err := answer.Value.Content.Get("application/json").Schema.Value.VisitJSON(body); err != nil {
				t.Errorf("%s: %v", op, err)
			}
		}
	}
}

// stubPayment is a payment of 20.00 EUR; state and checkout are JSON.
func stubPayment(id, state, checkout string, refunded, withdrawn int) string {
	return fmt.Sprintf(`{"id":%q,"accountId":"acc_01k9zqd3m8w5x7y2c4b6n8p0ra","pack":"small","name":"20 credits","amount":2000,"currency":"eur","creditsMicro":20000000,"live":true,"state":%s,"checkoutUrl":%s,"refundedAmount":%d,"disputed":false,"withdrawnMicro":%d,"keyId":"key_01k9zqd3m8w5x7y2c4b6n8p0ra","createdAt":"2026-11-20T11:00:00.000Z","paidAt":null}`, id, state, checkout, refunded, withdrawn)
}
