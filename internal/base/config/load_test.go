package config

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"stoa/internal/base/stoa"
)

func TestALaterSourceWins(t *testing.T) {
	t.Parallel()
	yaml := "listen: 127.0.0.1:1\ndata: from-file\nlog: {level: warn}\nlimits: {body: 1MiB}\n"
	environ := env("STOA_CONFIG=stoa.yaml", "STOA_LISTEN=127.0.0.1:2", "STOA_DATA=from-env", "STOA_LIMIT_FILE=5MiB", "STOA_DRAIN=5s")
	c, err := Load(Flags{Listen: "127.0.0.1:3"}, environ, files(yaml))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ what, got, want string }{
		{"a flag over the environment", c.Listen, "127.0.0.1:3"},
		{"the environment over the file", c.Data, "from-env"},
		{"the file over the default", c.Log.Level, "warn"},
		{"the default", c.Log.Format, "text"},
		{"a nested member of the file", c.Limits.Body.String(), "1MiB"},
		{"a nested member of the environment", c.Limits.File.String(), "5MiB"},
		{"a duration of the environment", c.Drain.String(), "5s"},
		{"where a flag was given", c.Where("listen"), "--listen"},
		{"where a variable was given", c.Where("data"), "STOA_DATA"},
		{"the place of a member of the file", c.Where("limits.body"), "stoa.yaml:4:16"},
		{"where a default comes from", c.Where("keepAlive"), ""},
	} {
		if tt.got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.what, tt.got, tt.want)
		}
	}
}

func TestLoadWithoutSettingsIsDefaults(t *testing.T) {
	t.Parallel()
	want, err := Load(Flags{}, env(), files(""))
	if err != nil {
		t.Fatal(err)
	}
	opts := cmp.Options{cmpopts.IgnoreUnexported(Config{}, SMTP{}, Stripe{}), cmpopts.EquateEmpty()}
	if diff := cmp.Diff(want, Defaults(), opts); diff != "" {
		t.Errorf("loaded and default differ (-loaded +default):\n%s", diff)
	}
	if problems := Defaults().Check(); len(problems) > 0 {
		t.Errorf("the defaults have problems: %v", problems)
	}
	// A zero that was set is not replaced by the default.
	c, err := Load(Flags{}, env("STOA_FIRST_GRANT_MICRO=0"), files(""))
	if err != nil || c.FirstGrant != 0 {
		t.Errorf("a grant of zero became %v (%v)", c.FirstGrant, err)
	}
}

func TestCachedInputCostsInputByDefault(t *testing.T) {
	t.Parallel()
	c, err := Load(Flags{Config: "stoa.yaml"}, env(), files(`models:
  a: {family: x, price: {input: 7, output: 9}}
  b: {family: x, price: {input: 7, cachedInput: 0, output: 9}}
  c: {family: x, price: {input: 7, cachedInput: 3, output: 9}}
`))
	if err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]stoa.Credits{"a": 7, "b": 0, "c": 3} {
		if got := c.Models[id].Price.CachedInput; got != want {
			t.Errorf("cached input of %s costs %d, want %d", id, got, want)
		}
	}
}

