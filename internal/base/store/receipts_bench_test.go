package store_test

import (
	"context"
	"fmt"
	"testing"

	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/testkit/storetest"
)

// BenchmarkReceipts measures the rows of charges, without the rest of a settled call: the insert
// of one and of 64 in a transaction, and the read of a page of 100. Each operation is one
// transaction.
func BenchmarkReceipts(b *testing.B) {
	st := storetest.New(b).Open()
	a := storetest.Account(b, st, 1000*stoa.Credit)
	n := 0
	insert := func(b *testing.B, rows int) {
		b.Helper()
		receipts := make([]store.Receipt, rows)
		for i := range receipts {
			n++
			receipts[i] = receipt(a.ID, fmt.Sprintf("resp_%026d", n), 100)
			receipts[i].LeaseID, receipts[i].NodeID = "lea_1", st.Node()
		}
		if err := st.Write(context.Background(), func(tx *store.Tx) error {
			inserted, err := tx.Books().InsertCharges(context.Background(), receipts)
			if err == nil && len(inserted) != rows {
				err = fmt.Errorf("%d of %d charges were inserted", len(inserted), rows)
			}
			return err
		}); err != nil {
			b.Fatal(err)
		}
	}
	for _, rows := range []int{1, 64} {
		b.Run(fmt.Sprintf("insert=%d", rows), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				insert(b, rows)
			}
		})
	}
	insert(b, 128)
	b.Run("read=100", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			read(b, st, func(tx *store.Tx) error {
				list, _, err := tx.Books().Receipts(ctx, a.ID, store.ReceiptFilter{}, store.Page{Limit: 100})
				if err == nil && len(list) != 100 {
					err = fmt.Errorf("the page has %d receipts", len(list))
				}
				return err
			})
		}
	})
}
