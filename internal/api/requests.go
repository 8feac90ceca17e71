package api

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/oapi-codegen/nullable"

	"stoa/internal/contract"
	"stoa/internal/rest"
	"stoa/internal/stoa"
	"stoa/internal/store"
)

// allAccounts selects all accounts, for operators.
const allAccounts = "*"

// listRequests serves GET /api/v1/requests.
func (s *Server) listRequests(ctx context.Context, in rest.Request[contract.ListRequestsParams, rest.None]) (rest.Reply[contract.RequestList], error) {
	q := in.Params
	accountID, err := s.requestsOf(ctx, in.Caller, q.AccountID)
	if err != nil {
		return rest.Reply[contract.RequestList]{}, err
	}
	cursorOf := func(cursor, order string) rest.Pager {
		return rest.NewPager(q.Limit, cursor, order, "requests", accountID, q.KeyID, q.Model, q.Provider, q.Status, q.ErrorCode,
			strconv.Itoa(q.MinDurationMilliseconds), q.From.String(), q.To.String())
	}
	p, follow := cursorOf(q.Cursor, q.Order), cursorOf("", "asc")
	if p.Err != nil {
		return rest.Reply[contract.RequestList]{}, p.Err
	}
	filter := store.RequestFilter{
		KeyID: q.KeyID, Model: q.Model, Provider: q.Provider, Code: stoa.Code(q.ErrorCode),
		MinDuration: time.Duration(q.MinDurationMilliseconds) * time.Millisecond, From: q.From.Time(), To: q.To.Time(),
	}
	filter.MinStatus, filter.MaxStatus = statuses(q.Status)
	var reply rest.Reply[contract.RequestList]
	err = s.Requests.Dropped(accountID, func(dropped store.Dropped) error {
		reply, err = read(ctx, s, func(tx *store.Tx) (rest.Reply[contract.RequestList], error) {
			list, next, err := tx.Requests(ctx, accountID, filter, p.Page)
			if err != nil {
				return rest.Reply[contract.RequestList]{}, err
			}
			newest, err := tx.NewestRequest(ctx, accountID)
			if err != nil {
				return rest.Reply[contract.RequestList]{}, err
			}
			noted, err := tx.Dropped(ctx, accountID)
			if err != nil {
				return rest.Reply[contract.RequestList]{}, err
			}
			noted.Add(dropped)
			rows := rest.NewPageTo(p, list, next, contractRequest)
			return rest.Reply[contract.RequestList]{Body: contract.RequestList{
				Data: rows.Data, HasMore: rows.HasMore, NextCursor: rows.NextCursor,
				FollowCursor: follow.Cursor(newest.At, newest.ID), Dropped: contractDropped(noted),
			}}, nil
		})
		return err
	})
	return reply, err
}

// requestsOf returns the account whose requests the caller lists; empty means all.
func (s *Server) requestsOf(ctx context.Context, c stoa.Caller, asked string) (string, error) {
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
	least, _ = strconv.Atoi(strings.Replace(word, "xx", "00", 1)) // the contract checks its format
	most, _ = strconv.Atoi(strings.Replace(word, "xx", "99", 1))
	return least, most
}

// getRequest serves GET /api/v1/requests/{id}.
func (s *Server) getRequest(ctx context.Context, in rest.Request[byID, rest.None]) (rest.Reply[contract.Request], error) {
	accountID := in.Caller.Account.ID
	if in.Caller.Key.Has(stoa.ScopeOperatorRead) {
		accountID = "" // of any account that reports it
	}
	r, err := read(ctx, s, func(tx *store.Tx) (store.RequestRow, error) { return tx.Request(ctx, accountID, in.Params.ID) })
	return rest.Reply[contract.Request]{Body: contractRequest(r)}, err
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

func contractDropped(d store.Dropped) nullable.Nullable[contract.DroppedRequests] {
	if d.Count == 0 {
		return nullable.NewNullNullable[contract.DroppedRequests]()
	}
	return nullable.NewNullableWithValue(contract.DroppedRequests{Count: d.Count, Since: contract.Time(d.First), Until: contract.Time(d.Last)})
}
