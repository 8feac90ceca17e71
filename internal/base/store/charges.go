package store

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"stoa/internal/base/db"
	"stoa/internal/base/stoa"
)

// A Receipt is a stored charge with the lease that paid it.
type Receipt struct {
	stoa.Charge
	LeaseID   string    `db:"lease_id"`
	NodeID    string    `db:"node_id"`
	CreatedAt time.Time `db:"created_at"` // time of the transaction
}

var charges = newTable[Receipt]("charges")

// receiptColumns lists the columns of charges and the data stored next to a charge. A missing rate
// of cache writes is that of input, because earlier versions counted writes as input.
var receiptColumns = strings.NewReplacer(
	"price_cache_write,", "COALESCE(price_cache_write, price_input),",
	"price_cache_write_long,", "COALESCE(price_cache_write_long, price_input),",
).Replace(charges.columns) + `,
	COALESCE((SELECT a.adjustments FROM charge_adjustments a WHERE a.charge_id = id), 0)`

// receiptScan returns a function that reads rows of receiptColumns. It reads all of them into one
// receipt, because finding 46 fields for each row would double its time.
func receiptScan() func(*sql.Rows) (Receipt, error) {
	var r Receipt
	dest := append(charges.dest(&r), &r.Adjustments)
	return func(rows *sql.Rows) (Receipt, error) {
		err := rows.Scan(dest...)
		return r, err
	}
}

// insertSizes lists the possible numbers of rows of one INSERT. They are few, so that few statements
// are ever prepared.
var insertSizes = [...]int{64, 32, 16, 8, 4, 2, 1}

// InsertCharges writes charges, adds new ones to the sums of the day and the hour, and returns the ids
// of the new ones, in no order: a batch may be repeated because the outcome of its commit is unknown.
// The ids must differ. It sets CreatedAt to the time of the transaction.
func (tx Books) InsertCharges(ctx context.Context, receipts []Receipt) (inserted map[string]bool, err error) {
	all := receipts
	inserted = make(map[string]bool, len(receipts))
	args := make([]any, 0, min(len(receipts), insertSizes[0])*len(charges.fields))
	for _, size := range insertSizes {
		for ; len(receipts) >= size; receipts = receipts[size:] {
			args = args[:0]
			for i := range receipts[:size] {
				receipts[i].CreatedAt = tx.Now
				if args, err = charges.appendValues(args, &receipts[i]); err != nil {
					return nil, err
				}
			}
			if err := tx.insertReceipts(ctx, receipts[:size], args, inserted); err != nil {
				return nil, err
			}
		}
	}
	for i := range all {
		c := &all[i].Charge
		if c.Adjustments == 0 || !inserted[c.ID] {
			continue
		}
		if _, err := tx.Exec(ctx, `INSERT INTO charge_adjustments (charge_id, account_id, adjustments) VALUES ($1, $2, $3)`, c.ID, c.AccountID, int64(c.Adjustments)); err != nil {
			return nil, err
		}
	}
	if tx.s.Postgres() { // its statements did
		return inserted, nil
	}
	return inserted, tx.addToSums(ctx, all, inserted)
}

func (tx Books) insertReceipts(ctx context.Context, receipts []Receipt, args []any, inserted map[string]bool) error {
	note := func(rows *sql.Rows) error {
		var id string
		err := rows.Scan(&id)
		inserted[id] = true
		return err
	}
	insert := insertCharges(len(receipts), tx.s.Postgres())
	if tx.s.Postgres() {
		return tx.Query(ctx, note, insert, args...)
	}
	made, err := tx.Exec(ctx, insert, args...)
	if err != nil {
		return err
	}
	if made < int64(len(receipts)) { // some charges already exist: SQLite numbers rows, so the new ones are the last
		return tx.Query(ctx, note, `SELECT id FROM charges WHERE rowid > (SELECT MAX(rowid) FROM charges) - $1 LIMIT $1`, made)
	}
	for i := range receipts {
		inserted[receipts[i].ID] = true
	}
	return nil
}

func insertCharges(rows int, postgres bool) string {
	texts := &insertTexts
	if postgres {
		texts = &insertTextsWithSums
	}
	return texts[slices.Index(insertSizes[:], rows)]
}

