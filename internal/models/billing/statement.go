package billing

import (
	"context"
	"fmt"
	"time"

	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
)

// statementsOpen is the time after the end of a month at which its statements become final. No row
// is added to the month by then, because rows store the time of their transactions.
const statementsOpen = 3 * 24 * time.Hour

const statementsTogether = 50 // computed in one snapshot and stored in one transaction

// EndStatements stores the statements of all months that ended three days before now or earlier,
// and have not been stored. Afterwards their receipts may be removed. Several nodes may do it
// at the same time: all compute the same rows.
func EndStatements(ctx context.Context, st *store.Store, now time.Time) error {
	for {
		var month stoa.Month
		err := st.Read(ctx, func(tx *store.Tx) (err error) {
			month, _, err = tx.Books().FinalStatements(ctx)
			return err
		})
		if err != nil || month.End().Add(statementsOpen).After(now) {
			return err
		}
		if err := endMonth(ctx, st, month); err != nil {
			return fmt.Errorf("statements of %s: %w", month, err)
		}
	}
}

func endMonth(ctx context.Context, st *store.Store, month stoa.Month) error {
	for after := ""; ; {
		var ids []string
		var list []stoa.Statement
		err := st.Report(ctx, func(tx *store.Tx) (err error) {
			list = nil
			if ids, err = tx.Books().AccountsOfMonth(ctx, month, after, statementsTogether); err != nil {
				return err
			}
			for _, id := range ids {
				s, err := tx.Books().Statement(ctx, id, month)
				if err != nil {
					return err
				}
				list = append(list, s)
			}
			return nil
		})
		if err != nil {
			return err
		}
		last := len(ids) < statementsTogether
		err = st.Write(ctx, func(tx *store.Tx) error {
			if err := tx.Books().InsertStatements(ctx, list); err != nil || !last {
				return err
			}
			return tx.Books().EndStatements(ctx, month)
		})
		if err != nil || last {
			return err
		}
		after = ids[len(ids)-1]
	}
}

// fillPause lets calls commit between two transactions.
const fillPause = 20 * time.Millisecond

// FillHours sums the charges of earlier versions by hour; see [store.Books.FillHours]. Several nodes may do it at the same time.
func FillHours(ctx context.Context, st *store.Store) error {
	for {
		var more bool
		err := st.WriteLow(ctx, func(tx *store.Tx) (err error) {
			more, err = tx.Books().FillHours(ctx)
			return err
		})
		if err != nil || !more {
			return err
		}
		select {
		case <-time.After(fillPause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
