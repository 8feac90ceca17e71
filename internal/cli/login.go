package cli

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"stoa/internal/auth"
	"stoa/internal/client"
	"stoa/internal/contract"
	"stoa/internal/jsonx"
)

// An authError is a key that is malformed or refused; the exit code is 4.
type authError struct{ error }

func (a authError) Unwrap() error { return a.error }

func (e *env) login() *cobra.Command {
	c := &cobra.Command{
		Use: "login [URL]", Short: "Remember a service and a key for it", Args: takes("[URL]"),
		Long: `Find the service, ask for a key, try it, and remember it together with the service's address: URL, or
STOA_BASE_URL, or the one remembered before, or ` + defaultBaseURL + `.

On a terminal the key is asked for and not shown; otherwise it is the first line of standard input.
It is kept in the system's keyring where there is one, and otherwise in a file that only you can
read. STOA_BASE_URL and STOA_API_KEY come before what is remembered. With --profile it is remembered under
a name, beside others; see "stoa profiles".`,
		Example: "  stoa login\n  stoa login --profile work https://stoa.example\n  stoa login https://stoa.example\n  stoa login --store file < key.txt",
	}
	base := c.Flags().String("base-url", "", "`address` of the service, as URL")
	store := c.Flags().String("store", "auto", "where the key is kept: auto, keyring or file")
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) > 0 && *base != "" {
			return usagef("the address is given twice, as %q and with --base-url", args[0])
		}
		switch *store {
		case "auto", inKeyring, inFile:
		default:
			return usagef("--store is auto, keyring or file, not %q", *store)
		}
		name, err := e.profileName()
		if err != nil {
			return err
		}
		known, _ := e.readProfile(name) // a damaged one is replaced
		at := address(cmp.Or(strings.Join(args, ""), *base))
		if at == "" {
			at = e.serviceURL(known)
		}
		all, err := e.profiles()
		if err != nil {
			return err
		}
		if err := e.isService(c.Context(), at); err != nil {
			return err
		}
		key, err := e.readKey(c.Context(), at)
		if err != nil {
			return err
		}
		call, err := e.newClient(at, key)
		if err != nil {
			return err
		}
		if u, err := url.Parse(call.BaseURL()); err == nil && u.Scheme == "http" && !loopback(u.Hostname()) {
			e.say("warning: %s is not encrypted; the key and all that is said can be read on the way", call.BaseURL())
		}
		user, err := call.Me(c.Context())
		if client.CodeOf(err) == "Unauthorized" && !auth.CheckDigits(key) {
			return authError{errors.New("the service does not know this key, and its check digits are wrong; copy it again, whole")}
		}
		if err != nil {
			return err
		}
		p, err := e.saveProfile(profile{
			BaseURL: call.BaseURL(), AccountID: user.ID, AccountName: user.Name, KeyHint: user.Key.Hint, name: name,
		}, key, *store)
		if err != nil {
			return err
		}
		kept := "the system's keyring"
		if p.Store == inFile {
			if kept, err = e.profilePath(name); err != nil {
				return err
			}
		}
		e.say("Logged in to %s as %s (%s). The key %s is kept in %s.", p.BaseURL, user.Name, user.ID, user.Key.Hint, kept)
		if len(all) == 0 { // the first one is the one in use
			if err := e.useProfile(name); err != nil {
				return err
			}
		} else if e.profileFlag != "" {
			e.say("--profile %s asks it; \"stoa profiles use %s\" makes it the one in use.", name, name)
		}
		if e.getenv("STOA_API_KEY") != "" {
			e.say("STOA_API_KEY is set and comes before the key that was just remembered.")
		}
		return nil
	}
	return c
}

