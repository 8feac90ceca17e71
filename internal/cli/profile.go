package cli

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/zalando/go-keyring"

	"stoa/internal/client"
	"stoa/internal/jsonx"
)

// defaultBaseURL is the address that "stoa serve" listens on by default.
const defaultBaseURL = "http://127.0.0.1:8080"

// A profile is what login stores: the service's address and the account.
type profile struct {
	BaseURL     string `json:"baseURL"`
	AccountID   string `json:"accountId"`
	AccountName string `json:"accountName"`
	KeyHint     string `json:"keyHint"`
	Store       string `json:"store"` // where the key is: keyring or file
	Key         string `json:"key,omitempty"`
}

// Where a key is stored.
const (
	inKeyring = "keyring"
	inFile    = "file"
)

// errNotLoggedIn is the error of a command that needs a key when there is none.
var errNotLoggedIn = errors.New(`no key is at hand; log in with "stoa login", or set STOA_API_KEY`)

const keyringService = "stoa"

func (e *env) profilePath() (string, error) {
	dir, err := e.configDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, "profile.json"), nil
}

// profile reads the stored profile; nil if there is none.
func (e *env) profile() (*profile, error) {
	path, err := e.profilePath()
	if err != nil {
		return nil, nil // nowhere to remember anything
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
	return &p, nil
}

// saveProfile writes the profile with mode 0600, and the key into the keyring
// if store allows it and the keyring works, else into the profile.
func (e *env) saveProfile(p profile, key, store string) (profile, error) {
	path, err := e.profilePath()
	if err != nil {
		return p, err
	}
	p.Store, p.Key = inFile, key
	if store != inFile {
		err := e.keyring(func() error { return keyring.Set(keyringService, p.BaseURL, key) })
		if err == nil {
			p.Store, p.Key = inKeyring, ""
		} else if store == inKeyring {
			return p, fmt.Errorf("the keyring does not take the key: %w; --store file keeps it in a file of yours alone", err)
		}
	}
	text, err := jsonx.Marshal(p)
	if err != nil {
		return p, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return p, fmt.Errorf("keep the profile: %w", err)
	}
	return p, writeFile(path, append(text, '\n'), 0o600)
}

// writeFile replaces a file atomically.
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

// deleteProfile removes the profile and its key and returns what was stored;
// nil if nothing was.
func (e *env) deleteProfile() (*profile, error) {
	p, err := e.profile()
	path, pathErr := e.profilePath()
	if pathErr != nil {
		return nil, pathErr
	}
	if p == nil && err == nil {
		return nil, nil
	}
	if p != nil && p.Store == inKeyring {
		if err := e.keyring(func() error { return keyring.Delete(keyringService, p.BaseURL) }); err != nil && !errors.Is(err, keyring.ErrNotFound) {
			return nil, fmt.Errorf("take the key out of the keyring: %w", err)
		}
	}
	if err := os.Remove(path); err != nil {
		return nil, err
	}
	return p, nil
}

// keyring runs an operation on the system's keyring with a limit of 30 seconds,
// because it may ask the user or hang. On Unix there is none without a session
// bus.
func (e *env) keyring(do func() error) error {
	if runtime.GOOS != "darwin" && runtime.GOOS != "windows" && e.getenv("DBUS_SESSION_BUS_ADDRESS") == "" {
		return errors.New("this system runs no keyring")
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

// key returns the key of a profile.
func (e *env) key(p *profile) (string, error) {
	if p.Store != inKeyring {
		return p.Key, nil
	}
	var key string
	err := e.keyring(func() (err error) {
		key, err = keyring.Get(keyringService, p.BaseURL)
		return err
	})
	if err != nil {
		return "", fmt.Errorf(`read the key from the keyring: %w; log in again with "stoa login", or set STOA_API_KEY`, err)
	}
	return key, nil
}

// address adds the scheme to a base URL that has none: http for this machine,
// https for others.
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

// serviceURL returns the base URL of calls: STOA_BASE_URL, else that of the
// profile, else the default.
func (e *env) serviceURL(p *profile) string {
	if base := e.getenv("STOA_BASE_URL"); base != "" {
		return address(base)
	}
	if p != nil {
		return p.BaseURL
	}
	return defaultBaseURL
}

// client returns a client with a key. STOA_BASE_URL and STOA_API_KEY override
// the profile.
func (e *env) client() (*client.Client, error) {
	p, err := e.profile()
	if err != nil {
		return nil, err
	}
	key := e.getenv("STOA_API_KEY")
	c, err := e.newClient(e.serviceURL(p), key)
	if err != nil || key != "" {
		return c, err
	}
	if p == nil {
		return nil, errNotLoggedIn
	}
	// A stored key is sent only to the service that it belongs to.
	if c.BaseURL() != p.BaseURL {
		return nil, fmt.Errorf("%w: the stored key is for %s, not for %s", errNotLoggedIn, p.BaseURL, c.BaseURL())
	}
	if key, err = e.key(p); err != nil {
		return nil, err
	}
	return e.newClient(p.BaseURL, key)
}

// publicClient returns a client without a key, for public endpoints.
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
	version, _ := build()
	c.UserAgent = "stoa/" + version
	return c, nil
}
