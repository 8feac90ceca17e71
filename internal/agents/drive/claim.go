package drive

import (
	"fmt"
	"time"

	"stoa/internal/base/extract"
	"stoa/internal/base/jsonx"
)

// storedResult is the stored form of a [Result].
type storedResult struct {
	Revision int64          `json:"revision"`
	Changes  []storedChange `json:"changes"`
}

// storedChange is a [Change] in a stored result. Its member names must not change, because stored
// results of earlier versions contain them.
type storedChange struct {
	Outcome Outcome     `json:"outcome"`
	Path    string      `json:"path"`
	Count   int64       `json:"count,omitzero"`
	File    *storedFile `json:"file,omitzero"`
}

// storedFile is a [File] in a stored result, see [storedChange].
type storedFile struct {
	ID        string    `json:"id"`
	Path      string    `json:"path"`
	Size      int64     `json:"size"`
	MimeType  string    `json:"mimeType"`
	SHA256    string    `json:"sha256"`
	Text      bool      `json:"text"`
	Lines     int64     `json:"lines"`
	Version   int64     `json:"version"`
	CreatedAt time.Time `json:"createdAt"`
	UpdatedAt time.Time `json:"updatedAt"`

	TextStatus   extract.Status `json:"textStatus,omitzero"`
	TextNote     string         `json:"textNote,omitzero"`
	TextEncoding string         `json:"textEncoding,omitzero"`
	Pages        int64          `json:"pages,omitzero"`
}

func encodeResult(r Result) (string, error) {
	s := storedResult{Revision: r.Revision}
	for _, c := range r.Changes {
		sc := storedChange{Outcome: c.Outcome, Path: c.Path, Count: c.Count}
		if f := c.File; f != nil {
			sc.File = &storedFile{
				f.ID, f.Path, f.Size, f.MimeType, f.SHA256, f.Text, f.Lines, f.Version, f.CreatedAt, f.UpdatedAt,
				f.TextStatus, f.TextNote, f.TextEncoding, f.Pages,
			}
		}
		s.Changes = append(s.Changes, sc)
	}
	b, err := jsonx.Marshal(s)
	return string(b), err
}

func decodeResult(text string, into *Result) error {
	var s storedResult
	if err := jsonx.Unmarshal([]byte(text), &s); err != nil {
		return fmt.Errorf("read the result of an earlier write: %w", err)
	}
	*into = Result{Revision: s.Revision}
	for _, sc := range s.Changes {
		c := Change{Outcome: sc.Outcome, Path: sc.Path, Count: sc.Count}
		if f := sc.File; f != nil {
			c.File = &File{
				ID: f.ID, Path: f.Path, Size: f.Size, MimeType: f.MimeType, SHA256: f.SHA256, Text: f.Text,
				Lines: f.Lines, Version: f.Version, CreatedAt: f.CreatedAt, UpdatedAt: f.UpdatedAt,
				TextStatus: f.TextStatus, TextNote: f.TextNote, TextEncoding: f.TextEncoding, Pages: f.Pages,
			}
			if c.File.TextStatus == "" { // stored by an earlier version
				c.File.TextStatus = extract.None
				if f.Text {
					c.File.TextStatus = extract.Ready
				}
			}
		}
		into.Changes = append(into.Changes, c)
	}
	return nil
}
