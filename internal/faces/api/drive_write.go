package api

import (
	"errors"
	"fmt"
	"mime"
	"net/http"

	"stoa/internal/agents/drive"
	"stoa/internal/base/contract"
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
