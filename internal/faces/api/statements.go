package api

import (
	"bytes"
	"context"
	"encoding/csv"
	"net/http"
	"strconv"
	"time"

	"stoa/internal/base/contract"
	"stoa/internal/base/rest"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
)

// statementsTogether is the number of accounts whose statements the CSV reads in one report.
const statementsTogether = 100

type getStatementsParams struct {
	Month string `path:"month"`
	contract.GetStatementsParams
}

type namedStatement struct {
	stoa.Statement
	name string
}

type statementPage struct {
	rest.Page[contract.Statement]
	Totals    []contract.StatementCharge `json:"totals,omitempty"`
	Uncharged *int64                     `json:"uncharged,omitempty"`
}

// getStatements serves GET /api/v1/statements/{month}, as JSON or as CSV.
func (s *Books) getStatements(w http.ResponseWriter, in *rest.Request[getStatementsParams, rest.None]) error {
	ctx, q := in.HTTP.Context(), in.Params
	month, ok := stoa.ParseMonth(q.Month)
	if !ok || month > stoa.MonthOf(time.Now()) {
		return stoa.Errorf(stoa.CodeNotFound, "There is no statement of %q. Use a month such as %s that is not in the future.", rest.ShortName(q.Month), stoa.MonthOf(time.Now()))
	}
	if q.AccountID == allAccounts && in.Caller.Key.Has(stoa.ScopeOperatorRead) {
		return s.allStatements(w, in, month)
	}
	accountID, err := s.requestedAccount(ctx, in.Caller, q.AccountID)
	if err != nil {
		return err
	}
	one, err := report(ctx, &s.core, in.Caller.Account.ID, func(ctx context.Context, tx *store.Tx) (st namedStatement, err error) {
		a, err := tx.Books().Account(ctx, accountID)
		if err != nil {
			return st, err
		}
		st.name = a.Name
		st.Statement, err = tx.Books().Statement(ctx, accountID, month)
		return st, err
	})
	if err != nil {
		return err
	}
	if q.Format == csvType {
		begin(w, month)
		_, _ = w.Write(append(statementHeader(), statementCSV(one)...)) // ignored, because the caller may have disconnected
		return nil
	}
	return rest.Answer(w, rest.Reply[rest.Page[contract.Statement]]{Body: rest.Whole([]namedStatement{one}, contractStatement)}, nil)
}

func (s *Books) allStatements(w http.ResponseWriter, in *rest.Request[getStatementsParams, rest.None], month stoa.Month) error {
	ctx, q := in.HTTP.Context(), in.Params
	p := rest.NewSortedPager(q.Limit, q.Cursor, string(q.Sort), string(q.Order), "statements", string(month), string(q.Charges))
	if p.Err != nil {
		return p.Err
	}
	filter := store.AccountFilter{Month: month}
	switch q.Charges {
	case "with":
		filter.Charged = 1
	case "without":
		filter.Charged = -1
	}
	if filter.Charged != 0 && p.Page.By == "" {
		return stoa.Errorf(stoa.CodeInvalidValue, "\"charges\" narrows the list by what was charged: it requires sort=charged.").At("charges")
	}
	var next store.Cursor
	read := func(page store.Page) ([]namedStatement, error) {
		return report(ctx, &s.core, in.Caller.Account.ID, func(ctx context.Context, tx *store.Tx) (list []namedStatement, err error) {
			var accounts []store.AccountRow
			if accounts, next, err = tx.Books().Accounts(ctx, filter, page); err != nil {
				return nil, err
			}
			for _, a := range accounts {
				st, err := tx.Books().Statement(ctx, a.ID, month)
				if err != nil {
					return nil, err
				}
				if st.Charges = st.ByModel(); filter.Charged < 0 || st.Opening != 0 || len(st.Grants)+len(st.Charges) > 0 {
					list = append(list, namedStatement{st, a.Name})
				}
			}
			return list, nil
		})
	}
	if q.Format != csvType {
		list, err := read(p.Page)
		if err != nil {
			return err
		}
		body := statementPage{Page: rest.NewPageTo(p, list, next, contractStatement)}
		if q.Cursor == "" {
			totals, err := report(ctx, &s.core, in.Caller.Account.ID, func(ctx context.Context, tx *store.Tx) ([]stoa.StatementCharge, error) {
				n, err := tx.Books().CountUncharged(ctx, month)
				if err != nil {
					return nil, err
				}
				body.Uncharged = &n
				return tx.Books().ChargesOfMonth(ctx, month)
			})
			if err != nil {
				return err
			}
			body.Totals = contractCharges(totals)
		}
		return rest.Answer(w, rest.Reply[statementPage]{Body: body}, nil)
	}
	page := store.Page{Limit: statementsTogether, Asc: p.Page.Asc, By: p.Page.By}
	lines := statementHeader()
	for begun := false; ; begun = true {
		list, err := read(page)
		if err != nil {
			return err
		}
		if !begun {
			begin(w, month)
		}
		for _, st := range list {
			lines = append(lines, statementCSV(st)...)
		}
		if _, err := w.Write(lines); err != nil {
			return stoa.ErrClientGone
		}
		if next == (store.Cursor{}) {
			return nil
		}
		page.After, lines = next, nil
	}
}

