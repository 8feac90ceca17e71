package httptool

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
)

const formType = "application/x-www-form-urlencoded"

// Encodings of a member of a form whose value is a list. Without one each entry is a member
// of the same name.
const (
	deepList   = "deep"   // a[0]=x, as in the style deepObject
	joinedList = "joined" // a=x,y
)

// encodeForm writes an object as a form. Members of objects are in brackets: a[b]=c.
func encodeForm(object json.RawMessage, lists map[string]string) ([]byte, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(object, &members); err != nil {
		return nil, err
	}
	var pairs []string
	for _, name := range slices.Sorted(maps.Keys(members)) {
		more, err := formPairs(name, members[name], lists[name])
		if err != nil {
			return nil, err
		}
		pairs = append(pairs, more...)
	}
	return []byte(strings.Join(pairs, "&")), nil
}

// formPairs returns the pairs of a value; none for null.
func formPairs(name string, raw json.RawMessage, list string) (pairs []string, err error) {
	raw = bytes.TrimSpace(raw)
	var entries []json.RawMessage
	switch {
	case len(raw) > 0 && raw[0] == '{':
		var members map[string]json.RawMessage
		if err := json.Unmarshal(raw, &members); err != nil {
			return nil, err
		}
		for _, member := range slices.Sorted(maps.Keys(members)) {
			more, err := formPairs(name+"["+member+"]", members[member], list)
			if err != nil {
				return nil, err
			}
			pairs = append(pairs, more...)
		}
		return pairs, nil
	case len(raw) > 0 && raw[0] == '[' && list != joinedList:
		if err := json.Unmarshal(raw, &entries); err != nil {
			return nil, err
		}
		for i, entry := range entries {
			of := name
			if entry = bytes.TrimSpace(entry); list == deepList || len(entry) > 0 && (entry[0] == '{' || entry[0] == '[') {
				of += "[" + strconv.Itoa(i) + "]"
			}
			more, err := formPairs(of, entry, list)
			if err != nil {
				return nil, err
			}
			pairs = append(pairs, more...)
		}
		return pairs, nil
	}
	values, err := plainValues(raw)
	if err != nil || values == nil {
		return nil, err
	}
	return []string{escape(name) + "=" + escape(strings.Join(values, ","))}, nil
}

// formLists returns the encodings of the lists in a form, from its description.
func formLists(media map[string]any) map[string]string {
	lists := map[string]string{}
	for name, v := range object(media["encoding"]) {
		e := object(v)
		explode, stated := e["explode"].(bool)
		switch {
		case texts(e["style"]) == "deepObject":
			lists[name] = deepList
		case stated && !explode:
			lists[name] = joinedList
		}
	}
	if len(lists) == 0 {
		return nil
	}
	return lists
}
