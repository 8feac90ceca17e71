package web

import (
	"bytes"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"regexp"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"

	"stoa/docs"
)

// guideOrder contains the order of the guides, in groups. A test compares it with the files of docs.
var guideOrder = []guideGroup{
	{Name: "Begin", names: []string{"quickstart", "connect-a-vendor", "model-servers", "clients", "migrate", "sandbox"}},
	{Name: "Agents", names: []string{"agents", "call-an-agent", "python", "sdks", "drives", "skills", "memory", "schedules", "hooks", "slack", "reports", "tools", "approvals", "test-sets", "connections", "http-tools", "connection-secrets", "connection-calls", "webhooks", "embeds"}},
	{Name: "Look up", names: []string{"conventions", "glossary", "extensions", "divergences", "billing", "budgets", "export", "cli", "pages"}},
	{Name: "Deploy", names: []string{"install", "configuration", "managed-settings", "settings-server", "settings-models", "settings-limits", "settings-people", "proxy", "postgresql", "nodes", "backup", "capacity", "performance", "comparison", "security", "dependencies"}},
	{Name: "Operate", names: []string{"operations", "monitoring", "alerts", "troubleshooting", "metrics", "ledger", "erasure", "sell-access", "members", "audit"}},
}

type guideGroup struct {
	Name   string
	Guides []*guide
	names  []string
}

// A guide is a page of docs.
type guide struct {
	Name, Title string
	Summary     string // first paragraph as plain text
	Body        template.HTML
	Sections    []guideSection
	file        *file
}

// A guideSection is a heading with its content up to the next heading.
type guideSection struct {
	ID, Title string
	Level     int
	text      string // plain text for the search

	lowerTitle, lowerText string // lower case
}

// guides contains all pages of docs. They are rendered on first use, because that takes time.
type guides struct {
	groups []guideGroup
	byName map[string]*guide
	index  *file
}

type guidePage struct {
	Groups []guideGroup
	Guide  *guide // nil for the list and for search results
	Asked  bool
	Query  string
	Found  []foundSection
	Calls  []operation // operations that contain all words of the search
}

func (s *Site) renderGuides() (*guides, error) {
	g := &guides{byName: map[string]*guide{}}
	titles, err := guideTitles()
	if err != nil {
		return nil, err
	}
	for _, group := range guideOrder {
		for _, name := range group.names {
			source, err := fs.ReadFile(docs.Guides, name+".md")
			if err != nil {
				return nil, fmt.Errorf("read the guide %s: %w", name, err)
			}
			one, err := newGuide(name, source, titles)
			if err != nil {
				return nil, fmt.Errorf("render the guide %s: %w", name, err)
			}
			g.byName[name] = one
			group.Guides = append(group.Guides, one)
		}
		g.groups = append(g.groups, group)
	}
	for _, one := range g.byName {
		with := pageData{Title: one.Title + " · Stoa", Summary: one.Summary, Here: "guides", Page: guidePage{Groups: g.groups, Guide: one}}
		if one.file, err = s.render("guides", with); err != nil {
			return nil, err
		}
	}
	g.index, err = s.render("guides", pageData{Title: "Guides · Stoa", Summary: "How to use and run Stoa.", Here: "guides", Page: guidePage{Groups: g.groups}})
	return g, err
}

// Tables align by attribute, because the pages' policy forbids styles on elements.
var guideTables = extension.NewTable(extension.WithTableCellAlignMethod(extension.TableCellAlignAttribute))

// newGuide renders a page of docs. It keeps links between the pages, replaces links to unserved files by their text,
// and drops raw HTML.
func newGuide(name string, source []byte, titles map[string]string) (*guide, error) {
	md := goldmark.New(goldmark.WithExtensions(guideTables), goldmark.WithParserOptions(parser.WithAutoHeadingID()))
	root := md.Parser().Parse(text.NewReader(source))
	g := &guide{Name: name}
	for node := root.FirstChild(); node != nil; node = node.NextSibling() {
		if h, ok := node.(*ast.Heading); ok {
			id, _ := h.AttributeString("id")
			anchor, _ := id.([]byte)
			g.Sections = append(g.Sections, guideSection{ID: string(anchor), Title: plainText(h, source), Level: h.Level})
			continue
		}
		if len(g.Sections) == 0 {
			continue
		}
		words := plainText(node, source)
		if node.Kind() == ast.KindParagraph && g.Summary == "" {
			g.Summary = firstSentence(words)
		}
		g.Sections[len(g.Sections)-1].text += words + "\n"
	}
	for i := range g.Sections {
		one := &g.Sections[i]
		one.lowerTitle, one.lowerText = strings.ToLower(one.Title), strings.ToLower(one.text)
	}
	if len(g.Sections) == 0 || g.Sections[0].Level != 1 {
		return nil, fmt.Errorf("it does not begin with a title")
	}
	g.Title = g.Sections[0].Title
	if err := redirectLinks(root, source, titles); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := md.Renderer().Render(&out, source, root); err != nil {
		return nil, err
	}
	g.Body = template.HTML(guideMarkup.Replace(out.String())) // safe, because goldmark escaped it
	return g, nil
}