func TestAVendorKeyEnablesItsFamily(t *testing.T) {
	t.Parallel()
	local := []string{"STOA_UPSTREAM=http://127.0.0.1:11434/v1", "STOA_UPSTREAM_MODEL=llama3.2", "STOA_UPSTREAM_API_KEY=local"}
	fronted := []stoa.Route{{Provider: "upstream", Model: "llama3.2"}}
	upstream := stoa.Provider{Name: "upstream", Wire: "chat", Dialect: "compatible", BaseURL: "http://127.0.0.1:11434/v1", APIKey: "local", Discover: stoa.Discovery{On: true}}
	anthropic := stoa.Provider{Name: "anthropic", Wire: "messages", BaseURL: "https://api.anthropic.com", APIKey: "a"}
	for _, tt := range []struct {
		name      string
		yaml      string
		env       []string
		providers []stoa.Provider
		families  map[string][]stoa.Route
	}{
		{name: "nothing set"},
		{
			name: "all four vendors",
			env:  []string{"ANTHROPIC_API_KEY=a", "GEMINI_API_KEY=b", "OPENAI_API_KEY=c", "DEEPSEEK_API_KEY=d"},
			providers: []stoa.Provider{
				anthropic,
				{Name: "gemini", Wire: "gemini", BaseURL: "https://generativelanguage.googleapis.com", APIKey: "b"},
				{Name: "openai", Wire: "responses", BaseURL: "https://api.openai.com/v1", APIKey: "c"},
				{Name: "deepseek", Wire: "chat", Dialect: "deepseek", BaseURL: "https://api.deepseek.com", APIKey: "d"},
			},
			families: map[string][]stoa.Route{
				"alpha": {{Provider: "anthropic"}}, "beta": {{Provider: "gemini"}}, "gamma": {{Provider: "openai"}}, "delta": {{Provider: "deepseek"}},
			},
		},
		{
			name:      "another base URL, its last slash taken off",
			env:       []string{"OPENAI_API_KEY=c", "OPENAI_BASE_URL=http://127.0.0.1:9/v1/"},
			providers: []stoa.Provider{{Name: "openai", Wire: "responses", BaseURL: "http://127.0.0.1:9/v1", APIKey: "c"}},
			families:  map[string][]stoa.Route{"gamma": {{Provider: "openai"}}},
		},
		{
			name:      "one server before every family",
			env:       local,
			providers: []stoa.Provider{upstream},
			families:  map[string][]stoa.Route{"alpha": fronted, "beta": fronted, "gamma": fronted, "delta": fronted},
		},
		{
			name:      "one server with its own models only",
			env:       []string{"STOA_UPSTREAM=http://127.0.0.1:11434/v1", "STOA_UPSTREAM_API_KEY=local"},
			providers: []stoa.Provider{upstream},
		},
		{
			name:      "all vendors and one server with its own models",
			env:       append([]string{"ANTHROPIC_API_KEY=a"}, local[:1]...),
			yaml:      "providers: [{name: mine, wire: chat, baseURL: 'http://127.0.0.1:7/v1', discover: true, price: {input: 7, output: 9}}]\n",
			providers: []stoa.Provider{{Name: "mine", Wire: "chat", Dialect: "compatible", BaseURL: "http://127.0.0.1:7/v1", Discover: stoa.Discovery{On: true, Priced: true, Price: stoa.Tariff{Input: 7, CachedInput: 7, Output: 9}}}, anthropic, {Name: "upstream", Wire: "chat", Dialect: "compatible", BaseURL: "http://127.0.0.1:11434/v1", Discover: stoa.Discovery{On: true}}},
			families:  map[string][]stoa.Route{"alpha": {{Provider: "anthropic"}}},
		},
		{
			name:      "a vendor's key wins over the one server",
			env:       append([]string{"ANTHROPIC_API_KEY=a"}, local...),
			providers: []stoa.Provider{anthropic, upstream},
			families:  map[string][]stoa.Route{"alpha": {{Provider: "anthropic"}}, "beta": fronted, "gamma": fronted, "delta": fronted},
		},
		{
			name:      "the file wins over both",
			yaml:      "providers: [{name: mine, wire: messages, baseURL: 'http://127.0.0.1:7', apiKey: m}]\nfamilies: {alpha: [{provider: mine}]}\n",
			env:       append([]string{"ANTHROPIC_API_KEY=a"}, local...),
			providers: []stoa.Provider{{Name: "mine", Wire: "messages", BaseURL: "http://127.0.0.1:7", APIKey: "m"}, upstream},
			families:  map[string][]stoa.Route{"alpha": {{Provider: "mine"}}, "beta": fronted, "gamma": fronted, "delta": fronted},
		},
		{
			name:      "a provider of the file keeps its name from the key's own",
			yaml:      "providers: [{name: anthropic, wire: messages, baseURL: 'http://127.0.0.1:7', apiKeyEnv: ANTHROPIC_API_KEY}]\n",
			env:       []string{"ANTHROPIC_API_KEY=a"},
			providers: []stoa.Provider{{Name: "anthropic", Wire: "messages", BaseURL: "http://127.0.0.1:7", APIKey: "a"}},
			families:  map[string][]stoa.Route{"alpha": {{Provider: "anthropic"}}},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, err := Load(Flags{Config: "stoa.yaml"}, env(tt.env...), files(tt.yaml))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.providers, c.Upstreams()); diff != "" {
				t.Errorf("providers (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.families, c.Families); diff != "" {
				t.Errorf("families (-want +got):\n%s", diff)
			}
			if len(c.Warnings) > 0 {
				t.Errorf("warnings: %v", c.Warnings)
			}
		})
	}
}

