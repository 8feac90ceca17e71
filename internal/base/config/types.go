package config

import (
	"fmt"
	"net/url"
	"reflect"
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
