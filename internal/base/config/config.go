// Package config defines the settings of the service: one struct, every default, the source
// of each value, and the checks.
//
// Settings come from four sources; a later one overrides an earlier one: defaults, a YAML
// file, the environment, flags. The package reads neither files nor the environment itself:
// its caller passes both in. It builds nothing from the settings and has no list of models
// (package catalog checks those). It never prints a secret.
//
// [Defaults] is the only place of defaults; packages that can be used without a
// configuration read them there. Start at [Config] and [Load]; docs/configuration.md
// describes every setting.
//
// The YAML library only parses; the package walks the syntax tree and sets the struct
// itself, with the function that it also uses for the environment and the flags. The walk
// records the position of every setting, so that a much later check (for example by the
// catalog) can still name the line: [Config.Where], [Config.Explain]. The library's own
// strict decoding stops at the first unknown name, words its errors after Go types and
// loses positions; a second library for the environment would read durations by different
// rules. Anchors and aliases work, merge keys are rejected by name. The choice would be
// wrong if the walk supported less YAML than the library.
package config

import (
	"cmp"
	"errors"
	"log/slog"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"stoa/internal/base/stoa"
)

// Config contains every setting. It comes from [Load] or [Defaults], because a zero value is
// intended and never means the default.
//
// A field with the tag "constant" was a setting once, with that name and variable. [Config.Check] refuses any value but
// the default, because the service would otherwise not do what the file says.
type Config struct {
	Listen string `yaml:"listen" env:"STOA_LISTEN"` // host:port; port 0 means any free port
	// AdminListen is host:port of /metrics, /livez and /readyz; empty or "off" disables the
	// listener.
	AdminListen string `yaml:"adminListen" env:"STOA_ADMIN_LISTEN"`
	Data        string `yaml:"data" env:"STOA_DATA"`         // directory of the embedded store
	Database    Secret `yaml:"database" env:"STOA_DATABASE"` // postgres:// URL; empty means SQLite in Data
	// DatabaseListen is the address for receiving notices of other nodes: a postgres:// URL of the server
	// itself, because some poolers do not forward notices; empty means Database.
	DatabaseListen Secret `yaml:"databaseListen" env:"STOA_DATABASE_LISTEN"`

	Durability string `yaml:"durability" env:"STOA_DURABILITY"` // full, or process (safe against kill -9, not against power loss)
	// TrustedProxies are the address blocks of reverse proxies; empty means every loopback,
	// private and link-local address.
	TrustedProxies   []string         `yaml:"trustedProxies" env:"STOA_TRUSTED_PROXIES"`
	PublicURL        string           `yaml:"publicUrl" env:"STOA_PUBLIC_URL"` // origin for callers; if empty, derived from the listen address
	Contact          Contact          `yaml:"contact"`
	Sandbox          string           `yaml:"sandbox" env:"STOA_SANDBOX"` // auto, always or off
	RateLimits       string           `yaml:"rateLimits" env:"STOA_RATE_LIMITS"`
	Log              Log              `yaml:"log"`
	Drain            time.Duration    `yaml:"drain" env:"STOA_DRAIN"`                   // maximum wait of a stop for running calls
	HeaderWait       time.Duration    `yaml:"-" constant:"headerWait,STOA_HEADER_WAIT"` // maximum wait of a stream for the upstream before it sends its headers
	KeepAlive        time.Duration    `yaml:"keepAlive" env:"STOA_KEEP_ALIVE"`          // pause in a stream after which a comment is sent
	FirstGrant       stoa.Credits     `yaml:"firstGrantMicro" env:"STOA_FIRST_GRANT_MICRO"`
	Extensions       Extensions       `yaml:"extensions" env:"STOA_EXTENSIONS"`
	ExtensionOptions ExtensionOptions `yaml:"extensionOptions"`
	// StateKeys seal the state that callers keep between calls, newest first, separated by commas.
	// All nodes need the same keys. If empty, a key in the data directory is used.
	StateKeys Secret  `yaml:"stateKeys" env:"STOA_STATE_KEYS"`
	Secrets   Secrets `yaml:"secrets"`

	Providers []Provider                  `yaml:"providers,omitempty"`
	Families  map[string][]stoa.Route     `yaml:"families,omitempty"`
	Models    map[string]stoa.ModelChange `yaml:"models,omitempty"`
	Auto      []string                    `yaml:"auto,omitempty"`
	Aliases   []stoa.AliasRule            `yaml:"aliases,omitempty"`
	AliasSets []string                    `yaml:"aliasSets,omitempty"`
	Limits    Limits                      `yaml:"limits"`
	Agents    Agents                      `yaml:"agents"`
	Retention Retention                   `yaml:"retention"`
	Requests  RequestLog                  `yaml:"requestLog"`
	Telemetry Telemetry                   `yaml:"telemetry"`
	Outbound  Outbound                    `yaml:"outbound"`
	Drive     Drive                       `yaml:"drive"`
	Plans     map[string]Plan             `yaml:"plans"`
	SignIn    SignIn                      `yaml:"signIn"`
	Mail      Mail                        `yaml:"mail"`
	Payments  Payments                    `yaml:"payments"`

	// BootstrapKey is the first key of an empty store. It is read from the environment only, so
	// that it is not left in a file by accident.
	BootstrapKey Secret `yaml:"-" env:"STOA_BOOTSTRAP_KEY"`

	// Warnings describe settings that are valid but probably not intended.
	Warnings []string `yaml:"-"`

	sources   map[string]string // source of each setting, by path
	managedAt map[string]string // paths of managed list items; see [Config.ManagedPath]
	excused   map[string]bool   // paths whose names were probably misspelt, so that the missing setting is not reported as well
}

