package cli

import (
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"syscall"

	"github.com/spf13/cobra"

	"stoa/internal/base/config"
	"stoa/internal/faces/app"
)

func (e *env) settings(c *cobra.Command) func() (config.Config, error) {
	return e.settingsBy(c, config.Load)
}

func (e *env) settingsBy(c *cobra.Command, read func(config.Flags, func(string) string, func(string) ([]byte, error)) (config.Config, error)) func() (config.Config, error) {
	var f config.Flags
	flags := c.Flags()
	flags.StringVar(&f.Config, "config", "", "`file` with settings in YAML (STOA_CONFIG)")
	flags.StringVar(&f.Listen, "listen", "", "`address` to listen on (STOA_LISTEN) (default 127.0.0.1:8080)")
	flags.StringVar(&f.AdminListen, "admin-listen", "", "`address` of /metrics and /readyz, or off (STOA_ADMIN_LISTEN) (default 127.0.0.1:9090)")
	flags.StringVar(&f.Data, "data", "", "`directory` of the SQLite store (STOA_DATA) (default ./data)")
	flags.StringVar(&f.Database, "database", "", "postgres:// `URL` to use PostgreSQL instead of SQLite (STOA_DATABASE)")
	flags.StringVar(&f.Durability, "durability", "", "`level` of durability: full, or process: exact after kill -9 but not after a power loss (STOA_DURABILITY) (default full)")
	flags.StringVar(&f.PublicURL, "public-url", "", "public `origin` of the service, for links (STOA_PUBLIC_URL)")
	flags.StringVar(&f.Extensions, "extensions", "", "`names` of the API extensions to offer, separated by commas, or all (STOA_EXTENSIONS) (default none)")
	flags.StringVar(&f.Sandbox, "sandbox", "", "when the built-in model answers: auto (without a vendor), always or off (STOA_SANDBOX) (default auto)")
	flags.StringVar(&f.LogFormat, "log-format", "", "`format` of the log: text or json (STOA_LOG_FORMAT) (default text)")
	flags.StringVar(&f.LogLevel, "log-level", "", "`level` of the log: debug, info, warn or error (STOA_LOG_LEVEL) (default info)")
	return func() (config.Config, error) {
		cfg, err := read(f, e.getenv, os.ReadFile)
		cfg.Warnings = append(cfg.Warnings, config.UnknownVariables(e.environ)...)
		return cfg, err
	}
}

// storeSettings is like [env.settings] for a command that works on a store: the help omits the flags of the service.
func (e *env) storeSettings(c *cobra.Command) func() (config.Config, error) {
	load := e.settings(c)
	for _, flag := range []string{"listen", "admin-listen", "durability", "public-url", "extensions", "sandbox", "log-format", "log-level"} {
		_ = c.Flags().MarkHidden(flag) // they exist
	}
	return load
}

func (e *env) serve() *cobra.Command {
	c := command("serve", "Run the service",
		`Run the service until SIGINT or SIGTERM.

The first start creates the data directory and an owner account with credits and a key. It prints that key once
if standard output is a terminal, and otherwise writes it to owner.key in the data directory. If no vendor is
configured, the built-in sandbox model answers. SIGHUP reloads the configuration; a stop lets running replies
finish (30 s by default).`,
		"  stoa serve\n  ANTHROPIC_API_KEY=… stoa serve --listen 127.0.0.1:9000 --data /var/lib/stoa\n  STOA_UPSTREAM=http://127.0.0.1:11434/v1 STOA_UPSTREAM_MODEL=llama3.2 stoa serve")
	load := e.settings(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		// SIGPIPE is ignored, so that writes fail and are counted after the reader of the log has exited, instead of ending the
		// process.
		signal.Ignore(syscall.SIGPIPE)
		cfg, err := load()
		if err != nil {
			return usageError{err}
		}
		if !cfg.Telemetry.Profiles {
			runtime.MemProfileRate = 0 // because its table takes 1.4 MB
		}
		log, lines := e.serviceLog(cfg.Log)
		defer e.endLog(lines)
		version, commit := build()
		return app.Run(c.Context(), app.Options{
			Config: cfg, Version: version, Commit: commit, Out: e.out, Terminal: isTerminal(e.out), Logger: log, LinesDropped: lines.Dropped,
			Reload: load, Hangup: e.hangup, AdaptCollector: e.getenv("GOGC") == "",
			Ready: func(string) { // because most of the start's allocations are garbage by now
				runtime.GC() // because pools keep their values during one collection
				debug.FreeOSMemory()
			},
		})
	}
	return c
}

func (e *env) config() *cobra.Command {
	c := group("config", "Inspect and change the configuration", "Inspect the configuration that \"stoa serve\" would use with the same flags and environment (check, print), and read and change\nthe settings of a running service (list, draft, history, restore).")
	check := command("check", "Check the configuration",
		"Read the configuration and check it as a start would, without starting. Every error is printed with its location, one per line, and the exit code is then 1.",
		"  stoa config check --config stoa.yaml\n  stoa config check --online")
	examine := e.settingsBy(check, config.Examine)
	online := check.Flags().Bool("online", false, "also try what the service connects to: the database, the bucket (an object is stored and removed), the mail server (up to the login), identity providers, Stripe and the lists of models")
	check.RunE = func(c *cobra.Command, _ []string) error {
		cfg, err := examine()
		if err = cfg.Together(err, app.Check(cfg)); err != nil {
			return err
		}
		if *online {
			if err := app.CheckOnline(c.Context(), cfg, func(path string) { fmt.Fprintf(e.out, "usable: %s\n", path) }); err != nil {
				return err
			}
		}
		for _, w := range cfg.Warnings {
			fmt.Fprintf(e.err, "warning: %s\n", w)
		}
		_, err = fmt.Fprintln(e.out, "The configuration is valid.")
		return err
	}
	print := command("print", "Print the effective configuration",
		"Print every setting with its value, as YAML that can be read back. Secrets are masked.",
		"  stoa config print --config stoa.yaml")
	loadToPrint := e.settings(print)
	print.RunE = func(*cobra.Command, []string) error {
		cfg, err := loadToPrint()
		if err != nil {
			return err
		}
		return cfg.Print(e.out)
	}
	c.AddCommand(check, print, e.configInit())
	c.AddCommand(e.configLive()...)
	return c
}
