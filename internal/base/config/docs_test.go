package config

import (
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// setting is a row of the table of settings.
type setting struct{ path, def, env string }

// settings lists every leaf of the struct as docs/settings-*.md write it.
func settings(v reflect.Value, path string) []setting {
	var list []setting
	for i := range v.NumField() {
		f := v.Type().Field(i)
		name := yamlName(f)
		if name == "" {
			continue
		}
		list = append(list, leaves(f.Type, v.Field(i), join(path, name), f.Tag.Get("env"))...)
	}
	return list
}

func leaves(t reflect.Type, v reflect.Value, path, env string) []setting {
	key := map[string]string{"families": "<family>", "models": "<identifier>", "plans": "<plan>", "payments.packs": "<pack>"}[path]
	switch t.Kind() {
	case reflect.Pointer:
		return leaves(t.Elem(), reflect.New(t.Elem()).Elem(), path, env)
	case reflect.Struct:
		list := settings(v, path)
		for i := range list {
			if strings.ContainsAny(path, "[<") {
				list[i].def = "" // the default of a member of a list is described in words
			}
		}
		return list
	case reflect.Map:
		return leaves(t.Elem(), reflect.New(t.Elem()).Elem(), path+"."+key, env)
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Struct {
			return leaves(t.Elem(), reflect.New(t.Elem()).Elem(), path+"[]", env)
		}
		return []setting{{path, "", env}}
	}
	def := fmt.Sprint(v.Interface())
	switch n := v.Interface().(type) {
	case time.Duration:
		def = durationText(n)
	default:
		if v.CanInt() && t != reflect.TypeFor[Size]() {
			def = fmt.Sprint(v.Int())
		}
	}
	return []setting{{path, def, env}}
}

func TestDocsDescribeEverySetting(t *testing.T) {
	t.Parallel()
	var page string
	for _, name := range []string{"configuration", "settings-server", "settings-models", "settings-limits", "settings-people"} {
		text, err := os.ReadFile("../../../docs/" + name + ".md")
		if err != nil {
			t.Fatal(err)
		}
		page += string(text)
	}
	rows := map[string][]string{}
	for line := range strings.Lines(page) {
		if cells := strings.Split(line, "|"); len(cells) >= 5 && strings.HasPrefix(line, "| `") {
			rows[strings.Trim(cells[1], " `")] = cells
		}
	}
	d := Defaults()
	all := settings(reflect.ValueOf(&d).Elem(), "")
	for _, s := range all {
		row, ok := rows[s.path]
		if !ok {
			t.Errorf("docs/settings-*.md have no row for `%s`", s.path)
			continue
		}
		if got := strings.Trim(row[2], " `"); s.def != "" && !strings.ContainsAny(s.path, "[<") && got != s.def {
			t.Errorf("`%s`: the page says its default is %q; it is %q", s.path, got, s.def)
		}
		if got := strings.Trim(row[3], " `"); got != s.env {
			t.Errorf("`%s`: the page says its variable is %q; it is %q", s.path, got, s.env)
		}
	}
	for path := range rows {
		known := slices.ContainsFunc(all, func(s setting) bool { return s.path == path })
		if !known && !slices.Contains(Variables(), path) {
			t.Errorf("the page describes `%s`, which is no setting", path)
		}
	}
	for _, name := range Variables() {
		if !strings.Contains(page, "`"+name+"`") {
			t.Errorf("the page does not mention the variable %s", name)
		}
	}
}

func TestExamplesOfTheDocsWork(t *testing.T) {
	t.Parallel()
	for page, least := range map[string]int{"configuration": 2, "settings-server": 1, "settings-people": 2, "connect-a-vendor": 3, "migrate": 2} {
		text, err := os.ReadFile("../../../docs/" + page + ".md")
		if err != nil {
			t.Fatal(err)
		}
		blocks := strings.Split(string(text), "```yaml\n")[1:]
		for n, block := range blocks {
			yaml, _, _ := strings.Cut(block, "```")
			c, err := Load(Flags{Config: "stoa.yaml"}, env("ANTHROPIC_API_KEY=a", "OPENAI_API_KEY=b", "GEMINI_API_KEY=c", "OTHER_API_KEY=d", "SMTP_PASSWORD=e", "STRIPE_KEY=rk_test_f", "STRIPE_WEBHOOK_SECRET=whsec_g"), files(yaml))
			if err != nil {
				t.Errorf("%s: example %d: %v", page, n+1, err)
			}
			if len(c.Warnings) > 0 {
				t.Errorf("%s: example %d: %v", page, n+1, c.Warnings)
			}
		}
		if len(blocks) < least {
			t.Errorf("%s has only %d examples", page, len(blocks))
		}
	}
}
