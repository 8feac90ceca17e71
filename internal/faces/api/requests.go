package api

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/oapi-codegen/nullable"

	"stoa/internal/base/contract"
	"stoa/internal/base/rest"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
)

const allAccounts = "*"

func (s *Books) listRequests(ctx context.Context, in rest.Request[contract.ListRequestsParams, rest.None]) (rest.Reply[contract.RequestList], error) {
	q := in.Params
	accountID, err := s.requestsOf(ctx, in.Caller, q.AccountID)
	if err != nil {
		return rest.Reply[contract.RequestList]{}, err
	}
	cursorOf := func(cursor, sort, order string) rest.Pager {
		return rest.NewSortedPager(q.Limit, cursor, sort, order, "requests", accountID, q.KeyID, q.Model, q.Provider, q.Status, q.ErrorCode,
			strconv.Itoa(q.MinDurationMilliseconds), q.From.String(), q.To.String())
	}
	p, follow := cursorOf(q.Cursor, string(q.Sort), string(q.Order)), cursorOf("", "", "asc")
	if p.Err != nil {
		return rest.Reply[contract.RequestList]{}, p.Err
	}
	filter := requestFilter(q)
	n := requestNames(in.Caller, accountID)
	var reply rest.Reply[contract.RequestList]
	err = s.Requests.Dropped(accountID, func(dropped store.Dropped) error {
		reply, err = store.Read(ctx, s.Store, func(tx *store.Tx) (rest.Reply[contract.RequestList], error) {
			list, next, err := tx.Operations().Requests(ctx, accountID, filter, p.Page)
			for _, r := range list {
				n.addOfRequest(r)
			}
			if err = n.read(ctx, tx, err); err != nil {
				return rest.Reply[contract.RequestList]{}, err
			}
			newest, err := tx.Operations().NewestRequest(ctx, accountID)
			if err != nil {
				return rest.Reply[contract.RequestList]{}, err
			}
			noted, err := tx.Operations().Dropped(ctx, accountID)
			if err != nil {
				return rest.Reply[contract.RequestList]{}, err
			}
			noted.Add(dropped)
			rows := rest.NewPageTo(p, list, next, n.request)
			return rest.Reply[contract.RequestList]{Body: contract.RequestList{
				Data: rows.Data, HasMore: rows.HasMore, NextCursor: rows.NextCursor,
				FollowCursor: follow.Cursor(newest.At, newest.ID),
				Dropped:      nullUnless(noted.Count != 0, contract.DroppedRequests{Count: noted.Count, Since: contract.Time(noted.First), Until: contract.Time(noted.Last)}),
			}}, nil
		})
		return err
	})
	return reply, err
}

func requestFilter(q contract.ListRequestsParams) store.RequestFilter {
	f := store.RequestFilter{
		KeyID: q.KeyID, Model: q.Model, Provider: q.Provider, Code: stoa.Code(q.ErrorCode),
		MinDuration: time.Duration(q.MinDurationMilliseconds) * time.Millisecond, From: q.From.Time(), To: q.To.Time(),
	}
	f.MinStatus, f.MaxStatus = statuses(q.Status)
	return f
}

var intervals = map[contract.GetRequestSummaryParamsInterval]func(time.Time, *time.Location) time.Time{
	"5m":   func(at time.Time, _ *time.Location) time.Time { return at.Truncate(5 * time.Minute) },
	"hour": startOfHour,
	"day": func(at time.Time, zone *time.Location) time.Time {
		year, month, day := at.In(zone).Date()
		return time.Date(year, month, day, 0, 0, 0, 0, zone)
	},
}

// startOfHour shifts by the offset, because some zones are not whole hours from UTC.
func startOfHour(at time.Time, zone *time.Location) time.Time {
	_, seconds := at.In(zone).Zone()
	offset := time.Duration(seconds) * time.Second
	return at.Add(offset).Truncate(time.Hour).Add(-offset)
}

func (s *Books) getRequestSummary(ctx context.Context, in rest.Request[contract.GetRequestSummaryParams, rest.None]) (rest.Reply[contract.RequestSummary], error) {
	q := in.Params
	accountID, err := s.requestsOf(ctx, in.Caller, q.AccountID)
	if err != nil {
		return rest.Reply[contract.RequestSummary]{}, err
	}
	zone, err := zoneOf(q.TimeZone, q.Timezone)
	if err != nil {
		return rest.Reply[contract.RequestSummary]{}, err
	}
	var interval func(time.Time) time.Time
	if start := intervals[q.Interval]; start != nil {
		interval = func(at time.Time) time.Time { return start(at, zone).UTC() }
	}
	n := requestNames(in.Caller, accountID)
	out, err := report(ctx, &s.core, in.Caller.Account.ID, func(ctx context.Context, tx *store.Tx) (contract.RequestSummary, error) {
		all, groups, complete, err := tx.Operations().SumRequests(ctx, accountID, requestFilter(extend[contract.ListRequestsParams](q)), string(q.GroupBy), interval)
		for _, g := range groups {
			switch {
			case q.GroupBy == "key":
				n.add(store.NamedKeys, g.Group)
			case q.GroupBy == store.ByAccount && n.operator:
				n.add(store.NamedAccounts, g.Group)
			}
		}
		err = n.read(ctx, tx, err)
		out := contract.RequestSummary{Totals: requestSums(&all), Data: []contract.RequestGroup{}, Complete: complete}
		for _, g := range groups {
			row := extend[contract.RequestGroup](requestSums(g))
			row.From = nullUnless(interval != nil, contract.Time(g.From))
			switch q.GroupBy {
			case "model":
				row.Model = nullIfZero(g.Group)
			case "key":
				row.KeyID, row.KeyName = g.Group, n.of(store.NamedKeys, g.Group)
			case store.ByProvider:
				row.Provider = nullIfZero(g.Group)
			case store.ByAccount:
				row.AccountID, row.AccountName = g.Group, n.of(store.NamedAccounts, g.Group)
			}
			out.Data = append(out.Data, row)
		}
		return out, err
	})
	return rest.Reply[contract.RequestSummary]{Body: out}, err
}

