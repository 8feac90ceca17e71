package store

import (
	"context"
	"testing"
)

// TestTagsNameTheColumns compares the columns in the tags of the row types with those of
// the migrations.
func TestTagsNameTheColumns(t *testing.T) {
	t.Parallel()
	st, err := Open(context.Background(), Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	if len(tables) < 19 {
		t.Fatalf("only %d tables were found", len(tables))
	}
	for name, columns := range tables {
		err := st.Read(t.Context(), func(tx *Tx) error {
			_, err := tx.Exec(t.Context(), `SELECT `+columns+` FROM `+name+` WHERE 1 = 0`)
			return err
		})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
