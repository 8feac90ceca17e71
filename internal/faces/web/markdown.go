package web

import (
	"bytes"
	"html/template"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"
)

const (
	tableBegin = `<div class="scrolls" tabindex="0" role="group" aria-label="Table"><table class="words">`
	tableEnd   = "</table></div>"
)

// prose converts the Markdown of descriptions to HTML. It drops raw HTML, because goldmark does so by default.
type prose struct{ md goldmark.Markdown }

func newProse() prose {
	return prose{goldmark.New(goldmark.WithExtensions(extension.Table))}
}

// html renders whole paragraphs.
func (p prose) html(text string) (template.HTML, error) {
	if text == "" {
		return "", nil
	}
	var out bytes.Buffer
	if err := p.md.Convert([]byte(text), &out); err != nil {
		return "", err
	}
	html := strings.NewReplacer("<table>", tableBegin, "</table>", tableEnd).Replace(out.String())
	return template.HTML(html), nil // safe, because goldmark escaped it
}
