// Package cli is the command line: the service and its client in one program.
//
// It prints data on standard output and everything else on standard error, and contains
// no decisions of the service. Start at [Main]; each group of commands has its own
// file.
//
// # Output
//
// The same command is read by people and by programs. A terminal gets tables: headings,
// relative times, four decimals, columns that are cut or left out to fit. Anything else
// gets lines with tabs, no headings, exact values, and columns that never depend on a
// width. --json prints a list as one array of all requested rows, regardless of paging.
// A secret is alone on standard output, so that it can be captured; messages about it
// go to standard error. Text that a model or another person wrote loses its control
// characters on a terminal, and nowhere else. A terminal asks once before anything is
// deleted; elsewhere --yes is required.
//
// A command sends a path and a body and prints the reply: as it came for --json and
// --jq, through a view for people. A view names the members it shows; a test compares
// each with the contract's schema, including its type, and the scripts in
// e2e/testdata/cli run paths and bodies against a real server, which rejects unknown
// members. A command that makes one request is an entry of a table (verb.go): a flag is
// declared, sent and named in errors by one line, which a test compares with the
// contract as well. Generated methods were rejected: a type that lacks a new member
// drops it from --json, a money value passes through a second encoding, and each list
// requires its own paging loop. Reconsider this if a change of the contract breaks a
// command and only a user notices.
//
// Help is rendered here (help.go) and docs/cli.md has the same text, written by the test
// that checks it; progress is one line that is overwritten. Libraries for either (fang,
// progressbar) bring a dozen packages and themes; if help or progress grew options of
// their own, a library would be cheaper.
//
// # Keys
//
// A stored key is sent to the service it was stored for and to no other, so that a
// STOA_BASE_URL in a project's .env cannot steal it; elsewhere STOA_API_KEY must be
// set. A key in the environment is sent to the address in the environment. Redirects
// are not followed. The key is in the system's keyring if there is one (on Unix that
// requires a session bus), otherwise in a file with mode 0600; --store decides. Wrong
// check digits only cause a warning before the service is queried, because an operator
// may choose a key of another form. Named profiles store several services; the unnamed
// one keeps its original file, and --profile takes precedence over the environment,
// because the user typed it.
//
// # Repeating requests
//
// A POST carries an Idempotency-Key, so that it can be retried when the reply was lost.
// Model calls (respond, chat, api POST responses) send none, because the service stores
// the reply to such a key for a day and promises to store no other replies: they are
// retried only if the service itself rejected them and reports that a retry can help.
// Conditional writes are not retried either. Everything else is tried three times in
// total. If replies were lost often, receipts would show pairs of charges.
package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"stoa/internal/base/client"
	"stoa/internal/base/extract"
)

// Exit codes, for scripts.
const (
	exitDone        = 0
	exitFailed      = 1
	exitUsage       = 2
	exitAuth        = 4 // no key, or a rejected one
	exitEnded       = 5 // an awaited session failed or was cancelled
	exitInterrupted = 130
)

// env is the environment of a command: variables, streams and signals. Commands must use no
// other state of the process.
type env struct {
	environ  []string // as os.Environ gives it
	in       io.Reader
	stdin    io.Reader // in, until interrupted
	out, err io.Writer
	hangup   <-chan os.Signal

	profileFlag string // --profile
	asWritten   bool   // --raw
	serves      bool   // the command is serve, and the others are not created, because they take a megabyte for its lifetime
}

// A usageError is a wrong command line; the exit code is 2.
type usageError struct{ error }

func (u usageError) Unwrap() error { return u.error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

func (e *env) getenv(name string) string {
	for i := len(e.environ) - 1; i >= 0; i-- { // because the last one counts
		if n, value, ok := strings.Cut(e.environ[i], "="); ok && n == name {
			return value
		}
	}
	return ""
}

// Main runs one command line and returns the exit code. environ has the form of
// os.Environ; hangup carries the signals after which a server reloads its
// configuration, and may be nil.
func Main(ctx context.Context, args, environ []string, hangup <-chan os.Signal, in io.Reader, out, errOut io.Writer) int {
	if len(args) == 1 && args[0] == extractCommand {
		if err := extract.Child(in, out); err != nil {
			fmt.Fprintln(errOut, err)
			return exitFailed
		}
		return exitDone
	}
	e := &env{environ: environ, in: in, stdin: interruptible{ctx, in}, out: out, err: errOut, hangup: hangup, serves: len(args) > 0 && args[0] == "serve"}
	root := e.root()
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errOut)
	c, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitDone
	}
	err = e.suggestModels(ctx, c, inFlags(c, err))
	code := exitCode(err)
	if code != exitInterrupted {
		e.printError(err)
	}
	return code
}

