package cli

import (
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"stoa/internal/jsonx"
)

func viewHooks() view {
	return view{"Webhook", []column{
		{"Id", "id", plain},
		{"Address", "url", flexible},
		{"Events", "events", flexible},
		{"Status", "status", state},
		{"Made", "createdAt", when},
	}}
}

func viewHook() view {
	return view{"Webhook", []column{
		{"Id", "id", plain},
		{"Address", "url", plain},
		{"Events", "events", plain},
		{"Spaces", "spaceIds", plain},
		{"Description", "description", plain},
		{"Credits are low below", "creditsLowMicro", credits},
		{"Status", "status", state},
		{"Disabled by", "disabledReason", plain},
		{"Failing since", "failingSince", when},
		{"Given up since", "failedDeliveries", count},
		{"Last success", "lastSuccessAt", when},
		{"Made", "createdAt", when},
	}}
}

func viewDeliveries() view {
	return view{"DeliverySummary", []column{
		{"Id", "id", plain},
		{"Event", "type", plain},
		{"Status", "status", state},
		{"Attempts", "attemptCount", count},
		{"Answer", "lastStatus", plain},
		{"Error", "lastError", plain},
		{"Next", "nextAttemptAt", when},
		{"Happened", "createdAt", when},
	}}
}

func viewDelivery() view {
	return view{"Delivery", []column{
		{"Id", "id", plain},
		{"Webhook", "webhookId", plain},
		{"Event", "type", plain},
		{"Event id", "eventId", plain},
		{"Status", "status", state},
		{"Attempts", "attemptCount", count},
		{"Answer", "lastStatus", plain},
		{"Error", "lastError", plain},
		{"Next", "nextAttemptAt", when},
		{"Happened", "createdAt", when},
		{"Finished", "finishedAt", when},
		{"Body", "body", plain},
	}}
}

const hooksPath = "/webhooks"

func hookPath(id string) string { return hooksPath + "/" + url.PathEscape(id) }

func (e *env) webhooks() *cobra.Command {
	c := group("webhooks", "Have events sent to an address", "Have what happens in the account sent to an address: sessions that end, runs of tasks, credits that run low. WEBHOOK is an id (whk_…).")
	deliveries := &cobra.Command{
		Use: "deliveries WEBHOOK", Short: "List what was sent", Args: takes("WEBHOOK"),
		Long:    "List the deliveries of a webhook, newest first. --status is pending, delivered, failed or held.",
		Example: "  stoa webhooks deliveries whk_01k9zqd3m8w5x7y2c4b6n8p0ra --status failed",
	}
	status, kind := deliveries.Flags().String("status", "", "only those with this `status`"), deliveries.Flags().String("type", "", "only this type of `event`")
	c.AddCommand(
		e.hooksAdd(),
		e.listCommand(&cobra.Command{
			Use: "list", Short: "List the webhooks", Args: noArgs,
			Long: "List the webhooks of the account, newest first.", Example: "  stoa webhooks list",
		}, viewHooks(), "There are no webhooks. Add one with \"stoa webhooks add URL\".", constantPath(hooksPath)),
		e.showOf(&cobra.Command{
			Use: "get WEBHOOK", Short: "Show a webhook", Args: takes("WEBHOOK"),
			Long: "Show a webhook and how it fares. Its secret is shown only when it is made.", Example: "  stoa webhooks get whk_01k9zqd3m8w5x7y2c4b6n8p0ra",
		}, viewHook(), func(args []string) string { return hookPath(args[0]) }),
		e.hooksUpdate(), e.hooksRemove(), e.hooksRotate(),
		e.hookVerb("enable", "Enable a webhook", `Enable a webhook that was disabled. What happens from now on is sent; what was held meanwhile is sent by
"stoa webhooks recover".`, "/enable"),
		e.hooksTest(),
		e.listCommand(deliveries, viewDeliveries(), "There are no such deliveries.", func(_ *cobra.Command, args []string) (string, url.Values, error) {
			query := url.Values{}
			for name, value := range map[string]string{"status": *status, "type": *kind} {
				if value != "" {
					query.Set(name, value)
				}
			}
			return hookPath(args[0]) + "/deliveries", query, nil
		}),
		e.showOf(&cobra.Command{
			Use: "delivery WEBHOOK DELIVERY", Short: "Show a delivery", Args: takes("WEBHOOK", "DELIVERY"),
			Long: "Show a delivery with the event as it is sent. With --json its attempts are there too.", Example: "  stoa webhooks delivery whk_01k9zqd3m8w5x7y2c4b6n8p0ra dlv_01k9zqd3m8w5x7y2c4b6n8p0rb --json",
		}, viewDelivery(), func(args []string) string { return hookPath(args[0]) + "/deliveries/" + url.PathEscape(args[1]) }),
		e.hooksRedeliver(), e.hooksRecover(), e.hooksListen(), e.hooksVerify(),
	)
	return c
}

