package cli

import (
	"fmt"
	"net/url"

	"github.com/spf13/cobra"

	"stoa/internal/base/contract"
	"stoa/internal/base/jsonx"
)

var viewHooks = viewHook.only("id", "url", "events", "status", "failingSince", "createdAt")

var viewHook = view{"Webhook", []column{
	{"Id", "id", ident},
	{"Address", "url", objectTitle},
	{"Scope", "scope", plain},
	{"Events", "events", flexible},
	{"Spaces", "spaceIds", plain},
	{"Description", "description", plain},
	{"Credits are low below", "creditsLowMicro", credits},
	{"Status", "status", state},
	{"Disabled by", "disabledReason", plain},
	{"Failing since", "failingSince", when},
	{"Failed deliveries", "failedDeliveries", count},
	{"Last success", "lastSuccessAt", when},
	{"Created", "createdAt", when},
}}

var viewDeliveries = view{"DeliverySummary", viewDelivery.only("id", "type", "status", "attemptCount", "lastStatus", "lastError", "nextAttemptAt", "createdAt").columns}

var viewDelivery = view{"Delivery", []column{
	{"Id", "id", ident},
	{"Webhook", "webhookId", ident},
	{"Event", "type", plain},
	{"Event id", "eventId", ident},
	{"Status", "status", state},
	{"Attempts", "attemptCount", count},
	{"Answer", "lastStatus", plain},
	{"Error", "lastError", plain},
	{"Next", "nextAttemptAt", when},
	{"Happened", "createdAt", when},
	{"Finished", "finishedAt", when},
	{"Body", "body", plain},
}}

const hooksPath = "/webhooks"

func hookPath(id string) string { return hooksPath + "/" + url.PathEscape(id) }

var hookFields = []field{
	{"event", "events", asWords, "a type of `event`, such as session.completed; repeatable; '*' is all"},
	{"space", "spaceIds", asWords, "only events of the space with this `id`; repeatable (default: all)"},
	{"description", "description", asText, "a description, as `text`"},
	{"credits-low", "creditsLowMicro", asCredits, "the balance, in `credits`, below which credits.low is sent"},
}

