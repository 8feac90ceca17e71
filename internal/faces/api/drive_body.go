package api

import (
	"cmp"
	"encoding/base64"
	"fmt"

	"golang.org/x/text/encoding/htmlindex"

	"stoa/internal/agents/drive"
	"stoa/internal/base/jsonx"
	"stoa/internal/base/stoa"
)

const verbReread drive.Verb = "reread"

// A driveBody has the members of all bodies that write to a drive.
type driveBody struct {
	Op           drive.Verb  `json:"op"`
	Path         string      `json:"path"`
	MimeType     string      `json:"mimeType"`
	Encoding     string      `json:"encoding"`
	TextEncoding string      `json:"textEncoding"`
	IfMatch      string      `json:"ifMatch"`
	IfNoneMatch  string      `json:"ifNoneMatch"`
	From         string      `json:"from"`
	To           string      `json:"to"`
	Overwrite    bool        `json:"overwrite"`
	Version      int64       `json:"version"`
	Operations   []driveBody `json:"operations"`
}

// parseDrive parses a body that describes a write, or a batch of them if verb is empty.
// check is that of the contract. It gets the body without the content of files, because it
// makes several copies.
func parseDrive(raw []byte, verb drive.Verb, check func([]byte) ([]byte, error)) ([]drive.Op, error) {
	short := raw
	var contents [][]byte
	if jsonx.Valid(raw) {
		c := jsonx.NewCursor(raw)
		short = cutContents(nil, &c, &contents)
	}
	text, wrong := check(short)
	switch {
	case wrong != nil && stoa.CodeOf(wrong) != stoa.CodeInvalidValue:
		return nil, wrong
	case wrong != nil: // perhaps because of a long path, whose code is that of all wrong paths
		text = short
	}
	b := driveBody{Op: verb}
	if err := jsonx.Unmarshal(text, &b); err != nil {
		return nil, cmp.Or(wrong, err)
	}
	writes := b.Operations
	if verb != "" {
		writes = []driveBody{b}
	}
	var ops []drive.Op
	for i, write := range writes {
		at := ""
		if verb == "" {
			at = fmt.Sprintf("operations[%d].", i)
		}
		op, err := write.op(at, &contents)
		if err != nil && (wrong == nil || stoa.CodeOf(err) == stoa.CodeInvalidPath && stoa.AsError(err).Param == stoa.AsError(wrong).Param) {
			return nil, err
		}
		ops = append(ops, op)
	}
	return ops, wrong
}

// maxContents is the number of operations that the contract allows in a batch. A body with
// more contents is refused, so that they are not kept.
const maxContents = 500

// cutContents appends the value at the cursor, with "" for each text under the name
// "content", and these texts to contents.
func cutContents(dst []byte, c *jsonx.Cursor, contents *[][]byte) []byte {
	switch c.Kind() {
	case '{':
		c.Object()
		dst = append(dst, '{')
		for i := 0; c.Member(); i++ {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(jsonx.AppendString(dst, c.Key), ':')
			if string(c.Key) != "content" || c.Kind() != '"' {
				dst = cutContents(dst, c, contents)
				continue
			}
			dst = append(dst, `""`...)
			if len(*contents) == maxContents {
				c.Skip()
				continue
			}
			ahead := *c
			content, _ := c.AppendPiece(make([]byte, 0, len(ahead.Name())))
			*contents = append(*contents, content)
		}
		return append(dst, '}')
	case '[':
		c.Array()
		dst = append(dst, '[')
		for i := 0; c.Element(); i++ {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = cutContents(dst, c, contents)
		}
		return append(dst, ']')
	}
	return append(dst, c.Raw()...)
}

// op returns the write that a body describes; a put takes the first of contents. at is
// the prefix of members' names in errors.
func (b *driveBody) op(at string, contents *[][]byte) (op drive.Op, err error) {
	op = drive.Op{
		Verb: b.Op, Overwrite: b.Overwrite, Version: b.Version,
		If: drive.Condition{Match: matching(b.IfMatch), NotExist: b.IfNoneMatch != ""},
	}
	if op.Encoding, err = textEncoding(b.TextEncoding); err != nil {
		return op, stoa.AsError(err).At(at + "textEncoding")
	}
	name, path := "path", b.Path
	if b.Op == drive.VerbMove {
		name, path = "from", b.From
	}
	if op.Path, err = drive.ParsePath(path); err != nil {
		return op, stoa.AsError(err).At(at + name)
	}
	switch b.Op {
	case drive.VerbMove:
		if op.To, err = drive.ParsePath(b.To); err != nil {
			return op, stoa.AsError(err).At(at + "to")
		}
	case drive.VerbPut:
		if op.MimeType, err = drive.ParseMime(b.MimeType); err != nil {
			return op, stoa.AsError(err).At(at + "mimeType")
		}
		var content []byte
		if len(*contents) > 0 {
			content, *contents = (*contents)[0], (*contents)[1:]
		}
		if b.Encoding == "base64" {
			n, err := base64.StdEncoding.Decode(content, content) // in place, because the output is shorter than the input
			if err != nil {
				return op, stoa.Errorf(stoa.CodeInvalidValue, "%q must be base64 in the standard alphabet, with padding.", at+"content").At(at + "content")
			}
			content = content[:n]
		}
		op.Content = drive.BytesContent(content)
	}
	return op, nil
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
