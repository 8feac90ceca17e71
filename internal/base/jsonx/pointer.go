package jsonx

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// ParsePointer reads a JSON Pointer (RFC 6901) of at most most steps to a value below the document.
func ParsePointer(pointer string, most int) ([]string, error) {
	rest, ok := strings.CutPrefix(pointer, "/")
	if !ok {
		return nil, errors.New(`it must begin with "/", such as "/order_id"`)
	}
	path := strings.Split(rest, "/")
	if len(path) > most {
		return nil, fmt.Errorf("it has %d steps; the maximum is %d", len(path), most)
	}
	for i, step := range path {
		if strings.Contains(strings.NewReplacer("~0", "", "~1", "").Replace(step), "~") {
			return nil, errors.New(`a "~" must be written "~0" and a "/" in a name "~1"`)
		}
		path[i] = strings.ReplaceAll(strings.ReplaceAll(step, "~1", "/"), "~0", "~")
	}
	return path, nil
}

// At returns the value at a path in a result of [Tree]; nil if there is none.
func At(v any, path []string) any {
	for _, step := range path {
		switch of := v.(type) {
		case map[string]any:
			v = of[step]
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i < 0 || i >= len(of) || strconv.Itoa(i) != step {
				return nil
			}
			v = of[i]
		default:
			return nil
		}
	}
	return v
}
