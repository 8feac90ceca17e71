package config

import (
	"strings"
	"testing"
)

// idp returns a file with one identity provider.
func idp(settings string) string {
	return "publicUrl: https://stoa.example.com\nsignIn: {oidc: [{name: corp, " + settings + "}]}\n"
}

// TestProblems lists the exact message of each mistake: its place, the problem, the remedy.
func TestProblems(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, yaml string
		env        []string
		flags      Flags
		want       string // the whole error
	}{
		{
			name: "an unknown setting", yaml: "data: x\nlisen: 127.0.0.1:1\n",
			want: `stoa.yaml:2:1: lisen: unknown setting; did you mean "listen"?`,
		},
		{
			name: "an unknown setting inside a list", yaml: "providers:\n  - name: a\n    wire: messages\n    baseUrl: http://x\n",
			want: `stoa.yaml:4:5: providers[0].baseUrl: unknown setting; did you mean "baseURL"?`,
		},
		{
			name: "an unknown setting like no other", yaml: "log: {colour: red}\n",
			want: `stoa.yaml:1:7: log.colour: unknown setting; valid names are format, level`,
		},
		{
			name: "several mistakes at once", yaml: "drain: soon\nlimits:\n  body: 10XB\n",
			want: "stoa.yaml:1:8: drain: \"soon\" is not a duration; write a number with its unit, such as 500ms, 30s, 15m, 24h or 7d\n" +
				"stoa.yaml:3:9: limits.body: \"10XB\" is not a size; write bytes or a unit, such as 16MiB, 512KiB or 1GiB",
		},
		{
			name: "a number without a unit", yaml: "keepAlive: 15\n",
			want: `stoa.yaml:1:12: keepAlive: "15" is not a duration; write a number with its unit, such as 500ms, 30s, 15m, 24h or 7d`,
		},
		{
			name: "an identity provider of every tenant", yaml: idp("issuer: https://login.microsoftonline.com/common/v2.0, clientId: c"),
			want: `stoa.yaml:2:38: signIn.oidc[0].issuer: "https://login.microsoftonline.com/common/v2.0" accepts people of every tenant, and its tokens have other issuers; use that of your tenant, https://login.microsoftonline.com/TENANT-ID/v2.0`,
		},
		{
			name: "an identity provider without TLS", yaml: idp("issuer: http://id.example.com/, clientId: c"),
			want: `stoa.yaml:2:38: signIn.oidc[0].issuer: "http://id.example.com/" is not an issuer; write its https address as in its discovery document, such as https://id.example.com/`,
		},
		{
			name: "an identity provider without a client", yaml: idp("issuer: https://id.example.com/, clientSecretEnv: NONE"),
			want: "stoa.yaml:2:17: signIn.oidc[0].clientId: the client id is missing; set the one that the identity provider has given this service\n" +
				"stoa.yaml:2:80: signIn.oidc[0].clientSecretEnv: the environment variable NONE is not set; set it, or remove clientSecretEnv for a client without a secret",
		},
		{
			name: "groups", yaml: idp(`issuer: https://id.example.com/, clientId: c, groups: [{group: a}, {group: b, role: king, account: acc_1}, {role: owner}, {group: c, role: owner}, {group: d, operator: admin, account: acc_1}]`),
			want: "stoa.yaml:2:85: signIn.oidc[0].groups[0].role: a group gives a role; use one of owner, member, viewer\n" +
				"stoa.yaml:2:114: signIn.oidc[0].groups[1].role: \"king\" is not one of owner, member, viewer\n" +
				"stoa.yaml:2:137: signIn.oidc[0].groups[2].group: name the group, as it is in the claim\n" +
				"stoa.yaml:2:152: signIn.oidc[0].groups[3].account: name the account by its id, such as acc_…\n" +
				"stoa.yaml:2:198: signIn.oidc[0].groups[4].operator: operators are members of the operator's account; remove account",
		},
		{
			name: "scopes", yaml: idp(`issuer: https://id.example.com/, clientId: c, scopes: [groups, "a b", ""]`),
			want: "stoa.yaml:2:93: signIn.oidc[0].scopes[1]: \"a b\" is not a scope; a scope has 1 to 200 printable ASCII characters, without spaces, quotes and backslashes\n" +
				"stoa.yaml:2:100: signIn.oidc[0].scopes[2]: \"\" is not a scope; a scope has 1 to 200 printable ASCII characters, without spaces, quotes and backslashes",
		},
		{
			name: "identity providers on several nodes", yaml: "database: postgres://db.internal/stoa\nsignIn: {session: 1s, keysPauseAfter: 1h, oidc: [{name: corp, issuer: https://id.example.com/, clientId: c}]}\n",
			want: "stoa.yaml:2:19: signIn.session: 1s is out of range; use 5m to 30d\n" +
				"stoa.yaml:2:39: signIn.keysPauseAfter: 1h0m0s is out of range; use 24h to 730d, or 0 so that no key pauses\n" +
				"publicUrl: identity providers redirect people to this address; set it\n" +
				"secrets.keys: a sign-in that begins on one node may end on another; set a key, which encrypts its state",
		},
		{
			name: "mail without a server", yaml: "mail: {smtp: {from: stoa@example.com}}\n",
			want: `stoa.yaml:1:14: mail.smtp.host: mail needs a server that sends it; write its name, such as smtp.example.com`,
		},
		{
			name: "mail settings", yaml: "mail: {smtp: {host: 'smtp://mail', port: 70000, user: u, from: nobody, tls: none}, addresses: [a b]}\n",
			want: "stoa.yaml:1:14: mail.smtp.passwordEnv: the user needs a password; set passwordEnv or passwordFile\n" +
				"stoa.yaml:1:21: mail.smtp.host: \"smtp://mail\" is not the name of a server; write one such as smtp.example.com, and the port in mail.smtp.port\n" +
				"stoa.yaml:1:42: mail.smtp.port: 70000 is out of range; use 1 to 65535\n" +
				"stoa.yaml:1:64: mail.smtp.from: \"nobody\" is not a sender; write one such as stoa@example.com, or Stoa <stoa@example.com>\n" +
				"stoa.yaml:1:77: mail.smtp.tls: the password would be sent without encryption; use starttls or tls, or remove user\n" +
				`stoa.yaml:1:95: mail.addresses: "a b" is not an email address; write one such as team@example.com`,
		},
		{
			name: "a password of mail", yaml: "mail: {smtp: {host: mail.internal, user: u, passwordEnv: NONE, from: a@example.com, tls: ssl}}\n",
			want: "stoa.yaml:1:58: mail.smtp.passwordEnv: the environment variable NONE is not set; set it to the password of the mail server\n" +
				`stoa.yaml:1:90: mail.smtp.tls: "ssl" is not one of starttls, tls, none`,
		},
		{name: "a list in place of a value", yaml: "listen: [a]\n", want: `stoa.yaml:1:9: listen: must be a single value`},
		{name: "a value in place of a list", yaml: "auto: alpha\n", want: `stoa.yaml:1:7: auto: must be a list, such as [a, b]`},
		{name: "a list of extensions", yaml: "extensions: [all]\n", want: `stoa.yaml:1:13: extensions: must be a mapping of names to values; all of them are {models: true, inputTokens: true, compact: true, v1Alias: true, tools: true, formats: true, images: true, files: true, chatCompletions: true, messages: true, gemini: true}`},
		{name: "a value in place of a mapping", yaml: "limits: 5\n", want: `stoa.yaml:1:9: limits: must be a mapping of names to values`},
		{name: "a word in place of a number", yaml: "limits: {turnSteps: many}\n", want: `stoa.yaml:1:21: limits.turnSteps: "many" is not a whole number`},
		{name: "a word in place of true", yaml: "plans: {pro: {gatedModels: maybe}}\n", want: `stoa.yaml:1:28: plans.pro.gatedModels: "maybe" is neither true nor false`},
		{name: "money with a point", yaml: "firstGrantMicro: 1.5\n", want: `stoa.yaml:1:18: firstGrantMicro: "1.5" is not a whole number of micro-credits; one credit is 1000000`},
		{name: "an alias without an anchor", yaml: "listen: *nowhere\n", want: `stoa.yaml:1:9: listen: this alias has no anchor above it`},
		{name: "an alias of itself", yaml: "listen: &a *a\n", want: `stoa.yaml:1:12: unexpected scalar value type`},
		{name: "a merge key", yaml: "log: &l {level: info}\nlimits:\n  <<: *l\n", want: `stoa.yaml:3:3: limits: only plain names are allowed here`},
		{name: "two documents", yaml: "data: a\n---\ndata: b\n", want: `stoa.yaml: contains several YAML documents; put all settings into one`},
		{name: "a setting written twice", yaml: "data: a\ndata: b\n", want: `stoa.yaml:2:1: mapping key "data" already defined at [1:1]`},
		{name: "no YAML at all", yaml: "listen: [a\n", want: `stoa.yaml:1:9: sequence end token ']' not found`},

		{
			name: "an address without a port", flags: Flags{Listen: "localhost"},
			want: `--listen: listen: "localhost" is not an address; write host:port, such as 127.0.0.1:8080, or :8080 for every interface`,
		},
		{
			name: "a contact that is no page", yaml: "contact: {url: \"javascript:alert(1)\", email: help@example.com}\n",
			want: `stoa.yaml:1:16: contact.url: "javascript:alert(1)" is not the address of a page; write one such as https://example.com/top-up`,
		},
		{
			name: "a contact with more than an address", env: []string{"STOA_CONTACT_EMAIL=a@b.example?bcc=c@d.example"},
			want: `STOA_CONTACT_EMAIL: contact.email: "a@b.example?bcc=c@d.example" is not an email address; write one such as help@example.com`,
		},
		{
			name: "a port that is none", env: []string{"STOA_LISTEN=:99999"},
			want: `STOA_LISTEN: listen: ":99999" is not an address; write host:port, such as 127.0.0.1:8080, or :8080 for every interface`,
		},
		{
			name: "a database that is not PostgreSQL", env: []string{"STOA_DATABASE=mysql://u:secret@h/d"},
			want: `STOA_DATABASE: database: this is not a PostgreSQL URL; write postgres://user:password@host:5432/name, or leave it empty for the embedded store`,
		},
		{
			name: "a destination that is none", yaml: "outbound: {allow: [10.20.0.0/16, \"http://mcp.internal\"], deny: [\"a:0\"]}\n",
			want: `stoa.yaml:1:19: outbound.allow: "http://mcp.internal" is not a destination; write a block of addresses such as 10.20.0.0/16, or a host such as mcp.internal:8000` + "\n" +
				`stoa.yaml:1:64: outbound.deny: "a:0" is not a destination; write a block of addresses such as 10.20.0.0/16, or a host such as mcp.internal:8000`,
		},
		{
			name: "a proxy that is none", env: []string{"STOA_OUTBOUND_PROXY=proxy.internal:3128"},
			want: `STOA_OUTBOUND_PROXY: outbound.proxy: not the URL of a proxy; write one such as http://proxy.internal:3128`,
		},
		{
			name: "a bucket without a server", env: []string{"STOA_DRIVE_S3_BUCKET=files"},
			want: `drive.store.s3.endpoint: a bucket is named and no server that has it; write its URL, such as https://s3.eu-central-1.amazonaws.com`,
		},
		{
			name: "a bucket without a key", env: []string{"STOA_DRIVE_S3_BUCKET=files", "STOA_DRIVE_S3_ENDPOINT=http://127.0.0.1:9000/"},
			want: `drive.store.s3.accessKey: the bucket needs accessKey and secretKey; set them here, or in STOA_DRIVE_S3_ACCESS_KEY and STOA_DRIVE_S3_SECRET_KEY`,
		},
		{
			name: "a public URL with a path", yaml: "publicUrl: https://x.example/stoa\n",
			want: `stoa.yaml:1:12: publicUrl: "https://x.example/stoa" is not an origin; write scheme and host only, such as https://stoa.example.com`,
		},
		{name: "a word that is not in the list", flags: Flags{Sandbox: "maybe"}, want: `--sandbox: sandbox: "maybe" is not one of auto, always, off`},
		{name: "an unknown log level", env: []string{"STOA_LOG_LEVEL=loud"}, want: `STOA_LOG_LEVEL: log.level: "loud" is not one of debug, info, warn, error`},
		{name: "a duration out of range", yaml: "keepAlive: 1ms\n", want: `stoa.yaml:1:12: keepAlive: 1ms is out of range; use 1s to 10m0s`},
		{
			name: "a retention of receipts that is too short", yaml: "retention: {receipts: 7d}\n",
			want: `stoa.yaml:1:23: retention.receipts: 168h0m0s is too short; use 30d or more, or 0 to keep them forever`,
		},
		{
			name: "a retention below zero", yaml: "retention: {events: -1h}\n",
			want: `stoa.yaml:1:21: retention.events: -1h0m0s is too short; use 1d or more, or 0 to keep them forever`,
		},
		{
			name: "a limit of nothing", yaml: "limits: {driveFiles: 0}\n",
			want: `stoa.yaml:1:22: limits.driveFiles: 0 is not possible; use 1 or more, or leave it out for the default`,
		},
		{
			name: "texts longer than the interface takes", yaml: "limits: {instructionsCharacters: 1000001, messageCharacters: 1000001}\n",
			want: "stoa.yaml:1:34: limits.instructionsCharacters: 1000001 is more than the API allows; use up to 1000000\n" +
				"stoa.yaml:1:62: limits.messageCharacters: 1000001 is more than the API allows; use up to 1000000",
		},
		{
			name: "a model's identifier longer than the interface takes", yaml: "models: {" + strings.Repeat("m", 129) + ": {}}\n",
			want: "stoa.yaml:1:10: models." + strings.Repeat("m", 129) + ": a model's identifier has at most 128 bytes",
		},
		{
			name: "more aliases than the interface takes", yaml: "models: {m: {family: f, aliases: [" + strings.Repeat("a, ", 901) + "]}}\n",
			want: "stoa.yaml:1:34: models.m.aliases: 901 are more than the API allows; use up to 900",
		},
		{
			name: "a family's name longer than the interface takes", yaml: "models: {m: {family: " + strings.Repeat("f", 513) + "}}\n",
			want: "stoa.yaml:1:22: models.m.family: 513 bytes are more than the API allows; use up to 512",
		},
		{
			name: "a provider's model longer than the interface takes",
			yaml: "providers: [{name: p, wire: messages, apiKey: k}]\nfamilies: {alpha: [{provider: p, model: " + strings.Repeat("m", 513) + "}]}\n",
			want: "stoa.yaml:2:41: families.alpha[0].model: 513 bytes are more than the API allows; use up to 512",
		},
		{
			name: "more routes than the interface takes",
			yaml: "providers: [{name: p, wire: messages, apiKey: k}]\nmodels: {m: {routes: [" + strings.Repeat("{provider: p}, ", 4001) + "]}}\n",
			want: "stoa.yaml:2:9: models: 4001 routes are more than the API allows; use up to 4000",
		},
		{name: "a file larger than the drive", yaml: "limits:\n  file: 2GiB\n", want: `stoa.yaml:2:9: limits.file: 2GiB is more than limits.drive (1GiB)`},
		{
			name: "a plan below zero", yaml: "plans: {free: {requestsPerMinute: -1}}\n",
			want: `stoa.yaml:1:35: plans.free.requestsPerMinute: -1 is below zero; use 0 for no limit`,
		},
		{
			name: "a short first key", env: []string{"STOA_BOOTSTRAP_KEY=sk_short"},
			want: `STOA_BOOTSTRAP_KEY: the first key must begin with sk_, have at least 32 characters, and contain only visible ASCII characters`,
		},
		{name: "a first key in the file", yaml: "bootstrapKey: sk_x\n", want: `stoa.yaml:1:1: bootstrapKey: unknown setting`},

		{
			name: "two providers of one name", yaml: "providers:\n  - {name: a, wire: messages}\n  - {name: a, wire: gemini}\n",
			want: `stoa.yaml:3:12: providers[1].name: there are two providers named "a"; rename one`,
		},
		{
			name: "a provider named like the sandbox", yaml: "providers: [{name: sandbox, wire: messages}]\n",
			want: `stoa.yaml:1:20: providers[0].name: "sandbox" is the built-in model; choose another name`,
		},
		{
			name: "an unknown wire", yaml: "providers: [{name: a, wire: soap}]\n",
			want: `stoa.yaml:1:29: providers[0].wire: "soap" is not one of messages, gemini, responses, chat`,
		},
		{
			name: "an unknown word for whole replies", yaml: "providers: [{name: a, wire: gemini, wholeReplies: often}]\n",
			want: `stoa.yaml:1:51: providers[0].wholeReplies: "often" is not one of auto, always, never`,
		},
		{
			name: "a dialect of the wrong wire", yaml: "providers: [{name: a, wire: gemini, dialect: openai}]\n",
			want: `stoa.yaml:1:46: providers[0].dialect: only the wire chat has dialects; remove it`,
		},
		{
			name: "no URL", yaml: "providers: [{name: a, wire: chat}]\n",
			want: `stoa.yaml:1:13: providers[0].baseURL: wire: chat has no usual server; write its URL, such as http://127.0.0.1:11434/v1, or dialect: openai or deepseek for theirs`,
		},
		{
			name: "a URL without a scheme", yaml: "providers: [{name: a, wire: chat, baseURL: 'localhost/v1'}]\n",
			want: `stoa.yaml:1:44: providers[0].baseURL: this is not a URL; write one such as http://127.0.0.1:11434/v1`,
		},
		{
			name: "a version segment too many", env: []string{"ANTHROPIC_API_KEY=a", "ANTHROPIC_BASE_URL=https://api.anthropic.com/v1"},
			want: `ANTHROPIC_BASE_URL: providers[0].baseURL: the wire messages adds the version itself; remove "/v1", such as https://api.anthropic.com`,
		},
		{
			name: "a Gemini version too many", yaml: "providers: [{name: a, wire: gemini, baseURL: 'https://g.example/v1beta/'}]\n",
			want: `stoa.yaml:1:46: providers[0].baseURL: the wire gemini adds the version itself; remove "/v1beta", such as https://generativelanguage.googleapis.com`,
		},
		{
			name: "an endpoint in the URL", env: []string{"STOA_UPSTREAM=http://127.0.0.1:1/v1/chat/completions", "STOA_UPSTREAM_MODEL=m"},
			want: `STOA_UPSTREAM: providers[0].baseURL: the URL contains the name of the endpoint; write the part before it, such as http://127.0.0.1:11434/v1`,
		},
		{
			name: "credentials in the URL", yaml: "providers: [{name: a, wire: messages, baseURL: 'https://u:secret@x.example'}]\n",
			want: `stoa.yaml:1:48: providers[0].baseURL: a URL must not contain credentials; use apiKeyEnv or apiKeyFile`,
		},
		{
			name: "two keys", yaml: "providers: [{name: a, wire: messages, apiKey: k, apiKeyFile: /run/secrets/seek}]\n",
			want: `stoa.yaml:1:13: providers[0]: apiKey and apiKeyFile are set; keep one of them`,
		},
		{
			name: "a key in a variable that is not set", yaml: "providers: [{name: a, wire: messages, apiKeyEnv: NO_KEY}]\n",
			want: `stoa.yaml:1:50: providers[0].apiKeyEnv: the environment variable NO_KEY is not set; set it, or remove apiKeyEnv if a needs no key`,
		},
		{
			name: "keys of secrets that cannot be told apart", yaml: "secrets: {keys: [{id: a, env: K1}, {id: a, env: K1}, {id: file-1, env: K1}, {id: b}]}\n",
			env: []string{"K1=00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"},
			want: `stoa.yaml:1:41: secrets.keys[1].id: there are two keys named "a"; rename one that has encrypted nothing yet` + "\n" +
				`stoa.yaml:1:59: secrets.keys[2].id: "file-1" is not a valid key name; use lowercase letters, digits, - and _, and do not begin with file-` + "\n" +
				`stoa.yaml:1:77: secrets.keys[3]: the key is in a variable or in a file: set either env or file`,
		},
		{
			name: "a key of secrets that is none", yaml: "secrets: {keys: [{id: a, env: K1}, {id: b, env: K2}]}\n", env: []string{"K1=0011"},
			want: `stoa.yaml:1:18: secrets.keys[0]: a key is 32 bytes, as 64 hexadecimal digits or in base64 (openssl rand -hex 32 makes one); there is one in each place` + "\n" +
				`stoa.yaml:1:49: secrets.keys[1].env: the environment variable K2 is not set; set it to a key (openssl rand -hex 32 makes one)`,
		},
		{
			name: "a key in a file that is empty", yaml: "providers: [{name: a, wire: messages, apiKeyFile: /run/secrets/empty}]\n",
			want: `stoa.yaml:1:51: providers[0].apiKeyFile: the file /run/secrets/empty is empty; put the key into it`,
		},
		{
			name: "a key with a line break", env: []string{"OPENAI_API_KEY=a\nb"},
			want: `OPENAI_API_KEY: providers[0]: the key of openai has characters that are invalid in a key (a line break, a quote?); check its source`,
		},
		{
			name: "a list of a wire without lists", yaml: "providers: [{name: a, wire: gemini, discover: true}]\n",
			want: `stoa.yaml:1:47: providers[0].discover: the models of a server can be read with the wires messages, responses, chat only`,
		},
		{
			name: "a price of a provider without a list", yaml: "providers: [{name: a, wire: messages, price: {input: 1, output: 2}}]\n",
			want: `stoa.yaml:1:46: providers[0].price: a provider has a price only with discover: true; set the prices of other models in models`,
		},
		{
			name: "a family of an unknown provider", yaml: "providers:\n  - {name: claude, wire: messages}\nfamilies:\n  alpha: [{provider: cluade}]\n",
			want: `stoa.yaml:4:22: families.alpha[0].provider: there is no provider named "cluade"; did you mean "claude"?`,
		},
		{
			name: "a model of an unknown provider", yaml: "models:\n  mine:\n    routes: [{provider: p}]\n",
			want: `stoa.yaml:3:25: models.mine.routes[0].provider: there is no provider named "p"; add it to providers`,
		},
		{name: "a family of nobody", yaml: "families: {alpha: []}\n", want: `stoa.yaml:1:12: families.alpha: the list is empty; name a provider, or remove the family`},
		{
			name: "an unknown support for formats", yaml: "providers: [{name: a, wire: chat, baseURL: 'http://127.0.0.1:1/v1'}]\nfamilies:\n  alpha: [{provider: a, model: m, traits: {schema: strict}}]\n",
			want: `stoa.yaml:3:52: families.alpha[0].traits.schema: "strict" is not one of native, json, none`,
		},
		{
			name: "an unknown trait", yaml: "providers: [{name: a, wire: messages}]\nfamilies:\n  alpha: [{provider: a, traits: {efforts: [low, heroic]}}]\n",
			want: `stoa.yaml:3:49: families.alpha[0].traits.efforts[1]: "heroic" is not one of none, minimal, low, medium, high, xhigh, max`,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.yaml != "" {
				tt.flags.Config = "stoa.yaml"
			}
			_, err := Load(tt.flags, env(tt.env...), files(tt.yaml))
			if err == nil {
				t.Fatal("no error")
			}
			if tt.name == "a first key in the file" && strings.HasPrefix(err.Error(), tt.want) {
				return // the list of valid names follows
			}
			if err.Error() != tt.want {
				t.Errorf("got  %s\nwant %s", err, tt.want)
			}
		})
	}
}