func requestSums(s *store.RequestSums) contract.RequestSums {
	orNull := func(d time.Duration, there bool) nullable.Nullable[int64] { return nullUnless(there, milliseconds(d)) }
	return contract.RequestSums{
		Requests: s.Requests, Errors: s.Errors, InputTokens: s.InputTokens, OutputTokens: s.OutputTokens, CreditsMicro: int64(s.Amount),
		MedianDurationMilliseconds: orNull(s.Duration(0.5)), P95DurationMilliseconds: orNull(s.Duration(0.95)),
		MedianTimeToFirstTokenMilliseconds: orNull(s.FirstText(0.5)), P95TimeToFirstTokenMilliseconds: orNull(s.FirstText(0.95)),
	}
}

// requestsOf returns the account whose requests the caller lists; empty means all.
func (s *Books) requestsOf(ctx context.Context, c stoa.Caller, asked string) (string, error) {
	if asked == allAccounts && c.Key.Has(stoa.ScopeOperatorRead) {
		return "", nil
	}
	return s.requestedAccount(ctx, c, asked)
}

// statuses returns the minimum and the maximum status of a filter such as 404 or 4xx; 0
// means any.
func statuses(word string) (least, most int) {
	if word == "" {
		return 0, 0
	}
	least, _ = strconv.Atoi(strings.Replace(word, "xx", "00", 1)) // ignored, because the contract checks its format
	most, _ = strconv.Atoi(strings.Replace(word, "xx", "99", 1))
	return least, most
}

func (s *Books) getRequest(ctx context.Context, tx *store.Tx, in rest.Request[byID, rest.None]) (rest.Reply[contract.Request], error) {
	accountID := in.Caller.Account.ID
	if in.Caller.Key.Has(stoa.ScopeOperatorRead) {
		accountID = "" // any account that reports it
	}
	n := requestNames(in.Caller, accountID)
	r, err := tx.Operations().Request(ctx, accountID, in.Params.ID)
	n.addOfRequest(r)
	err = n.read(ctx, tx, err)
	return rest.Reply[contract.Request]{Body: n.request(r)}, err
}

// requestNames are the names in rows of an account's request log, or with an empty accountID of
// any. Only operators see the names of accounts.
func requestNames(c stoa.Caller, accountID string) *names {
	n := namesOf(accountID)
	n.operator = c.Key.Has(stoa.ScopeOperatorRead)
	return n
}

func (n *names) addOfRequest(r store.RequestRow) {
	n.add(store.NamedKeys, r.KeyID)
	if n.operator {
		n.add(store.NamedAccounts, r.AccountID)
	}
}

func (n *names) request(r store.RequestRow) contract.Request {
	out := contractRequest(r)
	out.KeyName, out.AccountName = n.of(store.NamedKeys, r.KeyID), n.of(store.NamedAccounts, r.AccountID)
	return out
}

func contractRequest(r store.RequestRow) contract.Request {
	receipt := ""
	if r.Charged {
		receipt = r.ResponseID
	}
	return contract.Request{
		ID: r.ID, AccountID: r.AccountID, KeyID: r.KeyID,
		Model:    contract.RequestModel{Requested: nullIfZero(r.Asked), Served: nullIfZero(r.Served)},
		Provider: nullIfZero(r.Provider), Attempts: int64(r.Attempts),
		Status: r.Status, ErrorCode: nullIfZero(string(r.Code)), ErrorParam: nullIfZero(r.Param),
		InputTokens: r.Usage.InputTokens, CachedInputTokens: r.Usage.CachedTokens, OutputTokens: r.Usage.OutputTokens, CreditsMicro: int64(r.Amount),
		ResponseID: nullIfZero(r.ResponseID), ReceiptID: nullIfZero(receipt), Stream: r.Stream,
		TimeToFirstTokenMilliseconds: nullIfZero(milliseconds(r.FirstToken)), DurationMilliseconds: milliseconds(r.Duration),
		Estimated: r.Estimated, Clamped: r.Clamped, Disconnected: r.Disconnected, Replayed: r.Replayed,
		ClientAddress: nullIfZero(r.Address), StartedAt: contract.Time(r.StartedAt), CreatedAt: contract.Time(r.CreatedAt),
	}
}
