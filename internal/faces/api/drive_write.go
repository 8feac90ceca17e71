package api

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"mime"
	"net/http"

	"golang.org/x/text/encoding/htmlindex"

	"stoa/internal/agents/drive"
	"stoa/internal/base/contract"
	"stoa/internal/base/jsonx"
	"stoa/internal/base/rest"
	"stoa/internal/base/stoa"
)

// The writes of a drive read their bodies themselves and check them without the content of files,
// because the check of a body of 10 MiB against the contract costs ten times its memory.

// readOps reads and parses a body in turn; see [parseDrive].
func (s *Drive) readOps(w http.ResponseWriter, r *http.Request, verb drive.Verb) (body []byte, ops []drive.Op, err error) {
	if body, err = s.ReadBody(w, r); err != nil {
		return nil, nil, err
	}
	ops, err = rest.InTurn(s.Base, w, body, func(body []byte) ([]drive.Op, error) {
		return parseDrive(body, verb, func(body []byte) ([]byte, error) { return rest.CheckBody(w, body) })
	})
	return body, ops, err
}

func (s *Drive) putDriveFile(w http.ResponseWriter, in *rest.Request[idAnd[contract.PutDriveFileParams], rest.None]) error {
	ctx := in.HTTP.Context()
	who, err := s.driveOf(ctx, in.Caller, in.Params.ID)
	if err != nil {
		return err
	}
	_, ops, err := s.readOps(w, in.HTTP, drive.VerbPut)
	if err != nil {
		return err
	}
	ops[0].If = writeCondition(in.Params.Query.IfMatch, in.Params.Query.IfNoneMatch)
	return s.putFile(w, in.HTTP, who, ops[0])
}

func (s *Drive) putDriveFileContent(w http.ResponseWriter, in *rest.Request[idAnd[contract.PutDriveFileContentParams], rest.None]) error {
	r := in.HTTP
	who, path, err := s.fileOf(r.Context(), in.Caller, in.Params.ID, in.Params.Query.Path)
	if err != nil {
		return err
	}
	mimeType, err := uploadType(in.Params.Query.MimeType, r.Header.Get("Content-Type"))
	if err != nil {
		return err
	}
	encoding, err := textEncoding(in.Params.Query.TextEncoding)
	if err != nil {
		return err
	}
	content, err := s.stage(r, s.Drives.Limits().MaxFileBytes)
	if err != nil {
		return err
	}
	defer content.Close()
	return s.putFile(w, r, who, drive.Op{
		Verb: drive.VerbPut, Path: path, Content: content, MimeType: mimeType, Encoding: encoding,
		If: writeCondition(in.Params.Query.IfMatch, in.Params.Query.IfNoneMatch),
	})
}

func (s *Drive) putFile(w http.ResponseWriter, r *http.Request, who drive.Owner, op drive.Op) error {
	result, err := s.Drives.Apply(r.Context(), who, drive.Claim{}, []drive.Op{op})
	if err != nil {
		return singleError(err)
	}
	return writtenFile(w, who, result.Changes[0])
}

func singleError(err error) error {
	if e, ok := errors.AsType[*drive.OpError](err); ok {
		return e.Err
	}
	return err
}

func (s *Drive) rereadDriveFile(w http.ResponseWriter, in *rest.Request[byID, rest.None]) error {
	ctx := in.HTTP.Context()
	who, err := s.driveOf(ctx, in.Caller, in.Params.ID)
	if err != nil {
		return err
	}
	_, ops, err := s.readOps(w, in.HTTP, verbReread)
	if err != nil {
		return err
	}
	f, waits, err := s.Drives.Reread(ctx, who, ops[0].Path, ops[0].Encoding)
	if err != nil {
		return err
	}
	status := http.StatusOK
	if waits {
		status = http.StatusAccepted
	}
	w.Header().Set("ETag", f.ETag())
	return rest.Answer(w, rest.Reply[contract.DriveFile]{Status: status, Body: contractFile(who, f)}, nil)
}

func (s *Drive) moveDriveFile(w http.ResponseWriter, in *rest.Request[byID, rest.None]) error {
	return s.changeFile(w, in, drive.VerbMove)
}

