// Package cli is the command line: the service and its client in one program.
//
// It prints data on standard output and everything else on standard error, and
// never decides what the service does. Start at [Main]; each group of commands
// has a file of its own.
//
// # Output
//
// The same command is read by people and by programs. A terminal gets tables:
// headings, relative times, four decimals, columns that are cut or left out to
// fit. Anything else gets lines with tabs, no headings, exact values, and
// columns that never depend on a width. --json prints a list as an array of
// all rows that were asked for, whatever pages they came in. A secret is alone
// on standard output, so that it can be captured; what is said about it goes
// to standard error. Text that a model or another person wrote loses its
// control characters on a terminal, and nowhere else. What is about to be lost
// is confirmed once on a terminal; elsewhere --yes is needed.
//
// A command sends a path and a body and prints the reply: as it came for
// --json and --jq, through a view for people. A view names the members it
// shows; a test compares each with the contract's schema, its type included,
// and the scripts in e2e/testdata/cli run paths and bodies against a real
// server, which refuses unknown members. A command that makes one request is an
// entry of a table (verb.go): a flag is declared, sent and named in errors by one
// line, which a test compares with the contract as well. Generated methods were rejected: a
// type that lacks a new member drops it from --json, a money value passes
// through a second encoding, and each list needs its own paging loop. It would
// be wrong if a change of the contract broke a command and only a user
// noticed.
//
// Help is rendered here (help.go) and docs/cli.md is the same text, written by
// the test that checks it; progress is one line that is written over.
// Libraries for either (fang, progressbar) bring a dozen packages and themes;
// if help or progress grew options of their own, a library would be cheaper.
//
// # Keys
//
// A stored key is sent to the service it was stored for and to no other, so
// that a STOA_BASE_URL in a project's .env cannot steal it; elsewhere
// STOA_API_KEY has to be set. A key in the environment goes where the
// environment says. Redirects are not followed. The key is in the system's
// keyring where there is one (on Unix that needs a session bus), otherwise in
// a file with mode 0600; --store decides. Check digits only warn before the
// service is asked, because an operator may choose a key of another form.
// Named profiles hold several services; the unnamed one has the file that it
// always had, and --profile comes before the environment, because it is typed.
//
// # Repeating requests
//
// A POST carries an Idempotency-Key, so that it can be sent again when its
// answer got lost. Model calls (respond, chat, api POST responses) send none,
// because the service keeps the reply to such a key for a day and promises to
// keep no replies otherwise: they are repeated only when the service itself
// refused them and says that a repetition can help. Conditional writes are not
// repeated either. Everything else is tried three times in all. If replies
// often got lost, receipts would show pairs of charges.
package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"stoa/internal/client"
)

// Exit codes, for scripts.
const (
	exitDone        = 0
	exitFailed      = 1
	exitUsage       = 2
	exitAuth        = 4 // no key, or a refused one
	exitEnded       = 5 // an awaited session ended failed or cancelled
	exitInterrupted = 130
)

// env is the environment of a command: variables, streams and signals. Commands
// use nothing else of the process.
type env struct {
	environ  []string // as os.Environ gives it
	in       io.Reader
	stdin    io.Reader // in, as long as nobody interrupts
	out, err io.Writer
	hangup   <-chan os.Signal

	profileFlag string // --profile
	asWritten   bool   // --raw
}

// A usageError is a wrong command line; the exit code is 2.
type usageError struct{ error }

func (u usageError) Unwrap() error { return u.error }

// usagef returns a usageError.
func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// getenv returns the value of a variable, empty if it is not set.
func (e *env) getenv(name string) string {
	for i := len(e.environ) - 1; i >= 0; i-- { // the last one counts
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
	e := &env{environ: environ, in: in, stdin: interruptible{ctx, in}, out: out, err: errOut, hangup: hangup}
	root := e.root()
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errOut)
	c, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitDone
	}
	err = inFlags(c, err)
	code := exitCode(err)
	if code != exitInterrupted {
		e.printError(err)
	}
	return code
}

// exitCode returns the exit code for an error.
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

