package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"stoa/internal/backup"
	"stoa/internal/config"
	"stoa/internal/drive"
)

// errPgDump is the error of backup and restore on PostgreSQL.
var errPgDump = errors.New("this store is on PostgreSQL: use pg_dump and pg_restore, see docs/operations.md")

func (e *env) backup() *cobra.Command {
	c := &cobra.Command{
		Use: "backup FILE", Short: "Back up the data directory, even while the server runs", Args: oneArg("FILE"),
		Long: `Write a consistent snapshot of the data directory to a new tar file. A server on that directory keeps running
and is not blocked.

The file contains all data of the service, including hashes of keys (secrets of keys are never stored):
protect it like the data directory. Use pg_dump to back up a store on PostgreSQL.`,
		Example: "  stoa backup --data /var/lib/stoa /backups/stoa-$(date +%F).tar",
	}
	load := e.settings(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		cfg, err := embedded(load)
		if err != nil {
			return err
		}
		if err := hasStore(cfg); err != nil {
			return err
		}
		version, _ := build()
		m, err := backup.Create(c.Context(), cfg.Data, args[0], version)
		if err != nil {
			return err
		}
		return e.describe("Wrote "+args[0], m)
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

Inconsistent rows of the books are printed as by "stoa ledger verify", and the exit code is then 1; the backup
is restored regardless.`,
		Example: "  stoa restore --data /var/lib/stoa /backups/stoa-2026-11-20.tar",
	}
	load := e.settings(c)
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
		_, err = fmt.Fprintln(e.out, "The books are consistent.")
		return err
	}
	return c
}

// embedded loads the settings and fails with errPgDump if the store is not
// SQLite.
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

// oneArg returns a check for exactly one argument.
func oneArg(name string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) != 1 {
			return usagef("%s requires one %s; see %s --help", c.CommandPath(), name, c.CommandPath())
		}
		return nil
	}
}
