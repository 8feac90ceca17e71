package api

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/oapi-codegen/nullable"

	"stoa/internal/agents/drive"
	"stoa/internal/agents/embed"
	"stoa/internal/agents/session"
	"stoa/internal/base/contract"
	"stoa/internal/base/extract"
	"stoa/internal/base/media"
	"stoa/internal/base/rest"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
)

func (s *Drive) createUpload(w http.ResponseWriter, in *rest.Request[idAnd[contract.CreateUploadParams], rest.None]) error {
	ctx := in.HTTP.Context()
	who, err := s.driveOf(ctx, in.Caller, in.Params.ID)
	if err != nil {
		return err
	}
	mimeType, err := uploadType(in.Params.Query.MimeType, in.HTTP.Header.Get("Content-Type"))
	if err != nil {
		return err
	}
	content, err := s.stage(in.HTTP, s.Drives.Limits().MaxFileBytes)
	if err != nil {
		return err
	}
	defer content.Close()
	up, status, err := s.storeUpload(ctx, stoa.Upload{AccountID: who.AccountID, AgentID: who.AgentID, Name: in.Params.Query.Name, MimeType: mimeType}, content, recordUpload, nil)
	return rest.Answer(w, rest.Reply[contract.Upload]{Status: http.StatusCreated, Body: contractUpload(up, status)}, err)
}

func (s *Drive) createEmbedUpload(w http.ResponseWriter, in VisitorRequest[chatAnd[contract.CreateEmbedUploadParams], rest.None]) error {
	ctx, e := in.HTTP.Context(), in.Visitor.Embed
	if e.Attachments == nil {
		return stoa.Errorf(stoa.CodeAttachmentType, "This chat accepts no files.")
	}
	content, err := s.stage(in.HTTP, min(e.Attachments.MaxBytes, s.Drives.Limits().MaxFileBytes))
	if err != nil {
		return err
	}
	defer content.Close()
	if kind := kindOf(in.Params.Query.Name, content.Head()); !slices.Contains(e.Attachments.Types, kind) {
		return stoa.Errorf(stoa.CodeAttachmentType, "This chat does not accept this kind of file, only: %s.", strings.Join(e.Attachments.Types, ", "))
	}
	up, status, err := s.storeUpload(ctx, stoa.Upload{AccountID: e.AccountID, AgentID: e.AgentID, ChatID: e.ChatID, Name: in.Params.Query.Name}, content,
		func(ctx context.Context, tx *store.Tx, up stoa.Upload) (stoa.Upload, error) {
			return s.embeds.Upload(ctx, tx, in.Visitor, up, s.Drives.Limits().MaxAccountBytes/visitorsShare)
		}, func(ctx context.Context, tx *store.Tx, up stoa.Upload) error {
			return s.embeds.Uploaded(ctx, tx, in.Visitor, up)
		})
	return rest.Answer(w, rest.Reply[contract.Upload]{Status: http.StatusCreated, Body: contractUpload(up, status)}, err)
}

// visitorsShare limits the files of visitors to a quarter of an account's drives, because they would otherwise keep its
// owner from writing.
const visitorsShare = 4

// kindOf returns the kind of a file by its first bytes and its ending, or an empty string if no
// embed can accept the file.
func kindOf(name string, head []byte) string {
	found := http.DetectContentType(head)
	switch {
	case media.IsImage(head):
		return stoa.AttachImage
	case bytes.HasPrefix(head, []byte("%PDF-")):
		return stoa.AttachPDF
	case strings.HasPrefix(found, "text/html"), extract.IsDocument(name, head):
		return stoa.AttachDocument
	case strings.HasPrefix(found, "text/"):
		return stoa.AttachText
	}
	return ""
}

func (s *Drive) stage(r *http.Request, limit int64) (*drive.Content, error) {
	if encoding := r.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return nil, stoa.Errorf(stoa.CodeMediaType, "Content-Encoding is not supported: send the file uncompressed.").At("Content-Encoding")
	}
	if r.ContentLength > limit {
		return nil, largeFile(limit)
	}
	content, err := s.Drives.Stage(r.Body)
	if err != nil {
		if _, ok := errors.AsType[*stoa.Error](err); ok {
			return nil, err
		}
		return nil, rest.ReadError(err)
	}
	if content.Size() > limit { // because the length was not announced
		return nil, errors.Join(content.Close(), largeFile(limit))
	}
	return content, nil
}

