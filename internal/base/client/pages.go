package client

import (
	"context"
	"iter"
	"maps"
	"net/url"
	"strconv"

	"stoa/internal/base/jsonx"
)

// MaxPage is the largest page that the API returns.
const MaxPage = 100

// Whole ranges over the rows of a list without pages. It sends no page parameters, because such an operation refuses
// unknown ones.
func (c *Client) Whole(ctx context.Context, path string) iter.Seq2[jsonx.Value, error] {
	return func(yield func(jsonx.Value, error) bool) {
		var page struct {
			Data []jsonx.Value `json:"data"`
		}
		if _, err := c.JSON(ctx, "GET", path, nil, nil, &page); err != nil {
			yield(nil, err)
			return
		}
		for _, row := range page.Data {
			if !yield(row, nil) {
				return
			}
		}
	}
}

// All ranges over the rows of a list from its first page, following the cursors. It yields at most limit
// rows; 0 means all.
func (c *Client) All(ctx context.Context, path string, query url.Values, limit int) iter.Seq2[jsonx.Value, error] {
	return func(yield func(jsonx.Value, error) bool) {
		query := maps.Clone(query)
		if query == nil {
			query = url.Values{}
		}
		for given := 0; ; {
			size := MaxPage
			if limit > 0 {
				size = min(size, limit-given)
			}
			query.Set("limit", strconv.Itoa(size))
			var page struct {
				Data       []jsonx.Value `json:"data"`
				NextCursor *string       `json:"nextCursor"`
			}
			if _, err := c.JSON(ctx, "GET", path, query, nil, &page); err != nil {
				yield(nil, err)
				return
			}
			for _, row := range page.Data {
				if !yield(row, nil) {
					return
				}
				given++
			}
			if page.NextCursor == nil || *page.NextCursor == "" || limit > 0 && given >= limit {
				return
			}
			// Only a repeated cursor ends the list, because a page of a filtered list may be empty although more follow.
			if len(page.Data) == 0 && *page.NextCursor == query.Get("cursor") {
				return
			}
			query.Set("cursor", *page.NextCursor)
		}
	}
}
