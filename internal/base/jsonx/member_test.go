package jsonx

import "testing"

func TestWithMemberReplacesOneMember(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		``:                            `{"key":"cal_1"}`,
		` {} `:                        `{"key":"cal_1"}`,
		`{"key":"mine","a":1}`:        `{"a":1,"key":"cal_1"}`,
		`{"a":1.0,"key":1,"key":{}}`:  `{"a":1.0,"key":"cal_1"}`,
		`{"\u006bey":"mine"}`:         `{"key":"cal_1"}`,
		`{"b":12345678901234567890}`:  `{"b":12345678901234567890,"key":"cal_1"}`,
		`{"b":{"key":"x"},"c":"<&>"}`: `{"b":{"key":"x"},"c":"<&>","key":"cal_1"}`,
		`[1]`:                         `[1]`,
		`{"a":`:                       `{"a":`,
		`{"a":1} {"b":2}`:             `{"a":1} {"b":2}`,
		`null`:                        `null`,
	} {
		got := WithMember(given, "key", "cal_1")
		if got != want {
			t.Errorf("%s became %s, want %s", given, got, want)
		}
		if again := WithMember(got, "key", "cal_1"); again != want {
			t.Errorf("%s became %s the second time", given, again)
		}
	}
}