// showOf returns c completed to read the object that its arguments name.
func (e *env) showOf(c *cobra.Command, v view, path func(args []string) string) *cobra.Command {
	o := e.output(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		raw, err := e.asked(c, o, http.MethodGet, path(args), nil)
		if err != nil {
			return err
		}
		return o.object(v, raw)
	}
	return c
}

// hookFlags adds the settings of a webhook. What it returns puts those that were given
// into a body.
func hookFlags(c *cobra.Command) func(body map[string]any) error {
	f := c.Flags()
	events := f.StringSlice("event", nil, "a type of `event`, such as session.completed; may be given again; '*' is all")
	spaces := f.StringSlice("space", nil, "only events of this space, by its id; may be given again")
	description := f.String("description", "", "a `text` of yours")
	low := f.String("credits-low", "", "below how many `credits` credits.low is sent")
	return func(body map[string]any) error {
		set(body, c, "event", "events", *events)
		set(body, c, "space", "spaceIds", *spaces)
		set(body, c, "description", "description", *description)
		if *low == "" {
			return nil
		}
		n, err := parseCredits(*low)
		body["creditsLowMicro"] = int64(n)
		return err
	}
}

func (e *env) hooksAdd() *cobra.Command {
	c := &cobra.Command{
		Use: "add URL", Short: "Make a webhook", SuggestFor: []string{"create", "new"}, Args: takes("URL"),
		Long: `Make a webhook and print its secret, alone on standard output: it is shown only now. Every request is
signed with it. Without --event all events are sent.`,
		Example: "  stoa webhooks add https://example.com/hooks --event session.completed --event session.failed\n  SECRET=$(stoa webhooks add https://example.com/hooks)",
	}
	settings := hookFlags(c)
	o := e.output(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		body := map[string]any{"url": args[0], "events": []string{"*"}}
		if err := settings(body); err != nil {
			return err
		}
		return e.hookSecret(c, o, hooksPath, body)
	}
	return c
}

// asked makes a request and returns the reply.
func (e *env) asked(c *cobra.Command, o *output, method, path string, body any) ([]byte, error) {
	call, err := e.ready(o)
	if err != nil {
		return nil, err
	}
	return call.JSON(c.Context(), method, path, nil, body, nil)
}

// hookSecret asks for a secret and prints it: alone on standard output, the rest on
// standard error.
func (e *env) hookSecret(c *cobra.Command, o *output, path string, body map[string]any) error {
	raw, err := e.asked(c, o, http.MethodPost, path, body)
	if err != nil {
		return err
	}
	if o.raw() {
		return o.printJSON(raw)
	}
	var w newHook
	if err := jsonx.Unmarshal(raw, &w); err != nil {
		return fmt.Errorf("the reply is not what the contract says: %w", err)
	}
	e.say("The secret of webhook %s; it is shown only now:", w.ID)
	_, err = fmt.Fprintln(e.out, w.Secret)
	return err
}

// newHook is a webhook with its secret.
type newHook struct {
	ID     string `json:"id"`
	Secret string `json:"secret"`
}

func (e *env) hooksUpdate() *cobra.Command {
	c := &cobra.Command{
		Use: "update WEBHOOK", Short: "Change or disable a webhook", Args: takes("WEBHOOK"),
		Long:    "Change a webhook. --event and --space replace all that there were; an empty value sets the default.",
		Example: "  stoa webhooks update whk_01k9zqd3m8w5x7y2c4b6n8p0ra --url https://example.com/new\n  stoa webhooks update whk_01k9zqd3m8w5x7y2c4b6n8p0ra --enabled=false",
	}
	settings := hookFlags(c)
	address, enabled := c.Flags().String("url", "", "the `address`"), c.Flags().Bool("enabled", true, "whether events are sent; otherwise they are held")
	o := e.output(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		body := map[string]any{}
		if err := settings(body); err != nil {
			return err
		}
		set(body, c, "url", "url", *address)
		set(body, c, "enabled", "enabled", *enabled)
		if len(body) == 0 {
			return usagef("nothing to change: name a setting")
		}
		return e.changeHook(c, o, http.MethodPatch, hookPath(args[0]), body)
	}
	return c
}

// changeHook sends a change of a webhook and prints what it is then.
func (e *env) changeHook(c *cobra.Command, o *output, method, path string, body any) error {
	raw, err := e.asked(c, o, method, path, body)
	if err != nil {
		return err
	}
	return o.object(viewHook(), raw)
}

// hookVerb returns a command that is a POST without a body.
func (e *env) hookVerb(name, short, long, path string) *cobra.Command {
	c := &cobra.Command{Use: name + " WEBHOOK", Short: short, Args: takes("WEBHOOK"), Long: long, Example: "  stoa webhooks " + name + " whk_01k9zqd3m8w5x7y2c4b6n8p0ra"}
	o := e.output(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		return e.changeHook(c, o, http.MethodPost, hookPath(args[0])+path, nil)
	}
	return c
}

