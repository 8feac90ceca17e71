package config

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// Flags are the settings of the command line. Empty means not given.
type Flags struct {
	Config      string // --config: path of the file
	Listen      string
	AdminListen string
	Data        string
	Database    string
	Durability  string
	PublicURL   string
	Sandbox     string
	Extensions  string // names with commas, or all
	LogFormat   string
	LogLevel    string
}

// A Problem is one setting that is wrong.
type Problem struct {
	Where   string // "stoa.yaml:3:5", "STOA_LISTEN", "--listen"; empty: unknown
	Path    string // "limits.body"; empty: the file itself
	Message string // what is wrong and what to do
}

// Error returns place, setting and message, as far as they are known.
func (p *Problem) Error() string {
	var parts []string
	for _, part := range []string{p.Where, p.Path, p.Message} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, ": ")
}

// Load reads the settings: defaults, then the file named by --config or
// STOA_CONFIG, then the environment, then the flags. An empty variable counts
// as not set. Its error joins one [*Problem] per setting that is wrong.
func Load(flags Flags, getenv func(string) string, readFile func(string) ([]byte, error)) (Config, error) {
	c := Defaults()
	c.sources = map[string]string{}
	plans := c.Plans
	c.Plans = nil
	file := flags.Config
	if file == "" {
		file = getenv("STOA_CONFIG")
	}
	if file != "" {
		text, err := readFile(file)
		if err != nil {
			return Config{}, &Problem{Where: file, Message: fmt.Sprintf("the configuration file cannot be read: %v", err)}
		}
		if err := readYAML(&c, file, text); err != nil {
			return Config{}, err
		}
	}
	c.Plans = mergePlans(plans, c.Plans)
	c.priceCachedInput()
	errs := c.readVariables(getenv)
	errs = append(errs, c.readFlags(flags)...)
	errs = append(errs, c.addVendors(getenv)...)
	errs = append(errs, c.readKeys(getenv, readFile)...)
	if len(errs) == 0 {
		c.PublicURL = strings.TrimSuffix(c.PublicURL, "/")
		for _, p := range c.Check() {
			errs = append(errs, p)
		}
	}
	if len(errs) > 0 {
		return Config{}, errors.Join(errs...)
	}
	c.warn()
	return c, nil
}

// priceCachedInput sets the price of cached input to that of input where the
// file does not set it.
func (c *Config) priceCachedInput() {
	for id, m := range c.Models {
		if _, set := c.sources["models."+id+".price.cachedInput"]; m.Price != nil && !set {
			m.Price.CachedInput = m.Price.Input
		}
	}
}

// A variable is a setting that an environment variable may set.
type variable struct {
	name, path string
	value      reflect.Value
}

// variables lists the settings in v that have an environment variable.
func variables(v reflect.Value, path string) []variable {
	var list []variable
	for i := range v.NumField() {
		f := v.Type().Field(i)
		p := join(path, yamlName(f))
		if name := f.Tag.Get("env"); name != "" {
			list = append(list, variable{name, p, v.Field(i)})
		} else if f.Type.Kind() == reflect.Struct {
			list = append(list, variables(v.Field(i), p)...)
		}
	}
	return list
}

func (c *Config) readVariables(getenv func(string) string) (errs []error) {
	for _, v := range variables(reflect.ValueOf(c).Elem(), "") {
		if text := getenv(v.name); text != "" {
			c.sources[v.path] = v.name
			if err := setText(v.value, text); err != nil {
				errs = append(errs, &Problem{Where: v.name, Path: v.path, Message: err.Error()})
			}
		}
	}
	return errs
}

// readFlags sets what flags name; an empty flag counts as not given.
func (c *Config) readFlags(flags Flags) (errs []error) {
	for _, f := range []struct {
		flag, path, text string
		to               any
	}{
		{"--listen", "listen", flags.Listen, &c.Listen},
		{"--admin-listen", "adminListen", flags.AdminListen, &c.AdminListen},
		{"--data", "data", flags.Data, &c.Data},
		{"--database", "database", flags.Database, &c.Database},
		{"--durability", "durability", flags.Durability, &c.Durability},
		{"--public-url", "publicUrl", flags.PublicURL, &c.PublicURL},
		{"--sandbox", "sandbox", flags.Sandbox, &c.Sandbox},
		{"--extensions", "extensions", flags.Extensions, &c.Extensions},
		{"--log-format", "log.format", flags.LogFormat, &c.Log.Format},
		{"--log-level", "log.level", flags.LogLevel, &c.Log.Level},
	} {
		if f.text == "" {
			continue
		}
		c.sources[f.path] = f.flag
		if err := setText(reflect.ValueOf(f.to).Elem(), f.text); err != nil {
			errs = append(errs, &Problem{Where: f.flag, Path: f.path, Message: err.Error()})
		}
	}
	return errs
}

