package cli

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"stoa/internal/base/client"
	"stoa/internal/base/contract"
	"stoa/internal/base/jsonx"
)

// A verb is a command that makes one request. Its arguments and flags become the path
// and the body, or the query of a GET and a DELETE, and a view prints the reply. A
// command that does more is hand-written and gets its flags from [env.flags].
//
// The operation is written here, because reading it from the contract would take longer than the
// rest of a command. A test compares the operations, members and types with the contract.
type verb struct {
	use, short, long, example string
	suggest                   []string // alternative words

	op      string // method and path: a word in braces is the argument of that name
	fields  []field
	extra   []adder        // flags that a field cannot describe
	fixed   map[string]any // members that are sent unless a field sets them
	needs   []string       // members that must be set
	missing string         // the error if they are missing, or without needs if no member is set

	show  view                                   // of the object in the reply
	rows  view                                   // of a list in pages
	whole bool                                   // the list has no pages
	names map[string]string                      // members with ids, and the members with the names that replace them in a table
	none  string                                 // the hint for an empty list
	print func(o *output, raw jsonx.Value) error // replaces show
	plain bool                                   // without --json and --jq

	ask func(typed []string) string // the question before a DELETE of the last argument
	did string                      // printed for each deleted object; default: Deleted
	now string                      // printed after it, with the id for %s
}

const nothingChanges = "nothing to change; set at least one flag, see --help"

// opNote is the annotation of a command with its operation, so that a test can compare it with the contract.
const opNote = "stoa-operation"

type setter func(body map[string]any) error

type adder func(c *cobra.Command) setter

// A lookup is the value of a member that is read from the service before the request,
// such as the id of a name.
type lookup func(ctx context.Context, call *client.Client) (any, error)

func searchField(members string) field {
	return field{"search", "q", asText, "only those with this `text` in their " + members + ", ignoring case"}
}

// sortFields are the flags of a list that can be sorted; by are its values of --sort.
func sortFields(by string) []field {
	return []field{
		{"sort", "sort", asText, "sort by " + by + " (default created)"},
		{"order", "order", asText, "the `direction`: asc or desc (default: names from A to Z, otherwise newest or largest first)"},
	}
}

func (e *env) verbs(table ...verb) []*cobra.Command {
	commands := make([]*cobra.Command, len(table))
	for i, v := range table {
		commands[i] = e.verb(v)
	}
	return commands
}

func (e *env) verb(v verb) *cobra.Command {
	words := strings.Fields(v.use)[1:]
	c := command(v.use, v.short, v.long, v.example)
	c.SuggestFor, c.Annotations = v.suggest, map[string]string{opNote: v.op}
	o, most, yes := &output{e: e}, new(int), new(bool)
	if v.ask != nil {
		yes = c.Flags().BoolP("yes", "y", false, "do not ask for confirmation")
	} else if !v.plain {
		o = e.output(c)
	}
	isList := v.rows.columns != nil
	if isList {
		most = limit(c)
		o.addCSV(c)
		c.Flags().BoolVar(&o.wide, "wide", false, "show all columns of a table, and nothing cut")
		o.hasWide = true
	}
	setters := []setter{e.flags(c, v.fields...)}
	for _, add := range v.extra {
		setters = append(setters, add(c))
	}
	method, _, _ := strings.Cut(v.op, " ")
	c.RunE = func(c *cobra.Command, args []string) error {
		ctx := c.Context()
		body, err := v.body(e, words, args, setters)
		if err != nil {
			return err
		}
		call, err := e.ready(o)
		if err != nil {
			return err
		}
		ids := slices.Clone(args)
		if err := v.resolve(ctx, call, words, ids, false); err != nil {
			return err
		}
		if err := look(ctx, call, body); err != nil {
			return err
		}
		switch {
		case v.ask != nil:
			return v.remove(ctx, e, call, words, args, ids, parameters(body), *yes)
		case isList:
			rows := call.All(ctx, v.path(words, ids), parameters(body), rowsToFetch(*most))
			if v.whole {
				rows = call.Whole(ctx, v.path(words, ids))
			}
			if !o.raw() && isTerminal(e.out) {
				rows = named(v.names, rows)
			}
			return o.list(v.rows, rows, *most, v.none)
		}
		var query url.Values
		var sent any
		if method == http.MethodGet {
			query = parameters(body)
		} else if len(v.fields)+len(v.extra)+len(v.fixed) > 0 {
			sent = body
		}
		raw, err := call.JSON(ctx, method, v.path(words, ids), query, sent, nil)
		if err != nil {
			return err
		}
		if v.print != nil {
			return v.print(o, raw)
		}
		return o.object(v.show, raw)
	}
	return c
}

