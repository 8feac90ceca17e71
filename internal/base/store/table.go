package store

import (
	"context"
	"database/sql"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"stoa/internal/base/db"
	"stoa/internal/base/jsonx"
)

// A table maps the columns of a table to the fields of T that have a tag
// `db:"column"` or `db:"column,form"`, also those of structs inside T. A number, text or
// bool is stored as it is, a time or duration in microseconds, a nil pointer as NULL. The forms are
//
//	null      an empty text is NULL
//	words     a list of words with a space before and after each, "*" alone, or ''
//	fields    a list of words with spaces between
//	json      JSON
//	times     JSON: a list of times in microseconds
//	optional  JSON; nil or an empty list is ''
//	not       a bool whose column has the opposite
//
// Rows are found by the columns account_id and id. Statements with other conditions are
// written by hand around columns and scan.
type table[T any] struct {
	name    string
	columns string // columns of a SELECT
	fields  []rowField
}

type rowField struct {
	column, form string
	index        []int
}

var timeType, durationType = reflect.TypeFor[time.Time](), reflect.TypeFor[time.Duration]()

// tables lists the columns of every table, because a test compares them with the migrations.
var tables = map[string]string{}

func newTable[T any](name string) *table[T] {
	t := &table[T]{name: name, fields: rowFields(reflect.TypeFor[T](), nil)}
	t.columns = t.columnsOf("")
	tables[name] = t.columns
	return t
}

// columnsOf returns the columns of a SELECT from a table with that prefix, such as "t.".
func (t *table[T]) columnsOf(prefix string) string {
	var read []string
	for _, f := range t.fields {
		if column := prefix + f.column; f.form == "null" {
			read = append(read, "COALESCE("+column+", '')")
		} else {
			read = append(read, column)
		}
	}
	return strings.Join(read, ", ")
}

// columnsOrZero is like columnsOf for the optional table of an outer join.
func (t *table[T]) columnsOrZero(prefix string) string {
	var read []string
	for _, f := range t.fields {
		zero := "0"
		if f.form == "string" {
			zero = "''"
		}
		read = append(read, "COALESCE("+prefix+f.column+", "+zero+")")
	}
	return strings.Join(read, ", ")
}

// excluded returns the assignments of an INSERT … ON CONFLICT DO UPDATE of all columns.
func (t *table[T]) excluded() string {
	var set []string
	for _, f := range t.fields {
		set = append(set, f.column+" = EXCLUDED."+f.column)
	}
	return strings.Join(set, ", ")
}

// rowFields returns the fields of a struct with a column.
func rowFields(of reflect.Type, index []int) (fields []rowField) {
	for i := range of.NumField() {
		f := of.Field(i)
		at := append(append([]int(nil), index...), i)
		tag, tagged := f.Tag.Lookup("db")
		switch {
		case tagged:
			column, form, _ := strings.Cut(tag, ",")
			switch {
			case form != "":
			case f.Type == timeType:
				form = "time"
			case f.Type == durationType:
				form = "duration"
			default:
				form = f.Type.Kind().String()
			}
			fields = append(fields, rowField{column, form, at})
		case f.Type.Kind() == reflect.Struct && f.Type != timeType:
			fields = append(fields, rowFields(f.Type, at)...)
		}
	}
	return fields
}

// insert adds a row. suffix follows the VALUES, such as ON CONFLICT; extra are columns
// that T does not have, each with its value.
func (t *table[T]) insert(ctx context.Context, tx *Tx, row *T, suffix string, extra ...any) (int64, error) {
	statement, args, err := t.inserting(row, extra...)
	if err != nil {
		return 0, err
	}
	return tx.Exec(ctx, statement+suffix, args...)
}

func (t *table[T]) inserting(row *T, extra ...any) (statement string, args []any, err error) {
	columns, args, err := t.values(row, nil, extra)
	return insertRows(`INSERT INTO `+t.name+` (`+strings.Join(columns, ", ")+`)`, 1, len(args)), args, err
}

