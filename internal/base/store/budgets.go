package store

import (
	"context"
	"database/sql"
	"strconv"
	"strings"
	"time"

	"stoa/internal/base/db"
	"stoa/internal/base/stoa"
)

var budgets = newTable[stoa.Budget]("budgets")

// BudgetChanges returns the number of changes of budgets that this process has committed, so that
// its own caches need not poll.
func (s *Store) BudgetChanges() int64 { return s.budgets.Load() }

// changeBudgets counts a change of budgets, because the caches of all nodes poll the number.
func (tx Books) changeBudgets(ctx context.Context) error {
	tx.AfterCommit(func() { tx.s.budgets.Add(1) })
	_, err := tx.Exec(ctx, `INSERT INTO budget_changes (id, n) VALUES (1, 1) ON CONFLICT (id) DO UPDATE SET n = budget_changes.n + 1`)
	return err
}

// BudgetChanges returns the number of changes of budgets that all nodes have committed.
func (tx Books) BudgetChanges(ctx context.Context) (n int64, err error) {
	_, err = tx.Get(ctx, `SELECT n FROM budget_changes WHERE id = 1`, nil, &n)
	return n, err
}

// InsertBudget adds a budget. Id, times and revision are set, except EffectiveAt. One for the
// same subject and period is CodeConflict; [stoa.MaxBudgets] and [stoa.MaxCallBudgets] are
// CodeLimitReached.
func (tx Books) InsertBudget(ctx context.Context, b stoa.Budget) (stoa.Budget, error) {
	if err := tx.changeBudgets(ctx); err != nil { // first, so that creations wait for each other
		return b, err
	}
	all, err := tx.BudgetsOf(ctx, b.AccountID)
	if err != nil {
		return b, err
	}
	if len(all) >= stoa.MaxBudgets {
		return b, stoa.Errorf(stoa.CodeLimitReached, "There are %d budgets in this account, which is the maximum. Remove one that is no longer needed.", len(all))
	}
	kinds := map[string]bool{string(b.Scope) + " " + string(b.Period): true}
	for _, other := range all {
		kinds[string(other.Scope)+" "+string(other.Period)] = true
		if other.Scope == b.Scope && other.Period == b.Period && other.Subject == b.Subject {
			return b, stoa.Errorf(stoa.CodeConflict, "The budget %s already limits this subject in this period. Change its limit, or remove it first.", other.ID).At("subject")
		}
	}
	if len(kinds) > stoa.MaxCallBudgets {
		return b, stoa.Errorf(stoa.CodeLimitReached, "More than %d budgets could apply to one call. Use fewer different scopes and periods.", stoa.MaxCallBudgets).At("scope")
	}
	b.ID, b.CreatedAt, b.UpdatedAt, b.Revision = stoa.NewID("bud"), tx.Now, tx.Now, 1
	_, err = budgets.insert(ctx, tx.Tx, &b, "")
	return b, err
}

// BudgetsOf returns all budgets of an account.
func (tx Books) BudgetsOf(ctx context.Context, accountID string) ([]stoa.Budget, error) {
	return list(ctx, tx.Tx, budgets.scan, `SELECT `+budgets.columns+` FROM budgets WHERE account_id = $1 ORDER BY created_at, id LIMIT $2`, accountID, stoa.MaxBudgets)
}

// Budget returns a budget of an account, or CodeNotFound.
func (tx Books) Budget(ctx context.Context, accountID, id string) (stoa.Budget, error) {
	return budgets.one(ctx, tx.Tx, noBudget(id), `account_id = $1 AND id = $2`, accountID, id)
}

// AccountOfBudget returns the account id of a budget, for operators, or CodeNotFound.
func (tx Books) AccountOfBudget(ctx context.Context, id string) (accountID string, err error) {
	found, err := tx.Get(ctx, `SELECT account_id FROM budgets WHERE id = $1`, []any{id}, &accountID)
	if err == nil && !found {
		err = noBudget(id)
	}
	return accountID, err
}

func noBudget(id string) error { return stoa.Errorf(stoa.CodeNotFound, "There is no budget %q.", id) }

