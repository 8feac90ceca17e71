package cli

import (
	"encoding/json"

	"github.com/spf13/cobra"

	"stoa/internal/base/jsonx"
)

var viewPayment = view{"Payment", []column{
	{"Id", "id", ident},
	{"Pack", "pack", plain},
	{"Name", "name", flexible},
	{"Amount", "amount", plain},
	{"Currency", "currency", plain},
	{"Credits", "creditsMicro", credits},
	{"State", "state", plain},
	{"Refunded", "refundedAmount", plain},
	{"Disputed", "disputed", plain},
	{"Withdrawn", "withdrawnMicro", credits},
	{"Pay at", "checkoutUrl", plain},
	{"Created", "createdAt", when},
	{"Paid", "paidAt", when},
}}

func (e *env) payments() *cobra.Command {
	c := group("payments", "Buy credits", "Buy packs of credits, if the service sells them. Prices are in the smallest unit of their currency, such as cents.\nReading requires a key with the scope account:read, buying account:write; operator includes both.")
	c.AddCommand(e.verbs(
		verb{
			use: "list", short: "List the payments",
			long: "List the payments of the account, newest first.", example: "  stoa payments list",
			op: "GET /payments", rows: viewPayment.only("id", "name", "amount", "currency", "state", "refundedAmount", "withdrawnMicro", "createdAt"), none: "There are no payments. Begin one with \"stoa payments buy\".",
		},
		verb{
			use: "get PAYMENT", short: "Show a payment",
			long: "Show a payment.", example: "  stoa payments get pay_01k9zqd3m8w5x7y2c4b6n8p0ra",
			op: "GET /payments/{PAYMENT}", show: viewPayment,
		},
		verb{
			use: "packs", short: "List the packs of credits",
			long: "List the packs of credits that can be bought.", example: "  stoa payments packs",
			op: "GET /payments/packs", whole: true, none: "There are no packs.",
			rows: view{"Pack", []column{
				{"Id", "id", plain},
				{"Name", "name", flexible},
				{"Price", "amount", plain},
				{"Currency", "currency", plain},
				{"Credits", "creditsMicro", credits},
			}},
		},
		verb{
			use: "buy", short: "Buy a pack of credits", suggest: []string{"create", "add", "new"},
			long: "Begin the payment of a pack, and print the address of the page on which to pay.", example: "  stoa payments buy --pack small",
			op: "POST /payments", fields: []field{{"pack", "pack", asText, "the `id` of the pack; \"stoa payments packs\" lists them"}},
			needs: []string{"pack"}, missing: "--pack is required", show: viewPayment,
			print: func(o *output, raw jsonx.Value) error {
				var p struct{ CheckoutURL string }
				if err := json.Unmarshal(raw, &p); err != nil {
					return err
				}
				o.e.say("Pay at %s", p.CheckoutURL)
				return nil
			},
		},
	)...)
	return c
}