// printError prints an error and, where it is known, what to do about it.
func (e *env) printError(err error) {
	text := e.fold("stoa: "+strings.TrimRight(err.Error(), "\n"), 0)
	fmt.Fprintln(e.err, e.style(e.err).paint("31", "stoa:")+strings.TrimPrefix(text, "stoa:"))
	if next := e.remedy(err); next != "" {
		fmt.Fprintln(e.err, e.fold(next, 2))
	}
}

// remedy returns what to do about an error, empty if that is not known.
func (e *env) remedy(err error) string {
	if client.Unreachable(err) {
		return `Is the service running? "stoa serve" starts one here; STOA_BASE_URL or "stoa login --base-url" name another.`
	}
	switch client.CodeOf(err) {
	case "Unauthorized":
		if e.getenv("STOA_API_KEY") != "" {
			return `The key is that of STOA_API_KEY. Set another, or unset it and log in with "stoa login".`
		}
		return `Log in with "stoa login".`
	case "insufficient_scope":
		return `"stoa whoami" shows what the key may do; "stoa keys create --scope …" makes one that may do more.`
	case "insufficient_quota":
		return `"stoa credits" shows what is left; an operator tops up with "stoa accounts grant".`
	case "key_budget_exceeded":
		return `"stoa keys list" shows the caps; the day ends at midnight UTC.`
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
	root := group("stoa", "One endpoint for every model, and a host for agents.", `Stoa is a service that answers model calls in the Responses format, and its command line.

Run it, log in with the key it prints, and ask; or call it with any client of that format:

  stoa serve
  stoa login
  stoa respond "Why is the sky blue?"
  curl http://127.0.0.1:8080/api/v1/responses -H "Authorization: Bearer $STOA_API_KEY" \
    -H 'Content-Type: application/json' -d '{"model":"auto","input":"Hello"}'

Exit codes: 0 done, 1 failed, 2 wrong usage, 4 no key or a wrong one, 5 an awaited session ended
failed or cancelled, 130 interrupted. Data goes to standard output, everything else to standard error.`)
	root.SilenceErrors, root.SilenceUsage = true, true
	root.Version = versionLine()
	root.SetVersionTemplate("{{.Version}}")
	root.Flags().Bool("version", false, "print the version")
	root.CompletionOptions.HiddenDefaultCmd = true
	root.PersistentFlags().StringVar(&e.profileFlag, "profile", "", "`name` of the remembered service and key to use, for every command (STOA_PROFILE)")
	_ = root.RegisterFlagCompletionFunc("profile", func(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		return e.profileNames(typed), cobra.ShellCompDirectiveNoFileComp
	}) // it has none yet
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		if name := c.Flags().Arg(0); name != "" && c.HasSubCommands() { // the command is what is wrong, not its flag
			return unknown(c, name)
		}
		return usagef("%w; see %s --help", err, c.CommandPath())
	})
	e.commands(root)
	return root
}

// group returns a command that only holds others. An unknown or missing
// subcommand is wrong usage (cobra alone would print help and succeed).
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

// unknown returns the error for a subcommand that does not exist, with
// suggestions.
func unknown(c *cobra.Command, name string) error {
	text := fmt.Sprintf("there is no command %q; see %s --help", c.CommandPath()+" "+name, c.CommandPath())
	c.SuggestionsMinimumDistance = 2
	if near := c.SuggestionsFor(name); len(near) > 0 {
		text += "; did you mean " + strings.Join(near, " or ") + "?"
	}
	return usageError{errors.New(text)}
}

// noArgs is the check that there are no arguments.
func noArgs(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef("%s takes no arguments, and %q is one; see %s --help", c.CommandPath(), args[0], c.CommandPath())
	}
	return nil
}

// linked is the version that make build sets with -ldflags -X; the linker can
// set only a variable.
var linked string

// build returns the program's version and commit. The version is the one that
// make build sets, else the one that the Go tool recorded ("dev" in a build
// without either).
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

// versionLine is the output of version and --version.
func versionLine() string {
	version, commit := build()
	return fmt.Sprintf("stoa %s (%s)\n", version, commit)
}

func (e *env) version() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: noArgs,
		Long:    "Print the version of this program and the commit it was built from. \"stoa api meta\" shows that of the service.",
		Example: "  stoa version",
		RunE: func(*cobra.Command, []string) error {
			_, err := io.WriteString(e.out, versionLine())
			return err
		},
	}
}
