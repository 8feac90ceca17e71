package cli

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/oapi-codegen/nullable"
	"github.com/spf13/cobra"

	"stoa/internal/base/client"
	"stoa/internal/base/contract"
	"stoa/internal/base/jsonx"
	"stoa/internal/base/stoa"
)

const (
	draftPath = "/config/draft"

	maxSettings = 1 << 20          // bytes of a file with managed settings
	applyTime   = 15 * time.Second // maximum wait for all nodes to use a version
	applyPause  = 200 * time.Millisecond
)

var viewConfigVersions = view{"ConfigVersion", []column{
	{"Version", "version", count},
	{"Applied", "createdAt", when},
	{"By", "author", plain},
	{"Changes", "changes", flexible},
	{"Note", "note", flexible},
}}

func (e *env) configLive() []*cobra.Command {
	list := e.verb(verb{
		use: "list", short: "List the settings in force",
		long: `List the providers, families, models, aliases and plans of a running service, with the source of each: the
configuration file, the environment, the managed settings, or the shipped list. --json includes their values.
Requires a key with the scope operator:read.`,
		example: "  stoa config list\n  stoa config list --jq '.[] | select(.source==\"managed\")'",
		op:      "GET /config", whole: true, none: "There are no settings.",
		rows: view{"ConfigItem", []column{
			{"Kind", "kind", plain},
			{"Name", "name", plain},
			{"Source", "source", plain},
			{"Where", "where", flexible},
			{"Shadows managed settings", "shadowed", plain},
		}},
	})
	history := e.verb(verb{
		use: "history", short: "List the versions of the managed settings",
		long:    "List the applied versions of the managed settings, newest first, and what each changed.",
		example: "  stoa config history --limit 5",
		op:      "GET /config/versions", rows: viewConfigVersions, none: "No managed settings were applied.",
	})
	return []*cobra.Command{list, e.configDraft(), history, e.configRestore()}
}

func (e *env) configDraft() *cobra.Command {
	c := group("draft", "Change the settings of a running service", `Change the providers, families, models, auto, aliases and plans of a running service without a restart. All operators
share one draft, in the form of the configuration file. Nothing is in force before it is applied. What the file or
a variable sets cannot be changed here.`)
	get := e.verb(verb{
		use: "get", short: "Print the draft as YAML",
		long: `Print the draft as YAML, which "stoa config draft update" reads; without a draft, the managed settings in force.
Keys of providers are printed as a mask, which keeps them.`,
		example: "  stoa config draft get > draft.yaml",
		op:      "GET /config/draft", plain: true,
		print: func(_ *output, raw jsonx.Value) error {
			var d struct {
				Settings json.RawMessage `json:"settings"`
			}
			if err := jsonx.Unmarshal(raw, &d); err != nil {
				return err
			}
			text, err := yaml.JSONToYAML(d.Settings)
			if err != nil {
				return err
			}
			if string(d.Settings) == "{}" {
				text = []byte("# There are no managed settings. Write providers, families, models, auto, aliases or plans here.\n")
			}
			_, err = e.out.Write(text)
			return err
		},
	})
	set := command("update FILE", "Replace the draft",
		`Replace the draft with a file with the members providers, families, models, auto, aliases and plans, as YAML or JSON;
"-" is standard input. The key of a provider is the member apiKey: it is stored encrypted. Nothing is in force before
"stoa config draft apply".`,
		"  stoa config draft update draft.yaml")
	set.RunE = func(c *cobra.Command, args []string) error {
		text, err := e.fileText(args[0], args[0], maxSettings)
		if err != nil {
			return err
		}
		settings, err := yaml.YAMLToJSON([]byte(text))
		if err != nil {
			return usagef("%s is not YAML: %w", args[0], err)
		}
		if strings.TrimSpace(string(settings)) == "null" { // because the file is empty
			settings = []byte("{}")
		}
		call, err := e.client()
		if err != nil {
			return err
		}
		if _, err := call.JSON(c.Context(), "PUT", draftPath, nil, map[string]any{"settings": json.RawMessage(settings)}, nil); err != nil {
			return err
		}
		raw, err := call.JSON(c.Context(), "POST", draftPath+"/check", nil, nil, nil)
		if err != nil {
			return err
		}
		return printDraftCheck(&output{e: e}, raw)
	}
	check := e.verb(verb{
		use: "check", short: "Check the draft",
		long:    "Check the draft as the configuration file is checked, and show what it would change. The exit code is 1 if it has problems.",
		example: "  stoa config draft check",
		op:      "POST /config/draft/check", print: printDraftCheck,
	})
	c.AddCommand(get, set, check, e.verb(verb{
		use: "test PROVIDER", short: "Test a provider of the draft with a small call",
		long: `Send a small call to a provider with the settings of the draft, as "stoa providers test" does with those in force.
You pay the vendor. The exit code is 1 if the provider did not answer.`,
		example: "  stoa config draft test claude",
		op:      "POST /config/draft/test", fields: []field{{name: "PROVIDER", member: "provider"}}, print: printTest,
	}), e.configApply(), e.configDrop())
	return c
}

