package api

import (
	"context"
	"errors"
	"time"

	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
)

const (
	// reportTime is the default of [Books.ReportTime], including the wait for the
	// turn. A million receipts take 1 to 4 s of CPU.
	reportTime = 30 * time.Second
	maxReports = 2 // concurrent reports; one account has at most one, so that it cannot delay all others
)

// report is like [read], for queries that may read all receipts of an account. Few run
// at the same time and accounts take turns, so that one account's reports delay neither
// short queries nor other accounts. A report that takes too long fails with
// CodeOverloaded.
func report[T any](ctx context.Context, s *core, accountID string, fn func(context.Context, *store.Tx) (T, error)) (T, error) {
	var out T
	within, cancel := context.WithTimeout(ctx, s.reportTime)
	defer cancel()
	give, err := s.limits.reports.Acquire(within, accountID, maxReports, maxReports/2)
	if err == nil {
		defer give()
		err = s.Store.Report(within, func(tx *store.Tx) error {
			if err := tx.LimitTime(within); err != nil {
				return err
			}
			out, err = fn(within, tx)
			return err
		})
	}
	if err != nil && ctx.Err() == nil && (within.Err() != nil || errors.Is(err, context.DeadlineExceeded)) {
		err = stoa.Errorf(stoa.CodeOverloaded, "The receipts could not be read within %v. Use a shorter time range, or try again later.", s.reportTime).After(10 * time.Second).Because(err)
	}
	return out, err
}
