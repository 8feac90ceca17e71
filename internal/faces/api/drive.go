package api

import (
	"context"
	"slices"
	"strings"

	"stoa/internal/agents/drive"
	"stoa/internal/base/contract"
	"stoa/internal/base/rest"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
)

// driveOf returns the drive of a request. It checks that the agent exists and belongs to the caller,
// because package drive does not know about agents.
func (s *Drive) driveOf(ctx context.Context, c stoa.Caller, agentID string) (drive.Owner, error) {
	who := drive.Owner{AccountID: c.Account.ID, AgentID: agentID}
	err := s.Store.Read(ctx, func(tx *store.Tx) error {
		_, err := tx.Setup().Agent(ctx, who.AccountID, who.AgentID)
		return err
	})
	return who, err
}

func (s *Drive) fileOf(ctx context.Context, c stoa.Caller, agentID, text string) (drive.Owner, drive.Path, error) {
	who, err := s.driveOf(ctx, c, agentID)
	if err != nil {
		return who, drive.Path{}, err
	}
	path, err := drive.ParsePath(text)
	return who, path, err
}

func (s *Drive) getDrive(ctx context.Context, in rest.Request[byID, rest.None]) (rest.Reply[contract.Drive], error) {
	var reply rest.Reply[contract.Drive]
	who, err := s.driveOf(ctx, in.Caller, in.Params.ID)
	if err != nil {
		return reply, err
	}
	stats, err := s.Drives.Stats(ctx, who)
	limits := s.Drives.Limits()
	reply.Body = contract.Drive{
		AgentID: who.AgentID, Files: stats.Files, Bytes: stats.Bytes, HistoryFiles: stats.HistoryFiles, HistoryBytes: stats.HistoryBytes,
		Revision: stats.Revision, MaxFiles: limits.MaxFiles, MaxBytes: limits.MaxBytes, MaxFileBytes: limits.MaxFileBytes,
		UpdatedAt: nullIfNever(stats.UpdatedAt),
	}
	return reply, err
}

func (s *Drive) listDriveFiles(ctx context.Context, in rest.Request[idAnd[contract.ListDriveFilesParams], rest.None]) (rest.Reply[contract.DriveFileList], error) {
	var reply rest.Reply[contract.DriveFileList]
	who, err := s.driveOf(ctx, in.Caller, in.Params.ID)
	if err != nil {
		return reply, err
	}
	list, err := s.Drives.List(ctx, who, drive.Listing{
		Prefix: in.Params.Query.Prefix, Delimiter: in.Params.Query.Delimiter, Desc: in.Params.Query.Order == "desc",
		Limit: in.Params.Query.Limit, Cursor: in.Params.Query.Cursor,
	})
	reply.Body = contract.DriveFileList{
		Data: []contract.DriveFile{}, CommonPrefixes: append([]string{}, list.Prefixes...),
		HasMore: list.Next != "", NextCursor: nullIfZero(list.Next),
	}
	for _, f := range list.Files {
		reply.Body.Data = append(reply.Body.Data, contractFile(who, f))
	}
	return reply, err
}

func (s *Drive) getDriveFileMetadata(ctx context.Context, in rest.Request[idAnd[contract.GetDriveFileMetadataParams], rest.None]) (rest.Reply[contract.DriveFile], error) {
	who, path, err := s.fileOf(ctx, in.Caller, in.Params.ID, in.Params.Query.Path)
	if err != nil {
		return rest.Reply[contract.DriveFile]{}, err
	}
	f, err := s.Drives.Get(ctx, who, path)
	return unlessCurrent(in.Params.Query.IfNoneMatch, f.SHA256, contractFile(who, f)), err
}

func (s *Drive) deleteDriveFiles(ctx context.Context, in rest.Request[idAnd[contract.DeleteDriveFilesParams], rest.None]) (rest.Reply[rest.None], error) {
	who, err := s.driveOf(ctx, in.Caller, in.Params.ID)
	if err != nil {
		return rest.NoContent(), err
	}
	p := in.Params.Query
	switch {
	case p.Path != "" && p.Prefix != "":
		return rest.NoContent(), stoa.Errorf(stoa.CodeInvalidValue, "Send either path, for one file, or prefix, for a folder.").At("prefix")
	case p.Path != "":
		path, err := drive.ParsePath(p.Path)
		if err != nil {
			return rest.NoContent(), err
		}
		change, err := s.Drives.Delete(ctx, who, path, drive.Condition{Match: matching(p.IfMatch)})
		if err == nil && change.Outcome == drive.Unchanged {
			_, err = s.Drives.Versions(ctx, who, path) // because a path without versions never had a file
		}
		return rest.NoContent(), err
	case p.Prefix != "" && !p.Recursive:
		return rest.NoContent(), stoa.Errorf(stoa.CodeMissingParameter, "Deleting a folder deletes all files in it: send recursive=true to confirm.").At("recursive")
	case p.Prefix != "" && p.IfMatch != "":
		return rest.NoContent(), stoa.Errorf(stoa.CodeInvalidValue, "If-Match names one file; a folder has no ETag.").At("If-Match")
	case p.Prefix != "":
		folder, err := drive.ParseFolder(p.Prefix)
		if err != nil {
			return rest.NoContent(), err
		}
		change, err := s.Drives.DeleteFolder(ctx, who, folder)
		if err == nil && change.Outcome == drive.Unchanged {
			err = stoa.Errorf(stoa.CodeFileNotFound, "There are no files in the folder %q of this drive.", rest.ShortName(p.Prefix)).At("prefix")
		}
		return rest.NoContent(), err
	}
	return rest.NoContent(), stoa.Errorf(stoa.CodeMissingParameter, "Select what to delete: path for one file, or prefix and recursive=true for a folder.").At("path")
}

