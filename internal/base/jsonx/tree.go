package jsonx

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"

	"github.com/go-json-experiment/json/jsontext"
)

// ErrTooMany is the error of [Tree] for a text with too many or too deeply nested values.
var ErrTooMany = errors.New("jsonx: too many values, or nested too deeply")

// Tree reads a caller's JSON, strictly, into maps, slices, strings, booleans, nil and [json.Number]. It fails with
// [ErrTooMany] beyond most values or [MaxDepth] levels, so that a small text cannot use much memory.
func Tree(data []byte, most int) (any, error) { return TreeOf(data, &most) }

// TreeOf is [Tree] for one of several texts that have at most left values together.
func TreeOf(data []byte, left *int) (any, error) {
	dec := jsontext.NewDecoder(bytes.NewBuffer(data))
	v, err := tree(dec, left)
	if err != nil {
		return nil, err
	}
	if _, err := dec.ReadToken(); err != io.EOF {
		return nil, errors.Join(errors.New("jsonx: something follows the value"), err)
	}
	return v, nil
}

func tree(dec *jsontext.Decoder, left *int) (any, error) {
	if *left--; *left < 0 || dec.StackDepth() >= MaxDepth {
		return nil, ErrTooMany
	}
	token, err := dec.ReadToken()
	if err != nil {
		return nil, err
	}
	switch token.Kind() {
	case 'n':
		return nil, nil
	case 't', 'f':
		return token.Bool(), nil
	case '"':
		return token.String(), nil
	case '0':
		return json.Number(token.String()), nil
	case '[':
		list := []any{}
		for dec.PeekKind() != ']' {
			v, err := tree(dec, left)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err = dec.ReadToken()
		return list, err
	}
	object := map[string]any{}
	for dec.PeekKind() != '}' {
		name, err := dec.ReadToken()
		if err != nil {
			return nil, err
		}
		key := name.String() // copied, because the next token overwrites it
		if object[key], err = tree(dec, left); err != nil {
			return nil, err
		}
	}
	_, err = dec.ReadToken()
	return object, err
}
