package api

import (
	"context"
	"net/http"
	"strconv"

	"stoa/internal/base/contract"
	"stoa/internal/base/rest"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
)

func (s *Embeds) logoLink(id string) string {
	if id == "" {
		return ""
	}
	return s.link(embedPrefix + "/logos/" + id)
}

func (s *Embeds) contractLogo(l stoa.EmbedLogo) contract.EmbedLogo {
	return contract.EmbedLogo{
		ID: l.ID, Object: "embed_logo", MimeType: l.MimeType, Size: int(l.Bytes), Width: int(l.Width), Height: int(l.Height),
		URL: s.logoLink(l.ID), CreatedAt: contract.Time(l.CreatedAt),
	}
}

func (s *Embeds) createEmbedLogo(ctx context.Context, tx *store.Tx, in rest.Request[rest.None, contract.CreateEmbedLogo]) (rest.Reply[contract.EmbedLogo], error) {
	l, err := s.embeds.CreateLogo(ctx, tx, in.Caller.Account.ID, in.Body.Content)
	return rest.Created("/api/v1/embed-logos/"+l.ID, s.contractLogo(l)), err
}

func (s *Embeds) listEmbedLogos(ctx context.Context, in rest.Request[contract.ListEmbedLogosParams, rest.None]) (rest.Reply[rest.Page[contract.EmbedLogo]], error) {
	q, accountID := in.Params, in.Caller.Account.ID
	p := rest.NewPager(q.Limit, q.Cursor, q.Order, "embed logos", accountID)
	if p.Err != nil {
		return rest.Reply[rest.Page[contract.EmbedLogo]]{}, p.Err
	}
	list, more, err := s.embeds.Logos(ctx, accountID, p.Page)
	return rest.Reply[rest.Page[contract.EmbedLogo]]{Body: rest.NewPage(p, list, more, s.contractLogo,
		func(l stoa.EmbedLogo) rest.Place { return rest.Place{At: l.CreatedAt, ID: l.ID} })}, err
}

func (s *Embeds) deleteEmbedLogo(ctx context.Context, in rest.Request[byID, rest.None]) (rest.Reply[rest.None], error) {
	_, err := write(ctx, s.Store, func(tx *store.Tx) (struct{}, error) {
		return struct{}{}, tx.Setup().DeleteEmbedLogo(ctx, in.Caller.Account.ID, in.Params.ID)
	})
	return rest.NoContent(), err
}

type byLogoID struct {
	LogoID string `path:"logoId"`
}

// getEmbedLogo serves GET /api/v1/embed/logos/{logoId}. Pages of any site may show it, but only as a picture.
func (s *Embeds) getEmbedLogo(x *rest.Exchange, read func() (rest.Input[byLogoID, rest.None], error)) error {
	in, err := read()
	if err != nil {
		return err
	}
	mimeType, data, err := s.embeds.Logo(x.Context(), in.Params.LogoID, s.ClientAddress(x.HTTP))
	if err != nil {
		return err
	}
	h := x.Header()
	h.Set("Content-Type", mimeType)
	h.Set("Content-Length", strconv.Itoa(len(data)))
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	h.Set("Content-Security-Policy", "default-src 'none'; sandbox")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cross-Origin-Resource-Policy", "cross-origin")
	x.WriteHeader(http.StatusOK)
	if x.HTTP.Method != http.MethodHead {
		_, err = x.Write(data)
	}
	return err
}