func largeFile(limit int64) *stoa.Error {
	return stoa.Errorf(stoa.CodeTooLarge, "The file is larger than %s, the limit of one file.", stoa.Size(limit))
}

// storeUpload calls record to store the row of an upload, stores its content in its own drive, calls done,
// which may be nil, with the row, and returns the status of its text. The row comes first, because
// storing reads documents, which costs far more than a refusal. If storing fails, this function or a
// sweep removes the row and the drive.
func (s *Drive) storeUpload(ctx context.Context, up stoa.Upload, content *drive.Content, record func(context.Context, *store.Tx, stoa.Upload) (stoa.Upload, error), done func(context.Context, *store.Tx, stoa.Upload) error) (stoa.Upload, extract.Status, error) {
	name, err := drive.ParsePath(up.Name)
	if err == nil && name.Base() != name.String() {
		err = stoa.Errorf(stoa.CodeInvalidPath, "The name of a file must not contain a folder.")
	}
	if err != nil {
		return up, "", stoa.AsError(err).At("name")
	}
	if head := content.Head(); media.IsImage(head) {
		up.MimeType = http.DetectContentType(head)
	}
	up.ID, up.Size = stoa.NewID("upl"), content.Size()
	if up, err = store.Write(ctx, s.Store, func(tx *store.Tx) (stoa.Upload, error) { return record(ctx, tx, up) }); err != nil {
		return up, "", err
	}
	who := drive.Owner{AccountID: up.AccountID, AgentID: up.ID}
	change, err := s.Drives.Put(ctx, who, name, content, up.MimeType, drive.Condition{})
	if err == nil {
		up.Name, up.MimeType, up.Size, up.SHA256 = change.File.Path, change.File.MimeType, change.File.Size, change.File.SHA256
		err = s.Store.Write(ctx, func(tx *store.Tx) error {
			if err := tx.Work().FinishUpload(ctx, up); err != nil || done == nil {
				return err
			}
			return done(ctx, tx, up)
		})
	}
	if err == nil {
		return up, change.File.TextStatus, nil
	}
	ctx = context.WithoutCancel(ctx)
	err = errors.Join(err, s.Store.Write(ctx, func(tx *store.Tx) error { return tx.Work().DropUpload(ctx, up.AccountID, up.ID) }))
	if up.SHA256 != "" {
		err = errors.Join(err, s.Drives.Remove(ctx, who))
	}
	return up, "", err
}

func recordUpload(ctx context.Context, tx *store.Tx, up stoa.Upload) (stoa.Upload, error) {
	return tx.Work().InsertUpload(ctx, up, store.VisitorQuota{})
}

// uploads returns the uploads of a message's attachments. It stores those whose content is in the request.
func (s *Drive) uploads(ctx context.Context, c stoa.Caller, agentID string, list nullable.Nullable[[]contract.AddAttachment]) (session.Uploads, error) {
	var out session.Uploads
	if files := orZero(list); len(files) > 0 {
		if _, err := s.driveOf(ctx, c, agentID); err != nil {
			return out, err
		}
	}
	for i, a := range orZero(list) {
		at := func(member string) string { return fmt.Sprintf("attachments[%d].%s", i, member) }
		id, inPlace := orZero(a.UploadID), a.Content.IsSpecified() && !a.Content.IsNull()
		switch {
		case id != "" && (inPlace || orZero(a.Name) != ""):
			return out, stoa.Errorf(stoa.CodeInvalidValue, "Send either \"uploadId\", or \"name\" and \"content\".").At(at("uploadId"))
		case id != "":
			out.IDs = append(out.IDs, id)
			continue
		case !inPlace:
			return out, stoa.Errorf(stoa.CodeMissingParameter, "Send \"uploadId\", or \"name\" and \"content\".").At(at("uploadId"))
		case orZero(a.Name) == "":
			return out, stoa.Errorf(stoa.CodeMissingParameter, "The name of the file is missing.").At(at("name"))
		}
		content := []byte(orZero(a.Content))
		if orZero(a.Encoding) == "base64" {
			var err error
			if content, err = base64.StdEncoding.DecodeString(string(content)); err != nil {
				return out, stoa.Errorf(stoa.CodeInvalidValue, "The content must be base64.").At(at("content"))
			}
		}
		if limit := s.Drives.Limits().MaxFileBytes; int64(len(content)) > limit {
			return out, largeFile(limit).At(at("content"))
		}
		up, _, err := s.storeUpload(ctx, stoa.Upload{AccountID: c.Account.ID, AgentID: agentID, Name: orZero(a.Name)}, drive.BytesContent(content), recordUpload, nil)
		if e := (*stoa.Error)(nil); errors.As(err, &e) && e.Param == "name" {
			err = e.At(at("name"))
		}
		if err != nil {
			return out, err
		}
		out.IDs = append(out.IDs, up.ID)
	}
	return out, nil
}