// isService checks that a service answers at an address, before a key is asked
// for and sent there.
func (e *env) isService(ctx context.Context, at string) error {
	call, err := e.newClient(at, "")
	if err != nil {
		return err
	}
	var meta struct {
		APIVersion string `json:"apiVersion"`
	}
	_, err = call.JSON(ctx, "GET", "/meta", nil, nil, &meta)
	if refused, ok := errors.AsType[*client.Error](err); ok && refused.Code == "" && refused.Status != http.StatusBadRequest || err == nil && meta.APIVersion == "" {
		return fmt.Errorf("%s is not a Stoa service: GET /api/v1/meta does not answer as one does", call.BaseURL())
	}
	return err
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// readKey reads a key, hidden on a terminal, and checks its form.
func (e *env) readKey(ctx context.Context, at string) (string, error) {
	var key string
	if fd, ok := terminal(e.in); ok && isTerminal(e.err) {
		fmt.Fprintf(e.err, "Key for %s (not shown): ", clean(at))
		text, err := readHidden(ctx, fd)
		fmt.Fprintln(e.err)
		if err != nil {
			return "", fmt.Errorf("read the key: %w", err)
		}
		key = text
	} else {
		line, err := bufio.NewReader(io.LimitReader(e.stdin, 4096)).ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return "", fmt.Errorf("read the key: %w", err)
		}
		key = line
	}
	key = strings.TrimSpace(key)
	switch {
	case key == "":
		return "", usagef("no key was given; it begins with sk_, and \"stoa serve\" prints the first one")
	case !strings.HasPrefix(key, "sk_") || strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }):
		return "", authError{errors.New("this is no key of a Stoa service: one begins with sk_ and has no spaces")}
	}
	if !auth.CheckDigits(key) { // an operator may have chosen a key of another form
		e.say("warning: the check digits of this key are wrong; if it was not chosen by hand, it was mistyped or cut")
	}
	return key, nil
}

func (e *env) logout() *cobra.Command {
	return &cobra.Command{
		Use: "logout", Short: "Forget the service and its key", Args: noArgs,
		Long:    "Forget what login remembered. The key goes on working elsewhere; \"stoa keys revoke\" ends it.",
		Example: "  stoa logout",
		RunE: func(*cobra.Command, []string) error {
			name, err := e.profileName()
			if err != nil {
				return err
			}
			return e.forget(name)
		},
	}
}

func viewUser() view {
	return view{"User", []column{
		{"Account", "name", plain},
		{"Id", "id", plain},
		{"Email", "email", plain},
		{"Plan", "plan.name", plain},
		{"Gated models", "plan.gatedModels", plain},
		{"Available credits", "credits.availableMicro", credits},
		{"Held credits", "credits.heldMicro", credits},
		{"Default space", "defaultSpaceId", plain},
		{"Key", "key.name", plain},
		{"Key id", "key.id", plain},
		{"Key hint", "key.hint", plain},
		{"Scopes", "key.scopes", plain},
		{"Key expires", "key.expiresAt", when},
	}}
}

func (e *env) whoami() *cobra.Command {
	c := &cobra.Command{
		Use: "whoami", Short: "Show whose key this is", Args: noArgs,
		Long:    "Show the account behind the key, its plan and credits, what the key may do, and which service is asked.",
		Example: "  stoa whoami\n  stoa whoami --jq .credits.availableMicro",
	}
	o := e.output(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		call, err := e.ready(o)
		if err != nil {
			return err
		}
		raw, err := call.JSON(c.Context(), "GET", "/users/me", nil, nil, nil)
		if err != nil {
			return err
		}
		if !o.raw() {
			name, err := e.profileName()
			if err != nil || name == defaultProfile {
				name = ""
			}
			e.hint("%s", strings.TrimSpace(call.BaseURL()+" "+name))
		}
		return o.object(viewUser(), raw)
	}
	return c
}

// ready checks the output flags and returns a client.
func (e *env) ready(o *output) (*client.Client, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	return e.client()
}

func viewModels() view {
	return view{"Model", []column{
		{"Model", "id", plain},
		{"Aliases", "aliases", flexible},
		{"Gated", "gated", plain},
		{"Available", "available", plain},
		{"In / million", "price.inputMicroPerMillion", credits},
		{"Out / million", "price.outputMicroPerMillion", credits},
	}}
}

func (e *env) models() *cobra.Command {
	c := &cobra.Command{
		Use: "models", Short: "List the models and their prices", Args: noArgs,
		Long: `List the models of the service: other names for them, whether a plan has to include them, whether a
provider serves them, and the credits that a million tokens cost. It needs no key.`,
		Example: "  stoa models\n  stoa models --jq '.[] | select(.available) | .id'",
	}
	return e.metaCommand(c, viewModels(), "models", "The service knows no model.")
}

