package store

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"time"

	"stoa/internal/base/db"
	"stoa/internal/base/stoa"
)

// A ConfigVersion is an applied version of the managed settings.
type ConfigVersion struct {
	N         int64     `db:"n"`
	Body      string    `db:"body"`         // JSON; see package managed
	Changes   []string  `db:"changes,json"` // changes since the previous version
	Author    string    `db:"author"`       // the id of a key
	Note      string    `db:"note"`
	CreatedAt time.Time `db:"created_at"`
}

// A ConfigDraft is the draft of the next version.
type ConfigDraft struct {
	ID        int64     `db:"id"` // 1
	Body      string    `db:"body"`
	Base      int64     `db:"base"` // the version that it was made from
	Revision  int64     `db:"revision"`
	Author    string    `db:"author"`
	UpdatedAt time.Time `db:"updated_at"`
}

// A ConfigSecret is an encrypted key of a provider.
type ConfigSecret struct {
	ID        string    `db:"id"`
	Provider  string    `db:"provider"` // its name, followed by # and the id of the key if there are several
	Origin    string    `db:"origin"`   // the only origin to which it may be sent
	Sealed    string    `db:"sealed"`
	CreatedAt time.Time `db:"created_at"`
}

// MaxConfigVersions is the number of versions of the managed settings that are kept, since each stores
// the whole document.
const MaxConfigVersions = 1000

var (
	configVersions = newTable[ConfigVersion]("config_versions")
	configDrafts   = newTable[ConfigDraft]("config_draft")
	configSecrets  = newTable[ConfigSecret]("config_secrets")
)

// LatestConfig returns the number of the newest version of the managed settings; 0 means that
// there is none.
func (tx Operations) LatestConfig(ctx context.Context) (n int64, err error) {
	_, err = tx.Get(ctx, `SELECT COALESCE(MAX(n), 0) FROM config_versions`, nil, &n)
	return n, err
}

// ConfigVersion returns a version of the managed settings, or CodeNotFound. Version 0 is
// empty.
func (tx Operations) ConfigVersion(ctx context.Context, n int64) (ConfigVersion, error) {
	if n == 0 {
		return ConfigVersion{Body: "{}"}, nil
	}
	return configVersions.one(ctx, tx.Tx, stoa.Errorf(stoa.CodeNotFound, "There is no version %d of the settings.", n), `n = $1`, n)
}

// ConfigVersions lists up to limit versions before one, the newest first.
func (tx Operations) ConfigVersions(ctx context.Context, before int64, limit int) ([]ConfigVersion, error) {
	return list(ctx, tx.Tx, configVersions.scan, `SELECT `+configVersions.columns+` FROM config_versions WHERE n < $1 ORDER BY n DESC LIMIT $2`, before, limit)
}

// InsertConfig adds a version after the one that it was made from, and removes the draft and the
// versions beyond [MaxConfigVersions]. If another version was added since, it fails with
// CodeConflict. It needs [Operations.LockConfig].
func (tx Operations) InsertConfig(ctx context.Context, base int64, v ConfigVersion) (ConfigVersion, error) {
	v.N, v.CreatedAt = base+1, tx.Now
	latest, err := tx.LatestConfig(ctx)
	if err != nil {
		return v, err
	}
	if latest != base {
		return v, stoa.Errorf(stoa.CodeConflict, "Version %d was applied in the meantime. Read the settings again, and repeat your change.", latest)
	}
	if _, err := configVersions.insert(ctx, tx.Tx, &v, ""); err != nil {
		return v, err
	}
	return v, tx.purgeConfig(ctx, v)
}