// body returns the members that the command line sets, with unresolved lookups.
func (v verb) body(e *env, words, args []string, setters []setter) (map[string]any, error) {
	body := map[string]any{}
	maps.Copy(body, v.fixed)
	for i, arg := range args {
		for _, fd := range v.fields {
			if fd.name != argument(words[min(i, len(words)-1)]) {
				continue
			}
			value, err := e.parse(fd.form, arg)
			if err != nil {
				return nil, err
			}
			if value == nil { // because an argument clears nothing
				value = arg
			}
			putMember(body, fd.member, value)
		}
	}
	for _, set := range setters {
		if err := set(body); err != nil {
			return nil, err
		}
	}
	absent := len(v.needs) == 0 && len(body) == 0
	for _, member := range v.needs {
		absent = absent || body[member] == nil
	}
	if absent && v.missing != "" {
		return nil, usagef("%s", v.missing)
	}
	return body, nil
}

func argument(word string) string { return strings.Trim(word, "[].") }

func (v verb) resolve(ctx context.Context, call *client.Client, words, args []string, repeated bool) (err error) {
	for i, arg := range args {
		word := words[min(i, len(words)-1)]
		p, named := collections[argument(word)]
		if !named || !strings.Contains(v.op, "{"+argument(word)+"}") || strings.HasSuffix(word, "...") != repeated {
			continue
		}
		if args[i], err = p.find(ctx, call, arg); err != nil {
			return err
		}
	}
	return nil
}

func (v verb) path(words, args []string) string {
	_, path, _ := strings.Cut(v.op, " ")
	for i, arg := range args[:min(len(args), len(words))] {
		path = strings.ReplaceAll(path, "{"+argument(words[i])+"}", url.PathEscape(arg))
	}
	return path
}

func (v verb) remove(ctx context.Context, e *env, call *client.Client, words, typed, ids []string, query url.Values, yes bool) error {
	last := len(words) - 1
	if err := v.resolve(ctx, call, words, ids, true); err != nil {
		return err
	}
	if !yes {
		shown := slices.Clone(typed[last:])
		for i, id := range ids[last:] {
			name, err := existing(ctx, call, v.path(words, append(ids[:last:last], id)))
			if err != nil {
				return err
			}
			if name != "" {
				shown[i] = strconv.Quote(name)
			}
		}
		question := v.ask(shown)
		if of := effectKinds[v.op]; of != "" && query.Get("revokeMade") != "false" && query.Get("keys") != "keep" {
			for _, id := range ids[last:][:min(len(ids)-last, maxEffectTexts)] {
				question += effects(ctx, call, of, id)
			}
		}
		if err := e.confirm(false, "%s", question); err != nil {
			return err
		}
	}
	for _, id := range ids[last:] {
		if _, err := call.JSON(ctx, http.MethodDelete, v.path(words, append(ids[:last:last], id)), query, nil, nil); err != nil {
			return err
		}
		if v.did == "" {
			v.did = "Deleted"
		}
		e.say("%s %s.", v.did, id)
		if v.now != "" {
			e.say(v.now, id)
		}
	}
	return nil
}

