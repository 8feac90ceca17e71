package config

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"stoa/internal/base/outbound"
	"stoa/internal/base/stoa"
)

type checker struct {
	Config
	list []*Problem
}

func (c *checker) problem(path, format string, args ...any) {
	c.list = append(c.list, &Problem{Where: c.Where(path), Path: path, Message: fmt.Sprintf(format, args...)})
}

// Check returns every problem of the settings in a fixed order. It does not check models, prices and auto,
// because these need the list of models in package catalog.
func (c Config) Check() []*Problem {
	k := &checker{Config: c}
	k.constants(reflect.ValueOf(c), reflect.ValueOf(Defaults()), "")
	k.address()
	k.telemetry()
	k.bucket()
	k.outbound()
	k.words()
	k.stateKeys()
	k.secretsKeys()
	k.durations()
	k.sizes()
	k.limits()
	k.plans()
	k.signIn()
	k.mail()
	k.payments()
	k.providers()
	k.routes()
	return k.list
}

// constants refuses other values of former settings, because they would have no effect.
func (c *checker) constants(v, is reflect.Value, path string) {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if was, _ := constant(f); was != "" && !v.Field(i).Equal(is.Field(i)) {
			text := fmt.Sprint(is.Field(i).Interface())
			if d, ok := is.Field(i).Interface().(time.Duration); ok {
				text = durationText(d)
			}
			c.problem(join(path, was), "is no longer a setting; its value is always %s. Remove it", text)
		} else if name := yamlName(f); name != "" && f.Type.Kind() == reflect.Struct {
			c.constants(v.Field(i), is.Field(i), join(path, name))
		}
	}
}

// isPostgres reports whether a text looks like a PostgreSQL URL.
func isPostgres(text Secret) bool {
	u, err := url.Parse(string(text))
	return err == nil && (u.Scheme == "postgres" || u.Scheme == "postgresql") && (u.Host != "" || u.Query().Get("host") != "")
}

// address checks the listen addresses and the locations of the data. It opens and creates nothing, so
// that "stoa config check" can run anywhere.
func (c *checker) address() {
	if !isAddress(c.Listen) {
		c.problem("listen", "%q is not an address; write host:port, such as 127.0.0.1:8080, or :8080 for every interface", c.Listen)
	}
	if c.Data == "" {
		c.problem("data", "the data directory has no name; write one, such as ./data")
	}
	switch {
	case c.Database == "":
	case stoa.IsUnescaped(string(c.Database)):
		c.problem("database", "%s", stoa.UnescapedAddress)
	case !isPostgres(c.Database):
		c.problem("database", "this is not a PostgreSQL URL; write postgres://user:password@host:5432/name, or leave it empty for the embedded store")
	}
	if c.DatabaseListen != "" {
		switch {
		case c.Database == "":
			c.problem("databaseListen", "there is no database to listen to; set database, or leave this empty")
		case stoa.IsUnescaped(string(c.DatabaseListen)):
			c.problem("databaseListen", "%s", stoa.UnescapedAddress)
		case !isPostgres(c.DatabaseListen):
			c.problem("databaseListen", "this is not a PostgreSQL URL; write postgres://user:password@host:5432/name of the server itself, or leave it empty to use database")
		}
	}
	if c.PublicURL != "" {
		u, err := url.Parse(c.PublicURL)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.Path != "" || u.RawQuery != "" || u.Fragment != "" {
			c.problem("publicUrl", "%q is not an origin; write scheme and host only, such as https://stoa.example.com", c.PublicURL)
		}
	}
	if c.Contact.URL != "" {
		u, err := url.Parse(c.Contact.URL)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
			c.problem("contact.url", "%q is not the address of a page; write one such as https://example.com/top-up", c.Contact.URL)
		}
	}
	if c.Contact.Email != "" && !stoa.IsEmail(c.Contact.Email) {
		c.problem("contact.email", "%q is not an email address; write one such as help@example.com", c.Contact.Email)
	}
	if key := string(c.BootstrapKey); key != "" && (!strings.HasPrefix(key, "sk_") || len(key) < 32 ||
		strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' })) {
		c.list = append(c.list, &Problem{Where: "STOA_BOOTSTRAP_KEY", Message: "the first key must begin with sk_, have at least 32 characters, and contain only visible ASCII characters"})
	}
}