// Secrets are the master keys of stored secrets, such as those that sign webhooks.
type Secrets struct {
	// Keys are the newest first. The first encrypts, and all decrypt, so that a new key can replace an old
	// one. An empty list means a key in the data directory.
	Keys []SecretsKey `yaml:"keys,omitempty"`
}

// A SecretsKey is a named key. Each encrypted text stores the name, so that its key is found.
type SecretsKey struct {
	ID   string `yaml:"id"`
	Env  string `yaml:"env,omitempty"`  // variable with the key; set one of these two
	File string `yaml:"file,omitempty"` // file with the key

	key *string // key from one of the two; a pointer for the reason in Provider
}

// Value returns the text of the key.
func (k SecretsKey) Value() string { return or(k.key) }

// Contact is the contact for more credits and questions. GET /api/v1/meta publishes it.
type Contact struct {
	URL   string `yaml:"url" env:"STOA_CONTACT_URL"`
	Email string `yaml:"email" env:"STOA_CONTACT_EMAIL"`
}

// Log is the format and the least level of the log.
type Log struct {
	Format string `yaml:"format" env:"STOA_LOG_FORMAT"` // text or json
	Level  string `yaml:"level" env:"STOA_LOG_LEVEL"`   // debug, info, warn or error
}

// SlogLevel returns the level; for an unknown word it returns slog.LevelInfo.
func (l Log) SlogLevel() slog.Level {
	var level slog.Level
	if level.UnmarshalText([]byte(l.Level)) != nil {
		return slog.LevelInfo
	}
	return level
}

// A Provider is a vendor's endpoint with its credentials.
type Provider struct {
	Name       string `yaml:"name"`
	Wire       string `yaml:"wire"`                 // messages, gemini, responses or chat
	Dialect    string `yaml:"dialect,omitempty"`    // variant of the wire chat: openai, deepseek or compatible (default)
	BaseURL    string `yaml:"baseURL"`              // URL in the form of the vendor's own library, so that the same value works in both; empty means the vendor's
	APIKey     Secret `yaml:"apiKey,omitempty"`     // at most one of these three
	APIKeyEnv  string `yaml:"apiKeyEnv,omitempty"`  // variable with the key
	APIKeyFile string `yaml:"apiKeyFile,omitempty"` // file with the key
	// Keys are several keys that share the calls, instead of one of these three.
	Keys        []ProviderKey `yaml:"keys,omitempty"`
	MaxInFlight int           `yaml:"maxInFlight"` // maximum of concurrent calls; 0 means [DefaultInFlight]
	// WholeReplies selects the calls that are not streamed at the vendor if the caller does
	// not stream: auto (default), always or never.
	WholeReplies string `yaml:"wholeReplies,omitempty"`
	// Caching says whose marks for the vendor's cache are sent: auto (default: the caller's, or
	// else the service's), frugal, caller or off; see [stoa.Call.Frugal].
	Caching  string        `yaml:"caching,omitempty"`
	Timeouts stoa.Timeouts `yaml:"timeouts"`
	// Discover makes the models that the server lists callable by their names there; see
	// [stoa.Discovery]. Price is their price.
	Discover bool         `yaml:"discover,omitempty"`
	Price    *stoa.Tariff `yaml:"price,omitempty"`
	// Disabled stops new calls to the provider without removing its settings.
	Disabled bool `yaml:"disabled,omitempty"`

	// key is the key from one of these three. It is a pointer, because fmt would print the text of an unexported
	// field without calling its String method.
	key *string
}

