package cli

import (
	"github.com/spf13/cobra"

	"stoa/internal/base/jsonx"
)

var viewAccounts = view{"Account", viewAccount.only("id", "name", "email", "plan", "suspended", "credits.availableMicro", "spentLast30DaysMicro", "lastUsedAt", "createdAt").columns}

var viewAccount = view{"AccountWithCredits", []column{
	{"Id", "id", ident},
	{"Name", "name", objectName},
	{"Email", "email", flexible},
	{"Plan", "plan", plain},
	{"Suspended", "suspended", plain},
	{"Available", "credits.availableMicro", credits},
	{"Held", "credits.heldMicro", credits},
	{"Granted", "credits.grantedMicro", credits},
	{"Spent", "credits.spentMicro", credits},
	{"Owed", "credits.owedMicro", credits},
	{"Spent 30 days", "spentLast30DaysMicro", credits},
	{"Last used", "lastUsedAt", when},
	{"Default space", "defaultSpaceId", ident},
	{"Created", "createdAt", when},
}}

var viewNewAccount = view{"AccountWithKey", []column{
	{"Id", "id", ident},
	{"Name", "name", plain},
	{"Plan", "plan", plain},
	{"Available", "credits.availableMicro", credits},
	{"Key id", "key.id", plain},
	{"Key", "key.secret", plain},
}}

var viewGrant = view{"Grant", []column{
	{"Id", "id", ident},
	{"Account", "accountId", ident},
	{"Credits", "amountMicro", credits},
	{"Reason", "reason", plain},
	{"Reference", "externalRef", plain},
	{"Time", "createdAt", when},
}}

var viewWithdrawal = view{"Withdrawal", []column{
	{"Id", "id", ident},
	{"Account", "accountId", ident},
	{"Credits", "amountMicro", credits},
	{"Taken", "takenMicro", credits},
	{"Owed", "owedMicro", credits},
	{"Reason", "reason", plain},
	{"Reference", "externalRef", plain},
	{"Time", "createdAt", when},
}}