var insertTexts, insertTextsWithSums = func() (plain, withSums [len(insertSizes)]string) {
	for i, rows := range insertSizes {
		insert := insertRows(`INSERT INTO charges (`+charges.columns+`)`, rows, len(charges.fields)) + ` ON CONFLICT (id) DO NOTHING`
		plain[i] = insert
		withSums[i] = `WITH made AS (` + insert + ` RETURNING id, account_id, agent_id, created_at, created_at / 3600000000 AS hour, served, provider, key_id, node_id, ` + ofCharge + `), days AS (
			INSERT INTO charge_days (account_id, day, node_id, amount)
			SELECT account_id, created_at / 86400000000, node_id, CAST(SUM(amount) AS BIGINT) FROM made WHERE amount > 0 GROUP BY 1, 2, 3` + addDays + `), agents AS (
			INSERT INTO agent_days (account_id, agent_id, day, node_id, amount)
			SELECT account_id, agent_id, created_at / 86400000000, node_id, CAST(SUM(amount) AS BIGINT) FROM made WHERE amount > 0 AND agent_id <> '' GROUP BY 1, 2, 3, 4` + addAgentDays + `), hours AS (` + addMade + `)
			SELECT id FROM made`
	}
	return plain, withSums
}()

// Receipt returns an account's charge with that id, or CodeNotFound.
func (tx Books) Receipt(ctx context.Context, accountID, id string) (Receipt, error) {
	r, found, err := tx.receipt(ctx, `account_id = $1 AND id = $2`, accountID, id)
	if err == nil && !found {
		err = stoa.Errorf(stoa.CodeNotFound, "There is no receipt %q.", id)
	}
	return r, err
}

// ChargeByID returns a charge of any account. It is only for the ledger, because that must check
// whether an id has been used.
func (tx Books) ChargeByID(ctx context.Context, id string) (Receipt, bool, error) {
	return tx.receipt(ctx, `id = $1`, id)
}

func (tx Books) receipt(ctx context.Context, where string, args ...any) (Receipt, bool, error) {
	return first(ctx, tx.Tx, receiptScan(), `SELECT `+receiptColumns+` FROM charges WHERE `+where, args...)
}

// A ReceiptFilter narrows a list of receipts. Empty members match all.
type ReceiptFilter struct {
	All                                                 bool // those of all accounts, for operators; only for sums by time, key and model
	KeyID, Served, AgentID, SpaceID, SessionID, EndUser string
	From, To                                            time.Time // created at or after From, before To
}

// Receipts lists an account's charges, and returns the cursor of the next page, or the zero cursor.
// With a filter by key or model, or by more than one of the others, a page may be short or empty
// although there is a next one, because no index serves these and it reads at most 2,000 charges.
func (tx Books) Receipts(ctx context.Context, accountID string, f ReceiptFilter, p Page) ([]Receipt, Cursor, error) {
	return filteredPage(ctx, tx.Tx, p, receiptsOf(accountID, f), receiptScan(), func(r Receipt) Cursor { return Cursor{At: r.CreatedAt, ID: r.ID} },
		`SELECT `+receiptColumns+` FROM (`, `) c`)
}

// SumReceipts sums the charges of [Books.Receipts], or without an account those of [Books.ReceiptsOfAll].
func (tx Books) SumReceipts(ctx context.Context, accountID string, f ReceiptFilter) (r UsageRow, err error) {
	q, sums := receiptsOf(accountID, f), sumsOfCharges
	if f.SessionID+f.EndUser+f.AgentID+f.SpaceID == "" {
		who := ofOne
		if f.All {
			who = ofAll
			if f.KeyID != "" {
				who = ofEach
			}
		}
		table, args, err := tx.hours(ctx, who, accountID, f.From, f.To, nil)
		if err != nil {
			return r, err
		}
		q.from, q.args, sums = `FROM `+table+` WHERE 1 = 1`, args, sumsOfHours
	}
	cond, args := q.conditions(q.args)
	_, err = tx.Get(ctx, `SELECT `+sums+` `+q.from+cond, args, r.dest()...)
	return r, err
}

func receiptsOf(accountID string, f ReceiptFilter) filtered {
	q := filtered{from: `FROM charges WHERE account_id = $1`, args: []any{accountID}}
	add := func(cond string, value any) {
		q.args = append(q.args, value)
		q.from += fmt.Sprintf(" AND "+cond, len(q.args))
	}
	// The first filter that is set selects the index; "<> ''" allows a partial one.
	indexed := false
	for _, c := range []struct{ column, value string }{
		{"session_id", f.SessionID},
		{"end_user", f.EndUser},
		{"agent_id", f.AgentID},
		{"space_id", f.SpaceID},
	} {
		if c.value == "" {
			continue
		}
		if indexed {
			q.rest = append(q.rest, c.column, c.value)
			continue
		}
		indexed = true
		add(c.column+" = $%d AND "+c.column+" <> ''", c.value)
	}
	q.rest = append(q.rest, "key_id", f.KeyID, "served", f.Served)
	if !f.From.IsZero() {
		add("created_at >= $%d", db.Micros(f.From))
	}
	if !f.To.IsZero() {
		add("created_at < $%d", db.Micros(f.To))
	}
	return q
}
