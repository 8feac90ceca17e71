package remote

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Limits of one definition. They are needed because a hostile server writes the definition,
// which is stored, shown to a reviewer and sent to a model.
const (
	maxName       = 128      // characters
	maxDefinition = 64 << 10 // bytes
	maxSchema     = 32 << 10 // bytes of the arguments' schema
	maxDepth      = 20
	longText      = 2000 // characters of a description that cause a warning, since models receive no more
)

// A Tool is a tool as a server defines it.
type Tool struct {
	Name       string
	Definition string // canonical JSON, so that the order of members does not withdraw an approval
	SHA256     string // hash of Definition
	Problem    string // why it cannot be used; empty if it can
}

// A Definition is a server's description of a tool. Its schemas keep the spelling of numbers,
// because a float64 would round large integers.
type Definition struct {
	Name         string         `json:"name"`
	Title        string         `json:"title"`
	Description  string         `json:"description"`
	InputSchema  map[string]any `json:"inputSchema"`
	OutputSchema map[string]any `json:"outputSchema"`
	Annotations  map[string]any `json:"annotations"`
	Request      map[string]any `json:"request"` // the request to send, if it is not a call of the protocol
}

// Parse reads the text of a [Tool.Definition]. Members of the wrong type are left out.
func Parse(definition string) Definition {
	var d Definition
	members, _ := decode([]byte(definition))
	d.Name, _ = members["name"].(string)
	d.Title, _ = members["title"].(string)
	d.Description, _ = members["description"].(string)
	d.InputSchema, _ = members["inputSchema"].(map[string]any)
	d.OutputSchema, _ = members["outputSchema"].(map[string]any)
	d.Annotations, _ = members["annotations"].(map[string]any)
	d.Request, _ = members["request"].(map[string]any)
	return d
}

// ParseTools reads the entries of a catalog one by one, so that an invalid one does not affect
// the others.
func ParseTools(entries []json.RawMessage) []Tool {
	var all []Tool
	at := map[string]int{}
	for i, raw := range entries {
		t := parseTool(raw)
		if t.Name == "" {
			t.Name = fmt.Sprintf("(entry %d)", i+1)
		}
		if first, twice := at[t.Name]; twice {
			all[first].Problem = "The server has two tools with this name."
			continue
		}
		at[t.Name] = len(all)
		all = append(all, t)
	}
	return all
}

// New returns a tool whose definition does not come from an entry of a catalog. It cannot be
// used if problem is not empty.
func New(name string, definition map[string]any, problem string) (t Tool) {
	problem = Visible(Cut(problem, 400))
	t.Name, t.Definition, t.SHA256, t.Problem = name, "{}", hash("{}"), problem
	text, err := encode(definition)
	if err != nil || len(text) > maxDefinition {
		t.Problem = cmp.Or(problem, fmt.Sprintf("The definition has more than %d KiB.", maxDefinition>>10))
		return t
	}
	t.Definition, t.SHA256 = text, hash(text)
	t.Problem = cmp.Or(problem, problemOf(definition))
	return t
}

func parseTool(raw json.RawMessage) (t Tool) {
	t.Definition, t.SHA256 = "{}", hash("{}")
	if len(raw) > maxDefinition {
		t.Problem = fmt.Sprintf("The definition has more than %d KiB.", maxDefinition>>10)
		var named struct{ Name string }
		if json.Unmarshal(raw, &named) == nil && utf8.RuneCountInString(named.Name) <= maxName {
			t.Name = Visible(named.Name)
		}
		return t
	}
	members, err := decode(raw)
	if err != nil {
		t.Problem = "The definition is not an object."
		return t
	}
	kept := map[string]any{}
	for _, name := range []string{"name", "title", "description", "inputSchema", "outputSchema", "annotations"} {
		if v, ok := members[name]; ok && v != nil {
			kept[name] = v
		}
	}
	text, err := encode(kept)
	if err != nil {
		t.Problem = "The definition cannot be read."
		return t
	}
	t.Definition, t.SHA256 = text, hash(text)
	name, ok := kept["name"].(string)
	if !ok || name == "" || utf8.RuneCountInString(name) > maxName || Visible(name) != name || strings.TrimSpace(name) != name {
		t.Problem = "The tool has no valid name."
		return t
	}
	t.Name, t.Problem = name, problemOf(kept)
	// The outcome of a task would arrive after its turn, so tasks are not supported.
	if execution, _ := members["execution"].(map[string]any); execution["taskSupport"] == "required" {
		t.Problem = cmp.Or(t.Problem, "The server runs this tool only as a task (execution.taskSupport), which this service does not support.")
	}
	return t
}

// problemOf returns why a definition cannot be used; empty if it can.
func problemOf(d map[string]any) string {
	for _, name := range []string{"title", "description"} {
		if v, ok := d[name]; ok {
			if _, ok := v.(string); !ok {
				return fmt.Sprintf("The %s is not a text.", name)
			}
		}
	}
	schema, ok := d["inputSchema"].(map[string]any)
	if !ok {
		return "The tool has no inputSchema."
	}
	if kind, ok := schema["type"].(string); !ok || kind != "object" {
		return "The inputSchema does not have the type object."
	}
	if text, err := encode(schema); err != nil || len(text) > maxSchema {
		return fmt.Sprintf("The inputSchema has more than %d KiB.", maxSchema>>10)
	}
	switch deep, remote := walk(d, 0); {
	case deep:
		return fmt.Sprintf("The definition has more than %d levels of nesting.", maxDepth)
	case remote:
		return "A schema references another document, which is never fetched."
	}
	return ""
}

