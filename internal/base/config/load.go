package config

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strconv"
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
	Where   string // place: "stoa.yaml:3:5", "STOA_LISTEN", "--listen"; empty if unknown
	Path    string // "limits.body"; empty means the file itself
	Message string // problem and remedy
}

// Error returns the known parts: the place, the setting and the message.
func (p *Problem) Error() string {
	var parts []string
	for _, part := range []string{p.Where, p.Path, p.Message} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, ": ")
}

// Load reads the settings: defaults, then the file named by --config or STOA_CONFIG, then the
// environment, then the flags. An empty variable counts as not set. Its error joins one
// [*Problem] for each invalid setting, so that all can be corrected together.
func Load(flags Flags, getenv func(string) string, readFile func(string) ([]byte, error)) (Config, error) {
	c, err := Examine(flags, getenv, readFile)
	if err != nil {
		return Config{}, err
	}
	return c, nil
}

// Examine is like [Load], but also returns the readable settings with defaults instead of invalid
// ones, so that further checks can report their problems, too. The settings are empty if the file is unreadable
// or not YAML.
func Examine(flags Flags, getenv func(string) string, readFile func(string) ([]byte, error)) (Config, error) {
	c := Defaults()
	c.sources = map[string]string{}
	plans := c.Plans
	c.Plans = nil
	file := flags.Config
	if file == "" {
		file = getenv("STOA_CONFIG")
	}
	var errs []error
	if file != "" {
		text, err := readFile(file)
		if err != nil {
			return Config{}, &Problem{Where: file, Message: fmt.Sprintf("the configuration file cannot be read: %v", err)}
		}
		var whole bool
		if whole, errs = readYAML(&c, file, text); !whole {
			return Config{}, errors.Join(errs...)
		}
	}
	c.Plans = mergePlans(plans, c.Plans)
	c.priceCachedInput()
	errs = append(errs, c.readVariables(getenv)...)
	errs = append(errs, c.readFlags(flags)...)
	c.addVendors(getenv)
	errs = append(errs, c.readKeys(getenv, readFile)...)
	c.PublicURL = strings.TrimSuffix(c.PublicURL, "/")
	var more []error
	for _, p := range c.Check() {
		more = append(more, p)
	}
	err := c.Together(errors.Join(errs...), errors.Join(more...))
	if err == nil {
		c.warn()
	}
	return c, err
}

// Together joins the errors of two checks of the same settings. It omits errors of the second check
// about settings that the first one reported, their parents and their children, because these usually follow from
// the first. Errors are in the order of the file's lines; errors without a line come last.
func (c Config) Together(first, second error) error {
	all := flatten(first)
	for _, err := range flatten(second) {
		path := pathOf(err)
		_, written := c.sources[path]
		known := slices.ContainsFunc(all, func(e error) bool { return related(pathOf(e), path) })
		if path == "" || !known && !c.implied(path) && (written || !c.excused[path]) {
			all = append(all, err)
		}
	}
	slices.SortStableFunc(all, func(a, b error) int { return slices.Compare(c.position(a), c.position(b)) })
	return errors.Join(all...)
}

func flatten(err error) (all []error) {
	if err == nil {
		return nil
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			all = append(all, flatten(e)...)
		}
		return all
	}
	return []error{err}
}

// pathOf returns the path of the setting that an error concerns, or "".
func pathOf(err error) string {
	if p, ok := errors.AsType[*Problem](err); ok {
		return p.Path
	}
	var of interface{ SettingPath() string }
	if errors.As(err, &of) {
		return of.SettingPath()
	}
	return ""
}

// related reports whether two paths name the same setting, or one contains the other.
func related(a, b string) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	return a != "" && strings.HasPrefix(b, a) && (len(a) == len(b) || b[len(a)] == '.' || b[len(a)] == '[')
}

// position returns the line and column that an error concerns. Errors without them sort last.
func (c Config) position(err error) []int {
	where := c.Where(pathOf(err))
	if p, ok := errors.AsType[*Problem](err); ok {
		where = p.Where
	}
	parts := strings.Split(where, ":")
	if len(parts) < 3 {
		return []int{1 << 30}
	}
	line, lineErr := strconv.Atoi(parts[len(parts)-2])
	column, columnErr := strconv.Atoi(parts[len(parts)-1])
	if lineErr != nil || columnErr != nil {
		return []int{1 << 30}
	}
	return []int{line, column}
}

// implied reports whether a path is a price that the file does not contain. Its errors are hidden,
// because it is derived from the price of input, whose error is reported.
func (c Config) implied(path string) bool {
	_, written := c.sources[path]
	return strings.HasSuffix(path, ".price.cachedInput") && !written
}

// priceCachedInput sets the price of cached input to that of input if the file omits it, since 0 would make it
// free.
func (c *Config) priceCachedInput() {
	for id, m := range c.Models {
		if _, set := c.sources["models."+id+".price.cachedInput"]; m.Price != nil && !set {
			m.Price.CachedInput = m.Price.Input
		}
	}
	for i, p := range c.Providers {
		if _, set := c.sources[fmt.Sprintf("providers[%d].price.cachedInput", i)]; p.Price != nil && !set {
			p.Price.CachedInput = p.Price.Input
		}
	}
}

