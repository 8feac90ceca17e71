package embed_test

import (
	"net/url"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"stoa/internal/agents/embed"
)

func TestWildcardMatchesEveryHostBelow(t *testing.T) {
	t.Parallel()
	allowed := []string{"https://*.example.com", "https://*.example.org:8443", "http://localhost:3000"}
	for origin, want := range map[string]bool{
		"https://a.example.com": true, "https://b.a.example.com": true, "https://example.com": false, "http://a.example.com": false,
		"https://a.example.com:8443": false, "https://a.example.org:8443": true, "https://a.example.org": false,
		"https://aexample.com": false, "https://a.example.com.evil.net": false, "https://.example.com": true, // browsers never send it
		"http://localhost:3000": true, "https://localhost:3000": false, "http://localhost": false,
		"null": false, "": false, "https://*.example.com": true, // nor this one; it equals the entry
		"https://a.example.com/": false, "https://u@a.example.com": false, "file://": false,
	} {
		if got := embed.Lists(allowed, origin); got != want {
			t.Errorf("%q is listed: %v, want %v", origin, got, want)
		}
	}
}

// TestParsedOriginsAreInBrowserSpelling checks that an accepted text is an origin as browsers
// send it, is safe inside a Content-Security-Policy, and lists itself.
func TestParsedOriginsAreInBrowserSpelling(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(
			rapid.String(),
			rapid.StringMatching(`https?://(\*\.)?[A-Za-z0-9.*-]{1,20}(:[0-9]{0,6})?/?`),
		).Draw(t, "text")
		origin, err := embed.ParseOrigin(text)
		if err != nil {
			return
		}
		if strings.ContainsAny(origin, " ;,'\"\t\n/\\?#@") && strings.Count(origin, "/") != 2 || strings.ContainsAny(origin, " ;,'\"\t\n?#@") {
			t.Fatalf("%q became %q", text, origin)
		}
		again, err := embed.ParseOrigin(origin)
		if err != nil || again != origin {
			t.Fatalf("%q is read as %q, %v", origin, again, err)
		}
		sent := strings.Replace(origin, "*.", "a.", 1)
		u, err := url.Parse(sent)
		if err != nil || u.Scheme+"://"+u.Host != sent || !embed.Lists([]string{origin}, sent) {
			t.Fatalf("%q does not list %q", origin, sent)
		}
	})
}

func TestWildcardsOfPublicSuffixesAreRefused(t *testing.T) {
	t.Parallel()
	for origin, ok := range map[string]bool{
		"https://*.co.uk": false, "https://*.github.io": false, "https://*.GitHub.io:8443": false, "https://*.pages.dev": false,
		"https://*.example.co.uk": true, "https://*.stoa.github.io": true, "https://stoa.github.io": true, "https://*.intranet.example": true,
	} {
		if _, err := embed.ParseOrigin(origin); (err == nil) != ok {
			t.Errorf("%s: %v", origin, err)
		}
	}
}

func TestLookupsOfAnOriginAreBounded(t *testing.T) {
	t.Parallel()
	host := func(labels int) string { return "https://" + strings.Repeat("a.", labels-1) + "com" }
	if got := len(embed.Patterns(host(10))); got != 9 {
		t.Errorf("10 names are %d entries, want the origin and 8 wildcards", got)
	}
	if got := embed.Patterns(host(11)); got != nil {
		t.Errorf("11 names are %v", got)
	}
	if _, err := embed.ParseOrigin(host(11)); err == nil {
		t.Error("an origin is accepted that no request can match")
	}
}