// readKeys reads the keys that providers keep in a variable or a file.
func (c *Config) readKeys(getenv func(string) string, readFile func(string) ([]byte, error)) (errs []error) {
	fail := func(path, format string, args ...any) {
		errs = append(errs, &Problem{Where: c.Where(path), Path: path, Message: fmt.Sprintf(format, args...)})
	}
	for i := range c.Providers {
		p, path := &c.Providers[i], fmt.Sprintf("providers[%d]", i)
		key := string(p.APIKey)
		p.key = &key
		if p.APIKeyEnv != "" {
			if key = getenv(p.APIKeyEnv); key == "" {
				fail(path+".apiKeyEnv", "the environment variable %s is not set; set it, or take apiKeyEnv out if %s needs no key", p.APIKeyEnv, p.Name)
			}
		}
		if p.APIKeyFile != "" {
			text, err := readFile(p.APIKeyFile)
			if err != nil {
				fail(path+".apiKeyFile", "the key cannot be read: %v", err)
			} else if key = strings.TrimSpace(string(text)); key == "" {
				fail(path+".apiKeyFile", "the file %s is empty; put the key into it", p.APIKeyFile)
			}
		}
	}
	return errs
}

// Where returns where a setting, or the closest one that contains it, was set:
// "file:line:column", a variable or a flag. It is empty for a default.
func (c Config) Where(path string) string {
	for path != "" {
		if where, ok := c.sources[path]; ok {
			return where
		}
		path = path[:max(0, strings.LastIndexAny(path, ".["))]
	}
	return ""
}

// Explain adds to an error the place where the setting at fault was set. It
// recognizes such errors by a method SettingPath() string, in joined errors
// too; others are returned unchanged.
func (c Config) Explain(err error) error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var errs []error
		for _, e := range joined.Unwrap() {
			errs = append(errs, c.Explain(e))
		}
		return errors.Join(errs...)
	}
	var of interface{ SettingPath() string }
	if errors.As(err, &of) {
		if where := c.Where(of.SettingPath()); where != "" {
			return fmt.Errorf("%s: %w", where, err)
		}
	}
	return err
}

// Variables lists the environment variables that the service reads, sorted.
func Variables() []string {
	var c Config
	names := []string{"STOA_CONFIG", "STOA_UPSTREAM", "STOA_UPSTREAM_MODEL", "STOA_UPSTREAM_API_KEY"}
	for _, v := range variables(reflect.ValueOf(&c).Elem(), "") {
		names = append(names, v.name)
	}
	for _, v := range vendors() {
		names = append(names, v.keyVariable, v.urlVariable)
	}
	slices.Sort(names)
	return names
}

// UnknownVariables returns a warning for each STOA_… variable in environ (see
// os.Environ) that nothing reads, which is likely a misspelt setting. Variables
// of the command line, of tests, and those that Kubernetes creates for a
// service named "stoa" are not reported.
//
// They are warnings while an unknown setting in the file is an error, because
// the environment is shared: Kubernetes puts STOA_PORT=tcp://… and
// STOA_SERVICE_HOST into every pod beside a service named "stoa", and an error
// would keep the service from starting. For the same reason no setting may
// ever be named STOA_PORT.
func UnknownVariables(environ []string) []string {
	known := map[string]bool{"STOA_API_KEY": true, "STOA_BASE_URL": true, "STOA_VENDOR_STREAMS": true, "STOA_PORT": true, "STOA_SERVICE_HOST": true}
	names := Variables()
	for _, name := range names {
		known[name] = true
	}
	warnings := map[string]string{}
	for _, pair := range environ {
		name, _, _ := strings.Cut(pair, "=")
		if !strings.HasPrefix(name, "STOA_") || known[name] || strings.HasPrefix(name, "STOA_TEST_") ||
			strings.HasPrefix(name, "STOA_PORT_") || strings.HasPrefix(name, "STOA_SERVICE_PORT") {
			continue
		}
		hint := "; \"stoa config print\" shows the settings in force"
		if near := didYouMean(name, names); strings.Contains(near, "did you mean") {
			hint = near
		}
		warnings[name] = fmt.Sprintf("the environment variable %s is not a setting and is ignored%s", name, hint)
	}
	var list []string
	for _, name := range slices.Sorted(maps.Keys(warnings)) {
		list = append(list, warnings[name])
	}
	return list
}
