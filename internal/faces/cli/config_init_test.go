package cli

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"stoa/internal/base/config"
	"stoa/internal/faces/app"
)

// The file that config init writes changes nothing as it is, and works with every
// suggestion taken.
func TestTheSampleConfigurationWorks(t *testing.T) {
	t.Parallel()
	load := func(text string) config.Config {
		t.Helper()
		cfg, err := config.Load(config.Flags{Config: "stoa.yaml"}, func(name string) string {
			if strings.HasSuffix(name, "_API_KEY") && !strings.HasPrefix(name, "STOA_") {
				return "key"
			}
			return ""
		}, func(string) ([]byte, error) { return []byte(text), nil })
		if err == nil {
			err = app.Check(cfg)
		}
		if err != nil {
			t.Fatal(err)
		}
		return cfg
	}
	if cfg := load(sampleConfig); cfg.Listen != config.Defaults().Listen {
		t.Errorf("as it is, the file changes the address to %s", cfg.Listen)
	}
	taken := regexp.MustCompile(`(?m)^#(\S|  - |  \S)`).ReplaceAllString(sampleConfig, "$1")
	cfg := load(taken)
	if strings.Count(taken, "\n#") > 20 || cfg.PublicURL == "" || len(cfg.Upstreams()) != 5 || len(cfg.Plans) == 0 {
		t.Errorf("not every suggestion was taken: %d providers\n%s", len(cfg.Upstreams()), taken)
	}
}

func TestPrintedWordsCanBePasted(t *testing.T) {
	t.Parallel()
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("no shell")
	}
	for _, word := range []string{"plain", "Museum guide", "it's", "$HOME", "`id`", `a"b\c`, "", "*", "~", "a\nb", "#x", "agt_06h0"} {
		cmd := exec.Command(shell, "-c", "printf '<%s>' "+shellWord(word))
		cmd.Env = append(os.Environ(), "HOME=/nowhere")
		if out, err := cmd.Output(); err != nil || string(out) != "<"+word+">" {
			t.Errorf("%q is pasted as %s and read as %s, %v", word, shellWord(word), out, err)
		}
	}
}
