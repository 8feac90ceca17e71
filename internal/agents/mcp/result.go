package mcp

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"stoa/internal/agents/remote"
	"stoa/internal/base/media"
)

// resultOf reads the result of a call, part by part: an unreadable part is named, and does
// not affect the others. The call was carried out.
func resultOf(raw json.RawMessage) *remote.Result {
	out := &remote.Result{Bytes: len(raw)}
	var members map[string]json.RawMessage
	if json.Unmarshal(raw, &members) != nil {
		out.Text = "(The result cannot be read.)"
		return out
	}
	_ = json.Unmarshal(members["isError"], &out.IsError) // absent or invalid: not an error
	var blocks []json.RawMessage
	var parts []string
	if content, ok := members["content"]; ok && json.Unmarshal(content, &blocks) != nil {
		parts = append(parts, "(The content of the result cannot be read.)")
	}
	texts := 0
	for _, b := range blocks {
		text, isText := imageText(b, out), false
		if text == "" {
			text, isText = blockText(b)
		}
		if isText {
			texts++
		}
		parts = append(parts, text)
	}
	if structured := members["structuredContent"]; texts == 0 && len(structured) > 0 && string(structured) != "null" {
		parts = append(parts, string(structured)) // servers that send both repeat the content
	}
	if out.Text = strings.Join(parts, "\n"); len(parts) == 0 {
		out.Text = "(The result is empty.)"
	}
	return out
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

// blockText returns one block of a result as text.
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
