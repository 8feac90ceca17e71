package sandbox

import (
	"encoding/base64"
	"fmt"
	"strings"

	"stoa/internal/base/stoa"
)

func describe(kind stoa.PartKind, m *stoa.Media) string {
	what := "an image"
	if kind == stoa.PartFile {
		what = "a file"
	}
	if m.Name != "" {
		what += " “" + shorten(m.Name, 100) + "”"
	}
	if m.URL != "" {
		return what + " at " + shorten(m.URL, 200)
	}
	size := base64.RawStdEncoding.DecodedLen(len(strings.TrimRight(m.Base64, "=")))
	what += " (" + m.Type
	if m.Width > 0 {
		what += fmt.Sprintf(", %d × %d pixels", m.Width, m.Height)
	}
	return what + fmt.Sprintf(", %d bytes)", size)
}