func isAddress(text string) bool {
	host, port, err := net.SplitHostPort(text)
	n, perr := strconv.Atoi(port)
	return err == nil && perr == nil && n >= 0 && n <= 65535 && !strings.ContainsAny(host, "/ ")
}

// MaxAccountMetrics is the maximum number of accounts with separate metrics, because each needs several time series.
const MaxAccountMetrics = 1000

func (c *checker) telemetry() {
	if address, _ := c.Admin(); address != "" && !isAddress(address) {
		c.problem("adminListen", "%q is not an address; write host:port, such as 127.0.0.1:9090, or off", c.AdminListen)
	}
	if n := c.Telemetry.AccountMetrics; n < 0 || n > MaxAccountMetrics {
		c.problem("telemetry.accountMetrics", "%d is out of range; use 0 to %d", n, MaxAccountMetrics)
	}
	if c.Telemetry.Traces == "" {
		return
	}
	u, err := url.Parse(c.Telemetry.Traces)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		c.problem("telemetry.traces", "this is not the address of an OTLP receiver for HTTP; write one such as http://127.0.0.1:4318")
	}
}

func (c *checker) bucket() {
	s := c.Drive.Store.S3
	const at = "drive.store.s3."
	if s.Endpoint == "" {
		if s.Bucket != "" {
			c.problem(at+"endpoint", "a bucket is named and no server that has it; write its URL, such as https://s3.eu-central-1.amazonaws.com")
		}
		return
	}
	u, err := url.Parse(s.Endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
		c.problem(at+"endpoint", "%q is not the URL of a server; write scheme and host only, such as https://s3.eu-central-1.amazonaws.com", s.Endpoint)
	}
	if len(s.Bucket) < 3 || len(s.Bucket) > 63 || strings.ContainsAny(s.Bucket, "/ ") {
		c.problem(at+"bucket", "%q is not the name of a bucket; it has 3 to 63 letters, digits, points and hyphens", s.Bucket)
	}
	if s.AccessKey == "" || s.SecretKey == "" {
		c.problem(at+"accessKey", "the bucket needs accessKey and secretKey; set them here, or in STOA_DRIVE_S3_ACCESS_KEY and STOA_DRIVE_S3_SECRET_KEY")
	}
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/-_.", r)
	}
	if len(s.Prefix) > 200 || strings.HasPrefix(s.Prefix, "/") || strings.Contains(s.Prefix, "..") || strings.ContainsFunc(s.Prefix, func(r rune) bool { return !plain(r) }) {
		c.problem(at+"prefix", "the prefix can have up to 200 letters, digits and / - _ . and begins with no slash; write one such as stoa/")
	}
	if s.Keep < 24*time.Hour || s.Keep > 10*365*24*time.Hour {
		c.problem(at+"keep", "%v is out of range; use 1d or more", s.Keep)
	}
}

// outbound checks the permitted destinations of requests, and the proxies.
func (c *checker) outbound() {
	for _, l := range []struct {
		path string
		list []string
	}{{"outbound.allow", c.Outbound.Allow}, {"outbound.deny", c.Outbound.Deny}} {
		if _, err := outbound.ParseDestinations(l.list); err != nil {
			c.problem(l.path, "%v", err)
		}
	}
	if _, err := stoa.ParseProxies(c.TrustedProxies); err != nil {
		c.problem("trustedProxies", "%v", err)
	}
	if _, err := c.Outbound.ProxyURL(); err != nil {
		c.problem("outbound.proxy", "%v", err)
	}
}

