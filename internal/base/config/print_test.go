package config

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// full is a file with every kind of setting.
const full = `# every kind of setting
listen: 0.0.0.0:9000
data: /var/lib/stoa
database: postgres://stoa:hunter2@db.internal:5432/stoa?sslmode=require
durability: process
publicUrl: https://stoa.example.com/
rateLimits: off
log: {format: json, level: warn}
drain: 1m
firstGrantMicro: 5_000_000
providers:
  - {name: claude, wire: messages, apiKeyEnv: ANTHROPIC_API_KEY, maxInFlight: 64, timeouts: &slow {firstByte: 90s, idle: 60s, total: 15m}}
  - {name: backup, wire: chat, baseURL: "http://127.0.0.1:11434/v1/", timeouts: *slow}
  - {name: inline, wire: responses, apiKey: sk-very-secret-indeed}
  - {name: seek, wire: chat, dialect: deepseek, apiKeyFile: /run/secrets/seek}
families:
  alpha: [{provider: claude}, {provider: backup, model: llama3.2}]
  gamma: [{provider: inline}]
  delta: [{provider: seek}]
models:
  alpha-haiku-4-5: {price: {input: 1000000, cachedInput: 50000, output: 5000000, above: {tokens: 150000, input: 2, output: 1.5}, hours: [{zone: Europe/Vienna, days: [sat, sun], from: "00:00", to: "24:00", factor: 0.75}]}}
  ours-3.2:
    family: local
    price: {input: 0, output: 0}
    aliases: [ours]
    routes: [{provider: backup, model: llama3.2, traits: {sampling: none, efforts: [low, high]}}]
auto: [alpha-haiku-4-5, ours-3.2]
limits: {body: 32MiB, embedToken: 3d}
drive: {store: {s3: {endpoint: "https://s3.example.com", bucket: stoa-files, region: eu-central-1, prefix: stoa/, accessKey: AKHIDDENID, secretKey: hidden-secret, keep: 30d}}}
mail: {smtp: {host: smtp.example.com, user: stoa, passwordFile: /run/secrets/seek, from: Stoa <stoa@example.com>}, addresses: [team@example.com]}
outbound: {allow: [10.20.0.0/16, "mcp.internal:8000"], proxy: "http://stoa:hunter2@proxy.internal:3128"}
plans:
  pro: {requestsPerMinute: 600}
  team: {name: Team, gatedModels: true, concurrentPerKey: 4}
`

// env returns an environment with these variables only.
func env(pairs ...string) func(string) string {
	return func(name string) string {
		for _, p := range pairs {
			if v, ok := strings.CutPrefix(p, name+"="); ok {
				return v
			}
		}
		return ""
	}
}

// files returns a file system with stoa.yaml and a key at /run/secrets/seek.
func files(yaml string) func(string) ([]byte, error) {
	return func(name string) ([]byte, error) {
		switch name {
		case "stoa.yaml":
			return []byte(yaml), nil
		case "/run/secrets/seek":
			return []byte("sk-from-a-file\n"), nil
		case "/run/secrets/empty":
			return []byte("\n"), nil
		}
		return nil, &os.PathError{Op: "open", Path: name, Err: os.ErrNotExist}
	}
}

func TestPrint(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, yaml string
		env        func(string) string
	}{
		{"defaults", "", env()},
		{"full", full, env("ANTHROPIC_API_KEY=sk-ant-hidden", "STOA_LOG_LEVEL=debug")},
		{"variables", "", env("ANTHROPIC_API_KEY=sk-ant-hidden", "STOA_OUTBOUND_DENY=10.20.0.1, mcp.internal", "STOA_UPSTREAM=http://127.0.0.1:11434/v1", "STOA_UPSTREAM_MODEL=llama3.2")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, err := Load(Flags{Config: "stoa.yaml"}, tt.env, files(tt.yaml))
			if err != nil {
				t.Fatal(err)
			}
			var got bytes.Buffer
			if err := c.Print(&got); err != nil {
				t.Fatal(err)
			}
			for _, secret := range []string{"hunter2", "sk-very-secret", "sk-ant-hidden", "sk-from-a-file"} {
				if strings.Contains(got.String(), secret) {
					t.Errorf("the dump holds the secret %q", secret)
				}
			}
			golden := filepath.Join("testdata", tt.name+".yaml")
			if *update {
				if err := os.WriteFile(golden, got.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got.String()); diff != "" {
				t.Errorf("the dump differs from %s (-want +got):\n%s", golden, diff)
			}

			// The output can be loaded and gives the same settings except the secrets.
			again, err := Load(Flags{Config: "stoa.yaml"}, tt.env, files(got.String()))
			if err != nil {
				t.Fatalf("the dump cannot be read back: %v", err)
			}
			opts := cmp.Options{
				cmpopts.IgnoreUnexported(Config{}, Provider{}, SMTP{}, Stripe{}), cmpopts.IgnoreFields(Config{}, "Database", "Warnings"),
				cmpopts.IgnoreFields(Provider{}, "APIKey", "BaseURL", "Dialect", "MaxInFlight", "WholeReplies", "Caching", "Timeouts"),
				cmpopts.IgnoreFields(S3{}, "AccessKey", "SecretKey"), cmpopts.IgnoreFields(Outbound{}, "Proxy"), cmpopts.EquateEmpty(),
			}
			if diff := cmp.Diff(c, again, opts); diff != "" {
				t.Errorf("the dump says something else (-loaded +read back):\n%s", diff)
			}
		})
	}
}