// A ProviderKey is one of several keys of a provider.
type ProviderKey struct {
	ID     string `yaml:"id"`               // id in receipts
	Env    string `yaml:"env,omitempty"`    // variable with the key; one of these three
	File   string `yaml:"file,omitempty"`   // file with the key
	Secret Secret `yaml:"secret,omitempty"` // the key
	Weight int64  `yaml:"weight,omitempty"` // share of the calls; 0 means 1

	key *string // as in Provider
}

// A Plan limits the use of the service by its accounts. A nil field means the value of the shipped
// plan of the same name, otherwise false or no limit.
type Plan struct {
	Name                        string `yaml:"name,omitempty"`
	GatedModels                 *bool  `yaml:"gatedModels,omitempty"`
	RequestsPerMinute           *int   `yaml:"requestsPerMinute,omitempty"`           // limit of each key; 0 means no limit, as below
	RequestsPerMinutePerAccount *int   `yaml:"requestsPerMinutePerAccount,omitempty"` // limit of all keys together, because an account can create more keys
	ConcurrentPerKey            *int   `yaml:"concurrentPerKey,omitempty"`
	ConcurrentPerAccount        *int   `yaml:"concurrentPerAccount,omitempty"`
	ActiveSessions              *int   `yaml:"activeSessions,omitempty"`
	IncludedMicro               *int   `yaml:"includedMicro,omitempty"` // micro-credits granted for each period
	Renewal                     string `yaml:"renewal,omitempty"`       // the period: month
}

