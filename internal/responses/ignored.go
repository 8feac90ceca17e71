package responses

import (
	"slices"
	"strings"
)

// Limits of the list of ignored members.
const (
	maxIgnored     = 16
	maxIgnoredPath = 128 // bytes
)

// ignored lists the paths of members of a request that have no effect. Of members that differ
// only in the elements of arrays, it has the first.
type ignored struct {
	paths []string
	kinds []string // of the paths: without indexes
}

// add adds the path of a member, if there is space.
func (l *ignored) add(path string) {
	if len(l.paths) == maxIgnored {
		return
	}
	path = strings.Map(printable, path)
	if len(path) > maxIgnoredPath {
		path = strings.ToValidUTF8(path[:maxIgnoredPath], "") + "…"
	}
	kind := withoutIndexes(path)
	if !slices.Contains(l.kinds, kind) {
		l.paths, l.kinds = append(l.paths, path), append(l.kinds, kind)
	}
}

// printable replaces characters that a list of paths cannot contain.
func printable(r rune) rune {
	if r < ' ' {
		return '\uFFFD'
	}
	return r
}

// withoutIndexes returns a path without the numbers in its brackets.
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

// ignore skips the value of a member that has no effect, and records the member.
func (p *parser) ignore(path, name string) error {
	p.ignoreAll(path, []string{name})
	return p.skip()
}

// ignoreIf records a member of the body that has no effect, if its value would have one.
func (p *parser) ignoreIf(yes bool, name string) {
	if yes {
		p.ignoreAll("", []string{name})
	}
}

// ignoreAll records members of the object at path that have no effect. Without extensions
// there is no record.
func (p *parser) ignoreAll(path string, names []string) {
	if !p.opts.Tools && !p.opts.translated {
		return
	}
	for _, name := range names {
		if path != "" {
			name = path + "." + name
		}
		p.req.ignored.add(name)
	}
}
