package responses

import (
	"bytes"
	"cmp"
	"errors"
	"slices"
	"strconv"
	"strings"

	"stoa/internal/base/jsonx"
	"stoa/internal/base/stoa"
)

// A place locates an object of a client's request: its members are at path, except those in other, which have paths of
// their own.
type place struct {
	path  string
	other map[string]string
}

// at returns the path of a member.
func (l place) at(name string) string {
	if path, ok := l.other[name]; ok {
		return path
	}
	return l.path + "." + name
}

// A translation is what is known of a request of another format while it is read.
type translation struct {
	err    error   // the first one; see [parser.fail]
	unused ignored // members that were not read; see [object.done]
	items  int     // of the input
	snake  bool    // names of members may be written in snake_case; see [object.camel]
}

// parseOther parses a request of another format, whose reply has the format that m creates. read
// reads its members.
func parseOther(body []byte, o Options, m formatMaker, read func(*parser, object)) (*Request, error) {
	o.translated = true
	p := newParser(o)
	p.translation = &translation{}
	top := p.read(body, "")
	if p.err != nil {
		return Parse(body, o) // which finds the same error and says where it is
	}
	p.req.format, p.req.names = m, map[string]string{}
	if read(p, top); p.err != nil {
		return nil, p.err
	}
	top.done()
	for _, path := range p.unused.paths {
		p.req.ignored.add(path)
	}
	return p.finish()
}

// own renames the part of the call that an error is about, because the client knows it by another
// name.
func (r *Request) own(err error) error {
	e, ok := errors.AsType[*stoa.Error](err)
	if !ok || r.names[e.Param] == "" {
		return err
	}
	same := *e
	same.Param = r.names[e.Param]
	same.Message = strings.ReplaceAll(e.Message, strconv.Quote(e.Param), strconv.Quote(same.Param))
	if strings.Contains(e.Param, "_") { // not a word of a sentence
		same.Message = strings.ReplaceAll(same.Message, " "+e.Param+" ", " "+same.Param+" ")
	}
	return &same
}

// fail keeps the first error of a request of another format, so that the functions which read such a
// request need not return errors. What they read afterwards has no effect.
func (p *parser) fail(err error) {
	if p.err == nil {
		p.err = err
	}
}

// object contains the members of a JSON object of another format that are not null, in their order.
// They alias the body, which must not be changed.
type object struct {
	p       *parser
	path    string // empty for the body
	value   jsonx.Value
	members []member
}

type member struct {
	name    string
	written string // the name as the client wrote it
	value   jsonx.Value
	read    bool
}

func (p *parser) read(v jsonx.Value, path string) object {
	o := object{p: p, path: path, value: v}
	if v.Kind() != '{' {
		p.fail(wrongType(path, "an object"))
		return o
	}
	p.fail(p.within(v, func() error {
		err := p.object(path, func(name string) error {
			v, err := p.dec.ReadValue()
			if err != nil {
				return badJSON(err)
			}
			if v.Kind() != 'n' {
				o.members = append(o.members, member{name: name, written: name, value: v})
			}
			return nil
		})
		if err == nil && path == "" {
			err = p.end()
		}
		return err
	}))
	if p.snake {
		o.camel()
	}
	return o
}

func (o object) find(name string) *member {
	for i := range o.members {
		if o.members[i].name == name {
			return &o.members[i]
		}
	}
	return nil
}

func (o object) get(name string) jsonx.Value {
	m := o.find(name)
	if m == nil {
		return nil
	}
	m.read = true
	return m.value
}

func (o object) at(name string) string {
	if m := o.find(name); m != nil {
		name = m.written
	}
	return o.join(name)
}

func (o object) join(written string) string {
	if o.path == "" {
		return written
	}
	return o.path + "." + written
}

// word reads a string member; empty if none exists.
func (o object) word(name string) string {
	s, ok := o.maybe(name)
	if !ok {
		o.p.fail(wrongType(o.at(name), "a string"))
	}
	return s
}

// maybe is word for a member that can be anything, and reports whether it is a string or absent.
func (o object) maybe(name string) (s string, ok bool) {
	v := o.get(name)
	ok = v == nil || jsonx.Unmarshal(v, &s) == nil
	return s, ok
}

func (o object) inner(name string) (in object, has bool) {
	if v := o.get(name); v != nil {
		return o.p.read(v, o.at(name)), true
	}
	return object{p: o.p, path: o.at(name)}, false
}

func (o object) list(name string) (list []jsonx.Value) {
	v, p := o.get(name), o.p
	switch {
	case v == nil:
	case v.Kind() != '[':
		p.fail(wrongType(o.at(name), "an array"))
	default:
		p.fail(p.within(v, func() error {
			return p.array(o.at(name), maxItems, func(int) error {
				v, err := p.dec.ReadValue()
				list = append(list, v)
				return err
			})
		}))
	}
	return list
}

func (o object) each(name string, do func(object)) {
	path := o.at(name)
	for i, v := range o.list(name) {
		in := o.p.read(v, at(path, i))
		if o.p.err != nil {
			return
		}
		do(in)
	}
}