// Limits are the maximums of a request, an agent or an account. GET /api/v1/meta publishes them, so that
// callers can stay below them.
type Limits struct {
	Body                     Size          `yaml:"body" env:"STOA_LIMIT_BODY"`                                     // maximum request to the operations that accept the largest bodies
	BodiesInFlight           Size          `yaml:"bodiesInFlight" env:"STOA_LIMIT_BODIES_IN_FLIGHT"`               // maximum memory for all bodies
	Connections              int           `yaml:"connections" env:"STOA_LIMIT_CONNECTIONS"`                       // maximum number of callers' connections
	ConnectionsPerAddress    int           `yaml:"connectionsPerAddress" env:"STOA_LIMIT_CONNECTIONS_PER_ADDRESS"` // does not apply to loopback and private addresses, because these may be proxies
	NameCharacters           int           `yaml:"-" constant:"nameCharacters,STOA_LIMIT_NAME_CHARACTERS"`
	DescriptionCharacters    int           `yaml:"-" constant:"descriptionCharacters,STOA_LIMIT_DESCRIPTION_CHARACTERS"`
	InstructionsCharacters   int           `yaml:"instructionsCharacters" env:"STOA_LIMIT_INSTRUCTIONS_CHARACTERS"` // maximum for an agent
	MessageCharacters        int           `yaml:"messageCharacters" env:"STOA_LIMIT_MESSAGE_CHARACTERS"`           // maximum for a message to a session
	DrivePath                Size          `yaml:"-" constant:"drivePath,STOA_LIMIT_DRIVE_PATH"`
	DriveSegment             Size          `yaml:"-" constant:"driveSegment,STOA_LIMIT_DRIVE_SEGMENT"` // maximum for one part of a path
	File                     Size          `yaml:"file" env:"STOA_LIMIT_FILE"`
	Drive                    Size          `yaml:"drive" env:"STOA_LIMIT_DRIVE"` // maximum for all files of an agent
	DriveFiles               int           `yaml:"driveFiles" env:"STOA_LIMIT_DRIVE_FILES"`
	QueuedSessions           int           `yaml:"queuedSessions" env:"STOA_LIMIT_QUEUED_SESSIONS"`        // maximum for an account
	QueueWait                time.Duration `yaml:"-" constant:"queueWait,STOA_LIMIT_QUEUE_WAIT"`           // maximum wait of a session, which then fails
	QueuedMessages           int           `yaml:"-" constant:"queuedMessages,STOA_LIMIT_QUEUED_MESSAGES"` // maximum for a session
	TurnSteps                int           `yaml:"turnSteps" env:"STOA_LIMIT_TURN_STEPS"`
	TurnTime                 time.Duration `yaml:"turnTime" env:"STOA_LIMIT_TURN_TIME"`
	DefaultTurnCredits       stoa.Credits  `yaml:"defaultTurnCreditsMicro" env:"STOA_LIMIT_DEFAULT_TURN_CREDITS_MICRO"` // limit of a turn without its own limit; 0 means no limit
	InputWait                time.Duration `yaml:"-" constant:"inputWait,STOA_LIMIT_INPUT_WAIT"`                        // maximum wait for a user's answer
	SchedulesPerAgent        int           `yaml:"-" constant:"schedulesPerAgent,STOA_LIMIT_SCHEDULES_PER_AGENT"`
	ScheduleInterval         time.Duration `yaml:"-" constant:"scheduleInterval,STOA_LIMIT_SCHEDULE_INTERVAL"` // minimum time between two runs
	EmbedURL                 time.Duration `yaml:"embedUrl" env:"STOA_LIMIT_EMBED_URL"`                        // lifetime of a ticket
	EmbedToken               time.Duration `yaml:"embedToken" env:"STOA_LIMIT_EMBED_TOKEN"`                    // lifetime of a token
	EventStreamsPerKey       int           `yaml:"eventStreamsPerKey" env:"STOA_LIMIT_EVENT_STREAMS_PER_KEY"`
	EventStreamsPerAccount   int           `yaml:"eventStreamsPerAccount" env:"STOA_LIMIT_EVENT_STREAMS_PER_ACCOUNT"`
	VisitorStreamsPerAccount int           `yaml:"visitorStreamsPerAccount" env:"STOA_LIMIT_VISITOR_STREAMS_PER_ACCOUNT"` // separate maximum for visitors of embeds, so that they do not use up the account's streams
	KeysPerAccount           int           `yaml:"keysPerAccount" env:"STOA_LIMIT_KEYS_PER_ACCOUNT"`                      // maximum number of valid keys
	EndedKeysPerAccount      int           `yaml:"-" constant:"endedKeysPerAccount,STOA_LIMIT_ENDED_KEYS_PER_ACCOUNT"`    // maximum number of revoked, rotated or expired keys
	SpacesPerAccount         int           `yaml:"-" constant:"spacesPerAccount,STOA_LIMIT_SPACES_PER_ACCOUNT"`
	AgentsPerAccount         int           `yaml:"agentsPerAccount" env:"STOA_LIMIT_AGENTS_PER_ACCOUNT"`
	AgentVersions            int           `yaml:"-" constant:"agentVersions,STOA_LIMIT_AGENT_VERSIONS"` // maximum number of stored versions of an agent
	SchedulesPerAccount      int           `yaml:"schedulesPerAccount" env:"STOA_LIMIT_SCHEDULES_PER_ACCOUNT"`
	EmbedsPerDay             int           `yaml:"embedsPerDay" env:"STOA_LIMIT_EMBEDS_PER_DAY"`                      // maximum number of embeds of an agent in 24 hours
	DrivesPerAccount         Size          `yaml:"drivesPerAccount" env:"STOA_LIMIT_DRIVES_PER_ACCOUNT"`              // maximum for all files of all agents
	RequestsKeptPerAccount   int           `yaml:"requestsKeptPerAccount" env:"STOA_LIMIT_REQUESTS_KEPT_PER_ACCOUNT"` // maximum number of rows in the request log
}

