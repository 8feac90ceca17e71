package responses

import (
	"slices"
	"strings"

	"stoa/internal/base/stoa"
)

const maxIgnored = 16 // paths in a receipt

// ignored lists the paths of members of a request that have no effect. Of members that differ
// only in the elements of arrays, it contains the first.
type ignored struct {
	paths []string
	kinds []string // of the paths: without indexes
}

func (l *ignored) add(path string) {
	if len(l.paths) == maxIgnored {
		return
	}
	kind := withoutIndexes(path)
	if !slices.Contains(l.kinds, kind) {
		l.paths, l.kinds = append(l.paths, path), append(l.kinds, kind)
	}
}

// ignoredOn returns the paths of members that had no effect on a route, one per line.
func (r *Request) ignoredOn(route stoa.Route) string {
	l := ignored{slices.Clone(r.ignored.paths), slices.Clone(r.ignored.kinds)}
	for _, s := range r.settings {
		if !s.has(route) {
			l.add(s.path)
		}
	}
	return strings.Join(l.paths, "\n")
}

func withoutIndexes(path string) string {
	if !strings.Contains(path, "[") {
		return path
	}
	var b strings.Builder
	inside := false
	for _, r := range path {
		switch {
		case r == '[':
			inside = true
		case r == ']':
			inside = false
		case inside && '0' <= r && r <= '9':
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

func (p *parser) ignore(path, name string) error {
	p.ignoreAll(path, []string{name})
	return p.skip()
}

// memberName returns the name of an unknown member for a list that is stored. It returns * for a name
// that is not an identifier, because texts of callers must not be stored.
func memberName(name string) string {
	if !stoa.IsName(name) {
		return "*"
	}
	return name
}

// ignoreIf records the path of a known member that has no effect, if its value requests one.
func (p *parser) ignoreIf(yes bool, path string) {
	if yes && p.notes() {
		p.req.ignored.add(path)
	}
}

// notes reports whether ignored members are recorded: not without extensions.
func (p *parser) notes() bool { return p.opts.Tools || p.opts.translated }

func (p *parser) ignoreAll(path string, names []string) {
	if !p.notes() {
		return
	}
	for _, name := range names {
		name = memberName(name)
		if path != "" {
			name = path + "." + name
		}
		p.req.ignored.add(name)
	}
}
