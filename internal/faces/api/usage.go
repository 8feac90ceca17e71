package api

import (
	"bytes"
	"cmp"
	"context"
	"encoding/csv"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/oapi-codegen/nullable"
	"golang.org/x/text/unicode/norm"

	"stoa/internal/base/contract"
	"stoa/internal/base/rest"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
)

const (
	usageSpan      = 30 * 24 * time.Hour
	maxDifferences = 100
	csvType        = "csv"
)

// getUsage serves GET /api/v1/usage, as JSON or as CSV.
func (s *Books) getUsage(w http.ResponseWriter, in *rest.Request[contract.GetUsageParams, rest.None]) error {
	ctx, q := in.HTTP.Context(), in.Params
	by := q.GroupBy
	if len(by) == 0 {
		by = []string{"day"}
	}
	zone, err := zoneOf(q.TimeZone, q.Timezone)
	if err != nil {
		return err
	}
	to := q.To.Time()
	if to.IsZero() {
		to = time.Now()
	}
	from := q.From.Time()
	if from.IsZero() {
		day := to.Add(-usageSpan).In(zone)
		from = time.Date(day.Year(), day.Month(), day.Day(), 0, 0, 0, 0, zone)
	}
	if from.After(to) {
		return stoa.Errorf(stoa.CodeInvalidValue, "The time \"from\" is after \"to\".").At("from")
	}
	if slices.Contains(by, store.ByProvider) && !in.Caller.Key.Has(stoa.ScopeOperatorRead) {
		return stoa.Errorf(stoa.CodeScope, "Usage by provider requires a key with the scope %q.", stoa.ScopeOperatorRead).At("groupBy")
	}
	accountID, err := s.requestedAccount(ctx, in.Caller, q.AccountID)
	if q.AccountID == allAccounts && in.Caller.Key.Has(stoa.ScopeOperatorRead) {
		accountID, err = allAccounts, nil
	}
	if err != nil {
		return err
	}
	n := namesOf(accountID)
	sums, err := report(ctx, &s.core, in.Caller.Account.ID, func(ctx context.Context, tx *store.Tx) (sums []store.UsageRow, err error) {
		if q.To.Time().IsZero() {
			to = tx.Now // so that the sums of the last hour count as they are
		}
		if accountID == allAccounts {
			n.accountID = ""
			sums, err = tx.Books().UsageOfAll(ctx, from, to, zone, by)
		} else {
			sums, err = tx.Books().Usage(ctx, accountID, from, to, zone, by)
		}
		for _, u := range sums {
			for i, word := range by {
				if kind := namedGroups[word]; kind != "" {
					n.add(kind, u.Group[i])
				}
			}
		}
		return sums, n.read(ctx, tx, err)
	})
	if err != nil {
		return err
	}
	if q.Format == csvType {
		body := usageCSV(by, sums)
		w.Header().Set("Content-Type", "text/csv")
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		_, _ = w.Write(body) // ignored, because the caller may have disconnected
		return nil
	}
	out := contract.UsageReport{From: contract.Time(from), To: contract.Time(to), TimeZone: zone.String(), Timezone: zone.String(), GroupBy: by, Data: []contract.UsageRow{}}
	for _, u := range sums {
		row := extend[contract.UsageRow](usageSums(u))
		if slices.Contains(by, store.ByProvider) {
			row.FailedCalls, row.EstimatedCalls = nullable.NewNullableWithValue(u.Failed), nullable.NewNullableWithValue(u.Estimated)
		}
		for i, word := range by {
			setGroup(&row, n, word, u.Group[i])
		}
		row.AccountName = u.Name
		out.Data = append(out.Data, row)
		out.Totals.Calls += row.Calls
		out.Totals.InputTokens += row.InputTokens
		out.Totals.CachedInputTokens += row.CachedInputTokens
		out.Totals.OutputTokens += row.OutputTokens
		out.Totals.TotalTokens += row.TotalTokens
		out.Totals.CreditsMicro += row.CreditsMicro
		out.Totals.SavedMicro += row.SavedMicro
	}
	return rest.Answer(w, rest.Reply[contract.UsageReport]{Body: out}, nil)
}

func usageSums(u store.UsageRow) contract.UsageSums {
	return contract.UsageSums{
		Calls: u.Calls, InputTokens: u.Usage.InputTokens, CachedInputTokens: u.Usage.CachedTokens, OutputTokens: u.Usage.OutputTokens,
		TotalTokens: u.Usage.Total(), CreditsMicro: int64(u.Amount), SavedMicro: int64(u.Saved),
	}
}

var namedGroups = map[string]string{"key": store.NamedKeys, "agent": store.NamedAgents, "space": store.NamedSpaces, "member": store.NamedMembers}

func setGroup(row *contract.UsageRow, n *names, word, value string) {
	name := n.of(namedGroups[word], value)
	orNull := func() nullable.Nullable[string] { return nullIfZero(value) }
	switch word {
	case store.ByAccount:
		row.AccountID = value
	case "day":
		row.Day = value
	case store.ByProvider:
		row.Provider = value
	case "model":
		row.Model = value
	case "key":
		row.KeyID, row.KeyName = value, name
	case "agent":
		row.AgentID, row.AgentName = orNull(), name
	case "space":
		row.SpaceID, row.SpaceName = orNull(), name
	case "member":
		row.MemberID, row.MemberName = orNull(), name
	case "session":
		row.SessionID = orNull()
	case "endUser":
		row.EndUser = orNull()
	}
}

