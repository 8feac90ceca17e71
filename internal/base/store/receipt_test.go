package store_test

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/testkit/storetest"
)

// TestReceiptsComeBackAsWritten stores a different value in every field of a receipt, so that a
// field without a column, or with that of another field, is found. A bool has two values only:
// there is a receipt for each of them, in which it alone is true.
func TestReceiptsComeBackAsWritten(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, database storetest.Database) {
		st := database.Open()
		account := storetest.Account(t, st, stoa.Credit).ID
		n, bools, written := int64(0), 1, []store.Receipt(nil)
		for only := 0; only < bools; only++ {
			var r store.Receipt
			bools = 0
			var fill func(v reflect.Value, name string)
			fill = func(v reflect.Value, name string) {
				n++
				switch _, isTime := v.Interface().(time.Time); {
				case isTime:
					v.Set(reflect.ValueOf(time.UnixMicro(1_700_000_000_000_000 + n).UTC()))
				case v.Type() == reflect.TypeFor[time.Duration]():
					v.SetInt(n * int64(time.Microsecond))
				case v.Kind() == reflect.Struct:
					for i := range v.NumField() {
						fill(v.Field(i), v.Type().Field(i).Name)
					}
				case v.Kind() == reflect.Bool:
					v.SetBool(bools == only)
					bools++
				case v.Kind() == reflect.String:
					v.SetString(fmt.Sprint(name, " ", n))
				case v.CanInt():
					v.SetInt(n)
				case v.CanUint():
					v.SetUint(uint64(n))
				default:
					t.Fatalf("the field %s is a %s: extend this test", name, v.Type())
				}
			}
			fill(reflect.ValueOf(&r).Elem(), "Receipt")
			r.AccountID = account
			written = append(written, r)
		}
		if bools < 3 {
			t.Fatalf("a receipt has %d bools", bools)
		}
		var at time.Time
		write(t, st, func(tx *store.Tx) error {
			at = tx.Now
			_, err := tx.Books().InsertCharges(ctx, written)
			return err
		})
		for _, want := range written {
			want.CreatedAt = at
			read(t, st, func(tx *store.Tx) error {
				got, err := tx.Books().Receipt(ctx, account, want.ID)
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("a receipt (-written +read):\n%s", diff)
				}
				return err
			})
		}
		// A page reads all of its rows into one receipt.
		read(t, st, func(tx *store.Tx) error {
			list, _, err := tx.Books().Receipts(ctx, account, store.ReceiptFilter{}, store.Page{Limit: 100})
			seen := map[string]store.Receipt{}
			for _, r := range list {
				seen[r.ID] = r
			}
			for _, want := range written {
				want.CreatedAt = at
				if diff := cmp.Diff(want, seen[want.ID]); diff != "" {
					t.Errorf("a receipt of a page (-written +read):\n%s", diff)
				}
			}
			return err
		})
	})
}