// effectKinds are the kinds of objects, as GET /effects names them, whose deletion says what it stops.
var effectKinds = map[string]string{
	"DELETE /keys/{KEY}": "key", "DELETE /api-agents/{AGENT}": "agent", "DELETE /spaces/{SPACE}": "space",
	"DELETE /connections/{CONNECTION}": "connection", "DELETE /secrets/{SECRET}": "secret", "DELETE /members/{PERSON}": "member",
}

const maxEffectTexts = 5 // objects of one command whose effects are shown

// effects returns a sentence that says what a deletion stops, after a space. It is empty if the service cannot answer, because
// an older one lacks the operation and a key that may delete need not be able to read.
func effects(ctx context.Context, call *client.Client, of, id string) string {
	var found contract.Effects
	if _, err := call.JSON(ctx, http.MethodGet, "/effects", url.Values{"of": {of}, "id": {id}}, nil, &found); err != nil || found.Text == "" {
		return ""
	}
	return " " + visible(found.Text)
}

// existing returns the name or the title of the object at a path, or "". It fails only if the object does not exist,
// because a key that may delete need not be able to read.
func existing(ctx context.Context, call *client.Client, path string) (string, error) {
	var found struct {
		Name  string `json:"name"`
		Title string `json:"title"`
	}
	_, err := call.JSON(ctx, http.MethodGet, path, nil, nil, &found)
	if refused := (*client.Error)(nil); errors.As(err, &refused) && refused.Status == http.StatusNotFound {
		return "", err
	}
	return cmp.Or(found.Name, found.Title), nil
}

// asks returns the question before a DELETE: format with the objects, in the singular
// with the name or in the plural with the count.
func asks(format, one, many string) func(typed []string) string {
	return func(typed []string) string { return fmt.Sprintf(format, list(typed, one, many)) }
}

func list(args []string, one, many string) string {
	if len(args) == 1 {
		return one + " " + args[0]
	}
	return some(len(args), one, many)
}

func parameters(body map[string]any) url.Values {
	query := url.Values{}
	for name, value := range body {
		if value != nil && value != "" && value != false {
			query.Set(name, fmt.Sprint(value))
		}
	}
	return query
}

func look(ctx context.Context, call *client.Client, body map[string]any) (err error) {
	for _, member := range slices.Sorted(maps.Keys(body)) {
		if find, ok := body[member].(lookup); ok {
			if body[member], err = find(ctx, call); err != nil {
				return err
			}
		}
	}
	return nil
}

// A field is a member of a body that a flag or an argument sets.
type field struct {
	name   string // name of the flag: "name,short=default"; or of the argument, as in use
	member string // a dot leads into an object, as in limits.maxSteps
	form   form
	help   string // description of the flag; empty means an argument
}

// A form is the syntax and the encoding of a value.
type form int

const (
	asText    form = iota // an empty text clears the member
	asFile                // like asText; after an "@" the content of that file
	asJSON                // like asFile, and JSON
	asDecimal             // like asText, and a number
	asContent             // the content of that file, in base64
	asChoice              // like asText, with hyphens for underscores
	asCredits             // sent as micro-credits; from here on an empty text sets nothing
	asSeconds             // a duration
	asTime                // a time, or a duration from now
	asPast                // a time, or a duration before now
	asAgent               // an agent, by name or id
	asSpace
	asKey
	asNumber // the default of these is shown, but not sent
	asBool
	asNot   // sent inverted
	asWords // texts separated by commas, or a repeated flag
	asTexts // texts that may contain commas, of a repeated flag
	asPairs // name=value, repeatable; sent as an object
)

// parts returns the name of a flag, its letter and its default.
func (fd field) parts() (name, short, standard string) {
	name, standard, _ = strings.Cut(fd.name, "=")
	name, short, _ = strings.Cut(name, ",")
	return name, short, standard
}

