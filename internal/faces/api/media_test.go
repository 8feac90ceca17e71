package api_test

import (
	"bytes"
	"encoding/base64"
	"image"
	"image/color/palette"
	"image/png"
	"strings"
	"testing"

	"stoa/internal/base/stoa"
	"stoa/internal/testkit/apitest"
)

// picture is a PNG of 3 by 2 pixels as a data URL.
func picture(t *testing.T) string {
	t.Helper()
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewPaletted(image.Rect(0, 0, 3, 2), palette.Plan9)); err != nil {
		t.Fatal(err)
	}
	return "data:image/png;base64," + base64.StdEncoding.EncodeToString(b.Bytes())
}

const samplePDF = "%PDF-1.7\n1 0 obj <</Type /Page>> endobj\ntrailer <</Root 1 0 R>>\n%%EOF"

// seen asks a model about parts.
func seen(model string, parts ...body) body {
	return body{"model": model, "input": []body{{"role": "user", "content": append([]body{{"type": "input_text", "text": "say: fine"}}, parts...)}}}
}

func TestImagesAndFilesReachTheirVendor(t *testing.T) {
	t.Parallel()
	h, f := vendors(t, apitest.Config{})
	c := h.Client(t)
	pic, doc := picture(t), "data:application/pdf;base64,"+base64.StdEncoding.EncodeToString([]byte(samplePDF))
	for i, model := range []string{"alpha-sonnet-5-5", "beta-3.8-flash", "gamma-6-luna"} {
		r := c.Want(200, "POST", responses, seen(model,
			body{"type": "input_image", "image_url": pic, "detail": "high"},
			body{"type": "input_file", "filename": "report", "file_data": doc},
			body{"type": "input_file", "filename": "notes.txt", "file_data": "data:text/plain;base64,SGVq"},
		))
		sent := string(f.Served()[i].Body)
		_, image, _ := strings.Cut(pic, ",")
		_, file, _ := strings.Cut(doc, ",")
		if !strings.Contains(sent, image) || !strings.Contains(sent, file) || !strings.Contains(sent, `[File notes.txt]\nHej`) {
			t.Errorf("%s was sent %s", model, sent)
		}
		if !strings.Contains(string(r.Body), "fine") {
			t.Errorf("%s answers %s", model, r.Body)
		}
	}
	quiet(t, h)
}

