package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"stoa/internal/base/contract"
	"stoa/internal/base/jsonx"
)

var viewSignedHooks = viewSignedHook.only("id", "name", "signature.kind", "enabled", "url")

var viewSignedHook = view{"Hook", []column{
	{"Id", "id", ident},
	{"Agent", "agentId", ident},
	{"Name", "name", objectTitle},
	{"Signature", "signature.kind", plain},
	{"Header", "signature.header", plain},
	{"Enabled", "enabled", plain},
	{"Disabled because", "disabledReason", plain},
	{"Address", "url", plain},
	{"Message", "message", plain},
	{"External id", "externalId", plain},
	{"External user", "externalUserId", plain},
	{"Event id", "eventId", plain},
	{"Mode", "mode", plain},
	{"Networks", "networks", flexible},
	{"Turns per day", "turnsPerDay", count},
	{"Credits per turn", "maxCreditsMicroPerTurn", credits},
	{"Created", "createdAt", when},
}}

var signedHookFields = []field{
	{"name", "name", asText, "the name, which is the title of its sessions"},
	{"message", "message", asText, "a JSON `pointer` to the message, such as /issue/body (default the whole body)"},
	{"external-id", "externalId", asText, "a JSON `pointer` to the id of the conversation: events with the same one continue one session"},
	{"external-user", "externalUserId", asText, "a JSON `pointer` to the end user"},
	{"event-id", "eventId", asText, "a JSON `pointer` or a header with the id of the event (default that of the signature)"},
	{"mode", "mode", asText, "the `mode`: once, or chat, where the agent can ask questions (default chat with --external-id, otherwise once)"},
	{"network", "networks", asWords, "a `network` from which requests are accepted, such as 203.0.113.0/24; repeatable (default all)"},
	{"turns-per-day", "turnsPerDay", asNumber, "the maximum `number` of turns in 24 hours (default 200)"},
	{"max-credits", "maxCreditsMicroPerTurn", asCredits, "the maximum cost of a turn, in `credits`"},
}

// trimmedSecret removes the line feed at the end of a secret from a file.
func trimmedSecret(*cobra.Command) setter {
	return func(body map[string]any) error {
		if secret, ok := body["secret"].(string); ok {
			body["secret"] = strings.TrimSpace(secret)
		}
		return nil
	}
}

