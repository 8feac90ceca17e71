package audit

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// maxObject is the maximum size of a stored object, in bytes. Of a larger one the size and SHA-256 are
// stored, so that a change is still visible.
const maxObject = 32 << 10

// secretWords lists the parts of a member's name that suggest a secret, in small letters.
var secretWords = []string{"secret", "token", "password", "header", "key", "credential", "authorization", "link"}

// Shown lists the members with such a name that contain no secret. Every other one is masked, so that
// a new member is masked until someone decides.
var Shown = []string{
	"secretId", "clientSecretId", "keyId", // ids
	"credentials",          // ids of secrets
	"headerName", "header", // the name without the value
	"tokenOrigin",
	"lastAuthorization", // the state of an authorization
	"credentialsPerSession",
}

// Masked lists the members with such a name that are masked. A test compares both lists with the
// contract, so that each new member needs a decision.
var Masked = []string{"secret", "token", "key", "headers", "link"}

const masked = "(masked)"

// Suspect reports whether a member's name suggests that its texts are secret.
func Suspect(name string) bool {
	name = strings.ToLower(name)
	return slices.ContainsFunc(secretWords, func(word string) bool { return strings.Contains(name, word) })
}

// Mask returns an object as the audit log stores it: its JSON without secrets. The texts of
// members that [Suspect] names are replaced unless they are [Shown]. Of an address only scheme and
// host remain, because the path of a receiver can be a secret too, with a digest that shows whether
// the rest changed. The members of the object in personal are masked like secrets. The text is empty
// for null.
func Mask(object []byte, personal ...string) (string, error) {
	reader := json.NewDecoder(bytes.NewReader(object))
	reader.UseNumber()
	var v any
	if err := reader.Decode(&v); err != nil {
		return "", fmt.Errorf("audit: %w", err)
	}
	if v == nil {
		return "", nil
	}
	if members, ok := v.(map[string]any); ok {
		for _, name := range personal {
			if text, ok := members[name]; ok {
				members[name] = mask(text, true)
			}
		}
	}
	var out bytes.Buffer
	w := json.NewEncoder(&out)
	w.SetEscapeHTML(false)
	if err := w.Encode(mask(v, false)); err != nil {
		return "", fmt.Errorf("audit: %w", err)
	}
	text := bytes.TrimSuffix(out.Bytes(), []byte("\n"))
	if len(text) > maxObject {
		sum := sha256.Sum256(text)
		return fmt.Sprintf(`{"bytes":%d,"sha256":"%x"}`, len(text), sum), nil
	}
	return string(text), nil
}

func mask(v any, secret bool) any {
	switch v := v.(type) {
	case string:
		switch {
		case v == "":
			return v
		case secret:
			return masked
		case strings.HasPrefix(v, "https://") || strings.HasPrefix(v, "http://"):
			return maskAddress(v)
		case strings.HasPrefix(v, "mailto:"): // masked, because it identifies a person
			return "mailto:" + masked + "#" + digest(v)
		}
	case []any:
		for i := range v {
			v[i] = mask(v[i], secret)
		}
	case map[string]any:
		for name := range v {
			v[name] = mask(v[name], secret || Suspect(name) && !slices.Contains(Shown, name))
		}
	}
	return v
}

func maskAddress(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return masked
	}
	origin := u.Scheme + "://" + u.Host
	if rest := strings.TrimPrefix(text, origin); rest == "" || rest == "/" {
		return text
	}
	return origin + "/" + masked + "#" + digest(text)
}

// digest returns the beginning of the hash of a text, so that a change of it is visible.
func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:6])
}
