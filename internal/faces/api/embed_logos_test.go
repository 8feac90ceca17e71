package api_test

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"

	"stoa/internal/agents/embed"
	"stoa/internal/base/contract"
	"stoa/internal/base/stoa"
	"stoa/internal/testkit/apitest"
)

// pngOf returns the header of a PNG image of that size, and zeros up to a length in bytes.
func pngOf(width, height uint32, length int) string {
	data := append([]byte("\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"), make([]byte, max(length-16, 17))...)
	binary.BigEndian.PutUint32(data[16:], width)
	binary.BigEndian.PutUint32(data[20:], height)
	return base64.StdEncoding.EncodeToString(data)
}

func TestALogoIsAPicture(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Idle: true})
	c := h.Client(t)
	var logo contract.EmbedLogo
	c.Want(201, "POST", "/api/v1/embed-logos", object{"content": pngOf(64, 32, embed.MaxLogoBytes)}).JSON(&logo)
	if logo.MimeType != "image/png" || logo.Width != 64 || logo.Height != 32 || logo.Size != embed.MaxLogoBytes || logo.URL != h.URL+"/api/v1/embed/logos/"+logo.ID {
		t.Errorf("it is %+v", logo)
	}
	shown := h.ClientWith(t, "").With("Origin", "https://anyone.example")
	r := shown.Want(200, "GET", "/api/v1/embed/logos/"+logo.ID, nil)
	for name, want := range map[string]string{
		"Content-Type": "image/png", "X-Content-Type-Options": "nosniff", "Content-Security-Policy": "default-src 'none'; sandbox",
		"Cross-Origin-Resource-Policy": "cross-origin", "Cache-Control": "public, max-age=31536000, immutable",
	} {
		if got := r.Header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if base64.StdEncoding.EncodeToString(r.Body) != pngOf(64, 32, embed.MaxLogoBytes) {
		t.Error("it is another picture")
	}
	encode := base64.StdEncoding.EncodeToString
	for name, content := range map[string]string{
		"too large": pngOf(64, 32, embed.MaxLogoBytes+1), "too wide": pngOf(2049, 1, 0), "empty size": pngOf(0, 1, 0), "not base64": "!",
		"gif": encode([]byte("GIF89a\x01\x00\x01\x00\x00\x00\x00")), "svg": encode([]byte(`<svg xmlns="http://www.w3.org/2000/svg"><script>1</script></svg>`)),
		"html": encode([]byte("<!doctype html><script>1</script>")), "damaged": encode([]byte("\x89PNG\r\n\x1a\n")),
	} {
		if e := c.WantError(stoa.CodeInvalidValue, "POST", "/api/v1/embed-logos", object{"content": content}); e.Param == nil || *e.Param != "content" {
			t.Errorf("%s: it names %+v", name, e)
		}
	}
	for _, path := range []string{"/api/v1/embed/logos/lgo_x", "/api/v1/embed/logos/" + stoa.NewID("lgo")} {
		shown.WantError(stoa.CodeNotFound, "GET", path, nil)
	}
	once := c.With("Idempotency-Key", "logo")
	once.Want(201, "POST", "/api/v1/embed-logos", object{"content": pngOf(1, 1, 0)})
	once.WantError(stoa.CodeIdempotencyReused, "POST", "/api/v1/embed-logos", object{"content": pngOf(2, 1, 0)})
	for range 98 {
		c.Want(201, "POST", "/api/v1/embed-logos", object{"content": pngOf(1, 1, 0)})
	}
	c.WantError(stoa.CodeLimitReached, "POST", "/api/v1/embed-logos", object{"content": pngOf(1, 1, 0)})
	var list contract.EmbedLogoList
	if c.Want(200, "GET", "/api/v1/embed-logos?order=asc&limit=1", nil).JSON(&list); len(list.Data) != 1 || list.Data[0].ID != logo.ID || !list.HasMore {
		t.Errorf("the list is %+v", list)
	}
	c.Want(204, "DELETE", "/api/v1/embed-logos/"+logo.ID, nil)
	c.WantError(stoa.CodeNotFound, "DELETE", "/api/v1/embed-logos/"+logo.ID, nil)
	shown.WantError(stoa.CodeNotFound, "GET", "/api/v1/embed/logos/"+logo.ID, nil)
}

func TestLogosAreReadSoOften(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Idle: true})
	var logo contract.EmbedLogo
	h.Client(t).Want(201, "POST", "/api/v1/embed-logos", object{"content": pngOf(8, 8, 0)}).JSON(&logo)
	stranger := from(h.ClientWith(t, ""), "203.0.113.7")
	for range 120 {
		stranger.Want(200, "GET", "/api/v1/embed/logos/"+logo.ID, nil)
	}
	if r := stranger.Do("GET", "/api/v1/embed/logos/"+logo.ID, nil); r.Status != 429 || r.Header.Get("Retry-After") == "" {
		t.Errorf("%d %v %s", r.Status, r.Header, r.Body)
	}
	from(stranger, "203.0.113.8").Want(200, "GET", "/api/v1/embed/logos/"+logo.ID, nil)
}