// purgeConfig removes the versions that are too old, the draft, and the keys that only they
// contained, since an unused secret must not stay. v is the newest version.
func (tx Operations) purgeConfig(ctx context.Context, v ConfigVersion) error {
	gone, err := list(ctx, tx.Tx, configVersions.scan, `SELECT `+configVersions.columns+` FROM config_versions WHERE n <= $1 ORDER BY n LIMIT 100`, v.N-MaxConfigVersions) // usually one
	if err != nil {
		return err
	}
	draft, _, err := tx.ConfigDraft(ctx)
	if err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, `DELETE FROM config_versions WHERE n <= $1`, v.N-MaxConfigVersions); err != nil {
		return err
	}
	if err := tx.DeleteConfigDraft(ctx); err != nil {
		return err
	}
	text := draft.Body
	for _, old := range gone {
		text += old.Body
	}
	ids := configSecretID.FindAllString(text, -1)
	slices.Sort(ids)
	for _, id := range slices.Compact(ids) {
		if strings.Contains(v.Body, id) {
			continue
		}
		if _, err := tx.Exec(ctx, `DELETE FROM config_secrets WHERE id = $1 AND NOT EXISTS (SELECT 1 FROM config_versions v WHERE v.body LIKE '%' || config_secrets.id || '%')`, id); err != nil {
			return err
		}
	}
	return nil
}

var configSecretID = regexp.MustCompile(`pky_[0-9a-z]+`)

// ConfigDraft returns the draft, and whether there is one.
func (tx Operations) ConfigDraft(ctx context.Context) (ConfigDraft, bool, error) {
	return configDrafts.first(ctx, tx.Tx, `id = 1`)
}

// LockConfig makes other transactions that change the draft or add a version wait until this one
// ends, since a row that does not exist yet cannot be locked.
func (tx Operations) LockConfig(ctx context.Context) error {
	return tx.lockText(ctx, "managed settings")
}

// SetConfigDraft writes the draft and returns it with its revision, which differs from those of
// removed drafts, so that a condition on one of them fails. It needs [Operations.LockConfig].
func (tx Operations) SetConfigDraft(ctx context.Context, d ConfigDraft) (ConfigDraft, error) {
	old, _, err := tx.ConfigDraft(ctx)
	if err != nil {
		return d, err
	}
	d.ID, d.UpdatedAt, d.Revision = 1, tx.Now, max(old.Revision+1, db.Micros(tx.Now))
	if _, err = configDrafts.insert(ctx, tx.Tx, &d, ` ON CONFLICT (id) DO UPDATE SET `+configDrafts.excluded()); err != nil {
		return d, err
	}
	return d, tx.forgetConfigSecrets(ctx)
}

// DeleteConfigDraft removes the draft, if there is one.
func (tx Operations) DeleteConfigDraft(ctx context.Context) error {
	if _, err := tx.Exec(ctx, `DELETE FROM config_draft WHERE id = 1`); err != nil {
		return err
	}
	return tx.forgetConfigSecrets(ctx)
}

// forgetConfigSecrets removes the keys that only an earlier draft contained: those newer than the
// newest version that no version and no draft contains.
func (tx Operations) forgetConfigSecrets(ctx context.Context) error {
	_, err := tx.Exec(ctx, `DELETE FROM config_secrets WHERE created_at >= (SELECT COALESCE(MAX(created_at), 0) FROM config_versions)
		AND NOT EXISTS (SELECT 1 FROM config_draft d WHERE d.body LIKE '%' || config_secrets.id || '%')
		AND NOT EXISTS (SELECT 1 FROM config_versions v WHERE v.body LIKE '%' || config_secrets.id || '%')`)
	return err
}

// InsertConfigSecret adds an encrypted key. The caller sets its id, because the encryption includes it.
func (tx Operations) InsertConfigSecret(ctx context.Context, s ConfigSecret) error {
	s.CreatedAt = tx.Now
	_, err := configSecrets.insert(ctx, tx.Tx, &s, "")
	return err
}

// ConfigSecret returns an encrypted key, or CodeNotFound.
func (tx Operations) ConfigSecret(ctx context.Context, id string) (ConfigSecret, error) {
	return configSecrets.one(ctx, tx.Tx, stoa.Errorf(stoa.CodeNotFound, "There is no stored key %q.", id), `id = $1`, id)
}

// ReportConfig records the version of the managed settings that this process uses, and the reason
// why it does not use the newest one; empty if it does.
func (tx Operations) ReportConfig(ctx context.Context, version int64, problem string) error {
	_, err := tx.Exec(ctx, `UPDATE nodes SET config_version = $2, config_problem = $3 WHERE id = $1`, tx.s.node, version, problem)
	return err
}