// Budgets lists the budgets of an account. A text in the scope, the subject, its name or the id narrows it
// (see [Setup.Agents]).
func (tx Books) Budgets(ctx context.Context, accountID, text string, p Page) ([]stoa.Budget, Cursor, error) {
	return budgets.search(ctx, tx.Tx, p, filtered{from: `FROM budgets WHERE account_id = $1`, args: []any{accountID}, search: textSearch{text, []string{
		"scope", "subject", "id",
		"(SELECT name FROM agents o WHERE o.account_id = looked.account_id AND o.id = looked.subject)",
		"(SELECT name FROM keys o WHERE o.account_id = looked.account_id AND o.id = looked.subject)",
		"(SELECT COALESCE(NULLIF(p.name, ''), p.email) FROM members o JOIN people p ON p.id = o.person_id WHERE o.account_id = looked.account_id AND o.person_id = looked.subject)",
	}}})
}

// EditBudget lets fn change limit, cap and marks of a budget and writes the result. It locks the row
// while fn runs, so that fn can compare revisions. If fn fails, it returns the error and writes nothing.
func (tx Books) EditBudget(ctx context.Context, accountID, id string, fn func(*stoa.Budget) error) (stoa.Budget, error) {
	if err := tx.changeBudgets(ctx); err != nil {
		return stoa.Budget{}, err
	}
	b, err := budgets.one(ctx, tx.Tx, noBudget(id), `account_id = $1 AND id = $2`+tx.ForUpdate(), accountID, id)
	if err != nil {
		return b, err
	}
	return budgets.edit(ctx, tx.Tx, accountID, id, b, fn)
}

// DeleteBudget removes a budget, or fails with CodeNotFound. [Books.PurgeDeletedBudgets] removes its
// windows later, because there is one for each end user.
func (tx Books) DeleteBudget(ctx context.Context, accountID, id string) error {
	if err := tx.changeBudgets(ctx); err != nil {
		return err
	}
	n, err := tx.Exec(ctx, `DELETE FROM budgets WHERE account_id = $1 AND id = $2`, accountID, id)
	if err == nil && n == 0 {
		err = noBudget(id)
	}
	return err
}

// A BudgetWindow is one period of a budget for one subject.
type BudgetWindow struct {
	ID        string       `db:"id"`
	AccountID string       `db:"account_id"`
	BudgetID  string       `db:"budget_id"` // empty means the daily limit of a key
	Subject   string       `db:"subject"`
	StartsAt  time.Time    `db:"starts_at"`
	EndsAt    time.Time    `db:"ends_at"` // zero means never
	Opening   stoa.Credits `db:"opening"` // spent before the window was created
	Spent     stoa.Credits `db:"spent"`   // sum of the charges that name the window
	Notified  int          `db:"notified"`
	CreatedAt time.Time    `db:"created_at"`
}

// Used returns the credits that were spent in the period.
func (w *BudgetWindow) Used() stoa.Credits { return w.Opening + w.Spent }

var budgetWindows = newTable[BudgetWindow]("budget_windows")

// BudgetWindow returns the window of a budget for a subject and the begin of a period, and
// whether it exists.
func (tx Books) BudgetWindow(ctx context.Context, accountID, budgetID, subject string, starts time.Time) (BudgetWindow, bool, error) {
	return budgetWindows.first(ctx, tx.Tx, `account_id = $1 AND budget_id = $2 AND subject = $3 AND starts_at = $4`, accountID, budgetID, subject, db.Micros(starts))
}

// AddBudgetWindow adds a window, unless it exists, and returns it. The opening is what the subject
// has spent in the period so far, since earlier charges do not name the window.
func (tx Books) AddBudgetWindow(ctx context.Context, w BudgetWindow, scope stoa.BudgetScope) (BudgetWindow, error) {
	var err error
	if w.Opening, err = tx.SpentIn(ctx, w.AccountID, scope, w.Subject, w.StartsAt); err != nil {
		return w, err
	}
	w.ID, w.CreatedAt = stoa.NewID("bwn"), tx.Now
	n, err := budgetWindows.insert(ctx, tx.Tx, &w, ` ON CONFLICT (account_id, budget_id, subject, starts_at) DO NOTHING`)
	if err != nil || n > 0 {
		return w, err
	}
	w, _, err = tx.BudgetWindow(ctx, w.AccountID, w.BudgetID, w.Subject, w.StartsAt)
	return w, err
}

