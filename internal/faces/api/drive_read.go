package api

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"stoa/internal/agents/drive"
	"stoa/internal/base/contract"
	"stoa/internal/base/rest"
	"stoa/internal/base/stoa"
)

func (s *Drive) getDriveFileContent(w http.ResponseWriter, in *rest.Request[idAnd[contract.GetDriveFileContentParams], rest.None]) error {
	r := in.HTTP
	who, path, err := s.fileOf(r.Context(), in.Caller, in.Params.ID, in.Params.Query.Path)
	if err != nil {
		return err
	}
	f, content, err := s.Drives.Open(r.Context(), who, path)
	if err != nil {
		return err
	}
	return sendFile(w, r, f, path.Base(), content, in.Params.Query.IfNoneMatch)
}

func sendFile(w http.ResponseWriter, r *http.Request, f drive.File, name string, content io.ReadSeeker, ifNoneMatch string) error {
	h := w.Header()
	h.Set("ETag", f.ETag())
	h.Set("Cache-Control", "private, no-cache")
	if hasTag(ifNoneMatch, f.SHA256) {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	first, length, part, err := wantedRange(r, f)
	if err != nil {
		h.Set("Content-Range", fmt.Sprintf("bytes */%d", f.Size))
		return err
	}
	attach(h, drive.Portable(name))
	h.Set("Content-Type", f.MimeType)
	h.Set("Accept-Ranges", "bytes")
	h.Set("Content-Length", strconv.FormatInt(length, 10))
	status := http.StatusOK
	if part {
		status = http.StatusPartialContent
		h.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", first, first+length-1, f.Size))
	}
	if _, err := content.Seek(first, io.SeekStart); err != nil {
		return err
	}
	if r.Method != http.MethodHead && length > 0 {
		// The first piece is read before the status is sent, because its bucket may not
		// answer. The content caches the piece.
		if _, err := content.Read(make([]byte, 1)); err != nil {
			return err
		}
		if _, err := content.Seek(first, io.SeekStart); err != nil {
			return err
		}
	}
	w.WriteHeader(status)
	if r.Method == http.MethodHead {
		return nil
	}
	return send(w, r, io.LimitReader(content, length))
}

func (s *Drive) getDriveFileText(w http.ResponseWriter, in *rest.Request[idAnd[contract.GetDriveFileTextParams], rest.None]) error {
	r := in.HTTP
	who, path, err := s.fileOf(r.Context(), in.Caller, in.Params.ID, in.Params.Query.Path)
	if err != nil {
		return err
	}
	_, sha256, size, text, err := s.Drives.Text(r.Context(), who, path)
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("ETag", `"`+sha256+`"`)
	h.Set("Cache-Control", "private, no-cache")
	if hasTag(in.Params.Query.IfNoneMatch, sha256) {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	attach(h, drive.Portable(path.Base())+".txt")
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Content-Length", strconv.FormatInt(size, 10))
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return nil
	}
	return send(w, r, text)
}

func (s *Drive) getDriveFilePage(w http.ResponseWriter, in *rest.Request[idAnd[contract.GetDriveFilePageParams], rest.None]) error {
	r, q := in.HTTP, in.Params.Query
	who, path, err := s.fileOf(r.Context(), in.Caller, in.Params.ID, q.Path)
	if err != nil {
		return err
	}
	to := cmp.Or(q.ToLine, q.FromLine)
	if to < q.FromLine || q.FromLine == 0 && to > 0 {
		return stoa.Errorf(stoa.CodeInvalidValue, "The lines to mark begin at fromLine, and toLine is not before it.").At("toLine")
	}
	of := drive.Picture{Page: q.Page, Width: cmp.Or(q.Width, 1000), FromLine: q.FromLine, ToLine: to}
	tag := func(f drive.File) string {
		return fmt.Sprintf("%s-%d-%d-%d-%d", f.SHA256, of.Page, of.Width, of.FromLine, of.ToLine)
	}
	h := w.Header()
	h.Set("Cache-Control", "private, no-cache")
	if q.IfNoneMatch != "" {
		f, err := s.Drives.Get(r.Context(), who, path)
		if err != nil {
			return err
		}
		if hasTag(q.IfNoneMatch, tag(f)) {
			h.Set("ETag", `"`+tag(f)+`"`)
			w.WriteHeader(http.StatusNotModified)
			return nil
		}
	}
	f, png, err := s.Drives.Picture(r.Context(), who, path, of)
	if err != nil {
		return err
	}
	h.Set("ETag", `"`+tag(f)+`"`)
	attach(h, fmt.Sprintf("%s-%d.png", drive.Portable(path.Base()), of.Page))
	h.Set("Content-Type", "image/png")
	h.Set("Content-Length", strconv.Itoa(len(png)))
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return nil
	}
	return send(w, r, bytes.NewReader(png))
}

