package extract

import (
	"strings"
	"testing"
)

func TestLettersOfPagesAreMended(t *testing.T) {
	t.Parallel()
	cork := func(text string) string {
		var list []glyph
		for _, r := range text {
			list = append(list, glyph{text: string(r), top: 10})
		}
		composeTeX(list)
		return textOf(list)
	}
	rtl := func(lines string) string { return brackets(strings.Split(lines, "\n")) }
	for what, c := range map[string]struct{ got, want string }{
		"Cork":                    {cork("\x12P°íli² ºlu´ou£ký k·¬\x10 ª¡czno±\x19 Gröÿe o\x1ece"), "„Příliš žluťoučký kůň“ łącznośı Größe office"},
		"Latin-1":                 {cork("L’Haÿ ©2026 ±5 §3"), "L’Haÿ ©2026 ±5 §3"},
		"brackets over two lines": {rtl("a \x00)b\nc\x00( d \x00»e\x00«"), "a (b\nc) d «e»"},
		"numbers of a list":       {rtl("1\x00) a\n2\x00) b"), "1) a\n2) b"},
		"a bracket never closed":  {rtl("a \x00)b\n\n\n\n\n\n\n\x00)c\x00("), "a )b\n\n\n\n\n\n\n(c)"},
		"hyphens of a browser":    {cleanPDF("Geschwindigkeits‐\r\nbegrenzung ver\u00ad\r\nlassen well\ufffeknown", browserMaker), "Geschwindigkeitsbegrenzung verlassen well-known"},
		"hyphens of others":       {cleanPDF("Geschwindig\ufffekeit COVID\ufffe19", otherMaker), "Geschwindigkeit COVID-19"},
		"justified letters":       {cleanPDF("仓 库 在 中 午 4102 台 X200\r\n東京 大学 目 次", otherMaker), "仓库在中午 4102 台 X200\n東京 大学 目 次"},
	} {
		if c.got != c.want {
			t.Errorf("%s: %q, want %q", what, c.got, c.want)
		}
	}
}
