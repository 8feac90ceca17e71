package db_test

import (
	"context"
	"database/sql"
	"fmt"
	"testing"
	"testing/fstest"

	"stoa/internal/base/db"
)

// TestValuesAreStoredAsDatabaseSQLStoresThem writes values that the driver gets as they
// are, and others that database/sql converts.
func TestValuesAreStoredAsDatabaseSQLStoresThem(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	d := open(t, db.Config{Dir: t.TempDir(), Migrations: fstest.MapFS{"0001_all.sql": {Data: []byte(`-- +goose Up
CREATE TABLE many (n INTEGER PRIMARY KEY, v, w);
`)}}})
	type name string
	five := 5
	for i, c := range []struct {
		value any
		want  string
	}{
		{nil, "null <nil>"},
		{int64(-1 << 63), "integer -9223372036854775808"},
		{7, "integer 7"},
		{int32(8), "integer 8"},
		{true, "integer 1"},
		{1.5, "real 1.5"},
		{"", "text "},
		{"a\x00b", "text a\x00b"},
		{[]byte("ab"), "blob [97 98]"},
		{[]byte(nil), "null <nil>"},
		{name("c"), "text c"},
		{&five, "integer 5"},
		{sql.NullString{}, "null <nil>"},
		{sql.NullString{String: "d", Valid: true}, "text d"},
	} {
		exec(t, d, "INSERT INTO many (n, v, w) VALUES ($1, $2, $3)", i, c.value, "w")
		var kind, w string
		var v any
		err := d.Read(ctx, func(tx *db.Tx) error {
			_, err := tx.Get(ctx, "SELECT typeof(v), v, w FROM many WHERE n = $1 LIMIT 1", []any{i}, &kind, &v, &w)
			return err
		})
		if got := fmt.Sprint(kind, " ", v); got != c.want || w != "w" || err != nil {
			t.Errorf("%T: %q, want %q; %v", c.value, got, c.want, err)
		}
	}
}

func TestAStatementThatFailsCanBeMadeAgain(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d *db.DB) {
		insert := func(id string, n int) error {
			return d.Write(context.Background(), func(tx *db.Tx) error { return put(tx, id, n) })
		}
		for _, n := range []int{1, -1, 2, -2} {
			if err := insert(fmt.Sprint("id", n), n); (err != nil) != (n < 0) {
				t.Errorf("n = %d: %v", n, err)
			}
		}
		if err := insert("id1", 1); err == nil {
			t.Error("an id was stored twice")
		}
	})
}
