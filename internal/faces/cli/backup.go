package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"stoa/internal/agents/drive"
	"stoa/internal/base/config"
	"stoa/internal/base/db"
	"stoa/internal/base/seal"
	"stoa/internal/base/store"
	"stoa/internal/base/vault"
	"stoa/internal/faces/app"
	"stoa/internal/operate/backup"
)

var errPgDump = errors.New("this store is on PostgreSQL: use pg_dump and pg_restore, see docs/nodes.md")

func (e *env) backup() *cobra.Command {
	c := &cobra.Command{
		Use: "backup FILE", Short: "Back up the data directory, even while the server runs", Args: oneArg("FILE"),
		Long: `Write a consistent snapshot of the data directory to a new tar file. A server on that directory keeps running
and is not blocked.

The file contains all data of the service, including hashes of keys (secrets of keys are never stored):
protect it like the data directory. The keys that encrypt stored secrets and seal reasoning are not in the file;
their names are printed. Use pg_dump to back up a store on PostgreSQL.`,
		Example: "  stoa backup --data /var/lib/stoa /backups/stoa-$(date +%F).tar",
	}
	load := e.storeSettings(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		cfg, err := embedded(load)
		if err != nil {
			return err
		}
		if err := hasStore(cfg); err != nil {
			return err
		}
		version, _ := build()
		m, err := backup.Create(c.Context(), cfg.Data, args[0], version, app.KeysOf(cfg)...)
		if err != nil {
			return err
		}
		if err := e.describe("Wrote "+args[0], m); err != nil || len(m.Keys) == 0 {
			return err
		}
		_, err = fmt.Fprintf(e.out, "These keys are not in the file, so keep copies of them elsewhere: %s.\n", strings.Join(m.Keys, ", "))
		return err
	}
	return c
}

func (e *env) restore() *cobra.Command {
	c := &cobra.Command{
		Use: "restore FILE", Short: "Restore a backup into the data directory of a stopped server", Args: oneArg("FILE"),
		Long: `Restore a backup into the data directory. Every hash is checked, and the copy is opened and its books are
verified before it is moved into place; a copy without accounts, or with tables or triggers that this program
does not create, is rejected. A non-empty directory is rejected without --force; with it, the existing
databases are kept in a directory "replaced-…" next to the new ones.

A backup contains no keys: the ones that stored secrets need and that are missing here are printed by name.

Inconsistent rows of the books are printed as by "stoa ledger verify", and the exit code is then 1; the backup
is restored regardless.`,
		Example: "  stoa restore --data /var/lib/stoa /backups/stoa-2026-11-20.tar",
	}
	load := e.storeSettings(c)
	force := c.Flags().Bool("force", false, "replace the content of the data directory")
	c.RunE = func(c *cobra.Command, args []string) error {
		cfg, err := embedded(load)
		if err != nil {
			return err
		}
		r, err := backup.Restore(c.Context(), cfg.Data, args[0], *force, drive.Migrations(false))
		if r.Replaced != "" {
			fmt.Fprintf(e.err, "The previous content is in %s; delete it when it is no longer needed.\n", r.Replaced)
		}
		if err != nil {
			return err
		}
		if err := e.describe("Restored "+args[0]+" into "+cfg.Data, r.Manifest); err != nil {
			return err
		}
		if len(r.Differences) > 0 {
			if err := differences(e.out, r.Differences); err != nil {
				return err
			}
			return fmt.Errorf("%d rows of the restored books are inconsistent", len(r.Differences))
		}
		if _, err := fmt.Fprintln(e.out, "The books are consistent."); err != nil {
			return err
		}
		if len(r.Manifest.Keys) > 0 {
			if _, err := fmt.Fprintf(e.out, "These keys of the service are not in a backup: %s.\n", clean(strings.Join(r.Manifest.Keys, ", "))); err != nil {
				return err
			}
		}
		v, err := vault.Of(cfg)
		if err != nil {
			return err
		}
		return e.missingKeys(c.Context(), v, store.Config{Dir: cfg.Data, Durability: db.Durability(cfg.Durability)},
			"Add them to secrets.keys, or copy the file secrets.key of the service that was backed up into "+cfg.Data+", before the start.")
	}
	return c
}

// missingKeys prints the keys that the secrets of a store need and a vault does not have.
func (e *env) missingKeys(ctx context.Context, v *vault.Vault, at store.Config, advice string) error {
	st, err := store.Open(ctx, at)
	if err != nil {
		return err
	}
	found, _, err := v.Unreadable(ctx, st, 1_000_000)
	if err = errors.Join(err, st.Close()); err != nil || len(found) == 0 {
		return err
	}
	count := map[string]int{}
	for _, row := range found {
		count[seal.KeyOf(row.Sealed)]++
	}
	var names []string
	for _, name := range slices.Sorted(maps.Keys(count)) {
		names = append(names, fmt.Sprintf("%s (%s)", clean(name), some(count[name], "secret", "secrets")))
	}
	_, err = fmt.Fprintf(e.out, "Stored secrets cannot be decrypted without these keys, which are not here: %s. %s\n", strings.Join(names, ", "), advice)
	return err
}

func embedded(load func() (config.Config, error)) (config.Config, error) {
	cfg, err := load()
	if err != nil {
		return cfg, usageError{err}
	}
	if cfg.Database != "" {
		return cfg, errPgDump
	}
	return cfg, nil
}

func (e *env) describe(what string, m backup.Manifest) error {
	_, err := fmt.Fprintf(e.out, "%s: created %s by stoa %s.\n", what, m.CreatedAt.Format("2006-01-02 15:04:05 MST"), m.Version)
	for _, f := range m.Files {
		if err == nil {
			_, err = fmt.Fprintf(e.out, "  %-8s  %s  %d bytes\n", f.Name, f.SHA256, f.Bytes)
		}
	}
	return err
}

func oneArg(name string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) != 1 {
			return usagef("%s requires one %s; see %s --help", c.CommandPath(), name, c.CommandPath())
		}
		return nil
	}
}
