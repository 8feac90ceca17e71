package httptool

import (
	"bytes"
	"encoding/json"
	"fmt"
	"mime"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding/htmlindex"

	"stoa/internal/agents/remote"
)

// text returns the body of a reply for a model. Unreadable parts are named and not errors,
// because the request was carried out. cut means that the body is only the beginning.
func (p *plan) text(contentType string, body []byte, cut bool) string {
	body = decoded(contentType, body)
	if len(bytes.TrimSpace(body)) == 0 {
		return "Done. The reply is empty."
	}
	kind, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		kind = strings.ToLower(strings.TrimSpace(contentType))
	}
	isJSON := kind == "application/json" || strings.HasSuffix(kind, "+json")
	if isJSON || kind == "" || kind == "text/json" {
		if json.Valid(body) {
			return p.Result.pick(body)
		}
	}
	note := ""
	switch {
	case cut:
		note = remote.CutNote(len(body))
	case isJSON:
		note = "(The server says that this is JSON, and it cannot be read as that.)\n"
	case p.Result.Pointer != "":
		note = "(The reply is not JSON, so no part of it was selected.)\n"
	}
	if !isText(kind, body) {
		if cut {
			return remote.LeftOut(kindOr(kind), len(body))
		}
		return note + remote.LeftOut(kindOr(kind), len(body))
	}
	return note + strings.ToValidUTF8(string(body), "\ufffd")
}

// decoded returns a body in UTF-8, from the charset that the server states.
func decoded(contentType string, body []byte) []byte {
	_, parameters, _ := mime.ParseMediaType(contentType)
	if charset := parameters["charset"]; charset != "" && !strings.EqualFold(charset, "utf-8") {
		if encoding, err := htmlindex.Get(charset); err == nil {
			if text, err := encoding.NewDecoder().Bytes(body); err == nil {
				return text
			}
		}
	}
	return body
}

func kindOr(kind string) string {
	if kind == "" {
		return "of no stated kind"
	}
	return kind
}

// isText reports whether a body can be passed on as text.
func isText(kind string, body []byte) bool {
	if strings.HasPrefix(kind, "text/") || strings.HasSuffix(kind, "+json") || strings.HasSuffix(kind, "+xml") || kind == "application/xml" || kind == "application/json" {
		return !bytes.ContainsRune(body, 0)
	}
	return utf8.Valid(body) && !bytes.ContainsFunc(body, func(r rune) bool { return r < ' ' && r != '\n' && r != '\r' && r != '\t' && r != '\f' })
}

// A selection selects the part of a JSON reply that is the result.
type selection struct {
	Pointer  string `json:"pointer"`  // RFC 6901; empty means the whole reply
	MaxItems int    `json:"maxItems"` // 0 means all entries of a list
}

const maxPointer = 20 // steps

// pick returns a part of a JSON text. It does not decode values, so that numbers keep their
// spelling.
func (s selection) pick(body []byte) string {
	part, ok := at(body, s.Pointer)
	note := ""
	if !ok {
		part, note = body, fmt.Sprintf("\n(The reply has nothing at %q; this is all of it.)", s.Pointer)
	}
	var list []json.RawMessage
	if s.MaxItems > 0 && bytes.HasPrefix(bytes.TrimSpace(part), []byte("[")) && json.Unmarshal(part, &list) == nil && len(list) > s.MaxItems {
		note += fmt.Sprintf("\n(These are %d of %d entries; the others were left out.)", s.MaxItems, len(list))
		var b bytes.Buffer
		for i, item := range list[:s.MaxItems] {
			b.WriteString(map[bool]string{true: "[", false: ","}[i == 0])
			b.Write(item)
		}
		b.WriteByte(']')
		part = b.Bytes()
	}
	var b bytes.Buffer
	if json.Compact(&b, part) != nil { // it is valid
		return string(part) + note
	}
	return strings.ToValidUTF8(b.String(), "\ufffd") + note
}

func at(text json.RawMessage, pointer string) (json.RawMessage, bool) {
	if pointer == "" {
		return text, true
	}
	for _, step := range strings.Split(pointer, "/")[1:] {
		step = strings.NewReplacer("~1", "/", "~0", "~").Replace(step)
		text = bytes.TrimSpace(text)
		var ok bool
		switch {
		case bytes.HasPrefix(text, []byte("{")):
			var members map[string]json.RawMessage
			if json.Unmarshal(text, &members) != nil {
				return nil, false
			}
			text, ok = members[step]
		case bytes.HasPrefix(text, []byte("[")):
			var list []json.RawMessage
			i, err := strconv.Atoi(step)
			if err != nil || i < 0 || strconv.Itoa(i) != step || json.Unmarshal(text, &list) != nil || i >= len(list) {
				return nil, false
			}
			text, ok = list[i], true
		}
		if !ok {
			return nil, false
		}
	}
	return text, true
}
