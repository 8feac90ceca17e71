package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"stoa/internal/base/jsonx"
)

var viewMember = view{"Member", []column{
	{"Id", "id", ident},
	{"Name", "name", objectName},
	{"Email", "email", flexible},
	{"Role", "role", plain},
	{"Operator", "operatorRole", plain},
	{"Source", "source", plain},
	{"Issuer", "issuer", flexible},
	{"Key", "keyId", ident},
	{"Last used", "lastUsedAt", when},
	{"Since", "createdAt", when},
}}

var viewInvitations = view{"Invitation", []column{
	{"Id", "id", ident},
	{"Name", "name", flexible},
	{"Email", "email", flexible},
	{"Role", "role", plain},
	{"Operator", "operatorRole", plain},
	{"Created", "createdAt", when},
	{"Expires", "expiresAt", when},
}}

var inviteFields = []field{
	{"role", "role", asText, "the `role`: owner, member or viewer"},
	{"operator", "operatorRole", asText, "also this operator `role`: admin, billing or support (only in the operator's account)"},
	{"name", "name", asText, "the name of the person"},
	emailField,
}

var emailField = field{"email", "email", asText, "also send the link to this `address`, if the service sends mail"}

const noRole = "an invitation requires a --role: owner, member or viewer"

func (e *env) members() *cobra.Command {
	c := group("members", "Invite and manage the people of the account", "Invite and manage the people who can sign in to the account. PERSON is an id, or the unique name of a member.")
	c.AddCommand(e.verbs(
		verb{
			use: "list", short: "List the members",
			long:    "List the members of the account with their roles, newest first.",
			example: "  stoa members list\n  stoa members list --jq '.[] | select(.role==\"owner\") | .name'",
			op:      "GET /members", rows: viewMember.only("id", "name", "email", "role", "operatorRole", "source", "lastUsedAt", "createdAt"), none: "There are no members yet; invite one with \"stoa members invite\".",
			fields: []field{searchField("name, email or id")},
		},
		verb{
			use: "get PERSON", short: "Show a member",
			long: "Show a member, with the id of the key that calls of the member use.", example: "  stoa members get Ada",
			op: "GET /members/{PERSON}", show: viewMember,
		},
		verb{
			use: "invite", short: "Create an invitation and print its link",
			long: `Invite a person. Standard output contains only the link. It works once, within 7 days, for anyone who has it: send
it only to that person. With --email the service sends it, if it sends mail.`,
			example: "  stoa members invite --role member --name Ada\n  stoa members invite --role member --email ada@example.com\n  stoa members invite --role viewer --operator support",
			op:      "POST /members", fields: inviteFields, needs: []string{"role"}, missing: noRole, print: e.joinLink,
		},
		verb{
			use: "link PERSON", short: "Create a sign-in link and print it",
			long: `Create a link with which a member signs in. It works once, within 15 minutes; earlier links of the member stop working.
Standard output contains only the link. It is also sent to the address of the member's invitation, if the service sends mail.`,
			example: "  stoa members link Ada",
			op:      "POST /members/{PERSON}/link", print: e.joinLink,
		},
		verb{
			use: "update PERSON", short: "Change the role of a member",
			long:    "Change the role of a member, within a second. The keys that the member created lose the scopes that the new role lacks.",
			example: "  stoa members update Ada --role owner\n  stoa members update Ada --operator ''",
			op:      "PATCH /members/{PERSON}", show: viewMember, missing: nothingChanges,
			fields: []field{
				{"role", "role", asText, "the `role`: owner, member or viewer"},
				{"operator", "operatorRole", asText, "the operator `role`: admin, billing or support (only in the operator's account); '' for none"},
			},
		},
		verb{
			use: "delete PERSON...", short: "Remove members", suggest: []string{"delete", "rm", "revoke"},
			long:    "Remove members, within a second. The keys that they created end, and so does everything that they or these keys created, unless --keys changes that.",
			example: "  stoa members delete Ada --yes\n  stoa members delete Ada --keys keep",
			op:      "DELETE /members/{PERSON}", did: "Removed",
			fields: []field{{"keys=end", "keys", asText, "the `handling` of the keys that the members created, and of what these created: end, or keep (they belong to the account)"}},
			ask:    asks("Remove %s from the account?", "member", "members"),
		},
	)...)
	i := group("invitations", "Manage open invitations", "Manage the invitations that can still be accepted.")
	i.AddCommand(e.verbs(
		verb{
			use: "list", short: "List the open invitations",
			long: "List the invitations that can still be accepted, newest first. Their links are shown only when they are created.", example: "  stoa members invitations list",
			op: "GET /invitations", rows: viewInvitations, fields: []field{searchField("name, email, role or id")}, none: "There are no open invitations.",
		},
		verb{
			use: "link INVITATION", short: "Create a new link for an invitation and print it",
			long: `Create a new link for an open invitation and print it, alone on standard output. The earlier link stops working, and
the invitation is valid for 7 days from now. It is also sent to the address of the invitation, if it has one.`,
			example: "  stoa members invitations link inv_01k9zqd3m8w5x7y2c4b6n8p0ra",
			op:      "POST /invitations/{INVITATION}/link", print: e.joinLink,
		},
		verb{
			use: "revoke INVITATION...", short: "Revoke invitations", suggest: []string{"delete", "rm", "remove"},
			long: "Revoke invitations: their links stop working.", example: "  stoa members invitations revoke inv_01k9zqd3m8w5x7y2c4b6n8p0ra --yes",
			op: "DELETE /invitations/{INVITATION}", did: "Revoked", ask: asks("Revoke %s?", "invitation", "invitations"),
		},
	)...)
	c.AddCommand(i)
	return c
}

// joinLink prints the link of an invitation or of a sign-in. It is alone on standard output, so that it can be captured.
func (e *env) joinLink(o *output, raw jsonx.Value) error {
	if o.raw() {
		return o.printJSON(raw)
	}
	var made struct {
		Link      string `json:"link"`
		ExpiresAt string `json:"expiresAt"`
		Mailed    bool   `json:"mailed"`
		NotMailed string `json:"notMailed"`
	}
	if err := jsonx.Unmarshal(raw, &made); err != nil {
		return fmt.Errorf("the reply does not match the contract: %w", err)
	}
	if strings.HasPrefix(made.Link, "/") { // because the service does not know its address
		call, err := e.publicClient()
		if err != nil {
			return err
		}
		made.Link = call.BaseURL() + made.Link
	}
	if made.Mailed {
		e.say("The link is sent by mail.")
	} else if made.NotMailed != "" {
		e.say("The link is not sent by mail (%s): send it to the person.", made.NotMailed)
	}
	e.say("The link works once until %s; it is shown only once:", made.ExpiresAt)
	_, err := fmt.Fprintln(e.out, made.Link)
	return err
}
