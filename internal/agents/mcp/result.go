package mcp

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"stoa/internal/agents/remote"
	"stoa/internal/base/media"
)

// resultOf reads the result of a call, part by part. An unreadable part is named and is not an
// error, because the call was carried out.
func resultOf(raw json.RawMessage) *remote.Result {
	out := &remote.Result{Bytes: len(raw)}
	var members map[string]json.RawMessage
	if json.Unmarshal(raw, &members) != nil {
		out.Text = "(The result cannot be read.)"
		return out
	}
	_ = json.Unmarshal(members["isError"], &out.IsError) // optional
	var blocks []json.RawMessage
	var parts []string
	if content, ok := members["content"]; ok && json.Unmarshal(content, &blocks) != nil {
		parts = append(parts, "(The content of the result cannot be read.)")
	}
	var texts []string
	for _, b := range blocks {
		shown, isText := imageText(b, out), false
		if shown == "" {
			shown, isText = blockText(b)
		}
		if isText {
			texts = append(texts, shown)
		}
		parts = append(parts, shown)
	}
	if structured := members["structuredContent"]; len(structured) > 0 && string(structured) != "null" && !repeats(texts, structured) {
		parts = append(parts, string(structured))
	}
	parts = slices.DeleteFunc(parts, func(part string) bool { return strings.TrimSpace(part) == "" })
	if out.Text = strings.Join(parts, "\n"); len(parts) == 0 {
		out.Text = "(The result is empty.)"
	}
	return out
}

// maxRescans limits the work of [repeats], because a value that does not follow the previous one
// is searched for from the start.
const maxRescans = 100

// repeats reports whether texts contain every value of structured content. The protocol asks
// servers to send it as text, too, and a model should not pay for it twice; but many servers
// send an empty text or only a summary, from which the model cannot know the data.
func repeats(texts []string, structured json.RawMessage) bool {
	var spoken strings.Builder
	for _, text := range texts {
		if v, err := values([]byte(text)); err == nil && len(v) > 0 {
			text = strings.Join(v, "\n") // without the escapes of its JSON
		}
		spoken.WriteString(text + "\n")
	}
	wanted, err := values(structured)
	if err != nil || len(wanted) == 0 {
		return len(texts) > 0
	}
	all, rest, rescans := spoken.String(), spoken.String(), 0
	for _, v := range wanted {
		_, after, found := strings.Cut(rest, v)
		if !found && rescans < maxRescans {
			rescans++
			_, after, found = strings.Cut(all, v)
		}
		if !found {
			return false
		}
		rest = after
	}
	return true
}

// values returns the strings, numbers and booleans in JSON, in their order, without names of
// members.
func values(raw []byte) (all []string, err error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var objects []bool // around the next token: an object, not a list
	isName := false
	for {
		token, err := d.Token()
		if err == io.EOF {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		within := len(objects) > 0 && objects[len(objects)-1]
		if within && isName && token != json.Delim('}') {
			isName = false
			continue
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			objects = append(objects, token == json.Delim('{'))
		case json.Delim('}'), json.Delim(']'):
			objects = objects[:len(objects)-1]
		case nil, "":
		default:
			all = append(all, fmt.Sprint(token))
		}
		isName = true // after a value or at the start of an object
	}
}

// imageText adds the image of a block to a result, and returns the text that names it; empty
// if it is not a usable image.
func imageText(raw json.RawMessage, out *remote.Result) string {
	var b struct {
		Type string `json:"type"`
		Data string `json:"data"`
	}
	if json.Unmarshal(raw, &b) != nil || b.Type != "image" || len(out.Images) == remote.MaxImages {
		return ""
	}
	data, err := base64.StdEncoding.DecodeString(b.Data)
	if err != nil {
		return ""
	}
	m, err := media.ImageOf(data)
	if err != nil {
		return ""
	}
	return out.Show(m)
}

func blockText(raw json.RawMessage) (text string, isText bool) {
	var kind struct {
		Type string `json:"type"`
	}
	if json.Unmarshal(raw, &kind) != nil || kind.Type == "" {
		return "(A part of the result cannot be read.)", false
	}
	var b struct {
		Text     string `json:"text"`
		Data     string `json:"data"`
		MIMEType string `json:"mimeType"`
		URI      string `json:"uri"`
		Name     string `json:"name"`
		Resource struct {
			URI      string  `json:"uri"`
			MIMEType string  `json:"mimeType"`
			Text     *string `json:"text"`
			Blob     string  `json:"blob"`
		} `json:"resource"`
	}
	known := slices.Contains([]string{"text", "image", "audio", "resource_link", "resource"}, kind.Type)
	if known && json.Unmarshal(raw, &b) != nil {
		return "(A part of the result cannot be read.)", false
	}
	switch kind.Type {
	case "text":
		return b.Text, true
	case "image", "audio":
		return remote.LeftOut(b.MIMEType, len(b.Data)*3/4), false
	case "resource_link":
		return fmt.Sprintf("(A link, which was not followed: %s %s)", remote.Cut(b.Name, 200), remote.Cut(b.URI, 2000)), false
	case "resource":
		if b.Resource.Text != nil {
			return fmt.Sprintf("(From %s)\n%s", remote.Cut(b.Resource.URI, 2000), *b.Resource.Text), true
		}
		return remote.LeftOut(b.Resource.MIMEType, len(b.Resource.Blob)*3/4), false
	}
	return fmt.Sprintf("(A part of the kind %q, which this service does not know, was left out.)", remote.Cut(kind.Type, 50)), false
}
