package cli

import (
	"errors"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"stoa/internal/jsonx"
)

// profileNames returns the names of the profiles that begin with what was typed.
func (e *env) profileNames(typed string) (names []string) {
	all, _ := e.profiles() // without them nothing is completed
	for _, p := range all {
		if strings.HasPrefix(p.name, typed) {
			names = append(names, p.name)
		}
	}
	return names
}

func viewProfiles() view {
	return view{columns: []column{
		{"Profile", "name", plain},
		{"In use", "inUse", plain},
		{"Service", "baseURL", flexible},
		{"Account", "accountName", flexible},
		{"Key", "keyHint", plain},
		{"Kept in", "store", plain},
	}}
}

func (e *env) profileCommands() *cobra.Command {
	c := group("profiles", "Keep several services and keys", `Keep several services and keys. "stoa login --profile NAME" remembers one under a name; --profile NAME or
STOA_PROFILE chooses it for one command, and "stoa profiles use" for all that follow. What was logged in without a
name is called default. --profile comes before STOA_BASE_URL and STOA_API_KEY, which come before the others.`)
	list := &cobra.Command{
		Use: "list", Short: "List the profiles", Args: noArgs,
		Long:    "List what was remembered by login. Keys are never shown.",
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
		return o.list(viewProfiles(), sequence(rows), 0, "Nobody is logged in.")
	}
	use := &cobra.Command{
		Use: "use PROFILE", Short: "Use a profile from now on", Args: takes("PROFILE"),
		Long:    "Use a profile for every command that names none, here and in other terminals.",
		Example: "  stoa profiles use work\n  stoa profiles use default",
		RunE: func(_ *cobra.Command, args []string) error {
			if err := e.isProfile(args[0]); err != nil {
				return err
			}
			if err := e.useProfile(args[0]); err != nil {
				return err
			}
			e.say("The profile %s is in use.", args[0])
			return nil
		},
	}
	remove := &cobra.Command{
		Use: "remove PROFILE", Aliases: []string{"rm", "delete"}, Short: "Forget a profile and its key", Args: takes("PROFILE"),
		Long:    "Forget a profile and its key, as \"stoa logout --profile\" does. The key goes on working elsewhere; \"stoa keys revoke\" ends it.",
		Example: "  stoa profiles remove work",
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

// isProfile checks that there is a profile of that name.
func (e *env) isProfile(name string) error {
	names := e.profileNames("")
	if slices.Contains(names, name) {
		return nil
	}
	return usagef("there is no profile %q; \"stoa profiles list\" shows them%s", name, didYouMean(near(name, names)))
}

// forget removes a profile with its key; if it was the one in use, the default is.
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
		e.say("Nobody was logged in.")
		return nil
	}
	e.say("Forgot %s and the key %s.", p.BaseURL, p.KeyHint)
	if current == name && name != defaultProfile {
		return e.useProfile(defaultProfile)
	}
	return nil
}
