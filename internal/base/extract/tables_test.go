package extract_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/xuri/excelize/v2"
	"golang.org/x/text/encoding/charmap"

	"stoa/internal/base/extract"
)

// A labelled table is a file and questions about it whose answers are computed from the values that it was made of.
type labelledTable struct {
	name      string
	data      []byte
	questions []labelledQuestion
}

type labelledQuestion struct{ sql, want string }

// rowsOf writes expected rows.
func rowsOf[T any](rows ...[]T) string {
	text, err := json.Marshal(rows)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// one writes an expected row.
func one(values ...any) string { return rowsOf(values) }

// cents writes an amount that is counted in hundredths.
func cents(n int64) json.RawMessage { return ratio(big.NewRat(n, 100)) }

// ratio writes a number with 15 digits.
func ratio(r *big.Rat) json.RawMessage {
	f, _ := r.Float64()
	f, _ = strconv.ParseFloat(strconv.FormatFloat(f, 'g', 15, 64), 64)
	return json.RawMessage(strconv.FormatFloat(f, 'f', -1, 64))
}

func sumBy[T any](list []T, of func(T) int64) (n int64) {
	for _, v := range list {
		n += of(v)
	}
	return n
}

func where[T any](list []T, is func(T) bool) []T {
	return slices.DeleteFunc(slices.Clone(list), func(v T) bool { return !is(v) })
}

func groupBy[T any, K cmp.Ordered](list []T, key func(T) K) (map[K][]T, []K) {
	groups := map[K][]T{}
	for _, v := range list {
		groups[key(v)] = append(groups[key(v)], v)
	}
	return groups, slices.Sorted(maps.Keys(groups))
}

// median2 returns twice the median.
func median2[T any](list []T, of func(T) int64) int64 {
	var values []int64
	for _, v := range list {
		values = append(values, of(v))
	}
	slices.Sort(values)
	n := len(values)
	return values[(n-1)/2] + values[n/2]
}

func most[T any](list []T, of func(T) int64) int64 {
	n := of(list[0])
	for _, v := range list {
		n = max(n, of(v))
	}
	return n
}

func mean[T any](list []T, of func(T) int64, unit int64) json.RawMessage {
	return ratio(big.NewRat(sumBy(list, of), unit*int64(len(list))))
}

// german writes hundredths with a decimal comma and points between thousands.
func german(n int64) string {
	sign := ""
	if n < 0 {
		sign, n = "-", -n
	}
	return sign + grouped(n/100, ".") + fmt.Sprintf(",%02d", n%100)
}

func grouped(n int64, separator string) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + separator + s[i:]
	}
	return s
}

type testOrder struct {
	id       int64
	customer int64
	day      time.Time
	cents    int64
	quantity int64
	article  string
}

type testCustomer struct {
	id     int64
	name   string
	zip    string
	active bool
	since  time.Time
}

func day(n int) time.Time { return time.Date(2023, 1, 1, 0, 0, 0, 0, time.UTC).AddDate(0, 0, n) }

func iso(t time.Time) string { return t.Format(time.DateOnly) }

