package cli

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"stoa/internal/agents/drive"
	"stoa/internal/base/db"
	"stoa/internal/base/store"
	"stoa/internal/base/vault"
	"stoa/internal/operate/backup"
)

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
		progress := &copyProgress{e: e, line: e.progress()}
		o := backup.CopyOptions{From: storeAt(*from), To: storeAt(*to), Drives: drive.Tables(), ReplaceText: *replace, Progress: progress.show}
		log := slog.New(slog.NewTextHandler(e.err, &slog.HandlerOptions{Level: slog.LevelWarn}))
		o.From.Logger, o.To.Logger = log, log
		done, err := backup.Copy(c.Context(), o)
		progress.line.done()
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

// copyProgress overwrites one line on a terminal. Elsewhere it prints a line for each table, and periodic lines for
// large ones.
type copyProgress struct {
	e      *env
	line   *progress
	began  time.Time // start of the table, or of its last line
	tables int
	rows   int64 // of the complete tables
}

func (p *copyProgress) show(table string, rows int64, done bool) {
	if isTerminal(p.e.err) {
		p.line.show("%s · %s · %s", some(p.tables, "table", "tables"), some(int(p.rows+rows), "row", "rows"), table)
		if done {
			p.tables++
			p.rows += rows
		}
		return
	}
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
