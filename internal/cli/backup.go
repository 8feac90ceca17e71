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
		Use: "backup FILE", Short: "Copy the data directory into one file, beside a running server", Args: oneArg("FILE"),
		Long: `Copy all that the data directory holds, as it is at one moment, into a new tar file. A server on that
directory goes on working and does not wait.

The file holds everything that the service knows, hashes of keys included (secrets of keys are nowhere
stored): keep it as carefully as the data directory. A store on PostgreSQL is backed up with pg_dump.`,
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
		Use: "restore FILE", Short: "Put a backup into a data directory whose server is stopped", Args: oneArg("FILE"),
		Long: `Put a backup into the data directory. Every hash is checked, the copy is opened and its books are
verified before it takes its place; a copy without accounts, or with tables or triggers that this
program does not create, is refused. A directory that holds anything is refused without --force; with it,
the databases that were there are kept in a directory "replaced-…" beside the new ones.

Rows of the books that differ are printed as by "stoa ledger verify", and the exit code is then 1; the
backup is restored all the same.`,
		Example: "  stoa restore --data /var/lib/stoa /backups/stoa-2026-11-20.tar",
	}
	load := e.settings(c)
	force := c.Flags().Bool("force", false, "replace what the data directory holds")
	c.RunE = func(c *cobra.Command, args []string) error {
		cfg, err := embedded(load)
		if err != nil {
			return err
		}
		r, err := backup.Restore(c.Context(), cfg.Data, args[0], *force, drive.Migrations(false))
		if r.Replaced != "" {
			fmt.Fprintf(e.err, "What was there before is in %s; remove it when it is not needed.\n", r.Replaced)
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
			return fmt.Errorf("%d rows of the restored books differ from what the others add up to", len(r.Differences))
		}
		_, err = fmt.Fprintln(e.out, "The books are in order.")
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
	_, err := fmt.Fprintf(e.out, "%s: made %s by stoa %s.\n", what, m.CreatedAt.Format("2006-01-02 15:04:05 MST"), m.Version)
	for _, f := range m.Files {
		if err == nil {
			_, err = fmt.Fprintf(e.out, "  %-8s  %s  %d bytes\n", f.Name, f.SHA256, f.Bytes)
		}
	}
	return err
}

// oneArg returns the check that there is exactly one argument.
func oneArg(name string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) != 1 {
			return usagef("%s needs one %s; see %s --help", c.CommandPath(), name, c.CommandPath())
		}
		return nil
	}
}