// LiveBudgetWindows returns the number of windows of an account that have not ended, at most
// [stoa.MaxBudgetWindows].
func (tx Books) LiveBudgetWindows(ctx context.Context, accountID string) (n int, err error) {
	_, err = tx.Get(ctx, `SELECT COUNT(*) FROM (SELECT 1 FROM budget_windows WHERE account_id = $1 AND (ends_at = 0 OR ends_at > $2) LIMIT $3) live`,
		[]any{accountID, db.Micros(tx.Now), stoa.MaxBudgetWindows}, &n)
	return n, err
}

// ofSubject are the conditions on charges, by scope; the subject is $3.
var ofSubject = map[stoa.BudgetScope]string{
	stoa.BudgetOfAccount: `$3 = ''`,
	stoa.BudgetOfMember:  `member_id = $3`,
	stoa.BudgetOfKey:     `(root_id = $3 OR root_id = '' AND key_id = $3)`,
	stoa.BudgetOfAgent:   `agent_id = $3 AND agent_id <> ''`,
	stoa.BudgetOfEmbed:   `embed_id = $3`,
	stoa.BudgetOfEndUser: `end_user = $3 AND end_user <> ''`,
}

// SpentIn returns the sum of the charges of a subject whose calls began at or after a time.
func (tx Books) SpentIn(ctx context.Context, accountID string, scope stoa.BudgetScope, subject string, from time.Time) (sum stoa.Credits, err error) {
	_, err = tx.Get(ctx, `SELECT CAST(COALESCE(SUM(amount), 0) AS BIGINT) FROM charges WHERE account_id = $1 AND created_at >= $2 AND started_at >= $2 AND `+ofSubject[scope],
		[]any{accountID, db.Micros(from), subject}, &sum)
	return sum, err
}

// AddToBudgetWindow adds to the spent amount of a window; see [Books.SpendBudgetWindow].
func (tx Books) AddToBudgetWindow(ctx context.Context, id string, amount stoa.Credits) error {
	_, err := tx.Exec(ctx, `UPDATE budget_windows SET spent = spent + $2 WHERE id = $1`, id, int64(amount))
	return err
}

// SpendBudgetWindow adds to the spent amount of a window. It returns the window's use and its
// highest announced mark, and whether it exists.
func (tx Books) SpendBudgetWindow(ctx context.Context, id string, amount stoa.Credits) (used stoa.Credits, notified int, found bool, err error) {
	found, err = tx.Get(ctx, `UPDATE budget_windows SET spent = spent + $2 WHERE id = $1 RETURNING opening + spent, notified`, []any{id, int64(amount)}, &used, &notified)
	return used, notified, found, err
}

// NotifiedBudgetWindow records the highest announced mark of a window.
func (tx Books) NotifiedBudgetWindow(ctx context.Context, id string, mark int) error {
	_, err := tx.Exec(ctx, `UPDATE budget_windows SET notified = $2 WHERE id = $1`, id, mark)
	return err
}

// UsedOfBudgetWindow returns the use of a window, and whether it exists.
func (tx Books) UsedOfBudgetWindow(ctx context.Context, id string) (used stoa.Credits, found bool, err error) {
	found, err = tx.Get(ctx, `SELECT opening + spent FROM budget_windows WHERE id = $1`, []any{id}, &used)
	return used, found, err
}

// BudgetWindows lists the windows of a budget that contain a time.
func (tx Books) BudgetWindows(ctx context.Context, accountID, budgetID string, at time.Time, p Page) ([]BudgetWindow, bool, error) {
	return budgetWindows.page(ctx, tx.Tx, p, `account_id = $1 AND budget_id = $2 AND starts_at <= $3 AND (ends_at = 0 OR ends_at > $3)`, accountID, budgetID, db.Micros(at))
}