func exitCode(err error) int {
	if errors.Is(err, context.Canceled) {
		return exitInterrupted
	}
	if _, ok := errors.AsType[usageError](err); ok {
		return exitUsage
	}
	if _, ok := errors.AsType[endedError](err); ok {
		return exitEnded
	}
	if _, ok := errors.AsType[authError](err); ok || errors.Is(err, errNotLoggedIn) || client.CodeOf(err) == "Unauthorized" {
		return exitAuth
	}
	return exitFailed
}

func (e *env) printError(err error) {
	text := e.fold("stoa: "+strings.TrimRight(err.Error(), "\n"), 0)
	fmt.Fprintln(e.err, e.style(e.err).paint("31", "stoa:")+strings.TrimPrefix(text, "stoa:"))
	if next := e.remedy(err); next != "" {
		fmt.Fprintln(e.err, e.fold(next, 2))
	}
}

func (e *env) remedy(err error) string {
	if client.Unreachable(err) {
		return `Is the service running? "stoa serve" starts one here; STOA_BASE_URL or "stoa login --base-url" select another.`
	}
	switch client.CodeOf(err) {
	case "Unauthorized":
		if e.getenv("STOA_API_KEY") != "" {
			return `The key comes from STOA_API_KEY. Set another one, or unset it and log in with "stoa login".`
		}
		return `Log in with "stoa login".`
	case "insufficient_scope":
		return `"stoa whoami" shows the scopes of the key; "stoa keys create --scope …" creates a key with other scopes.`
	case "insufficient_quota":
		return `"stoa credits" shows the balance; an operator tops up with "stoa accounts grant".`
	case "key_budget_exceeded":
		return `"stoa keys get KEY" shows the cap of a key; the day ends at midnight UTC.`
	case "budget_exceeded":
		return `"stoa budgets list" shows the budgets and when they begin again.`
	case "model_not_found", "model_unavailable":
		return `"stoa models" lists the models and which of them are served.`
	case "model_not_in_plan":
		return `"stoa models" shows which models are gated; "stoa whoami" shows the plan.`
	case "space_not_found":
		return `"stoa spaces list" shows the spaces.`
	case "agent_not_found":
		return `"stoa agents list" shows the agents.`
	case "session_not_found":
		return `"stoa sessions list" shows the sessions.`
	case "file_not_found":
		return `"stoa drive ls AGENT -r" shows an agent's files.`
	}
	return ""
}

func (e *env) root() *cobra.Command {
	root := group("stoa", "One endpoint for every model, and a host for agents.", `Stoa serves every model at one endpoint, in the Responses format, and hosts agents. This program is the service
and its command line.

Start the service, log in with the key that it prints, and send a prompt; or use any client of that format:

  stoa serve
  stoa login
  stoa respond "Why is the sky blue?"
  curl http://127.0.0.1:8080/api/v1/responses -H "Authorization: Bearer $STOA_API_KEY" \
    -H 'Content-Type: application/json' -d '{"model":"auto","input":"Hello"}'

Exit codes: 0 success, 1 failure, 2 wrong usage, 4 missing or invalid key, 5 an awaited session failed or was
cancelled, 130 interrupted. Data goes to standard output, everything else to standard error.`)
	root.SilenceErrors, root.SilenceUsage = true, true
	root.Version = versionLine()
	root.SetVersionTemplate("{{.Version}}")
	root.Flags().Bool("version", false, "print the version")
	root.CompletionOptions.HiddenDefaultCmd = true
	root.PersistentFlags().StringVar(&e.profileFlag, "profile", "", "the profile to use: the `name` of a stored service and key (STOA_PROFILE)")
	_ = root.RegisterFlagCompletionFunc("profile", func(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		return e.profileNames(typed), cobra.ShellCompDirectiveNoFileComp
	}) // ignored, because its only error is a second definition
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		if name := c.Flags().Arg(0); name != "" && c.HasSubCommands() { // so that the unknown command is reported, not its flag
			return unknown(c, name)
		}
		if absent, ok := errors.AsType[*pflag.NotExistError](err); ok {
			return unknownFlag(c, absent)
		}
		if bad, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
			if needed := valueNeeded(bad.GetFlag()); needed != "" {
				return usagef("--%s must be %s, not %q", bad.GetFlag().Name, needed, bad.GetValue())
			}
		}
		return usagef("%w; see %s --help", err, c.CommandPath())
	})
	e.commands(root)
	return root
}

