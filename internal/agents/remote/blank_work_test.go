package remote

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// someSecrets returns similar secrets of 8 to 4,096 characters.
func someSecrets(count int) Credential {
	r := rand.New(rand.NewPCG(1, 2))
	secrets := make([]string, count)
	for i := range secrets {
		s := make([]byte, 4096-4088*i/max(count-1, 1))
		for k := range s {
			s[k] = "ab"[r.IntN(2)]
		}
		secrets[i] = string(s)
	}
	secrets[0] = strings.Repeat("a", 4096)
	return Credential{Header: "X-Key", Value: secrets[0], Parts: secrets[1:]}
}

// hostile are texts of a length that are as expensive as someone who knows the secrets can
// make them.
var hostile = map[string]func(c Credential, length int) []byte{
	"backslashes":        repeat(`\`),
	"%2525…":             func(_ Credential, n int) []byte { return []byte("%" + strings.Repeat("25", n/2)) },
	"%25252525 often":    repeat("%25252525"),
	`\u005c`:             repeat(`\u005c`),
	`\u005cu005c… often`: repeat(`\u005cu005cu005cu005cu005c`),
	"base64":             repeat("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"),
	"nested":             repeat(`%255c\\u0025\u005c%25\\\\%2525`),
	"escapes": func(_ Credential, n int) []byte {
		return random(n, func(*rand.Rand) []string {
			return []string{`\\`, `%25`, `%5c`, `\u005c`, `\u0025`, `u005c`, `25`, `5c`, `a`, `x41`}
		})
	},
	"prefixes": func(c Credential, n int) []byte {
		all := append(c.Parts, c.Value)
		return random(n, func(r *rand.Rand) []string {
			s := all[r.IntN(len(all))]
			return []string{s[:r.IntN(len(s))], s[:8] + `%25`, s[:7] + `\\`, s[:r.IntN(len(s))] + `\u0025`}
		})
	},
	"almost": func(c Credential, n int) []byte { return repeat(c.Value[1:]+`%2561\u0062`)(c, n) },
	"found":  func(c Credential, n int) []byte { return repeat(c.Value+`%2561`)(c, n) },
}

func repeat(unit string) func(Credential, int) []byte {
	return func(_ Credential, n int) []byte { return []byte(strings.Repeat(unit, n/len(unit)+1)[:n]) }
}

func random(n int, choices func(*rand.Rand) []string) []byte {
	r := rand.New(rand.NewPCG(3, 4))
	var text []byte
	for len(text) < n {
		all := choices(r)
		text = append(text, all[r.IntN(len(all))]...)
	}
	return text[:n]
}

// TestTheWorkOfBlankingIsLinear checks that each byte is examined a bounded number of times
// in each of the at most 31 layers, regardless of the text and the number of secrets.
func TestTheWorkOfBlankingIsLinear(t *testing.T) {
	t.Parallel()
	lengths := []int{64 << 10, 256 << 10, 4 << 20}
	if testing.Short() {
		lengths = lengths[:2]
	}
	const most = 31 * (3*2 + 2) // one byte and one step back for each form, one byte for each escape
	for name, text := range hostile {
		for _, length := range lengths {
			c := someSecrets(20)
			data := text(c, length)
			b := newBlanking(c, data)
			b.search(layer{text: data}, deepest)
			if b.steps < 3*len(data) || b.steps > most*len(data) {
				t.Errorf("%s, %d bytes: %d steps, %d for each", name, len(data), b.steps, b.steps/len(data))
			}
			if size := cap(b.places)*4 + cap(b.cover)*4; size > 12*len(data) {
				t.Errorf("%s, %d bytes: %d bytes of memory", name, len(data), size)
			}
			for _, l := range b.below {
				if cap(l.text)+4*cap(l.from) > 8*len(data) {
					t.Errorf("%s, %d bytes: a layer has %d and %d", name, len(data), cap(l.text), cap(l.from))
				}
			}
		}
	}
}

// TestSecretsThatOverlapAreBlanked checks that nothing remains of secrets that overlap; a
// secret that begins with a repetition of its own prefix is found from its first byte on.
func TestSecretsThatOverlapAreBlanked(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		secrets    []string
		text, want string
	}{
		{[]string{"abcdefgh", "cdefghIJKL"}, "-abcdefghIJKL-", "-[secret]-"},
		{[]string{"abcdefgh", "xxabcdefghxx"}, "-xxabcdefghxx-xxabcdefghx-", "-[secret]-xx[secret]x-"},
		{[]string{"name:password", "password"}, "name:password password", "[secret] [secret]"},
		{[]string{"aaaaaaaa"}, "-" + strings.Repeat("a", 19) + "-", "-[secret]-"},
		{[]string{"aabaabaaa", "baabaabb"}, "aabaabaabaaa aabaabaabb", "aab[secret] aa[secret]"},
	} {
		got := string(Credential{Header: "X-Key", Value: c.secrets[0], Parts: c.secrets[1:]}.Blank([]byte(c.text)))
		if got != c.want {
			t.Errorf("%q: %s", c.secrets, got)
		}
	}
}

// BenchmarkBlank measures the time per byte, which should be the same for all lengths.
func BenchmarkBlank(b *testing.B) {
	names := make([]string, 0, len(hostile))
	for name := range hostile {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, count := range []int{1, 3, 20} {
		c := someSecrets(count)
		for _, name := range names {
			for _, length := range []int{64 << 10, 256 << 10, 1 << 20, 4 << 20} {
				data := hostile[name](c, length)
				b.Run(fmt.Sprintf("%d secrets/%s/%d KiB", count, name, length>>10), func(b *testing.B) {
					for b.Loop() {
						c.Blank(data)
					}
					b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(data)), "ns/byte")
				})
			}
		}
	}
}
