package config

import (
	"fmt"
	"slices"

	"stoa/internal/base/stoa"
)

// A vendor is the provider and the family that a key in the environment enables, so that the
// service runs without a file.
type vendor struct {
	family, provider, wire, dialect string
	keyVariable, urlVariable        string
	baseURL                         string
}

func vendors() []vendor {
	return []vendor{
		{"alpha", "anthropic", "messages", "", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "https://api.anthropic.com"},
		{"beta", "gemini", "gemini", "", "GEMINI_API_KEY", "GEMINI_BASE_URL", "https://generativelanguage.googleapis.com"},
		{"gamma", "openai", "responses", "", "OPENAI_API_KEY", "OPENAI_BASE_URL", "https://api.openai.com/v1"},
		{"delta", "deepseek", "chat", "deepseek", "DEEPSEEK_API_KEY", "DEEPSEEK_BASE_URL", "https://api.deepseek.com"},
	}
}

// addVendors adds a provider and a family for each vendor key in the environment. Families and
// providers of the file override keys. Keys override STOA_UPSTREAM_MODEL, because that serves only the
// families without another provider.
func (c *Config) addVendors(getenv func(string) string) {
	inFile := func(name string) bool {
		return slices.ContainsFunc(c.Providers, func(p Provider) bool { return p.Name == name })
	}
	serve := func(family string, r stoa.Route, from string) {
		if c.Families == nil {
			c.Families = map[string][]stoa.Route{}
		}
		c.Families[family] = []stoa.Route{r}
		c.sources["families."+family] = from
	}
	for _, v := range vendors() {
		key, url := getenv(v.keyVariable), getenv(v.urlVariable)
		_, taken := c.Families[v.family]
		switch {
		case taken:
			continue
		case key == "" && url != "":
			c.Warnings = append(c.Warnings, fmt.Sprintf("%s is set without %s and is ignored; set the key to switch the family %s on", v.urlVariable, v.keyVariable, v.family))
			continue
		case key == "":
			continue
		}
		if !inFile(v.provider) {
			p := Provider{Name: v.provider, Wire: v.wire, Dialect: v.dialect, BaseURL: v.baseURL, APIKeyEnv: v.keyVariable}
			path := fmt.Sprintf("providers[%d]", len(c.Providers))
			c.sources[path] = v.keyVariable
			if url != "" {
				p.BaseURL = url
				c.sources[path+".baseURL"] = v.urlVariable
			}
			c.Providers = append(c.Providers, p)
		}
		serve(v.family, stoa.Route{Provider: v.provider}, v.keyVariable)
	}
	c.addUpstream(getenv, inFile, serve)
}

// addUpstream adds an OpenAI-compatible server with all its models. With STOA_UPSTREAM_MODEL,
// that model also serves the families without a provider.
func (c *Config) addUpstream(getenv func(string) string, inFile func(string) bool, serve func(string, stoa.Route, string)) {
	const name = "upstream"
	url, model, key := getenv("STOA_UPSTREAM"), getenv("STOA_UPSTREAM_MODEL"), getenv("STOA_UPSTREAM_API_KEY")
	if url == "" {
		if model != "" || key != "" {
			c.Warnings = append(c.Warnings, "STOA_UPSTREAM_MODEL and STOA_UPSTREAM_API_KEY do nothing without STOA_UPSTREAM; set it to the server's URL, such as http://127.0.0.1:11434/v1")
		}
		return
	}
	if !inFile(name) {
		p := Provider{Name: name, Wire: "chat", Dialect: "compatible", BaseURL: url, Discover: true}
		if key != "" {
			p.APIKeyEnv = "STOA_UPSTREAM_API_KEY"
		}
		c.sources[fmt.Sprintf("providers[%d]", len(c.Providers))] = "STOA_UPSTREAM"
		c.Providers = append(c.Providers, p)
	}
	for _, v := range vendors() {
		if _, taken := c.Families[v.family]; !taken && model != "" {
			serve(v.family, stoa.Route{Provider: name, Model: model}, "STOA_UPSTREAM")
		}
	}
}