// take parses the named members of o, if it has them. parse receives the name in the Responses format,
// which follows a ">" if it differs, and the client's path.
func (o object) take(parse func(name, path string) error, names ...string) {
	for _, name := range names {
		name, as, _ := strings.Cut(name, ">")
		if v := o.get(name); v != nil && o.p.err == nil {
			o.p.fail(o.p.within(v, func() error { return parse(cmp.Or(as, name), o.at(name)) }))
		}
	}
}

// accept reads a member whose value is one of the words, which have no effect.
func (o object) accept(name string, words ...string) {
	if m := o.find(name); m != nil && slices.Contains(words, strings.Trim(string(m.value), `"`)) {
		m.read = true
	}
}

// done records the members that were not read. It skips the echoes, because they are not requests of
// the client.
func (o object) done(echoes ...string) {
	for _, m := range o.members {
		if !m.read && !slices.Contains(echoes, m.name) {
			o.p.unused.add(o.join(memberName(m.written)))
		}
	}
}

type refusal struct{ name, advice string }

func (o object) refuse(list ...refusal) {
	for _, r := range list {
		if o.find(r.name) != nil {
			o.p.fail(unsupported(o.at(r.name), r.advice))
		}
	}
}

func (o object) parts(name string, read func(object) stoa.Part) (parts []stoa.Part) {
	if o.get(name).Kind() == '[' {
		o.each(name, func(in object) { parts = o.p.with(parts, read(in)) })
		return parts
	}
	o.take(func(_, path string) (err error) {
		var refused error
		parts, refused, err = o.p.content(path)
		return cmp.Or(err, refused)
	}, name)
	return parts
}

func (o object) part() (part stoa.Part) {
	o.p.fail(o.p.within(o.value, func() (err error) {
		var refused error
		part, refused, err = o.p.part(o.path)
		return cmp.Or(err, refused)
	}))
	return part
}

func (o object) text() stoa.Part {
	part := stoa.Part{Kind: stoa.PartText}
	if o.find("text") == nil {
		o.p.fail(stoa.Errorf(stoa.CodeMissingParameter, "The part has no \"text\".").At(o.at("text")))
	}
	o.take(func(_, path string) (err error) { part.Text, err = o.p.text(path); return err }, "text")
	return part
}

func (o object) mark(part *stoa.Part) {
	o.take(func(_, path string) (err error) { part.Mark, err = o.p.mark(path); return err }, "cache_control")
}

func (o object) output(it *inputItem, name string, read func(object) stoa.Part) {
	if o.get(name).Kind() != '[' {
		o.take(func(_, path string) error { return o.p.output(it.tool, path) }, name)
		return
	}
	before := len(o.p.req.media)
	o.p.setOutput(it.tool, o.parts(name, read), before)
}

func (p *parser) add(it *inputItem) {
	switch p.items++; {
	case p.err != nil:
	case p.items > maxItems:
		p.fail(tooMany(p.req.names["input"], maxItems))
	default:
		p.fail(p.addItem(it))
	}
}

func (p *parser) say(path, role string, parts []stoa.Part) {
	p.add(&inputItem{place: place{path: path}, kind: "message", role: role, parts: parts, hasContent: true})
}

func (p *parser) sayText(path, role, text string) {
	p.fail(checkText(text, path, 0))
	p.say(path, role, p.one(stoa.Part{Kind: stoa.PartText, Text: text}))
}

func (p *parser) mediumOf(l place, kind string, m *mediaMembers) stoa.Part {
	part, err := p.medium(l, kind, m)
	p.fail(err)
	return part
}

// sealed adds sealed reasoning of this service. That of other services is left out.
func (p *parser) sealed(text, path string) {
	if !strings.HasPrefix(text, stoa.SealedPrefix) {
		return
	}
	it := &inputItem{place: place{path, map[string]string{"encrypted_content": path}}, kind: "reasoning", tool: &toolItem{sealed: text}}
	if err := checkText(text, path, maxSealed); err != nil {
		it.tool.bad = map[string]error{"encrypted_content": err}
	}
	p.add(it)
}

func wrongType(path, what string) error {
	return stoa.Errorf(stoa.CodeInvalidType, "%s must be %s.", stoa.Subject(path), what).At(path)
}

func missing(path, advice string) error {
	return stoa.Errorf(stoa.CodeMissingParameter, "%s is missing. %s", stoa.Subject(path), advice).At(path)
}

// arguments returns the arguments of a call: a member that must be an object, without white space.
func (o object) arguments(name string) string {
	switch v := o.get(name); {
	case v == nil:
		return "{}"
	case v.Kind() != '{':
		o.p.fail(wrongType(o.at(name), "an object"))
		return ""
	default:
		return compacted(v)
	}
}

func compacted(v jsonx.Value) string {
	v = v.Clone() // because Compact changes it
	_ = v.Compact()
	return string(v)
}

func isEmpty(v jsonx.Value, kinds ...jsonx.Kind) bool {
	return slices.Contains(kinds, v.Kind()) && len(bytes.TrimSpace(v[1:len(v)-1])) == 0
}

func isOne(v jsonx.Value) bool {
	f, err := strconv.ParseFloat(string(v), 64)
	return err == nil && f == 1
}