func TestImagesAndFilesAreCheckedBefore(t *testing.T) {
	t.Parallel()
	h, f := vendors(t, apitest.Config{})
	c := h.Client(t)
	pic := picture(t)
	many := make([]body, 21)
	for i := range many {
		many[i] = body{"type": "input_image", "image_url": pic}
	}
	for name, tc := range map[string]struct {
		code  stoa.Code
		in    body
		param string
	}{
		"another type":      {stoa.CodeInvalidValue, seen("gamma-6-luna", body{"type": "input_image", "image_url": strings.Replace(pic, "png", "gif", 1)}), "input[0].content[1].image_url"},
		"a private address": {stoa.CodeInvalidValue, seen("gamma-6-luna", body{"type": "input_image", "image_url": "https://127.0.0.1/a"}), "input[0].content[1].image_url"},
		"an unknown detail": {stoa.CodeInvalidValue, seen("gamma-6-luna", body{"type": "input_image", "image_url": pic, "detail": "most"}), "input[0].content[1].detail"},
		"no image":          {stoa.CodeMissingParameter, seen("gamma-6-luna", body{"type": "input_image"}), "input[0].content[1].image_url"},
		"a stored image":    {stoa.CodeUnsupported, seen("gamma-6-luna", body{"type": "input_image", "file_id": "file_1"}), "input[0].content[1].file_id"},
		"too many":          {stoa.CodeInvalidValue, seen("gamma-6-luna", many...), "input[0].content[21]"},
		"no PDF":            {stoa.CodeInvalidValue, seen("gamma-6-luna", body{"type": "input_file", "file_data": "data:application/pdf;base64,SGVq"}), "input[0].content[1].file_data"},
		"a long name":       {stoa.CodeInvalidValue, seen("gamma-6-luna", body{"type": "input_file", "filename": strings.Repeat("x", 256), "file_data": "data:text/plain;base64,SGVq"}), "input[0].content[1].filename"},
		"a recording":       {stoa.CodeUnsupportedValue, seen("gamma-6-luna", body{"type": "input_audio", "input_audio": body{}}), "input[0].content[1].type"},
		"no file":           {stoa.CodeMissingParameter, seen("gamma-6-luna", body{"type": "input_file"}), "input[0].content[1].file_data"},
		"a blind model":     {stoa.CodeUnsupportedValue, seen("delta-v4-flash", body{"type": "input_image", "image_url": pic}), "input[0].content[1].type"},
		"in an old message": {stoa.CodeUnsupportedValue, body{"model": "gamma-6-luna", "input": []body{
			{"role": "assistant", "content": []body{{"type": "input_image", "image_url": pic}}}, {"role": "user", "content": "Hi"},
		}}, "input[0].content[0].type"},
		"in the output of a call": {stoa.CodeInvalidValue, body{"model": "gamma-6-luna", "input": []body{
			{"role": "user", "content": "Hi"},
			{"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
			{"type": "function_call_output", "call_id": "c", "output": []body{{"type": "input_image", "image_url": "data:image/png;base64,SGVq"}}},
		}}, "input[2].output[0].image_url"},
	} {
		e := c.WantError(tc.code, "POST", responses, tc.in)
		if e.Param == nil || *e.Param != tc.param {
			t.Errorf("%s: %+v, want the param %s", name, e, tc.param)
		}
		if name == "a blind model" && !strings.Contains(e.Message, "gamma-6-luna") {
			t.Errorf("no model is named: %s", e.Message)
		}
		if name == "a recording" && !strings.HasPrefix(e.Message, "Only texts, images and files are supported") {
			t.Errorf("what is supported: %s", e.Message)
		}
	}
	if n := len(f.Served()); n != 0 {
		t.Errorf("vendors were asked %d times", n)
	}
	quiet(t, h)
}

func TestATextFileIsNoPartOfAnotherText(t *testing.T) {
	t.Parallel()
	h, f := vendors(t, apitest.Config{})
	file := body{"type": "input_file", "filename": "a.txt", "file_data": "data:text/plain;base64,SGVq"}
	for i, model := range []string{"alpha-haiku-4-5", "beta-3.8-flash", "gamma-6-luna", "delta-v4-flash"} {
		h.Client(t).Want(200, "POST", responses, seen(model, file, body{"type": "input_text", "text": "What is it?"}))
		sent := string(f.Served()[i].Body)
		if strings.Contains(sent, "fine[File") || strings.Contains(sent, "HejWhat") || !strings.Contains(sent, `[File a.txt]\nHej`) {
			t.Errorf("%s was sent %s", model, sent)
		}
	}
}

// TestMediaOfToolsAreLeftOut continues conversations in which a tool returned an
// image or a file to a model that does not support them.
func TestMediaOfToolsAreLeftOut(t *testing.T) {
	t.Parallel()
	h, f := vendors(t, apitest.Config{})
	c := h.Client(t)
	pic, doc := picture(t), "data:application/pdf;base64,"+base64.StdEncoding.EncodeToString([]byte(samplePDF))
	_, data, _ := strings.Cut(pic, ",")
	_, pdf, _ := strings.Cut(doc, ",")
	items := func(model string) body {
		return body{"model": model, "input": []body{
			{"role": "user", "content": "say: fine"},
			{"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
			{"type": "function_call_output", "call_id": "c", "output": []body{
				{"type": "input_text", "text": "Here:"}, {"type": "input_image", "image_url": pic}, {"type": "input_file", "filename": "a.pdf", "file_data": doc},
			}},
		}}
	}
	blocks := body{"model": "delta-v4-flash", "max_tokens": 99, "messages": []body{
		{"role": "user", "content": "say: fine"},
		{"role": "assistant", "content": []body{{"type": "tool_use", "id": "c", "name": "f", "input": body{}}}},
		{"role": "user", "content": []body{{"type": "tool_result", "tool_use_id": "c", "content": []body{
			{"type": "image", "source": body{"type": "base64", "media_type": "image/png", "data": data}},
		}}}},
	}}
	for i, tt := range []struct {
		path  string
		call  body
		blind bool
	}{
		{responses, items("delta-v4-flash"), true},
		{"/api/v1/messages", blocks, true},
		{responses, items("gamma-6-luna"), false},
	} {
		r := c.Want(200, "POST", tt.path, tt.call)
		sent := string(f.Served()[i].Body)
		if shown := strings.Contains(sent, data) || strings.Contains(sent, pdf); shown == tt.blind || strings.Contains(sent, "this model cannot see images") != tt.blind {
			t.Errorf("%s: sent %s", tt.path, sent)
		}
		want := ""
		if tt.blind {
			want = "media_left_out"
		}
		if tt.path == responses {
			if got := adjustmentsOf(t, c, r); got != want {
				t.Errorf("the receipt says %q, want %q", got, want)
			}
		}
	}
	if sent := string(f.Served()[0].Body); !strings.Contains(sent, `Here:\n\n[An image was left out here`) || !strings.Contains(sent, "a.pdf") {
		t.Errorf("the notes are missing in %s", sent)
	}
	mixed := items("delta-v4-flash")
	mixed["input"] = append(mixed["input"].([]body), body{"role": "user", "content": []body{{"type": "input_image", "image_url": pic}}})
	if e := c.WantError(stoa.CodeUnsupportedValue, "POST", responses, mixed); e.Param == nil || *e.Param != "input[3].content[0].type" {
		t.Errorf("an image of the user: %+v", e)
	}
	quiet(t, h)
}
