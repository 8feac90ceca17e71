package drive_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"stoa/internal/agents/drive"
	"stoa/internal/testkit/storetest"
)

// alikeFiles are written in this order.
func alikeFiles() (files [][2]string) {
	add := func(path, text string) { files = append(files, [2]string{path, text}) }
	add("handbook/refunds.md", "# Refunds\n\nA customer gets a refund within 14 days. Refunds of gift cards are refused.\nAsk the manager for a refund above 500 euros.\n")
	add("handbook/shipping.md", "# Shipping\n\nParcels leave the warehouse every evening. Shipping to Norway takes 5 days.\nThe customer pays for express shipping.\n")
	add("handbook/holidays.md", "# Holidays\n\nThe warehouse is closed on holidays. Employees ask their manager for holidays in advance.\n")
	add("de/rechnung.md", "Die Rechnung enthält die Umsatzsteuer. Größere Aufträge müssen genehmigt werden.\nÜberweisungen dauern drei Tage. Straße und Hausnummer gehören in die Anschrift.\n")
	add("de/kündigung.md", "Die Kündigung ist schriftlich. Die Kündigungsfrist beträgt vier Wochen zum Monatsende.\n")
	add("fr/congés.md", "L’été, les congés sont pris à tour de rôle. L'entrepôt est fermé en août.\n")
	add("ja/返品.md", "商品の返品は十四日以内にお願いします。返品送料はお客様の負担です。\n東京の倉庫は日曜日に休みます。\n")
	add("zh/退款.md", "客户可以在十四天内申请退款。退款将退回原来的银行卡。\n")
	add("th/คืนเงิน.md", "ลูกค้าสามารถขอคืนเงินได้ภายในสิบสี่วัน\n")
	add("ru/возврат.md", "Возврат товара возможен в течение 14 дней. Ёлка стоит на складе.\n")
	add("code/parse_query.go", "package query\n\n// parseQuery splits a query.\nfunc parseQuery(text string) []term {\n\tmax_terms := 32\n\treturn nil // HTTPServer2 x86_64 utf-8\n}\n")
	add("code/server.py", "def handle_request(self, request_id):\n    # request_id is a uuid4\n    return self.http_server.reply(request_id, status=404)\n")
	add("data/numbers.csv", "order,total\n1001,19.99\n1002,250.00\n1003,19.99\n2026-11-22,7\n")
	add("notes/plural.txt", "boxes of matches; cities, classes and buses; one box, one match, one city, one class, one bus\n")
	add("notes/hyphens.txt", "The state-of-the-art e-mail system was re-opened. A well-known, long-term plan.\n")
	add("notes/stop.txt", "to be or not to be, that is the question\n")
	add("notes/don't.txt", "I don't know what they can't do. It's the customer's parcel.\n")
	for _, name := range []string{"b", "a", "c"} {
		add("same/"+name+".txt", "identical words stand here\n")
	}
	var long strings.Builder
	for i := range 400 {
		fmt.Fprintf(&long, "Entry %d of the journal tells how the lighthouse was kept on day %d.\n", i, i*7)
		if i%100 == 50 {
			long.WriteString("A storm broke the lantern and the keeper wrote to the harbour master.\n")
		}
	}
	add("long/journal.txt", long.String())
	add("long/harbour.txt", "The harbour master keeps the book of storms. The harbour is closed in a storm.\n")
	add("lantern/list.txt", "Oil, wicks and glass.\n")
	add("gadget/one.txt", "a thing with many parts\n")
	add("tools/two.txt", "a gadget with many parts\n")
	for i := range 60 {
		add(fmt.Sprintf("many/file%02d.txt", i), fmt.Sprintf("ballast number%d and nothing else\n", i))
	}
	return files
}

// alikeQueries are searches with the same hits, order and scores on both databases.
var alikeQueries = []string{
	// Words, plurals, stop words.
	"refund",
	"refunds",
	"Customer",
	"manager",
	"warehouse",
	"warehouse closed",
	"holiday manager",
	"to be or not to be",
	"the",
	"is the",
	"box",
	"boxes",
	"city",
	"cities",
	"class",
	"match",
	"bus",
	// Some of the words, none of them together.
	"refund shipping",
	"norway august",
	"customer lantern",
	"manager parcels zebra",
	"harbour warehouse",
	// Phrases.
	`"gift cards"`,
	`"cards gift"`,
	`"the question"`,
	`"harbour master"`,
	`"state of the art"`,
	`"customer pays" express`,
	// German, French, Russian, and scripts without spaces.
	"größere",
	"grossere",
	"GRÖSSERE",
	"strasse",
	"Straße",
	"kündigung",
	"kundigung",
	"überweisung",
	"été",
	"l’été",
	"congés",
	"возврат",
	"ёлка",
	"елка",
	"返品",
	"東京の倉庫",
	"品",
	"退款",
	"银行卡",
	"คืนเงิน",
	"返品 refund",
	"商品を返品したい",
	"如何申请退款",
	"ขอคืนเงินได้กี่วัน",
	"Kündigungsfristen",
	"возвраты товаров",
	// Identifiers, numbers, hyphens, apostrophes.
	"parseQuery",
	"parse query",
	"maxTerms",
	"parse_query",
	"request_id",
	"HTTPServer2",
	"http server",
	"x86_64",
	"utf-8",
	"404",
	"19.99",
	"1001",
	"2026-11-22",
	"14",
	"e-mail",
	"email",
	"well known",
	"long-term",
	"don't",
	"dont",
	"customer's",
	// Prefixes, paths.
	"ship",
	"ware",
	"question ware",
	"umsatz",
	"light",
	"journ",
	"handbook",
	"lantern",
	"gadget",
	"notes",
	// Questions.
	"how do I ask for a refund?",
	"when is the warehouse closed",
	"who keeps the book of storms",
	"what does shipping to Norway cost",
	"Wie lange dauern Überweisungen?",
	// Files of many passages, equal scores, more hits than requested.
	"lighthouse",
	"storm",
	"keeper storm harbour",
	"identical words",
	"ballast",
	"number7",
	"nowhere",
}

// places returns where hits are, and their scores.
func places(hits []drive.Hit) (out []string) {
	for _, h := range hits {
		out = append(out, fmt.Sprintf("%s:%d %v", h.Path, h.FirstLine, h.Score))
	}
	return out
}

func TestBothDatabasesFindTheSame(t *testing.T) {
	t.Parallel()
	var drives []*drive.Drives
	for _, home := range []storetest.Database{storetest.New(t), storetest.Postgres(t)} {
		d := open(t, configOf(home), drive.Limits{})
		for _, f := range alikeFiles() {
			put(t, d, f[0], f[1])
		}
		drives = append(drives, d)
	}
	for _, q := range alikeQueries {
		for _, limit := range []int{10, 100} {
			var found [2][]string
			for i, d := range drives {
				hits, err := searchDrive(d, t.Context(), who, q, "", limit)
				if err != nil {
					t.Fatal(err)
				}
				found[i] = places(hits)
			}
			if !slices.Equal(found[0], found[1]) {
				t.Errorf("%s: SQLite has %q, PostgreSQL %q", q, found[0], found[1])
			}
		}
	}
}