func contractUpload(u stoa.Upload, status extract.Status) contract.Upload {
	return contract.Upload{TextStatus: string(status), ID: u.ID, Object: "upload", Name: u.Name, MimeType: u.MimeType, Size: u.Size, Sha256: u.SHA256, ExpiresAt: contract.Time(u.ExpiresAt)}
}

func contractAttachments(files []stoa.Attachment) (list []contract.Attachment) {
	for _, f := range files {
		list = append(list, contract.Attachment{ID: f.ID, Name: f.Name, MimeType: f.MimeType, Size: f.Size, Sha256: f.SHA256})
	}
	return list
}

func (s *Drive) listAttachments(ctx context.Context, in rest.Request[bySessionID, rest.None]) (rest.Reply[contract.SessionAttachmentList], error) {
	out := contract.SessionAttachmentList{Data: []contract.SessionAttachment{}}
	list, err := s.Sessions.Attachments(ctx, in.Caller.Account.ID, in.Params.ID, in.Params.SessionID)
	for _, m := range list {
		for _, f := range m.Files {
			out.Data = append(out.Data, contract.SessionAttachment{
				ID: f.ID, Name: f.Name, MimeType: f.MimeType, Size: f.Size, Sha256: f.SHA256, MessageID: m.Message.ID, CreatedAt: contract.Time(m.Message.CreatedAt),
			})
		}
	}
	return rest.Reply[contract.SessionAttachmentList]{Body: out}, err
}

type getAttachmentContentParams struct {
	bySessionID
	UploadID string `path:"uploadId"`
	contract.GetAttachmentContentParams
}

func (s *Drive) getAttachmentContent(w http.ResponseWriter, in *rest.Request[getAttachmentContentParams, rest.None]) error {
	ctx, accountID := in.HTTP.Context(), in.Caller.Account.ID
	list, err := s.Sessions.Attachments(ctx, accountID, in.Params.ID, in.Params.SessionID)
	if err != nil {
		return err
	}
	for _, m := range list {
		for _, f := range m.Files {
			if f.ID != in.Params.UploadID {
				continue
			}
			path, err := drive.ParsePath(f.Path)
			if err != nil {
				return err
			}
			file, content, err := s.Drives.Open(ctx, drive.Owner{AccountID: accountID, AgentID: f.ID}, path)
			if err != nil {
				return err
			}
			return sendFile(w, in.HTTP, file, f.Name, content, in.Params.IfNoneMatch)
		}
	}
	return stoa.Errorf(stoa.CodeFileNotFound, "This session has no such attachment.").At("uploadId")
}

func visitorAttachments(n nullable.Nullable[contract.EmbedAttachments]) *stoa.VisitorAttachments {
	a, err := n.Get()
	if err != nil {
		return nil
	}
	if enabled, err := a.Enabled.Get(); err != nil || !enabled {
		return nil
	}
	return embed.Attachments(orZero(a.MaxFiles), orZero(a.MaxBytes), orZero(a.Types))
}

func contractVisitorAttachments(a *stoa.VisitorAttachments) nullable.Nullable[contract.VisitorAttachments] {
	return nullIfNil(a, func(a stoa.VisitorAttachments) contract.VisitorAttachments {
		return contract.VisitorAttachments{MaxFiles: a.MaxFiles, MaxBytes: a.MaxBytes, Types: a.Types, Accept: fileTypes(a.Types)}
	})
}

func fileTypes(kinds []string) string {
	offered := map[string]string{
		stoa.AttachImage: "image/png,image/jpeg,image/webp,image/gif", stoa.AttachPDF: "application/pdf,.pdf",
		stoa.AttachText: "text/*,.md,.csv,.json,.log", stoa.AttachDocument: strings.Join(extract.DocumentEndings(), ","),
	}
	var list []string
	for _, kind := range kinds {
		list = append(list, offered[kind])
	}
	return strings.Join(list, ",")
}