// Agents configures the sessions of agents.
type Agents struct {
	// CompactAt is the share of a model's window, in percent, above which the beginning of a
	// session is summarized: from [MinCompactAt] to [MaxCompactAt], or 0 for never. An agent can
	// override it.
	CompactAt int `yaml:"compactAt" env:"STOA_COMPACT_AT"`
}

// The limits of [Agents.CompactAt].
const (
	MinCompactAt = 30
	MaxCompactAt = 90
)

// Retention contains lifetimes of rows that callers do not delete; 0 means forever.
type Retention struct {
	Receipts time.Duration `yaml:"receipts" env:"STOA_RETENTION_RECEIPTS"` // the ledger keeps their sums
	Events   time.Duration `yaml:"events" env:"STOA_RETENTION_EVENTS"`     // time since the last change of the session
	Sessions time.Duration `yaml:"sessions" env:"STOA_RETENTION_SESSIONS"` // time since the last change of an ended session
	Audit    time.Duration `yaml:"audit" env:"STOA_RETENTION_AUDIT"`       // lifetime of audit log entries
}

// RequestLog configures the log of calls of the model endpoint.
type RequestLog struct {
	Keep      time.Duration `yaml:"keep" env:"STOA_REQUEST_LOG_KEEP"`           // 0 disables the log
	Addresses bool          `yaml:"addresses" env:"STOA_REQUEST_LOG_ADDRESSES"` // stores the addresses of clients, too
}

// Telemetry configures metrics, traces and profiles.
type Telemetry struct {
	Profiles       bool   `yaml:"profiles" env:"STOA_PROFILES"`                  // serves /debug/pprof/ on adminListen
	AccountMetrics int    `yaml:"accountMetrics" env:"STOA_ACCOUNT_METRICS"`     // number of accounts with separate metrics
	Traces         string `yaml:"traces" env:"OTEL_EXPORTER_OTLP_ENDPOINT"`      // base URL of an OTLP/HTTP receiver; empty means no traces
	TraceHeaders   Secret `yaml:"traceHeaders" env:"OTEL_EXPORTER_OTLP_HEADERS"` // headers for the receiver: name=value,…
}

// Admin returns the address of the admin listener, and whether it was set explicitly. The
// address is empty if the listener is disabled.
func (c Config) Admin() (address string, explicit bool) {
	if c.AdminListen == "off" {
		return "", true
	}
	return c.AdminListen, c.Where("adminListen") != ""
}

// Outbound restricts requests to addresses that callers choose, since these could otherwise reach the
// operator's network.
type Outbound struct {
	Allow []string `yaml:"allow" env:"STOA_OUTBOUND_ALLOW"` // exceptions: permitted addresses that are not public
	Deny  []string `yaml:"deny" env:"STOA_OUTBOUND_DENY"`
	Proxy Secret   `yaml:"proxy" env:"STOA_OUTBOUND_PROXY"` // URL, which may contain a password; empty means no proxy
}

// Proxies returns the trusted proxies. It must be called on a checked configuration, because it ignores errors.
func (c *Config) Proxies() stoa.Proxies {
	p, _ := stoa.ParseProxies(c.TrustedProxies)
	return p
}

// ProxyURL returns the URL of the proxy, or nil if none is set.
func (o Outbound) ProxyURL() (*url.URL, error) {
	if o.Proxy == "" {
		return nil, nil
	}
	u, err := url.Parse(string(o.Proxy))
	if err != nil || u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "socks5" || u.Hostname() == "" || strings.Trim(u.Path, "/") != "" {
		return nil, errors.New("not the URL of a proxy; write one such as http://proxy.internal:3128") // without the text, because it may contain a password
	}
	return u, nil
}

// Drive configures the storage of drives.
type Drive struct {
	Store DriveStore `yaml:"store"`
}

// DriveStore is the storage of large content. If it is empty, the database stores all content.
type DriveStore struct {
	S3 S3 `yaml:"s3"`
}

