package cli

import (
	"github.com/spf13/cobra"

	"stoa/internal/jsonx"
)

func viewAccounts() view {
	v := viewAccount().only("id", "name", "email", "plan", "suspended", "credits.availableMicro", "spentLast30DaysMicro", "lastUsedAt", "createdAt")
	return view{"Account", v.columns}
}

func viewAccount() view {
	return view{"AccountWithCredits", []column{
		{"Id", "id", plain},
		{"Name", "name", flexible},
		{"Email", "email", flexible},
		{"Plan", "plan", plain},
		{"Suspended", "suspended", plain},
		{"Available", "credits.availableMicro", credits},
		{"Held", "credits.heldMicro", credits},
		{"Granted", "credits.grantedMicro", credits},
		{"Spent", "credits.spentMicro", credits},
		{"Spent 30 days", "spentLast30DaysMicro", credits},
		{"Last used", "lastUsedAt", when},
		{"Default space", "defaultSpaceId", plain},
		{"Created", "createdAt", when},
	}}
}

func viewNewAccount() view {
	return view{"AccountWithKey", []column{
		{"Id", "id", plain},
		{"Name", "name", plain},
		{"Plan", "plan", plain},
		{"Available", "credits.availableMicro", credits},
		{"Key id", "key.id", plain},
		{"Key", "key.secret", plain},
	}}
}

func viewGrant() view {
	return view{"Grant", []column{
		{"Id", "id", plain},
		{"Account", "accountId", plain},
		{"Credits", "amountMicro", credits},
		{"Reason", "reason", plain},
		{"Reference", "externalRef", plain},
		{"Time", "createdAt", when},
	}}
}

func (e *env) accounts() *cobra.Command {
	c := group("accounts", "Make and look after customers' accounts", "Make and look after customers' accounts. It takes a key with the scope operator, as the first one has.\nACCOUNT is an id, or a name that only one has.")
	c.AddCommand(e.verbs(
		verb{
			use: "create", short: "Create an account and its first key",
			long:    "Make a customer's account with its first key, which is shown only now, and grant it credits if asked.",
			example: "  stoa accounts create --name acme --plan free --grant 5\n  stoa accounts create --name acme --jq .key.secret",
			op:      "POST /accounts", needs: []string{"name"}, missing: "whose account is it? Give it a --name",
			fields: []field{
				{"name", "name", asText, "the customer's name"},
				{"email", "email", asText, "where the customer is reached"},
				{"plan", "plan", asText, "the `id` of a plan; default: free"},
				{"grant", "grantMicro", asCredits, "`credits` to begin with"},
			},
			print: func(o *output, raw jsonx.Value) error {
				if !o.raw() {
					e.say("The account is made. Its key is shown only now.")
				}
				return o.object(viewNewAccount(), raw)
			},
		},
		verb{
			use: "list", short: "List the accounts",
			long: `List all accounts of the service, newest first, with the credits that are available, what was charged on the last
30 days of UTC and when a key was used last.`,
			example: "  stoa accounts list\n  stoa accounts list --search acme\n  stoa accounts list --below 5 --limit 0",
			op:      "GET /accounts", rows: viewAccounts(), none: "There are no such accounts.",
			fields: []field{
				{"search", "q", asText, "only those with this `text` in their name, email or id"},
				{"below", "unspentBelowMicro", asCredits, "only those that have fewer `credits`, held ones included"},
			},
		},
		verb{
			use: "get ACCOUNT", short: "Show an account", long: "Show an account with its credits.", example: "  stoa accounts get acme",
			op: "GET /accounts/{ACCOUNT}", show: viewAccount(),
		},
		verb{
			use: "plan ACCOUNT PLAN", short: "Put an account on a plan",
			long: "Put an account on a plan. Calls that run keep the one they began with.", example: "  stoa accounts plan acc_01k9zqd3m8w5x7y2c4b6n8p0ra pro",
			op: "PATCH /accounts/{ACCOUNT}", fields: []field{{"PLAN", "plan", asText, ""}}, show: viewAccount(),
		},
		verb{
			use: "suspend ACCOUNT", short: "Refuse all keys of an account",
			long: "Refuse all keys of an account, within a second, until it is resumed. Nothing is lost.", example: "  stoa accounts suspend acc_01k9zqd3m8w5x7y2c4b6n8p0ra",
			op: "PATCH /accounts/{ACCOUNT}", fixed: map[string]any{"suspended": true}, show: viewAccount(),
		},
		verb{
			use: "resume ACCOUNT", short: "Lift the suspension of an account",
			long: "Lift the suspension of an account.", example: "  stoa accounts resume acc_01k9zqd3m8w5x7y2c4b6n8p0ra",
			op: "PATCH /accounts/{ACCOUNT}", fixed: map[string]any{"suspended": false}, show: viewAccount(),
		},
		verb{
			use: "grant ACCOUNT CREDITS", short: "Grant credits to an account",
			long: `Grant credits to an account. A --ref, such as a payment's number, counts once in the whole service:
the same grant sent again changes nothing and shows the first one.`,
			example: "  stoa accounts grant acme 5 --reason top-up --ref pay_1042",
			op:      "POST /accounts/{ACCOUNT}/grants", show: viewGrant(),
			fields: []field{
				{"CREDITS", "amountMicro", asCredits, ""},
				{"reason", "reason", asText, "why, for the ledger"},
				{"ref", "externalRef", asText, "a `reference` that counts once"},
			},
		},
		verb{
			use: "keys ACCOUNT", short: "Create a key for an account",
			long:    "Create a key for a customer who lost theirs, or hand one out on their behalf. It is printed once, alone on standard output.",
			example: "  stoa accounts keys acc_01k9zqd3m8w5x7y2c4b6n8p0ra --name replacement",
			op:      "POST /accounts/{ACCOUNT}/keys", fields: keyFields(), needs: []string{"name"}, missing: noKeyName, print: e.secret,
		},
	)...)
	return c
}
