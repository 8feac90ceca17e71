package store_test

import (
	"context"
	"testing"

	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/testkit/storetest"
)

// TestVersionsOfTheSettingsAreBounded adds more versions than are kept: the oldest go.
func TestVersionsOfTheSettingsAreBounded(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, home storetest.Database) {
		const more = 3
		err := home.Open().Write(t.Context(), func(tx *store.Tx) error {
			ctx := context.Background()
			for base := range int64(store.MaxConfigVersions + more) {
				if _, err := tx.Operations().InsertConfig(ctx, base, store.ConfigVersion{Body: "{}"}); err != nil {
					return err
				}
			}
			latest, err := tx.Operations().LatestConfig(ctx)
			if err != nil || latest != store.MaxConfigVersions+more {
				t.Errorf("the newest is %d, %v", latest, err)
			}
			if _, err := tx.Operations().ConfigVersion(ctx, more); stoa.CodeOf(err) != stoa.CodeNotFound {
				t.Errorf("version %d: %v, want it removed", more, err)
			}
			_, err = tx.Operations().ConfigVersion(ctx, more+1)
			return err
		})
		if err != nil {
			t.Error(err)
		}
	})
}
