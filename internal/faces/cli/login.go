package cli

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"stoa/internal/base/auth"
	"stoa/internal/base/client"
	"stoa/internal/base/contract"
	"stoa/internal/base/jsonx"
	"stoa/internal/base/stoa"
)

// An authError reports a malformed or rejected key; the exit code is 4.
type authError struct{ error }

func (a authError) Unwrap() error { return a.error }

func (e *env) login() *cobra.Command {
	c := command("login [URL]", "Log in to a service with a key",
		`Prompt for a key, verify it with the service, and store it together with the service's address: URL, or
STOA_BASE_URL, or the one stored before, or `+defaultBaseURL+`.

On a terminal the key is prompted for without echo; otherwise it is the first line of standard input. It is stored
in the system's keyring if there is one, and otherwise in a file that only you can read. STOA_BASE_URL and
STOA_API_KEY take precedence over the stored login. With --profile the login is stored under a name; see "stoa
profiles".`,
		"  stoa login\n  stoa login --profile work https://stoa.example\n  stoa login https://stoa.example\n  stoa login --store file < key.txt")
	base := c.Flags().String("base-url", "", "`address` of the service, instead of the argument URL")
	store := c.Flags().String("store", "auto", "the `storage` of the key: auto, keyring or file")
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) > 0 && *base != "" {
			return usagef("the address is given twice, as %q and with --base-url", args[0])
		}
		switch *store {
		case "auto", inKeyring, inFile:
		default:
			return usagef("--store must be auto, keyring or file, not %q", *store)
		}
		name, err := e.profileName()
		if err != nil {
			return err
		}
		known, _ := e.readProfile(name) // ignored, because a damaged one is replaced
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
			e.say("warning: the connection to %s is not encrypted; others can read the key and all data in transit", call.BaseURL())
		}
		user, err := call.Me(c.Context())
		if client.CodeOf(err) == "Unauthorized" && !auth.CheckDigits(key) {
			return authError{errors.New("the service does not recognize this key, and its check digits are wrong; copy it again completely")}
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
		e.say("Logged in to %s as %s (%s). The key %s is stored in %s.", p.BaseURL, user.Name, user.ID, user.Key.Hint, kept)
		if len(all) == 0 { // because the first one becomes the current one
			if err := e.useProfile(name); err != nil {
				return err
			}
		} else if e.profileFlag != "" {
			e.say("Use it with --profile %s, or make it the current one with \"stoa profiles use %s\".", name, name)
		}
		if e.getenv("STOA_API_KEY") != "" {
			e.say("STOA_API_KEY is set and takes precedence over the stored key.")
		}
		return nil
	}
	return c
}

// isService checks that a Stoa service answers at an address, because a key must not be sent to another program.
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
		return fmt.Errorf("%s is not a Stoa service: the reply to GET /api/v1/meta is not that of one", call.BaseURL())
	}
	return err
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

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
		return "", usagef("no key was given; keys begin with sk_, and \"stoa serve\" prints the first one")
	case !strings.HasPrefix(key, "sk_") || strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }):
		return "", authError{errors.New("this is not a Stoa key: keys begin with sk_ and contain no spaces")}
	}
	if !auth.CheckDigits(key) { // because an operator may have chosen a key of another format
		e.say("warning: the check digits of this key are wrong; unless it was chosen by hand, it was mistyped or truncated")
	}
	return key, nil
}

