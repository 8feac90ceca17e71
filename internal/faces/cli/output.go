package cli

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/itchyny/gojq"
	"github.com/spf13/cobra"

	"stoa/internal/base/jsonx"
	"stoa/internal/base/stoa"
)

type output struct {
	e       *env
	json    bool
	csv     bool // of a list
	wide    bool // a table shows all columns, also ids, and may be wider than the terminal
	hasWide bool // the command has the flag
	expr    string
}

// addCSV adds --csv to a command that prints a list.
func (o *output) addCSV(c *cobra.Command) {
	c.Flags().BoolVar(&o.csv, "csv", false, "print CSV with a header line: the columns by their names in JSON, amounts in micro-credits")
}

// output adds --json and --jq to a command that prints data.
func (e *env) output(c *cobra.Command) *output {
	o := &output{e: e}
	c.Flags().BoolVar(&o.json, "json", false, "print JSON")
	c.Flags().StringVar(&o.expr, "jq", "", "print the result of a jq `expression`")
	return o
}

func (o *output) raw() bool { return o.json || o.expr != "" }

// A kind is the format of a value.
type kind int

const (
	plain       kind = iota
	flexible         // text that may be cut to fit
	label            // like flexible, but as important as a plain value
	ident            // an id, or a name in its place
	objectName       // the name of an object, which commands accept instead of its id
	objectTitle      // a text for people that identifies an object; commands need its id
	state            // a status word
	credits          // micro-credits
	exact            // micro-credits of books and receipts
	when             // a time
	count            // a number
	size             // bytes
	timetable        // a schedule of a task
	instants         // times, in the time zone of the object's schedule
	priceRules       // the rules of a price
)

// A column is one member of an object: its heading, its path in the JSON with
// dots between names, and its kind.
type column struct {
	head, path string
	kind       kind
}

// A view lists the members of an object to print, in order. schema is its name in the
// contract; a test compares the two.
type view struct {
	schema  string
	columns []column
}

// only returns v with only the columns of these paths, in their order.
func (v view) only(paths ...string) view {
	some := view{schema: v.schema}
	for _, path := range paths {
		some.columns = append(some.columns, v.columns[slices.IndexFunc(v.columns, func(c column) bool { return c.path == path })])
	}
	return some
}

// first returns the position of the column with the name or the title, or -1.
func (v view) first() int {
	return slices.IndexFunc(v.columns, isName)
}

// table returns the columns of a table on a terminal. The name or the title is first, or else the
// time of a record. Ids are last; a table with names shows the object's id only if wide is set.
func (v view) table(wide bool) view {
	at, named := v.first(), true
	if at < 0 {
		named = false
		at = slices.IndexFunc(v.columns, func(c column) bool { return c.path == "createdAt" || c.path == "at" })
	}
	var shown, ids []column
	if at >= 0 {
		shown = append(shown, v.columns[at])
	}
	for i, c := range v.columns {
		switch {
		case i == at:
		case c.path == "id" && named && !wide && v.columns[at].kind != objectTitle:
		case c.path == "id" || !named && c.kind == ident:
			ids = append(ids, c)
		default:
			shown = append(shown, c)
		}
	}
	return view{v.schema, append(shown, ids...)}
}

// decode parses JSON and preserves the notation of numbers.
func decode(raw []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, fmt.Errorf("the reply is not JSON: %w", err)
	}
	return v, nil
}

// at returns the value at a path; of a list of objects, the list of their values.
func at(v any, path string) any {
	names := strings.Split(path, ".")
	for i, name := range names {
		if list, ok := v.([]any); ok {
			values := make([]any, len(list))
			for j, one := range list {
				values[j] = at(one, strings.Join(names[i:], "."))
			}
			return values
		}
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = m[name]
	}
	return v
}

func has(v any, path string) bool {
	name, _, _ := strings.Cut(path, ".")
	m, _ := v.(map[string]any)
	_, ok := m[name]
	return ok
}

func text(v any, path string) string {
	switch v := at(v, path).(type) {
	case nil:
		return ""
	case string:
		return v
	case json.Number:
		return v.String()
	case bool:
		return strconv.FormatBool(v)
	default:
		return fmt.Sprint(v)
	}
}

func number(v any, path string) int64 {
	n, _ := at(v, path).(json.Number)
	i, _ := n.Int64()
	return i
}

