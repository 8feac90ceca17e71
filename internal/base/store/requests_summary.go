package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"stoa/internal/base/db"
	"stoa/internal/base/stoa"
)

// maxSummed is the maximum number of rows of the request log that a summary reads, because the numbers
// for the quantiles need 10 MB. It is twice the default maximum of an account.
const maxSummed = 200_000

// RequestSums are the sums of some rows of the request log.
type RequestSums struct {
	From                      time.Time // the start of the interval; zero without intervals
	Group                     string    // the value of the dimension
	Requests, Errors          int64     // errors are replies with an error, and streams that ended with one
	InputTokens, OutputTokens int64
	Amount                    stoa.Credits

	durations, first []int64 // in microseconds: of requests that succeeded, and until the first text
}

// The dimensions of a summary of requests, with the SQL of their values.
var requestGroups = map[string]string{
	"":         `''`,
	"model":    `CASE WHEN served <> '' THEN served ELSE asked END`,
	"key":      `key_id`,
	ByProvider: `provider`,
	ByAccount:  `account_id`,
}

// Duration returns a quantile of the durations of the requests that succeeded, and whether there
// are any. q is from 0 to 1; the result is the nearest rank.
func (s *RequestSums) Duration(q float64) (time.Duration, bool) { return quantile(s.durations, q) }

// FirstText is like Duration for the time until the first text.
func (s *RequestSums) FirstText(q float64) (time.Duration, bool) { return quantile(s.first, q) }

func quantile(micros []int64, q float64) (time.Duration, bool) {
	if len(micros) == 0 {
		return 0, false
	}
	slices.Sort(micros)
	rank := int(math.Ceil(q*float64(len(micros)))) - 1
	return time.Duration(micros[max(rank, 0)]) * time.Microsecond, true
}

// SumRequests sums the rows of [Operations.Requests], all together and by groups in order: of a
// dimension, which may be empty, and of the interval that interval returns for a time, if it is
// not nil. It reads the newest 200,000 rows; complete reports whether these are all. More than
// 10,000 groups are CodeInvalidValue.
func (tx Operations) SumRequests(ctx context.Context, accountID string, f RequestFilter, dimension string, interval func(time.Time) time.Time) (all RequestSums, groups []*RequestSums, complete bool, err error) {
	type key struct {
		from  time.Time
		value string
	}
	by := map[key]*RequestSums{}
	complete = true
	q := requestsOf(accountID, f)
	cond, args := q.conditions(q.args)
	err = tx.Query(ctx, func(rows *sql.Rows) error {
		if all.Requests == maxSummed {
			complete = false
			return errPageFull
		}
		// As the driver returns them, because database/sql converts other types by reflection and text.
		var created, input, output, first, duration, status, amount int64
		var k key
		var code string
		if err := rows.Scan(&created, &k.value, &status, &code, &input, &output, &amount, &first, &duration); err != nil {
			return err
		}
		into := []*RequestSums{&all}
		if dimension != "" || interval != nil {
			if interval != nil {
				k.from = interval(db.Time(created))
			}
			if by[k] == nil {
				if len(by) == maxUsageRows {
					return tooManyRows()
				}
				by[k] = &RequestSums{From: k.from, Group: k.value}
				groups = append(groups, by[k])
			}
			into = append(into, by[k])
		}
		for _, s := range into {
			s.Requests++
			if status >= 400 || code != "" {
				s.Errors++
			}
			s.InputTokens, s.OutputTokens, s.Amount = s.InputTokens+input, s.OutputTokens+output, s.Amount+stoa.Credits(amount)
			if status < 400 {
				s.durations = append(s.durations, duration)
			}
			if first > 0 {
				s.first = append(s.first, first)
			}
		}
		return nil
	}, `SELECT created_at, `+requestGroups[dimension]+`, status, code, input_tokens, output_tokens, amount, first_token, duration `+q.from+cond+fmt.Sprintf(` ORDER BY created_at DESC LIMIT %d`, maxSummed+1), args...)
	if errors.Is(err, errPageFull) {
		err = nil
	}
	slices.SortFunc(groups, func(a, b *RequestSums) int { return cmp.Or(a.From.Compare(b.From), cmp.Compare(a.Group, b.Group)) })
	return all, groups, complete, err
}
