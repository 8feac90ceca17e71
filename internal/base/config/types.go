package config

import (
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"stoa/internal/base/stoa"
)

// Masked is printed instead of a secret.
const Masked = "********"

// A Secret is text that fmt and YAML never print. string(s) returns it.
type Secret string

// String returns the mask, or "" for an empty secret.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return Masked
}

// GoString returns the mask, because fmt does not call String for %#v.
func (s Secret) GoString() string { return strconv.Quote(s.String()) }

// MarshalText returns the mask.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// A Size is a count of bytes.
type Size int64

// units are the units of sizes, largest first, because String uses the first one that fits.
func units() []struct {
	word string
	size Size
} {
	return []struct {
		word string
		size Size
	}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}}
}

// String returns the size in its largest whole unit: 16MiB.
func (s Size) String() string {
	for _, u := range units() {
		if s >= u.size && s%u.size == 0 {
			return strconv.FormatInt(int64(s/u.size), 10) + u.word
		}
	}
	return strconv.FormatInt(int64(s), 10)
}

// MarshalText returns [Size.String].
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// parseSize parses a number of bytes, or a number followed by KiB, MiB or GiB.
func parseSize(text string) (Size, error) {
	number, factor := text, Size(1)
	for _, u := range units() {
		if rest, ok := strings.CutSuffix(text, u.word); ok {
			number, factor = strings.TrimSpace(rest), u.size
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 0 || n > 1<<62/int64(factor) {
		return 0, fmt.Errorf("%q is not a size; write bytes or a unit, such as 16MiB, 512KiB or 1GiB", text)
	}
	return Size(n) * factor, nil
}

// parseDuration parses the formats of [time.ParseDuration], and whole days ("7d").
func parseDuration(text string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.Atoi(days); err == nil && n >= 0 && n <= 36500 {
			return time.Duration(n) * 24 * time.Hour, nil
		}
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("%q is not a duration; write a number with its unit, such as 500ms, 30s, 15m, 24h or 7d", text)
	}
	return d, nil
}

// setText sets a value from its text. The file, the environment and the flags share it, so that each
// accepts the same texts. An invalid text changes nothing.
func setText(v reflect.Value, text string) error {
	switch v.Interface().(type) {
	case time.Duration:
		d, err := parseDuration(text)
		if err == nil {
			v.SetInt(int64(d))
		}
		return err
	case Size:
		s, err := parseSize(text)
		if err == nil {
			v.SetInt(int64(s))
		}
		return err
	case []string:
		list := strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' })
		v.Set(reflect.ValueOf(list))
		return nil
	case Extensions:
		e, err := parseExtensions(text)
		if err == nil {
			v.Set(reflect.ValueOf(e))
		}
		return err
	case stoa.Credits:
		n, err := strconv.ParseInt(strings.ReplaceAll(text, "_", ""), 10, 64)
		if err != nil {
			return fmt.Errorf("%q is not a whole number of micro-credits; one credit is 1000000", text)
		}
		v.SetInt(n)
		return nil
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Bool:
		if text != "true" && text != "false" {
			return fmt.Errorf("%q is neither true nor false", text)
		}
		v.SetBool(text == "true")
	case reflect.Int, reflect.Int64:
		n, err := strconv.ParseInt(strings.ReplaceAll(text, "_", ""), 10, 64)
		if err != nil {
			return fmt.Errorf("%q is not a whole number", text)
		}
		v.SetInt(n)
	case reflect.Float64:
		f, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return fmt.Errorf("%q is not a number", text)
		}
		v.SetFloat(f)
	default:
		return fmt.Errorf("a setting of type %s cannot be read", v.Type())
	}
	return nil
}

// maskURL masks the password of a URL, in its authority or its query.
func maskURL(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return Masked
	}
	if _, has := u.User.Password(); has {
		u.User = url.UserPassword(u.User.Username(), Masked)
	}
	q := u.Query()
	for name := range q {
		if strings.Contains(strings.ToLower(name), "password") {
			q.Set(name, Masked)
		}
	}
	u.RawQuery = q.Encode()
	return strings.ReplaceAll(u.String(), url.QueryEscape(Masked), Masked)
}

