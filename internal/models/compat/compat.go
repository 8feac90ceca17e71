// Package compat lets clients of three more formats call models: OpenAI's chat completions,
// Anthropic's Messages and Gemini's generateContent. It translates a request into one of the Responses format, which
// package responses parses and checks like any other, and writes the reply in the client's
// format.
//
// It is pure: bytes in, bytes out. It only checks the values that it has to decompose: an
// error of the parser about the translated request is translated back with
// [Translation.Error].
//
// Start at [Chat], [Messages] and [Gemini]. See
// docs/decisions/0044-translate-other-formats-into-responses-requests.md.
package compat

import (
	"bytes"
	"errors"
	"slices"
	"sort"
	"strconv"
	"strings"

	"stoa/internal/base/jsonx"
	"stoa/internal/base/stoa"
)

// A Translation is a request of another format in the Responses format.
type Translation struct {
	Body []byte // a JSON object in the Responses format
	// IncludeUsage, for chat completions, ends a stream with a chunk that contains the usage.
	IncludeUsage bool
	// Ignored are the paths of members of the client's request that have no effect and are
	// not in Body.
	Ignored []string

	renames []rename // ordered by from
}

// A rename records the source of a part of the translated request.
type rename struct{ from, to string }

// Error converts an error of the translated request into an error of the client's request: it
// names the client's member. For nil it returns nil.
func (t *Translation) Error(err error) error {
	if t == nil {
		return err
	}
	e, ok := errors.AsType[*stoa.Error](err)
	if !ok || e.Param == "" {
		return err
	}
	to := t.Source(e.Param)
	if to == e.Param {
		return err
	}
	same := *e
	same.Message = strings.ReplaceAll(e.Message, strconv.Quote(e.Param), strconv.Quote(to))
	if strings.Contains(e.Param, "_") { // not a word of a sentence
		same.Message = strings.ReplaceAll(same.Message, " "+e.Param+" ", " "+to+" ")
	}
	same.Param = to
	return &same
}

// Source returns the path of the client's member that became the one at path: the source of
// the longest renamed prefix, followed by the rest. For nil it returns path.
func (t *Translation) Source(path string) string {
	if t == nil {
		return path
	}
	for end := len(path); end > 0; end = strings.LastIndexAny(path[:end], ".[") {
		prefix := path[:end]
		at := sort.Search(len(t.renames), func(i int) bool { return t.renames[i].from >= prefix })
		if at < len(t.renames) && t.renames[at].from == prefix {
			return t.renames[at].to + path[end:]
		}
	}
	return path
}

// maxMembers limits the members of a decomposed object, maxElements the elements of an array;
// package responses has its own, lower limits.
const (
	maxMembers  = 1_000
	maxElements = 10_000
)

// A translator writes a request of the Responses format.
type translator struct {
	out          []byte
	items        int // of input
	renames      []rename
	includeUsage bool     // [Translation.IncludeUsage]
	ignored      []string // [Translation.Ignored]
}

// translate decomposes a body and calls write for its members, up to and including the open
// array input. A body that is not a JSON object is passed on unchanged.
func translate(body []byte, write func(*translator, object) error) (*Translation, error) {
	if v := jsonx.Value(body); !jsonx.Valid(body) || v.Kind() != '{' {
		return &Translation{Body: body}, nil
	}
	o, err := readObject(body, "")
	if err != nil {
		return nil, err
	}
	t := &translator{out: make([]byte, 0, len(body)+len(body)/8+256)}
	t.raw("{")
	if err := write(t, o); err != nil {
		return nil, err
	}
	t.done(o)
	sort.SliceStable(t.renames, func(i, j int) bool { return t.renames[i].from < t.renames[j].from })
	return &Translation{Body: append(t.out, ']', '}'), IncludeUsage: t.includeUsage, Ignored: t.ignored, renames: t.renames}, nil
}

// openInput begins the array input and returns the messages that become its items.
func (t *translator) openInput(o object) ([]jsonx.Value, error) {
	v := o.get("messages")
	if v == nil {
		return nil, missing("messages", "Send at least one message.")
	}
	list, err := readArray(v, "messages")
	t.key("input").raw("[")
	t.from("input", "messages")
	return list, err
}

