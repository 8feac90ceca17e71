package jsonx

import (
	"bytes"
	"slices"
)

// Close returns the beginning of a JSON text as a valid text: it closes open texts, lists and objects, and
// replaces an incomplete value by null. data must not be used afterwards, because it is changed.
func Close(data []byte) []byte {
	var open []byte             // closing bytes of open values, innermost last
	inText, key := false, false // a text is open; it is the name of a member
	before := byte(0)           // last byte outside of texts; '"' for a text, 'k' for a name
	value := -1                 // beginning of an unfinished number or literal
	for i := 0; i < len(data); i++ {
		c := data[i]
		switch {
		case inText && c == '\\':
			i++
		case inText && c == '"':
			if inText, before = false, '"'; key {
				before = 'k'
			}
		case inText || c == ' ' || c == '\n' || c == '\r' || c == '\t':
		case c == '"':
			inText, key = true, len(open) > 0 && open[len(open)-1] == '}' && before != ':'
		case c == '{' || c == '[':
			open, before = append(open, c+2), c
		case (c == '}' || c == ']') && len(open) > 0:
			open, before, value = open[:len(open)-1], c, -1
		case c == ',' || c == ':':
			before, value = c, -1
		case value < 0:
			value, before = i, '0'
		}
	}
	switch {
	case inText:
		if data = append(wholeEscapes(data), '"'); key {
			data = append(data, ":null"...)
		}
	case value >= 0:
		data = append(data[:value], "null"...)
	case before == 'k':
		data = append(data, ":null"...)
	case before == ':' || before == 0:
		data = append(data, "null"...)
	case before == ',':
		data = data[:bytes.LastIndexByte(data, ',')]
	}
	slices.Reverse(open)
	return append(data, open...)
}

// wholeEscapes removes an incomplete escape from the end of an open text.
func wholeEscapes(data []byte) []byte {
	from := bytes.LastIndexByte(data, '\\')
	if from < 0 || len(data)-from >= 6 {
		return data
	}
	slashes := 0
	for i := from; i >= 0 && data[i] == '\\'; i-- {
		slashes++
	}
	rest := data[from+1:]
	if slashes%2 == 1 && (len(rest) == 0 || rest[0] == 'u' && len(rest) < 5) {
		return data[:from]
	}
	return data
}
