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

// defaultBaseURL is where "stoa serve" listens unless told otherwise.
const defaultBaseURL = "http://127.0.0.1:8080"

// A profile is what login remembers: where the service is and who is calling.
type profile struct {
	BaseURL     string `json:"baseURL"`
	AccountID   string `json:"accountId"`
	AccountName string `json:"accountName"`
	KeyHint     string `json:"keyHint"`
	Store       string `json:"store"` // where the key is: keyring or file
	Key         string `json:"key,omitempty"`
}

// The places of a key.
const (
	inKeyring = "keyring"
	inFile    = "file"
)

// errNotLoggedIn means that there is no key to call with.
var errNotLoggedIn = errors.New(`no key is at hand; log in with "stoa login", or set STOA_API_KEY`)

const keyringService = "stoa"

func (e *env) profilePath() (string, error) {
	dir, err := e.configDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, "profile.json"), nil
}

// profile reads what login remembered; nil where nobody is logged in.
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

// remember writes the profile for its owner's eyes only, the key in the keyring
// if that works and is wanted.
func (e *env) remember(p profile, key, store string) (profile, error) {
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

// writeFile puts a file in place whole or not at all.
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

// forget removes the profile and its key, and tells what was there.
func (e *env) forget() (*profile, error) {
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

// keyring does something with the system's keyring, which may ask a person or
// hang; so it has a time limit. Without a session bus there is none on Unix.
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

// key reads the key of a profile.
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

// address completes a base URL as people write it: without a scheme it is plain
// HTTP on this machine and HTTPS elsewhere.
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

// whereabouts is the base URL that calls go to: STOA_BASE_URL, else the
// profile's, else this machine.
func (e *env) whereabouts(p *profile) string {
	if base := e.getenv("STOA_BASE_URL"); base != "" {
		return address(base)
	}
	if p != nil {
		return p.BaseURL
	}
	return defaultBaseURL
}

// client makes a client that calls with a key. STOA_BASE_URL and STOA_API_KEY
// come before the profile.
func (e *env) client() (*client.Client, error) {
	p, err := e.profile()
	if err != nil {
		return nil, err
	}
	key := e.getenv("STOA_API_KEY")
	c, err := e.newClient(e.whereabouts(p), key)
	if err != nil || key != "" {
		return c, err
	}
	if p == nil {
		return nil, errNotLoggedIn
	}
	// A key goes to the service that it is of, and nowhere else.
	if c.BaseURL() != p.BaseURL {
		return nil, fmt.Errorf("%w: the stored key is for %s, not for %s", errNotLoggedIn, p.BaseURL, c.BaseURL())
	}
	if key, err = e.key(p); err != nil {
		return nil, err
	}
	return e.newClient(p.BaseURL, key)
}

// openClient makes a client for what needs no key.
func (e *env) openClient() (*client.Client, error) {
	p, err := e.profile()
	if err != nil {
		return nil, err
	}
	return e.newClient(e.whereabouts(p), "")
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