// format returns a value as the text of a cell: for people with units and
// relative times, otherwise exact. With aligned all credits have the same number of decimals.
func (o *output) format(c column, row any, human, aligned bool) string {
	v := at(row, c.path)
	if c.kind == priceRules {
		return rulesText(v)
	}
	if human && v != nil {
		switch c.kind {
		case timetable:
			return oneLine(scheduleText(v))
		case instants:
			return instantsText(v, text(row, "schedule.timezone"))
		case state:
			if v == "enabled" && text(row, "failingSince") != "" { // a webhook
				return "failing"
			}
		}
	}
	switch v := v.(type) {
	case nil:
		if human && has(row, c.path) {
			return "–"
		}
		return ""
	case []any:
		if human && len(v) == 0 {
			return "–"
		}
		words := make([]string, len(v))
		for i, w := range v {
			words[i] = oneLine(fmt.Sprint(w))
		}
		return strings.Join(words, ", ")
	case bool:
		if !human {
			return strconv.FormatBool(v)
		}
		if v {
			return "yes"
		}
		return "no"
	case json.Number:
		n, err := v.Int64()
		switch {
		case err != nil:
			return v.String()
		case c.kind == credits && human:
			return amount(stoa.Credits(n), usualDecimals, aligned)
		case c.kind == exact && human:
			return amount(stoa.Credits(n), exactDecimals, aligned)
		case c.kind == credits || c.kind == exact:
			return stoa.Credits(n).String()
		case c.kind == size && human:
			return stoa.Size(n)
		case c.kind == count && human:
			return stoa.Grouped(n)
		}
		return v.String()
	case string:
		if c.kind == when && human {
			if t, err := time.Parse(time.RFC3339, v); err == nil {
				return relative(t, time.Now())
			}
		}
		return oneLine(v)
	case map[string]any:
		if human && len(v) == 0 {
			return "–"
		}
		raw, err := jsonx.Marshal(v)
		if err != nil {
			return ""
		}
		return oneLine(string(raw))
	}
	return oneLine(fmt.Sprint(v))
}

// list prints rows: a table on a terminal, lines with tabs elsewhere, or a JSON array. With a
// limit (0 means none) it expects one additional row, so that it can report that there are more.
func (o *output) list(v view, rows iter.Seq2[jsonx.Value, error], limit int, none string) error {
	var raw []jsonx.Value
	more := false
	for row, err := range rows {
		if err != nil {
			return err
		}
		if limit > 0 && len(raw) == limit {
			more = true
			break
		}
		raw = append(raw, row)
	}
	if more {
		defer o.e.hint("There are more; use a larger --limit, or 0 for all.")
	}
	if o.csv {
		return o.writeCSV(v, raw)
	}
	if o.raw() {
		all := []byte{'['}
		for i, row := range raw {
			if i > 0 {
				all = append(all, ',')
			}
			all = append(all, row...)
		}
		return o.printJSON(append(all, ']'))
	}
	if len(raw) == 0 {
		o.e.hint("%s", none)
		return nil
	}
	human := isTerminal(o.e.out)
	if human {
		v = v.table(o.wide)
	}
	cells := make([][]string, len(raw))
	for i, row := range raw {
		value, err := decode(row)
		if err != nil {
			return err
		}
		for _, c := range v.columns {
			cells[i] = append(cells[i], o.format(c, value, human, true))
		}
		if human && v.first() == 0 && text(value, v.columns[0].path) == "" {
			cells[i][0] = text(value, "id")
		}
	}
	return o.table(v.columns, cells)
}

func (o *output) writeCSV(v view, rows []jsonx.Value) error {
	w := csv.NewWriter(o.e.out)
	cells := make([]string, len(v.columns))
	for i, c := range v.columns {
		cells[i] = c.path
	}
	err := w.Write(cells)
	for _, row := range rows {
		if err != nil {
			return err
		}
		var value any
		if value, err = decode(row); err != nil {
			return err
		}
		for i, c := range v.columns {
			cells[i] = text(value, c.path)
			if _, number := at(value, c.path).(json.Number); !number {
				cells[i] = csvText(cells[i])
			}
		}
		err = w.Write(cells)
	}
	w.Flush()
	return cmp.Or(err, w.Error())
}

// csvText marks a text that a spreadsheet could run as a formula.
func csvText(text string) string {
	if t := strings.TrimSpace(text); t != "" && strings.ContainsRune("=+-@", rune(t[0])) {
		return "'" + text
	}
	return text
}