// update writes all columns of the row with these ids, except the time of its creation, and counts the
// change; extra as in insert. The transaction must have locked the row, since it writes columns that
// the caller did not change.
func (t *table[T]) update(ctx context.Context, tx *Tx, accountID, id string, row *T, extra ...any) error {
	v := reflect.ValueOf(row).Elem()
	var columns []string
	for _, f := range t.fields {
		switch field := v.FieldByIndex(f.index); f.column {
		case "id", "account_id", "created_at":
			continue
		case "revision":
			field.SetInt(field.Int() + 1)
		case "updated_at":
			field.Set(reflect.ValueOf(tx.Now))
		}
		columns = append(columns, f.column)
	}
	statement, args, err := t.changing(row, columns, extra, `account_id = $1 AND id = $2`, accountID, id)
	if err == nil {
		_, err = tx.Exec(ctx, statement, args...)
	}
	return err
}

// edit lets fn change a row that the transaction has locked, and writes the result. If fn fails, it writes nothing.
func (t *table[T]) edit(ctx context.Context, tx *Tx, accountID, id string, row T, fn func(*T) error) (T, error) {
	err := fn(&row)
	if err == nil {
		err = t.update(ctx, tx, accountID, id, &row)
	}
	return row, err
}

// change writes the named columns, separated by spaces, of the rows that match a condition.
func (t *table[T]) change(ctx context.Context, tx *Tx, row *T, names, cond string, condArgs ...any) (int64, error) {
	statement, args, err := t.changing(row, strings.Fields(names), nil, cond, condArgs...)
	if err != nil {
		return 0, err
	}
	return tx.Exec(ctx, statement, args...)
}

// changing returns the statement that writes some columns of the rows that match a
// condition.
func (t *table[T]) changing(row *T, columns []string, extra []any, cond string, condArgs ...any) (statement string, args []any, err error) {
	set, values, err := t.values(row, columns, extra)
	for i, column := range set {
		set[i] = column + " = $" + strconv.Itoa(len(condArgs)+i+1)
	}
	return `UPDATE ` + t.name + ` SET ` + strings.Join(set, ", ") + ` WHERE ` + cond, append(condArgs, values...), err
}

// values returns columns and their values: those of a row (all if of is nil), and the extra
// ones.
func (t *table[T]) values(row *T, of []string, extra []any) (columns []string, values []any, err error) {
	v := reflect.ValueOf(row).Elem()
	for _, f := range t.fields {
		if of != nil && !slices.Contains(of, f.column) {
			continue
		}
		value, err := f.value(v.FieldByIndex(f.index))
		if err != nil {
			return nil, nil, err
		}
		columns, values = append(columns, f.column), append(values, value)
	}
	for i := 0; i < len(extra); i += 2 {
		columns, values = append(columns, extra[i].(string)), append(values, extra[i+1])
	}
	return columns, values, nil
}

// appendValues appends the values of all columns of a row to those of other rows. It uses a text of the
// previous row again, because each conversion allocates.
func (t *table[T]) appendValues(values []any, row *T) ([]any, error) {
	of := reflect.ValueOf(row).Elem()
	for i := range t.fields {
		f, v := &t.fields[i], of
		for _, j := range f.index { // FieldByIndex is slower, since it expects pointers
			v = v.Field(j)
		}
		if before := len(values) - len(t.fields); before >= 0 && f.form == "string" && values[before] == v.String() {
			values = append(values, values[before])
			continue
		}
		value, err := f.value(v)
		if err != nil {
			return nil, err
		}
		values = append(values, value)
	}
	return values, nil
}

// first returns the first row of an account that matches a condition, and whether there is
// one. The condition may end with a lock.
func (t *table[T]) first(ctx context.Context, tx *Tx, cond string, args ...any) (T, bool, error) {
	return first(ctx, tx, t.scan, `SELECT `+t.columns+` FROM `+t.name+` WHERE `+cond, args...)
}

// find is like first but returns nil if there is no such row.
func (t *table[T]) find(ctx context.Context, tx *Tx, cond string, args ...any) (*T, error) {
	row, found, err := t.first(ctx, tx, cond, args...)
	if err != nil || !found {
		return nil, err
	}
	return &row, nil
}

// one is like first but returns the error missing if there is no such row.
func (t *table[T]) one(ctx context.Context, tx *Tx, missing error, cond string, args ...any) (T, error) {
	row, found, err := t.first(ctx, tx, cond, args...)
	if err == nil && !found {
		err = missing
	}
	return row, err
}

