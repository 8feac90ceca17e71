package cli

import "github.com/spf13/cobra"

func (e *env) commands(root *cobra.Command) {
	for _, g := range []struct {
		id, title string
		commands  []func() *cobra.Command
	}{
		{"ask", "Ask", []func() *cobra.Command{e.respond, e.chat, e.models, e.plans}},
		{"agents", "Agents", []func() *cobra.Command{e.agents, e.spaces, e.drive, e.skills, e.memory, e.sessions, e.feedback, e.tools, e.tasks, e.hooks, e.tests, e.webhooks, e.embeds, e.connections}},
		{"account", "Account", []func() *cobra.Command{
			e.login, e.logout, e.profileCommands, e.open, e.whoami, e.keys, e.members, e.endUsers, e.erasures, e.budgets, e.credits, e.usage, e.statement, e.payments, e.receipts, e.logs, e.audit, e.secrets,
		}},
		{"operate", "Operate", []func() *cobra.Command{
			e.serve, e.health, e.doctor, e.config, e.accounts, e.prices, e.providers, e.nodes, e.ledger, e.backup, e.restore, e.migrate, e.copy, e.mcpDemo,
		}},
		{"more", "More", []func() *cobra.Command{e.api, e.completion, e.version}},
	} {
		root.AddGroup(&cobra.Group{ID: g.id, Title: g.title})
		if e.serves {
			g.commands = nil
		}
		for _, create := range g.commands {
			c := create()
			c.GroupID = g.id
			root.AddCommand(c)
		}
	}
	if e.serves {
		root.AddCommand(e.serve())
	}
	addHelpFlag(root)
	addAliases(root)
	e.addCompletion(root)
	root.SetHelpFunc(e.help)
	root.SetHelpCommand(&cobra.Command{
		Use: "help [COMMAND]...", Short: "Show help for a command", Hidden: true,
		Long: "Show help for a command, as --help does.", Example: "  stoa help drive push",
		RunE: func(c *cobra.Command, args []string) error {
			found, rest, err := root.Find(args)
			if err != nil || len(rest) > 0 {
				if found == nil || len(rest) == 0 {
					return usagef("%w", err)
				}
				return unknown(found, rest[0])
			}
			return found.Help()
		},
	})
}

// addHelpFlag defines --help for c and its subcommands, because cobra's text would differ.
func addHelpFlag(c *cobra.Command) {
	c.Flags().BoolP("help", "h", false, "show this help")
	for _, sub := range c.Commands() {
		addHelpFlag(sub)
	}
}

func (e *env) completion() *cobra.Command {
	shells := []string{"bash", "zsh", "fish", "powershell"}
	return &cobra.Command{
		Use: "completion SHELL", Short: "Print a completion script for a shell", ValidArgs: shells, Args: takes("SHELL"),
		Long:    "Print a script for a shell (bash, zsh, fish or powershell) that completes stoa's commands and flags.",
		Example: "  source <(stoa completion bash)\n  stoa completion zsh > \"${fpath[1]}/_stoa\"\n  stoa completion fish > ~/.config/fish/completions/stoa.fish",
		RunE: func(c *cobra.Command, args []string) error {
			switch root := c.Root(); args[0] {
			case "bash":
				return root.GenBashCompletionV2(e.out, true)
			case "zsh":
				return root.GenZshCompletion(e.out)
			case "fish":
				return root.GenFishCompletion(e.out, true)
			case "powershell":
				return root.GenPowerShellCompletionWithDesc(e.out)
			}
			return usagef("completion for %q is not supported; the shells are bash, zsh, fish and powershell", args[0])
		},
	}
}

// extractCommand is the argument with which the service starts itself to read a document. It is not in the help, because
// it is not a command for people.
const extractCommand = "extract"