func (e *env) hooksRemove() *cobra.Command {
	c := &cobra.Command{
		Use: "remove WEBHOOK...", Short: "Delete webhooks", SuggestFor: []string{"delete", "rm"}, Args: takes("WEBHOOK..."),
		Long: "Delete webhooks with their deliveries.", Example: "  stoa webhooks remove whk_01k9zqd3m8w5x7y2c4b6n8p0ra --yes",
	}
	yes := c.Flags().BoolP("yes", "y", false, "do not ask")
	c.RunE = func(c *cobra.Command, args []string) error {
		call, err := e.client()
		if err != nil {
			return err
		}
		if err := e.confirm(*yes, "Delete %s, and what was not delivered?", list(args, "the webhook", "webhooks")); err != nil {
			return err
		}
		for _, id := range args {
			if _, err := call.JSON(c.Context(), http.MethodDelete, hookPath(id), nil, nil, nil); err != nil {
				return err
			}
			e.say("Deleted %s.", id)
		}
		return nil
	}
	return c
}

func (e *env) hooksRotate() *cobra.Command {
	c := &cobra.Command{
		Use: "rotate WEBHOOK", Short: "Replace the secret of a webhook", Args: takes("WEBHOOK"),
		Long: `Make a new secret and print it, alone on standard output. For a while requests are signed with the
former one as well, so that receivers can change over.`,
		Example: "  stoa webhooks rotate whk_01k9zqd3m8w5x7y2c4b6n8p0ra --overlap 1h",
	}
	o := e.output(c)
	overlap := c.Flags().String("overlap", "24h", "how long both are good; 0s ends the former at once")
	c.RunE = func(c *cobra.Command, args []string) error {
		d, err := span(*overlap)
		if err != nil {
			return err
		}
		return e.hookSecret(c, o, hookPath(args[0])+"/rotate-secret", map[string]any{"overlapSeconds": int64(d / time.Second)})
	}
	return c
}

// sendDelivery asks for a delivery to be sent and says which.
func (e *env) sendDelivery(c *cobra.Command, o *output, path string) error {
	raw, err := e.asked(c, o, http.MethodPost, path, nil)
	if err != nil {
		return err
	}
	return o.object(viewDelivery(), raw)
}

func (e *env) hooksTest() *cobra.Command {
	c := &cobra.Command{
		Use: "test WEBHOOK", Short: "Send a test", Args: takes("WEBHOOK"),
		Long: "Send the event webhook.test, once, also while the webhook is disabled. What became of it is shown by \"stoa webhooks deliveries\".", Example: "  stoa webhooks test whk_01k9zqd3m8w5x7y2c4b6n8p0ra",
	}
	o := e.output(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		return e.sendDelivery(c, o, hookPath(args[0])+"/test")
	}
	return c
}

func (e *env) hooksRedeliver() *cobra.Command {
	c := &cobra.Command{
		Use: "redeliver WEBHOOK DELIVERY", Short: "Send a delivery again", Args: takes("WEBHOOK", "DELIVERY"),
		Long: "Send an event again, under the same id, whatever became of it.", Example: "  stoa webhooks redeliver whk_01k9zqd3m8w5x7y2c4b6n8p0ra dlv_01k9zqd3m8w5x7y2c4b6n8p0rb",
	}
	o := e.output(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		return e.sendDelivery(c, o, hookPath(args[0])+"/deliveries/"+url.PathEscape(args[1])+"/redeliver")
	}
	return c
}

func (e *env) hooksRecover() *cobra.Command {
	c := &cobra.Command{
		Use: "recover WEBHOOK", Short: "Send again what was missed", Args: takes("WEBHOOK"),
		Long:    "Send again every delivery that failed or was held, of events that happened within a time. It may be repeated.",
		Example: "  stoa webhooks recover whk_01k9zqd3m8w5x7y2c4b6n8p0ra --since 3d\n  stoa webhooks recover whk_01k9zqd3m8w5x7y2c4b6n8p0ra --since 2026-11-20 --until 2026-11-21",
	}
	since, until := c.Flags().String("since", "", "`when` it begins: 3d, or 2026-11-20T09:00:00Z"), c.Flags().String("until", "", "`when` it ends; now unless said otherwise")
	c.RunE = func(c *cobra.Command, args []string) error {
		if *since == "" {
			return usagef("since when? Give it --since, such as 3d")
		}
		body := map[string]any{}
		for name, text := range map[string]string{"since": *since, "until": *until} {
			if text == "" {
				continue
			}
			t, err := moment(text, time.Now(), true)
			if err != nil {
				return err
			}
			body[name] = stamp(t)
		}
		call, err := e.client()
		if err != nil {
			return err
		}
		var done struct {
			Recovered int `json:"recovered"`
		}
		if _, err := call.JSON(c.Context(), http.MethodPost, hookPath(args[0])+"/recover", nil, body, &done); err != nil {
			return err
		}
		_, err = fmt.Fprintf(e.out, "%s sent again.\n", some(done.Recovered, "delivery is", "deliveries are"))
		return err
	}
	return c
}