func (o *output) object(v view, raw jsonx.Value) error {
	if o.raw() {
		return o.printJSON(raw)
	}
	value, err := decode(raw)
	if err != nil {
		return err
	}
	human, s := isTerminal(o.e.out), o.e.style(o.e.out)
	columns := 0
	for _, c := range v.columns {
		columns = max(columns, ansi.StringWidth(c.head))
	}
	var b strings.Builder
	for _, c := range v.columns {
		text := o.format(c, value, human, false)
		if human && !has(value, c.path) {
			continue
		}
		if !human {
			fmt.Fprintf(&b, "%s\t%s\n", c.head, text)
			continue
		}
		if c.kind == when && at(value, c.path) != nil {
			text += "  " + s.dim(oneLine(fmt.Sprint(at(value, c.path))))
		}
		if c.kind == state {
			text = s.status(text)
		}
		if available := width(o.e.out) - columns - 2; available >= 20 { // long text is indented
			text = strings.ReplaceAll(breakLine(text, available), "\n", "\n"+strings.Repeat(" ", columns+2))
		}
		fmt.Fprintf(&b, "%s%s  %s\n", s.dim(c.head), strings.Repeat(" ", columns-ansi.StringWidth(c.head)), text)
	}
	_, err = io.WriteString(o.e.out, b.String())
	return err
}

// table prints cells in aligned columns and cuts flexible ones so that a line
// fits; when the output is not a terminal, with tabs and without headings.
func (o *output) table(columns []column, rows [][]string) error {
	var b strings.Builder
	if !isTerminal(o.e.out) {
		for _, row := range rows {
			b.WriteString(strings.Join(row, "\t"))
			b.WriteByte('\n')
		}
		_, err := io.WriteString(o.e.out, b.String())
		return err
	}
	s := o.e.style(o.e.out)
	all, cut := len(columns), false
	available := width(o.e.out)
	if o.wide {
		available = 0
	}
	columns, rows, widths := fitted(columns, rows, available)
	line := func(cells []string, paint func(i int, text string) string) {
		var parts []string
		for i, cell := range cells {
			if columns[i].kind == ident && ansi.StringWidth(cell) > widths[i] {
				cell, cut = shortenID(cell, widths[i]), true
			}
			cell = shorten(cell, widths[i])
			pad := strings.Repeat(" ", max(0, widths[i]-ansi.StringWidth(cell)))
			cell = paint(i, cell)
			if slices.Contains([]kind{credits, exact, count, size}, columns[i].kind) {
				cell = pad + cell
			} else {
				cell += pad
			}
			parts = append(parts, cell)
		}
		b.WriteString(strings.TrimRight(strings.Join(parts, "  "), " "))
		b.WriteByte('\n')
	}
	heads := make([]string, len(columns))
	for i, c := range columns {
		heads[i] = c.head
	}
	line(heads, func(_ int, text string) string { return s.dim(text) })
	for _, row := range rows {
		line(row, func(i int, text string) string {
			switch columns[i].kind {
			case state:
				return s.status(text)
			case when:
				return s.dim(text)
			}
			return text
		})
	}
	defer func() {
		var missing []string
		if cut {
			missing = append(missing, "ids are shortened")
		}
		if hidden := all - len(columns); hidden > 0 {
			missing = append(missing, some(hidden, "column is hidden", "columns are hidden"))
		}
		if len(missing) > 0 {
			flag := "--json"
			if o.hasWide {
				flag = "--wide"
			}
			o.e.hint("%s; %s shows all.", strings.Join(missing, ", "), flag)
		}
	}()
	_, err := io.WriteString(o.e.out, b.String())
	return err
}

// fitted returns the columns of a table that fit into the available width (0 means no limit),
// their cells, and their widths. If they do not fit, it removes columns without values, then narrows
// columns, and then removes others; the first remains.
func fitted(columns []column, rows [][]string, available int) ([]column, [][]string, []int) {
	for {
		widths := make([]int, len(columns))
		total, empty := 2*(len(columns)-1), 0
		for i, c := range columns {
			widths[i] = ansi.StringWidth(c.head)
			values := false
			for _, row := range rows {
				widths[i] = max(widths[i], ansi.StringWidth(row[i]))
				values = values || row[i] != "" && row[i] != "–"
			}
			total += widths[i]
			if !values {
				empty = i
			}
		}
		if available > 0 && total > available && empty > 0 {
			columns, rows = remove(columns, rows, empty)
			continue
		}
		if fit(columns, widths, available) {
			return columns, rows, widths
		}
		if len(columns) == 1 {
			return columns, rows, []int{available}
		}
		columns, rows = without(columns, rows)
	}
}

func isName(c column) bool { return c.kind == objectName || c.kind == objectTitle }

const (
	narrow        = 20
	narrowest     = 10
	narrowestID   = 12 // enough, because ids differ at their ends
	narrowName    = 40
	narrowestName = 24
)

