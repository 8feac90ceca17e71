package e2e

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"stoa/internal/base/extract/extracttest"
	"stoa/internal/testkit/fakeup"
)

// TestDocumentsAreReadByChildren sends documents to a real process, which reads them in
// children of the same program.
func TestDocumentsAreReadByChildren(t *testing.T) {
	t.Parallel()
	vendor := fakeup.Start(t)
	h := newServer(t, vendor.URL, "extensions: {files: true}\n")
	h.start()
	send := func(name string, content []byte) (int, string) {
		t.Helper()
		body := fmt.Sprintf(`{"model":"delta-v4-flash","input":[{"role":"user","content":[{"type":"input_file","filename":%q,"file_data":"data:application/octet-stream;base64,%s"}]}]}`,
			name, base64.StdEncoding.EncodeToString(content))
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.url+"/api/v1/responses", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+ownerKey)
		req.Header.Set("Content-Type", "application/json")
		res, err := h.http.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, string(text)
	}
	for name, content := range map[string][]byte{
		"a.pdf":  extracttest.PDF("one", "The code is 4711."),
		"a.docx": extracttest.DOCX("The code is 4711."),
		"a.txt":  append([]byte("The code is 4711. Gr\xf6\xdfe"), bytes.Repeat([]byte("."), 100)...),
	} {
		status, reply := send(name, content)
		served := vendor.Served()
		if status != http.StatusOK || !strings.Contains(string(served[len(served)-1].Body), "The code is 4711.") {
			t.Errorf("%s: %d %s", name, status, reply)
		}
	}
	if status, reply := send("a.docx", []byte("PK\x03\x04 damaged")); status != http.StatusBadRequest || !strings.Contains(reply, "input[0].content[0].file_data") {
		t.Errorf("%d %s", status, reply)
	}
}
