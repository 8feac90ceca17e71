// Package managed manages the settings that operators change while the service runs: providers,
// families, models, auto, aliases and plans. They are stored as versions and one shared draft,
// in the form of the configuration file, which takes precedence over them name by name.
//
// The package decodes, checks and combines settings with the code that reads the file. It
// puts nothing in force: package app builds catalog and pool from a [State]. A key of a
// provider is encrypted for the origin of its server, and never returned. Start at [Load] and
// [Manager].
package managed

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"stoa/internal/base/config"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/base/vault"
	"stoa/internal/models/catalog"
)

// A State is the configuration of a node: the file, the environment and the flags, with a
// version of the managed settings.
type State struct {
	Version  int64 // 0 means no managed settings
	Base     config.Config
	Config   config.Config // Base merged with the managed settings
	Shadowed []config.Shadowed
	// Invalid are the problems of the managed settings; see [State.Build].
	Invalid error
	// Refused is a newer version that the node could not use, and Problem the reason.
	Refused int64
	Problem string
}

// Load reads a version and returns its state, which [State.Build] checks. Its error is one of the database.
func Load(ctx context.Context, st *store.Store, v *vault.Vault, base config.Config, n int64) (*State, error) {
	s := &State{Version: n, Base: base, Config: base}
	if n == 0 {
		return s, nil
	}
	err := st.Read(ctx, func(tx *store.Tx) error {
		version, err := tx.Operations().ConfigVersion(ctx, n)
		if err != nil {
			return err
		}
		s.Config, s.Shadowed, s.Invalid, err = combine(ctx, tx, v, base, version.Body)
		return err
	})
	return s, err
}

// Build checks the settings and returns their catalog; handle is as in [catalog.Options]. Its error joins all
// problems.
func (s *State) Build(handle func(provider string) any) (*catalog.Catalog, error) {
	cat, err := build(s.Config, handle)
	return cat, s.Config.Together(s.Invalid, s.Config.Confirm(err))
}

// Latest returns the number of the newest version.
func Latest(ctx context.Context, st *store.Store) (int64, error) {
	return store.Read(ctx, st, func(tx *store.Tx) (int64, error) { return tx.Operations().LatestConfig(ctx) })
}

// Catalog checks a configuration and returns its catalog. Its errors name the setting and its source. handle
// may be nil; see [catalog.Options].
func Catalog(cfg config.Config, handle func(provider string) any) (*catalog.Catalog, error) {
	cat, err := build(cfg, handle)
	if err != nil {
		return nil, cfg.Explain(err)
	}
	return cat, nil
}

func build(cfg config.Config, handle func(provider string) any) (*catalog.Catalog, error) {
	return catalog.New(catalog.Options{
		Providers: cfg.Upstreams(), Families: cfg.Families, Models: cfg.Models, Auto: cfg.Auto, Sandbox: cfg.Sandbox,
		Aliases: cfg.Aliases, AliasSets: cfg.AliasSets, Handle: handle,
	})
}

// combine merges the settings of a node with a document of managed ones, and returns the document's problems.
// err is an error of the database.
func combine(ctx context.Context, tx *store.Tx, v *vault.Vault, base config.Config, body string) (cfg config.Config, shadowed []config.Shadowed, invalid, err error) {
	m, invalid := config.ParseManaged([]byte(body))
	if invalid != nil {
		return base, nil, invalid, nil
	}
	cfg, shadowed, invalid = base.With(m, func(p config.Provider, id, stored string) (string, error) {
		if stored == "" {
			return "", nil
		}
		s, failed := tx.Operations().ConfigSecret(ctx, stored)
		if stoa.CodeOf(failed) == stoa.CodeNotFound {
			return "", errors.New("its stored key is missing; enter the key again")
		}
		if failed != nil {
			err = failed
			return "", nil
		}
		key, failed := v.Open(ref(s.ID, p, id), s.Sealed)
		if failed != nil {
			return "", errors.New("its stored key cannot be decrypted; check secrets.keys, or enter the key again")
		}
		return string(key), nil
	})
	return cfg, shadowed, invalid, err
}

// ref binds a provider's key to its name and origin, so that it cannot be sent to another server. An empty key means
// apiKey.
func ref(id string, p config.Provider, key string) vault.Ref {
	return vault.Ref{AccountID: "service", ID: id, Kind: "provider " + keyRef(p.Name, key), Origin: p.Origin(), Version: 1}
}

// decode reads a document. It keeps numbers as written, because a float would change large ones.
func decode(body []byte) (map[string]any, error) {
	var doc map[string]any
	r := json.NewDecoder(bytes.NewReader(body))
	r.UseNumber()
	if err := r.Decode(&doc); err != nil || doc == nil {
		return nil, stoa.Errorf(stoa.CodeInvalidType, "The settings must be an object.").At("settings")
	}
	return doc, nil
}

// encode writes a document with sorted members, so that equal documents have equal texts.
func encode(doc any) []byte {
	var b bytes.Buffer
	w := json.NewEncoder(&b)
	w.SetEscapeHTML(false)
	if err := w.Encode(doc); err != nil {
		panic(err) // cannot happen, because doc was decoded from JSON
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

func keyRef(provider, key string) string {
	return (&stoa.Provider{Name: provider, Key: key}).Ref()
}

// A slot is a position in a document for a provider's key.
type slot struct {
	provider     int    // index in the list
	name, key    string // name of the provider, and id of the key; empty for apiKey
	path, member string // path in the document, and member of the object
	in           map[string]any
}

// text returns the key, its stored form or the mask.
func (s slot) text() string {
	text, _ := s.in[s.member].(string)
	return text
}

func slots(doc map[string]any) (all []slot) {
	list, _ := doc["providers"].([]any)
	for i, item := range list {
		p, ok := item.(map[string]any)
		if !ok {
			continue
		}
		name, _ := p["name"].(string)
		path := fmt.Sprintf("settings.providers[%d]", i)
		all = append(all, slot{i, name, "", path + ".apiKey", "apiKey", p})
		keys, _ := p["keys"].([]any)
		for j, item := range keys {
			if k, ok := item.(map[string]any); ok {
				id, _ := k["id"].(string)
				all = append(all, slot{i, name, id, fmt.Sprintf("%s.keys[%d].secret", path, j), "secret", k})
			}
		}
	}
	return all
}

// Masked returns a stored document with masks instead of the ids of keys.
func Masked(body string) (json.RawMessage, error) {
	doc, err := decode([]byte(body))
	if err != nil {
		return nil, fmt.Errorf("read stored settings: %w", err)
	}
	maskKeys(doc)
	return encode(doc), nil
}

func maskKeys(doc map[string]any) {
	for _, s := range slots(doc) {
		if s.text() != "" {
			s.in[s.member] = config.Masked
		}
	}
}