func (s *Drive) restoreDriveFile(w http.ResponseWriter, in *rest.Request[byID, rest.None]) error {
	return s.changeFile(w, in, drive.VerbRestore)
}

func (s *Drive) changeFile(w http.ResponseWriter, in *rest.Request[byID, rest.None], verb drive.Verb) error {
	who, once, ops, err := s.driveRequest(w, in, verb)
	if err != nil {
		return err
	}
	result, err := s.Drives.Apply(in.HTTP.Context(), who, once, ops)
	if err != nil {
		return singleError(err)
	}
	replayed(w, in.Log, result)
	return writtenFile(w, who, result.Changes[0])
}

func (s *Drive) batchDrive(w http.ResponseWriter, in *rest.Request[byID, rest.None]) error {
	who, once, ops, err := s.driveRequest(w, in, "")
	if err != nil {
		return err
	}
	result, err := s.Drives.Apply(in.HTTP.Context(), who, once, ops)
	if err != nil {
		return batchError(err)
	}
	out := contract.DriveBatchResult{Revision: result.Revision, Results: []contract.DriveOutcome{}}
	for _, c := range result.Changes {
		file := nullIfNil(c.File, func(f drive.File) contract.DriveFile { return contractFile(who, f) })
		out.Results = append(out.Results, contract.DriveOutcome{Outcome: string(c.Outcome), Path: c.Path, File: file})
	}
	replayed(w, in.Log, result)
	return rest.Answer(w, rest.Reply[contract.DriveBatchResult]{Body: out}, nil)
}

func batchError(err error) error {
	oe, ok := errors.AsType[*drive.OpError](err)
	if !ok {
		return err
	}
	e, ok := errors.AsType[*stoa.Error](oe.Err)
	if !ok {
		return err
	}
	at := fmt.Sprintf("operations[%d]", oe.Index)
	if e.Param != "" {
		at += "." + e.Param
	}
	named := *e
	return named.At(at)
}

func (s *Drive) driveRequest(w http.ResponseWriter, in *rest.Request[byID, rest.None], verb drive.Verb) (who drive.Owner, once drive.Claim, ops []drive.Op, err error) {
	r := in.HTTP
	if who, err = s.driveOf(r.Context(), in.Caller, in.Params.ID); err != nil {
		return who, once, nil, err
	}
	key, err := rest.IdempotencyKey(r)
	if err != nil {
		return who, once, nil, err
	}
	if key != "" {
		once.Ref, once.Scope = key, r.Method+" "+r.URL.Path
	}
	body, ops, err := s.readOps(w, r, verb)
	if once.Ref != "" {
		once.Body = rest.BodyHash(body)
	}
	return who, once, ops, err
}

func replayed(w http.ResponseWriter, log *rest.Fields, result drive.Result) {
	if result.Replayed {
		log.Replayed = true
		w.Header().Set(rest.ReplayedHeader, "true")
	}
}

func writtenFile(w http.ResponseWriter, who drive.Owner, c drive.Change) error {
	f := extend[contract.WrittenDriveFile](contractFile(who, *c.File))
	f.Outcome = string(c.Outcome)
	w.Header().Set("ETag", c.File.ETag())
	status := http.StatusOK
	if c.Outcome == drive.Created {
		status = http.StatusCreated
	}
	return rest.Answer(w, rest.Reply[contract.WrittenDriveFile]{Status: status, Body: f}, nil)
}

// writeCondition compares an If-None-Match with * alone, because the contract allows nothing else.
func writeCondition(ifMatch, ifNoneMatch string) drive.Condition {
	return drive.Condition{Match: matching(ifMatch), NotExist: ifNoneMatch == "*"}
}

// uploadType returns the media type that an upload declares: its parameter, or its Content-Type. It
// ignores two types, because they are defaults of HTTP clients.
func uploadType(parameter, contentType string) (string, error) {
	if parameter != "" {
		return drive.ParseMime(parameter)
	}
	t, err := drive.ParseMime(contentType)
	if err != nil {
		return "", stoa.AsError(err).At("Content-Type")
	}
	switch bare, _, _ := mime.ParseMediaType(t); bare {
	case "application/octet-stream", "application/x-www-form-urlencoded":
		return "", nil
	}
	return t, nil
}

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
