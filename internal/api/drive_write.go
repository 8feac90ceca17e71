package api

import (
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strings"

	"github.com/oapi-codegen/nullable"

	"stoa/internal/contract"
	"stoa/internal/drive"
	"stoa/internal/jsonx"
	"stoa/internal/stoa"
)

// The writes of a drive pass by the generated server: checking a body of 10 MiB
// against the contract the general way costs ten times its memory. What is
// checked by hand instead is in drive_body.go.

// putDriveFile serves PUT /api/v1/api-agents/{id}/drive/files.
func (s *Server) putDriveFile(w http.ResponseWriter, r *http.Request, _ stoa.Caller) error {
	who, err := s.driveOf(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	cond, err := writeCondition(r)
	if err != nil {
		return err
	}
	body, err := s.readBody(w, r)
	if err != nil {
		return err
	}
	op, err := parseDriveFile(body)
	if err != nil {
		return err
	}
	change, err := s.Drives.Put(r.Context(), who, op.Path, op.Content, op.MimeType, cond)
	if err != nil {
		return err
	}
	return writtenFile(w, who, change)
}

// putDriveFileContent serves PUT /api/v1/api-agents/{id}/drive/files/content.
func (s *Server) putDriveFileContent(w http.ResponseWriter, r *http.Request, _ stoa.Caller) error {
	who, err := s.driveOf(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	path, err := pathParameter(r)
	if err != nil {
		return err
	}
	mimeType, err := mimeParameter(r)
	if err != nil {
		return err
	}
	cond, err := writeCondition(r)
	if err != nil {
		return err
	}
	if encoding := r.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return stoa.Errorf(stoa.CodeMediaType, "Content-Encoding is not taken: send the bytes of the file as they are.").At("Content-Encoding")
	}
	if limit := s.Drives.Limits().MaxFileBytes; r.ContentLength > limit {
		return stoa.Errorf(stoa.CodeTooLarge, "The file is larger than %d bytes, the limit of one file.", limit)
	}
	content, err := s.Drives.Stage(r.Body)
	if err != nil {
		if _, ok := errors.AsType[*stoa.Error](err); ok {
			return err
		}
		if r.Context().Err() != nil {
			return errClientGone
		}
		return stoa.Errorf(stoa.CodeInvalidValue, "The body ended early. Send it whole.").Because(err)
	}
	defer content.Close()
	change, err := s.Drives.Put(r.Context(), who, path, content, mimeType, cond)
	if err != nil {
		return err
	}
	return writtenFile(w, who, change)
}

// moveDriveFile serves POST /api/v1/api-agents/{id}/drive/files/move.
func (s *Server) moveDriveFile(w http.ResponseWriter, r *http.Request, _ stoa.Caller) error {
	return s.changeFile(w, r, parseDriveMove)
}

// restoreDriveFile serves POST /api/v1/api-agents/{id}/drive/files/restore.
func (s *Server) restoreDriveFile(w http.ResponseWriter, r *http.Request, _ stoa.Caller) error {
	return s.changeFile(w, r, parseDriveRestore)
}

func (s *Server) changeFile(w http.ResponseWriter, r *http.Request, parse func([]byte) (drive.Op, error)) error {
	who, once, body, err := s.driveRequest(w, r)
	if err != nil {
		return err
	}
	op, err := parse(body)
	if err != nil {
		return err
	}
	result, err := s.Drives.Apply(r.Context(), who, once, []drive.Op{op})
	if err != nil {
		if e, ok := errors.AsType[*drive.OpError](err); ok {
			return e.Err
		}
		return err
	}
	replayed(w, r, result)
	return writtenFile(w, who, result.Changes[0])
}

// batchDrive serves POST /api/v1/api-agents/{id}/drive/batch.
func (s *Server) batchDrive(w http.ResponseWriter, r *http.Request, _ stoa.Caller) error {
	who, once, body, err := s.driveRequest(w, r)
	if err != nil {
		return err
	}
	ops, err := parseDriveBatch(body, s.Drives.Limits().MaxBatch)
	if err != nil {
		return err
	}
	result, err := s.Drives.Apply(r.Context(), who, once, ops)
	if err != nil {
		return batchError(err)
	}
	out := contract.DriveBatchResult{Revision: result.Revision, Results: []contract.DriveOutcome{}}
	for _, c := range result.Changes {
		file := nullable.NewNullNullable[contract.DriveFile]()
		if c.File != nil {
			file = nullable.NewNullableWithValue(contractFile(who, *c.File))
		}
		out.Results = append(out.Results, contract.DriveOutcome{Outcome: string(c.Outcome), Path: c.Path, File: file})
	}
	replayed(w, r, result)
	return writeJSON(w, http.StatusOK, out)
}

// batchError names the operation that failed in front of its member.
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

// driveRequest reads what the POSTs of a drive have in common.
func (s *Server) driveRequest(w http.ResponseWriter, r *http.Request) (who drive.Owner, once drive.Claim, body []byte, err error) {
	if who, err = s.driveOf(r.Context(), r.PathValue("id")); err != nil {
		return who, once, nil, err
	}
	key, err := idempotencyKey(r)
	if err != nil {
		return who, once, nil, err
	}
	if key != "" {
		once.Ref, once.Scope = key, r.Method+" "+r.URL.Path
	}
	if body, err = s.readBody(w, r); err != nil {
		return who, once, nil, err
	}
	if once.Ref != "" {
		once.Body = bodyHash(body)
	}
	return who, once, body, nil
}

func replayed(w http.ResponseWriter, r *http.Request, result drive.Result) {
	if result.Replayed {
		LogFields(r.Context()).replay = true
		w.Header().Set("Idempotency-Replayed", "true")
	}
}

// writtenFile answers a write of one file.
func writtenFile(w http.ResponseWriter, who drive.Owner, c drive.Change) error {
	f := contractFile(who, *c.File)
	w.Header().Set("ETag", c.File.ETag())
	status := http.StatusOK
	if c.Outcome == drive.Created {
		status = http.StatusCreated
	}
	return writeJSON(w, status, contract.WrittenDriveFile{
		AgentID: f.AgentID, CreatedAt: f.CreatedAt, ID: f.ID, Lines: f.Lines, MimeType: f.MimeType, Outcome: string(c.Outcome),
		Path: f.Path, Sha256: f.Sha256, Size: f.Size, Text: f.Text, UpdatedAt: f.UpdatedAt, Version: f.Version,
	})
}

func writeJSON(w http.ResponseWriter, status int, v any) error {
	text, err := jsonx.Marshal(v)
	if err != nil {
		return fmt.Errorf("write the reply: %w", err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n')) // what was done is done, whoever listens
	return nil
}

// writeCondition reads the conditions of a PUT.
func writeCondition(r *http.Request) (drive.Condition, error) {
	cond := drive.Condition{Match: matching(strings.Join(r.Header["If-Match"], ","))}
	switch header := strings.Join(r.Header["If-None-Match"], ","); header {
	case "":
	case "*":
		cond.NotExist = true
	default:
		return cond, stoa.Errorf(stoa.CodeInvalidValue, "If-None-Match of a write can only be *: write only if there is no such file.").At("If-None-Match")
	}
	return cond, nil
}

// queryParameter reads a parameter that may be there once.
func queryParameter(r *http.Request, name string) (string, error) {
	values := r.URL.Query()[name]
	if len(values) > 1 {
		return "", stoa.Errorf(stoa.CodeInvalidValue, "The parameter %q is there twice. Send it once.", name).At(name)
	}
	return strings.Join(values, ""), nil
}

func pathParameter(r *http.Request) (drive.Path, error) {
	text, err := queryParameter(r, "path")
	if err != nil {
		return drive.Path{}, err
	}
	if text == "" && !r.URL.Query().Has("path") {
		return drive.Path{}, stoa.Errorf(stoa.CodeMissingParameter, "The parameter \"path\" is missing.").At("path")
	}
	return drive.ParsePath(text)
}

// mimeParameter is the media type that an upload says of itself. Two types are
// what programs send when they do not know; they say nothing.
func mimeParameter(r *http.Request) (string, error) {
	text, err := queryParameter(r, "mimeType")
	if err != nil || text != "" {
		if err == nil {
			text, err = drive.ParseMime(text)
		}
		return text, err
	}
	t, err := drive.ParseMime(r.Header.Get("Content-Type"))
	if err != nil {
		return "", stoa.AsError(err).At("Content-Type")
	}
	switch bare, _, _ := mime.ParseMediaType(t); bare {
	case "application/octet-stream", "application/x-www-form-urlencoded":
		return "", nil
	}
	return t, nil
}
