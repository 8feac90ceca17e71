package session

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
)

// Uploads are the attachments of a message.
type Uploads struct {
	IDs    []string
	ChatID string // empty for uploads of the account
}

// attach moves uploads to a session, and returns the attachments of a message. It renames them where needed, so that names
// differ within the session. The error of an upload is at "attachments[i]".
func attach(ctx context.Context, tx *store.Tx, accountID, agentID, sessionID string, u Uploads) ([]stoa.Attachment, error) {
	if len(u.IDs) == 0 {
		return nil, nil
	}
	earlier, err := tx.Work().Attachments(ctx, sessionID)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, m := range earlier {
		for _, f := range m.Files {
			names = append(names, f.Name)
		}
	}
	if len(names)+len(u.IDs) > stoa.MaxSessionAttachments {
		return nil, stoa.Errorf(stoa.CodeTooManyAttachments, "The messages of a session have at most %d files together. Start another session.", stoa.MaxSessionAttachments).At("attachments")
	}
	var files []stoa.Attachment
	for i, id := range u.IDs {
		up, err := tx.Work().AttachUpload(ctx, accountID, agentID, u.ChatID, id, sessionID)
		if stoa.CodeOf(err) == stoa.CodeUploadExpired {
			err = stoa.AsError(err).At(fmt.Sprintf("attachments[%d].uploadId", i))
		}
		if err != nil {
			return nil, err
		}
		name := unusedName(up.Name, names)
		names = append(names, name)
		files = append(files, stoa.Attachment{ID: up.ID, Name: name, Path: up.Name, MimeType: up.MimeType, Size: up.Size, SHA256: up.SHA256})
	}
	return files, nil
}

func unusedName(name string, used []string) string {
	ending := path.Ext(name)
	base := strings.TrimSuffix(name, ending)
	for n, try := 2, name; ; n++ {
		if !slices.Contains(used, try) {
			return try
		}
		try = fmt.Sprintf("%s (%d)%s", base, n, ending)
	}
}

// Attachments lists the files of a session's messages.
func (s *Sessions) Attachments(ctx context.Context, accountID, agentID, id string) (files []store.MessageAttachments, err error) {
	err = s.read(ctx, accountID, agentID, id, func(tx *store.Tx, _ stoa.Session) (err error) {
		files, err = tx.Work().Attachments(ctx, id)
		return err
	})
	return files, err
}