func begin(w http.ResponseWriter, month stoa.Month) {
	attach(w.Header(), "statements-"+string(month)+".csv")
	w.Header().Set("Content-Type", "text/csv")
}

func contractStatement(s namedStatement) contract.Statement {
	granted, withdrawn := s.Granted()
	out := contract.Statement{
		AccountID: s.AccountID, AccountName: s.name, Month: string(s.Month), From: contract.Time(s.Month.Start()), To: contract.Time(s.Month.End()), Final: s.Final,
		OpeningMicro: int64(s.Opening), GrantedMicro: int64(granted), WithdrawnMicro: int64(-withdrawn), ChargedMicro: int64(s.Charged), ClosingMicro: int64(s.Closing),
		Grants: []contract.StatementGrants{}, Withdrawals: []contract.StatementGrants{}, Charges: contractCharges(s.Charges),
	}
	for _, g := range s.Grants {
		line := contract.StatementGrants{Kind: string(g.Kind), Count: g.Count, AmountMicro: int64(g.Amount)}
		if g.Amount < 0 {
			line.AmountMicro = -line.AmountMicro
			out.Withdrawals = append(out.Withdrawals, line)
		} else {
			out.Grants = append(out.Grants, line)
		}
	}
	return out
}

func contractCharges(charges []stoa.StatementCharge) []contract.StatementCharge {
	out := []contract.StatementCharge{}
	for _, c := range charges {
		out = append(out, contract.StatementCharge{
			Day: c.Day, Model: c.Model, Calls: c.Calls, InputTokens: c.InputTokens, OutputTokens: c.OutputTokens, AmountMicro: int64(c.Amount),
		})
	}
	return out
}

func statementHeader() []byte {
	return csvLines([]string{"month", "accountId", "accountName", "line", "kind", "day", "model", "count", "inputTokens", "outputTokens", "amountMicro"})
}

// statementCSV returns a statement as lines of CSV. Amounts that reduce the balance are negative, so
// that the lines up to the closing balance add up to it.
func statementCSV(s namedStatement) []byte {
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	var lines [][]string
	line := func(cells ...string) {
		lines = append(lines, append([]string{string(s.Month), s.AccountID, plainCell(s.name)}, cells...))
	}
	line("opening", "", "", "", "", "", "", number(int64(s.Opening)))
	for _, g := range s.Grants {
		word := "grant"
		if g.Amount < 0 {
			word = "withdrawal"
		}
		line(word, string(g.Kind), "", "", number(g.Count), "", "", number(int64(g.Amount)))
	}
	for _, c := range s.Charges {
		line("charge", "", c.Day, plainCell(c.Model), number(c.Calls), number(c.InputTokens), number(c.OutputTokens), number(int64(-c.Amount)))
	}
	line("closing", "", "", "", "", "", "", number(int64(s.Closing)))
	return csvLines(lines...)
}

func csvLines(lines ...[]string) []byte {
	var out bytes.Buffer
	_ = csv.NewWriter(&out).WriteAll(lines) // ignored, because writes to a buffer cannot fail
	return out.Bytes()
}