func (e *env) hooks() *cobra.Command {
	c := group("hooks", "Start agents with requests of other services", `Start turns of agents with signed requests of other services, such as GitHub and Slack. A hook (hok_…) is an address;
its requests are accepted if they are signed with its secret. AGENT is an id, an external id, or a unique name.`)
	secret := field{"secret", "secret", asFile, "the `secret` of the other service, required for Slack; @FILE reads a file, @- standard input (default a new one)"}
	own := []adder{trimmedSecret}
	c.AddCommand(e.verbs(
		verb{
			use: "create AGENT", short: "Create a hook",
			long: `Create a hook. Standard output contains only its secret, which is shown only now. --signature is the way in which
the other service signs: standard (Standard Webhooks), github, slack, or hmac with a --header.`,
			example: "  stoa hooks create support --name Issues --signature github --message /issue/body --external-id /issue/node_id\n  stoa hooks create support --name Slack --signature slack --secret @signing-secret --message /event --external-id /event/channel\n  stoa hooks create support --name Orders --signature hmac --header X-Shop-Hmac-Sha256 --encoding base64",
			op:      "POST /api-agents/{AGENT}/hooks", extra: own, print: e.signedHookSecret,
			fields: append(slices.Clone(signedHookFields),
				field{"signature", "signature.kind", asText, "the `kind` of signature: standard, github, slack or hmac"},
				field{"header", "signature.header", asText, "the `header` with the signature, for hmac"},
				field{"algorithm", "signature.algorithm", asText, "the `algorithm` of hmac: sha256 or sha512 (default sha256)"},
				field{"encoding", "signature.encoding", asText, "the `encoding` of hmac: hex or base64 (default hex)"},
				field{"prefix", "signature.prefix", asText, "the `text` before the signature in the header, for hmac"},
				secret),
			needs: []string{"name", "signature"}, missing: "a hook requires a --name and a --signature",
		},
		verb{
			use: "list AGENT", short: "List the hooks of an agent",
			long: "List the hooks of an agent, newest first.", example: "  stoa hooks list support",
			op: "GET /api-agents/{AGENT}/hooks", rows: viewSignedHooks, fields: []field{searchField("name or id")}, none: "There are no hooks.",
		},
		verb{
			use: "get AGENT HOOK", short: "Show a hook",
			long: "Show a hook and its address. Its secret is shown only at its creation.", example: "  stoa hooks get support hok_01k9zqd3m8w5x7y2c4b6n8p0ra",
			op: "GET /api-agents/{AGENT}/hooks/{HOOK}", show: viewSignedHook,
		},
		verb{
			use: "update AGENT HOOK", short: "Change a hook",
			long: "Change the given settings; an empty text clears. --network replaces all earlier values.", example: "  stoa hooks update support hok_01k9zqd3m8w5x7y2c4b6n8p0ra --turns-per-day 50",
			op: "PATCH /api-agents/{AGENT}/hooks/{HOOK}", fields: signedHookFields, show: viewSignedHook, missing: nothingChanges,
		},
		verb{
			use: "disable AGENT HOOK", short: "Disable a hook",
			long: "Disable a hook. Its requests are refused until it is enabled.", example: "  stoa hooks disable support hok_01k9zqd3m8w5x7y2c4b6n8p0ra",
			op: "PATCH /api-agents/{AGENT}/hooks/{HOOK}", fixed: map[string]any{"enabled": false}, show: viewSignedHook,
		},
		verb{
			use: "enable AGENT HOOK", short: "Enable a hook",
			long: "Enable a disabled hook.", example: "  stoa hooks enable support hok_01k9zqd3m8w5x7y2c4b6n8p0ra",
			op: "PATCH /api-agents/{AGENT}/hooks/{HOOK}", fixed: map[string]any{"enabled": true}, show: viewSignedHook,
		},
		verb{
			use: "rotate AGENT HOOK", short: "Replace the secret of a hook",
			long: `Set a new secret. Standard output contains only the secret. During --overlap, requests that are signed with the
former one are accepted too, so that the other service can switch.`,
			example: "  stoa hooks rotate support hok_01k9zqd3m8w5x7y2c4b6n8p0ra --overlap 1h",
			op:      "POST /api-agents/{AGENT}/hooks/{HOOK}/rotate-secret", extra: own, print: e.signedHookSecret,
			fields: []field{secret, {"overlap=24h", "overlapSeconds", asSeconds, "the `duration` for which both secrets are accepted; 0s ends the former one immediately"}},
		},
		verb{
			use: "delete AGENT HOOK...", short: "Delete hooks",
			long: "Delete hooks: their requests are refused. Sessions are kept.", example: "  stoa hooks delete support hok_01k9zqd3m8w5x7y2c4b6n8p0ra --yes",
			op: "DELETE /api-agents/{AGENT}/hooks/{HOOK}", ask: asks("Delete %s? Requests to it are then refused.", "the hook", "hooks"),
		},
	)...)
	return c
}

// signedHookSecret prints the secret of a hook. It is alone on standard output, so that it can be captured.
func (e *env) signedHookSecret(o *output, raw jsonx.Value) error {
	if o.raw() {
		return o.printJSON(raw)
	}
	var h contract.HookWithSecret
	if err := jsonx.Unmarshal(raw, &h); err != nil {
		return fmt.Errorf("the reply does not match the contract: %w", err)
	}
	e.say("The address of hook %s is %s. Its secret is shown only once:", h.ID, h.URL)
	_, err := fmt.Fprintln(e.out, h.Secret)
	return err
}
