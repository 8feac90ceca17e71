package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func (e *env) help(c *cobra.Command, _ []string) {
	if name := c.Flags().Arg(0); name != "" && c.HasSubCommands() { // because --help follows a command that does not exist
		e.say("stoa: %v", unknown(c, name))
	}
	columns := min(width(e.out), 110)
	if columns == 0 {
		columns = 100
	}
	io.WriteString(e.out, helpText(c, e.style(e.out), columns))
}

func helpText(c *cobra.Command, s style, columns int) string {
	var b strings.Builder
	about := c.Long
	if about == "" {
		about = c.Short + "."
	}
	fmt.Fprintf(&b, "%s\n\n%s\n  %s\n", wrap(strings.TrimSpace(about), columns), s.bold("Usage"), use(c))
	for _, section := range sections(c) {
		fmt.Fprintf(&b, "\n%s\n", s.bold(section.title))
		for _, sub := range section.commands {
			fmt.Fprintf(&b, "  %-*s  %s\n", section.columns, sub.Name(), s.dim(sub.Short))
		}
	}
	if flags := c.LocalFlags(); flags.HasAvailableFlags() {
		fmt.Fprintf(&b, "\n%s\n%s", s.bold("Flags"), typed(flags).FlagUsagesWrapped(columns))
	}
	if c.Example != "" {
		fmt.Fprintf(&b, "\n%s\n%s\n", s.bold("Examples"), c.Example)
	}
	if c.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "\n%s\n", s.dim("\""+c.CommandPath()+" COMMAND --help\" shows the help of a command."))
	}
	return b.String()
}

// typed returns the flags with the kind of their value as a word, where their help does not mark one in back quotes,
// and with their defaults as one types them.
func typed(flags *pflag.FlagSet) *pflag.FlagSet {
	words := map[string]string{"string": "text", "int": "number", "int64": "number", "float64": "number", "strings": "list", "stringSlice": "list", "stringArray": "text", "intSlice": "list"}
	shown := pflag.NewFlagSet("", pflag.ContinueOnError)
	shown.SortFlags = flags.SortFlags
	flags.VisitAll(func(f *pflag.Flag) {
		one := *f
		if word := words[f.Value.Type()]; word != "" {
			one.Value = typedValue{f.Value, word}
		}
		switch f.Value.Type() {
		case "stringSlice", "stringArray", "intSlice":
			one.DefValue = strings.Trim(f.DefValue, "[]")
		case "duration":
			if minutes, whole := strings.CutSuffix(f.DefValue, "m0s"); whole {
				one.DefValue = minutes + "m"
			}
		}
		shown.AddFlag(&one)
	})
	return shown
}

type typedValue struct {
	pflag.Value
	word string
}

func (v typedValue) Type() string { return v.word }

// wrap breaks paragraphs into lines of at most columns columns. Indented lines are
// unchanged.
func wrap(text string, columns int) string {
	var out, words []string
	flush := func() {
		if len(words) > 0 {
			out = append(out, breakLine(strings.Join(words, " "), columns))
			words = nil
		}
	}
	for _, line := range strings.Split(text, "\n") {
		switch {
		case line == "", strings.HasPrefix(line, "  "):
			flush()
			out = append(out, line)
		default:
			words = append(words, line)
		}
	}
	flush()
	return strings.Join(out, "\n")
}

func use(c *cobra.Command) string {
	if !c.HasAvailableSubCommands() {
		return c.UseLine()
	}
	return c.CommandPath() + " COMMAND"
}

type section struct {
	title    string
	columns  int
	commands []*cobra.Command
}

func sections(c *cobra.Command) []section {
	var out []section
	columns := 0
	add := func(title, id string) {
		s := section{title: title}
		for _, sub := range c.Commands() {
			if sub.IsAvailableCommand() && sub.GroupID == id {
				s.commands = append(s.commands, sub)
				columns = max(columns, len(sub.Name()))
			}
		}
		if len(s.commands) > 0 {
			out = append(out, s)
		}
	}
	for _, g := range c.Groups() {
		add(g.Title, g.ID)
	}
	add("Commands", "")
	for i := range out {
		out[i].columns = columns
	}
	return out
}