// groupNames contains the members of the JSON form, which also name the columns.
var groupNames = map[string]string{
	store.ByAccount: "accountId", store.ByProvider: "provider", "day": "day", "model": "model", "key": "keyId", "member": "memberId", "agent": "agentId", "space": "spaceId", "session": "sessionId", "endUser": "endUser",
}

func usageCSV(by []string, sums []store.UsageRow) []byte {
	var out bytes.Buffer
	w := csv.NewWriter(&out)
	var names []string
	for _, word := range by {
		if names = append(names, groupNames[word]); word == store.ByAccount {
			names = append(names, "accountName")
		}
	}
	if slices.Contains(by, store.ByProvider) {
		names = append(names, "failedCalls", "estimatedCalls")
	}
	_ = w.Write(append(names, "calls", "inputTokens", "cachedInputTokens", "outputTokens", "totalTokens", "creditsMicro", "savedMicro")) // ignored, because writes to a buffer cannot fail
	for _, u := range sums {
		var row []string
		for i := range by {
			if row = append(row, plainCell(u.Group[i])); by[i] == store.ByAccount {
				row = append(row, plainCell(u.Name))
			}
		}
		if slices.Contains(by, store.ByProvider) {
			row = append(row, strconv.FormatInt(u.Failed, 10), strconv.FormatInt(u.Estimated, 10))
		}
		for _, n := range []int64{u.Calls, u.Usage.InputTokens, u.Usage.CachedTokens, u.Usage.OutputTokens, u.Usage.Total(), int64(u.Amount), int64(u.Saved)} {
			row = append(row, strconv.FormatInt(n, 10))
		}
		_ = w.Write(row)
	}
	w.Flush()
	return out.Bytes()
}

// plainCell keeps a spreadsheet from running a caller's text as a formula. It also checks what follows spaces, invisible
// characters and line feeds, and fullwidth signs, because some programs skip or accept them at the beginning of a formula.
func plainCell(s string) string {
	ignored := func(r rune) bool { return unicode.IsSpace(r) || unicode.In(r, unicode.Cc, unicode.Cf) }
	first, _ := utf8.DecodeRuneInString(strings.TrimLeftFunc(s, ignored))
	raw, _ := utf8.DecodeRuneInString(s)
	if s != "" && (unicode.IsControl(raw) || strings.ContainsAny(norm.NFKC.String(string(first)), "=+-@")) {
		return "'" + s
	}
	return s
}

func (s *Books) reconcileUsage(ctx context.Context, in rest.Request[rest.None, rest.None]) (rest.Reply[contract.Reconciliation], error) {
	accountID := in.Caller.Account.ID
	balance, err := s.Ledger.Balance(ctx, accountID)
	if err != nil {
		return rest.Reply[contract.Reconciliation]{}, err
	}
	out, err := report(ctx, &s.core, accountID, func(ctx context.Context, tx *store.Tx) (contract.Reconciliation, error) {
		out := contract.Reconciliation{HeldMicro: int64(balance.Held)}
		// One transaction reads one snapshot of the store. Only the held credits are in memory; they are part of the unspent ones.
		funds, err := tx.Books().Funds(ctx, accountID)
		if err != nil {
			return out, err
		}
		found, sums, err := tx.Books().Differences(ctx, accountID)
		if err != nil {
			return out, err
		}
		unspent := funds.Balance + funds.Leased
		held := min(balance.Held, unspent)
		out.GrantedMicro, out.AvailableMicro, out.HeldMicro = int64(funds.Granted), int64(unspent-held), int64(held)
		out.Charges, out.ChargesMicro, out.ReceiptsMicro = sums.Calls, int64(sums.Charged), int64(sums.Receipts)
		out.Differences = []contract.Difference{}
		if sum := unspent + sums.Charged; sum != funds.Granted {
			out.Differences = append(out.Differences, difference("granted = available + held + charges", "", funds.Granted, sum))
		}
		if sums.Receipts != sums.Charged {
			out.Differences = append(out.Differences, difference("the receipts add up to the charges", "", sums.Receipts, sums.Charged))
		}
		for _, d := range found {
			if len(out.Differences) < maxDifferences {
				out.Differences = append(out.Differences, difference(d.What, d.ID, d.Want, d.Have))
			}
		}
		out.Balanced = len(out.Differences) == 0
		out.CheckedAt = contract.Time(tx.Now)
		return out, nil
	})
	return rest.Reply[contract.Reconciliation]{Body: out}, err
}

func difference(what, id string, want, have stoa.Credits) contract.Difference {
	return contract.Difference{What: what, ID: nullIfZero(id), ExpectedMicro: int64(want), ActualMicro: int64(have)}
}

// zoneOf returns the time zone of a query: of timeZone, otherwise of its earlier name timezone, otherwise UTC.
func zoneOf(timeZone, timezone string) (*time.Location, error) {
	param := "timeZone"
	if timeZone == "" && timezone != "" {
		timeZone, param = timezone, "timezone"
	}
	zone, err := stoa.LoadZone(cmp.Or(timeZone, "UTC"))
	if err != nil {
		return nil, stoa.Errorf(stoa.CodeInvalidValue, "%s", stoa.AsError(err).Message).At(param)
	}
	return zone, nil
}
