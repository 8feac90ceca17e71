package api

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"strings"
	"time"

	"github.com/oapi-codegen/nullable"

	"stoa/internal/stoa"
	"stoa/internal/store"
)

const defaultPageSize = 20

// A pager reads the cursor of one list and writes the next one. A cursor is the
// place of the last row with a check sum over it and over what the list is: the
// same cursor with another filter, order or account is refused.
type pager struct {
	bound string
	page  store.Page
}

// newPager reads a list's parameters. What names the list comes last: its path,
// the account, and every filter.
func newPager(limit int, cursor, order string, list ...string) (pager, error) {
	p := pager{
		bound: strings.Join(append(list, order), "\x00"),
		page:  store.Page{Limit: limit, Asc: order == "asc"},
	}
	if limit == 0 {
		p.page.Limit = defaultPageSize
	}
	if order == "" {
		p.bound += "desc"
	}
	if cursor == "" {
		return p, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil || len(raw) < sumSize+8 || string(p.sum(raw[sumSize:])) != string(raw[:sumSize]) {
		return p, stoa.Errorf(stoa.CodeInvalidCursor, "This cursor is damaged, or was made for another list, filter or order. Begin again without one.").At("cursor")
	}
	p.page.After.At = time.UnixMicro(int64(binary.BigEndian.Uint64(raw[sumSize:]))).UTC()
	p.page.After.ID = string(raw[sumSize+8:])
	return p, nil
}

const sumSize = 8

func (p pager) sum(place []byte) []byte {
	h := sha256.New()
	h.Write([]byte(p.bound))
	h.Write([]byte{0})
	h.Write(place)
	return h.Sum(nil)[:sumSize]
}

// next is the cursor after a page's last row; null when there is no more.
func (p pager) next(more bool, at time.Time, id string) nullable.Nullable[string] {
	if !more {
		return noCursor()
	}
	return nullable.NewNullableWithValue(p.cursor(at, id))
}

// cursor is the cursor of what comes after that place.
func (p pager) cursor(at time.Time, id string) string {
	place := binary.BigEndian.AppendUint64(nil, uint64(at.UnixMicro()))
	place = append(place, id...)
	return base64.RawURLEncoding.EncodeToString(append(p.sum(place), place...))
}

// noCursor is null: what a list that is empty or at its end says. The zero value
// of the type would be written as an empty text.
func noCursor() nullable.Nullable[string] { return nullable.NewNullNullable[string]() }

// A page is one page of a list.
type page[T any] struct {
	Data       []T                       `json:"data"`
	HasMore    bool                      `json:"hasMore"`
	NextCursor nullable.Nullable[string] `json:"nextCursor"`
}

// A place is where a row stands in its list; see [store.Cursor].
type place struct {
	at time.Time
	id string
}

// readPage answers with the page that rows reads: item is a row as it is shown, at
// its place.
func readPage[Row, Item any](ctx context.Context, s *Server, p pager, rows func(*store.Tx) ([]Row, bool, error), item func(Row) Item, at func(Row) place) (Reply[page[Item]], error) {
	var out page[Item]
	err := s.Store.Read(ctx, func(tx *store.Tx) error {
		list, more, err := rows(tx)
		out = newPage(p, list, more, item, at)
		return err
	})
	return Reply[page[Item]]{Body: out}, err
}

// newPage returns the page with these rows.
func newPage[Row, Item any](p pager, list []Row, more bool, item func(Row) Item, at func(Row) place) page[Item] {
	out := page[Item]{Data: make([]Item, 0, len(list)), HasMore: more, NextCursor: noCursor()}
	for _, row := range list {
		out.Data = append(out.Data, item(row))
	}
	if more && len(list) > 0 {
		last := at(list[len(list)-1])
		out.NextCursor = p.next(more, last.at, last.id)
	}
	return out
}

// newPageTo returns the page with these rows whose next page begins at that cursor;
// the zero cursor: there is none.
func newPageTo[Row, Item any](p pager, list []Row, next store.Cursor, item func(Row) Item) page[Item] {
	out := newPage(p, list, false, item, nil)
	if next != (store.Cursor{}) {
		out.HasMore, out.NextCursor = true, p.next(true, next.At, next.ID)
	}
	return out
}

// numbered is the place of a row in a list that is ordered by numbers of its own.
func numbered(n int64) place { return place{at: time.UnixMicro(n)} }
