package web

import (
	"strings"
)

// exampleBody finds a body to show in the samples of an operation: the first
// example of its JSON request; nil where there is none.
func (b *builder) exampleBody(v *value) *value {
	body := v.get("requestBody")
	if body == nil {
		return nil
	}
	media := b.follow(body).get("content", "application/json")
	if e := media.get("example"); e != nil {
		return e
	}
	for _, e := range media.all("examples") {
		if given := b.follow(e.value).get("value"); given != nil {
			return given
		}
	}
	if schema := media.get("schema"); schema != nil {
		return b.sampleOf(schema, 0)
	}
	return nil
}

// sampleOf makes a body of the required members of a schema.
func (b *builder) sampleOf(v *value, depth int) *value {
	v = b.follow(v)
	if v == nil || depth > maxDepth {
		return &value{kind: 's'}
	}
	if e := v.get("example"); e != nil {
		return e
	}
	if e := v.list("enum"); len(e) > 0 {
		return e[0]
	}
	for _, word := range []string{"allOf", "oneOf", "anyOf"} {
		if parts := v.list(word); len(parts) > 0 && v.get("properties") == nil {
			return b.sampleOf(parts[0], depth+1)
		}
	}
	switch v.str("type") {
	case "object":
		out := &value{kind: 'o'}
		for _, name := range v.strs("required") {
			if p := v.get("properties", name); p != nil {
				out.members = append(out.members, member{name, b.sampleOf(p, depth+1)})
			}
		}
		return out
	case "array":
		return &value{kind: 'a', items: []*value{b.sampleOf(v.get("items"), depth+1)}}
	case "integer", "number":
		return &value{kind: 's', scalar: 1}
	case "boolean":
		return &value{kind: 's', scalar: true}
	case "string":
		return &value{kind: 's', scalar: "…"}
	}
	return &value{kind: 's'}
}

// commands are the operations that the command line has a word for; the others
// are called with "stoa api".
var commands = map[string]string{
	"createResponse": `stoa respond -m auto "Why is the sky blue?"`,
	"getMe":          "stoa whoami",
}

// samplesOf shows how an operation is called with curl and with the command
// line.
func samplesOf(op operation, body *value) []sample {
	var curl, cli strings.Builder
	path := samplePath(op)
	stream := false
	for _, a := range op.Answers {
		for _, c := range a.Bodies {
			stream = stream || c.Stream
		}
	}
	curl.WriteString("curl ")
	if stream {
		curl.WriteString("--no-buffer ")
	}
	if op.Method != "GET" && !(op.Method == "POST" && body != nil) {
		curl.WriteString("--request " + op.Method + " ")
	}
	curl.WriteString(quote("$STOA_BASE_URL" + path))
	if op.NeedsKey {
		curl.WriteString(" \\\n  --header \"Authorization: Bearer $STOA_API_KEY\"")
	}
	if body != nil {
		curl.WriteString(" \\\n  --json " + single(body.inline()))
	}
	if word, ok := commands[op.ID]; ok {
		cli.WriteString(word)
	} else {
		cli.WriteString("stoa api " + op.Method + " " + bare(path))
		if body != nil {
			cli.WriteString(" \\\n  --data " + single(body.inline()))
		}
	}
	return []sample{{"curl", curl.String()}, {"stoa", cli.String()}}
}

// samplePath puts a shell variable in place of each parameter of the path and
// adds the query parameters that must be there.
func samplePath(op operation) string {
	path := op.Path
	query := ""
	for _, p := range op.Parameters {
		switch {
		case p.In == "path":
			path = strings.ReplaceAll(path, "{"+p.Name+"}", "$"+strings.ToUpper(snake(p.Name)))
		case p.In == "query" && p.Required:
			sep := "&"
			if query == "" {
				sep = "?"
			}
			given := p.Example
			if given == "" {
				given = "$" + strings.ToUpper(snake(p.Name))
			}
			query += sep + p.Name + "=" + given
		}
	}
	return path + query
}

// snake writes agentId as agent_id.
func snake(name string) string {
	var out strings.Builder
	for _, r := range name {
		if r >= 'A' && r <= 'Z' {
			out.WriteByte('_')
			r += 'a' - 'A'
		}
		out.WriteRune(r)
	}
	return out.String()
}

// quote puts a word in double quotes, where variables count.
func quote(s string) string { return `"` + s + `"` }

// bare quotes a word only where the shell needs it.
func bare(s string) string {
	if strings.ContainsAny(s, "$?&* ") {
		return quote(s)
	}
	return s
}

// single puts a word in single quotes.
func single(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
