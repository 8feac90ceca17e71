package embed

import (
	"context"
	"encoding/base64"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"stoa/internal/base/media"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
)

// MaxLogoBytes is the maximum size of a logo.
const MaxLogoBytes = 256 << 10

const (
	maxLogoSide     = 2048 // pixels of the width and of the height
	logosPerMinute  = 3000 // requests for a logo, because its address is public
	logosPerAddress = 120  // requests for any logo from one address
)

// CreateLogo stores a logo in base64. The type is that of its content.
func (s *Embeds) CreateLogo(ctx context.Context, tx *store.Tx, accountID, content string) (l stoa.EmbedLogo, err error) {
	data, err := base64.StdEncoding.DecodeString(content)
	if err != nil {
		return l, stoa.Errorf(stoa.CodeInvalidValue, "The content must be base64.").At("content")
	}
	if len(data) > MaxLogoBytes {
		return l, stoa.Errorf(stoa.CodeInvalidValue, "The logo has %s; the maximum is %s. Send a smaller one.", stoa.Size(int64(len(data))), stoa.Size(MaxLogoBytes)).At("content")
	}
	m, err := media.ImageOf(data)
	if err != nil {
		return l, stoa.AsError(err).At("content")
	}
	switch {
	case m.Type == media.GIF:
		err = stoa.Errorf(stoa.CodeInvalidValue, "A logo must be a PNG, JPEG or WebP image, not %s.", m.Type).At("content")
	case m.Width > maxLogoSide || m.Height > maxLogoSide:
		err = stoa.Errorf(stoa.CodeInvalidValue, "The logo has %d x %d pixels; the maximum is %d on each side. Send a smaller one.", m.Width, m.Height, maxLogoSide).At("content")
	}
	if err != nil {
		return l, err
	}
	return tx.Setup().InsertEmbedLogo(ctx, stoa.EmbedLogo{AccountID: accountID, MimeType: m.Type, Bytes: int64(len(data)), Width: m.Width, Height: m.Height}, m.Base64)
}

// Logos returns a page of the logos of an account.
func (s *Embeds) Logos(ctx context.Context, accountID string, p store.Page) (list []stoa.EmbedLogo, more bool, err error) {
	err = s.cfg.Store.Read(ctx, func(tx *store.Tx) error {
		list, more, err = tx.Setup().EmbedLogos(ctx, accountID, p)
		return err
	})
	return list, more, err
}

// Logo returns the type and the content of a logo of any account, for a client at an address.
func (s *Embeds) Logo(ctx context.Context, id, address string) (mimeType string, data []byte, err error) {
	if !stoa.IsID("lgo", id) {
		return "", nil, stoa.Errorf(stoa.CodeNotFound, "This is not the id of a logo; they begin with lgo_.").At("logoId")
	}
	wait, ok := time.Duration(0), true
	if address != "" {
		wait, ok = s.allow("logos from "+address, logosPerAddress)
	}
	if ok {
		wait, ok = s.allow("logo "+id, logosPerMinute)
	}
	if !ok {
		return "", nil, stoa.Errorf(stoa.CodeRateLimit, "There are too many requests for this logo. Try again in %d seconds.", wait/time.Second).After(wait)
	}
	content := ""
	err = s.cfg.Store.Read(ctx, func(tx *store.Tx) (err error) {
		mimeType, content, err = tx.Setup().EmbedLogoContent(ctx, id)
		return err
	})
	if err != nil {
		return "", nil, err
	}
	data, err = base64.StdEncoding.DecodeString(content)
	return mimeType, data, err
}

// tidy returns a look without spaces around its texts. It checks the starters like messages, because a
// visitor sends them.
func tidy(l stoa.EmbedLook, maxChars int) (stoa.EmbedLook, error) {
	l.Title, l.Starters = strings.TrimSpace(l.Title), slices.Clone(l.Starters)
	for i, text := range l.Starters {
		l.Starters[i] = strings.TrimSpace(text)
		if n := utf8.RuneCountInString(l.Starters[i]); n > maxChars {
			return l, stoa.Errorf(stoa.CodeInvalidValue, "A starter has %d characters, and a message at most %d. Shorten it, or raise maxMessageChars.", n, maxChars).At("starters")
		}
	}
	return l, nil
}

// checkLogo returns an error unless the logo of a look, if any, belongs to the account.
func checkLogo(ctx context.Context, tx *store.Tx, accountID string, l stoa.EmbedLook) error {
	if l.Logo == "" {
		return nil
	}
	_, err := tx.Setup().EmbedLogo(ctx, accountID, l.Logo)
	if stoa.CodeOf(err) == stoa.CodeNotFound {
		err = stoa.Errorf(stoa.CodeInvalidValue, "This account has no logo %q. Upload one with POST /api/v1/embed-logos.", l.Logo).At("logo")
	}
	return err
}