func viewPlans() view {
	return view{"PlanDetails", []column{
		{"Plan", "id", plain},
		{"Name", "name", flexible},
		{"Gated models", "gatedModels", plain},
		{"Requests / min / key", "requestsPerMinute", count},
		{"/ account", "requestsPerMinutePerAccount", count},
		{"At once / key", "concurrentPerKey", count},
		{"/ account", "concurrentPerAccount", count},
		{"Sessions", "activeSessions", count},
	}}
}

func (e *env) plans() *cobra.Command {
	c := &cobra.Command{
		Use: "plans", Short: "List the plans and their limits", Args: noArgs,
		Long: `List the plans of the service: whether they include gated models, how many requests a minute and calls
at once a key and an account may make, and how many sessions run at once. Nothing, or a dash, is no limit. It needs no key.`,
		Example: "  stoa plans\n  stoa plans --jq '.[].id'",
	}
	return e.metaCommand(c, viewPlans(), "plans", "The service has no plan.")
}

// metaCommand returns c completed to print the rows of a list in what the service says
// of itself; none is the hint for an empty one.
func (e *env) metaCommand(c *cobra.Command, v view, member, none string) *cobra.Command {
	o := e.output(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		if err := o.check(); err != nil {
			return err
		}
		call, err := e.publicClient()
		if err != nil {
			return err
		}
		var meta map[string]jsonx.Value
		if _, err := call.JSON(c.Context(), "GET", "/meta", nil, nil, &meta); err != nil {
			return err
		}
		var rows []jsonx.Value
		var first string
		if err := errors.Join(jsonx.Unmarshal(meta[member], &rows), jsonx.Unmarshal(meta["defaultModel"], &first)); err != nil {
			return err
		}
		if member == "models" {
			defer e.hint("auto picks %s.", first)
		}
		return o.list(v, sequence(rows), 0, none)
	}
	return c
}

// sequence returns an iterator over rows that are already in memory.
func sequence(rows []jsonx.Value) func(func(jsonx.Value, error) bool) {
	return func(yield func(jsonx.Value, error) bool) {
		for _, row := range rows {
			if !yield(row, nil) {
				return
			}
		}
	}
}

// modelCall is a model call with the members that flags set.
type modelCall struct {
	model, instructions, effort, user string
	maxTokens                         int64
	temperature                       float64
	strict                            bool
	c                                 *cobra.Command
}

// modelFlags adds the flags of a model call to c.
func modelFlags(c *cobra.Command) *modelCall {
	m := &modelCall{c: c}
	f := c.Flags()
	f.StringVarP(&m.model, "model", "m", "auto", "`model` to ask; \"stoa models\" lists them")
	f.StringVarP(&m.instructions, "instructions", "i", "", "`text` that tells the model how to answer")
	f.Int64Var(&m.maxTokens, "max-output-tokens", 0, "end the reply after so many `tokens`")
	f.Float64Var(&m.temperature, "temperature", 1, "0 to 2: how free the reply is")
	f.StringVar(&m.effort, "effort", "", "how much to think: none, minimal, low, medium, high, xhigh, max")
	f.BoolVar(&m.strict, "strict", false, "fail where the plan does not include the model, in place of a reply of another")
	f.StringVar(&m.user, "user", "", "`id` of your end user, for the receipts")
	return m
}

// call returns the request that the flags describe. Flags that were not given
// are left out, so that the service's defaults hold.
func (m *modelCall) call(input any) client.Call {
	call := client.Call{CreateResponse: contract.CreateResponse{
		Model: m.model, Instructions: m.instructions, MaxOutputTokens: m.maxTokens, User: m.user, StrictModel: m.strict, Input: input,
	}}
	if m.c.Flags().Changed("temperature") {
		call.Temperature = &m.temperature
	}
	if m.effort != "" {
		call.Reasoning = &contract.Reasoning{Effort: &m.effort}
	}
	return call
}