type variable struct {
	name, path string
	value      reflect.Value
	constant   bool // see Config
}

func variables(v reflect.Value, path string) []variable {
	var list []variable
	for i := range v.NumField() {
		f := v.Type().Field(i)
		p := join(path, yamlName(f))
		if name := f.Tag.Get("env"); name != "" {
			list = append(list, variable{name, p, v.Field(i), false})
		} else if was, name := constant(f); was != "" {
			list = append(list, variable{name, join(path, was), v.Field(i), true})
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

// readKeys reads the keys in variables or files.
func (c *Config) readKeys(getenv func(string) string, readFile func(string) ([]byte, error)) (errs []error) {
	fail := func(path, format string, args ...any) {
		errs = append(errs, &Problem{Where: c.Where(path), Path: path, Message: fmt.Sprintf(format, args...)})
	}
	fromFile := func(path, name string) (key string) {
		text, err := readFile(name)
		if err != nil {
			fail(path, "the key cannot be read: %v", err)
		} else if key = strings.TrimSpace(string(text)); key == "" {
			fail(path, "the file %s is empty; put the key into it", name)
		}
		return key
	}
	// read returns a secret from its file, its variable or stored, in this order.
	read := func(stored, path, envSetting, env, hint, fileSetting, file string) *string {
		if env != "" {
			if stored = getenv(env); stored == "" {
				fail(path+"."+envSetting, "the environment variable %s is not set%s", env, hint)
			}
		}
		if file != "" {
			stored = fromFile(path+"."+fileSetting, file)
		}
		return &stored
	}
	for i := range c.Providers {
		p, path := &c.Providers[i], fmt.Sprintf("providers[%d]", i)
		p.key = read(string(p.APIKey), path, "apiKeyEnv", p.APIKeyEnv, "; set it, or remove apiKeyEnv if "+p.Name+" needs no key", "apiKeyFile", p.APIKeyFile)
		for j := range p.Keys {
			k := &p.Keys[j]
			k.key = read(string(k.Secret), fmt.Sprintf("%s.keys[%d]", path, j), "env", k.Env, "", "file", k.File)
		}
	}
	for i := range c.SignIn.OIDC {
		p := &c.SignIn.OIDC[i]
		p.secret = read("", fmt.Sprintf("signIn.oidc[%d]", i), "clientSecretEnv", p.ClientSecretEnv, "; set it, or remove clientSecretEnv for a client without a secret", "clientSecretFile", p.ClientSecretFile)
	}
	mail := &c.Mail.SMTP
	mail.password = read("", "mail.smtp", "passwordEnv", mail.PasswordEnv, "; set it to the password of the mail server", "passwordFile", mail.PasswordFile)
	if u, err := url.Parse(c.PublicURL); err == nil {
		mail.public = u.Hostname()
	}
	stripe := &c.Payments.Stripe
	stripe.key = read("", "payments.stripe", "keyEnv", stripe.KeyEnv, "", "keyFile", stripe.KeyFile)
	for i := range stripe.WebhookSecrets {
		w := &stripe.WebhookSecrets[i]
		w.secret = read("", fmt.Sprintf("payments.stripe.webhookSecrets[%d]", i), "env", w.Env, "", "file", w.File)
	}
	for i := range c.Secrets.Keys {
		k := &c.Secrets.Keys[i]
		k.key = read("", fmt.Sprintf("secrets.keys[%d]", i), "env", k.Env, "; set it to a key (openssl rand -hex 32 makes one)", "file", k.File)
	}
	return errs
}

// Where returns the source of a setting, or of the closest one that contains it:
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

// Explain adds a setting's source to its error. It recognizes such errors, also joined ones, by a method
// SettingPath() string, because other packages cannot return a [Problem] without the source. Other errors are
// unchanged.
func (c Config) Explain(err error) error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var errs []error
		for _, e := range joined.Unwrap() {
			if !c.implied(pathOf(e)) {
				errs = append(errs, c.Explain(e))
			}
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
		if !v.constant {
			names = append(names, v.name)
		}
	}
	for _, v := range vendors() {
		names = append(names, v.keyVariable, v.urlVariable)
	}
	slices.Sort(names)
	return names
}

// UnknownVariables returns a warning for each STOA_… variable in environ (see os.Environ)
// that is not a setting, because it is probably a misspelt one. It ignores variables of the command
// line, of tests, and those that Kubernetes creates for a service named "stoa".
//
// They are warnings, although an unknown setting in the file is an error, because the
// environment is shared: Kubernetes sets STOA_PORT=tcp://… and STOA_SERVICE_HOST in every
// pod next to a service named "stoa", and an error would prevent the start. For the same
// reason no setting may ever be named STOA_PORT.
func UnknownVariables(environ []string) []string {
	known := map[string]bool{"STOA_API_KEY": true, "STOA_BASE_URL": true, "STOA_PROFILE": true, "STOA_WEBHOOK_SECRET": true, "STOA_VENDOR_STREAMS": true, "STOA_PORT": true, "STOA_SERVICE_HOST": true}
	names := Variables()
	for _, v := range variables(reflect.ValueOf(new(Config)).Elem(), "") {
		known[v.name] = true
	}
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