func (e *env) webhooks() *cobra.Command {
	c := group("webhooks", "Manage webhooks", "Send events of the account to an address, such as completed sessions, skipped runs and low credits. WEBHOOK is an id (whk_…).")
	settings := hookFields
	c.AddCommand(e.verbs(
		verb{
			use: "create URL", short: "Create a webhook", suggest: []string{"create", "new"},
			long: `Create a webhook. Standard output contains only its secret, which signs every request and is shown only now.
Without --event all events are sent. An address such as mailto:ada@example.com sends mail, if the operator
has enabled it. --scope service sends the alerts of the service, such as provider.down, to its operator.`,
			example: "  stoa webhooks create https://example.com/hooks --event session.completed --event session.failed\n  SECRET=$(stoa webhooks create https://example.com/hooks)",
			op:      "POST /webhooks", fixed: map[string]any{"events": []string{"*"}},
			fields: append(settings, field{"URL", "url", asText, ""}, field{"scope", "scope", asText, "the `scope`: account, or service for the alerts of the service (default account)"}), print: e.hookSecret,
		},
		verb{
			use: "list", short: "List the webhooks",
			long: "List the webhooks of the account, newest first.", example: "  stoa webhooks list",
			op: "GET /webhooks", rows: viewHooks, none: "There are no webhooks. Add one with \"stoa webhooks create URL\".",
			fields: []field{searchField("address, description or id")},
		},
		verb{
			use: "get WEBHOOK", short: "Show a webhook",
			long: "Show a webhook and its delivery state. Its secret is shown only at its creation.", example: "  stoa webhooks get whk_01k9zqd3m8w5x7y2c4b6n8p0ra",
			op: "GET /webhooks/{WEBHOOK}", show: viewHook,
		},
		verb{
			use: "update WEBHOOK", short: "Change or disable a webhook",
			long:    "Change a webhook. --event and --space replace all earlier values; an empty value sets the default.",
			example: "  stoa webhooks update whk_01k9zqd3m8w5x7y2c4b6n8p0ra --url https://example.com/new\n  stoa webhooks update whk_01k9zqd3m8w5x7y2c4b6n8p0ra --enabled=false",
			op:      "PATCH /webhooks/{WEBHOOK}", show: viewHook, missing: nothingChanges,
			fields: append(settings,
				field{"url", "url", asText, "the `address`"},
				field{"enabled=true", "enabled", asBool, "whether events are sent; otherwise they are held"}),
		},
		verb{
			use: "delete WEBHOOK...", short: "Delete webhooks",
			long: "Delete webhooks with their deliveries.", example: "  stoa webhooks delete whk_01k9zqd3m8w5x7y2c4b6n8p0ra --yes",
			op: "DELETE /webhooks/{WEBHOOK}", ask: asks("Delete %s with its pending deliveries?", "the webhook", "webhooks"),
		},
		verb{
			use: "rotate WEBHOOK", short: "Replace the secret of a webhook",
			long: `Create a new secret. Standard output contains only the secret. During --overlap, requests are also signed with
the former one, so that receivers can switch.`,
			example: "  stoa webhooks rotate whk_01k9zqd3m8w5x7y2c4b6n8p0ra --overlap 1h",
			op:      "POST /webhooks/{WEBHOOK}/rotate-secret", print: e.hookSecret,
			fields: []field{{"overlap=24h", "overlapSeconds", asSeconds, "the `duration` for which both secrets are used; 0s ends the former one immediately"}},
		},
		verb{
			use: "enable WEBHOOK", short: "Enable a webhook",
			long: `Enable a disabled webhook. Events from now on are sent; use "stoa webhooks recover" for events that were held
meanwhile.`,
			example: "  stoa webhooks enable whk_01k9zqd3m8w5x7y2c4b6n8p0ra",
			op:      "POST /webhooks/{WEBHOOK}/enable", show: viewHook,
		},
		verb{
			use: "disable WEBHOOK", short: "Disable a webhook",
			long: "Disable a webhook. Its events are held until it is enabled.", example: "  stoa webhooks disable whk_01k9zqd3m8w5x7y2c4b6n8p0ra",
			op: "PATCH /webhooks/{WEBHOOK}", fixed: map[string]any{"enabled": false}, show: viewHook,
		},
		verb{
			use: "test WEBHOOK", short: "Send a test",
			long: "Send the event webhook.test once, even while the webhook is disabled. See the result with \"stoa webhooks deliveries\".", example: "  stoa webhooks test whk_01k9zqd3m8w5x7y2c4b6n8p0ra",
			op: "POST /webhooks/{WEBHOOK}/test", show: viewDelivery,
		},
		verb{
			use: "deliveries WEBHOOK", short: "List the deliveries of a webhook",
			long:    "List the deliveries of a webhook, newest first.",
			example: "  stoa webhooks deliveries whk_01k9zqd3m8w5x7y2c4b6n8p0ra --status failed",
			op:      "GET /webhooks/{WEBHOOK}/deliveries", rows: viewDeliveries, none: "There are no deliveries.",
			fields: []field{
				{"status", "status", asText, "only deliveries with this `status`: pending, delivered, failed or held"},
				{"type", "type", asText, "only this type of `event`"},
			},
		},
		verb{
			use: "delivery WEBHOOK DELIVERY", short: "Show a delivery",
			long: "Show a delivery with the event as it is sent. --json includes its attempts.", example: "  stoa webhooks delivery whk_01k9zqd3m8w5x7y2c4b6n8p0ra dlv_01k9zqd3m8w5x7y2c4b6n8p0rb --json",
			op: "GET /webhooks/{WEBHOOK}/deliveries/{DELIVERY}", show: viewDelivery,
		},
		verb{
			use: "redeliver WEBHOOK DELIVERY", short: "Send a delivery again",
			long: "Send an event again with the same id, regardless of its status.", example: "  stoa webhooks redeliver whk_01k9zqd3m8w5x7y2c4b6n8p0ra dlv_01k9zqd3m8w5x7y2c4b6n8p0rb",
			op: "POST /webhooks/{WEBHOOK}/deliveries/{DELIVERY}/redeliver", show: viewDelivery,
		},
		verb{
			use: "recover WEBHOOK", short: "Resend missed deliveries", plain: true,
			long:    "Resend every failed or held delivery of events within a time range. Repeating it is safe.",
			example: "  stoa webhooks recover whk_01k9zqd3m8w5x7y2c4b6n8p0ra --since 3d\n  stoa webhooks recover whk_01k9zqd3m8w5x7y2c4b6n8p0ra --since 2026-11-20 --until 2026-11-21",
			op:      "POST /webhooks/{WEBHOOK}/recover", needs: []string{"since"}, missing: "--since is required, such as 3d",
			fields: []field{
				{"since", "since", asPast, "the start `time`: 3d, or 2026-11-20T09:00:00Z"},
				{"until", "until", asPast, "the end `time` (default now)"},
			},
			print: func(_ *output, raw jsonx.Value) error {
				reply, err := decode(raw)
				if err == nil {
					_, err = fmt.Fprintf(e.out, "%s sent again.\n", some(int(number(reply, "recovered")), "delivery is", "deliveries are"))
				}
				return err
			},
		},
	)...)
	c.AddCommand(e.hooksListen(), e.hooksVerify())
	return c
}

// hookSecret prints the secret of a webhook. It is alone on standard output, so that it can be captured.
func (e *env) hookSecret(o *output, raw jsonx.Value) error {
	if o.raw() {
		return o.printJSON(raw)
	}
	var w contract.WebhookWithSecret
	if err := jsonx.Unmarshal(raw, &w); err != nil {
		return fmt.Errorf("the reply does not match the contract: %w", err)
	}
	e.say("The secret of webhook %s; it is shown only once:", w.ID)
	_, err := fmt.Fprintln(e.out, w.Secret)
	return err
}
