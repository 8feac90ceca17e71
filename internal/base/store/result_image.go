package store

import (
	"context"
	"database/sql"

	"stoa/internal/base/stoa"
)

// InsertResultImages stores the images in the result of a call and returns their places. It deletes
// those of earlier turns, because no request reads them any more.
func (tx Work) InsertResultImages(ctx context.Context, c stoa.ExternalCall, images []*stoa.Media) (stored []stoa.ResultImage, err error) {
	if len(images) == 0 {
		return nil, nil
	}
	if _, err := tx.Exec(ctx, `DELETE FROM result_images WHERE session_id = $1 AND turn < $2`, c.SessionID, c.Turn); err != nil {
		return nil, err
	}
	for i, m := range images {
		s := stoa.ResultImage{Step: c.Step, Place: c.Place, Number: i, Type: m.Type, Width: m.Width, Height: m.Height, Bytes: int64(len(m.Base64)) * 3 / 4}
		_, err := tx.Exec(ctx, `INSERT INTO result_images (session_id, turn, step, place, number, mime_type, width, height, bytes, content) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`,
			c.SessionID, c.Turn, s.Step, s.Place, s.Number, s.Type, s.Width, s.Height, s.Bytes, m.Base64)
		if err != nil {
			return nil, err
		}
		stored = append(stored, s)
	}
	return stored, nil
}

// resultImages adds the images of a turn's results to its steps, without their content, because few
// requests need that.
func (tx Work) resultImages(ctx context.Context, sessionID string, turn int64, steps []stoa.Step) error {
	return tx.Query(ctx, func(rows *sql.Rows) error {
		var s stoa.ResultImage
		if err := rows.Scan(&s.Step, &s.Place, &s.Number, &s.Type, &s.Width, &s.Height, &s.Bytes); err != nil {
			return err
		}
		for i := range steps {
			if steps[i].Number == s.Step && s.Place < len(steps[i].Results) && steps[i].Results[s.Place] != nil {
				steps[i].Results[s.Place].Images = append(steps[i].Results[s.Place].Images, s)
			}
		}
		return nil
	}, `SELECT step, place, number, mime_type, width, height, bytes FROM result_images WHERE session_id = $1 AND turn = $2 ORDER BY step, place, number LIMIT $3`, sessionID, turn, maxResultImages)
}

// maxResultImages is the maximum number of images of a turn that are listed. It exceeds what its calls
// can return, so that none is missing.
const maxResultImages = 1000

// ResultImage returns an image in base64; empty if it no longer exists.
func (tx Work) ResultImage(ctx context.Context, sessionID string, turn int64, s stoa.ResultImage) (content string, err error) {
	_, err = tx.Get(ctx, `SELECT content FROM result_images WHERE session_id = $1 AND turn = $2 AND step = $3 AND place = $4 AND number = $5`,
		[]any{sessionID, turn, s.Step, s.Place, s.Number}, &content)
	return content, err
}