// workbookOf makes an XLSX file.
func workbookOf(t *testing.T, fill func(f *excelize.File)) []byte {
	t.Helper()
	f := excelize.NewFile()
	fill(f)
	var b bytes.Buffer
	if err := f.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func setRow(f *excelize.File, sheet string, row int, values ...any) {
	for i, v := range values {
		if v == nil {
			continue
		}
		name, _ := excelize.CoordinatesToCellName(i+1, row)
		if err := f.SetCellValue(sheet, name, v); err != nil {
			panic(err)
		}
	}
}

func setFormat(f *excelize.File, sheet, from, to, code string) {
	style, err := f.NewStyle(&excelize.Style{CustomNumFmt: &code})
	if err == nil {
		err = f.SetCellStyle(sheet, from, to, style)
	}
	if err != nil {
		panic(err)
	}
}

var cities = []string{"Köln", "Münster", "Aachen", "Zürich"}

// labelledTables makes twelve tables with ten questions each.
func labelledTables(t *testing.T) (list []labelledTable) {
	r := rand.New(rand.NewPCG(1, 2))
	q := func(sql, want string) labelledQuestion { return labelledQuestion{sql, want} }
	add := func(name string, data []byte, questions ...labelledQuestion) {
		list = append(list, labelledTable{name, data, questions})
	}

	// 1: semicolons, decimal commas with points, German dates, quoted semicolons.
	var orders []testOrder
	articles := []string{"Schraube; lang", "Mutter", `Winkel 3"`, "Platte"}
	var b strings.Builder
	b.WriteString("Auftrag;Kunde;Datum;Betrag;Menge;Artikel\r\n")
	for i := range 300 {
		o := testOrder{id: int64(1000 + i), customer: r.Int64N(40) + 1, day: day(r.IntN(700)), cents: r.Int64N(400_000) - 20_000, quantity: r.Int64N(3000), article: articles[r.IntN(4)]}
		orders = append(orders, o)
		fmt.Fprintf(&b, "%d;%d;%s;%s;%s;\"%s\"\r\n", o.id, o.customer, o.day.Format("02.01.2006"), german(o.cents), grouped(o.quantity, "."), strings.ReplaceAll(o.article, `"`, `""`))
	}
	amount := func(o testOrder) int64 { return o.cents }
	in2024 := where(orders, func(o testOrder) bool { return o.day.Year() == 2024 })
	byArticle, names := groupBy(orders, func(o testOrder) string { return o.article })
	var articleSums, articleMedians [][]any
	for _, n := range names {
		articleSums = append(articleSums, []any{n, cents(sumBy(byArticle[n], amount))})
		articleMedians = append(articleMedians, []any{n, ratio(big.NewRat(median2(byArticle[n], amount), 200))})
	}
	months, monthNames := groupBy(in2024, func(o testOrder) string { return o.day.Format("2006-01") })
	var monthSums [][]any
	for _, m := range monthNames {
		monthSums = append(monthSums, []any{m, cents(sumBy(months[m], amount)), len(months[m])})
	}
	add("verkauf/Aufträge 2024.csv", []byte(b.String()),
		q(`SELECT sum(Betrag) FROM verkauf_aufträge_2024`, one(cents(sumBy(orders, amount)))),
		q(`SELECT sum(Betrag) FROM verkauf_aufträge_2024 WHERE Datum >= '2024-01-01'`, one(cents(sumBy(in2024, amount)))),
		q(`SELECT median(Betrag) FROM verkauf_aufträge_2024`, one(ratio(big.NewRat(median2(orders, amount), 200)))),
		q(`SELECT Artikel, sum(Betrag) FROM verkauf_aufträge_2024 GROUP BY Artikel ORDER BY Artikel`, rowsOf(articleSums...)),
		q(`SELECT Artikel, median(Betrag) FROM verkauf_aufträge_2024 GROUP BY Artikel ORDER BY Artikel`, rowsOf(articleMedians...)),
		q(`SELECT substr(Datum, 1, 7) m, sum(Betrag), count(*) FROM verkauf_aufträge_2024 WHERE Datum BETWEEN '2024-01-01' AND '2024-12-31' GROUP BY m ORDER BY m`, rowsOf(monthSums...)),
		q(`SELECT count(*) FROM verkauf_aufträge_2024 WHERE Betrag < 0`, one(len(where(orders, func(o testOrder) bool { return o.cents < 0 })))),
		q(`SELECT max(Menge), sum(Menge) FROM verkauf_aufträge_2024`, one(most(orders, func(o testOrder) int64 { return o.quantity }), sumBy(orders, func(o testOrder) int64 { return o.quantity }))),
		q(`SELECT avg(Betrag) FROM verkauf_aufträge_2024`, one(mean(orders, amount, 100))),
		q(`SELECT row_, Betrag FROM verkauf_aufträge_2024 WHERE Auftrag = 1042`, one(44, cents(orders[42].cents))))

	// 2: Windows-1252, codes with zeros, booleans; joined with the first.
	var customers []testCustomer
	b.Reset()
	b.WriteString("Nr;Name;PLZ;Ort;aktiv;seit\n")
	for i := range 40 {
		c := testCustomer{int64(i + 1), "Müller & Söhne Nr. " + strconv.Itoa(i+1), fmt.Sprintf("%05d", r.IntN(99999)), r.IntN(3) > 0, day(-r.IntN(5000))}
		customers = append(customers, c)
		fmt.Fprintf(&b, "%d;%s;%s;%s;%t;%s\n", c.id, c.name, c.zip, cities[i%4], c.active, c.since.Format("02.01.2006"))
	}
	latin, err := charmap.Windows1252.NewEncoder().String(b.String())
	if err != nil {
		t.Fatal(err)
	}
	active := map[int64]bool{}
	for _, c := range customers {
		active[c.id] = c.active
	}
	ofActive := where(orders, func(o testOrder) bool { return active[o.customer] })
	byCity, _ := groupBy(orders, func(o testOrder) string { return cities[(o.customer-1)%4] })
	byCustomer, _ := groupBy(orders, func(o testOrder) int64 { return o.customer })
	best := int64(1)
	for id, list := range byCustomer {
		if sumBy(list, amount) > sumBy(byCustomer[best], amount) {
			best = id
		}
	}
	without := len(where(customers, func(c testCustomer) bool { return len(byCustomer[c.id]) == 0 }))
	low := slices.MinFunc(customers, func(x, y testCustomer) int { return cmp.Compare(x.zip, y.zip) })
	add("Kunden.csv", []byte(latin),
		q(`SELECT count(*) FROM kunden WHERE aktiv`, one(len(where(customers, func(c testCustomer) bool { return c.active })))),
		q(`SELECT PLZ FROM kunden ORDER BY PLZ LIMIT 1`, one(low.zip)),
		q(`SELECT Name FROM kunden WHERE PLZ = '`+customers[7].zip+`' AND Nr = 8`, one(customers[7].name)),
		q(`SELECT min(seit) FROM kunden`, one(iso(slices.MinFunc(customers, func(x, y testCustomer) int { return x.since.Compare(y.since) }).since))),
		q(`SELECT count(*) FROM kunden WHERE Ort = 'Köln' AND seit < '2020-01-01'`, one(len(where(customers, func(c testCustomer) bool { return (c.id-1)%4 == 0 && c.since.Year() < 2020 })))),
		q(`SELECT sum(a.Betrag) FROM verkauf_aufträge_2024 a JOIN kunden k ON k.Nr = a.Kunde WHERE k.aktiv`, one(cents(sumBy(ofActive, amount)))),
		q(`SELECT k.Ort, sum(a.Betrag) FROM verkauf_aufträge_2024 a JOIN kunden k ON k.Nr = a.Kunde WHERE k.Ort IN ('Münster','Aachen') GROUP BY k.Ort ORDER BY k.Ort`,
			rowsOf([]any{"Aachen", cents(sumBy(byCity["Aachen"], amount))}, []any{"Münster", cents(sumBy(byCity["Münster"], amount))})),
		q(`SELECT k.Nr FROM kunden k JOIN verkauf_aufträge_2024 a ON a.Kunde = k.Nr GROUP BY k.Nr ORDER BY sum(a.Betrag) DESC LIMIT 1`, one(best)),
		q(`SELECT count(*) FROM kunden k LEFT JOIN verkauf_aufträge_2024 a ON a.Kunde = k.Nr WHERE a.Kunde IS NULL`, one(without)),
		q(`SELECT length(PLZ), count(*) FROM kunden GROUP BY 1`, one(5, 40)))

	// 3: tabs, times, gaps marked n/a.
	type hit struct {
		at     time.Time
		status int64
		micros int64 // -1 if missing
		host   string
	}
	var hits []hit
	b.Reset()
	b.WriteString("timestamp\thost\tstatus\tlatency ms\n")
	for range 500 {
		h := hit{time.Date(2024, 3, 1+r.IntN(31), r.IntN(24), r.IntN(60), r.IntN(60), 0, time.UTC), []int64{200, 200, 200, 404, 500}[r.IntN(5)], r.Int64N(900_000), []string{"a", "b", "c"}[r.IntN(3)]}
		text := fmt.Sprintf("%d.%03d", h.micros/1000, h.micros%1000)
		if r.IntN(20) == 0 {
			h.micros, text = -1, "n/a"
		}
		hits = append(hits, h)
		fmt.Fprintf(&b, "%s\t%s\t%d\t%s\n", h.at.Format("2006-01-02T15:04:05"), h.host, h.status, text)
	}
	timed := where(hits, func(h hit) bool { return h.micros >= 0 })
	latency := func(h hit) int64 { return h.micros }
	failedHits := where(timed, func(h hit) bool { return h.status == 500 })
	byHost, hosts := groupBy(timed, func(h hit) string { return h.host })
	var hostRows [][]any
	for _, h := range hosts {
		hostRows = append(hostRows, []any{h, ratio(big.NewRat(most(byHost[h], latency), 1000))})
	}
	byHour, hours := groupBy(hits, func(h hit) string { return h.at.Format("15") })
	busiest := slices.MaxFunc(hours, func(x, y string) int { return cmp.Or(cmp.Compare(len(byHour[x]), len(byHour[y])), cmp.Compare(y, x)) })
	add("access.tsv", []byte(b.String()),
		q(`SELECT count(*), count("latency ms") FROM access`, one(500, len(timed))),
		q(`SELECT avg("latency ms") FROM access`, one(mean(timed, latency, 1000))),
		q(`SELECT median("latency ms") FROM access WHERE status = 500`, one(ratio(big.NewRat(median2(failedHits, latency), 2000)))),
		q(`SELECT host, max("latency ms") FROM access GROUP BY host ORDER BY host`, rowsOf(hostRows...)),
		q(`SELECT count(*) FROM access WHERE timestamp >= '2024-03-15 00:00:00' AND timestamp < '2024-03-16'`, one(len(where(hits, func(h hit) bool { return h.at.Day() == 15 })))),
		q(`SELECT strftime('%H', timestamp) h FROM access GROUP BY h ORDER BY count(*) DESC, h LIMIT 1`, one(busiest)),
		q(`SELECT min(timestamp) FROM access`, one(slices.MinFunc(hits, func(x, y hit) int { return x.at.Compare(y.at) }).at.Format(time.DateTime))),
		q(`SELECT round(100.0 * sum(status >= 400) / count(*), 1) FROM access`, one(ratio(big.NewRat(int64(len(where(hits, func(h hit) bool { return h.status >= 400 }))*1000+250)/500, 10)))),
		q(`SELECT count(*) FROM access WHERE "latency ms" IS NULL AND host = 'a'`, one(len(where(hits, func(h hit) bool { return h.micros < 0 && h.host == "a" })))),
		q(`SELECT count(DISTINCT substr(timestamp, 1, 10)) FROM access`, one(func() int { g, _ := groupBy(hits, func(h hit) string { return iso(h.at) }); return len(g) }())))

	// 4: quoted line ends and commas.
	type ticket struct {
		id, lines, hours int64
		text             string
	}
	var tickets []ticket
	b.Reset()
	b.WriteString("id,text,hours\n")
	for i := range 50 {
		k := ticket{int64(i + 1), r.Int64N(4) + 1, r.Int64N(80), ""}
		k.text = strings.TrimSuffix(strings.Repeat("line, with \"quotes\"\n", int(k.lines)), "\n")
		tickets = append(tickets, k)
		fmt.Fprintf(&b, "%d,\"%s\",%d.%d\n", k.id, strings.ReplaceAll(k.text, `"`, `""`), k.hours/10, k.hours%10)
	}
	tenth := func(k ticket) int64 { return k.hours }
	long := where(tickets, func(k ticket) bool { return k.lines > 2 })
	add("tickets.csv", []byte(b.String()),
		q(`SELECT count(*) FROM tickets`, one(50)),
		q(`SELECT sum(hours) FROM tickets`, one(ratio(big.NewRat(sumBy(tickets, tenth), 10)))),
		q(`SELECT text FROM tickets WHERE id = 3`, one(tickets[2].text)),
		q(`SELECT sum(length(text) - length(replace(text, char(10), '')) + 1) FROM tickets`, one(sumBy(tickets, func(k ticket) int64 { return k.lines }))),
		q(`SELECT row_ FROM tickets WHERE id = 50`, one(51)),
		q(`SELECT avg(hours) FROM tickets WHERE text LIKE '%quotes%' || char(10) || '%' || char(10) || '%'`, one(mean(long, tenth, 10))),
		q(`SELECT max(hours) FROM tickets WHERE id <= 10`, one(ratio(big.NewRat(most(tickets[:10], tenth), 10)))),
		q(`SELECT median(hours) FROM tickets`, one(ratio(big.NewRat(median2(tickets, tenth), 20)))),
		q(`SELECT count(*) FROM tickets WHERE hours > 4`, one(len(where(tickets, func(k ticket) bool { return k.hours > 40 })))),
		q(`SELECT id FROM tickets ORDER BY hours DESC, id LIMIT 2`, func() string {
			s := slices.SortedStableFunc(slices.Values(tickets), func(x, y ticket) int { return cmp.Compare(y.hours, x.hours) })
			return rowsOf([]any{s[0].id}, []any{s[1].id})
		}()))

	// 5: dollars, percentages, American dates.
	type price struct {
		sku      string
		cents    int64
		discount int64 // in tenths of a percent
		from     time.Time
	}
	var prices []price
	b.Reset()
	b.WriteString("SKU,List price,Discount,Valid from\n")
	for i := range 120 {
		p := price{fmt.Sprintf("%04d", i), r.Int64N(900_000) + 100, r.Int64N(500), day(r.IntN(800))}
		prices = append(prices, p)
		fmt.Fprintf(&b, "%s,\"$%s.%02d\",%d.%d%%,%s\n", p.sku, grouped(p.cents/100, ","), p.cents%100, p.discount/10, p.discount%10, p.from.Format("1/2/2006"))
	}
	list1 := func(p price) int64 { return p.cents }
	recent := where(prices, func(p price) bool { return !p.from.Before(time.Date(2024, 7, 1, 0, 0, 0, 0, time.UTC)) })
	add("price list.csv", []byte(b.String()),
		q(`SELECT sum("List price") FROM price_list`, one(cents(sumBy(prices, list1)))),
		q(`SELECT avg("List price") FROM price_list`, one(mean(prices, list1, 100))),
		q(`SELECT median("List price") FROM price_list`, one(ratio(big.NewRat(median2(prices, list1), 200)))),
		q(`SELECT max(Discount) FROM price_list`, one(ratio(big.NewRat(most(prices, func(p price) int64 { return p.discount }), 1000)))),
		q(`SELECT avg(Discount) FROM price_list`, one(mean(prices, func(p price) int64 { return p.discount }, 1000))),
		q(`SELECT sum("List price" * (1 - Discount)) FROM price_list`, one(ratio(big.NewRat(sumBy(prices, func(p price) int64 { return p.cents * (1000 - p.discount) }), 100_000)))),
		q(`SELECT count(*), sum("List price") FROM price_list WHERE "Valid from" >= '2024-07-01'`, one(len(recent), cents(sumBy(recent, list1)))),
		q(`SELECT "Valid from" FROM price_list WHERE SKU = '0005'`, one(iso(prices[5].from))),
		q(`SELECT SKU FROM price_list ORDER BY "List price" DESC LIMIT 1`, one(slices.MaxFunc(prices, func(x, y price) int { return cmp.Compare(x.cents, y.cents) }).sku)),
		q(`SELECT count(*) FROM price_list WHERE Discount >= 0.25`, one(len(where(prices, func(p price) bool { return p.discount >= 250 })))))

	list = append(list, labelledBooks(t, r)...)
	return append(list, labelledRest(r)...)
}

// labelledBooks makes five workbooks.
func labelledBooks(t *testing.T, r *rand.Rand) (list []labelledTable) {
	q := func(sql, want string) labelledQuestion { return labelledQuestion{sql, want} }
	// 6: two sheets, formats of money and dates, booleans.
	type sale struct {
		region string
		day    time.Time
		cents  int64
		paid   bool
	}
	regions := []string{"North", "South", "East"}
	targets := map[string]int64{"North": 1_500_000, "South": 2_000_000, "East": 900_000}
	var sales []sale
	book := workbookOf(t, func(f *excelize.File) {
		_ = f.SetSheetName("Sheet1", "Sales")
		setRow(f, "Sales", 1, "Region", "Date", "Amount", "Paid")
		for i := range 150 {
			s := sale{regions[r.IntN(3)], day(r.IntN(500)), r.Int64N(50_000), r.IntN(2) == 0}
			sales = append(sales, s)
			setRow(f, "Sales", i+2, s.region, s.day, float64(s.cents)/100, s.paid)
		}
		setFormat(f, "Sales", "B2", "B151", "d mmm yy")
		setFormat(f, "Sales", "C2", "C151", `#,##0 "EUR"`)
		_, _ = f.NewSheet("Targets 2024")
		setRow(f, "Targets 2024", 1, "Region", "Target")
		for i, name := range regions {
			setRow(f, "Targets 2024", i+2, name, targets[name]/100)
		}
	})
	amount := func(s sale) int64 { return s.cents }
	byRegion, names := groupBy(sales, func(s sale) string { return s.region })
	var sums, rest [][]any
	for _, n := range names {
		sums = append(sums, []any{n, cents(sumBy(byRegion[n], amount)), len(byRegion[n])})
		rest = append(rest, []any{n, cents(targets[n] - sumBy(byRegion[n], amount))})
	}
	open := where(sales, func(s sale) bool { return !s.paid })
	march := where(sales, func(s sale) bool { return s.day.Year() == 2023 && s.day.Month() == 3 })
	list = append(list, labelledTable{"q/sales.xlsx", book, []labelledQuestion{
		q(`SELECT sum(Amount) FROM q_sales__sales`, one(cents(sumBy(sales, amount)))),
		q(`SELECT Region, sum(Amount), count(*) FROM q_sales__sales GROUP BY Region ORDER BY Region`, rowsOf(sums...)),
		q(`SELECT t.Region, t.Target - sum(s.Amount) FROM q_sales__targets_2024 t JOIN q_sales__sales s USING (Region) GROUP BY t.Region ORDER BY t.Region`, rowsOf(rest...)),
		q(`SELECT sum(Amount) FROM q_sales__sales WHERE NOT Paid`, one(cents(sumBy(open, amount)))),
		q(`SELECT count(*), sum(Amount) FROM q_sales__sales WHERE Date BETWEEN '2023-03-01' AND '2023-03-31'`, one(len(march), cents(sumBy(march, amount)))),
		q(`SELECT max(Date) FROM q_sales__sales`, one(iso(slices.MaxFunc(sales, func(x, y sale) int { return x.day.Compare(y.day) }).day))),
		q(`SELECT median(Amount) FROM q_sales__sales`, one(ratio(big.NewRat(median2(sales, amount), 200)))),
		q(`SELECT Region, Amount FROM q_sales__sales WHERE row_ = 20`, one(sales[18].region, cents(sales[18].cents))),
		q(`SELECT sum(Target) FROM q_sales__targets_2024`, one(44_000)),
		q(`SELECT Amount FROM q_sales__sales ORDER BY Amount DESC LIMIT 1 OFFSET 1`, func() string {
			s := slices.SortedFunc(slices.Values(sales), func(x, y sale) int { return cmp.Compare(y.cents, x.cents) })
			return one(cents(s[1].cents))
		}()),
	}})

	// 7: dates from 1904, with times.
	type visit struct {
		at    time.Time
		count int64
	}
	var visits []visit
	first := time.Date(1904, 1, 1, 0, 0, 0, 0, time.UTC)
	book = workbookOf(t, func(f *excelize.File) {
		yes := true
		_ = f.SetWorkbookProps(&excelize.WorkbookPropsOptions{Date1904: &yes})
		setRow(f, "Sheet1", 1, "When", "Day", "Visitors")
		for i := range 90 {
			v := visit{day(r.IntN(1000)).Add(time.Duration(r.IntN(86400)) * time.Second), r.Int64N(500)}
			visits = append(visits, v)
			setRow(f, "Sheet1", i+2, v.at.Sub(first).Hours()/24, float64(int(v.at.Sub(first).Hours()/24)), v.count)
		}
		setFormat(f, "Sheet1", "A2", "A91", "dd/mm/yyyy hh:mm")
		setFormat(f, "Sheet1", "B2", "B91", "yyyy-mm-dd")
	})
	count := func(v visit) int64 { return v.count }
	year := where(visits, func(v visit) bool { return v.at.Year() == 2024 })
	early := where(visits, func(v visit) bool { return v.at.Hour() < 12 })
	byYear, years := groupBy(visits, func(v visit) string { return v.at.Format("2006") })
	var yearRows [][]any
	for _, y := range years {
		yearRows = append(yearRows, []any{y, sumBy(byYear[y], count)})
	}
	oldest := slices.MinFunc(visits, func(x, y visit) int { return x.at.Compare(y.at) })
	list = append(list, labelledTable{"museum.xlsx", book, []labelledQuestion{
		q(`SELECT min("When") FROM museum`, one(oldest.at.Format(time.DateTime))),
		q(`SELECT Day FROM museum WHERE row_ = 2`, one(iso(visits[0].at))),
		q(`SELECT sum(Visitors) FROM museum WHERE Day >= '2024-01-01' AND Day <= '2024-12-31'`, one(sumBy(year, count))),
		q(`SELECT strftime('%Y', Day) y, sum(Visitors) FROM museum GROUP BY y ORDER BY y`, rowsOf(yearRows...)),
		q(`SELECT avg(Visitors) FROM museum`, one(mean(visits, count, 1))),
		q(`SELECT median(Visitors) FROM museum`, one(ratio(big.NewRat(median2(visits, count), 2)))),
		q(`SELECT count(*) FROM museum WHERE strftime('%H', "When") < '12'`, one(len(early))),
		q(`SELECT count(*) FROM museum WHERE substr("When", 1, 10) = Day`, one(90)),
		q(`SELECT CAST(julianday(max(Day)) - julianday(min(Day)) AS INTEGER) FROM museum`, one(int(slices.MaxFunc(visits, func(x, y visit) int { return x.at.Compare(y.at) }).at.Truncate(24*time.Hour).Sub(oldest.at.Truncate(24*time.Hour)).Hours()/24))),
		q(`SELECT max(Visitors) FROM museum WHERE strftime('%w', Day) = '0'`, one(most(where(visits, func(v visit) bool { return v.at.Weekday() == time.Sunday }), count))),
	}})

	// 8: titles above the head, empty rows and cells, codes.
	type part struct {
		code  string
		stock int64 // -1 if empty
		grams int64
	}
	var parts []part
	book = workbookOf(t, func(f *excelize.File) {
		setRow(f, "Sheet1", 1, "Inventory of the workshop")
		setRow(f, "Sheet1", 2, "As of", time.Date(2024, 5, 1, 0, 0, 0, 0, time.UTC))
		setRow(f, "Sheet1", 5, "Code", "Stock", "Weight (kg)", "Shelf", "Checked")
		for i := range 60 {
			p := part{fmt.Sprintf("%05d", r.IntN(90000)), r.Int64N(1000), r.Int64N(20_000)}
			var stock any = p.stock
			if r.IntN(6) == 0 {
				p.stock, stock = -1, nil
			}
			parts = append(parts, p)
			setRow(f, "Sheet1", 6+i+i/20, p.code, stock, float64(p.grams)/1000, string(rune('A'+i%3)), i%2 == 0)
		}
	})
	counted := where(parts, func(p part) bool { return p.stock >= 0 })
	stock := func(p part) int64 { return p.stock }
	shelf := func(k int) (list []part) {
		for i, p := range parts {
			if i%3 == k {
				list = append(list, p)
			}
		}
		return list
	}
	list = append(list, labelledTable{"inventory.xlsx", book, []labelledQuestion{
		q(`SELECT count(*), count(Stock) FROM inventory`, one(60, len(counted))),
		q(`SELECT sum(Stock) FROM inventory`, one(sumBy(counted, stock))),
		q(`SELECT avg(Stock) FROM inventory`, one(mean(counted, stock, 1))),
		q(`SELECT median(Stock) FROM inventory`, one(ratio(big.NewRat(median2(counted, stock), 2)))),
		q(`SELECT sum(Stock * "Weight (kg)") FROM inventory`, one(ratio(big.NewRat(sumBy(counted, func(p part) int64 { return p.stock * p.grams }), 1000)))),
		q(`SELECT Code FROM inventory WHERE row_ = 6`, one(parts[0].code)),
		q(`SELECT min(Code) FROM inventory`, one(slices.MinFunc(parts, func(x, y part) int { return cmp.Compare(x.code, y.code) }).code)),
		q(`SELECT max("Weight (kg)") FROM inventory WHERE Shelf = 'B'`, one(ratio(big.NewRat(most(shelf(1), func(p part) int64 { return p.grams }), 1000)))),
		q(`SELECT count(*) FROM inventory WHERE Stock IS NULL AND Shelf = 'C'`, one(len(where(shelf(2), func(p part) bool { return p.stock < 0 })))),
		q(`SELECT max(row_), sum(Checked) FROM inventory`, one(6+59+2, 30)),
	}})

	// 9: a head of two rows with merged cells, and years.
	type result struct{ plan, actual [2]int64 }
	var results []result
	book = workbookOf(t, func(f *excelize.File) {
		setRow(f, "Sheet1", 1, "Budget")
		setRow(f, "Sheet1", 2, "Unit", "2023", nil, "2024")
		setRow(f, "Sheet1", 3, nil, "Plan", "Actual", "Plan", "Actual")
		for _, m := range [][2]string{{"A2", "A3"}, {"B2", "C2"}, {"D2", "E2"}} {
			_ = f.MergeCell("Sheet1", m[0], m[1])
		}
		for i := range 30 {
			v := result{[2]int64{r.Int64N(100_000), r.Int64N(100_000)}, [2]int64{r.Int64N(100_000), r.Int64N(100_000)}}
			results = append(results, v)
			setRow(f, "Sheet1", 4+i, fmt.Sprintf("Unit %02d", i), float64(v.plan[0])/100, float64(v.actual[0])/100, float64(v.plan[1])/100, float64(v.actual[1])/100)
		}
	})
	gap := func(v result) int64 { return v.actual[1] - v.plan[1] }
	over := where(results, func(v result) bool { return gap(v) > 0 })
	worst := 0
	for i, v := range results {
		if gap(v) > gap(results[worst]) {
			worst = i
		}
	}
	list = append(list, labelledTable{"budget.xlsx", book, []labelledQuestion{
		q(`SELECT sum("2023 Plan") FROM budget`, one(cents(sumBy(results, func(v result) int64 { return v.plan[0] })))),
		q(`SELECT sum("2023 Actual") FROM budget`, one(cents(sumBy(results, func(v result) int64 { return v.actual[0] })))),
		q(`SELECT sum("2024 Plan") FROM budget`, one(cents(sumBy(results, func(v result) int64 { return v.plan[1] })))),
		q(`SELECT sum("2024 Actual") FROM budget`, one(cents(sumBy(results, func(v result) int64 { return v.actual[1] })))),
		q(`SELECT count(*) FROM budget WHERE "2024 Actual" > "2024 Plan"`, one(len(over))),
		q(`SELECT Unit FROM budget ORDER BY "2024 Actual" - "2024 Plan" DESC LIMIT 1`, one(fmt.Sprintf("Unit %02d", worst))),
		q(`SELECT median("2023 Actual") FROM budget`, one(ratio(big.NewRat(median2(results, func(v result) int64 { return v.actual[0] }), 200)))),
		q(`SELECT "2023 Plan", "2024 Actual" FROM budget WHERE Unit = 'Unit 07'`, one(cents(results[7].plan[0]), cents(results[7].actual[1]))),
		q(`SELECT row_ FROM budget WHERE Unit = 'Unit 00'`, one(4)),
		q(`SELECT sum("2024 Actual" - "2023 Actual") FROM budget`, one(cents(sumBy(results, func(v result) int64 { return v.actual[1] - v.actual[0] })))),
	}})

	// 10: durations, times and percentages as formats.
	type shift struct{ minutes, start, share int64 }
	var shifts []shift
	book = workbookOf(t, func(f *excelize.File) {
		setRow(f, "Sheet1", 1, "Worker", "Duration", "Start", "Share")
		for i := range 70 {
			s := shift{r.Int64N(3000), r.Int64N(1439) + 1, r.Int64N(1000)}
			shifts = append(shifts, s)
			setRow(f, "Sheet1", i+2, []string{"Ada", "Bob", "Cy"}[i%3], float64(s.minutes)/1440, float64(s.start)/1440, float64(s.share)/1000)
		}
		setFormat(f, "Sheet1", "B2", "B71", "[h]:mm")
		setFormat(f, "Sheet1", "C2", "C71", "h:mm AM/PM")
		setFormat(f, "Sheet1", "D2", "D71", "0%")
	})
	minutes := func(s shift) int64 { return s.minutes }
	clock := func(m int64) string { return fmt.Sprintf("%02d:%02d:00", m/60, m%60) }
	var ada []shift
	for i, s := range shifts {
		if i%3 == 0 {
			ada = append(ada, s)
		}
	}
	list = append(list, labelledTable{"shifts.xlsx", book, []labelledQuestion{
		q(`SELECT round(sum(Duration) * 60) FROM shifts`, one(sumBy(shifts, minutes))),
		q(`SELECT round(sum(Duration) * 60) FROM shifts WHERE Worker = 'Ada'`, one(sumBy(ada, minutes))),
		q(`SELECT max(Duration) FROM shifts`, one(ratio(big.NewRat(most(shifts, minutes), 60)))),
		q(`SELECT count(*) FROM shifts WHERE Duration > 24`, one(len(where(shifts, func(s shift) bool { return s.minutes > 1440 })))),
		q(`SELECT min(Start) FROM shifts`, one(clock(-most(shifts, func(s shift) int64 { return -s.start })))),
		q(`SELECT count(*) FROM shifts WHERE Start < '08:00:00'`, one(len(where(shifts, func(s shift) bool { return s.start < 480 })))),
		q(`SELECT sum(Share) FROM shifts`, one(ratio(big.NewRat(sumBy(shifts, func(s shift) int64 { return s.share }), 1000)))),
		q(`SELECT max(Share) FROM shifts`, one(ratio(big.NewRat(most(shifts, func(s shift) int64 { return s.share }), 1000)))),
		q(`SELECT Start FROM shifts WHERE row_ = 3`, one(clock(shifts[1].start))),
		q(`SELECT median(Share) FROM shifts`, one(ratio(big.NewRat(median2(shifts, func(s shift) int64 { return s.share }), 2000)))),
	}})
	return list
}

// labelledRest makes two more tables.
func labelledRest(r *rand.Rand) (list []labelledTable) {
	q := func(sql, want string) labelledQuestion { return labelledQuestion{sql, want} }
	// 11: a title, columns without names, negative amounts in parentheses, euros with blanks, empty cells.
	type entry struct {
		cents int64
		group string
		note  bool
	}
	var entries []entry
	var b strings.Builder
	b.WriteString("Ledger of the club;;;\n\nDate;Group;Amount;\n")
	for i := range 100 {
		e := entry{r.Int64N(3_000_000) - 1_000_000, []string{"dues", "rent", ""}[r.IntN(3)], i%4 == 0}
		entries = append(entries, e)
		text := grouped(max(e.cents, -e.cents)/100, "\u00a0") + fmt.Sprintf(",%02d €", max(e.cents, -e.cents)%100)
		if e.cents < 0 {
			text = "(" + text + ")"
		}
		note := ""
		if e.note {
			note = "checked"
		}
		fmt.Fprintf(&b, "%s;%s;%s;%s\n", day(i).Format("2006/01/02"), e.group, text, note)
	}
	amount := func(e entry) int64 { return e.cents }
	rent := where(entries, func(e entry) bool { return e.group == "rent" })
	list = append(list, labelledTable{"club-ledger.csv", []byte(b.String()), []labelledQuestion{
		q(`SELECT sum(Amount) FROM club_ledger`, one(cents(sumBy(entries, amount)))),
		q(`SELECT sum(Amount) FROM club_ledger WHERE Amount < 0`, one(cents(sumBy(where(entries, func(e entry) bool { return e.cents < 0 }), amount)))),
		q(`SELECT count(*) FROM club_ledger WHERE "Group" IS NULL`, one(len(where(entries, func(e entry) bool { return e.group == "" })))),
		q(`SELECT sum(Amount) FROM club_ledger WHERE "Group" = 'rent'`, one(cents(sumBy(rent, amount)))),
		q(`SELECT count("column D") FROM club_ledger`, one(25)),
		q(`SELECT sum(Amount) FROM club_ledger WHERE Date < '2023-02-01'`, one(cents(sumBy(entries[:31], amount)))),
		q(`SELECT row_ FROM club_ledger WHERE Date = '2023-01-01'`, one(4)),
		q(`SELECT median(Amount) FROM club_ledger`, one(ratio(big.NewRat(median2(entries, amount), 200)))),
		q(`SELECT avg(Amount) FROM club_ledger WHERE "column D" = 'checked'`, one(mean(where(entries, func(e entry) bool { return e.note }), amount, 100))),
		q(`SELECT max(Amount) FROM club_ledger`, one(cents(most(entries, amount)))),
	}})

	// 12: UTF-16 with vertical bars, many rows.
	type reading struct{ sensor, tenths, second int64 }
	var readings []reading
	b.Reset()
	b.WriteString("\ufeffsensor|value|at|ok\n")
	for i := range 20_000 {
		v := reading{r.Int64N(8), r.Int64N(2000) - 1000, int64(i) * 7}
		readings = append(readings, v)
		fmt.Fprintf(&b, "s%d|%s|%s|%t\n", v.sensor, strings.Replace(strconv.FormatFloat(float64(v.tenths)/10, 'f', 1, 64), ".", ",", 1), day(0).Add(time.Duration(v.second)*time.Second).Format(time.DateTime), v.tenths >= 0)
	}
	var wide []byte
	for _, u := range utf16.Encode([]rune(b.String())) {
		wide = append(wide, byte(u), byte(u>>8))
	}
	value := func(v reading) int64 { return v.tenths }
	three := where(readings, func(v reading) bool { return v.sensor == 3 })
	bySensor, sensors := groupBy(readings, func(v reading) int64 { return v.sensor })
	var sums, ranks [][]any
	for _, s := range sensors {
		sums = append(sums, []any{fmt.Sprint("s", s), ratio(big.NewRat(sumBy(bySensor[s], value), 10))})
	}
	slices.SortStableFunc(sensors, func(x, y int64) int { return cmp.Compare(len(bySensor[y]), len(bySensor[x])) })
	for _, s := range sensors[:3] {
		ranks = append(ranks, []any{fmt.Sprint("s", s), len(bySensor[s])})
	}
	firstDay := where(readings, func(v reading) bool { return v.second < 86400 })
	running := sumBy(readings[:1000], value)
	list = append(list, labelledTable{"sensors.csv", wide, []labelledQuestion{
		q(`SELECT count(*), sum(value) FROM sensors`, one(20_000, ratio(big.NewRat(sumBy(readings, value), 10)))),
		q(`SELECT median(value) FROM sensors WHERE sensor = 's3'`, one(ratio(big.NewRat(median2(three, value), 20)))),
		q(`SELECT sensor, sum(value) FROM sensors GROUP BY sensor ORDER BY sensor`, rowsOf(sums...)),
		q(`SELECT sensor, count(*) n FROM sensors GROUP BY sensor ORDER BY n DESC, sensor LIMIT 3`, rowsOf(ranks...)),
		q(`SELECT avg(value) FROM sensors WHERE at < '2023-01-02'`, one(mean(firstDay, value, 10))),
		q(`SELECT count(*) FROM sensors WHERE ok`, one(len(where(readings, func(v reading) bool { return v.tenths >= 0 })))),
		q(`SELECT t FROM (SELECT row_, sum(value) OVER (ORDER BY row_) t FROM sensors) WHERE row_ = 1001`, one(ratio(big.NewRat(running, 10)))),
		q(`SELECT max(at) FROM sensors`, one(day(0).Add(19_999*7*time.Second).Format(time.DateTime))),
		q(`WITH m AS (SELECT sensor, max(value) v FROM sensors GROUP BY sensor) SELECT count(*) FROM m WHERE v > 99`, one(len(where(sensors, func(s int64) bool { return most(bySensor[s], value) > 990 })))),
		q(`SELECT count(DISTINCT value) FROM sensors`, one(func() int { g, _ := groupBy(readings, value); return len(g) }())),
	}})
	return list
}

// ask has a service answer a query over files.
func ask(t *testing.T, s *extract.Service, sql string, files ...labelledTable) extract.TableAnswer {
	t.Helper()
	var paths []string
	for _, f := range files {
		paths = append(paths, f.name)
	}
	q := extract.TableQuery{Account: "acc", SQL: sql, Output: 16 << 10}
	for i, base := range extract.TableBases(paths) {
		if sql == "" || extract.Mentions(sql)(base) {
			q.Files = append(q.Files, extract.TableFile{Base: base, Document: extract.Document{Name: paths[i], Size: int64(len(files[i].data)), Content: bytes.NewReader(files[i].data)}})
		}
	}
	a, err := s.Tables(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// TestTablesAreAnsweredExactly asks 120 questions.
func TestTablesAreAnsweredExactly(t *testing.T) {
	t.Parallel()
	tables := labelledTables(t)
	s := service(extract.Config{})
	asked := 0
	for _, table := range tables {
		for _, q := range table.questions {
			asked++
			a := ask(t, s, q.sql, tables...)
			got, err := json.Marshal(a.Rows)
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != q.want {
				t.Errorf("%s: %s\n got %.300s %s %s\nwant %.300s", table.name, q.sql, got, a.Error, a.Notes, q.want)
			}
			if len(a.Sources) == 0 {
				t.Errorf("%s: no sources", q.sql)
			}
		}
	}
	if len(tables) != 12 || asked != 120 {
		t.Errorf("%d tables, %d questions", len(tables), asked)
	}
}
