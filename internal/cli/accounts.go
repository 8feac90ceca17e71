package cli

import (
	"net/url"
	"strconv"

	"github.com/spf13/cobra"
)

func viewAccounts() view {
	return view{"Account", []column{
		{"Id", "id", plain},
		{"Name", "name", flexible},
		{"Email", "email", flexible},
		{"Plan", "plan", plain},
		{"Suspended", "suspended", plain},
		{"Available", "credits.availableMicro", credits},
		{"Spent 30 days", "spentLast30DaysMicro", credits},
		{"Last used", "lastUsedAt", when},
		{"Created", "createdAt", when},
	}}
}

func viewAccount() view {
	return view{"AccountWithCredits", []column{
		{"Id", "id", plain},
		{"Name", "name", plain},
		{"Email", "email", plain},
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
	c.AddCommand(
		e.accountsCreate(),
		e.accountsList(),
		e.accountCommand("get ACCOUNT", "Show an account", "Show an account with its credits.", "  stoa accounts get acme", nil),
		e.accountsPlan(),
		e.accountCommand("suspend ACCOUNT", "Refuse all keys of an account",
			"Refuse all keys of an account, within a second, until it is resumed. Nothing is lost.",
			"  stoa accounts suspend acc_01k9zqd3m8w5x7y2c4b6n8p0ra", map[string]any{"suspended": true}),
		e.accountCommand("resume ACCOUNT", "Lift the suspension of an account", "Lift the suspension of an account.",
			"  stoa accounts resume acc_01k9zqd3m8w5x7y2c4b6n8p0ra", map[string]any{"suspended": false}),
		e.accountsGrant(), e.accountsKeys(),
	)
	return c
}

func (e *env) accountsList() *cobra.Command {
	c := &cobra.Command{
		Use: "list", Short: "List the accounts", Args: noArgs,
		Long: `List all accounts of the service, newest first, with the credits that are available, what was charged on the last
30 days of UTC and when a key was used last.`,
		Example: "  stoa accounts list\n  stoa accounts list --search acme\n  stoa accounts list --below 5 --limit 0",
	}
	search := c.Flags().String("search", "", "only those with this `text` in their name, email or id")
	below := c.Flags().String("below", "", "only those that have fewer `credits`, held ones included")
	return e.listCommand(c, viewAccounts(), "There are no such accounts.", func(*cobra.Command, []string) (string, url.Values, error) {
		query := url.Values{}
		if *search != "" {
			query.Set("q", *search)
		}
		if *below != "" {
			n, err := parseCredits(*below)
			if err != nil {
				return "", nil, err
			}
			query.Set("unspentBelowMicro", strconv.FormatInt(int64(n), 10))
		}
		return "/accounts", query, nil
	})
}

func accountPath(id string) string { return "/accounts/" + url.PathEscape(id) }

// accountCommand returns a command that reads an account (body nil) or changes
// it with a constant body.
func (e *env) accountCommand(use, short, long, example string, body map[string]any) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, Long: long, Example: example, Args: takes("ACCOUNT")}
	o := e.output(c)
	c.RunE = func(c *cobra.Command, args []string) error { return e.changeAccount(c, o, args[0], body) }
	return c
}

func (e *env) changeAccount(c *cobra.Command, o *output, id string, body map[string]any) error {
	call, err := e.ready(o)
	if err != nil {
		return err
	}
	if id, err = accountCollection().find(c.Context(), call, id); err != nil {
		return err
	}
	method, what := "GET", any(nil)
	if body != nil {
		method, what = "PATCH", body
	}
	raw, err := call.JSON(c.Context(), method, accountPath(id), nil, what, nil)
	if err != nil {
		return err
	}
	return o.object(viewAccount(), raw)
}

