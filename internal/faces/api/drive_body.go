package api

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding/htmlindex"

	"stoa/internal/agents/drive"
	"stoa/internal/base/jsonx"
	"stoa/internal/base/rest"
	"stoa/internal/base/stoa"
)

// Limits of the contract.
const (
	maxTag     = 1024      // characters of an If-Match
	maxVersion = 1<<53 - 1 // the largest exact JSON integer
)

// A driveBody parses a body of the drive and checks it against the rules of the
// contract. A test compares it with the contract's own check.
type driveBody struct {
	cursor jsonx.Cursor
	at     string // prefix of members' names: "operations[3]."
	err    error
}

func newDriveBody(raw []byte) (*driveBody, error) {
	if strings.TrimSpace(string(raw[:min(len(raw), 64)])) == "" && !jsonx.Valid(raw) {
		return nil, stoa.Errorf(stoa.CodeInvalidJSON, "The body is empty. Send one JSON object.")
	}
	if !jsonx.Valid(raw) {
		return nil, stoa.Errorf(stoa.CodeInvalidJSON, "The body is not JSON, or it has a member twice. Send one JSON object in UTF-8.")
	}
	b := &driveBody{cursor: jsonx.NewCursor(raw)}
	if b.cursor.Kind() != '{' {
		return nil, stoa.Errorf(stoa.CodeInvalidJSON, "The body must be one JSON object.")
	}
	return b, nil
}

func (b *driveBody) fail(code stoa.Code, member, format string, args ...any) {
	if b.err == nil {
		b.err = stoa.Errorf(code, format, args...).At(b.at + member)
	}
}

// members parses an object: set is called for each member that is not null and reports
// whether the member is known. Members in must are required, members in may can be
// null.
func (b *driveBody) members(must, may []string, set func(name string)) {
	seen := map[string]bool{}
	if !b.cursor.Object() {
		return
	}
	for b.cursor.Member() {
		name := string(b.cursor.Key)
		switch {
		case b.err != nil:
			b.cursor.Skip()
			continue
		case !slices.Contains(must, name) && !slices.Contains(may, name):
			names := slices.Sorted(slices.Values(slices.Concat(must, may)))
			name = rest.ShortName(name)
			b.fail(stoa.CodeUnknownField, name, "Unknown member %q. The members are %s.", b.at+name, strings.Join(names, ", "))
			b.cursor.Skip()
			continue
		case b.cursor.Kind() == 'n':
			b.cursor.Skip()
			if slices.Contains(must, name) {
				b.fail(stoa.CodeMissingParameter, name, "%q must not be null.", b.at+name)
				seen[name] = true
			}
			continue
		}
		seen[name] = true
		set(name)
	}
	for _, name := range must {
		if !seen[name] {
			b.fail(stoa.CodeMissingParameter, name, "%q is missing.", b.at+name)
		}
	}
}

func (b *driveBody) kind(name string, want byte, article string) bool {
	if b.cursor.Kind() == want {
		return true
	}
	b.cursor.Skip()
	b.fail(stoa.CodeInvalidType, name, "%q must be %s.", b.at+name, article)
	return false
}

func (b *driveBody) text(name string) string {
	if !b.kind(name, '"', "a string") {
		return ""
	}
	s, _ := b.cursor.Text()
	return s
}

// tag parses an If-Match of at most maxTag characters.
func (b *driveBody) tag(name string) string {
	s := b.text(name)
	if utf8.RuneCountInString(s) > maxTag {
		b.fail(stoa.CodeInvalidValue, name, "%q must have at most %d characters.", b.at+name, maxTag)
	}
	return s
}

// bytes parses a long text with only one copy.
func (b *driveBody) bytes(name string) []byte {
	if !b.kind(name, '"', "a string") {
		return nil
	}
	raw := b.cursor // a copy, to check the length of the text before unescaping
	out, _ := b.cursor.AppendPiece(make([]byte, 0, len(raw.Name())))
	return out
}

func (b *driveBody) truth(name string) bool {
	k := b.cursor.Kind()
	if k != 't' && k != 'f' {
		return b.kind(name, 't', "a boolean")
	}
	v, _ := b.cursor.Bool()
	return v
}

