package api_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"strings"
	"testing"

	"stoa/internal/base/contract"
	"stoa/internal/testkit/apitest"
)

// TestASessionLooksAtAnImage uploads a picture, has the agent view it, and reads the
// reports about it afterwards: in the answer, the sources and the export. No extension
// is on.
func TestASessionLooksAtAnImage(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	a := newAuthor(t, h, h.Client(t), nil)
	var logo bytes.Buffer
	if err := png.Encode(&logo, image.NewGray(image.Rect(0, 0, 30, 20))); err != nil {
		t.Fatal(err)
	}
	a.Want(201, "PUT", a.agent+"/drive/files", object{"path": "logo.png", "content": base64.StdEncoding.EncodeToString(logo.Bytes()), "encoding": "base64"})
	_, path := a.begin(t, `call: drive_read {"path":"logo.png"}`, nil)
	got := a.until(t, path, "completed")
	if want := fmt.Sprintf("[an image (image/png, 30 × 20 pixels, %d bytes)]", logo.Len()); !strings.Contains(orNone(got.Reply), want) {
		t.Errorf("the reply is %q", orNone(got.Reply))
	}
	var sources contract.SourceList
	a.Want(200, "GET", path+"/sources", nil).JSON(&sources)
	if len(sources.Data) != 1 || sources.Data[0].Path != "logo.png" || sources.Data[0].Via != "read" || !sources.Data[0].FromLine.IsNull() {
		t.Errorf("the sources are %+v", sources.Data)
	}
	var result string
	for line := range strings.Lines(string(a.Want(200, "GET", path+"/export", nil).Body)) {
		var tool struct{ Type, Result string }
		if json.Unmarshal([]byte(line), &tool) == nil && tool.Type == "tool" {
			result = tool.Result
		}
	}
	want := fmt.Sprintf(`{"path":"logo.png","mimeType":"image/png","bytes":%d,"width":30,"height":20,"sha256":"%s"}`, logo.Len(), sources.Data[0].Sha256)
	if result != want {
		t.Errorf("the result of the tool is %s", result)
	}
}