// valueNeeded describes the values of a flag in words, because pflag's errors quote Go's parser. It returns "" for a
// flag that accepts every text.
func valueNeeded(f *pflag.Flag) string {
	switch f.Value.Type() {
	case "int", "int64":
		return "a whole number"
	case "rows":
		return "a number of rows, or 0 for all"
	case "float64":
		return "a number"
	case "intSlice":
		return "whole numbers, separated by commas"
	case "bool":
		return "true or false"
	case "duration":
		return "a duration such as 90s or 10m"
	}
	return ""
}

// group returns a command that only contains others. It makes an unknown or missing subcommand
// wrong usage, because cobra alone would print help and succeed.
func group(use, short, long string) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Long: long, Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return c.Help()
			}
			return unknown(c, args[0])
		},
	}
}

// command returns a command with the arguments that the words of use after its name describe.
func command(use, short, long, example string) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, Long: long, Example: example, Args: noArgs}
	if words := strings.Fields(use)[1:]; len(words) > 0 {
		c.Args = takes(words...)
	}
	return c
}

func unknown(c *cobra.Command, name string) error {
	text := fmt.Sprintf("there is no command %q; see %s --help", c.CommandPath()+" "+name, c.CommandPath())
	if !c.HasParent() && (name == "update" || name == "upgrade") {
		text = fmt.Sprintf("there is no command %q; replace the program to upgrade it: see \"Upgrade\" in the installation guide", c.CommandPath()+" "+name)
	}
	var words []string // the names of each command follow each other
	names := map[string]string{}
	for _, sub := range c.Commands() {
		for _, word := range slices.Concat([]string{sub.Name()}, sub.Aliases, sub.SuggestFor) {
			if sub.IsAvailableCommand() {
				words = append(words, word)
				names[word] = sub.Name()
			}
		}
	}
	var found []string
	for _, word := range near(name, words) {
		if !slices.Contains(found, names[word]) {
			found = append(found, names[word])
		}
	}
	return usageError{errors.New(text + didYouMean(found))}
}

// otherFlags contains words for flags in other programs.
var otherFlags = map[string]string{
	"since": "from", "after": "from", "start": "from", "until": "to", "before": "to", "end": "to", "count": "limit", "max": "limit", "first": "limit",
	"query": "search", "filter": "search", "q": "search", "grep": "search", "output": "json", "format": "json", "force": "yes", "budget": "max-credits",
}

// unknownFlag suggests flags of c for one that it does not have. A negative amount is parsed as a flag.
func unknownFlag(c *cobra.Command, absent *pflag.NotExistError) error {
	name := absent.GetSpecifiedName()
	if shorts := absent.GetSpecifiedShortnames(); shorts != "" {
		if strings.Trim(shorts, "0123456789.,") == "" {
			return usagef("-%s is read as a flag, and amounts cannot be negative; see %s --help", shorts, c.CommandPath())
		}
		return usagef("%w; see %s --help", absent, c.CommandPath())
	}
	var all []string
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			all = append(all, f.Name)
		}
	})
	found := near(name, all)
	if other := otherFlags[name]; slices.Contains(all, other) {
		found = []string{other}
	}
	for i := range found {
		found[i] = "--" + found[i]
	}
	return usagef("%w%s; see %s --help", absent, didYouMean(found), c.CommandPath())
}

func noArgs(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		example, _, _ := strings.Cut(strings.TrimSpace(c.Example), "\n")
		return usagef("%s accepts no arguments, but got %q; for example: %s", c.CommandPath(), args[0], cmp.Or(example, c.CommandPath()))
	}
	return nil
}

// linked is the version that make build sets with -ldflags -X. It is a variable, because the
// linker can set nothing else.
var linked string

// build returns the program's version and commit: what make build sets, otherwise what the Go tool
// recorded, otherwise "dev".
func build() (version, commit string) {
	version, commit = "dev", "unknown"
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return cmp.Or(linked, version), commit
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		version = v
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			commit = s.Value
		}
	}
	return cmp.Or(linked, version), commit
}

func versionLine() string {
	version, commit := build()
	return fmt.Sprintf("stoa %s (%s)\n", version, commit)
}

func (e *env) version() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: noArgs,
		Long:    "Print the version of this program and the commit it was built from. \"stoa api meta\" shows the version of the service.",
		Example: "  stoa version",
		RunE: func(*cobra.Command, []string) error {
			_, err := io.WriteString(e.out, versionLine())
			return err
		},
	}
}
