package storetest

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"stoa/internal/agents/drive"
	"stoa/internal/base/db"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
)

// templates are the names of the template databases that this process has seen.
var templates struct {
	sync.Mutex
	core, all string
}

// templateOf returns the name of a database on a PostgreSQL server with the tables of a
// store, and of drives if drives is set. It is created once: its name identifies its
// migrations, and it stays on the server for the tests of other packages.
func templateOf(ctx context.Context, address string, drives bool) (name string, err error) {
	templates.Lock()
	defer templates.Unlock()
	known := &templates.core
	parts := []fs.FS{store.Migrations()}
	if drives {
		known = &templates.all
		parts = append(parts, drive.Migrations(true))
	}
	if *known != "" {
		return *known, nil
	}
	hash := sha256.New()
	for _, files := range parts {
		if err := hashFiles(hash, files); err != nil {
			return "", err
		}
	}
	name = fmt.Sprintf("stoa_template_%x", hash.Sum(nil)[:8])
	c, err := pgx.Connect(ctx, address)
	if err != nil {
		return "", fmt.Errorf("connect to PostgreSQL: %w", err)
	}
	defer c.Close(ctx)
	// The lock ends with the connection.
	if _, err := c.Exec(ctx, `SELECT pg_advisory_lock(hashtext('stoa template'), 0)`); err != nil {
		return "", err
	}
	var there bool
	if err := c.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM pg_database WHERE datname = $1)`, name).Scan(&there); err != nil {
		return "", err
	}
	if !there {
		if err := makeTemplate(ctx, address, name, drives); err != nil {
			return "", err
		}
	}
	*known = name
	return name, nil
}

// prepared returns the files of a SQLite store with empty tables, by name. Creating the tables
// takes longer than most tests, especially with the race detector.
var prepared = sync.OnceValues(func() (files map[string][]byte, err error) {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	files = map[string][]byte{}
	for name, migrations := range map[string]fs.FS{"core.db": store.Migrations(), "drive.db": drive.Migrations(false)} {
		d, err := db.Open(context.Background(), db.Config{Dir: dir, File: name, Migrations: migrations, Durability: db.Process})
		if err == nil {
			err = d.Close()
		}
		if err == nil {
			files[name], err = os.ReadFile(filepath.Join(dir, name))
		}
		if err != nil {
			return nil, fmt.Errorf("prepare %s: %w", name, err)
		}
	}
	return files, nil
})

// hashFiles adds the names and contents of all files to a hash.
func hashFiles(hash interface{ Write([]byte) (int, error) }, files fs.FS) error {
	return fs.WalkDir(files, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := fs.ReadFile(files, path)
		fmt.Fprintf(hash, "%s %d\n%s", path, len(text), text)
		return err
	})
}

// makeTemplate makes a database whole before it gets its name.
func makeTemplate(ctx context.Context, address, name string, drives bool) error {
	made, drop, err := create(ctx, address, "template0")
	if err != nil {
		return err
	}
	if drives {
		_, err = store.Migrate(ctx, store.Config{PostgresURL: made}, drive.Tables(), false)
	} else {
		err = coreTables(ctx, made)
	}
	if err == nil {
		err = run(ctx, address, "ALTER DATABASE "+nameOf(made)+" RENAME TO "+name)
	}
	if err != nil {
		return errors.Join(err, drop())
	}
	return nil
}

// coreTables creates the tables of a store without those of drives.
func coreTables(ctx context.Context, address string) error {
	d, err := db.Open(ctx, db.Config{File: "core.db", PostgresURL: address, Migrations: store.Migrations()})
	if err != nil {
		return err
	}
	return d.Close()
}

// create creates a copy of a database on a PostgreSQL server and returns its address.
// drop removes it.
func create(ctx context.Context, address, from string) (in string, drop func() error, err error) {
	u, err := url.Parse(address)
	if err != nil {
		return "", nil, fmt.Errorf("%s: %w", Env, err)
	}
	name := strings.ToLower(stoa.NewID("test"))
	// To copy its files takes a fifth of the time of logging its pages, the default.
	if err := run(ctx, address, "CREATE DATABASE "+name+" TEMPLATE "+from+" STRATEGY FILE_COPY"); err != nil {
		return "", nil, err
	}
	u.Path = "/" + name
	return u.String(), func() error { return run(context.Background(), address, "DROP DATABASE "+name+" WITH (FORCE)") }, nil
}

// nameOf returns the name of the database at an address.
func nameOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		panic(err) // create has set it
	}
	return strings.TrimPrefix(u.Path, "/")
}

// copyOf returns a new database for a test, a copy of a template.
func copyOf(t testing.TB, drives bool) Database {
	t.Helper()
	name, err := templateOf(context.Background(), os.Getenv(Env), drives)
	if err != nil {
		t.Fatal(err)
	}
	address, drop, err := create(context.Background(), os.Getenv(Env), name)
	return postgres(t, address, drop, err)
}