func TestAnEmbedHasATitleALogoAndStarters(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	a := newAuthor(t, h, h.Client(t), object{"name": "Guide"})
	var logo, foreign contract.EmbedLogo
	a.Want(201, "POST", "/api/v1/embed-logos", object{"content": pngOf(8, 8, 0)}).JSON(&logo)
	var account contract.AccountWithKey
	a.Want(201, "POST", "/api/v1/accounts", object{"name": "Another"}).JSON(&account)
	other := h.ClientWith(t, account.Key.Secret)
	other.Want(201, "POST", "/api/v1/embed-logos", object{"content": pngOf(8, 8, 0)}).JSON(&foreign)
	other.WantError(stoa.CodeNotFound, "DELETE", "/api/v1/embed-logos/"+logo.ID, nil)

	look := object{"title": " <b>Help</b> & more ", "logo": logo.ID, "starters": []string{"say: first ", "What is <i>this</i>?"}}
	tag, path, page := newTag(t, a, look)
	if orNone(tag.Title) != "<b>Help</b> & more" || orNone(tag.Logo) != logo.ID || orNone(tag.LogoURL) != logo.URL || !slices.Equal(tag.Starters, []string{"say: first", "What is <i>this</i>?"}) {
		t.Errorf("it is %+v", tag)
	}
	var launcher contract.EmbedLauncher
	if page.Want(200, "GET", shows(tag), nil).JSON(&launcher); orNone(launcher.Title) != "<b>Help</b> & more" || orNone(launcher.LogoURL) != logo.URL {
		t.Errorf("the launcher has %+v", launcher)
	}
	v := visitTag(t, a, tag, page, "")
	read := func() (chat contract.EmbedChat) {
		v.Want(200, "GET", v.chat, nil).JSON(&chat)
		return chat
	}
	chat := read()
	if orNone(chat.Title) != "<b>Help</b> & more" || orNone(chat.LogoURL) != logo.URL || len(chat.Starters) != 2 {
		t.Errorf("the chat has %+v", chat)
	}

	// A link keeps its own.
	var link contract.EmbedURLWithLink
	a.Want(201, "POST", a.agent+"/embed-urls", object{"allowedOrigins": []string{site}, "title": "Mine", "logo": logo.ID, "starters": []string{"Why?"}}).JSON(&link)
	if orNone(link.Title) != "Mine" || orNone(link.Logo) != logo.ID || !slices.Equal(link.Starters, []string{"Why?"}) {
		t.Errorf("the link is %+v", link)
	}

	many := make([]string, 7)
	for i := range many {
		many[i] = fmt.Sprint("Question ", i)
	}
	for _, create := range []string{"/embed-tags", "/embed-urls", "/embed-sessions"} {
		for _, wrong := range []object{
			{"title": strings.Repeat("x", 81)},
			{"title": "  "},
			{"logo": foreign.ID},
			{"logo": "https://evil.example/logo.png"},
			{"starters": many},
			{"starters": []string{strings.Repeat("x", 201)}},
			{"starters": []string{" "}},
		} {
			member := ""
			body := object{"allowedOrigins": []string{site}}
			for k, value := range wrong {
				member, body[k] = k, value
			}
			if e := a.WantError(stoa.CodeInvalidValue, "POST", a.agent+create, body); e.Param == nil || !strings.HasPrefix(*e.Param, member) {
				t.Errorf("%s %v: it names %+v", create, wrong, e)
			}
		}
	}
	a.WantError(stoa.CodeInvalidValue, "PATCH", path, object{"logo": foreign.ID})
	if e := a.WantError(stoa.CodeInvalidValue, "POST", a.agent+"/embed-urls", object{"allowedOrigins": []string{site}, "maxMessageChars": 3, "starters": []string{"Why?"}}); e.Param == nil || *e.Param != "starters" {
		t.Errorf("it names %+v", e)
	}

	// A deleted logo leaves the tag and its chats.
	a.Want(204, "DELETE", "/api/v1/embed-logos/"+logo.ID, nil)
	if a.Want(200, "GET", path, nil).JSON(&tag); !tag.Logo.IsNull() || !tag.LogoURL.IsNull() {
		t.Errorf("it still has %+v", tag)
	}
	tag = contract.EmbedTag{}
	a.Want(200, "PATCH", path, object{"title": nil, "starters": nil}).JSON(&tag)
	if !tag.Title.IsNull() || len(tag.Starters) != 0 {
		t.Errorf("it is %+v", tag)
	}
	if chat = read(); !chat.Title.IsNull() || !chat.LogoURL.IsNull() || len(chat.Starters) != 0 {
		t.Errorf("the open chat has %+v", chat)
	}
}
