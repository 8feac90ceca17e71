// Package shape compares the replies of a fake with recorded replies of the real program that it replaces: the
// status, the headers, and of bodies the members, their types and their order, but not their values. It reads
// JSON, server-sent events and replies of SMTP.
//
// Recordings are in the testdata of the fakes; .ci/record makes them again. Start with [Recording].
package shape

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// A Reply is the reply to one request. Its text has the status, headers, an empty line and the body; or the
// lines of SMTP.
type Reply struct{ Name, Text string }

// shape is the shape of a reply: the type of each path, and the paths in order.
type shape struct {
	kinds map[string]string
	order []string
}

func (s *shape) add(path, kind string) {
	if _, found := s.kinds[path]; !found {
		s.order = append(s.order, path)
	}
	s.kinds[path] = kind
}

var (
	httpStatus = regexp.MustCompile(`^\d{3}\n`)
	smtpLine   = regexp.MustCompile(`^(\d{3})[- ](\d\.\d+\.\d+ )?(.*)$`)
)

// of returns the shape of a reply.
func of(r Reply) *shape {
	s := &shape{kinds: map[string]string{}}
	if !httpStatus.MatchString(r.Text) {
		s.smtp(r)
		return s
	}
	head, body, _ := strings.Cut(r.Text, "\n\n")
	lines := strings.Split(strings.TrimSpace(head), "\n")
	s.add("status", lines[0])
	for _, line := range lines[1:] {
		name, value, _ := strings.Cut(line, ": ")
		switch name {
		case "Content-Type", "Cache-Control":
		case "Location":
			value = parameters(value)
		default:
			value = "present"
		}
		s.add(name, value)
	}
	switch {
	case strings.TrimSpace(body) == "":
	case strings.HasPrefix(s.kinds["Content-Type"], "text/event-stream"):
		s.events(body)
	default:
		s.walk("", []any{decode(body)})
	}
	return s
}

// parameters returns the names of the parameters of an address, in order.
func parameters(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "invalid"
	}
	var names []string
	for pair := range strings.SplitSeq(u.RawQuery, "&") {
		name, _, _ := strings.Cut(pair, "=")
		names = append(names, name)
	}
	return "?" + strings.Join(names, "&")
}

// smtp adds the lines of an SMTP reply: their codes, and the extensions of the reply to EHLO.
func (s *shape) smtp(r Reply) {
	for i, line := range strings.Split(strings.TrimSpace(r.Text), "\n") {
		m := smtpLine.FindStringSubmatch(line)
		switch {
		case m == nil:
			s.add(fmt.Sprint("line ", i), "invalid: "+line)
		case i > 0 && strings.HasPrefix(r.Name, "EHLO"):
			words := strings.Fields(m[3])
			s.add(words[0], m[1])
			if words[0] == "AUTH" {
				s.add("AUTH", strings.Join(words[1:], " "))
			}
		default:
			s.add(fmt.Sprint("line ", i), strings.TrimSpace(m[1]+" "+m[2]))
		}
	}
}

// events adds the events of a stream. Those of one name are united, and their sequence is compared without
// repetitions and without pings, which come at any place.
func (s *shape) events(body string) {
	var sequence []string
	data := map[string][]any{}
	for block := range strings.SplitSeq(strings.ReplaceAll(body, "\r\n", "\n"), "\n\n") {
		var fields []string
		name, value := "", any(nil)
		for line := range strings.SplitSeq(strings.Trim(block, "\n"), "\n") {
			field, text, _ := strings.Cut(line, ":")
			switch fields = append(fields, field); {
			case field == "event":
				name = strings.TrimSpace(text)
			case field == "data":
				value = decode(text)
			}
		}
		if strings.Trim(block, "\n") == "" {
			continue
		}
		if _, isText := value.(string); isText || value == nil { // an empty one, [DONE]
			name = strings.TrimSpace(name + " without JSON")
		}
		ping := name == "ping"
		if name += "(" + strings.Join(fields, " ") + ")"; !ping && (len(sequence) == 0 || sequence[len(sequence)-1] != name) {
			sequence = append(sequence, name)
		}
		data[name] = append(data[name], value)
	}
	s.add("events", strings.Join(sequence, ", "))
	for _, name := range slices.Sorted(maps.Keys(data)) {
		s.walk(name, data[name])
	}
}

// An object keeps the order of its members, which a map does not.
type object []member

type member struct {
	name  string
	value any
}

func (o object) MarshalJSON() ([]byte, error) {
	out := []byte{'{'}
	for i, m := range o {
		value, err := json.Marshal(m.value)
		if err != nil {
			return nil, err
		}
		out = fmt.Appendf(out, "%.*s%q:%s", min(i, 1), ",", m.name, value)
	}
	return append(out, '}'), nil
}