// from records that the member at path came from the client's member at source.
func (t *translator) from(path, source string) {
	t.renames = append(t.renames, rename{path, source})
}

// MemberName returns the name of an unknown member for a list that is stored. Texts of callers
// are not stored, so a name that is not an identifier is only a *.
func MemberName(name string) string {
	if !stoa.IsName(name) {
		return "*"
	}
	return name
}

// maxIgnored is the maximum number of paths in [Translation.Ignored].
const maxIgnored = 64

// done records the members of an object that were not read. Those of the given names are not
// requests of the client.
func (t *translator) done(o object, echoes ...string) {
	for _, name := range o.order {
		if !o.read[name] && !slices.Contains(echoes, name) && len(t.ignored) < maxIgnored {
			t.ignored = append(t.ignored, o.at(MemberName(name)))
		}
	}
}

// key begins a member of the object that was written last.
func (t *translator) key(name string) *translator {
	if last := t.out[len(t.out)-1]; last != '{' && last != '[' {
		t.out = append(t.out, ',')
	}
	t.out = append(append(append(t.out, '"'), name...), '"', ':')
	return t
}

func (t *translator) raw(v string) *translator {
	t.out = append(t.out, v...)
	return t
}

func (t *translator) value(v jsonx.Value) *translator {
	t.out = append(t.out, v...)
	return t
}

func (t *translator) text(s string) *translator {
	t.out = jsonx.AppendString(t.out, s)
	return t
}

// element begins an element of the array that was written last.
func (t *translator) element() *translator {
	if t.out[len(t.out)-1] != '[' {
		t.out = append(t.out, ',')
	}
	return t
}

// copy writes those of the named members that the object has.
func (t *translator) copy(o object, names ...string) {
	for _, name := range names {
		if v := o.get(name); v != nil {
			t.key(name).value(v)
		}
	}
}

// copyTo is [translator.copy] into an object whose path differs from the client's.
func (t *translator) copyTo(path string, o object, names ...string) {
	t.copy(o, names...)
	for _, name := range names {
		t.from(join(path, name), o.at(name))
	}
}

// move writes a member, if the object has it, under another name into the object at
// path.
func (t *translator) move(path, as string, o object, name string) {
	if v := o.get(name); v != nil {
		t.key(as).value(v)
	}
	t.from(join(path, as), o.at(name))
}

// item begins an element of input and returns its path.
func (t *translator) item(source string) string {
	path := "input[" + strconv.Itoa(t.items) + "]"
	t.items++
	t.from(path, source)
	t.element().raw("{")
	return path
}

// object contains the members of a JSON object that are not null. They alias the body, which
// must not be changed.
type object struct {
	path    string // empty for the body
	value   jsonx.Value
	members map[string]jsonx.Value
	order   []string          // names of the members
	read    map[string]bool   // names of those that were read
	written map[string]string // names as the client wrote them, where they were changed
}

// get returns a member; nil if none exists or if it is null.
func (o object) get(name string) jsonx.Value {
	v, ok := o.members[name]
	if ok {
		o.read[name] = true
	}
	return v
}

// at returns the path of a member.
func (o object) at(name string) string {
	if as := o.written[name]; as != "" {
		name = as
	}
	return join(o.path, name)
}

// readObject decomposes an object.
func readObject(v jsonx.Value, path string) (object, error) {
	o := object{path: path, value: v}
	if v.Kind() != '{' {
		return o, wrongType(path, "an object")
	}
	o.members, o.read = map[string]jsonx.Value{}, map[string]bool{}
	d := jsonx.NewDecoder(v)
	if _, err := d.ReadToken(); err != nil {
		return o, notJSON(err)
	}
	for d.PeekKind() != '}' {
		name, err := d.ReadToken()
		if err != nil {
			return o, notJSON(err)
		}
		key := name.String()
		value, err := d.ReadValue()
		if err != nil {
			return o, notJSON(err)
		}
		if len(o.members) == maxMembers {
			return o, stoa.Errorf(stoa.CodeInvalidValue, "%s has more than %d members.", stoa.Subject(path), maxMembers).At(path)
		}
		if value.Kind() != 'n' {
			o.members[key], o.order = value, append(o.order, key)
		}
	}
	return o, nil
}

