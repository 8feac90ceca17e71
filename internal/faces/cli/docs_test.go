package cli

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// markdownHelp returns the section of a command in docs/cli.md: its help as Markdown, without the flags that the
// beginning of the page describes.
func markdownHelp(c *cobra.Command) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s %s\n\n", strings.Repeat("#", min(4, 1+len(strings.Fields(c.CommandPath())))), c.CommandPath())
	for _, paragraph := range strings.Split(strings.TrimSpace(c.Long), "\n\n") {
		if strings.HasPrefix(paragraph, "  ") {
			fmt.Fprintf(&b, "%s\n\n", fenced(paragraph))
			continue
		}
		fmt.Fprintf(&b, "%s\n\n", inMarkdown(strings.ReplaceAll(paragraph, "\n", " ")))
	}
	fmt.Fprintf(&b, "%s\n", fenced(use(c)))
	for _, section := range sections(c) {
		fmt.Fprintf(&b, "\n| %s | |\n|---|---|\n", section.title)
		for _, sub := range section.commands {
			fmt.Fprintf(&b, "| `%s` | %s |\n", sub.CommandPath(), inMarkdown(sub.Short))
		}
	}
	head := "\n| Flag | Meaning |\n|---|---|\n"
	typed(c.LocalFlags()).VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" || f.Name == "json" || f.Name == "jq" {
			return
		}
		kind, meaning := pflag.UnquoteUsage(f)
		name := strings.TrimSpace("--" + f.Name + " " + kind)
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		if f.DefValue != "" && f.DefValue != "false" && f.DefValue != "0" && f.DefValue != "0s" {
			meaning += " (default " + f.DefValue + ")"
		}
		fmt.Fprintf(&b, "%s| `%s` | %s |\n", head, strings.ReplaceAll(name, "|", `\|`), inMarkdown(meaning))
		head = ""
	})
	if c.Example != "" {
		fmt.Fprintf(&b, "\n%s\n", fenced(c.Example))
	}
	return b.String()
}

// fenced returns lines of a shell as a block of code, without their indentation.
func fenced(text string) string {
	return "```sh\n" + strings.TrimPrefix(strings.ReplaceAll("\n"+text, "\n  ", "\n"), "\n") + "\n```"
}

// asCode matches a quoted command, a flag, and a variable of the environment.
var asCode = regexp.MustCompile(`"(stoa [^"]+)"|--[a-z][a-z-]*|STOA_[A-Z_]*[A-Z]`)

// inMarkdown returns a text of the help as Markdown.
func inMarkdown(text string) string {
	var b strings.Builder
	escape := strings.NewReplacer(`*`, `\*`, `_`, `\_`, `<`, `\<`, `[`, `\[`, "`", "\\`", `|`, `\|`, `\`, `\\`)
	for at := asCode.FindStringIndex(text); at != nil; at = asCode.FindStringIndex(text) {
		fmt.Fprintf(&b, "%s`%s`", escape.Replace(text[:at[0]]), strings.Trim(text[at[0]:at[1]], `"`))
		text = text[at[1]:]
	}
	return b.String() + escape.Replace(text)
}
