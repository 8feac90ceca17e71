package cli

import (
	"context"
	"encoding/json" // because it keeps the notation of numbers
	"fmt"
	"net/url"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"

	"stoa/internal/base/contract"
	"stoa/internal/base/jsonx"
	"stoa/internal/base/stoa"
)

const (
	testPause      = time.Second // polling interval of a run
	maxTestFile    = 1 << 20
	maxDraftOfTest = 1 << 20
)

var viewTestSets = view{"TestSet", []column{
	{"Id", "id", ident},
	{"Name", "name", objectTitle},
	{"Questions", "questionCount", count},
	{"Changed", "updatedAt", when},
}}

var viewTestSet = view{"TestSet", []column{
	{"Id", "id", ident},
	{"Agent", "agentId", ident},
	{"Name", "name", objectTitle},
	{"Questions", "questionCount", count},
	{"Texts", "questions", flexible},
	{"Created", "createdAt", when},
	{"Changed", "updatedAt", when},
}}

var viewTestRuns = view{"TestRun", []column{
	{"Id", "id", ident},
	{"Status", "status", plain},
	{"Because", "statusReason", plain},
	{"Version", "current.version", count},
	{"Passed", "current.passed", count},
	{"Credits", "current.creditsMicro", credits},
	{"Draft", "candidate.draft", plain},
	{"Candidate", "candidate.version", count},
	{"Candidate passed", "candidate.passed", count},
	{"Candidate credits", "candidate.creditsMicro", credits},
	{"Created", "createdAt", when},
}}

var viewTestResults = view{"TestResult", []column{
	{"#", "question", count},
	{"Question", "message", flexible},
	{"In use", "current.verdict", plain},
	{"Because", "current.reasons", flexible},
	{"Credits", "current.creditsMicro", credits},
	{"Candidate", "candidate.verdict", plain},
	{"Because", "candidate.reasons", flexible},
	{"Credits", "candidate.creditsMicro", credits},
}}

func (e *env) tests() *cobra.Command {
	c := group("tests", "Test agents with questions", `Ask an agent the questions of a test set (tst_…) and judge its replies, on the version in use and beside it on a draft or
another version. Each question is a session, charged like any other. AGENT is an id, an external id, or a unique name.`)
	var waiting *bool
	var running *cobra.Command
	wait := func(c *cobra.Command) setter {
		running, waiting = c, c.Flags().Bool("wait", false, "wait for the end, print the results, and exit with 1 unless all questions pass")
		return func(map[string]any) error { return nil }
	}
	name := field{"name", "name", asText, "the name"}
	c.AddCommand(e.verbs(
		verb{
			use: "create AGENT", short: "Create a test set",
			long: `Create a test set from a file with a list of questions, as YAML or JSON. Each has a message and may have facts (texts
that the reply must contain), absent (texts that it must not contain) and a replySchema that it must fit as JSON.`,
			example: "  stoa tests create support --name Refunds --file questions.yaml",
			op:      "POST /api-agents/{AGENT}/test-sets", fields: []field{name}, extra: []adder{e.questionsOf}, show: viewTestSet,
			needs: []string{"name", "questions"}, missing: "a test set requires a --name and a --file",
		},
		verb{
			use: "list AGENT", short: "List the test sets of an agent",
			long: "List the test sets of an agent, newest first.", example: "  stoa tests list support",
			op: "GET /api-agents/{AGENT}/test-sets", rows: viewTestSets, fields: []field{searchField("name or id")}, none: "There are no test sets.",
		},
		verb{
			use: "get AGENT SET", short: "Show a test set",
			long: "Show a test set with its questions; --jq .questions prints them for --file.", example: "  stoa tests get support tst_01k9zqd3m8w5x7y2c4b6n8p0ra --jq .questions > questions.json",
			op: "GET /api-agents/{AGENT}/test-sets/{SET}", show: viewTestSet,
		},
		verb{
			use: "update AGENT SET", short: "Change a test set",
			long: "Change the name or replace the questions.", example: "  stoa tests update support tst_01k9zqd3m8w5x7y2c4b6n8p0ra --file questions.yaml",
			op: "PATCH /api-agents/{AGENT}/test-sets/{SET}", fields: []field{name}, extra: []adder{e.questionsOf}, show: viewTestSet, missing: nothingChanges,
		},
		verb{
			use: "delete AGENT SET...", short: "Delete test sets",
			long: "Delete test sets with their runs. Sessions are kept.", example: "  stoa tests delete support tst_01k9zqd3m8w5x7y2c4b6n8p0ra --yes",
			op: "DELETE /api-agents/{AGENT}/test-sets/{SET}", ask: asks("Delete %s? Its runs are deleted too.", "the test set", "test sets"),
		},
		verb{
			use: "run AGENT SET", short: "Ask the questions of a test set",
			long: `Ask the questions of a test set to the version of the agent in use, and with --draft-file or --version to that
candidate too. The tools of the agent are really called. With --wait the exit code is 1 unless all questions pass: those of the
candidate if there is one.`,
			example: "  stoa tests run support tst_01k9zqd3m8w5x7y2c4b6n8p0ra --wait\n  stoa tests run support tst_01k9zqd3m8w5x7y2c4b6n8p0ra --draft-file draft.yaml --max-credits 2 --wait",
			op:      "POST /api-agents/{AGENT}/test-sets/{SET}/runs", extra: []adder{e.draftOfTest, wait},
			fields: []field{
				{"version", "version", asNumber, "the `number` of a version to compare"},
				{"max-credits=10", "maxCreditsMicro", asCredits, "the maximum cost of the run, in `credits`"},
			},
			print: func(o *output, raw jsonx.Value) error {
				if !*waiting {
					return o.object(viewTestRuns, raw)
				}
				return e.awaitTests(running.Context(), o, raw)
			},
		},
		verb{
			use: "runs AGENT SET", short: "List the runs of a test set",
			long: "List the runs of a test set, newest first.", example: "  stoa tests runs support tst_01k9zqd3m8w5x7y2c4b6n8p0ra",
			op: "GET /api-agents/{AGENT}/test-sets/{SET}/runs", rows: viewTestRuns, none: "The test set was not run.",
		},
		verb{
			use: "results AGENT SET RUN", short: "Show the results of a run",
			long: "Show the verdict of each question of a run, with the reasons.", example: "  stoa tests results support tst_01k9zqd3m8w5x7y2c4b6n8p0ra tsr_01k9zqd3m8w5x7y2c4b6n8p0ra",
			op: "GET /api-agents/{AGENT}/test-sets/{SET}/runs/{RUN}", print: e.printTests,
		},
		verb{
			use: "cancel AGENT SET RUN", short: "Cancel a run",
			long: "Cancel the sessions of a run that are in progress, and ask no more questions.", example: "  stoa tests cancel support tst_01k9zqd3m8w5x7y2c4b6n8p0ra tsr_01k9zqd3m8w5x7y2c4b6n8p0ra",
			op: "POST /api-agents/{AGENT}/test-sets/{SET}/runs/{RUN}/cancel", show: viewTestRuns,
		},
	)...)
	return c
}