func (e *env) configApply() *cobra.Command {
	c := command("apply", "Put the draft in force",
		`Make the draft the next version of the managed settings, and wait until all nodes use it. Calls in progress keep
their settings. The models and agents that it stops are listed first; it has to be confirmed if "auto" would have no model.`,
		"  stoa config draft apply --note 'Second vendor'")
	note := c.Flags().String("note", "", "a note for the list of versions")
	yes := c.Flags().BoolP("yes", "y", false, "do not ask for confirmation")
	sends(c, "note", "note")
	return e.calling(c, nil, func(ctx context.Context, call *client.Client, _ []string) error {
		var check contract.ConfigCheck
		if _, err := call.JSON(ctx, "POST", draftPath+"/check", nil, nil, &check); err != nil {
			return err
		}
		if e.sayEffects(check.Effects) {
			if err := e.confirm(*yes, "Apply the draft although calls will fail?"); err != nil {
				return err
			}
		}
		return e.apply(ctx, draftPath+"/apply", *note)
	})
}

func (e *env) configDrop() *cobra.Command {
	c := &cobra.Command{
		Use: "drop", Short: "Discard the draft", Args: noArgs, SuggestFor: []string{"delete", "remove"},
		Long: "Discard the draft. The settings in force stay as they are.", Example: "  stoa config draft drop --yes",
	}
	yes := c.Flags().BoolP("yes", "y", false, "do not ask for confirmation")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if err := e.confirm(*yes, "Discard the draft, which all operators share?"); err != nil {
			return err
		}
		call, err := e.client()
		if err != nil {
			return err
		}
		if _, err := call.JSON(c.Context(), "DELETE", draftPath, nil, nil, nil); err != nil {
			return err
		}
		e.say("The draft is discarded.")
		return nil
	}
	return c
}

func (e *env) configRestore() *cobra.Command {
	c := command("restore VERSION", "Restore an earlier version of the managed settings",
		"Make the settings of an earlier version the next version, and wait until all nodes use it. The draft is discarded.",
		"  stoa config restore 6 --yes")
	yes := c.Flags().BoolP("yes", "y", false, "do not ask for confirmation")
	note := c.Flags().String("note", "", "a note for the list of versions")
	sends(c, "note", "note")
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := e.confirm(*yes, "Restore version %s and discard the draft?", args[0]); err != nil {
			return err
		}
		return e.apply(c.Context(), "/config/versions/"+args[0]+"/restore", *note)
	}
	return c
}

func (e *env) apply(ctx context.Context, path, note string) error {
	call, err := e.client()
	if err != nil {
		return err
	}
	body := map[string]any{}
	if note != "" {
		body["note"] = note
	}
	var made contract.ConfigVersion
	if _, err := call.JSON(ctx, "POST", path, nil, body, &made); err != nil {
		return err
	}
	for _, change := range made.Changes {
		e.say("  %s", clean(change))
	}
	for end := time.Now().Add(applyTime); ; {
		var list contract.NodeList
		if _, err := call.JSON(ctx, "GET", "/nodes", nil, nil, &list); err != nil {
			return err
		}
		use := 0
		var refused error
		for _, n := range list.Data {
			if n.ConfigVersion >= made.Version {
				use++
			} else if why, err := n.ConfigProblem.Get(); err == nil {
				refused = errors.Join(refused, fmt.Errorf("the node at %s keeps version %d: %s", clean(n.Address), n.ConfigVersion, clean(why)))
			}
		}
		if use == len(list.Data) || refused != nil || time.Now().After(end) || !stoa.Sleep(ctx, applyPause) {
			e.say("Version %d is applied: %d of %s use it.", made.Version, use, some(len(list.Data), "node", "nodes"))
			return refused
		}
	}
}