// words checks the settings with a fixed set of values.
func (c *checker) words() {
	for _, w := range []struct {
		path, word string
		allowed    []string
	}{
		{"durability", c.Durability, []string{"full", "process"}},
		{"sandbox", c.Sandbox, []string{"auto", "always", "off"}},
		{"rateLimits", c.RateLimits, []string{"on", "off"}},
		{"log.format", c.Log.Format, []string{"text", "json"}},
		{"log.level", c.Log.Level, []string{"debug", "info", "warn", "error"}},
		{"extensionOptions.tools.forced", c.ExtensionOptions.Tools.Forced, []string{"refuse", "auto"}},
		{"extensionOptions.images.url", c.ExtensionOptions.Images.URL, []string{"pass", "fetch", "refuse"}},
		{"extensionOptions.files.url", c.ExtensionOptions.Files.URL, []string{"pass", "fetch", "refuse"}},
		{"extensionOptions.tools.foreign", c.ExtensionOptions.Tools.Foreign, []string{"refuse", "ignore"}},
	} {
		if !slices.Contains(w.allowed, w.word) {
			c.problem(w.path, "%q is not one of %s", w.word, strings.Join(w.allowed, ", "))
		}
	}
	if n := c.ExtensionOptions.ChatCompletions.NoCredits; n != 402 && n != 429 {
		c.problem("extensionOptions.chatCompletions.noCredits", "%d is not one of 402, 429", n)
	}
}

// MinReceipts is the minimum retention of receipts. It is far longer than a call can be repeated
// under the same id, because a repeated call without its receipt would be charged again.
const MinReceipts = 30 * 24 * time.Hour

// MinAudit is the shortest retention of the audit log.
const MinAudit = 90 * 24 * time.Hour

// durations checks that times are plausible, so that a missing unit (nanoseconds) is noticed.
func (c *checker) durations() {
	for _, d := range []struct {
		path        string
		value       time.Duration
		least, most time.Duration
	}{
		{"drain", c.Drain, 0, time.Hour},
		{"keepAlive", c.KeepAlive, time.Second, 10 * time.Minute},
	} {
		if d.value < d.least || d.value > d.most {
			c.problem(d.path, "%v is out of range; use %v to %v", d.value, d.least, d.most)
		}
	}
	for _, d := range []struct {
		path         string
		value, least time.Duration
	}{
		{"retention.receipts", c.Retention.Receipts, MinReceipts},
		{"retention.events", c.Retention.Events, 24 * time.Hour},
		{"retention.sessions", c.Retention.Sessions, 24 * time.Hour},
		{"retention.audit", c.Retention.Audit, MinAudit},
	} {
		if d.value != 0 && d.value < d.least {
			c.problem(d.path, "%v is too short; use %dd or more, or 0 to keep them forever", d.value, d.least/(24*time.Hour))
		}
	}
	if keep := c.Requests.Keep; keep != 0 && (keep < time.Hour || keep > 10*365*24*time.Hour) {
		c.problem("requestLog.keep", "%v is out of range; use 1h to 3650d, or 0 to keep no request log", keep)
	}
	if c.FirstGrant < 0 {
		c.problem("firstGrantMicro", "%d is below zero; use micro-credits, or 0 for no grant", int64(c.FirstGrant))
	}
}