func (b *driveBody) word(name string, allowed ...string) string {
	s, _ := b.cursor.Text() // empty for another type, which is not an allowed word either
	if b.err == nil && !slices.Contains(allowed, s) {
		b.fail(stoa.CodeInvalidValue, name, "%q must be one of %s.", b.at+name, strings.Join(allowed, ", "))
	}
	return s
}

// path checks a parsed path, after the body itself has been validated.
func (b *driveBody) path(name, text string) drive.Path {
	if b.err != nil {
		return drive.Path{}
	}
	p, err := drive.ParsePath(text)
	if err != nil {
		b.err = stoa.AsError(err).At(b.at + name)
	}
	return p
}

// A fileBody is the part of a body that describes a file to write.
type fileBody struct {
	path, mimeType, encoding, textEncoding string
	content                                []byte
}

func (f *fileBody) set(b *driveBody, name string) {
	switch name {
	case "path":
		f.path = b.text(name)
	case "content":
		f.content = b.bytes(name)
	case "mimeType":
		f.mimeType = b.text(name)
	case "encoding":
		f.encoding = b.word(name, "utf-8", "base64")
	case "textEncoding":
		f.textEncoding = b.textEncoding(name)
	}
}

// op returns the write that the body describes.
func (f *fileBody) op(b *driveBody) drive.Op {
	op := drive.Op{Verb: drive.VerbPut, Path: b.path("path", f.path), Encoding: f.textEncoding}
	if b.err != nil {
		return op
	}
	var err error
	if op.MimeType, err = drive.ParseMime(f.mimeType); err != nil {
		b.err = stoa.AsError(err).At(b.at + "mimeType")
		return op
	}
	if f.encoding == "base64" {
		n, err := base64.StdEncoding.Decode(f.content, f.content) // the output is shorter than the input
		if err != nil {
			b.fail(stoa.CodeInvalidValue, "content", "%q must be base64 in the standard alphabet, with padding.", b.at+"content")
			return op
		}
		f.content = f.content[:n]
	}
	op.Content = drive.BytesContent(f.content)
	return op
}

// parseDriveFile parses the body of PUT …/drive/files.
func parseDriveFile(raw []byte) (drive.Op, error) {
	b, err := newDriveBody(raw)
	if err != nil {
		return drive.Op{}, err
	}
	var f fileBody
	b.members([]string{"path", "content"}, []string{"mimeType", "encoding", "textEncoding"}, func(name string) { f.set(b, name) })
	op := f.op(b)
	return op, b.err
}

// textEncoding parses the name of an encoding.
func (b *driveBody) textEncoding(name string) string {
	encoding, err := textEncoding(b.text(name))
	if err != nil && b.err == nil {
		b.err = stoa.AsError(err).At(b.at + name)
	}
	return encoding
}

// textEncoding returns the canonical name of an encoding, "" for "".
func textEncoding(label string) (string, error) {
	if label == "" {
		return "", nil
	}
	encoding, err := htmlindex.Get(label)
	if err == nil {
		label, err = htmlindex.Name(encoding)
	}
	if err != nil {
		return "", stoa.Errorf(stoa.CodeInvalidValue, "textEncoding is not the name of an encoding such as utf-8, windows-1252, shift_jis or gbk.").At("textEncoding")
	}
	return label, nil
}

// parseDriveReread parses the body of POST …/drive/files/reread.
func parseDriveReread(raw []byte) (drive.Op, error) {
	b, err := newDriveBody(raw)
	if err != nil {
		return drive.Op{}, err
	}
	var op drive.Op
	var path string
	b.members([]string{"path"}, []string{"textEncoding"}, func(name string) {
		if name == "path" {
			path = b.text(name)
			return
		}
		op.Encoding = b.textEncoding(name)
	})
	op.Path = b.path("path", path)
	return op, b.err
}

// parseDriveMove parses the body of POST …/drive/files/move.
func parseDriveMove(raw []byte) (drive.Op, error) {
	b, err := newDriveBody(raw)
	if err != nil {
		return drive.Op{}, err
	}
	op := b.move()
	return op, b.err
}

func (b *driveBody) move(more ...string) drive.Op {
	op := drive.Op{Verb: drive.VerbMove}
	var from, to string
	b.members([]string{"from", "to"}, append(more, "overwrite"), func(name string) {
		switch name {
		case "from":
			from = b.text(name)
		case "to":
			to = b.text(name)
		case "overwrite":
			op.Overwrite = b.truth(name)
		default:
			b.cursor.Skip()
		}
	})
	op.Path, op.To = b.path("from", from), b.path("to", to)
	return op
}

