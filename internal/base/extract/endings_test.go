package extract

import (
	"slices"
	"testing"
)

func TestEndingsOfDocuments(t *testing.T) {
	t.Parallel()
	zip := []byte("PK\x03\x04")
	for name, want := range map[string]struct {
		mediaType string
		document  bool
	}{
		"a.DOCX": {"application/vnd.openxmlformats-officedocument.wordprocessingml.document", true}, "a.htm": {"text/html", true}, "a.xhtml": {"", true},
		"a.mhtml": {"", true}, "a.eml": {"message/rfc822", true}, "a.json": {"application/json", false}, "a.csv": {"", false}, "a": {"", false},
	} {
		if got := TypeOf(name); got != want.mediaType || IsDocument(name, zip) != want.document {
			t.Errorf("%s: %q, %v", name, got, IsDocument(name, zip))
		}
	}
	if IsDocument("a.docx", []byte("text")) {
		t.Error("a text is a Word file")
	}
	if list := DocumentEndings(); !slices.Contains(list, ".htm") || !slices.Contains(list, ".pptx") || slices.Contains(list, ".json") {
		t.Errorf("the endings are %v", list)
	}
}