// S3 is a bucket of a service with the protocol of Amazon S3.
type S3 struct {
	Endpoint  string        `yaml:"endpoint" env:"STOA_DRIVE_S3_ENDPOINT"` // http or https, host and port; empty means no bucket
	Bucket    string        `yaml:"bucket" env:"STOA_DRIVE_S3_BUCKET"`
	Region    string        `yaml:"region" env:"STOA_DRIVE_S3_REGION"`
	Prefix    string        `yaml:"prefix" env:"STOA_DRIVE_S3_PREFIX"` // prefix of all object names
	AccessKey Secret        `yaml:"accessKey" env:"STOA_DRIVE_S3_ACCESS_KEY"`
	SecretKey Secret        `yaml:"secretKey" env:"STOA_DRIVE_S3_SECRET_KEY"`
	Keep      time.Duration `yaml:"keep" env:"STOA_DRIVE_S3_KEEP"` // time before unused objects are deleted, so that backups of the database can refer to them
}

// Defaults returns the settings of a service without any configuration.
func Defaults() Config {
	return Config{
		Listen:           "127.0.0.1:8080",
		AdminListen:      "127.0.0.1:9090",
		Data:             "./data",
		Durability:       "full",
		Sandbox:          "auto",
		RateLimits:       "on",
		Log:              Log{Format: "text", Level: "info"},
		Drain:            30 * time.Second,
		HeaderWait:       10 * time.Second,
		KeepAlive:        15 * time.Second,
		FirstGrant:       100 * stoa.Credit,
		ExtensionOptions: ExtensionOptions{Tools: ToolsOptions{Forced: "refuse", Foreign: "ignore"}, Images: ImagesOptions{URL: "pass"}, Files: FilesOptions{URL: "pass"}, ChatCompletions: ChatCompletionsOptions{NoCredits: 429}},
		Drive:            Drive{Store: DriveStore{S3: S3{Region: "us-east-1", Keep: 7 * 24 * time.Hour}}},
		Agents:           Agents{CompactAt: 70},
		Limits: Limits{
			Body:                     16 << 20,
			BodiesInFlight:           256 << 20,
			Connections:              10_000,
			ConnectionsPerAddress:    256,
			NameCharacters:           200,
			DescriptionCharacters:    2000,
			InstructionsCharacters:   100_000,
			MessageCharacters:        100_000,
			DrivePath:                1024,
			DriveSegment:             255,
			File:                     10 << 20,
			Drive:                    1 << 30,
			DriveFiles:               10_000,
			QueuedSessions:           1000,
			QueueWait:                time.Hour,
			QueuedMessages:           10,
			TurnSteps:                50,
			TurnTime:                 10 * time.Minute,
			DefaultTurnCredits:       stoa.Credit / 2,
			InputWait:                7 * 24 * time.Hour,
			SchedulesPerAgent:        50,
			ScheduleInterval:         time.Minute,
			EmbedURL:                 5 * time.Minute,
			EmbedToken:               10 * time.Minute,
			EventStreamsPerKey:       50,
			EventStreamsPerAccount:   200,
			VisitorStreamsPerAccount: 2000,
			KeysPerAccount:           100,
			EndedKeysPerAccount:      5000,
			SpacesPerAccount:         100,
			AgentsPerAccount:         1000,
			AgentVersions:            200,
			SchedulesPerAccount:      1000,
			EmbedsPerDay:             10_000,
			DrivesPerAccount:         5 << 30,
			RequestsKeptPerAccount:   100_000,
		},
		Requests: RequestLog{Keep: 30 * 24 * time.Hour},
		SignIn:   SignIn{Session: 12 * time.Hour},
		Mail:     Mail{SMTP: SMTP{TLS: MailStartTLS}, Texts: true},
		Plans: map[string]Plan{
			"free": {Name: "Free", GatedModels: new(false), RequestsPerMinute: new(60), RequestsPerMinutePerAccount: new(300), ConcurrentPerKey: new(8), ConcurrentPerAccount: new(16), ActiveSessions: new(20), IncludedMicro: new(0)},
			"pro":  {Name: "Pro", GatedModels: new(true), RequestsPerMinute: new(0), RequestsPerMinutePerAccount: new(0), ConcurrentPerKey: new(0), ConcurrentPerAccount: new(0), ActiveSessions: new(20), IncludedMicro: new(0)},
		},
	}
}

// DefaultInFlight is the default maximum of concurrent calls of a provider. It is far above
// a vendor's rate limit, because most calls of a busy service wait for a model. It limits memory
// and sockets.
const DefaultInFlight = 16_384

