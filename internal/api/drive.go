package api

import (
	"context"
	"slices"
	"strings"

	"github.com/oapi-codegen/nullable"

	"stoa/internal/contract"
	"stoa/internal/drive"
	"stoa/internal/stoa"
	"stoa/internal/store"
)

// driveOf finds whose drive a request means: the agent must be there, and be the
// caller's. The drive itself knows nothing of agents.
func (s *Server) driveOf(ctx context.Context, agentID string) (drive.Owner, error) {
	who := drive.Owner{AccountID: caller(ctx).Account.ID, AgentID: agentID}
	err := s.Store.Read(ctx, func(tx *store.Tx) error {
		_, err := tx.Agent(ctx, who.AccountID, who.AgentID)
		return err
	})
	return who, err
}

// GetDrive serves GET /api/v1/api-agents/{id}/drive.
func (s *Server) GetDrive(ctx context.Context, in contract.GetDriveRequestObject) (contract.GetDriveResponseObject, error) {
	who, err := s.driveOf(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	stats, err := s.Drives.Stats(ctx, who)
	if err != nil {
		return nil, err
	}
	limits := s.Drives.Limits()
	return contract.GetDrive200JSONResponse{
		AgentID: who.AgentID, Files: stats.Files, Bytes: stats.Bytes, HistoryFiles: stats.HistoryFiles, HistoryBytes: stats.HistoryBytes,
		Revision: stats.Revision, MaxFiles: limits.MaxFiles, MaxBytes: limits.MaxBytes, MaxFileBytes: limits.MaxFileBytes,
		UpdatedAt: unlessNever(stats.UpdatedAt),
	}, nil
}

// ListDriveFiles serves GET /api/v1/api-agents/{id}/drive/files.
func (s *Server) ListDriveFiles(ctx context.Context, in contract.ListDriveFilesRequestObject) (contract.ListDriveFilesResponseObject, error) {
	who, err := s.driveOf(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	page, err := s.Drives.List(ctx, who, drive.Listing{
		Prefix: in.Params.Prefix, Delimiter: in.Params.Delimiter, Desc: in.Params.Order == "desc",
		Limit: in.Params.Limit, Cursor: in.Params.Cursor,
	})
	if err != nil {
		return nil, err
	}
	out := contract.ListDriveFiles200JSONResponse{
		Data: []contract.DriveFile{}, CommonPrefixes: append([]string{}, page.Prefixes...),
		HasMore: page.Next != "", NextCursor: unlessZero(page.Next),
	}
	for _, f := range page.Files {
		out.Data = append(out.Data, contractFile(who, f))
	}
	return out, nil
}

// GetDriveFileMetadata serves GET /api/v1/api-agents/{id}/drive/files/metadata.
func (s *Server) GetDriveFileMetadata(ctx context.Context, in contract.GetDriveFileMetadataRequestObject) (contract.GetDriveFileMetadataResponseObject, error) {
	who, err := s.driveOf(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	path, err := drive.ParsePath(in.Params.Path)
	if err != nil {
		return nil, err
	}
	f, err := s.Drives.Get(ctx, who, path)
	if err != nil {
		return nil, err
	}
	if hasTag(in.Params.IfNoneMatch, f.SHA256) {
		return contract.GetDriveFileMetadata304Response{Headers: contract.GetDriveFileMetadata304ResponseHeaders{ETag: f.ETag()}}, nil
	}
	return contract.GetDriveFileMetadata200JSONResponse{
		Headers: contract.GetDriveFileMetadata200ResponseHeaders{ETag: f.ETag()},
		Body:    contractFile(who, f),
	}, nil
}

// DeleteDriveFiles serves DELETE /api/v1/api-agents/{id}/drive/files.
func (s *Server) DeleteDriveFiles(ctx context.Context, in contract.DeleteDriveFilesRequestObject) (contract.DeleteDriveFilesResponseObject, error) {
	who, err := s.driveOf(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	p := in.Params
	switch {
	case p.Path != "" && p.Prefix != "":
		return nil, stoa.Errorf(stoa.CodeInvalidValue, "Send either path, for one file, or prefix, for a folder.").At("prefix")
	case p.Path != "":
		path, err := drive.ParsePath(p.Path)
		if err != nil {
			return nil, err
		}
		_, err = s.Drives.Delete(ctx, who, path, drive.Condition{Match: matching(p.IfMatch)})
		return contract.DeleteDriveFiles204Response{}, err
	case p.Prefix != "" && !p.Recursive:
		return nil, stoa.Errorf(stoa.CodeMissingParameter, "Deleting a folder deletes all files in it: send recursive=true if that is what you want.").At("recursive")
	case p.Prefix != "" && p.IfMatch != "":
		return nil, stoa.Errorf(stoa.CodeInvalidValue, "If-Match names one file; a folder has no ETag.").At("If-Match")
	case p.Prefix != "":
		folder, err := drive.ParseFolder(p.Prefix)
		if err != nil {
			return nil, err
		}
		_, err = s.Drives.DeleteFolder(ctx, who, folder)
		return contract.DeleteDriveFiles204Response{}, err
	}
	return nil, stoa.Errorf(stoa.CodeMissingParameter, "Say what to delete: path for one file, or prefix and recursive=true for a folder.").At("path")
}

// ListDriveFileVersions serves GET /api/v1/api-agents/{id}/drive/files/versions.
func (s *Server) ListDriveFileVersions(ctx context.Context, in contract.ListDriveFileVersionsRequestObject) (contract.ListDriveFileVersionsResponseObject, error) {
	who, err := s.driveOf(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	path, err := drive.ParsePath(in.Params.Path)
	if err != nil {
		return nil, err
	}
	versions, err := s.Drives.Versions(ctx, who, path)
	if err != nil {
		return nil, err
	}
	out := contract.ListDriveFileVersions200JSONResponse{Data: []contract.DriveVersion{}}
	for _, v := range versions {
		out.Data = append(out.Data, contract.DriveVersion{
			Version: v.Number, Path: v.Path, Size: v.Size, MimeType: v.MimeType, Sha256: v.SHA256, Current: v.Current,
			CreatedAt: contract.Time(v.CreatedAt), RetiredAt: unlessNever(v.RetiredAt),
		})
	}
	return out, nil
}

// SearchDrive serves GET /api/v1/api-agents/{id}/drive/search.
func (s *Server) SearchDrive(ctx context.Context, in contract.SearchDriveRequestObject) (contract.SearchDriveResponseObject, error) {
	who, err := s.driveOf(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	hits, err := s.Drives.Search(ctx, who, in.Params.Q, in.Params.Prefix, in.Params.Limit)
	if err != nil {
		return nil, err
	}
	out := contract.SearchDrive200JSONResponse{Data: []contract.DriveHit{}}
	for _, h := range hits {
		out.Data = append(out.Data, contract.DriveHit{
			Path: h.Path, StartLine: h.FirstLine, EndLine: h.LastLine, Snippet: h.Snippet, Score: h.Score,
			Sha256: h.SHA256, MimeType: h.MimeType, Version: h.Version,
		})
	}
	return out, nil
}

func contractFile(who drive.Owner, f drive.File) contract.DriveFile {
	lines := nullable.NewNullNullable[int64]()
	if f.Text {
		lines = nullable.NewNullableWithValue(f.Lines)
	}
	return contract.DriveFile{
		ID: f.ID, AgentID: who.AgentID, Path: f.Path, Size: f.Size, MimeType: f.MimeType, Sha256: f.SHA256, Text: f.Text, Lines: lines,
		Version: f.Version, CreatedAt: contract.Time(f.CreatedAt), UpdatedAt: contract.Time(f.UpdatedAt),
	}
}

// tags reads the entity tags of a condition, without their quotes. Weak ones
// are marked by a W/ in front.
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

// matching reads an If-Match. Weak tags match nothing; nil is no condition.
func matching(header string) []string {
	if header == "" {
		return nil
	}
	return slices.DeleteFunc(tags(header), func(tag string) bool { return strings.HasPrefix(tag, "W/") })
}

// hasTag reports whether an If-None-Match names the content.
func hasTag(header, sha256 string) bool {
	return slices.ContainsFunc(tags(header), func(tag string) bool { return tag == "*" || strings.TrimPrefix(tag, "W/") == sha256 })
}
