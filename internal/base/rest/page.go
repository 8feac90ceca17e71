package rest

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"strings"
	"time"

	"github.com/oapi-codegen/nullable"

	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
)

const defaultPageSize = 20

// A Pager parses the cursor of one list and creates the next one. A cursor contains the place of the last
// row and a checksum over it and the list's identity, so that it is rejected with another
// filter, order or account.
type Pager struct {
	// Err is the error of an invalid cursor, or nil. [ReadPage] returns it.
	Err   error
	bound string
	Page  store.Page
}

// NewPager parses a list's parameters. list identifies the list: its path, the account, and every
// filter.
func NewPager(limit int, cursor, order string, list ...string) Pager {
	p := Pager{
		bound: strings.Join(append(list, order), "\x00"),
		Page:  store.Page{Limit: limit, Asc: order == "asc"},
	}
	if limit == 0 {
		p.Page.Limit = defaultPageSize
	}
	if order == "" {
		p.bound += "desc"
		p.Page.Ranked = true
	}
	if cursor == "" {
		return p
	}
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil || len(raw) < sumSize+8 || string(p.sum(raw[sumSize:])) != string(raw[:sumSize]) {
		p.Err = stoa.Errorf(stoa.CodeInvalidCursor, "This cursor is damaged, or belongs to another list, filter or order. Start again without one.").At("cursor")
		return p
	}
	p.Page.After.At = time.UnixMicro(int64(binary.BigEndian.Uint64(raw[sumSize:]))).UTC()
	p.Page.After.ID = string(raw[sumSize+8:])
	if p.Page.After.IsRanked() && !p.Page.Ranked {
		p.Err = stoa.Errorf(stoa.CodeInvalidCursor, "This cursor belongs to a list in another order. Start again without one.").At("cursor")
	}
	return p
}

// NewSortedPager is [NewPager] for a list that can also be sorted by name, which is ascending by default, or by a number.
func NewSortedPager(limit int, cursor, sort, order string, list ...string) Pager {
	byName := sort == "name"
	if byName && order == "" {
		order = "asc"
	}
	if sort != "" && order == "" {
		order = "desc" // not ranked by a search
	}
	if sort == "created" {
		sort = ""
	}
	if sort != "" {
		list = append(list, sort)
	}
	p := NewPager(limit, cursor, order, list...)
	if p.Page.ByName = byName; !byName {
		p.Page.By = sort
	}
	return p
}

const sumSize = 8

func (p Pager) sum(place []byte) []byte {
	h := sha256.New()
	h.Write([]byte(p.bound))
	h.Write([]byte{0})
	h.Write(place)
	return h.Sum(nil)[:sumSize]
}

// Cursor returns the cursor of the rows after a place.
func (p Pager) Cursor(at time.Time, id string) string {
	place := binary.BigEndian.AppendUint64(nil, uint64(at.UnixMicro()))
	place = append(place, id...)
	return base64.RawURLEncoding.EncodeToString(append(p.sum(place), place...))
}

// A Page is one page of a list.
type Page[T any] struct {
	Data       []T                       `json:"data"`
	HasMore    bool                      `json:"hasMore"`
	NextCursor nullable.Nullable[string] `json:"nextCursor"`
}

// ReadPage answers with the page that rows reads. item converts a row for the reply; at returns its place.
func ReadPage[Row, Item any](ctx context.Context, s *store.Store, p Pager, rows func(*store.Tx) ([]Row, bool, error), item func(Row) Item, at func(Row) store.Cursor) (Reply[Page[Item]], error) {
	return ReadPageTo(ctx, s, p, func(tx *store.Tx) ([]Row, store.Cursor, error) {
		list, more, err := rows(tx)
		return list, lastOf(list, more, at), err
	}, item)
}

// ReadPageTo is like [ReadPage], for rows that return the cursor of the next page.
func ReadPageTo[Row, Item any](ctx context.Context, s *store.Store, p Pager, rows func(*store.Tx) ([]Row, store.Cursor, error), item func(Row) Item) (Reply[Page[Item]], error) {
	var out Reply[Page[Item]]
	if p.Err != nil {
		return out, p.Err
	}
	err := s.Read(ctx, func(tx *store.Tx) (err error) {
		list, next, err := rows(tx)
		out, err = PageTo(p, list, next, err, item)
		return err
	})
	return out, err
}

// PageOf answers with the page of these rows, or with the error of the cursor or of the query.
func PageOf[Row, Item any](p Pager, list []Row, more bool, err error, item func(Row) Item, at func(Row) store.Cursor) (Reply[Page[Item]], error) {
	return PageTo(p, list, lastOf(list, more, at), err, item)
}

// PageTo is like [PageOf], for a query that returned the cursor of the next page.
func PageTo[Row, Item any](p Pager, list []Row, next store.Cursor, err error, item func(Row) Item) (Reply[Page[Item]], error) {
	return Reply[Page[Item]]{Body: NewPageTo(p, list, next, item)}, cmp.Or(p.Err, err)
}

// lastOf returns the place of a page's last row if more rows follow.
func lastOf[Row any](list []Row, more bool, at func(Row) store.Cursor) (last store.Cursor) {
	if more && len(list) > 0 {
		last = at(list[len(list)-1])
	}
	return last
}

// NewPageTo returns the page with these rows; a zero next means that it is the last.
func NewPageTo[Row, Item any](p Pager, list []Row, next store.Cursor, item func(Row) Item) Page[Item] {
	out := Whole(list, item)
	if next != (store.Cursor{}) {
		out.HasMore, out.NextCursor = true, nullable.NewNullableWithValue(p.Cursor(next.At, next.ID))
	}
	return out
}

// Whole returns a list that is not divided into pages.
func Whole[Row, Item any](list []Row, item func(Row) Item) Page[Item] {
	// The cursor is null, because the zero value of its type would be written as an empty text.
	out := Page[Item]{Data: make([]Item, 0, len(list)), NextCursor: nullable.NewNullNullable[string]()}
	for _, row := range list {
		out.Data = append(out.Data, item(row))
	}
	return out
}

// Numbered returns the place of a row in a list with separate numbering.
func Numbered(n int64) store.Cursor { return store.Cursor{At: time.UnixMicro(n)} }

// Number returns the number after which a page of a numbered list continues.
func (p Pager) Number() int64 {
	if p.Page.After == (store.Cursor{}) {
		return 0
	}
	return p.Page.After.At.UnixMicro()
}