func (e *env) sayEffects(list []contract.ConfigEffect) (confirm bool) {
	for _, one := range list {
		fmt.Fprintf(e.err, "effect: %s\n", clean(one.Text))
		confirm = confirm || one.Confirm
	}
	return confirm
}

func printDraftCheck(o *output, raw jsonx.Value) error {
	e := o.e
	var check contract.ConfigCheck
	if o.raw() {
		return o.printJSON(raw)
	}
	if err := jsonx.Unmarshal(raw, &check); err != nil {
		return err
	}
	for _, w := range check.Warnings {
		fmt.Fprintf(e.err, "warning: %s\n", clean(w))
	}
	e.sayEffects(check.Effects)
	for _, c := range check.Changes {
		fmt.Fprintf(e.out, "%s\n  from  %s\n  to    %s\n", clean(c.Path), compact(c.Before), compact(c.After))
	}
	for _, p := range check.Prices {
		fmt.Fprintf(e.out, "price of %s\n", clean(p.Model))
		for _, side := range []struct {
			word  string
			price nullable.Nullable[contract.ConfigPrice]
		}{{"from", p.Before}, {"to  ", p.After}} {
			rate, err := side.price.Get()
			if err != nil {
				continue
			}
			fmt.Fprintf(e.out, "  %s  %s / %s credits per million tokens of input / output", side.word, stoa.Credits(rate.Input), stoa.Credits(rate.Output))
			if rules := rulesText(rate); rules != "" {
				fmt.Fprintf(e.out, ", %s", rules)
			}
			fmt.Fprintln(e.out)
		}
	}
	var problems error
	for _, p := range check.Problems {
		text := clean(p.Message)
		if p.Path != "" {
			text = clean(p.Path) + ": " + text
		}
		if where, err := p.Where.Get(); err == nil {
			text = clean(where) + ": " + text
		}
		problems = errors.Join(problems, errors.New(text))
	}
	if problems == nil && len(check.Changes) == 0 {
		e.say("The draft does not differ from the settings in force.")
	}
	return problems
}

func compact(value nullable.Nullable[contract.ConfigValue]) string {
	raw, err := value.Get()
	if err != nil {
		return "–"
	}
	return clean(string(raw))
}

func printTest(o *output, raw jsonx.Value) error {
	var test contract.ProviderTest
	err := jsonx.Unmarshal(raw, &test)
	if err == nil {
		err = o.object(viewProviderTest, raw)
	}
	if err != nil || test.Ok {
		return err
	}
	return errors.New("the provider did not answer")
}

//go:embed init.yaml
var sampleConfig string

func (e *env) configInit() *cobra.Command {
	return &cobra.Command{
		Use: "init [FILE]", Short: "Write an example configuration file", Args: takes("[FILE]"),
		Long: `Write a configuration file with the most common settings, each commented out and explained. The default name
is stoa.yaml. An existing file is never overwritten; "-" is standard output.`,
		Example: "  stoa config init\n  stoa config init /etc/stoa/stoa.yaml\n  stoa serve --config stoa.yaml",
		RunE: func(_ *cobra.Command, args []string) error {
			name := "stoa.yaml"
			if len(args) > 0 {
				name = args[0]
			}
			if name == "-" {
				_, err := fmt.Fprint(e.out, sampleConfig)
				return err
			}
			f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) // because users may add keys
			if errors.Is(err, fs.ErrExist) {
				return fmt.Errorf("%s already exists; choose another file, or delete it first", name)
			}
			if err != nil {
				return err
			}
			_, err = f.WriteString(sampleConfig)
			if err := errors.Join(err, f.Close()); err != nil {
				return err
			}
			e.say("Wrote %s. Change it, then: stoa config check --config %s", name, shellWord(name))
			return nil
		},
	}
}
