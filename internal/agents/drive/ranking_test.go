package drive

import (
	"slices"
	"strings"
	"testing"
)

var catalogue = []Described{
	{Name: "crm__PostCustomers", Description: "<p>Creates a <code>Customer</code> object. It can have an address.</p>", Details: "email name"},
	{Name: "crm__GetCustomers", Description: "<p>Returns a list of your customers.</p>", Details: "limit", Reads: true},
	{Name: "crm__DeleteCustomersCustomer", Description: "<p>Deletes a customer.</p>", Details: "customer"},
	{Name: "crm__PostPayouts", Description: "Sends money to a bank.", Details: "amount"},
	{Name: "crm__GetBalance", Description: "Retrieves the balance.", Reads: true},
	{Name: "docs__listRepositories", Title: "List repositories", Description: "Of an organization.", Reads: true},
	{Name: "docs__a", Title: "Lamp", Description: "x"},
	{Name: "docs__b", Title: "Lamp", Description: "x"},
	{Name: "docs__aufgabe_anlegen", Title: "Aufgabe anlegen", Description: "Legt eine Aufgabe für jemanden an."},
	{Name: "docs__検索", Title: "文書を検索する", Description: "文書の全文を検索します。", Reads: true},
}

func TestToolsAreRanked(t *testing.T) {
	t.Parallel()
	r := NewRanking(catalogue)
	for query, want := range map[string][]int{
		"create customer":                   {0},
		"add a client":                      {0},
		"list all customers":                {1},
		"which customers are there?":        {1},
		"remove a customer for good":        {2},
		"take off the customer":             {2},
		"pay out 500 euros":                 {3},
		"how much money is in our balance?": {4},
		"repos of the company":              {5},
		"Lamp":                              {6, 7},
		"neue Aufgabe anlegen":              {8},
		"文書を検索":                             {9},
		"PostPayouts":                       {3},
	} {
		if got := r.Best(query, 3); len(got) < len(want) || !slices.Equal(got[:len(want)], want) {
			t.Errorf("%q: %v, want %v", query, got, want)
		}
	}
	for _, query := range []string{"", " ", "?!", "\xff", "qwxzv"} {
		if got := r.Best(query, 3); len(got) != 0 {
			t.Errorf("%q finds %v", query, got)
		}
	}
	if got := NewRanking(nil).Best("customer", 3); len(got) != 0 {
		t.Errorf("among nothing %v is found", got)
	}
}

// TestAWordNamesOneKindOfAct checks that no word of a kind has the stem of a word of another, so that the order of maps decides nothing.
func TestAWordNamesOneKindOfAct(t *testing.T) {
	t.Parallel()
	words := 0
	for _, text := range actWords {
		words += len(strings.Fields(text))
	}
	if len(acts()) != words {
		t.Errorf("%d words have %d stems", words, len(acts()))
	}
}

func FuzzRanking(f *testing.F) {
	f.Add("create a customer for ada@example.com", "Customer.", "<p>Creates</p>")
	f.Add("", "\x00", "<")
	f.Fuzz(func(t *testing.T, query, name, text string) {
		list := append(slices.Clone(catalogue), Described{Name: name, Description: text, Details: query})
		first := NewRanking(list).Best(query, 5)
		if again := NewRanking(list).Best(query, 5); !slices.Equal(first, again) || len(first) > 5 {
			t.Errorf("%q finds %v, then %v", query, first, again)
		}
	})
}
