package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

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

func (e *env) migrate() *cobra.Command {
	c := command("migrate", "Migrate the tables to this program's version, without serving",
		`Migrate the tables as a start does, and exit: create missing tables and upgrade those of an earlier version. A
server on a data directory must be stopped; nodes on PostgreSQL can keep running. Tables of a newer program
are rejected.

With --check nothing is changed: it prints the pending migrations, and the exit code is 1 if there are any.
This is allowed while the server runs.`,
		"  stoa migrate --data /var/lib/stoa\n  stoa migrate --check --config /etc/stoa/stoa.yaml")
	load := e.storeSettings(c)
	check := c.Flags().Bool("check", false, "change nothing; exit with 1 if there are pending migrations")
	c.RunE = func(c *cobra.Command, _ []string) error {
		cfg, err := load()
		if err != nil {
			return usageError{err}
		}
		done, err := store.Migrate(c.Context(), store.Config{
			Dir: cfg.Data, PostgresURL: string(cfg.Database), Durability: db.Durability(cfg.Durability),
		}, drive.Tables(), *check)
		if err != nil {
			return err
		}
		todo := 0
		for _, m := range done {
			name := strings.TrimSuffix(m.File, ".db")
			text := fmt.Sprintf("The %s tables have the newest version, %d.", name, m.To)
			switch {
			case m.From == m.To:
			case *check && m.From == 0:
				text = fmt.Sprintf("The %s tables do not exist; a start creates version %d.", name, m.To)
			case *check:
				text = fmt.Sprintf("The %s tables have version %d; a start upgrades them to version %d.", name, m.From, m.To)
			case m.From == 0:
				text = fmt.Sprintf("Created the %s tables in version %d.", name, m.To)
			default:
				text = fmt.Sprintf("Upgraded the %s tables from version %d to version %d.", name, m.From, m.To)
			}
			if m.From != m.To {
				todo++
			}
			if _, err := fmt.Fprintln(e.out, text); err != nil {
				return err
			}
		}
		if *check && todo > 0 {
			return errors.New("there are pending migrations: run \"stoa migrate\", or start the server")
		}
		return nil
	}
	return c
}

func (e *env) copy() *cobra.Command {
	c := &cobra.Command{
		Use: "copy --from STORE --to STORE", Short: "Copy a whole store to another database", Args: noArgs,
		Long: `Copy all data of the service, including the content of drives, from a data directory to PostgreSQL, or back,
or to another store of the same kind. STORE is a directory or a postgres:// URL. The server must be stopped on
both; the source is not changed.

Every row is read back and compared with the source, and the books are verified on both sides, before the copy
can be used. If the copy is interrupted or differs, the exit code is 1 and a service refuses to start on it;
run the same command to start over. The target must otherwise be empty: a new directory, or a database or
schema (?search_path=…) without tables of a service.

Progress is printed on standard error. Do not put a password into the URL, because other users of the machine
can see it: use PGPASSWORD or ~/.pgpass.`,
		Example: "  stoa copy --from /var/lib/stoa --to postgres://stoa@db.example.com/stoa\n  stoa copy --from postgres://stoa@db.example.com/stoa --to ./data",
	}
	from := c.Flags().String("from", "", "the `store` to copy: a directory or a postgres:// URL")
	to := c.Flags().String("to", "", "the empty `store` to copy to")
	replace := c.Flags().Bool("replace-text", false, "replace characters that PostgreSQL cannot store by U+FFFD instead of failing")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if *from == "" || *to == "" {
			return usagef("--from and --to are required: a directory, or a postgres:// URL")
		}
		if *from == *to {
			return usagef("--from and --to name the same store")
		}
		progress := &copyProgress{e: e}
		o := backup.CopyOptions{From: storeAt(*from), To: storeAt(*to), Drives: drive.Tables(), ReplaceText: *replace, Progress: progress.show}
		log := slog.New(slog.NewTextHandler(e.err, &slog.HandlerOptions{Level: slog.LevelWarn}))
		o.From.Logger, o.To.Logger = log, log
		done, err := backup.Copy(c.Context(), o)
		if err != nil {
			return err
		}
		rows := int64(0)
		for _, t := range done.Tables {
			rows += t.To.Rows
		}
		if _, err := fmt.Fprintf(e.out, "Copied %d tables with %d rows; counts and hashes match on both sides.\n", len(done.Tables), rows); err != nil {
			return err
		}
		if len(done.Differences) > 0 {
			if err := differences(e.out, done.Differences); err != nil {
				return err
			}
			return fmt.Errorf("the copy is complete, but %d rows of the books are inconsistent, in the source and in the copy", len(done.Differences))
		}
		n := done.Size
		if _, err := fmt.Fprintf(e.out, "The books are consistent on both sides: %d accounts, %d grants, %d charges, %d leases.\n", n.Accounts, n.Grants, n.Charges, n.Leases); err != nil {
			return err
		}
		return e.missingKeys(c.Context(), new(vault.Vault), o.To, "Give the new service the same secrets.keys, under the same names; a key from the file secrets.key has the name shown here.")
	}
	return c
}

func storeAt(place string) store.Config {
	if strings.HasPrefix(place, "postgres://") || strings.HasPrefix(place, "postgresql://") {
		return store.Config{PostgresURL: place}
	}
	return store.Config{Dir: place}
}

const progressPause = 5 * time.Second

// copyProgress prints a line for each table, and periodic lines for large ones.
type copyProgress struct {
	e     *env
	began time.Time // start of the table, or of its last line
}

func (p *copyProgress) show(table string, rows int64, done bool) {
	p.began = cmp.Or(p.began, time.Now())
	switch {
	case done:
		fmt.Fprintf(p.e.err, "%s: %d rows\n", table, rows)
		p.began = time.Time{}
	case time.Since(p.began) > progressPause:
		fmt.Fprintf(p.e.err, "%s: %d rows so far\n", table, rows)
		p.began = time.Now()
	}
}