func FuzzLoad(f *testing.F) {
	for _, s := range []string{full, "a: &a [*a]", "providers: [{name: *x}]", "? [a]\n: b", "plans: {pro: ~}", "auto: [~, 'x']", "models: {a: {gated: !!bool true}}", "- a", "\"listen\": |\n  x\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, yaml string) {
		c, err := Load(Flags{Config: "stoa.yaml"}, env("ANTHROPIC_API_KEY=a"), files(yaml))
		if err == nil {
			if problems := c.Check(); len(problems) > 0 {
				t.Errorf("loaded, but it has problems: %v", problems)
			}
		}
	})
}

func TestPaymentsNeedAKeyAndASigningSecret(t *testing.T) {
	t.Parallel()
	const packs = "\n  packs:\n    small: {name: a, price: 100, currency: eur, creditsMicro: 5}\n"
	for yaml, want := range map[string]string{
		"payments:\n  stripe: {keyEnv: KEY}" + packs:                                                                                                   "signing secret",
		"payments:\n  stripe: {webhookSecrets: [{env: SECRET}]}" + packs:                                                                               "secret key of Stripe",
		"payments:\n  stripe: {keyEnv: NONE, webhookSecrets: [{env: SECRET}]}" + packs:                                                                 "NONE is not set",
		"payments:\n  stripe: {keyEnv: KEY, webhookSecrets: [{env: NONE}]}" + packs:                                                                    "NONE is not set",
		"payments:\n  stripe: {keyEnv: SECRET, webhookSecrets: [{env: SECRET}]}" + packs:                                                               "not a secret or restricted key",
		"payments:\n  stripe: {keyEnv: KEY, webhookSecrets: [{env: KEY}]}" + packs:                                                                     "whsec_",
		"payments:\n  stripe: {keyEnv: KEY, webhookSecrets: [{env: SECRET}]}\n":                                                                        "packs",
		"payments:\n  stripe: {keyEnv: KEY, webhookSecrets: [{env: SECRET}, {env: SECRET}, {env: SECRET}]}" + packs:                                    "too many",
		"payments:\n  stripe: {keyEnv: KEY, webhookSecrets: [{env: SECRET}]}\n  packs: {small: {name: a, price: 0, currency: eur, creditsMicro: 5}}\n": "smallest unit",
		"payments:\n  stripe: {keyEnv: KEY, webhookSecrets: [{env: SECRET}]}\n  packs: {small: {name: a, price: 1, currency: EUR, creditsMicro: 5}}\n": "currency",
		"payments:\n  stripe: {keyEnv: KEY, webhookSecrets: [{env: SECRET}]}\n  packs: {small: {name: a, price: 1, currency: eur, creditsMicro: 0}}\n": "micro-credits",
	} {
		_, err := Load(Flags{Config: "stoa.yaml"}, env("KEY=sk_live_1", "SECRET=whsec_1"), files("publicUrl: https://ai.example.com\n"+yaml))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "sk_live_1") {
			t.Errorf("%s\nfails with %v, want %q", yaml, err, want)
		}
	}
	if _, err := Load(Flags{Config: "stoa.yaml"}, env("KEY=sk_live_1", "SECRET=whsec_1"), files("payments:\n  stripe: {keyEnv: KEY, webhookSecrets: [{env: SECRET}]}"+packs)); err == nil || !strings.Contains(err.Error(), "publicUrl") {
		t.Errorf("without publicUrl: %v", err)
	}
}