// parseDriveRestore parses the body of POST …/drive/files/restore.
func parseDriveRestore(raw []byte) (drive.Op, error) {
	b, err := newDriveBody(raw)
	if err != nil {
		return drive.Op{}, err
	}
	op := drive.Op{Verb: drive.VerbRestore}
	var path string
	b.members([]string{"path", "version"}, nil, func(name string) {
		if name == "path" {
			path = b.text(name)
			return
		}
		if b.kind(name, '0', "an integer") {
			v, whole := b.cursor.Int()
			if !whole {
				b.fail(stoa.CodeInvalidType, name, "%q must be an integer.", name)
			} else if v < 1 {
				b.fail(stoa.CodeInvalidValue, name, "%q must be at least 1.", name)
			} else if v > maxVersion {
				b.fail(stoa.CodeInvalidValue, name, "%q must be at most %d.", name, int64(maxVersion))
			}
			op.Version = v
		}
	})
	op.Path = b.path("path", path)
	return op, b.err
}

// parseDriveBatch parses the body of POST …/drive/batch.
func parseDriveBatch(raw []byte, most int) ([]drive.Op, error) {
	b, err := newDriveBody(raw)
	if err != nil {
		return nil, err
	}
	verbs := b.verbs() // the verb may follow the members that depend on it
	var ops []drive.Op
	b.members([]string{"operations"}, nil, func(string) {
		if !b.kind("operations", '[', "an array") {
			return
		}
		b.cursor.Array()
		for i := 0; b.cursor.Element(); i++ {
			if b.err != nil || i >= most {
				b.fail(stoa.CodeInvalidValue, "operations", "\"operations\" must have at most %d items.", most)
				b.cursor.Skip()
				continue
			}
			b.at = fmt.Sprintf("operations[%d]", i)
			if b.kind("", '{', "an object") {
				b.at += "."
				ops = append(ops, b.operation(verbs[i]))
			}
			b.at = ""
		}
		if len(ops) == 0 {
			b.fail(stoa.CodeInvalidValue, "operations", "\"operations\" must have at least 1 item.")
		}
	})
	return ops, b.err
}

// verbs reads the kind of each operation in advance.
func (b *driveBody) verbs() []string {
	ahead := b.cursor // a copy: the text is parsed twice
	var out []string
	if !ahead.Object() {
		return nil
	}
	for ahead.Member() {
		if string(ahead.Key) != "operations" || !ahead.Array() {
			continue
		}
		for ahead.Element() {
			verb := ""
			if ahead.Object() {
				for ahead.Member() {
					if string(ahead.Key) == "op" {
						verb, _ = ahead.Text()
					}
				}
			}
			out = append(out, verb)
		}
	}
	return out
}

func (b *driveBody) operation(verb string) drive.Op {
	switch verb {
	case "put":
		var f fileBody
		var cond drive.Condition
		b.members([]string{"op", "path", "content"}, []string{"mimeType", "encoding", "textEncoding", "ifMatch", "ifNoneMatch"}, func(name string) {
			switch name {
			case "op":
				b.cursor.Skip()
			case "ifMatch":
				cond.Match = matching(b.tag(name))
			case "ifNoneMatch":
				cond.NotExist = b.word(name, "*") == "*"
			default:
				f.set(b, name)
			}
		})
		op := f.op(b)
		op.If = cond
		return op
	case "delete":
		op := drive.Op{Verb: drive.VerbDelete}
		var path string
		b.members([]string{"op", "path"}, []string{"ifMatch"}, func(name string) {
			switch name {
			case "path":
				path = b.text(name)
			case "ifMatch":
				op.If.Match = matching(b.tag(name))
			default:
				b.cursor.Skip()
			}
		})
		op.Path = b.path("path", path)
		return op
	case "move":
		return b.move("op")
	}
	b.cursor.Skip()
	if verb == "" {
		b.fail(stoa.CodeMissingParameter, "op", "%q is missing. It must be one of put, delete, move.", b.at+"op")
	} else {
		b.fail(stoa.CodeInvalidValue, "op", "%q must be one of put, delete, move.", b.at+"op")
	}
	return drive.Op{}
}