func TestAnchors(t *testing.T) {
	t.Parallel()
	c, err := Load(Flags{Config: "stoa.yaml"}, env("ANTHROPIC_API_KEY=a"), files(full))
	if err != nil {
		t.Fatal(err)
	}
	want := stoa.Timeouts{FirstByte: 90 * time.Second, Idle: time.Minute, Total: 15 * time.Minute}
	if got := c.Upstreams()[1].Timeouts; got != want {
		t.Errorf("timeouts behind an alias: got %v, want %v", got, want)
	}
	if got := c.Upstreams()[3].APIKey; got != "sk-from-a-file" {
		t.Errorf("key of a file: got %q", got)
	}
	if got := c.AccountPlans()["team"]; !got.GatedModels || got.ConcurrentPerKey != 4 || got.RequestsPerMinute != 0 || got.ID != "team" {
		t.Errorf("a plan of the operator's own: got %+v", got)
	}
	if got := c.AccountPlans()["pro"]; !got.GatedModels || got.RequestsPerMinute != 600 || got.ActiveSessions != 20 {
		t.Errorf("a changed plan keeps what was not changed: got %+v", got)
	}
	if c.RateLimited() {
		t.Error("rateLimits: off has no effect")
	}
}

func TestWarnings(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, yaml string
		env        []string
		want       string
	}{
		{"a URL without its key", "", []string{"GEMINI_BASE_URL=http://127.0.0.1:1"}, "GEMINI_BASE_URL is set without GEMINI_API_KEY"},
		{"a model without its server", "", []string{"STOA_UPSTREAM_MODEL=llama3.2"}, "do nothing without STOA_UPSTREAM"},
		{"a provider that nothing uses", "providers: [{name: idle, wire: messages}]", nil, "nothing uses the provider idle"},
		{"a server without a path", "", []string{"STOA_UPSTREAM=http://127.0.0.1:11434", "STOA_UPSTREAM_MODEL=m"}, "usually need /v1"},
		{"a mask for a key", "providers: [{name: a, wire: messages, apiKey: '********'}]\nfamilies: {alpha: [{provider: a}]}", nil, "this is the mask"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, err := Load(Flags{Config: "stoa.yaml"}, env(tt.env...), files(tt.yaml))
			if err != nil {
				t.Fatal(err)
			}
			if len(c.Warnings) != 1 || !strings.Contains(c.Warnings[0], tt.want) {
				t.Errorf("warnings: got %q, want one with %q", c.Warnings, tt.want)
			}
		})
	}
}

// TestConstants has settings of earlier versions in a file and in variables: with their value they change nothing, with
// another one the service does not start.
func TestConstants(t *testing.T) {
	t.Parallel()
	c, err := Load(Flags{Config: "stoa.yaml"}, env("STOA_LIMIT_DRIVE_PATH=1024"), files("headerWait: 10s\nlimits: {agentVersions: 200, inputWait: 7d}\n"))
	if err != nil || c.Hash() != Defaults().Hash() {
		t.Errorf("the values of the constants are refused or change the settings: %v", err)
	}
	_, err = Load(Flags{Config: "stoa.yaml"}, env("STOA_LIMIT_QUEUE_WAIT=2h"), files("headerWait: 5s\nlimits: {spacesPerAccount: 1}\n"))
	want := "stoa.yaml:1:13: headerWait: is no longer a setting; its value is always 10s. Remove it\n" +
		"stoa.yaml:2:28: limits.spacesPerAccount: is no longer a setting; its value is always 100. Remove it\n" +
		"STOA_LIMIT_QUEUE_WAIT: limits.queueWait: is no longer a setting; its value is always 1h. Remove it"
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	if got := UnknownVariables([]string{"STOA_LIMIT_QUEUE_WAIT=1h"}); len(got) > 0 {
		t.Errorf("the value of a constant is reported: %v", got)
	}
}