func (e *env) accounts() *cobra.Command {
	c := group("accounts", "Create and manage customers' accounts", "Create and manage customers' accounts. Requires a key with the scope operator, like the first key,\nor operator:read for reading and operator:billing for plans, grants and invitations.\nACCOUNT is an id, or a unique name.")
	c.AddCommand(e.verbs(
		verb{
			use: "create", short: "Create an account and its first key",
			long:    "Create a customer's account with its first key, which is shown only once, and optionally grant it credits.",
			example: "  stoa accounts create --name acme --plan free --grant 5\n  stoa accounts create --name acme --jq .key.secret",
			op:      "POST /accounts", needs: []string{"name"}, missing: "an account requires a --name",
			fields: []field{
				{"name", "name", asText, "the customer's name"},
				{"email", "email", asText, "the customer's email address"},
				{"plan", "plan", asText, "the `id` of a plan; \"stoa plans\" lists them (default free)"},
				{"grant", "grantMicro", asCredits, "initial `credits`"},
			},
			print: func(o *output, raw jsonx.Value) error {
				if !o.raw() {
					e.say("The account was created. Its key is shown only once.")
				}
				return o.object(viewNewAccount, raw)
			},
		},
		verb{
			use: "list", short: "List the accounts",
			long: `List all accounts of the service, newest first, with their available credits, the charges of the last 30 days
(UTC) and the last use of a key.`,
			example: "  stoa accounts list\n  stoa accounts list --sort spent --limit 10\n  stoa accounts list --search acme\n  stoa accounts list --below 5 --limit 0",
			op:      "GET /accounts", rows: viewAccounts, none: "No accounts found.",
			fields: append(sortFields("`value`: created, name, balance, spent (in 30 days) or used"),
				field{"search", "q", asText, "only accounts with this `text` in their name, email or id"},
				field{"below", "unspentBelowMicro", asCredits, "only accounts with fewer `credits`, including held ones"},
			),
		},
		verb{
			use: "get ACCOUNT", short: "Show an account", long: "Show an account with its credits.", example: "  stoa accounts get acme",
			op: "GET /accounts/{ACCOUNT}", show: viewAccount,
		},
		verb{
			use: "plan ACCOUNT PLAN", short: "Set the plan of an account",
			long: "Set the plan of an account. Running calls keep their plan.", example: "  stoa accounts plan acme pro",
			op: "PATCH /accounts/{ACCOUNT}", fields: []field{{"PLAN", "plan", asText, ""}}, show: viewAccount,
		},
		verb{
			use: "disable ACCOUNT", short: "Suspend an account",
			long: "Suspend an account: all its keys are rejected, within a second, until it is enabled again. No data is lost.", example: "  stoa accounts disable acme",
			op: "PATCH /accounts/{ACCOUNT}", fixed: map[string]any{"suspended": true}, show: viewAccount,
		},
		verb{
			use: "enable ACCOUNT", short: "Resume a suspended account",
			long: "Resume a suspended account.", example: "  stoa accounts enable acme",
			op: "PATCH /accounts/{ACCOUNT}", fixed: map[string]any{"suspended": false}, show: viewAccount,
		},
		verb{
			use: "grant ACCOUNT CREDITS", short: "Grant credits to an account",
			long: `Grant credits to an account. A --ref, such as a payment number, is unique in the whole service: sending the
same grant again changes nothing and shows the first grant.`,
			example: "  stoa accounts grant acme 5 --reason top-up --ref pay_1042",
			op:      "POST /accounts/{ACCOUNT}/grants", show: viewGrant,
			fields: []field{
				{"CREDITS", "amountMicro", asCredits, ""},
				{"reason", "reason", asText, "the reason, as the ledger shows it"},
				{"ref", "externalRef", asText, "a unique `reference`"},
			},
		},
		verb{
			use: "withdraw ACCOUNT CREDITS", short: "Withdraw credits from an account",
			long: `Withdraw credits from an account, for example after a refund. The part that is not available is owed: later grants
pay it first. The --ref is required and unique in the whole service: sending the same withdrawal again changes
nothing and shows the first one.`,
			example: "  stoa accounts withdraw acme 5 --reason refund --ref refund_1042",
			op:      "POST /accounts/{ACCOUNT}/withdrawals", show: viewWithdrawal, needs: []string{"externalRef"}, missing: "a withdrawal requires a --ref",
			fields: []field{
				{"CREDITS", "amountMicro", asCredits, ""},
				{"reason", "reason", asText, "the reason, as the ledger shows it"},
				{"ref", "externalRef", asText, "a unique `reference`"},
			},
		},
		verb{
			use: "invite ACCOUNT", short: "Invite a person to an account",
			long:    "Invite a person to a customer's account, such as its first owner or an owner who has lost access. Standard output contains only the link.",
			example: "  stoa accounts invite acme --role owner --name Ada",
			op:      "POST /accounts/{ACCOUNT}/members", fields: inviteFields, needs: []string{"role"}, missing: noRole, print: e.joinLink,
		},
		verb{
			use: "invite-new", short: "Invite a customer who has no account yet",
			long: `Invite a customer who has no account yet. The person who accepts it becomes the owner of a new account with the plan and the
credits. Standard output contains only the link.`,
			example: "  stoa accounts invite-new --account Acme --plan pro --grant 5 --name Ada",
			op:      "POST /accounts/invitations", needs: []string{"accountName"}, missing: "an invitation requires the name of the --account", print: e.joinLink,
			fields: []field{
				{"account", "accountName", asText, "the name of the account"},
				{"plan", "plan", asText, "the `id` of a plan; \"stoa plans\" lists them (default free)"},
				{"grant", "grantMicro", asCredits, "initial `credits`"},
				{"name", "name", asText, "the name of the person"},
				emailField,
			},
		},
		verb{
			use: "budgets ACCOUNT", short: "List the budgets of an account",
			long:    `List the budgets of a customer's account. "stoa budgets create --account" sets one.`,
			example: "  stoa accounts budgets acme",
			op:      "GET /accounts/{ACCOUNT}/budgets", fields: []field{searchField("scope, subject or its name, or id")}, rows: viewBudgets, names: map[string]string{"subject": "subjectName"}, none: "The account has no budgets.",
		},
		verb{
			use: "keys ACCOUNT", short: "Create a key for an account",
			long:    "Create a key for a customer, for example to replace a lost one. Its secret is shown only now: standard output contains nothing else.",
			example: "  stoa accounts keys acme --name replacement",
			op:      "POST /accounts/{ACCOUNT}/keys", fields: keyFields, needs: []string{"name"}, missing: noKeyName, print: e.secret,
		},
	)...)
	c.AddCommand(e.accountsDelete())
	return c
}