// walk reports whether a value is nested too deeply, and whether a schema in it references
// another document.
func walk(v any, depth int) (deep, remote bool) {
	if depth > maxDepth {
		return true, false
	}
	each := func(v any) {
		d, r := walk(v, depth+1)
		deep, remote = deep || d, remote || r
	}
	switch v := v.(type) {
	case map[string]any:
		for name, member := range v {
			if to, ok := member.(string); ok && (name == "$ref" || name == "$dynamicRef") && !strings.HasPrefix(to, "#") {
				remote = true
			}
			each(member)
		}
	case []any:
		for _, member := range v {
			each(member)
		}
	}
	return deep, remote
}

func decode(text []byte) (map[string]any, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var members map[string]any
	if err := d.Decode(&members); err != nil {
		return nil, err
	}
	if members == nil || d.More() {
		return nil, errors.New("no object")
	}
	return members, nil
}

// encode writes JSON with sorted members.
func encode(v any) (string, error) {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return strings.TrimSuffix(b.String(), "\n"), err
}

func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// Suggested returns the review that a definition suggests: whether a person must approve each
// call, and the effects of a repetition. Absent annotations mean the worst case, because the
// protocol defines these defaults (destructiveHint true, the other two false).
func Suggested(d Definition) (approval, effects string) {
	is := func(name string, want bool) bool { v, ok := d.Annotations[name].(bool); return ok && v == want }
	stated, _ := d.Request["effects"].(string)
	switch {
	case stated == "read":
		return "never", "read"
	case stated != "":
		return "always", stated
	case is("readOnlyHint", true):
		return "never", "read"
	case is("idempotentHint", true) && is("destructiveHint", false):
		return "always", "idempotent"
	}
	return "always", "once"
}

// addressed matches phrases with which a description addresses the model instead of describing
// the tool. It causes a warning only, because a harmless description may contain them.
var addressed = regexp.MustCompile(`(?i)ignore (all |any |the )*(previous|other|above)|do not (tell|mention|reveal)|don't (tell|mention|reveal)|system prompt|<(important|system|instructions)>|before (using|calling) any other`)

// Warnings returns the points that a reviewer of a definition should check.
func Warnings(d Definition) []string {
	all := []string{}
	texts := append([]string{d.Title, d.Description}, textsOf(d.InputSchema)...)
	hidden, spoken := false, false
	for _, text := range texts {
		hidden = hidden || Visible(text) != text
		spoken = spoken || addressed.MatchString(text)
	}
	if hidden {
		all = append(all, "A text contains invisible characters.")
	}
	if spoken {
		all = append(all, "A text addresses the model instead of describing the tool.")
	}
	if utf8.RuneCountInString(d.Description) > longText {
		all = append(all, fmt.Sprintf("The description has more than %d characters.", longText))
	}
	return all
}

// textsOf returns the texts in a value. It includes names, because the model reads them too.
func textsOf(v any) (all []string) {
	switch v := v.(type) {
	case string:
		return []string{v}
	case []any:
		for _, member := range v {
			all = append(all, textsOf(member)...)
		}
	case map[string]any:
		for name, member := range v {
			all = append(append(all, name), textsOf(member)...)
		}
	}
	return all
}

// hidden reports whether a character is invisible. Such characters are removed or escaped, so
// that a model reads nothing that a reviewer does not see.
func hidden(r rune) bool {
	return unicode.Is(unicode.Cf, r) || unicode.IsControl(r) && r != '\n' && r != '\t' || unicode.Is(unicode.Co, r) ||
		r == 0x2028 || r == 0x2029 || r == 0x3164 || r == 0x115f || r == 0x1160 || r == 0xffa0 || r >= 0xfe00 && r <= 0xfe0f || r >= 0xe0100 && r <= 0xe01ef
}

// Strip returns at most most characters of a text, without invisible ones.
func Strip(text string, most int) string {
	return Cut(strings.Map(func(r rune) rune {
		if hidden(r) {
			return -1
		}
		return r
	}, text), most)
}

// Visible returns a text with its invisible characters escaped.
func Visible(text string) string {
	if !strings.ContainsFunc(text, hidden) {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if hidden(r) {
			fmt.Fprintf(&b, "\\u{%x}", r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// ModelName returns the name of a connection's tool for a model: at most 64 letters, digits,
// _ and -, because OpenAI accepts no others. If it is taken or too long it ends
// with part of a hash.
func ModelName(connection, tool string, taken func(name string) bool) string {
	const most = 64
	name := connection + "__" + strings.Map(func(r rune) rune {
		if r < 0x80 && (unicode.IsLetter(r) || unicode.IsDigit(r) || r == '_' || r == '-') {
			return r
		}
		return '_'
	}, tool)
	if len(name) <= most && !taken(name) {
		return name
	}
	return name[:min(len(name), most-5)] + "_" + hash(tool)[:4]
}

// Cut returns at most most characters of a text.
func Cut(text string, most int) string {
	n := 0
	for i := range text {
		if n++; n > most {
			return text[:i] + "…"
		}
	}
	return text
}

// LeftOut returns the replacement for a part of a result that is not text.
func LeftOut(kind string, bytes int) string {
	return fmt.Sprintf("(%s, %d kB, left out: this service passes text only.)", Cut(kind, 100), (bytes+999)/1000)
}

// CutNote returns the first line of the text of a reply of which only its beginning was read,
// so that the model does not take that for the whole.
func CutNote(bytes int) string {
	return fmt.Sprintf("(The reply has more than %d bytes, and this is only its beginning: the rest was not read. Ask for less.)\n", bytes)
}

// CutBytes returns at most most bytes of a text, in whole characters.
func CutBytes(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most] + "…"
}
