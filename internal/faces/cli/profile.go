package cli

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/zalando/go-keyring"

	"stoa/internal/base/client"
	"stoa/internal/base/jsonx"
)

const defaultBaseURL = "http://127.0.0.1:8080"

type profile struct {
	BaseURL     string `json:"baseURL"`
	AccountID   string `json:"accountId"`
	AccountName string `json:"accountName"`
	KeyHint     string `json:"keyHint"`
	Store       string `json:"store"` // the storage of the key: keyring or file
	Key         string `json:"key,omitempty"`

	name string // name of the profile, from the file
}

const (
	inKeyring = "keyring"
	inFile    = "file"
)

var errNotLoggedIn = errors.New(`there is no key; log in with "stoa login", or set STOA_API_KEY`)

const keyringService = "stoa"

// defaultProfile is the profile that is used without a name. It has a separate file, so that
// programs that do not support profiles can read it too.
const defaultProfile = "default"

// isProfileName matches valid profile names. They are restricted because they are used as file names.
var isProfileName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)

func (e *env) currentPath() (string, error) {
	dir, err := e.configDir()
	return filepath.Join(dir, "profiles", "current"), err
}

// profileName returns the name of the current profile: from --profile, else from
// STOA_PROFILE, else from "stoa profiles use", else the default.
func (e *env) profileName() (string, error) {
	name, from := cmp.Or(e.profileFlag, e.getenv("STOA_PROFILE")), "the command line or STOA_PROFILE"
	if name == "" {
		path, err := e.currentPath()
		if err != nil {
			return defaultProfile, nil // because there is no place to store anything
		}
		text, err := os.ReadFile(path)
		if errors.Is(err, os.ErrNotExist) {
			return defaultProfile, nil
		}
		if err != nil {
			return "", fmt.Errorf("read the name of the current profile: %w", err)
		}
		name, from = strings.TrimSpace(string(text)), path
	}
	if !isProfileName.MatchString(name) {
		return "", usagef("%q of %s is not a profile name; names have up to 64 letters, digits, - and _", name, from)
	}
	return name, nil
}

func (e *env) profilePath(name string) (string, error) {
	dir, err := e.configDir()
	if err != nil || name == defaultProfile {
		return filepath.Join(dir, "profile.json"), err
	}
	return filepath.Join(dir, "profiles", name+".json"), nil
}

// profile reads the current profile; nil if it does not exist and was not named
// explicitly.
func (e *env) profile() (*profile, error) {
	name, err := e.profileName()
	if err != nil {
		return nil, err
	}
	p, err := e.readProfile(name)
	if p == nil && err == nil && name != defaultProfile {
		return nil, fmt.Errorf(`%w: there is no profile %q; "stoa login --profile %s" creates it, "stoa profiles list" lists the profiles`, errNotLoggedIn, name, name)
	}
	return p, err
}

// readProfile reads a profile; nil if it does not exist.
func (e *env) readProfile(name string) (*profile, error) {
	path, err := e.profilePath(name)
	if err != nil {
		return nil, nil // because there is no place to store anything
	}
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the profile: %w", err)
	}
	var p profile
	if err := jsonx.Unmarshal(text, &p); err != nil {
		return nil, fmt.Errorf(`the profile %s is damaged; log in again with "stoa login"`, path)
	}
	p.name = name
	return &p, nil
}

func (e *env) profiles() ([]*profile, error) {
	names := []string{defaultProfile}
	dir, err := e.configDir()
	if err != nil {
		return nil, err
	}
	files, err := os.ReadDir(filepath.Join(dir, "profiles"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("read the profiles: %w", err)
	}
	for _, f := range files {
		if name, ok := strings.CutSuffix(f.Name(), ".json"); ok && name != defaultProfile && isProfileName.MatchString(name) {
			names = append(names, name)
		}
	}
	var all []*profile
	for _, name := range names {
		if p, err := e.readProfile(name); p != nil && err == nil {
			all = append(all, p)
		}
	}
	return all, nil
}

func (e *env) useProfile(name string) error {
	path, err := e.currentPath()
	if err != nil {
		return err
	}
	if name == defaultProfile {
		if err := os.Remove(path); !errors.Is(err, os.ErrNotExist) {
			return err
		}
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return writeFile(path, []byte(name+"\n"), 0o600)
}

// account returns the name of the profile's key in the keyring.
func (p *profile) account() string {
	if p.name == defaultProfile {
		return p.BaseURL
	}
	return p.BaseURL + " " + p.name
}

// saveProfile writes the profile with mode 0600, and the key into the keyring
// if store allows it and the keyring works, else into the profile.
func (e *env) saveProfile(p profile, key, store string) (profile, error) {
	path, err := e.profilePath(p.name)
	if err != nil {
		return p, err
	}
	p.Store, p.Key = inFile, key
	if store != inFile {
		err := e.keyring(func() error { return keyring.Set(keyringService, p.account(), key) })
		if err == nil {
			p.Store, p.Key = inKeyring, ""
		} else if store == inKeyring {
			return p, fmt.Errorf("the keyring does not accept the key: %w; --store file stores it in a file that only you can read", err)
		}
	}
	text, err := jsonx.Marshal(p)
	if err != nil {
		return p, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return p, fmt.Errorf("store the profile: %w", err)
	}
	return p, writeFile(path, append(text, '\n'), 0o600)
}

func writeFile(path string, text []byte, mode os.FileMode) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".stoa-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(f.Name())
		}
	}()
	if err := f.Chmod(mode); err != nil && runtime.GOOS != "windows" {
		return err
	}
	if _, err := f.Write(text); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

