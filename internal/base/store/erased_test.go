package store_test

import (
	"slices"
	"strings"
	"testing"

	"stoa/internal/base/db"
	"stoa/internal/base/store"
	"stoa/internal/testkit/storetest"
)

// A column with texts must be on the list of erasures, so that whoever adds one decides what an erasure does to it.
func TestErasuresListEveryColumnWithTexts(t *testing.T) {
	t.Parallel()
	list, database := store.ErasedTables(storetest.New(t).Open())
	tables, err := database.Tables(t.Context())
	if err != nil || len(tables) < len(list) {
		t.Fatalf("%d tables, %v", len(tables), err)
	}
	listed := map[string][]string{}
	for _, e := range list {
		name, columns, explained := e.Columns()
		if listed[name] = strings.Fields(columns); !explained {
			t.Errorf("%s keeps columns without a reason", name)
		}
	}
	for _, table := range tables {
		if strings.HasPrefix(table.Name, "drive_") { // of package drive, in the same database on PostgreSQL
			continue
		}
		have := listed[table.Name]
		delete(listed, table.Name)
		for _, c := range table.Columns {
			at := slices.Index(have, c.Name)
			switch {
			case c.Kind == db.Integer:
			case at < 0:
				t.Errorf("the list of erasures does not name %s.%s: decide what an erasure does to it", table.Name, c.Name)
			default:
				have = slices.Delete(have, at, at+1)
			}
		}
		if len(have) > 0 {
			t.Errorf("%s has no texts %v", table.Name, have)
		}
	}
	for name := range listed {
		t.Errorf("there is no table %s", name)
	}
}
