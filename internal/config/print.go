package config

import (
	"fmt"
	"io"
	"slices"

	"github.com/goccy/go-yaml"
)

// Print writes the settings in force as YAML that [Load] reads back. Secrets
// are masked; a key kept in a variable or a file is named by its place.
func (c Config) Print(w io.Writer) error {
	c = c.WithDefaults()
	c.Providers = slices.Clone(c.Providers)
	for i, p := range c.Providers {
		c.Providers[i].Dialect, c.Providers[i].BaseURL = p.dialect(), p.baseURL()
	}
	// A Secret masks itself wholly; of a database URL the rest is worth seeing.
	text, err := yaml.MarshalWithOptions(c, yaml.IndentSequence(true),
		yaml.CustomMarshaler(func(s Secret) ([]byte, error) {
			if s != "" && s == c.Database {
				return yaml.Marshal(maskURL(string(s)))
			}
			return yaml.Marshal(s.String())
		}))
	if err != nil {
		return fmt.Errorf("print the settings: %w", err)
	}
	_, err = w.Write(text)
	return err
}
