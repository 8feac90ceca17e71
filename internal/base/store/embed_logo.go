package store

import (
	"context"

	"stoa/internal/base/db"
	"stoa/internal/base/stoa"
)

// MaxEmbedLogos is the maximum number of logos of an account.
const MaxEmbedLogos = 100

var embedLogos = newTable[stoa.EmbedLogo]("embed_logos")

func noLogo() *stoa.Error {
	return stoa.Errorf(stoa.CodeNotFound, "This account has no such logo.")
}

// InsertEmbedLogo adds a logo with its content in base64. ID and CreatedAt are set.
func (tx Setup) InsertEmbedLogo(ctx context.Context, l stoa.EmbedLogo, content string) (stoa.EmbedLogo, error) {
	if err := tx.within(ctx, MaxEmbedLogos, "", l.AccountID, l.AccountID, "logos in this account", `embed_logos WHERE account_id = $2`); err != nil {
		return l, err
	}
	l.ID, l.CreatedAt = stoa.NewID("lgo"), tx.Now
	_, err := embedLogos.insert(ctx, tx.Tx, &l, "", "content", content)
	return l, err
}

// EmbedLogo returns a logo of an account, or CodeNotFound.
func (tx Setup) EmbedLogo(ctx context.Context, accountID, id string) (stoa.EmbedLogo, error) {
	return embedLogos.one(ctx, tx.Tx, noLogo(), `account_id = $1 AND id = $2`, accountID, id)
}

// EmbedLogos lists the logos of an account.
func (tx Setup) EmbedLogos(ctx context.Context, accountID string, p Page) ([]stoa.EmbedLogo, bool, error) {
	return embedLogos.page(ctx, tx.Tx, p, `account_id = $1`, accountID)
}

// EmbedLogoContent returns the type and the content, in base64, of a logo. It may belong to any account,
// because its id is public. A missing logo is CodeNotFound.
func (tx Setup) EmbedLogoContent(ctx context.Context, id string) (mimeType, content string, err error) {
	found, err := tx.Get(ctx, `SELECT mime_type, content FROM embed_logos WHERE id = $1`, []any{id}, &mimeType, &content)
	if err == nil && !found {
		err = stoa.Errorf(stoa.CodeNotFound, "This logo does not exist.")
	}
	return mimeType, content, err
}

// DeleteEmbedLogo removes a logo, also from the script tags that use it. It fails with
// CodeNotFound if the logo does not exist.
func (tx Setup) DeleteEmbedLogo(ctx context.Context, accountID, id string) error {
	n, err := tx.Exec(ctx, `DELETE FROM embed_logos WHERE account_id = $1 AND id = $2`, accountID, id)
	if err == nil && n == 0 {
		err = noLogo()
	}
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `UPDATE embed_tags SET logo = '', revision = revision + 1, updated_at = $3 WHERE account_id = $1 AND logo = $2`, accountID, id, db.Micros(tx.Now))
	return err
}