// sizes checks the sizes that the contract limits in replies that list the configuration.
func (c *checker) sizes() {
	for _, n := range []struct {
		path      string
		len, most int
	}{
		{"publicUrl", len(c.PublicURL), 2000},
		{"contact.url", len(c.Contact.URL), 2000},
		{"contact.email", len(c.Contact.Email), 254},
		{"providers", len(c.Providers), 1000},
		{"models", len(c.Models), 5000},
		{"plans", len(c.Plans), 500},
	} {
		if n.len > n.most {
			c.problem(n.path, "%d is more than the API allows; use up to %d", n.len, n.most)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(c.Plans)) {
		if name := c.Plans[id].Name; len(name) > 1000 {
			c.problem("plans."+id+".name", "%d bytes are more than the API allows; use up to 1000", len(name))
		}
	}
}

// limits checks that every limit is at least one, because zero would refuse everything.
func (c *checker) limits() {
	if n := c.Agents.CompactAt; n != 0 && (n < MinCompactAt || n > MaxCompactAt) {
		c.problem("agents.compactAt", "%d is not possible; use %d to %d percent, or 0 for never", n, MinCompactAt, MaxCompactAt)
	}
	v := reflect.ValueOf(c.Limits)
	for i := range v.NumField() {
		name, f := yamlName(v.Type().Field(i)), v.Field(i)
		if name == "" {
			continue // a former setting
		}
		path := "limits." + name
		switch n := f.Interface().(type) {
		case time.Duration:
			if n < time.Second {
				c.problem(path, "%v is less than a second; leave it out for the default", n)
			}
		case stoa.Credits:
			if n < 0 || n > 1000*1000*stoa.Credit {
				c.problem(path, "%d is not possible; use micro-credits, such as 500000 for half a credit, or 0 for no cap", int64(n))
			}
		default:
			if f.Int() < 1 {
				c.problem(path, "%d is not possible; use 1 or more, or leave it out for the default", f.Int())
			}
		}
	}
	const most = 1 << 30
	if c.Limits.Body > most {
		c.problem("limits.body", "%v is more than one request can have; use up to 1GiB", c.Limits.Body)
	}
	// The contract contains these as the maximum lengths of its texts.
	for _, text := range []struct {
		path        string
		value, most int
	}{
		{"limits.instructionsCharacters", c.Limits.InstructionsCharacters, 1_000_000},
		{"limits.messageCharacters", c.Limits.MessageCharacters, 1_000_000},
	} {
		if text.value > text.most {
			c.problem(text.path, "%d is more than the API allows; use up to %d", text.value, text.most)
		}
	}
	if c.Limits.Drive > c.Limits.DrivesPerAccount {
		c.problem("limits.drive", "%v is more than limits.drivesPerAccount (%v)", c.Limits.Drive, c.Limits.DrivesPerAccount)
	}
	if c.Limits.File > c.Limits.Drive {
		c.problem("limits.file", "%v is more than limits.drive (%v)", c.Limits.File, c.Limits.Drive)
	}
}

func (c *checker) plans() {
	for _, id := range slices.Sorted(maps.Keys(c.Plans)) {
		p, path := c.Plans[id], "plans."+id
		if !isName(id) {
			c.problem(path, "a plan's name has small letters, digits, - and _ only")
		}
		for _, n := range []struct {
			name  string
			value *int
		}{
			{"requestsPerMinute", p.RequestsPerMinute},
			{"requestsPerMinutePerAccount", p.RequestsPerMinutePerAccount},
			{"concurrentPerKey", p.ConcurrentPerKey},
			{"concurrentPerAccount", p.ConcurrentPerAccount},
			{"activeSessions", p.ActiveSessions},
		} {
			if or(n.value) < 0 {
				c.problem(path+"."+n.name, "%d is below zero; use 0 for no limit", *n.value)
			}
		}
		if n := or(p.IncludedMicro); n < 0 || n > maxIncluded {
			c.problem(path+".includedMicro", "%d is not between 0 and %d micro-credits", n, maxIncluded)
		}
		if p.Renewal != "" && p.Renewal != "month" {
			c.problem(path+".renewal", "%q is not a period; use month", p.Renewal)
		}
		if or(p.IncludedMicro) > 0 && p.Renewal == "" {
			c.problem(path+".renewal", "a plan with includedMicro needs a period; use month")
		}
	}
}

// maxIncluded is the largest grant of a plan, in micro-credits.
const maxIncluded = 1_000_000_000_000_000

// isName reports whether a word can name a provider, a plan or a family.
func isName(s string) bool { return regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,63}$`).MatchString(s) }

// providers checks each provider. It sends no request, so that the service starts without them.
func (c *checker) providers() {
	seen := map[string]bool{}
	for i, p := range c.Providers {
		path := fmt.Sprintf("providers[%d]", i)
		switch {
		case p.Name == "":
			c.problem(path+".name", "a provider needs a name; any word will do")
		case p.Name == "sandbox":
			c.problem(path+".name", "\"sandbox\" is the built-in model; choose another name")
		case !isName(p.Name):
			c.problem(path+".name", "%q is not a valid name; use lowercase letters, digits, - and _", p.Name)
		case seen[p.Name]:
			c.problem(path+".name", "there are two providers named %q; rename one", p.Name)
		}
		seen[p.Name] = true
		switch w := stoa.WireNamed(p.Wire); {
		case w.Name == "":
			c.problem(path+".wire", "%q is not one of %s", p.Wire, wireNames(func(stoa.WireInfo) bool { return true }))
		case p.Dialect != "" && len(w.Dialects) == 0:
			c.problem(path+".dialect", "only the wire %s has dialects; remove it", wireNames(func(w stoa.WireInfo) bool { return len(w.Dialects) > 0 }))
		case p.Dialect != "" && !slices.Contains(w.Dialects, p.Dialect):
			c.problem(path+".dialect", "%q is not one of %s", p.Dialect, strings.Join(w.Dialects, ", "))
		default:
			c.baseURL(p, path+".baseURL")
		}
		var keys []string
		for name, value := range map[string]string{"apiKey": string(p.APIKey), "apiKeyEnv": p.APIKeyEnv, "apiKeyFile": p.APIKeyFile} {
			if value != "" {
				keys = append(keys, name)
			}
		}
		if len(p.Keys) > 0 {
			keys = append(keys, "keys")
			c.keys(p, path+".keys")
		}
		if slices.Sort(keys); len(keys) > 1 {
			c.problem(path, "%s are set; keep one of them", strings.Join(keys, " and "))
		}
		if !isKey(or(p.key)) {
			c.problem(path, "the key of %s has characters that are invalid in a key (a line break, a quote?); check its source", p.Name)
		}
		if p.MaxInFlight < 0 {
			c.problem(path+".maxInFlight", "%d is below zero; use 0 for the default of %d", p.MaxInFlight, DefaultInFlight)
		}
		if p.WholeReplies != "" && !slices.Contains([]string{"auto", "always", "never"}, p.WholeReplies) {
			c.problem(path+".wholeReplies", "%q is not one of auto, always, never", p.WholeReplies)
		}
		if p.Caching != "" && !slices.Contains([]string{"auto", "frugal", "caller", "off"}, p.Caching) {
			c.problem(path+".caching", "%q is not one of auto, frugal, caller, off", p.Caching)
		}
		if p.Discover && !stoa.WireNamed(p.Wire).Lists {
			c.problem(path+".discover", "the models of a server can be read with the wires %s only", wireNames(func(w stoa.WireInfo) bool { return w.Lists }))
		}
		if p.Price != nil && !p.Discover {
			c.problem(path+".price", "a provider has a price only with discover: true; set the prices of other models in models")
		}
		for _, t := range []struct {
			name  string
			value time.Duration
		}{{"firstByte", p.Timeouts.FirstByte}, {"idle", p.Timeouts.Idle}, {"whole", p.Timeouts.Whole}, {"total", p.Timeouts.Total}} {
			if t.value < 0 || t.value > 0 && t.value < time.Millisecond {
				c.problem(path+".timeouts."+t.name, "%v is not possible; leave it out for the default", t.value)
			}
		}
	}
}

// maxKeys is the maximum number of keys of a provider.
const maxKeys = 100

func (c *checker) keys(p Provider, path string) {
	if len(p.Keys) > maxKeys {
		c.problem(path, "%d are too many; use up to %d", len(p.Keys), maxKeys)
	}
	seen := map[string]bool{}
	for i, k := range p.Keys {
		at := fmt.Sprintf("%s[%d]", path, i)
		set := 0
		for _, source := range []string{k.Env, k.File, string(k.Secret)} {
			if source != "" {
				set++
			}
		}
		switch {
		case !isName(k.ID):
			c.problem(at+".id", "%q is not a valid id; use lowercase letters, digits, - and _", k.ID)
		case seen[k.ID]:
			c.problem(at+".id", "there are two keys with the id %q; rename one", k.ID)
		case set != 1:
			c.problem(at, "set one of env, file and secret")
		case k.Weight < 0 || k.Weight > 1000:
			c.problem(at+".weight", "%d is not a weight; use 1 to 1000, or leave it out", k.Weight)
		case !isKey(or(k.key)):
			c.problem(at, "the key has characters that are invalid in a key (a line break, a quote?); check its source")
		}
		seen[k.ID] = true
	}
}

// isKey reports whether a text has only characters that a key can contain.
func isKey(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' })
}

func wireNames(is func(stoa.WireInfo) bool) string {
	var names []string
	for _, w := range stoa.Wires() {
		if is(w) {
			names = append(names, w.Name)
		}
	}
	return strings.Join(names, ", ")
}

// baseURL checks that a URL has the form that the vendor's own library accepts, because a missing or
// an extra version segment would lead to a 404 that is hard to explain.
func (c *checker) baseURL(p Provider, path string) {
	text := p.baseURL()
	if text == "" {
		c.problem(path, "wire: chat has no usual server; write its URL, such as http://127.0.0.1:11434/v1, or dialect: openai or deepseek for theirs")
		return
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		c.problem(path, "this is not a URL; write one such as %s", exampleURL(p))
		return
	case u.User != nil:
		c.problem(path, "a URL must not contain credentials; use apiKeyEnv or apiKeyFile")
		return
	case u.RawQuery != "" || u.Fragment != "":
		c.problem(path, "the URL must end with its path; remove the part after ? or #")
		return
	}
	last := u.Path[strings.LastIndex(u.Path, "/")+1:]
	isEndpoint := func(w stoa.WireInfo) bool { return slices.Contains(w.Endpoints, last) }
	switch {
	case slices.ContainsFunc(stoa.Wires(), isEndpoint):
		c.problem(path, "the URL contains the name of the endpoint; write the part before it, such as %s", exampleURL(p))
	case stoa.WireNamed(p.Wire).Versioned && regexp.MustCompile(`^v[0-9]+(alpha|beta)?[0-9]*$`).MatchString(last):
		c.problem(path, "the wire %s adds the version itself; remove %q, such as %s", p.Wire, "/"+last, exampleURL(p))
	}
}

func (p Provider) dialect() string {
	return cmp.Or(p.Dialect, stoa.WireNamed(p.Wire).Dialect)
}

// baseURL returns the effective URL without a trailing slash: the configured one or the vendor's.
// It is empty for a server without a vendor.
func (p Provider) baseURL() string {
	if p.BaseURL != "" {
		return strings.TrimRight(p.BaseURL, "/")
	}
	switch p.Wire + "/" + p.dialect() {
	case "messages/":
		return "https://api.anthropic.com"
	case "gemini/":
		return "https://generativelanguage.googleapis.com"
	case "responses/", "chat/openai":
		return "https://api.openai.com/v1"
	case "chat/deepseek":
		return "https://api.deepseek.com"
	}
	return ""
}

// exampleURL returns a valid base URL for the provider's wire.
func exampleURL(p Provider) string {
	if u := (Provider{Wire: p.Wire, Dialect: p.Dialect}).baseURL(); u != "" {
		return u
	}
	return "http://127.0.0.1:11434/v1"
}

func (c *checker) routes() {
	for _, name := range slices.Sorted(maps.Keys(c.Families)) {
		path := "families." + name
		if !isName(name) {
			c.problem(path, "a family's name has small letters, digits, - and _ only")
		}
		if len(c.Families[name]) == 0 {
			c.problem(path, "the list is empty; name a provider, or remove the family")
		}
		c.routeList(c.Families[name], path)
	}
	routes := 0
	for _, id := range slices.Sorted(maps.Keys(c.Models)) {
		if len(id) > 128 {
			c.problem("models."+id, "a model's identifier has at most 128 bytes")
		}
		if m := c.Models[id]; len(m.Family) > 512 {
			c.problem("models."+id+".family", "%d bytes are more than the API allows; use up to 512", len(m.Family))
		} else if n := len(m.Aliases) + len(m.DeprecatedAliases); n > 900 {
			c.problem("models."+id+".aliases", "%d are more than the API allows; use up to 900", n)
		}
		routes += len(c.Models[id].Routes)
		c.routeList(c.Models[id].Routes, "models."+id+".routes")
	}
	if routes > 4000 {
		c.problem("models", "%d routes are more than the API allows; use up to 4000", routes)
	}
}

// routeList checks that each route names a configured provider.
func (c *checker) routeList(routes []stoa.Route, path string) {
	var names []string
	for _, p := range c.Providers {
		names = append(names, p.Name)
	}
	for i, r := range routes {
		p := fmt.Sprintf("%s[%d]", path, i)
		if !slices.Contains(names, r.Provider) {
			hint := "; add it to providers"
			if len(names) > 0 {
				hint = didYouMean(r.Provider, names)
			}
			c.problem(p+".provider", "there is no provider named %q%s", r.Provider, hint)
		}
		if len(r.Model) > 512 {
			c.problem(p+".model", "%d bytes are more than the API allows; use up to 512", len(r.Model))
		}
		if r.Weight < 0 || r.Weight > 1000 {
			c.problem(p+".weight", "%d is not a weight; use 1 to 1000, or leave it out", r.Weight)
		}
		if r.Override != nil {
			c.traits(*r.Override, p+".traits")
		}
	}
}

func (c *checker) traits(t stoa.Traits, path string) {
	if !slices.Contains([]string{"", "one", "none", "unless_thinking"}, t.Sampling) {
		c.problem(path+".sampling", "%q is not one of one, none, unless_thinking", t.Sampling)
	}
	if !slices.Contains([]string{"", "disabled", "between_tools"}, t.ThinkingOff) {
		c.problem(path+".thinkingOff", "%q is not one of disabled, between_tools", t.ThinkingOff)
	}
	if !slices.Contains([]string{"", "native", "json", "none"}, t.Schema) {
		c.problem(path+".schema", "%q is not one of native, json, none", t.Schema)
	}
	if !slices.Contains([]string{"", "nine"}, t.CallIDs) {
		c.problem(path+".callIDs", "%q is not nine", t.CallIDs)
	}
	efforts := []string{"none", "minimal", "low", "medium", "high", "xhigh", "max"}
	for i, e := range t.Efforts {
		if !slices.Contains(efforts, e) {
			c.problem(fmt.Sprintf("%s.efforts[%d]", path, i), "%q is not one of %s", e, strings.Join(efforts, ", "))
		}
	}
}

func (c *Config) warn() {
	used := map[string]bool{}
	for _, routes := range c.Families {
		for _, r := range routes {
			used[r.Provider] = true
		}
	}
	for _, m := range c.Models {
		for _, r := range m.Routes {
			used[r.Provider] = true
		}
	}
	for i, p := range c.Providers {
		if !used[p.Name] && !p.Discover {
			c.Warnings = append(c.Warnings, fmt.Sprintf("providers[%d]: nothing uses the provider %s; name it in families or in a model's routes", i, p.Name))
		}
		if p.APIKey == Masked {
			c.Warnings = append(c.Warnings, fmt.Sprintf("providers[%d].apiKey: this is the mask that \"config print\" writes, not a key", i))
		}
		u, err := url.Parse(p.baseURL())
		w := stoa.WireNamed(p.Wire)
		if err == nil && u.Path == "" && !w.Versioned && !slices.Contains(w.Unversioned, p.dialect()) {
			c.Warnings = append(c.Warnings, fmt.Sprintf("providers[%d].baseURL: %s has no path; servers of this kind usually need /v1 at the end", i, p.baseURL()))
		}
	}
	if strings.Contains(string(c.Database), Masked) {
		c.Warnings = append(c.Warnings, "database: the password is the mask that \"config print\" writes")
	}
	if strings.Contains(string(c.DatabaseListen), Masked) {
		c.Warnings = append(c.Warnings, "databaseListen: the password is the mask that \"config print\" writes")
	}
}