// decode returns a JSON value; nil for an empty text, and other texts as they are.
func decode(text string) any {
	text = strings.TrimSpace(text)
	if text == "" {
		return nil
	}
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	v, err := decodeValue(d)
	if err != nil {
		return text
	}
	return v
}

func decodeValue(d *json.Decoder) (any, error) {
	t, err := d.Token()
	if err != nil || t != json.Delim('{') && t != json.Delim('[') {
		return t, err
	}
	members, array := object{}, []any{}
	for d.More() {
		var m member
		if t == json.Delim('{') {
			name, err := d.Token()
			if err != nil {
				return nil, err
			}
			m.name = name.(string) // the decoder accepts nothing else
		}
		if m.value, err = decodeValue(d); err != nil {
			return nil, err
		}
		members, array = append(members, m), append(array, m.value)
	}
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	if t == json.Delim('{') {
		return members, nil
	}
	return array, nil
}

// walk adds the values at a path: the union of the types of all, and the union of their members or elements.
// A member that some objects lack has the type absent as well.
func (s *shape) walk(path string, values []any) {
	kinds := map[string]bool{}
	var objects int
	var elements []any
	var names []string
	members := map[string][]any{}
	for _, v := range values {
		switch v := v.(type) {
		case nil:
			kinds["null"] = true
		case bool:
			kinds["bool"] = true
		case string:
			kinds["string"] = true
		case json.Number:
			kinds["number"] = true
		case []any:
			kinds["array"] = true
			elements = append(elements, v...)
		case object:
			kinds["object"] = true
			objects++
			for _, m := range v {
				if !slices.Contains(names, m.name) {
					names = append(names, m.name)
				}
				members[m.name] = append(members[m.name], m.value)
			}
		}
	}
	s.add(path, strings.Join(slices.Sorted(maps.Keys(kinds)), " "))
	for _, name := range names {
		at := path + "." + name
		s.walk(at, members[name])
		if len(members[name]) < objects {
			s.kinds[at] += " absent"
		}
	}
	if len(elements) > 0 {
		s.walk(path+"[]", elements)
	}
}

// inside reports whether a path is below another.
func inside(path, of string) bool {
	return strings.HasPrefix(path, of+".") || strings.HasPrefix(path, of+"[")
}

// diff returns the differences between a real reply and that of a fake.
func diff(name string, real, fake *shape) (all []string) {
	say := func(format string, args ...any) { all = append(all, name+": "+fmt.Sprintf(format, args...)) }
	var common [2][]string
	without := "\n" // the last member that one of them lacks, whose members are not reported as well
	for _, path := range real.order {
		if inside(path, without) {
			continue
		}
		switch want, got := real.kinds[path], fake.kinds[path]; {
		case !slices.Contains(fake.order, path):
			say("%s (%s) is missing", path, want)
			without = path
		case want != got:
			say("%s is %s, not %s", path, got, want)
			fallthrough
		default:
			common[0] = append(common[0], path)
		}
	}
	for _, path := range fake.order {
		switch {
		case slices.Contains(real.order, path):
			common[1] = append(common[1], path)
		case !inside(path, without):
			say("%s (%s) is not in the real reply", path, fake.kinds[path])
			without = path
		}
	}
	for i, path := range common[0] {
		if common[1][i] != path {
			say("%s comes where the real reply has %s", common[1][i], path)
			break
		}
	}
	return all
}

// Differences returns the differences between real replies and those of a fake. A fake may have several replies to
// one request, where real ones differ.
func Differences(real, fake []Reply) (all []string) {
	find := func(list []Reply, name string) int {
		return slices.IndexFunc(list, func(r Reply) bool { return r.Name == name })
	}
	for _, r := range real {
		if find(fake, r.Name) < 0 {
			all = append(all, r.Name+": no reply of the fake")
		}
	}
	for _, f := range fake {
		if at := find(real, f.Name); at < 0 {
			all = append(all, f.Name+": no reply of the real program")
		} else {
			all = append(all, diff(f.Name, of(real[at]), of(f))...)
		}
	}
	return all
}

// Members returns the members of a recorded JSON object. Objects in them keep their order.
func Members(recorded []byte) map[string]any {
	all := map[string]any{}
	for _, m := range decode(string(recorded)).(object) {
		all[m.name] = m.value
	}
	return all
}

// Order returns an object with the members in the order of a recorded one. Others follow, by name.
func Order(recorded []byte, members map[string]any) json.RawMessage {
	var ordered object
	others := maps.Clone(members)
	for _, m := range decode(string(recorded)).(object) {
		if value, found := others[m.name]; found {
			ordered = append(ordered, member{m.name, value})
			delete(others, m.name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(others)) {
		ordered = append(ordered, member{name, others[name]})
	}
	out, err := ordered.MarshalJSON()
	if err != nil {
		panic(err) // the values of fakes can be encoded
	}
	return out
}