// DefaultTimeouts returns the timeouts of a provider without its own.
func DefaultTimeouts() stoa.Timeouts {
	return stoa.Timeouts{FirstByte: time.Minute, Idle: time.Minute, Whole: time.Minute, Total: 15 * time.Minute}
}

// Upstreams returns the providers in configured order, with one entry for each key, because limits and
// circuits count per key.
func (c Config) Upstreams() []stoa.Provider {
	var list []stoa.Provider
	for _, p := range c.Providers {
		key := string(p.APIKey)
		if p.key != nil {
			key = *p.key
		}
		one := stoa.Provider{
			Name: p.Name, Wire: p.Wire, Dialect: p.dialect(), BaseURL: p.baseURL(), APIKey: key,
			MaxInFlight: p.MaxInFlight, WholeReplies: p.WholeReplies, Caching: p.Caching, Timeouts: p.Timeouts,
			Discover: stoa.Discovery{On: p.Discover, Priced: p.Price != nil, Price: or(p.Price)}, Disabled: p.Disabled,
		}
		for _, k := range p.Keys {
			one.Key, one.KeyWeight, one.APIKey = k.ID, cmp.Or(k.Weight, 1), cmp.Or(or(k.key), string(k.Secret))
			list = append(list, one)
		}
		if len(p.Keys) == 0 {
			list = append(list, one)
		}
	}
	return list
}

// AccountPlans returns the plans by identifier: the shipped ones with the operator's changes
// and additions.
func (c Config) AccountPlans() map[string]stoa.Plan {
	plans := map[string]stoa.Plan{}
	for id, p := range mergePlans(Defaults().Plans, c.Plans) {
		plans[id] = stoa.Plan{
			ID: id, Name: p.Name, GatedModels: or(p.GatedModels), RequestsPerMinute: or(p.RequestsPerMinute),
			ConcurrentPerKey: or(p.ConcurrentPerKey), ConcurrentPerAccount: or(p.ConcurrentPerAccount), ActiveSessions: or(p.ActiveSessions),
			RequestsPerMinutePerAccount: or(p.RequestsPerMinutePerAccount), Included: stoa.Credits(or(p.IncludedMicro)),
		}
	}
	return plans
}

// RateLimited reports whether the limits of the plans are enforced.
func (c Config) RateLimited() bool { return c.RateLimits != "off" }

// BaseURL returns the origin for callers: the public URL, or one derived from the listener's
// address. It replaces an address for every interface by "localhost", because clients cannot dial it.
func (c Config) BaseURL(address string) string {
	if c.PublicURL != "" {
		return c.PublicURL
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "http://" + address
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	if n, err := strconv.Atoi(port); err == nil && n == 80 {
		if net.ParseIP(host) != nil && net.ParseIP(host).To4() == nil {
			host = "[" + host + "]"
		}
		return "http://" + host
	}
	return "http://" + net.JoinHostPort(host, port)
}

// mergePlans returns base with the changes, member by member.
func mergePlans(base, changes map[string]Plan) map[string]Plan {
	plans := map[string]Plan{}
	for id, p := range base {
		plans[id] = p
	}
	for id, p := range changes {
		was := plans[id]
		if p.Name == "" {
			p.Name = was.Name
		}
		if p.Name == "" {
			p.Name = id
		}
		over(&p.GatedModels, was.GatedModels)
		over(&p.RequestsPerMinute, was.RequestsPerMinute)
		over(&p.RequestsPerMinutePerAccount, was.RequestsPerMinutePerAccount)
		over(&p.ConcurrentPerKey, was.ConcurrentPerKey)
		over(&p.ConcurrentPerAccount, was.ConcurrentPerAccount)
		over(&p.ActiveSessions, was.ActiveSessions)
		over(&p.IncludedMicro, was.IncludedMicro)
		p.Renewal = cmp.Or(p.Renewal, was.Renewal)
		plans[id] = p
	}
	return plans
}

// over sets a nil pointer to the value of was, or to the zero value.
func over[T any](to **T, was *T) {
	if *to == nil {
		*to = new(or(was))
	}
}

func or[T any](p *T) T {
	if p == nil {
		return *new(T)
	}
	return *p
}