// readArray decomposes an array.
func readArray(v jsonx.Value, path string) ([]jsonx.Value, error) {
	if v.Kind() != '[' {
		return nil, wrongType(path, "an array")
	}
	d := jsonx.NewDecoder(v)
	if _, err := d.ReadToken(); err != nil {
		return nil, notJSON(err)
	}
	var list []jsonx.Value
	for d.PeekKind() != ']' {
		value, err := d.ReadValue()
		if err != nil {
			return nil, notJSON(err)
		}
		if len(list) == maxElements {
			return nil, stoa.Errorf(stoa.CodeInvalidValue, "%q has more than %d elements.", path, maxElements).At(path)
		}
		list = append(list, value)
	}
	return list, nil
}

// each decomposes the objects of a list in turn.
func each(list []jsonx.Value, path string, do func(i int, o object) error) error {
	for i, v := range list {
		o, err := readObject(v, at(path, i))
		if err != nil {
			return err
		}
		if err := do(i, o); err != nil {
			return err
		}
	}
	return nil
}

// eachIn is [each] of an array.
func eachIn(v jsonx.Value, path string, do func(i int, o object) error) error {
	list, err := readArray(v, path)
	if err != nil {
		return err
	}
	return each(list, path, do)
}

// word reads a string member; empty if none exists.
func (o object) word(name string) (string, error) {
	v := o.get(name)
	if v == nil {
		return "", nil
	}
	return readText(v, o.at(name))
}

func readText(v jsonx.Value, path string) (string, error) {
	var s string
	if v.Kind() != '"' {
		return "", wrongType(path, "a string")
	}
	if err := jsonx.Unmarshal(v, &s); err != nil {
		return "", notJSON(err)
	}
	return s, nil
}

// A refusal is an unsupported member that would change a reply, with advice.
type refusal struct{ name, advice string }

// refuse returns an error for the first of the members that the object has.
func (o object) refuse(list ...refusal) error {
	for _, r := range list {
		if o.get(r.name) != nil {
			return stoa.Errorf(stoa.CodeUnsupported, "%s", r.advice).At(o.at(r.name))
		}
	}
	return nil
}

func wrongType(path, what string) error {
	return stoa.Errorf(stoa.CodeInvalidType, "%s must be %s.", stoa.Subject(path), what).At(path)
}

func missing(path, advice string) error {
	return stoa.Errorf(stoa.CodeMissingParameter, "%s is missing. %s", stoa.Subject(path), advice).At(path)
}

func notJSON(err error) error {
	return stoa.Errorf(stoa.CodeInvalidJSON, "The body is not valid JSON. Send one JSON object in UTF-8.").Because(err)
}

// join returns the path of a member of the object at path.
func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

func at(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

// isSealed reports whether v is sealed reasoning of this service. Other values come from
// another service and are left out.
func isSealed(v jsonx.Value) bool { return bytes.HasPrefix(v, []byte(`"`+stoa.SealedPrefix)) }

// sealed writes a reasoning item if v is sealed reasoning of this service.
func (t *translator) sealed(v jsonx.Value, source string) {
	if !isSealed(v) {
		return
	}
	path := t.item(source)
	t.from(path+".encrypted_content", source)
	t.key("type").raw(`"reasoning"`).key("summary").raw("[]").key("encrypted_content").value(v).raw("}")
}

// isEmpty reports whether v is an empty array or object of one of the kinds.
func isEmpty(v jsonx.Value, kinds ...jsonx.Kind) bool {
	return slices.Contains(kinds, v.Kind()) && len(bytes.TrimSpace(v[1:len(v)-1])) == 0
}

// isOne reports whether a number is 1.
func isOne(v jsonx.Value) bool {
	f, err := strconv.ParseFloat(string(v), 64)
	return err == nil && f == 1
}