// fit narrows columns, widest first, until all fit into the available width (0 means no limit), and reports whether they
// do. It narrows flexible ones and the name as far as they stay readable, then flexible ones further, then ids, then the
// name.
func fit(columns []column, widths []int, available int) bool {
	total := 2 * (len(widths) - 1)
	for _, w := range widths {
		total += w
	}
	isText := func(c column) bool { return c.kind == flexible || c.kind == label }
	isID := func(c column) bool { return c.kind == ident }
	for _, may := range []struct {
		narrow func(c column) bool
		to     int
	}{
		{isText, narrow}, {isName, narrowName}, {isText, narrowest}, {isID, narrowestID}, {isName, narrowestName},
	} {
		for available > 0 && total > available {
			widest := -1
			for i, c := range columns {
				if may.narrow(c) && widths[i] > may.to && (widest < 0 || widths[i] > widths[widest]) {
					widest = i
				}
			}
			if widest < 0 {
				break
			}
			widths[widest]--
			total--
		}
	}
	return available == 0 || total <= available
}

// shortenID shortens an id in its middle, because ids from the same time have the same
// beginning. Other texts are unchanged.
func shortenID(id string, columns int) string {
	if w := len(id); columns > 6 && w == ansi.StringWidth(id) && strings.Contains(id, "_") && !strings.Contains(id, " ") {
		return id[:4] + "…" + id[w-(columns-5):]
	}
	return id
}

// without removes the least important column, of equal ones the last. The first one remains, and
// the second one if the first is not a name.
func without(columns []column, rows [][]string) ([]column, [][]string) {
	named, least := isName(columns[0]), len(columns)-1
	kept := 2
	if named {
		kept = 1
	}
	for i := len(columns) - 1; i >= kept; i-- {
		if importance(columns[i], named) < importance(columns[least], named) {
			least = i
		}
	}
	return remove(columns, rows, least)
}

// importance ranks a column of a table that is too wide: times, then texts that may be cut, then other values, then
// credits and the status of a named object, then ids.
func importance(c column, named bool) int {
	switch c.kind {
	case when, instants:
		return 0
	case flexible:
		return 1
	case credits, exact:
		return 3
	case ident:
		return 4
	case state:
		if named {
			return 3
		}
	}
	return 2
}

func remove(columns []column, rows [][]string, at int) ([]column, [][]string) {
	fewer := make([][]string, len(rows))
	for i, row := range rows {
		fewer[i] = slices.Delete(slices.Clone(row), at, at+1)
	}
	return slices.Delete(slices.Clone(columns), at, at+1), fewer
}

func (o *output) printJSON(raw jsonx.Value) error {
	if o.expr == "" {
		var b bytes.Buffer
		if err := json.Indent(&b, raw, "", "  "); err != nil {
			return fmt.Errorf("the reply is not JSON: %w", err)
		}
		b.WriteByte('\n')
		_, err := o.e.out.Write(b.Bytes())
		return err
	}
	code, err := o.query()
	if err != nil {
		return err
	}
	value, err := decode(raw)
	if err != nil {
		return err
	}
	for results := code.Run(value); ; {
		v, ok := results.Next()
		if !ok {
			return nil
		}
		if err, ok := v.(error); ok {
			if halt, ok := err.(*gojq.HaltError); ok && halt.Value() == nil {
				return nil
			}
			if _, list := value.([]any); list {
				return fmt.Errorf("--jq: %w; the expression gets the rows as one array, so .[0].id is the id of the first and .[].id are those of all", err)
			}
			return fmt.Errorf("--jq: %w", err)
		}
		line, ok := v.(string)
		if !ok {
			out, err := gojq.Marshal(v)
			if err != nil {
				return fmt.Errorf("--jq: %w", err)
			}
			line = string(out)
		} else if isTerminal(o.e.out) {
			line = clean(line)
		}
		if _, err := fmt.Fprintln(o.e.out, line); err != nil {
			return err
		}
	}
}

func (o *output) query() (*gojq.Code, error) {
	q, err := gojq.Parse(o.expr)
	if err == nil {
		var code *gojq.Code
		if code, err = gojq.Compile(q); err == nil {
			return code, nil
		}
	}
	return nil, usagef("--jq %s is not a valid jq expression: %w", shellWord(o.expr), err)
}

// check compiles the jq expression, so that an invalid one fails before any request.
func (o *output) check() error {
	if o.csv && o.raw() {
		return usagef("--csv cannot be combined with --json and --jq")
	}
	if o.expr == "" {
		return nil
	}
	_, err := o.query()
	return err
}
