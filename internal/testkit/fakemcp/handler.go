package fakemcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"stoa/internal/testkit/shape"
)

// maxBody is the maximum number of bytes that the fake reads of a request.
const maxBody = 8 << 20

// A message is a request of a client, or its answer to one of the fake.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		ProtocolVersion string          `json:"protocolVersion"`
		Cursor          string          `json:"cursor"`
		Name            string          `json:"name"`
		Arguments       json.RawMessage `json:"arguments"`
		Meta            map[string]any  `json:"_meta"`
	} `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Code int `json:"code"`
	} `json:"error"`
}

// ServeHTTP answers one request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	data, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
	if err != nil {
		return
	}
	var m message
	if len(data) > 0 && json.Unmarshal(data, &m) != nil {
		shape.Find(recording, "not JSON: 400").Answer(w, nil)
		return
	}
	session, legacy := r.Header.Get("Mcp-Session-Id"), false
	h.update(func() {
		legacy = h.legacy
		h.headers = append(h.headers, r.Header.Clone())
		if r.URL.Path != "/" {
			h.visits = append(h.visits, r.URL.Path)
			return
		}
		h.requests = append(h.requests, strings.TrimSpace(r.Method+" "+m.Method))
	})
	switch {
	case r.URL.Path != "/":
		_, _ = io.WriteString(w, "You should not have come.")
	case r.Method == http.MethodDelete && legacy:
		if !h.has(session) {
			h.unknownSession(w)
			return
		}
		h.update(func() { delete(h.sessions, session) })
	case r.Method != http.MethodPost:
		w.WriteHeader(http.StatusMethodNotAllowed)
	case m.Method == "" && m.ID != nil:
		h.answered(m)
		w.WriteHeader(http.StatusAccepted)
	default:
		wrong := h.wrong(r, m, session, legacy)
		if wrong != nil && m.Method != "initialize" && m.Method != "server/discover" { // their ordered failures take precedence
			wrong(w)
			return
		}
		h.answer(w, r, m, session, wrong)
	}
}

// answered records a client's answer to a request of the fake.
func (h *Handler) answered(m message) {
	a := Answer{ID: strings.Trim(string(m.ID), `"`), Result: m.Result}
	if m.Error != nil {
		a.Code = m.Error.Code
	}
	h.update(func() {
		h.answers = append(h.answers, a)
		delete(h.asked, a.ID)
	})
}