func (s *Drive) exportDrive(w http.ResponseWriter, in *rest.Request[byID, rest.None]) error {
	r := in.HTTP
	who, err := s.driveOf(r.Context(), in.Caller, in.Params.ID)
	if err != nil {
		return err
	}
	export, err := s.Drives.Export(r.Context(), who)
	if err != nil {
		return err
	}
	attach(w.Header(), who.AgentID+".zip")
	w.Header().Set("Content-Type", "application/zip")
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return nil
	}
	if err := export.WriteZip(r.Context(), w); err != nil {
		if r.Context().Err() != nil {
			return stoa.ErrClientGone
		}
		return err
	}
	return nil
}

// attach marks a reply as a download, because content from agents and callers must not run in a browser on our origin.
func attach(h http.Header, name string) {
	h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": name}))
	h.Set("Content-Security-Policy", "sandbox; default-src 'none'; frame-ancestors 'none'")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
}

// send writes a content to the reply. It ignores a failed write, because a caller's disconnect is not our failure.
func send(w http.ResponseWriter, r *http.Request, content io.Reader) error {
	buf := make([]byte, 32<<10)
	for {
		n, err := content.Read(buf)
		if n > 0 {
			if _, err := w.Write(buf[:n]); err != nil {
				return stoa.ErrClientGone
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			if r.Context().Err() != nil {
				return stoa.ErrClientGone
			}
			return err
		}
	}
}

// wantedRange parses Range and If-Range (RFC 9110, 14). Unsupported values, such as
// several ranges, select the whole file.
func wantedRange(r *http.Request, f drive.File) (first, length int64, part bool, err error) {
	whole := func() (int64, int64, bool, error) { return 0, f.Size, false, nil }
	headers := r.Header["Range"]
	if len(headers) != 1 {
		return whole()
	}
	unit, spec, ok := strings.Cut(headers[0], "=")
	if !ok || !strings.EqualFold(strings.TrimSpace(unit), "bytes") || strings.Contains(spec, ",") {
		return whole()
	}
	if condition := r.Header.Get("If-Range"); condition != "" && condition != f.ETag() {
		return whole()
	}
	from, to, ok := strings.Cut(strings.TrimSpace(spec), "-")
	if !ok || !digits(from) || !digits(to) || from == "" && to == "" {
		return whole()
	}
	beyond := func() (int64, int64, bool, error) {
		return 0, 0, false, stoa.Errorf(stoa.CodeRange, "The range must begin before the end of the file, which has %d bytes.", f.Size).At("Range")
	}
	if from == "" { // the last n bytes
		n := number64(to)
		if n == 0 || f.Size == 0 {
			return beyond()
		}
		n = min(n, f.Size)
		return f.Size - n, n, true, nil
	}
	first, last := number64(from), f.Size-1
	if to != "" {
		if number64(to) < first {
			return whole()
		}
		last = min(last, number64(to))
	}
	if first >= f.Size {
		return beyond()
	}
	return first, last - first + 1, true, nil
}

func digits(s string) bool { return strings.Trim(s, "0123456789") == "" }

// number64 parses digits; numbers that are too large become the largest number.
func number64(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 1<<63 - 1
	}
	return n
}