// A ReachedWindow is a window whose use has reached a mark of its budget.
type ReachedWindow struct {
	BudgetWindow
	Scope stoa.BudgetScope
	Limit stoa.Credits
}

// ReachedWindows returns windows of an account that contain a time and whose use reaches a mark of
// their budget. It compares with the current limit, because that may have been raised since.
func (tx Books) ReachedWindows(ctx context.Context, accountID string, at time.Time, limit int) ([]ReachedWindow, error) {
	return list(ctx, tx.Tx, func(rows *sql.Rows) (w ReachedWindow, err error) {
		err = rows.Scan(append(budgetWindows.dest(&w.BudgetWindow), &w.Scope, &w.Limit)...)
		return w, err
	}, `SELECT `+budgetWindows.columnsOf("w.")+`, b.scope, b.limit_micro FROM budget_windows w JOIN budgets b ON b.id = w.budget_id AND b.account_id = w.account_id
		WHERE w.account_id = $1 AND w.notified > 0 AND w.starts_at <= $2 AND (w.ends_at = 0 OR w.ends_at > $2)
		AND (w.opening + w.spent) * 100 >= w.notified * b.limit_micro ORDER BY w.ends_at, w.id LIMIT $3`, accountID, db.Micros(at), limit)
}

// endedWindowKept is the time for which a window is kept after its end.
const endedWindowKept = 40 * 24 * time.Hour

// PurgeBudgetWindows removes up to limit windows that ended long ago.
func (tx Books) PurgeBudgetWindows(ctx context.Context, limit int) (int64, error) {
	return tx.Exec(ctx, `DELETE FROM budget_windows WHERE id IN (SELECT id FROM budget_windows WHERE ends_at > 0 AND ends_at < $1 LIMIT $2)`,
		db.Micros(tx.Now.Add(-endedWindowKept)), limit)
}

// AccountsWithDeletedBudgets lists the accounts with windows of deleted budgets, by id and after the
// given one.
func (tx Books) AccountsWithDeletedBudgets(ctx context.Context, after string, limit int) ([]string, error) {
	return tx.texts(ctx, `SELECT DISTINCT account_id FROM budget_windows w WHERE account_id > $1 AND NOT EXISTS (SELECT 1 FROM budgets b WHERE b.id = w.budget_id)
		ORDER BY account_id LIMIT $2`, after, limit)
}

// PurgeDeletedBudgets removes up to limit windows of the deleted budgets of an account.
func (tx Books) PurgeDeletedBudgets(ctx context.Context, accountID string, limit int) (int64, error) {
	return tx.Exec(ctx, `DELETE FROM budget_windows WHERE id IN (SELECT id FROM budget_windows w WHERE account_id = $1
		AND NOT EXISTS (SELECT 1 FROM budgets b WHERE b.id = w.budget_id) LIMIT $2)`, accountID, limit)
}

// array returns a list of ids or numbers as an array of PostgreSQL.
func array(list []string) string { return "{" + strings.Join(list, ",") + "}" }

// A WindowState is the state of a window, locked until the commit.
type WindowState struct {
	Used, Held stoa.Credits
	Limit      stoa.Credits
	Limited    bool // the budget exists
}

// LockBudgetWindows locks windows until the commit, in the order of their ids, so that two nodes
// cannot deadlock. It is for PostgreSQL, because on SQLite one process holds everything in memory.
func (tx Books) LockBudgetWindows(ctx context.Context, ids []string) error {
	if len(ids) == 0 || !tx.Postgres() {
		return nil
	}
	return tx.Query(ctx, func(*sql.Rows) error { return nil }, `SELECT id FROM budget_windows WHERE id = ANY($1::text[]) ORDER BY id FOR UPDATE`, array(ids))
}