// wrong returns the refusal of a request that violates the rules of an era; nil if it does
// not.
func (h *Handler) wrong(r *http.Request, m message, session string, legacy bool) func(http.ResponseWriter) {
	refuse := func(status, code int, text string) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			id := m.ID
			if id == nil {
				id = json.RawMessage("null")
			}
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%q}}`, id, code, text)
		}
	}
	recorded := func(name string) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) { shape.Find(recording, name).Answer(w, nil) }
	}
	accept, version := r.Header.Get("Accept"), r.Header.Get("Mcp-Protocol-Version")
	switch {
	case !strings.Contains(accept, "application/json") || !strings.Contains(accept, "text/event-stream"):
		return recorded("wrong Accept: 406")
	case legacy && m.Method == "initialize":
		return nil
	case legacy && session == "":
		return recorded("no session: 400")
	case legacy:
		if !h.has(session) {
			return h.unknownSession
		}
		return nil
	case m.Method == "initialize":
		return refuse(400, -32022, "Unsupported protocol version")
	case version != Modern || session != "":
		return refuse(400, -32022, "Unsupported protocol version")
	case r.Header.Get("Mcp-Method") != m.Method, m.Method == "tools/call" && r.Header.Get("Mcp-Name") != m.Params.Name:
		return refuse(400, -32020, "The headers are not those of the body")
	}
	return nil
}

// has reports whether a session is open.
func (h *Handler) has(session string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.sessions[session]
}

// unknownSession refuses a session as the protocol defines, and as the reference server does, in turn.
func (h *Handler) unknownSession(w http.ResponseWriter) {
	s := shape.Find(recording, "unknown session: 400")
	if h.turn("session", 2) == 0 {
		s.Status = http.StatusNotFound
		s.Body = []byte(`{"jsonrpc":"2.0","error":{"code":-32001,"message":"Session not found"},"id":null}`)
	}
	s.Answer(w, nil)
}

// turn returns 0, 1, … up to n - 1, and then begins again, for each place in which servers differ.
func (h *Handler) turn(place string, n int) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.turns[place]++
	return (h.turns[place] - 1) % n
}

// answer answers a request. wrong is the refusal of a handshake; may be nil.
func (h *Handler) answer(w http.ResponseWriter, r *http.Request, m message, session string, wrong func(http.ResponseWriter)) {
	p := play{w: w, r: r, id: m.ID, method: m.Method, session: session}
	name := h.orderFor(m)
	o, failing := orderOf(name)
	if name == "501" && m.Method == "tools/list" {
		failing = false
	}
	if m.Method == "tools/call" {
		if !h.called(r, m, session, name, name != "input" && (!failing || o.effect)) {
			if session != "" && h.turn("unknown tool", 4) < 2 {
				h.result(p, `{"content":[{"type":"text","text":"MCP error -32602: Tool not found"}],"isError":true}`)
			} else {
				h.failure(p, `{"code":-32602,"message":"unknown tool"}`)
			}
			return
		}
	}
	if failing {
		if name == "404" {
			h.update(func() { delete(h.sessions, session) }) // as the era defines
		}
		o.play(h, p)
		return
	}
	if wrong != nil {
		wrong(w)
		return
	}
	switch m.Method {
	case "initialize":
		id := h.open()
		p.session = id
		// The capabilities of the reference server, of which the fake has the tools.
		const capabilities = `{"tools":{"listChanged":true},"prompts":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true},"logging":{},"tasks":{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}},"completions":{}}`
		h.result(p, fmt.Sprintf(`{"protocolVersion":%q,"capabilities":%s,"serverInfo":{"name":"fake","title":"Fake","version":"1"},"instructions":%q}`, Legacy, capabilities, Instructions))
	case "server/discover":
		h.result(p, fmt.Sprintf(`{"resultType":"complete","supportedVersions":[%q],"capabilities":{"tools":{}},"instructions":%q}`, Modern, Instructions))
	case "tools/list":
		h.list(p, name, m.Params.Cursor)
	case "tools/call":
		h.tool(p, m, name)
	case "ping":
		h.result(p, `{}`)
	default:
		if m.ID == nil {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		h.failure(p, `{"code":-32601,"message":"no such method"}`)
	}
}

// orderFor returns the order for a request.
func (h *Handler) orderFor(m message) (name string) {
	h.update(func() {
		name = h.always[m.Method]
		if next := h.next[m.Method]; len(next) > 0 {
			name, h.next[m.Method] = next[0], next[1:]
			return
		}
		var given struct{ Order string }
		if m.Method == "tools/call" && json.Unmarshal(m.Params.Arguments, &given) == nil && given.Order != "" {
			name = given.Order
		}
	})
	return name
}

// called records a call and carries it out if carry is set. It reports whether the tool
// exists.
func (h *Handler) called(r *http.Request, m message, session, name string, carry bool) (known bool) {
	var given struct{ Key string }
	_ = json.Unmarshal(m.Params.Arguments, &given)
	id, _ := m.Params.Meta["stoa/toolCallId"].(string)
	n, _ := r.Context().Value(connection{}).(*int)
	var tell func(Call)
	var call Call
	h.update(func() {
		known = slices.ContainsFunc(h.tools, func(t string) bool {
			var d struct{ Name string }
			return json.Unmarshal([]byte(t), &d) == nil && d.Name == m.Params.Name
		})
		c := Call{ID: id, Tool: m.Params.Name, Key: given.Key, Order: name, Arguments: bytes.Clone(m.Params.Arguments), Header: r.Header.Clone(), Session: session}
		if n != nil {
			*n++
			c.Connection = *n
		}
		switch {
		case !known || !carry || c.Tool == Read || c.Tool == Echo:
		case c.Tool != Put || h.effects[id] == 0 || id == "":
			c.Effect = true
			h.effects[id]++
		}
		h.calls = append(h.calls, c)
		if tell = h.onCall; tell != nil {
			call = c
		}
	})
	if tell != nil {
		tell(call)
	}
	return known
}

// open begins a session of the legacy era.
func (h *Handler) open() (id string) {
	h.update(func() {
		h.opened++
		id = fmt.Sprintf("session-%d-7f3a", h.opened)
		h.sessions[id] = true
	})
	return id
}

// list answers a request for the catalog.
func (h *Handler) list(p play, name, cursor string) {
	h.mu.Lock()
	tools := slices.Clone(h.tools)
	h.mu.Unlock()
	next := ""
	switch name {
	case "endless":
		next = fmt.Sprintf(`,"nextCursor":"%dx"`, len(cursor))
		next = strings.Replace(next, `"nextCursor":"`, `"nextCursor":"`+cursor, 1)
	case "same":
		next = `,"nextCursor":"again"`
	case "501":
		tools = nil
		for i := range 501 {
			tools = append(tools, fmt.Sprintf(`{"name":"t%d","inputSchema":{"type":"object"}}`, i))
		}
	}
	h.result(p, `{"resultType":"complete","tools":[`+strings.Join(tools, ",")+`]`+next+h.ttl+`}`)
}

// tool answers a call that was carried out.
func (h *Handler) tool(p play, m message, name string) {
	if result, ok := results[name]; ok {
		h.result(p, strings.ReplaceAll(result, "HOST", p.r.Host))
		return
	}
	switch name {
	case "hold":
		select {
		case <-h.free:
		case <-p.r.Context().Done():
			return
		}
	case "sampling":
		h.ask(p)
		return
	}
	text := "done " + m.Params.Name
	if m.Params.Name == Echo {
		headers, _ := json.Marshal(p.r.Header)
		text = string(headers)
	}
	h.result(p, said(text))
}

// said returns a result with a text.
func said(text string) string {
	quoted, _ := json.Marshal(text)
	return `{"resultType":"complete","content":[{"type":"text","text":` + string(quoted) + `}]}`
}

// result answers with a result.
func (h *Handler) result(p play, result string) {
	if p.session != "" { // the legacy era has one type of results
		result = strings.Replace(result, `"resultType":"complete",`, "", 1)
	}
	h.reply(p, `{"result":`+result+`,"jsonrpc":"2.0","id":ID}`)
}

// failure answers with an error of the protocol.
func (h *Handler) failure(p play, e string) { h.reply(p, `{"jsonrpc":"2.0","id":ID,"error":`+e+`}`) }

// reply answers with a message. Servers of the legacy era do so with JSON or a stream, here in turn.
func (h *Handler) reply(p play, message string) {
	h.mu.Lock()
	stream := h.stream
	h.mu.Unlock()
	if p.session != "" {
		p.w.Header().Set("Mcp-Session-Id", p.session)
	}
	switch {
	case stream: // one that can be resumed
		message = "id: 0\nretry: 10\ndata: \n\nid: 1\nevent: message\ndata: " + message + "\n\n"
	case p.session != "" && h.turn("stream", 2) == 0:
		message = "id: 0\ndata: \n\nevent: message\nid: 1\ndata: " + message + "\n\n"
		p.w.Header().Set("Cache-Control", "no-cache, no-transform")
	default:
		body("application/json", message)(h, p)
		return
	}
	body("text/event-stream", message)(h, p)
}

// ask requests a reply of the client's model and pings the client, and returns the result
// once both are answered.
func (h *Handler) ask(p play) {
	h.update(func() { h.asked["sample"], h.asked["ping"] = true, true })
	p.w.Header().Set("Content-Type", "text/event-stream")
	_, _ = io.WriteString(p.w, "data: {\"jsonrpc\":\"2.0\",\"id\":\"sample\",\"method\":\"sampling/createMessage\",\"params\":{\"messages\":[],\"maxTokens\":100}}\n\n"+
		"data: {\"jsonrpc\":\"2.0\",\"id\":\"ping\",\"method\":\"ping\"}\n\n")
	_ = http.NewResponseController(p.w).Flush()
	stop := make(chan struct{})
	defer close(stop)
	left := false
	go func() {
		select {
		case <-p.r.Context().Done():
			h.update(func() { left = true })
		case <-stop:
		}
	}()
	h.mu.Lock()
	for len(h.asked) > 0 && !left {
		h.changed.Wait()
	}
	h.mu.Unlock()
	_, _ = io.WriteString(p.w, "data: {\"jsonrpc\":\"2.0\",\"id\":"+string(p.id)+",\"result\":"+said("done after two questions")+"}\n\n")
}