// flags adds the flags of fields to a command. The setter sets the members of the flags
// that were set, and of texts that have a default.
func (e *env) flags(c *cobra.Command, fields ...field) setter {
	fields = slices.DeleteFunc(slices.Clone(fields), func(fd field) bool { return fd.help == "" })
	f := c.Flags()
	for _, fd := range fields {
		name, short, standard := fd.parts()
		switch fd.form {
		case asBool, asNot:
			f.BoolP(name, short, standard == "true", fd.help)
		case asNumber:
			n, _ := strconv.Atoi(standard) // 0 without a default
			f.IntP(name, short, n, fd.help)
		case asWords:
			f.StringSliceP(name, short, nil, fd.help)
		case asPairs, asTexts:
			f.StringArrayP(name, short, nil, fd.help)
		default:
			f.StringP(name, short, standard, fd.help)
		}
		sends(c, name, fd.member)
	}
	return func(body map[string]any) error {
		for _, fd := range fields {
			name, _, standard := fd.parts()
			flag := f.Lookup(name)
			isText := fd.form < asNumber
			if !flag.Changed && !(isText && standard != "") {
				continue
			}
			if isText && fd.form >= asCredits && standard == "" && flag.Value.String() == "" {
				continue
			}
			value, err := e.given(fd.form, flag)
			if err != nil {
				return err
			}
			putMember(body, fd.member, value)
		}
		return nil
	}
}

func (e *env) given(as form, flag *pflag.Flag) (any, error) {
	text := flag.Value.String()
	switch as {
	case asNumber:
		return strconv.Atoi(text)
	case asBool:
		return text == "true", nil
	case asNot:
		return text != "true", nil
	case asWords, asTexts:
		return flag.Value.(pflag.SliceValue).GetSlice(), nil
	case asPairs:
		return metadata(flag.Value.(pflag.SliceValue).GetSlice())
	}
	return e.parse(as, text)
}

func (e *env) parse(as form, text string) (value any, err error) {
	switch as {
	case asFile:
		from := text
		if text, err = e.textOf(text); err == nil && !utf8.ValidString(text) { // because JSON would contain replacement characters
			err = usagef("%.100q is not text in UTF-8", from)
		}
	case asJSON:
		if text == "" {
			return nil, nil
		}
		from := text
		if text, err = e.textOf(text); err == nil && !jsonx.Valid([]byte(text)) {
			err = usagef("%.100q is not JSON", from)
		}
		return jsonx.Value(text), err
	case asDecimal:
		if text == "" {
			return nil, nil
		}
		n := jsonx.Value(text)
		if n.Kind() != '0' || !n.IsValid() {
			err = usagef("%.100q is not a number, such as 0.7", text)
		}
		return n, err
	case asContent:
		text, err = e.fileText(text, text, maxPrompt)
		text = base64.StdEncoding.EncodeToString([]byte(text))
	case asChoice:
		text = strings.ReplaceAll(text, "-", "_")
	case asCredits:
		n, err := parseCredits(text)
		return int64(n), err
	case asSeconds:
		d, err := span(text)
		return int64(d / time.Second), err
	case asTime, asPast:
		t, err := moment(text, time.Now(), as == asPast)
		return stamp(t), err
	case asAgent:
		return agentCollection.lookup(text), nil
	case asSpace:
		return spaceCollection.lookup(text), nil
	case asKey:
		return keyCollection.lookup(text), nil
	}
	if text == "" || err != nil {
		return nil, err
	}
	return text, nil
}

// putMember sets a member of a body; a dot in the name leads into an object.
func putMember(body map[string]any, member string, value any) {
	outer, inner, nested := strings.Cut(member, ".")
	if !nested {
		body[member] = value
		return
	}
	object, ok := body[outer].(map[string]any)
	if !ok {
		object = map[string]any{}
		body[outer] = object
	}
	putMember(object, inner, value)
}

func (p collection) lookup(name string) lookup {
	return func(ctx context.Context, call *client.Client) (any, error) { return p.find(ctx, call, name) }
}

var collections = map[string]collection{
	"AGENT": agentCollection, "SPACE": spaceCollection, "ACCOUNT": accountCollection, "KEY": keyCollection,
	"CONNECTION": connectionCollection, "SECRET": secretCollection, "PERSON": {"/members", "per_", "member", "members", false},
}