// BudgetWindowStates returns the states of locked windows, by id. It is for PostgreSQL.
func (tx Books) BudgetWindowStates(ctx context.Context, ids []string) (map[string]*WindowState, error) {
	states := make(map[string]*WindowState, len(ids))
	err := tx.Query(ctx, func(rows *sql.Rows) error {
		var id string
		var s WindowState
		err := rows.Scan(&id, &s.Used, &s.Limit, &s.Limited, &s.Held)
		states[id] = &s
		return err
	}, `SELECT w.id, w.opening + w.spent, COALESCE(b.limit_micro, 0), b.id IS NOT NULL,
			COALESCE((SELECT SUM(h.amount) FROM budget_holds h WHERE h.window_id = w.id), 0)::bigint
		FROM budget_windows w LEFT JOIN budgets b ON b.id = w.budget_id WHERE w.id = ANY($1::text[])`, array(ids))
	return states, err
}

// HeldOfBudgetWindow returns the credits that calls of all nodes have reserved of a window.
func (tx Books) HeldOfBudgetWindow(ctx context.Context, id string) (held stoa.Credits, err error) {
	_, err = tx.Get(ctx, `SELECT CAST(COALESCE(SUM(amount), 0) AS BIGINT) FROM budget_holds WHERE window_id = $1`, []any{id}, &held)
	return held, err
}

// A WindowHold is the credits of a window that a call has reserved.
type WindowHold struct {
	WindowID, HoldID string
	Amount           stoa.Credits
}

// HoldBudgetWindows writes reservations. It replaces those of the same calls, so that a repeated
// transaction counts none twice. The windows must be locked. It is for PostgreSQL.
func (tx Books) HoldBudgetWindows(ctx context.Context, nodeID string, holds []WindowHold) error {
	if len(holds) == 0 {
		return nil
	}
	windows, calls, amounts := make([]string, len(holds)), make([]string, len(holds)), make([]string, len(holds))
	for i, h := range holds {
		windows[i], calls[i], amounts[i] = h.WindowID, h.HoldID, strconv.FormatInt(int64(h.Amount), 10)
	}
	_, err := tx.Exec(ctx, `INSERT INTO budget_holds (window_id, hold_id, node_id, amount)
		SELECT w, h, $4, a FROM unnest($1::text[], $2::text[], $3::bigint[]) AS t (w, h, a)
		ON CONFLICT (window_id, hold_id) DO UPDATE SET amount = excluded.amount`, array(windows), array(calls), array(amounts), nodeID)
	return err
}

// ShrinkBudgetHold lowers the reservations of a call. It changes nothing if they are gone.
func (tx Books) ShrinkBudgetHold(ctx context.Context, holdID string, amount stoa.Credits) error {
	_, err := tx.Exec(ctx, `UPDATE budget_holds SET amount = $2 WHERE hold_id = $1 AND amount > $2`, holdID, int64(amount))
	return err
}

// ReleaseBudgetHolds removes the reservations of calls. It is for PostgreSQL.
func (tx Books) ReleaseBudgetHolds(ctx context.Context, holdIDs []string) error {
	if len(holdIDs) == 0 {
		return nil
	}
	_, err := tx.Exec(ctx, `DELETE FROM budget_holds WHERE hold_id = ANY($1::text[])`, array(holdIDs))
	return err
}

// windowDifferences compares the windows of budgets with the sums of the charges that name them. It skips a
// window if purged charges may have named it, because the sum is then unknown.
func (tx Books) windowDifferences(ctx context.Context, of someAccounts, charged map[string]stoa.Credits) (all []Difference, err error) {
	err = tx.Query(ctx, func(rows *sql.Rows) error {
		d := Difference{What: "a window of a budget has spent the sum of its charges"}
		err := rows.Scan(&d.ID, &d.AccountID, &d.Have)
		if d.Want = charged[d.ID]; d.Have != d.Want {
			all = append(all, d)
		}
		return err
	}, of.in(`SELECT id, account_id, spent FROM budget_windows WHERE
		created_at > COALESCE((SELECT MAX(p.last_at) FROM purged_charges p WHERE p.account_id = budget_windows.account_id), 0) AND [of account_id]`), of.args...)
	return all, err
}
