package drive

import (
	"archive/zip"
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"io"

	"stoa/internal/base/db"
)

// An Export lists the files of a drive at one moment, to be written as an archive.
type Export struct {
	Stats Stats

	d     *Drives
	who   Owner
	files []File
}

// Export lists the files of a drive. Their content is read by WriteZip.
func (d *Drives) Export(ctx context.Context, who Owner) (*Export, error) {
	e := &Export{d: d, who: who}
	err := d.db.Read(ctx, func(tx *db.Tx) error {
		row, err := findDrive(ctx, tx, who)
		if err != nil {
			return err
		}
		e.Stats, e.files = row.stats(), nil
		e.files, err = allFiles(ctx, tx, row.id)
		return err
	})
	return e, err
}

func allFiles(ctx context.Context, tx *db.Tx, driveID int64) ([]File, error) {
	var out []File
	err := tx.Query(ctx, func(rows *sql.Rows) error {
		f, err := scanFile(rows.Scan)
		out = append(out, f)
		return err
	}, `SELECT `+fileColumns+` FROM `+fileTables+` WHERE f.drive_id = $1 ORDER BY f.path`, driveID)
	return out, err
}

// WriteZip writes all files as a zip archive, in the order of their paths. It marks names that a
// system may treat specially with an underscore, because agents choose them. It keeps only one
// piece of one file in memory. After an error it writes no directory, so that readers report the
// archive as incomplete.
func (e *Export) WriteZip(ctx context.Context, w io.Writer) error {
	z := zip.NewWriter(w)
	buf := make([]byte, 32<<10)
	renamed := portable(e.files)
	for _, f := range e.files {
		h := &zip.FileHeader{Name: cmp.Or(renamed[f.Path], f.Path), Method: zip.Store, Modified: f.UpdatedAt}
		if f.textBlob == f.blob {
			h.Method = zip.Deflate
		}
		out, err := z.CreateHeader(h)
		if err != nil {
			return fmt.Errorf("export %q: %w", f.Path, err)
		}
		n, err := io.CopyBuffer(out, struct{ io.Reader }{e.d.content(ctx, e.who, f.blob, f.Size)}, buf)
		if err == nil && n != f.Size {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return fmt.Errorf("export %q: %w", f.Path, err)
		}
	}
	return z.Close()
}