func (e *env) questionsOf(c *cobra.Command) setter {
	return e.yamlFlag(c, "file", "questions", "a `file` with the questions as YAML or JSON; - is standard input", maxTestFile)
}

func (e *env) draftOfTest(c *cobra.Command) setter {
	return e.yamlFlag(c, "draft-file", "draft", "a `file` with the settings of the agent to test, such as instructions, as YAML or JSON; - is standard input", maxDraftOfTest)
}

// yamlFlag adds a flag whose value is the file of a member.
func (e *env) yamlFlag(c *cobra.Command, flag, member, usage string, most int64) setter {
	name := c.Flags().String(flag, "", usage)
	sends(c, flag, member)
	return func(body map[string]any) error {
		if *name == "" {
			return nil
		}
		text, err := e.fileText(*name, *name, most)
		if err != nil {
			return err
		}
		value, err := yaml.YAMLToJSON([]byte(text))
		if err != nil {
			return usagef("%s is not YAML: %w", *name, err)
		}
		body[member] = json.RawMessage(value)
		return nil
	}
}

// awaitTests waits for the end of a run, and prints it. It fails unless all questions of the newer side pass.
func (e *env) awaitTests(ctx context.Context, o *output, raw jsonx.Value) error {
	call, err := e.client()
	if err != nil {
		return err
	}
	var run contract.TestRun
	for {
		if err := jsonx.Unmarshal(raw, &run); err != nil {
			return fmt.Errorf("the reply does not match the contract: %w", err)
		}
		if run.Status != "running" {
			break
		}
		if err := wait(ctx, testPause); err != nil {
			return err
		}
		path := "/api-agents/" + url.PathEscape(run.AgentID) + "/test-sets/" + url.PathEscape(run.TestSetID) + "/runs/" + url.PathEscape(run.ID)
		if raw, err = call.JSON(ctx, "GET", path, nil, nil, nil); err != nil {
			return err
		}
	}
	if err := e.printTests(o, raw); err != nil {
		return err
	}
	side := run.Current
	if candidate, err := run.Candidate.Get(); err == nil {
		side = candidate
	}
	if side.Passed < side.Questions {
		return fmt.Errorf("%d of %d questions did not pass; the run is %s", side.Questions-side.Passed, side.Questions, run.Status)
	}
	return nil
}

// printTests prints the results of a run as a table, and its sums on standard error.
func (e *env) printTests(o *output, raw jsonx.Value) error {
	var run struct {
		contract.TestRun
		Results []jsonx.Value `json:"results"`
	}
	if err := jsonx.Unmarshal(raw, &run); err != nil {
		return fmt.Errorf("the reply does not match the contract: %w", err)
	}
	if o.raw() {
		return o.printJSON(raw)
	}
	results := func(yield func(jsonx.Value, error) bool) {
		for _, r := range run.Results {
			if !yield(r, nil) {
				return
			}
		}
	}
	if err := o.list(viewTestResults, results, len(run.Results), "The run has no questions."); err != nil {
		return err
	}
	sum := func(what string, s contract.TestSide) {
		e.say("%s %d: %d of %d passed, %s credits, %.1f s", what, s.Version, s.Passed, s.Questions, stoa.Credits(s.CreditsMicro), float64(s.Milliseconds)/1000)
	}
	sum("Version", run.Current)
	if s, err := run.Candidate.Get(); err == nil {
		what := "Version"
		if s.Draft {
			what = "Draft of version"
		}
		sum(what, s)
	}
	return nil
}