func (s *Drive) listDriveFileVersions(ctx context.Context, in rest.Request[idAnd[contract.ListDriveFileVersionsParams], rest.None]) (rest.Reply[contract.DriveVersionList], error) {
	reply := rest.Reply[contract.DriveVersionList]{Body: contract.DriveVersionList{Data: []contract.DriveVersion{}}}
	who, path, err := s.fileOf(ctx, in.Caller, in.Params.ID, in.Params.Query.Path)
	if err != nil {
		return reply, err
	}
	versions, err := s.Drives.Versions(ctx, who, path)
	for _, v := range versions {
		reply.Body.Data = append(reply.Body.Data, contract.DriveVersion{
			Version: v.Number, Path: v.Path, Size: v.Size, MimeType: v.MimeType, Sha256: v.SHA256, Current: v.Current,
			CreatedAt: contract.Time(v.CreatedAt), RetiredAt: nullIfNever(v.RetiredAt),
		})
	}
	return reply, err
}

func (s *Drive) searchDrive(ctx context.Context, in rest.Request[idAnd[contract.SearchDriveParams], rest.None]) (rest.Reply[contract.DriveSearchResult], error) {
	reply := rest.Reply[contract.DriveSearchResult]{Body: contract.DriveSearchResult{Data: []contract.DriveHit{}}}
	who, err := s.driveOf(ctx, in.Caller, in.Params.ID)
	if err != nil {
		return reply, err
	}
	found, err := s.Drives.Search(ctx, who, in.Params.Query.Q, in.Params.Query.Prefix, in.Params.Query.Limit)
	reply.Body.Cut = found.Cut
	for _, h := range found.Hits {
		reply.Body.Data = append(reply.Body.Data, contract.DriveHit{
			Path: h.Path, StartLine: h.FirstLine, EndLine: h.LastLine, Place: nullIfZero(h.Place), Snippet: h.Snippet, Score: h.Score,
			Sha256: h.SHA256, MimeType: h.MimeType, Version: h.Version,
		})
	}
	return reply, err
}

func contractFile(who drive.Owner, f drive.File) contract.DriveFile {
	return contract.DriveFile{
		ID: f.ID, AgentID: who.AgentID, Path: f.Path, Size: f.Size, MimeType: f.MimeType, Sha256: f.SHA256, Text: f.Text, Lines: nullUnless(f.Text, f.Lines),
		TextStatus: string(f.TextStatus), TextNote: nullIfZero(f.TextNote), TextEncoding: nullIfZero(f.TextEncoding), Pages: nullIfZero(f.Pages),
		Version: f.Version, CreatedAt: contract.Time(f.CreatedAt), UpdatedAt: contract.Time(f.UpdatedAt),
	}
}

// tags parses the entity tags of a condition, without their quotes. Weak ones have the
// prefix W/.
func tags(header string) []string {
	out := []string{}
	for tag := range strings.SplitSeq(header, ",") {
		tag = strings.TrimSpace(tag)
		weak := strings.HasPrefix(tag, "W/")
		tag = strings.Trim(strings.TrimPrefix(tag, "W/"), `"`)
		if weak {
			tag = "W/" + tag
		}
		if tag != "" {
			out = append(out, tag)
		}
	}
	return out
}

// matching parses an If-Match. Weak tags never match; nil means no condition.
func matching(header string) []string {
	if header == "" {
		return nil
	}
	return slices.DeleteFunc(tags(header), func(tag string) bool { return strings.HasPrefix(tag, "W/") })
}

func hasTag(header, sha256 string) bool {
	return slices.ContainsFunc(tags(header), func(tag string) bool { return tag == "*" || strings.TrimPrefix(tag, "W/") == sha256 })
}