// page lists the rows of one page that match a condition.
func (t *table[T]) page(ctx context.Context, tx *Tx, p Page, cond string, args ...any) ([]T, bool, error) {
	return page(ctx, tx, p, t.scan, `SELECT `+t.columns+` FROM `+t.name+` WHERE `+cond, args...)
}

func (t *table[T]) scan(rows *sql.Rows) (row T, err error) {
	err = rows.Scan(t.dest(&row)...)
	return row, err
}

// dest returns the scan targets of a row's columns, for queries with more columns.
func (t *table[T]) dest(row *T) []any {
	v := reflect.ValueOf(row).Elem()
	dest := make([]any, len(t.fields))
	for i, f := range t.fields {
		field := v.FieldByIndex(f.index)
		switch f.form {
		case "time":
			dest[i] = (*timeColumn)(field.Addr().Interface().(*time.Time))
		case "duration":
			dest[i] = (*durationColumn)(field.Addr().Interface().(*time.Duration))
		case "string", "int", "int64", "bool", "ptr", "null":
			dest[i] = field.Addr().Interface()
		default:
			dest[i] = column{f.form, field}
		}
	}
	return dest
}

func (f *rowField) value(v reflect.Value) (any, error) {
	switch f.form {
	case "string":
		return v.String(), nil
	case "int", "int64":
		return v.Int(), nil
	case "bool":
		return db.Bit(v.Bool()), nil
	case "time":
		return db.Micros(*v.Addr().Interface().(*time.Time)), nil
	case "duration":
		return time.Duration(v.Int()).Microseconds(), nil
	case "ptr": // nil is NULL
		return v.Interface(), nil
	case "null":
		return orNull(v.String()), nil
	case "words":
		return words(v.Interface().([]string)), nil
	case "fields":
		return strings.Join(v.Interface().([]string), " "), nil
	case "json":
		return jsonText(v.Interface())
	case "times":
		list := []int64{}
		for _, at := range v.Interface().([]time.Time) {
			list = append(list, db.Micros(at))
		}
		return jsonText(list)
	case "optional":
		if v.Kind() == reflect.Pointer && v.IsNil() || v.Kind() == reflect.Slice && v.Len() == 0 {
			return "", nil
		}
		return jsonText(v.Interface())
	case "not":
		return db.Bit(!v.Bool()), nil
	}
	return nil, fmt.Errorf("store: the column %s has no form for %s", f.column, v.Type())
}

// A timeColumn and a durationColumn read a value that is stored in microseconds.
type (
	timeColumn     time.Time
	durationColumn time.Duration
)

// Scan implements [sql.Scanner].
func (c *timeColumn) Scan(stored any) error {
	n, err := storedMicros(stored)
	*c = timeColumn(db.Time(n))
	return err
}

// Scan implements [sql.Scanner].
func (c *durationColumn) Scan(stored any) error {
	n, err := storedMicros(stored)
	*c = durationColumn(time.Duration(n) * time.Microsecond)
	return err
}

func storedMicros(stored any) (int64, error) {
	n, ok := stored.(int64)
	if !ok {
		return 0, fmt.Errorf("store: a time is a %T", stored)
	}
	return n, nil
}

// A column reads a value that is stored in another form.
type column struct {
	form string
	into reflect.Value
}

// Scan implements [sql.Scanner].
func (c column) Scan(stored any) error {
	text := ""
	switch s := stored.(type) {
	case int64:
		c.into.SetBool(s == 0) // the only form of a number is "not"
		return nil
	case string:
		text = s
	case []byte:
		text = string(s)
	default:
		return fmt.Errorf("store: a column has a %T", stored)
	}
	switch {
	case c.form == "words" || c.form == "fields":
		c.into.Set(reflect.ValueOf(strings.Fields(text)))
		return nil
	case c.form == "times":
		var list []int64
		err := jsonx.Unmarshal([]byte(text), &list)
		for _, at := range list {
			c.into.Set(reflect.Append(c.into, reflect.ValueOf(db.Time(at))))
		}
		return err
	case c.form == "optional" && text == "":
		return nil
	}
	return jsonx.Unmarshal([]byte(text), c.into.Addr().Interface())
}
