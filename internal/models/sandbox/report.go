package sandbox

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"stoa/internal/base/jsonx"
	"stoa/internal/base/stoa"
)

// Limits of the sandbox's quotes.
const (
	maxPassages = 5
	maxQuote    = 500 // characters of one passage
	maxQuery    = 200 // bytes of a search
)

// keywords returns a search query for a message: its words without punctuation.
func keywords(text string) string {
	var b strings.Builder
	for _, word := range strings.FieldsFunc(clip(text, 16*maxQuery), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		if b.Len()+len(word)+1 > maxQuery {
			break
		}
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(word)
	}
	return b.String()
}

// report returns the reply to tool results: passages of files with their names, the
// user's answer, or the text of the result.
func (t turn) report() string {
	var paragraphs []string
	for _, r := range t.results {
		text := r.Content
		for _, p := range r.Parts {
			more := p.Text
			if p.Media != nil {
				more = "[" + describe(p.Kind, p.Media) + "]"
			}
			text = strings.TrimPrefix(text+"\n"+more, "\n")
		}
		r.Content, r.Parts = text, nil
		paragraphs = append(paragraphs, t.reportOne(r))
	}
	if t.thoughts > 0 {
		paragraphs = append(paragraphs, fmt.Sprintf("Earlier reasoning came back unchanged: %d.", t.thoughts))
	}
	return strings.Join(paragraphs, "\n\n")
}

func (t turn) reportOne(r stoa.ToolResult) string {
	name := r.Name
	if name == "" {
		name = "tool"
	}
	switch {
	case r.IsError:
		return fmt.Sprintf("The tool %s failed: %s", name, shorten(r.Content, maxQuote))
	case name == toolAsk:
		return "You answered: " + shorten(answer(r.Content), maxQuote)
	case name != toolSearch:
		return fmt.Sprintf("The tool %s answered: %s", name, shorten(r.Content, maxQuote))
	}
	found := passages(r.Content)
	if len(found) == 0 {
		return fmt.Sprintf("I searched the drive for “%s” and found nothing. (The built-in sandbox of Stoa searches for words; it does not understand them.)",
			keywords(t.rest))
	}
	var b strings.Builder
	b.WriteString("From the drive (found by the built-in sandbox of Stoa, which quotes and does not understand):\n")
	for _, p := range found {
		b.WriteString("\n- " + p.name())
		if p.text != "" {
			b.WriteString(": “" + shorten(p.text, maxQuote) + "”")
		}
	}
	return b.String()
}

type passage struct {
	path, lines, text string
}

func (p passage) name() string {
	if p.lines == "" {
		return p.path
	}
	return p.path + " (lines " + p.lines + ")"
}

// passages returns the objects with a path in a search result of any shape. A result
// that is not JSON is one passage.
func passages(content string) []passage {
	content = strings.TrimSpace(content)
	var v any
	if err := jsonx.Lenient([]byte(content), &v); err != nil {
		if content == "" {
			return nil
		}
		return []passage{{path: "the search", text: content}}
	}
	var found []passage
	collect(v, &found)
	return found
}

func collect(v any, found *[]passage) {
	if len(*found) == maxPassages {
		return
	}
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			collect(item, found)
		}
	case map[string]any:
		if path, ok := v["path"].(string); ok {
			*found = append(*found, passage{path: path, lines: lineRange(v), text: firstString(v, "snippet", "text", "passage", "content")})
			return
		}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			collect(v[name], found)
		}
	}
}

func lineRange(v map[string]any) string {
	if s := firstString(v, "lines"); s != "" {
		return s
	}
	from, ok := v["startLine"].(float64)
	if !ok {
		return ""
	}
	if to, ok := v["endLine"].(float64); ok && to > from {
		return fmt.Sprintf("%.0f-%.0f", from, to)
	}
	return fmt.Sprintf("%.0f", from)
}

func firstString(v map[string]any, names ...string) string {
	for _, name := range names {
		if s, ok := v[name].(string); ok && s != "" {
			return s
		}
	}
	return ""
}

func answer(content string) string {
	var v any
	if jsonx.Lenient([]byte(content), &v) == nil {
		if m, ok := v.(map[string]any); ok {
			if s := firstString(m, "answer", "choice", "decision", "text"); s != "" {
				return s
			}
		}
	}
	return content
}