func TestUnknownVariables(t *testing.T) {
	t.Parallel()
	got := UnknownVariables([]string{
		"STOA_LISTN=x", "STOA_LISTEN=x", "STOA_WIDGET=1", "PATH=/bin", "STOA_API_KEY=sk_x", "STOA_BASE_URL=x", "STOA_VENDOR_STREAMS=x", "STOA_TEST_POSTGRES=x",
		"STOA_PORT=tcp://10.0.0.1:80", "STOA_PORT_80_TCP_ADDR=10.0.0.1", "STOA_SERVICE_HOST=10.0.0.1", "STOA_SERVICE_PORT_HTTP=80",
	})
	want := []string{
		`the environment variable STOA_LISTN is not a setting and is ignored; did you mean "STOA_LISTEN"?`,
		`the environment variable STOA_WIDGET is not a setting and is ignored; "stoa config print" shows the settings in force`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestBaseURL(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ public, address, want string }{
		{"", "127.0.0.1:8080", "http://127.0.0.1:8080"},
		{"", "0.0.0.0:8080", "http://localhost:8080"},
		{"", "[::]:8080", "http://localhost:8080"},
		{"", ":8080", "http://localhost:8080"},
		{"", "[::1]:80", "http://[::1]"},
		{"", "example.com:80", "http://example.com"},
		{"https://stoa.example.com", "127.0.0.1:8080", "https://stoa.example.com"},
	} {
		if got := (Config{PublicURL: tt.public}).BaseURL(tt.address); got != tt.want {
			t.Errorf("%q at %q: got %q, want %q", tt.public, tt.address, got, tt.want)
		}
	}
}

// settingError is the kind of error of a package that checks settings later.
type settingError struct{ path string }

func (e *settingError) Error() string       { return e.path + ": wrong" }
func (e *settingError) SettingPath() string { return e.path }

func TestExplainAddsThePlaceOfASetting(t *testing.T) {
	t.Parallel()
	c, err := Load(Flags{Config: "stoa.yaml"}, env("ANTHROPIC_API_KEY=a"), files(full))
	if err != nil {
		t.Fatal(err)
	}
	err = c.Explain(errors.Join(&settingError{"auto[1]"}, &settingError{"models.ours-3.2.price.output"}, &settingError{"sandbox"}, errors.New("another")))
	want := "stoa.yaml:27:25: auto[1]: wrong\nstoa.yaml:24:31: models.ours-3.2.price.output: wrong\nsandbox: wrong\nanother"
	if diff := cmp.Diff(want, err.Error()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if c.Explain(nil) != nil {
		t.Error("no error became one")
	}
}

func TestSecretsAreMaskedInEveryFormat(t *testing.T) {
	t.Parallel()
	c := Config{BootstrapKey: "sk_hidden", Database: "postgres://u:hidden@h/d", Providers: []Provider{{APIKey: "hidden", key: new("hidden")}}}
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		if got := fmt.Sprintf(format, c); strings.Contains(got, "hidden") {
			t.Errorf("%s shows a secret: %s", format, got)
		}
	}
}

func TestAMissingFileIsNamed(t *testing.T) {
	t.Parallel()
	_, err := Load(Flags{Config: "elsewhere.yaml"}, env(), files(""))
	if err == nil || !strings.Contains(err.Error(), "elsewhere.yaml: the configuration file cannot be read") || errors.Is(err, os.ErrExist) {
		t.Errorf("got %v", err)
	}
}

// All sources report their problems, in the order of the lines, without repetitions and
// without problems of derived values.
func TestEverythingWrongIsSaidAtOnce(t *testing.T) {
	t.Parallel()
	const text = `listen: nowhere
lisen: x
keepAlive: soon
providers:
  - {name: local, wire: chat}
  - {name: claude, wire: messages, apiKeyEnv: NO_SUCH_KEY}
  - {name: other, wire: chat, baseUrl: "http://127.0.0.1:1/v1"}
families:
  alpha: [{provider: cluade}]
models:
  mine: {family: f, price: {input: -1, output: 5}}
`
	c, err := Examine(Flags{Config: "stoa.yaml", LogLevel: "loud"}, env(), files(text))
	err = c.Together(err, errors.Join(
		&settingProblem{"models.mine.price.input"}, &settingProblem{"models.mine.price.cachedInput"}, &settingProblem{"families.alpha[0].provider"}, &settingProblem{"auto[0]"}))
	var got []string
	for line := range strings.Lines(err.Error()) {
		place, rest, _ := strings.Cut(line, ": ")
		path, _, _ := strings.Cut(rest, ": ")
		got = append(got, strings.TrimSpace(place+" "+path))
	}
	want := []string{
		"stoa.yaml:1:9 listen", "stoa.yaml:2:1 lisen", "stoa.yaml:3:12 keepAlive", "stoa.yaml:5:5 providers[0].baseURL",
		"stoa.yaml:6:47 providers[1].apiKeyEnv", "stoa.yaml:7:31 providers[2].baseUrl", "stoa.yaml:9:22 families.alpha[0].provider",
		"models.mine.price.input is wrong", "--log-level log.level", "auto[0] is wrong",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s\n%v", diff, err)
	}
}

// A settingProblem is an error of another package about a setting.
type settingProblem struct{ path string }

func (s *settingProblem) Error() string       { return s.path + ": is wrong" }
func (s *settingProblem) SettingPath() string { return s.path }
