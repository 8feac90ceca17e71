package cli

import (
	"strings"
	"testing"

	"stoa/internal/testkit/apitest"
)

// TestAMemoryIsShownAndEdited writes notes about an end user, reads them in all forms, and deletes them.
func TestAMemoryIsShownAndEdited(t *testing.T) {
	t.Parallel()
	h := apitest.Start(t, apitest.Config{})
	p := newPerson(t, "STOA_BASE_URL="+h.URL, "STOA_API_KEY="+h.Key)
	p.runs(0, "", "agents", "create", "--name", "Desk", "-i", "Be brief.", "--memory", "user")
	if got := strings.TrimSpace(p.runs(0, "", "agents", "get", "Desk", "--jq", ".memory")); got != "user" {
		t.Errorf("the memory is %q", got)
	}
	p.runs(0, "", "memory", "put", "Desk", "user 1", "diet", "No nuts.\nNo milk.")
	p.runs(0, "Ada.\n", "memory", "put", "Desk", "user 1", "name", "@-")
	p.runs(1, "", "memory", "put", "Desk", "user 1", "Bad Name", "x")
	p.runs(2, "M\xfcnchen", "memory", "put", "Desk", "user 1", "town", "@-")
	for command, want := range map[string]string{
		"memory users Desk --jq .[].externalUserId": "user 1\n",
		"memory list Desk USER --jq .[].name":       "name\ndiet\n",
		"memory get Desk USER diet":                 "No nuts.\nNo milk.\n",
		"memory get Desk USER":                      "## name\n\nAda.\n\n## diet\n\nNo nuts.\nNo milk.\n\n",
	} {
		words := strings.Fields(command)
		for i, w := range words {
			words[i] = strings.ReplaceAll(w, "USER", "user 1")
		}
		if got := p.runs(0, "", words...); got != want {
			t.Errorf("%s: %q, want %q", command, got, want)
		}
	}
	for _, verb := range []string{"get", "delete"} {
		words := []string{"memory", verb, "Desk", "user 1", "none"}
		if verb == "delete" {
			words = append(words, "diet", "--yes") // nothing is deleted
		}
		if got := p.runs(1, "", words...); got != "stoa: the agent has no note \"none\" about this user\n" {
			t.Errorf("%s says %q", verb, got)
		}
	}
	if got := p.runs(0, "", "memory", "delete", "Desk", "user 2", "--yes"); got != "The agent remembers nothing of this user.\n" {
		t.Errorf("it says %q", got)
	}
	p.runs(2, "", "memory", "delete", "Desk", "user 1") // it would ask
	p.runs(0, "", "memory", "delete", "Desk", "user 1", "diet", "--yes")
	if got := p.runs(0, "", "memory", "list", "Desk", "user 1", "--jq", ".[].name"); got != "name\n" {
		t.Errorf("after the deletion of one: %q", got)
	}
	p.runs(0, "", "memory", "delete", "Desk", "user 1", "--yes")
	if got := p.runs(0, "", "memory", "get", "Desk", "user 1"); got != "The agent remembers nothing of this user.\n" { // on standard error
		t.Errorf("after the deletion of all: %q", got)
	}
}
