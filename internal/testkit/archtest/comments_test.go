package archtest

import (
	"go/ast"
	"go/token"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// docLink is a name in brackets: of a declaration, of a member of a type, or either with a
// package before it, with an optional star before that. Upper case alone is text, such as the
// end marker of a stream.
var docLink = regexp.MustCompile(`\[\*?(?:([a-z][a-z0-9]*)\.)?([A-Z]\w*[a-z]\w*|[a-z]\w*[A-Z]\w*)(?:\.(\w+))?\]`)

// TestCommentsNameWhatExists checks every name in brackets in the comments
// against the declarations of its package.
func TestCommentsNameWhatExists(t *testing.T) {
	t.Parallel()
	declared := declarations(t)
	for _, s := range sources(t) {
		if !s.own {
			continue
		}
		for _, c := range s.file.Comments {
			for _, m := range docLink.FindAllStringSubmatch(c.Text(), -1) {
				names := declared[s.dir+"/"+s.pkg]
				if m[1] != "" {
					if names = declared["internal/"+m[1]]; names == nil {
						continue // the standard library's, or a third party's
					}
				}
				name := m[2]
				if m[3] != "" {
					name += "." + m[3]
				}
				if !names[name] {
					t.Errorf("%s: the comment names %s, which is not declared", s.at(c), m[0])
				}
			}
		}
	}
}

// declarations returns the declarations of each package directory: names, and members of
// types as Type.Member.
func declarations(t *testing.T) map[string]map[string]bool {
	t.Helper()
	declared := map[string]map[string]bool{}
	for _, s := range sources(t) {
		dir := s.dir + "/" + s.pkg
		if declared[dir] == nil {
			declared[dir] = map[string]bool{}
		}
		declare(declared[dir], s.file)
	}
	return declared
}

// declare adds the top-level declarations of a file.
func declare(names map[string]bool, f *ast.File) {
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil {
				names[d.Name.Name] = true
			} else {
				names[receiver(d)+"."+d.Name.Name] = true
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch spec := spec.(type) {
				case *ast.ValueSpec:
					for _, n := range spec.Names {
						names[n.Name] = true
					}
				case *ast.TypeSpec:
					names[spec.Name.Name] = true
					ast.Inspect(spec.Type, func(n ast.Node) bool {
						field, ok := n.(*ast.Field)
						if !ok {
							return true
						}
						for _, n := range field.Names {
							names[spec.Name.Name+"."+n.Name] = true
						}
						return true
					})
				}
			}
		}
	}
}

// receiver returns the name of a method's type.
func receiver(d *ast.FuncDecl) string {
	x := d.Recv.List[0].Type
	for {
		switch y := x.(type) {
		case *ast.StarExpr:
			x = y.X
		case *ast.IndexExpr:
			x = y.X
		case *ast.IndexListExpr:
			x = y.X
		case *ast.Ident:
			return y.Name
		default:
			return ""
		}
	}
}

// identifier matches a first word that can only be the name of something in code.
var identifier = regexp.MustCompile(`^(?:[a-z]+[A-Z]\w*|[A-Z][a-z]+[A-Z]\w*)$`)

// TestDocCommentsStartWithTheName checks that a doc comment that starts with an identifier
// starts with that of its own declaration, which a renaming or a move can break.
func TestDocCommentsStartWithTheName(t *testing.T) {
	t.Parallel()
	for _, s := range sources(t) {
		if !s.own {
			continue
		}
		check := func(doc *ast.CommentGroup, names ...*ast.Ident) {
			first, _, _ := strings.Cut(strings.TrimSpace(doc.Text()), " ")
			first = strings.TrimRight(first, ",:.")
			if doc == nil || !identifier.MatchString(first) {
				return
			}
			for _, n := range names {
				if n.Name == first {
					return
				}
			}
			t.Errorf("%s: the comment of %s starts with %s", s.at(doc), names[0].Name, first)
		}
		for _, d := range s.file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				check(d.Doc, d.Name)
			case *ast.GenDecl:
				if d.Tok == token.IMPORT {
					continue
				}
				var all []*ast.Ident
				for _, spec := range d.Specs {
					switch spec := spec.(type) {
					case *ast.TypeSpec:
						check(spec.Doc, spec.Name)
						all = append(all, spec.Name)
					case *ast.ValueSpec:
						check(spec.Doc, spec.Names...)
						all = append(all, spec.Names...)
					}
				}
				check(d.Doc, all...)
			}
		}
	}
}

// commands matches the make targets and paths that a page asks readers to run.
var (
	makeTarget = regexp.MustCompile("(?:^|`)\\s*make ([a-z]+)")
	testFlag   = regexp.MustCompile("STOA_[A-Z_]+")
)

// TestContributingNamesWhatExists checks the make targets and variables of
// CONTRIBUTING.md.
func TestContributingNamesWhatExists(t *testing.T) {
	t.Parallel()
	text := pages(t)["CONTRIBUTING.md"]
	makefile := read(t, "Makefile")
	targets := 0
	for line := range strings.Lines(text) {
		for _, m := range makeTarget.FindAllStringSubmatch(line, -1) {
			targets++
			if !strings.Contains(makefile, "\n"+m[1]+":") {
				t.Errorf("CONTRIBUTING.md says make %s, which the Makefile does not have", m[1])
			}
		}
	}
	if targets < 3 {
		t.Errorf("only %d make targets found in CONTRIBUTING.md: the test reads it wrongly", targets)
	}
	used := strings.Builder{}
	for _, s := range sources(t) {
		if !strings.HasPrefix(s.path, "internal/testkit/archtest/") {
			used.WriteString(s.text)
		}
	}
	for _, name := range testFlag.FindAllString(text, -1) {
		if !strings.Contains(used.String(), strconv.Quote(name)) {
			t.Errorf("CONTRIBUTING.md names the variable %s, which no code reads", name)
		}
	}
}
