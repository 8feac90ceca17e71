package stoa

import (
	"strings"
	"testing"
)

func TestEstimateCountsEveryPart(t *testing.T) {
	t.Parallel()
	segment := func(bytes int, tokens int64) Part {
		return Part{Kind: PartReasoning, State: State{Data: strings.Repeat("x", bytes), Tokens: tokens}}
	}
	image := Part{Kind: PartImage, Media: &Media{Type: "image/png", Base64: strings.Repeat("x", 5_000_000)}}
	sized := Part{Kind: PartImage, Media: &Media{URL: "https://example.com/a.png", Tokens: 700}}
	file := Part{Kind: PartFile, Media: &Media{Type: "application/pdf", Pages: 3}}
	for name, c := range map[string]struct {
		part Part
		want int64
	}{
		"a text":                           {Part{Kind: PartText, Text: "abcdef"}, 2},
		"reasoning by its tokens":          {segment(1<<20, 500), 516},
		"reasoning that claims more":       {segment(30, 1<<40), 10},
		"reasoning of which none is known": {segment(3_000, 0), 1_000},
		"an image":                         {image, ImageTokens},
		"an image of a model":              {sized, 700},
		"a PDF":                            {file, 3 * (PageTokens + ImageTokens)},
		"a PDF at an address":              {Part{Kind: PartFile, Media: &Media{URL: "https://example.com/a.pdf"}}, 1_000 * (PageTokens + ImageTokens)},
		"a call":                           {Part{Kind: PartCall, Call: &ToolCall{Name: "abc", Arguments: `{"a":1}`}}, 4},
		"a result":                         {Part{Kind: PartResult, Result: &ToolResult{Content: "abc"}}, 1},
		"a result with an image": {
			Part{Kind: PartResult, Result: &ToolResult{Parts: []Part{{Kind: PartText, Text: "abc"}, image, file}}},
			1 + ImageTokens + 3*(PageTokens+ImageTokens),
		},
	} {
		call := Call{Messages: []Message{{Role: RoleUser, Parts: []Part{c.part}}}}
		if got := call.EstimateInput(); got != c.want+TokensPerMessage {
			t.Errorf("%s: %d tokens, want %d and %d for the message", name, got, c.want, TokensPerMessage)
		}
	}
}

func TestEstimateCountsToolsAndFormats(t *testing.T) {
	t.Parallel()
	tools := []Tool{{Name: "abc", Description: "def", Parameters: "{   }"}, {Name: "ab"}}
	for name, c := range map[string]struct {
		call Call
		want int64
	}{
		"tools":              {Call{Tools: tools}, 5 + toolsTokens + 2*toolTokens},
		"a schema":           {Call{Format: &Format{Kind: FormatSchema, Schema: "{    }"}}, 2 + formatTokens},
		"an object":          {Call{Format: &Format{Kind: FormatObject}}, formatTokens},
		"plain text":         {Call{Format: &Format{Kind: FormatText}}, 0},
		"an image of a tool": {Call{Messages: []Message{{Parts: []Part{{Kind: PartResult, Result: &ToolResult{Parts: []Part{{Kind: PartImage, Media: &Media{}}}}}}}}}, ImageTokens + TokensPerMessage},
	} {
		if got := c.call.EstimateInput(); got != c.want {
			t.Errorf("%s: %d tokens, want %d", name, got, c.want)
		}
	}
}

func TestMediaIsEstimatedByItsModel(t *testing.T) {
	t.Parallel()
	seen := Traits{ImageTokens: 1_000}
	for name, c := range map[string]struct {
		media  Media
		traits Traits
		file   bool
		want   int64
	}{
		"an image":                     {Media{}, seen, false, 1_000},
		"of a model that says nothing": {Media{}, Traits{}, false, ImageTokens},
		"in its own size":              {Media{Detail: "original", Width: 3_201, Height: 1_600}, seen, false, 101 * 50},
		"a small one in its own size":  {Media{Detail: "original", Width: 33, Height: 1}, seen, false, 1_000},
		"a large one in its own size":  {Media{Detail: "original", Width: 8_000, Height: 5_000}, seen, false, 10_000},
		"of an unknown size":           {Media{Detail: "original"}, seen, false, 1_000},
		"pages":                        {Media{Pages: 7}, seen, true, 7 * (PageTokens + 1_000)},
		"unknown pages":                {Media{}, seen, true, 1_000 * (PageTokens + 1_000)},
	} {
		if got := c.media.Estimate(c.traits, c.file); got != c.want {
			t.Errorf("%s: %d tokens, want %d", name, got, c.want)
		}
	}
}
