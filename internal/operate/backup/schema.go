package backup

import (
	"context"
	"database/sql"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"stoa/internal/base/db"
	"stoa/internal/base/store"
)

// checkSchemas migrates the databases in dir and compares each with an empty one from the same migrations,
// because a trigger, a view or a column that the migrations do not create could change the ledger
// while it looks right.
func checkSchemas(ctx context.Context, dir string, migrationsOf map[string]fs.FS) (err error) {
	reference := filepath.Join(dir, ".reference")
	if err := os.Mkdir(reference, 0o700); err != nil {
		return err
	}
	defer os.RemoveAll(reference)
	for _, name := range store.Files() {
		want, err := schema(ctx, db.Config{Dir: reference, File: name, Migrations: migrationsOf[name]})
		if err != nil {
			return err
		}
		got, err := schema(ctx, db.Config{Dir: dir, File: name, Migrations: migrationsOf[name]})
		if err != nil {
			return err
		}
		for _, object := range slices.Sorted(maps.Keys(got)) {
			if columns, known := want[object]; !known {
				return fmt.Errorf("%s has a %s, which this program does not create; use an unmodified backup", name, object)
			} else if columns != got[object] {
				return fmt.Errorf("the %s of %s is not as this program creates it; use an unmodified backup", object, name)
			}
		}
		for _, object := range slices.Sorted(maps.Keys(want)) {
			if _, there := got[object]; !there {
				return fmt.Errorf("%s has no %s; use an unmodified backup", name, object)
			}
		}
	}
	return nil
}

// schema returns the objects of a database by type and name, with the columns of a table or the SQL of a
// trigger or view. It omits the SQL of a table, because its comments differ between versions.
func schema(ctx context.Context, cfg db.Config) (objects map[string]string, err error) {
	d, err := db.Open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	err = d.Read(ctx, func(tx *db.Tx) error {
		objects = map[string]string{}
		var tables []string
		err := tx.Query(ctx, func(rows *sql.Rows) error {
			var kind, name, table, text string
			if err := rows.Scan(&kind, &name, &table, &text); err != nil {
				return err
			}
			object := fmt.Sprintf("%s %q on %q", kind, name, table)
			if kind == "table" {
				object = fmt.Sprintf("table %q", name)
				tables = append(tables, name)
			}
			if kind == "trigger" || kind == "view" {
				objects[object] = text
			} else {
				objects[object] = ""
			}
			return nil
		}, `SELECT type, name, tbl_name, COALESCE(sql, '') FROM sqlite_schema WHERE name NOT LIKE 'sqlite\_stat%' ESCAPE '\'`)
		if err != nil {
			return err
		}
		for _, table := range tables {
			columns := ""
			if err := tx.Query(ctx, func(rows *sql.Rows) error {
				var name, kind, def string
				var notNull, key, hidden int
				err := rows.Scan(&name, &kind, &notNull, &def, &key, &hidden)
				columns += fmt.Sprintf("%q %s %d %s %d %d\n", name, kind, notNull, def, key, hidden)
				return err
			}, `SELECT name, type, "notnull", COALESCE(dflt_value, ''), pk, hidden FROM pragma_table_xinfo($1)`, table); err != nil {
				return err
			}
			objects[fmt.Sprintf("table %q", table)] = columns
		}
		return nil
	})
	return objects, err
}