func (e *env) logout() *cobra.Command {
	return &cobra.Command{
		Use: "logout", Short: "Log out: delete the stored key", Args: noArgs,
		Long:    "Delete the stored login. The key keeps working elsewhere; \"stoa keys revoke\" revokes it.",
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

var viewUser = view{"User", []column{
	{"Account", "name", plain},
	{"Id", "id", ident},
	{"Email", "email", plain},
	{"Plan", "plan.name", plain},
	{"Gated models", "plan.gatedModels", plain},
	{"Available credits", "credits.availableMicro", credits},
	{"Held credits", "credits.heldMicro", credits},
	{"Default space", "defaultSpaceId", ident},
	{"Key", "key.name", plain},
	{"Key id", "key.id", plain},
	{"Key hint", "key.hint", plain},
	{"Scopes", "key.scopes", plain},
	{"Key expires", "key.expiresAt", when},
}}

func (e *env) whoami() *cobra.Command {
	c := command("whoami", "Show the owner of the key",
		"Show the account of the key, its plan and credits, the scopes of the key, and the service.",
		"  stoa whoami\n  stoa whoami --jq .credits.availableMicro")
	o := e.output(c)
	return e.calling(c, o, func(ctx context.Context, call *client.Client, _ []string) error {
		raw, err := call.JSON(ctx, "GET", "/users/me", nil, nil, nil)
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
		return o.object(viewUser, raw)
	})
}

func (e *env) ready(o *output) (*client.Client, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	return e.client()
}

// calling completes c with do, which receives a client. o has the output flags of c, and is
// nil if there are none.
func (e *env) calling(c *cobra.Command, o *output, do func(ctx context.Context, call *client.Client, args []string) error) *cobra.Command {
	if o == nil {
		o = &output{e: e}
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		call, err := e.ready(o)
		if err != nil {
			return err
		}
		return do(c.Context(), call, args)
	}
	return c
}

// rulesText returns the rules of a price: "× 2 / × 1.5 above 200000 tokens; × 2 from 09:00 to 12:00 Asia/Shanghai".
func rulesText(price any) string {
	var of struct {
		Above *stoa.LongInput
		Hours []stoa.PriceHours
	}
	raw, err := json.Marshal(price)
	if err != nil || json.Unmarshal(raw, &of) != nil {
		return ""
	}
	var list []string
	if a := of.Above; a != nil {
		list = append(list, fmt.Sprintf("× %g / × %g above %d tokens", a.Input, a.Output, a.Tokens))
	}
	for _, h := range of.Hours {
		days := ""
		if len(h.Days) > 0 {
			days = strings.Join(h.Days, ", ") + " "
		}
		list = append(list, fmt.Sprintf("× %g from %s to %s %s%s", h.Factor, h.From, h.To, days, h.Zone))
	}
	return clean(strings.Join(list, "; "))
}

var viewModels = view{"Model", []column{
	{"Model", "id", objectName},
	{"Aliases", "aliases", flexible},
	{"In / million", "price.inputMicroPerMillion", credits},
	{"Out / million", "price.outputMicroPerMillion", credits},
	{"Gated", "gated", plain},
	{"Available", "available", plain},
	{"Rules", "price", priceRules},
}}

func (e *env) models() *cobra.Command {
	c := command("models", "List the models and their prices",
		`List the models of the service: their aliases, whether a plan must include them, whether a provider serves
them, and their prices in credits per million tokens. Requires no key.`,
		"  stoa models\n  stoa models --jq '.[] | select(.available) | .id'")
	return e.metaCommand(c, viewModels, "models", "The service has no models.")
}

var viewPlans = view{"PlanDetails", []column{
	{"Plan", "id", objectName},
	{"Name", "name", label},
	{"Gated models", "gatedModels", plain},
	{"Requests / min / key", "requestsPerMinute", count},
	{"/ account", "requestsPerMinutePerAccount", count},
	{"Concurrent / key", "concurrentPerKey", count},
	{"/ account", "concurrentPerAccount", count},
	{"Sessions", "activeSessions", count},
}}

func (e *env) plans() *cobra.Command {
	c := command("plans", "List the plans and their limits",
		`List the plans of the service: whether they include gated models, and the limits on requests per minute and
concurrent calls of a key and an account, and on running sessions. An empty cell or a dash means no limit.
Requires no key.`,
		"  stoa plans\n  stoa plans --jq '.[].id'")
	return e.metaCommand(c, viewPlans, "plans", "The service has no plans.")
}

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
			defer e.hint("auto selects %s.", first)
		}
		return o.list(v, sequence(rows), 0, none)
	}
	return c
}

func sequence(rows []jsonx.Value) func(func(jsonx.Value, error) bool) {
	return func(yield func(jsonx.Value, error) bool) {
		for _, row := range rows {
			if !yield(row, nil) {
				return
			}
		}
	}
}

type modelCall struct {
	model, instructions, effort, user string
	maxTokens                         int64
	temperature                       float64
	strict                            bool
	c                                 *cobra.Command
}

func modelFlags(c *cobra.Command) *modelCall {
	m := &modelCall{c: c}
	f := c.Flags()
	f.StringVarP(&m.model, "model", "m", "auto", "the `model`; \"stoa models\" lists them")
	f.StringVarP(&m.instructions, "instructions", "i", "", "the system prompt, as `text`")
	f.Int64Var(&m.maxTokens, "max-output-tokens", 0, "the maximum length of the reply, in `tokens`")
	f.Float64Var(&m.temperature, "temperature", 1, "the sampling temperature, 0 to 2")
	f.StringVar(&m.effort, "effort", "", "the reasoning `effort`: none, minimal, low, medium, high, xhigh or max (default: the model's)")
	f.BoolVar(&m.strict, "strict", false, "fail if the plan does not include the model, instead of using another one")
	f.StringVar(&m.user, "user", "", "`id` of your end user, for the receipts")
	return m
}

// call returns the request that the flags describe. It omits unset flags, so that the service's defaults apply.
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