// guideMarkup adds the frames of other pages to tables and code. The empty corner of a table is not a heading.
var guideMarkup = strings.NewReplacer(
	"<table>", tableBegin, "</table>", tableEnd,
	"<code>-", `<code class="flag">-`, // the class prevents a break at its hyphens
	"<th></th>", "<td></td>",
	"<pre>", `<div class="code" data-copy><pre tabindex="0">`, "</pre>", "</pre></div>",
)

// redirectLinks converts links between pages of docs to links between guides. It replaces a link text that is a
// file name by the guide's title, and removes links to files that are not served.
func redirectLinks(root ast.Node, source []byte, titles map[string]string) error {
	var links []*ast.Link
	err := ast.Walk(root, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if link, ok := n.(*ast.Link); ok && entering {
			links = append(links, link)
		}
		return ast.WalkContinue, nil
	})
	for _, link := range links {
		to := string(link.Destination)
		page, fragment, _ := strings.Cut(to, "#")
		name, isPage := strings.CutSuffix(page, ".md")
		switch {
		case page == "" || strings.Contains(page, "://") || strings.HasPrefix(page, "/"):
		case isPage && !strings.Contains(name, "/"):
			link.Destination = []byte("/docs/" + name)
			if fragment != "" {
				link.Destination = []byte("/docs/" + name + "#" + fragment)
				// A link that is all of a list item gets the section's id, so that addresses of moved sections
				// lead to it; reference.ts follows it.
				block := link.Parent()
				if block.ChildCount() == 1 && block.Parent() != nil && block.Parent().Kind() == ast.KindListItem {
					link.SetAttributeString("id", []byte(fragment))
				}
			}
			if title := titles[name]; title != "" && plainText(link, source) == page {
				link.RemoveChildren(link)
				link.AppendChild(link, ast.NewString([]byte(title)))
			}
		default:
			for child := link.FirstChild(); child != nil; child = link.FirstChild() {
				link.Parent().InsertBefore(link.Parent(), link, child)
			}
			link.Parent().RemoveChild(link.Parent(), link)
		}
	}
	return err
}

// guideTitles returns the titles of all pages of docs by name.
func guideTitles() (map[string]string, error) {
	titles := map[string]string{}
	for _, group := range guideOrder {
		for _, name := range group.names {
			source, err := fs.ReadFile(docs.Guides, name+".md")
			if err != nil {
				return nil, fmt.Errorf("read the guide %s: %w", name, err)
			}
			first, _, _ := bytes.Cut(source, []byte("\n"))
			titles[name] = string(bytes.TrimPrefix(first, []byte("# ")))
		}
	}
	return titles, nil
}

// firstSentence returns a text up to its first full stop or colon, with a full stop.
func firstSentence(text string) string {
	if at := sentenceEnd.FindStringIndex(text); at != nil {
		return strings.TrimRight(text[:at[1]], ":. ") + "."
	}
	return text
}

var sentenceEnd = regexp.MustCompile(`[.:](\s|$)`)

var spaces = regexp.MustCompile(`\s+`)

// plainText returns the words of a node without markup.
func plainText(n ast.Node, source []byte) string {
	var b strings.Builder
	ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) { // the walk never fails
		if !entering {
			if n.Type() == ast.TypeBlock {
				b.WriteByte(' ')
			}
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Text:
			b.Write(n.Value(source))
			if n.SoftLineBreak() || n.HardLineBreak() {
				b.WriteByte(' ')
			}
		case *ast.CodeBlock, *ast.FencedCodeBlock:
			lines := n.Lines()
			for i := range lines.Len() {
				part := lines.At(i)
				b.Write(part.Value(source))
			}
		}
		return ast.WalkContinue, nil
	})
	return strings.TrimSpace(spaces.ReplaceAllString(b.String(), " "))
}

// guidesPolicy allows the search form in addition to the policy of other pages.
var guidesPolicy = strings.Replace(pagePolicy(""), "form-action 'none'", "form-action 'self'", 1)

// guideList serves the list of guides, or the results of a search for ?q=.
func (s *Site) guideList(w http.ResponseWriter, r *http.Request) {
	all, err := s.guides()
	if err != nil {
		s.refuse(w, guidesFailed())
		return
	}
	f := all.index
	if r.URL.Query().Has("q") {
		q := strings.ToValidUTF8(r.URL.Query().Get("q"), "")
		if len(q) > maxQuery {
			q = strings.ToValidUTF8(q[:maxQuery], "")
		}
		api, err := s.reference()
		if err != nil {
			s.refuse(w, guidesFailed())
			return
		}
		page := guidePage{Groups: all.groups, Asked: true, Query: q, Found: all.search(q), Calls: api.search(q)}
		if f, err = s.render("guides", pageData{Title: "Search · Stoa", Here: "guides", Page: page}); err != nil {
			s.refuse(w, guidesFailed())
			return
		}
	}
	guard(w, guidesPolicy)
	f.serve(w, r, revalidate)
}

func (s *Site) guide(w http.ResponseWriter, r *http.Request) {
	all, err := s.guides()
	if err != nil {
		s.refuse(w, guidesFailed())
		return
	}
	one := all.byName[strings.TrimSuffix(r.PathValue("guide"), ".md")]
	if one == nil {
		s.notFound(w, r)
		return
	}
	guard(w, guidesPolicy)
	one.file.serve(w, r, revalidate)
}
