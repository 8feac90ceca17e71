package jsonx_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"stoa/internal/base/jsonx"
)

func TestTreeReadsEveryKind(t *testing.T) {
	t.Parallel()
	got, err := jsonx.Tree([]byte(` {"a":[1,2.50,"x\n",true,false,null,{}],"b":{"c":[]}} `), 100)
	want := map[string]any{
		"a": []any{json.Number("1"), json.Number("2.50"), "x\n", true, false, nil, map[string]any{}},
		"b": map[string]any{"c": []any{}},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %#v, %v", got, err)
	}
}

func TestTreeIsStrict(t *testing.T) {
	t.Parallel()
	for _, text := range []string{``, `{`, `{"a":1,"a":2}`, `[1] 2`, `[1,]`, "\"\xff\"", `nul`, `{"a"}`, `[}`} {
		if v, err := jsonx.Tree([]byte(text), 100); err == nil || errors.Is(err, jsonx.ErrTooMany) {
			t.Errorf("%s: %v, %v", text, v, err)
		}
	}
}

func TestTreeIsBounded(t *testing.T) {
	t.Parallel()
	nested := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for _, test := range []struct {
		text string
		most int
		ok   bool
	}{
		{"[" + strings.Repeat("{},", 98) + "{}]", 100, true}, // with the array, 100 values
		{"[" + strings.Repeat("{},", 99) + "{}]", 100, false},
		{nested(jsonx.MaxDepth), 1000, true},
		{nested(jsonx.MaxDepth + 1), 1000, false},
	} {
		_, err := jsonx.Tree([]byte(test.text), test.most)
		if (err == nil) != test.ok || err != nil && !errors.Is(err, jsonx.ErrTooMany) {
			t.Errorf("%.20s…, %d bytes: %v", test.text, len(test.text), err)
		}
	}
}