// Extensions are optional features beyond version 1 of the API. All are off by default, so that the
// service answers exactly as version 1 says. The contract marks their parts with x-extension and these names.
type Extensions struct {
	Models      bool `yaml:"models"`      // GET /models, for clients that list models
	InputTokens bool `yaml:"inputTokens"` // POST /responses/input_tokens, which counts tokens
	Compact     bool `yaml:"compact"`     // POST /responses/compact, which summarizes a conversation
	V1Alias     bool `yaml:"v1Alias"`     // /v1/… answers as /api/v1/…
	Tools       bool `yaml:"tools"`       // function tools in POST /responses
	Formats     bool `yaml:"formats"`     // text.format json_object and json_schema
	Images      bool `yaml:"images"`      // images in POST /responses
	Files       bool `yaml:"files"`       // PDF and text files in POST /responses

	ChatCompletions bool `yaml:"chatCompletions"` // POST /chat/completions
	Messages        bool `yaml:"messages"`        // POST /messages
	Gemini          bool `yaml:"gemini"`          // POST /models/{model}:generateContent and its siblings
}

// ExtensionOptions are settings of extensions. They have no effect while the extension is off.
type ExtensionOptions struct {
	Tools   ToolsOptions   `yaml:"tools"`
	Formats FormatsOptions `yaml:"formats"`
	Images  ImagesOptions  `yaml:"images"`
	Files   FilesOptions   `yaml:"files"`

	ChatCompletions ChatCompletionsOptions `yaml:"chatCompletions"`
}

// ChatCompletionsOptions are settings of the extension chatCompletions.
type ChatCompletionsOptions struct {
	// NoCredits is the status of a call that credits or a budget do not cover: 429, as OpenAI sends
	// it, or 402, because some clients repeat every 429 for ever.
	NoCredits int `yaml:"noCredits" env:"STOA_CHAT_NO_CREDITS"`
}

// ImagesOptions are settings of the extension images.
type ImagesOptions struct {
	// URL selects the handling of an image's address: pass (the vendor fetches it), fetch
	// (Stoa fetches it) or refuse.
	URL string `yaml:"url" env:"STOA_IMAGES_URL"`
}

// FilesOptions are settings of the extension files.
type FilesOptions struct {
	// URL is like that of [ImagesOptions].
	URL string `yaml:"url" env:"STOA_FILES_URL"`
}

// ToolsOptions are settings of the extension tools.
type ToolsOptions struct {
	// Forced selects the handling of a tool_choice that forces a call, for a model that cannot be
	// forced: refuse, or auto, which lets the model decide.
	Forced string `yaml:"forced" env:"STOA_TOOLS_FORCED"`
	// Foreign selects the handling of tools that the caller does not execute: ignore or refuse.
	Foreign string `yaml:"foreign" env:"STOA_TOOLS_FOREIGN"`
}

// FormatsOptions are settings of the extension formats.
type FormatsOptions struct {
	// BestEffort asks a model for JSON in words if its vendor does not support the format.
	BestEffort bool `yaml:"bestEffort" env:"STOA_FORMATS_BEST_EFFORT"`
}

// Names returns the names of the enabled extensions, in a fixed order.
func (e Extensions) Names() []string {
	var names []string
	v := reflect.ValueOf(e)
	for i := range v.NumField() {
		if v.Field(i).Bool() {
			names = append(names, yamlName(v.Type().Field(i)))
		}
	}
	return names
}

// AllExtensions returns the extensions with all of them enabled.
func AllExtensions() Extensions {
	var all Extensions
	v := reflect.ValueOf(&all).Elem()
	for i := range v.NumField() {
		v.Field(i).SetBool(true)
	}
	return all
}

// parseExtensions parses names separated by commas: models,v1Alias. "all" enables every
// extension, "none" disables those of the file.
func parseExtensions(text string) (Extensions, error) {
	switch text {
	case "all":
		return AllExtensions(), nil
	case "none":
		return Extensions{}, nil
	}
	var e Extensions
	v := reflect.ValueOf(&e).Elem()
	known := AllExtensions().Names()
	for name := range strings.SplitSeq(text, ",") {
		name = strings.TrimSpace(name)
		i := slices.Index(known, name)
		if i < 0 {
			return Extensions{}, fmt.Errorf("there is no extension %q%s", name, didYouMean(name, append(slices.Clone(known), "all", "none")))
		}
		v.Field(i).SetBool(true)
	}
	return e, nil
}
