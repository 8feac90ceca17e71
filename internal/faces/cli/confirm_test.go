package cli

import (
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"stoa/internal/testkit/apitest"
)

// A command that asks before it deletes checks first that the object exists, and names it.
func TestConfirmationsLookFirst(t *testing.T) {
	t.Parallel()
	h := apitest.Start(t, apitest.Config{})
	out, errOut, code := run(t, h, "", "keys", "create", "--name", "Website", "--scope", "responses", "--json")
	if code != exitDone {
		t.Fatal(out, errOut)
	}
	_, id, _ := strings.Cut(out, `"id":`)
	id = strings.Split(id, `"`)[1]
	run(t, h, "", "agents", "create", "--name", "Support", "--instructions", "Help.")
	for args, want := range map[string]string{
		"keys revoke nokey":                                         `there is no key "nokey"`,
		"keys revoke key_01k9zqd3m8w5x7y2c4b6n8p0ra":                `There is no key "key_01k`,
		"keys revoke website --pause-changed":                       `will stop working. Nothing else stops."`,
		"spaces delete Default":                                     `for good? 1 agent is deleted."`,
		"keys revoke website":                                       `"Revoke key \"Website\"? Anything`,
		"keys revoke " + id:                                         `"Revoke key \"Website\"? Anything`,
		"agents delete suport":                                      `there is no agent "suport"; "stoa agents list" shows them; did you mean Support?`,
		"agents delete SUPPORT":                                     `"Delete the agent \"Support\" with its drive`,
		"webhooks remove whk_01k9zqd3m8w5x7y2c4b6n8p0ra":            "no such webhook",
		"embeds tags delete support pub_01k9zqd3m8w5x7y2c4b6n8p0ra": "no such script tag",
		"hooks delete support hok_01k9zqd3m8w5x7y2c4b6n8p0ra":       "no such hook",
	} {
		out, errOut, code := run(t, h, "", strings.Fields(args)...)
		if code == exitDone || out != "" || !strings.Contains(errOut, want) {
			t.Errorf("%s: %d %s %s", args, code, out, errOut)
		}
	}
}

// An error about a value says what the flag accepts.
func TestErrorsSayWhatAFlagAccepts(t *testing.T) {
	t.Parallel()
	h := apitest.Start(t, apitest.Config{})
	for args, want := range map[string]string{
		"respond --temperature hot hi":                  `--temperature must be a number, not "hot"`,
		"agents list --limit -1":                        `--limit must be a number of rows, or 0 for all, not "-1"`,
		"tasks preview x --count many":                  `--count must be a whole number, not "many"`,
		"logs --min-duration long":                      `--min-duration must be a duration such as 90s or 10m, not "long"`,
		"tools approve x --again=perhaps":               `--again must be true or false, not "perhaps"`,
		"budgets set --notify-at some":                  `--notify-at must be whole numbers, separated by commas, not "some"`,
		"agents list --jq .[":                           "--jq '.[' is not a valid jq expression",
		"sessions list --nonsense":                      "unknown flag: --nonsense; see stoa sessions list --help",
		"agents list --limt 3":                          "unknown flag: --limt; did you mean --limit?; see stoa agents list --help",
		"receipts list --since yesterday":               "unknown flag: --since; did you mean --from?; see stoa receipts list --help",
		"schedule list":                                 `there is no command "stoa schedule"; see stoa --help; did you mean tasks?`,
		"keys create --name x --scope response":         "operator, *; did you mean responses?",
		"update":                                        `there is no command "stoa update"; replace the program to upgrade it`,
		"budget list":                                   "did you mean budgets?",
		"accounts grant x -5":                           "-5 is read as a flag, and amounts cannot be negative; see stoa accounts grant --help",
		"members invite notmail":                        `stoa members invite accepts no arguments, but got "notmail"; for example: stoa members invite --role member --name Ada`,
		"respond -m alpha-haiku hi":                     "did you mean alpha-haiku-4-5?",
		"accounts list --json --jq .data[0].id":         "the expression gets the rows as one array, so .[0].id is the id of the first",
		"respond":                                       "the prompt is empty; pass it as an argument, or on standard input",
		"agents create --name x -i x --timeout 400000h": "--timeout 400000h: must be at most",
		"agents create --name y -i x --max-credits 0":   "--max-credits 0: must be at least 0.000001 credits",
		"sessions start x":                              "MESSAGE is missing",
		"sessions wait support":                         `"support" is not the id of a session`,
		"api GET agents --jq .error.param":              "did you mean /api/v1/api-agents?",
	} {
		_, errOut, code := run(t, h, "", strings.Fields(args)...)
		if code == exitDone || !strings.Contains(errOut, want) {
			t.Errorf("%s: %d %s, want %s", args, code, errOut, want)
		}
	}
}

// The help names the kind of a value, not the type of a flag or one of the values.
func TestHelpNamesKindsOfValues(t *testing.T) {
	t.Parallel()
	var all strings.Builder
	every((&env{}).root(), func(c *cobra.Command) { all.WriteString(helpText(c, false, 100)) })
	page := all.String()
	for _, line := range regexp.MustCompile(`(?m)^ +(-\w, )?--[a-z-]+ (string|strings|int|float|yes|off|tell_model|day|shorten|http)\b.*`).FindAllString(page, -1) {
		t.Error(line)
	}
	for _, line := range regexp.MustCompile(`(?m)^.*(default \[|default "|\(default \)|[;,] default[: ]| of the default\)).*`).FindAllString(page, -1) {
		t.Errorf("a default is not in the form (default VALUE): %s", line)
	}
}