func (e *env) accountsPlan() *cobra.Command {
	c := &cobra.Command{
		Use: "plan ACCOUNT PLAN", Short: "Put an account on a plan", Args: takes("ACCOUNT", "PLAN"),
		Long:    "Put an account on a plan. Calls that run keep the one they began with.",
		Example: "  stoa accounts plan acc_01k9zqd3m8w5x7y2c4b6n8p0ra pro",
	}
	o := e.output(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		return e.changeAccount(c, o, args[0], map[string]any{"plan": args[1]})
	}
	return c
}

func (e *env) accountsCreate() *cobra.Command {
	c := &cobra.Command{
		Use: "create", Short: "Create an account and its first key", Args: noArgs,
		Long:    "Make a customer's account with its first key, which is shown only now, and grant it credits if asked.",
		Example: "  stoa accounts create --name acme --plan free --grant 5\n  stoa accounts create --name acme --jq .key.secret",
	}
	o := e.output(c)
	f := c.Flags()
	name, email := f.String("name", "", "the customer's name"), f.String("email", "", "where the customer is reached")
	plan, grant := f.String("plan", "", "the `id` of a plan; default: free"), f.String("grant", "", "`credits` to begin with")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if *name == "" {
			return usagef("whose account is it? Give it a --name")
		}
		body := map[string]any{"name": *name}
		set(body, c, "email", "email", *email)
		set(body, c, "plan", "plan", *plan)
		if *grant != "" {
			n, err := parseCredits(*grant)
			if err != nil {
				return err
			}
			body["grantMicro"] = int64(n)
		}
		call, err := e.ready(o)
		if err != nil {
			return err
		}
		raw, err := call.JSON(c.Context(), "POST", "/accounts", nil, body, nil)
		if err != nil {
			return err
		}
		if !o.raw() {
			e.say("The account is made. Its key is shown only now.")
		}
		return o.object(viewNewAccount(), raw)
	}
	return c
}

func (e *env) accountsGrant() *cobra.Command {
	c := &cobra.Command{
		Use: "grant ACCOUNT CREDITS", Short: "Grant credits to an account", Args: takes("ACCOUNT", "CREDITS"),
		Long: `Grant credits to an account. A --ref, such as a payment's number, counts once in the whole service:
the same grant sent again changes nothing and shows the first one.`,
		Example: "  stoa accounts grant acme 5 --reason top-up --ref pay_1042",
	}
	o := e.output(c)
	reason, ref := c.Flags().String("reason", "", "why, for the ledger"), c.Flags().String("ref", "", "a `reference` that counts once")
	c.RunE = func(c *cobra.Command, args []string) error {
		n, err := parseCredits(args[1])
		if err != nil {
			return err
		}
		body := map[string]any{"amountMicro": int64(n)}
		set(body, c, "reason", "reason", *reason)
		set(body, c, "ref", "externalRef", *ref)
		call, err := e.ready(o)
		if err != nil {
			return err
		}
		id, err := accountCollection().find(c.Context(), call, args[0])
		if err != nil {
			return err
		}
		raw, err := call.JSON(c.Context(), "POST", accountPath(id)+"/grants", nil, body, nil)
		if err != nil {
			return err
		}
		return o.object(viewGrant(), raw)
	}
	return c
}

func (e *env) accountsKeys() *cobra.Command {
	c := &cobra.Command{
		Use: "keys ACCOUNT", Short: "Create a key for an account", Args: takes("ACCOUNT"),
		Long:    "Create a key for a customer who lost theirs, or hand one out on their behalf. It is printed once, alone on standard output.",
		Example: "  stoa accounts keys acc_01k9zqd3m8w5x7y2c4b6n8p0ra --name replacement",
	}
	k := newKeyFlags(c)
	o := e.output(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		if *k.name == "" {
			return noKeyName()
		}
		call, err := e.ready(o)
		if err != nil {
			return err
		}
		id, err := accountCollection().find(c.Context(), call, args[0])
		if err != nil {
			return err
		}
		return e.makeKey(c, o, accountPath(id)+"/keys", k)
	}
	return c
}
