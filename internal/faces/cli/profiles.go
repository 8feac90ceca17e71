package cli

import (
	"errors"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"stoa/internal/base/jsonx"
)

func (e *env) profileNames(typed string) (names []string) {
	all, _ := e.profiles() // ignored, because completions are optional
	for _, p := range all {
		if strings.HasPrefix(p.name, typed) {
			names = append(names, p.name)
		}
	}
	return names
}

var viewProfiles = view{columns: []column{
	{"Profile", "name", plain},
	{"Current", "inUse", plain},
	{"Service", "baseURL", flexible},
	{"Account", "accountName", flexible},
	{"Key", "keyHint", plain},
	{"Stored in", "store", plain},
}}

func (e *env) profileCommands() *cobra.Command {
	c := group("profiles", "Manage several services and keys", `Manage the stored services and keys. "stoa login --profile NAME" stores one under a name; --profile NAME or
STOA_PROFILE selects it for one command, and "stoa profiles use" for all following ones. A login without a
name is called default. --profile takes precedence over STOA_BASE_URL and STOA_API_KEY, which take precedence
over the current profile.`)
	list := &cobra.Command{
		Use: "list", Short: "List the profiles", Args: noArgs,
		Long:    "List the stored logins. Keys are never shown.",
		Example: "  stoa profiles list\n  stoa profiles list --jq '.[] | select(.inUse) | .name'",
	}
	o := e.output(list)
	list.RunE = func(*cobra.Command, []string) error {
		if err := o.check(); err != nil {
			return err
		}
		all, err := e.profiles()
		if err != nil {
			return err
		}
		current, err := e.profileName()
		if err != nil {
			return err
		}
		rows := make([]jsonx.Value, len(all))
		for i, p := range all {
			rows[i], err = jsonx.Marshal(map[string]any{
				"name": p.name, "inUse": p.name == current, "baseURL": p.BaseURL, "accountId": p.AccountID,
				"accountName": p.AccountName, "keyHint": p.KeyHint, "store": p.Store,
			})
			if err != nil {
				return err
			}
		}
		return o.list(viewProfiles, sequence(rows), 0, "You are not logged in.")
	}
	use := &cobra.Command{
		Use: "use PROFILE", Short: "Set the current profile", Args: takes("PROFILE"),
		Long:    "Set the profile for every command without a profile, here and in other terminals.",
		Example: "  stoa profiles use work\n  stoa profiles use default",
		RunE: func(_ *cobra.Command, args []string) error {
			if err := e.isProfile(args[0]); err != nil {
				return err
			}
			if err := e.useProfile(args[0]); err != nil {
				return err
			}
			e.say("The current profile is %s.", args[0])
			return nil
		},
	}
	remove := &cobra.Command{
		Use: "delete PROFILE", Short: "Delete a profile and its key", Args: takes("PROFILE"),
		Long:    "Delete a profile and its key, as \"stoa logout --profile\" does. The key keeps working elsewhere; \"stoa keys revoke\" revokes it.",
		Example: "  stoa profiles delete work",
		RunE: func(_ *cobra.Command, args []string) error {
			name := args[0]
			if !isProfileName.MatchString(name) {
				return e.isProfile(name)
			}
			path, err := e.profilePath(name)
			if err != nil {
				return err
			}
			if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
				return e.isProfile(name)
			}
			return e.forget(name)
		},
	}
	c.AddCommand(list, use, remove)
	return c
}

func (e *env) isProfile(name string) error {
	names := e.profileNames("")
	if slices.Contains(names, name) {
		return nil
	}
	return usagef("there is no profile %q; \"stoa profiles list\" shows them%s", name, didYouMean(near(name, names)))
}

func (e *env) forget(name string) error {
	current, err := e.profileName()
	if err != nil {
		return err
	}
	p, err := e.deleteProfile(name)
	switch {
	case err != nil:
		return err
	case p == nil:
		e.say("You were not logged in.")
		return nil
	}
	e.say("Deleted %s and the key %s.", p.BaseURL, p.KeyHint)
	if current == name && name != defaultProfile {
		return e.useProfile(defaultProfile)
	}
	return nil
}