func (e *env) deleteProfile(name string) (*profile, error) {
	p, err := e.readProfile(name)
	path, pathErr := e.profilePath(name)
	if pathErr != nil {
		return nil, pathErr
	}
	if p == nil && err == nil {
		return nil, nil
	}
	if p != nil && p.Store == inKeyring {
		if err := e.keyring(func() error { return keyring.Delete(keyringService, p.account()) }); err != nil && !errors.Is(err, keyring.ErrNotFound) {
			return nil, fmt.Errorf("delete the key from the keyring: %w", err)
		}
	}
	if err := os.Remove(path); err != nil {
		return nil, err
	}
	return p, nil
}

// keyring runs an operation on the system's keyring with a timeout of 30 seconds,
// because it may prompt the user or hang. On Unix it requires a session bus.
func (e *env) keyring(do func() error) error {
	if runtime.GOOS != "darwin" && runtime.GOOS != "windows" && e.getenv("DBUS_SESSION_BUS_ADDRESS") == "" {
		return errors.New("this system has no keyring")
	}
	done := make(chan error, 1)
	go func() { done <- do() }()
	late := time.NewTimer(30 * time.Second)
	defer late.Stop()
	select {
	case err := <-done:
		return err
	case <-late.C:
		return errors.New("the keyring does not answer")
	}
}

func (e *env) key(p *profile) (string, error) {
	if p.Store != inKeyring {
		return p.Key, nil
	}
	var key string
	err := e.keyring(func() (err error) {
		key, err = keyring.Get(keyringService, p.account())
		return err
	})
	if err != nil {
		return "", fmt.Errorf(`read the key from the keyring: %w; log in again with "stoa login", or set STOA_API_KEY`, err)
	}
	return key, nil
}

// address adds a missing scheme to a base URL: http for this machine, https for others.
func address(text string) string {
	text = strings.TrimSpace(text)
	if text == "" || strings.Contains(text, "://") {
		return text
	}
	u, err := url.Parse("http://" + text)
	if err == nil && loopback(u.Hostname()) {
		return "http://" + text
	}
	return "https://" + text
}

// serviceURL returns the base URL of calls: that of the --profile, else STOA_BASE_URL,
// else that of the current profile, else the default.
func (e *env) serviceURL(p *profile) string {
	if e.profileFlag != "" && p != nil {
		return p.BaseURL
	}
	if base := e.getenv("STOA_BASE_URL"); base != "" {
		return address(base)
	}
	if p != nil {
		return p.BaseURL
	}
	return defaultBaseURL
}

// client returns a client with a key. STOA_BASE_URL and STOA_API_KEY override the
// current profile, but not one given by --profile, because the user typed it.
func (e *env) client() (*client.Client, error) {
	p, err := e.profile()
	if err != nil {
		return nil, err
	}
	key := e.getenv("STOA_API_KEY")
	if e.profileFlag != "" && p != nil {
		key = ""
	}
	c, err := e.newClient(e.serviceURL(p), key)
	if err != nil || key != "" {
		return c, err
	}
	if p == nil {
		return nil, errNotLoggedIn
	}
	// A stored key is sent only to its own service, so that a foreign STOA_BASE_URL cannot steal it.
	if c.BaseURL() != p.BaseURL {
		return nil, fmt.Errorf("%w: the stored key is for %s, not for %s", errNotLoggedIn, p.BaseURL, c.BaseURL())
	}
	if key, err = e.key(p); err != nil {
		return nil, err
	}
	return e.newClient(p.BaseURL, key)
}

func (e *env) publicClient() (*client.Client, error) {
	p, err := e.profile()
	if err != nil {
		return nil, err
	}
	return e.newClient(e.serviceURL(p), "")
}

func (e *env) newClient(base, key string) (*client.Client, error) {
	c, err := client.New(base, key)
	if err != nil {
		return nil, usageError{err}
	}
	c.UserAgent = userAgent()
	return c, nil
}

func userAgent() string {
	version, _ := build()
	return "stoa/" + version
}

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
	list := command("list", "List the profiles",
		"List the stored logins. Keys are never shown.",
		"  stoa profiles list\n  stoa profiles list --jq '.[] | select(.inUse) | .name'")
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

func (e *env) open() *cobra.Command {
	c := command("open", "Open the console in the browser",
		`Print the address of the service's console and open it in the browser. The key is not passed on: sign in with
it there. BROWSER names a program to use instead of the system's default.`,
		"  stoa open\n  stoa open --print")
	only := c.Flags().Bool("print", false, "print the address and open nothing")
	c.RunE = func(c *cobra.Command, _ []string) error {
		call, err := e.publicClient()
		if err != nil {
			return err
		}
		at := call.BaseURL() + "/console"
		fmt.Fprintln(e.out, at)
		if *only {
			return nil
		}
		args := browserCommand(runtime.GOOS, e.getenv("BROWSER"), at)
		if err := exec.CommandContext(c.Context(), args[0], args[1:]...).Run(); err != nil {
			return fmt.Errorf("the browser could not be started (%s: %w); open the address above", args[0], err)
		}
		return nil
	}
	return c
}

func browserCommand(system, browser, address string) []string {
	switch {
	case browser != "":
		return []string{browser, address}
	case system == "darwin":
		return []string{"open", address}
	case system == "windows":
		return []string{"rundll32", "url.dll,FileProtocolHandler", address}
	}
	return []string{"xdg-open", address}
}
