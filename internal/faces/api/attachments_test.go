package api_test

import (
	"fmt"
	"strings"
	"testing"

	"stoa/internal/agents/drive"
	"stoa/internal/base/contract"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/testkit/apitest"
)

// upload sends a file for a message.
func upload(t *testing.T, a author, name, content string) contract.Upload {
	t.Helper()
	var up contract.Upload
	a.With("Content-Type", "application/octet-stream").Want(201, "POST", a.agent+"/uploads?name="+name, content).JSON(&up)
	return up
}

// TestAMessageHasFiles attaches files to messages in both ways: the model is sent them, tools
// read them, and the owner lists, reads and exports them. They are deleted with the session.
func TestAMessageHasFiles(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	a := newAuthor(t, h, h.Client(t), nil)
	long := strings.Repeat("Another line of the report.\n", 2000) + "The end is near.\n"
	up := upload(t, a, "report.md", long)
	if up.Size != int64(len(long)) || up.MimeType != "text/markdown" || up.Object != "upload" {
		t.Errorf("the upload is %+v", up)
	}
	_, path := a.begin(t, "call: drive_read {\"path\":\"report.md\",\"attached\":true,\"fromLine\":2001}\nsay: read", object{"attachments": []object{
		{"uploadId": up.ID},
		{"name": "note.txt", "content": "A short note."},
		{"name": "scan.png", "content": strings.TrimPrefix(picture(t), "data:image/png;base64,"), "encoding": "base64"},
	}})
	a.until(t, path, "completed")
	export := string(a.Want(200, "GET", path+"/export", nil).Body)
	if !strings.Contains(export, "The end is near.") || !strings.Contains(export, `"attachments":[{"id":"`+up.ID) {
		t.Errorf("the export is %.3000s", export)
	}
	if text := string(a.Want(200, "GET", path+"/export?format=markdown", nil).Body); !strings.Contains(text, "Attached: note.txt (text/plain, 13 bytes)") {
		t.Errorf("the export is %s", text)
	}
	a.Want(202, "POST", path+"/messages", object{"message": "call: drive_search {\"query\":\"end is near\"}\ncall: drive_list {\"attached\":true}\nsay: found", "attachments": []object{{"name": "scan.png", "content": "not an image"}}})
	a.until(t, path, "completed")
	export = string(a.Want(200, "GET", path+"/export", nil).Body)
	if !strings.Contains(export, `\"attached\":true,\"path\":\"report.md\"`) || !strings.Contains(export, `scan (2).png`) {
		t.Errorf("the export is %.4000s", export)
	}
	var list contract.SessionAttachmentList
	a.Want(200, "GET", path+"/attachments", nil).JSON(&list)
	var names []string
	for _, f := range list.Data {
		names = append(names, f.Name)
	}
	if got := strings.Join(names, ","); got != "report.md,note.txt,scan.png,scan (2).png" {
		t.Fatalf("the attachments are %s", got)
	}
	content := path + "/attachments/" + list.Data[1].ID + "/content"
	if got := a.Want(200, "GET", content, nil); string(got.Body) != "A short note." || !strings.Contains(got.Header.Get("Content-Disposition"), "note.txt") {
		t.Errorf("the content is %q, %v", got.Body, got.Header)
	}
	a.With("If-None-Match", `"`+list.Data[1].Sha256+`"`).Want(304, "GET", content, nil)
	a.With("Range", "bytes=0-3").Want(206, "GET", content, nil)
	a.With("Range", "bytes=100-").Want(416, "GET", content, nil)
	a.WantError("file_not_found", "GET", path+"/attachments/upl_none/content", nil)
	var messages page[contract.Message]
	a.Want(200, "GET", path+"/messages", nil).JSON(&messages)
	if m := messages.Data[0]; len(m.Attachments) != 3 || m.Attachments[2].MimeType != "image/png" {
		t.Errorf("the message is %+v", m)
	}
	if m := messages.Data[1]; len(m.Attachments) != 0 {
		t.Errorf("the reply has files: %+v", m)
	}
	a.Want(204, "DELETE", path, nil)
	a.WantError("session_not_found", "GET", path+"/attachments", nil)
	a.WantError("session_not_found", "GET", content, nil)
}

// TestAttachmentsAreChecked sends attachments with every fault.
func TestAttachmentsAreChecked(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	a := newAuthor(t, h, h.Client(t), nil)
	other := newAuthor(t, h, h.Client(t), nil)
	used, foreign := upload(t, a, "used.txt", "used"), upload(t, other, "other.txt", "other")
	_, path := a.begin(t, "say: hello", object{"attachments": []object{{"uploadId": used.ID}}})
	a.until(t, path, "completed")
	for name, tt := range map[string]struct {
		file        object
		code, param string
	}{
		"used":         {object{"uploadId": used.ID}, "upload_expired", "attachments[0].uploadId"},
		"foreign":      {object{"uploadId": foreign.ID}, "upload_expired", "attachments[0].uploadId"},
		"unknown":      {object{"uploadId": "upl_none"}, "upload_expired", "attachments[0].uploadId"},
		"nothing":      {object{}, "missing_required_parameter", "attachments[0].uploadId"},
		"both":         {object{"uploadId": used.ID, "name": "a", "content": ""}, "invalid_value", "attachments[0].uploadId"},
		"no name":      {object{"content": "x"}, "missing_required_parameter", "attachments[0].name"},
		"bad name":     {object{"name": "../x", "content": "x"}, "invalid_path", "attachments[0].name"},
		"in a folder":  {object{"name": "a/x", "content": "x"}, "invalid_path", "attachments[0].name"},
		"not base64":   {object{"name": "a", "content": "*", "encoding": "base64"}, "invalid_value", "attachments[0].content"},
		"bad encoding": {object{"name": "a", "content": "*", "encoding": "hex"}, "invalid_value", "attachments[0].encoding"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, to := range []string{a.agent + "/sessions", path + "/messages"} {
				if got := a.WantError(stoa.Code(tt.code), "POST", to, object{"message": "say: no", "attachments": []object{tt.file}}); got.Param == nil || *got.Param != tt.param {
					t.Errorf("%s: the error is %+v, not at %q", to, got, tt.param)
				}
			}
		})
	}
	a.WantError("missing_required_parameter", "POST", a.agent+"/uploads", nil)
	raw := a.With("Content-Type", "text/plain")
	raw.WantError(stoa.CodeTooLarge, "POST", a.agent+"/uploads?name=a", strings.Repeat("x", 11<<20))
	raw.With("Content-Encoding", "gzip").WantError(stoa.CodeMediaType, "POST", a.agent+"/uploads?name=a", "x")
	a.WantError("invalid_path", "POST", a.agent+"/uploads?name=a/b", nil)
	a.WantError("agent_not_found", "POST", "/api/v1/api-agents/agt_none/uploads?name=a", nil)
	for n := 1; n < 50; n += 10 { // one file is attached
		var files []object
		for i := range min(10, 50-n) {
			files = append(files, object{"name": fmt.Sprint("f", n+i), "content": "x"})
		}
		a.Want(202, "POST", path+"/messages", object{"message": "say: more", "attachments": files})
		a.until(t, path, "completed")
	}
	a.WantError("too_many_attachments", "POST", path+"/messages", object{"message": "say: no", "attachments": []object{{"name": "one", "content": "x"}}})
}

// TestAnAnswerHasFiles answers a question of the agent with a file.
func TestAnAnswerHasFiles(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	a := newAuthor(t, h, h.Client(t), object{"driveAccess": "read_only"})
	_, path := a.begin(t, "call: ask_user {\"question\":\"Where is the invoice?\"}\nsay: thanks", nil)
	a.until(t, path, "waiting_for_input")
	a.Want(202, "POST", path+"/messages", object{"message": "Here.", "attachments": []object{{"name": "invoice.txt", "content": "Total: 12"}}})
	a.until(t, path, "completed")
	if export := string(a.Want(200, "GET", path+"/export", nil).Body); !strings.Contains(export, `[attached file \\\"invoice.txt\\\": text/plain, 9 bytes; read it with drive_read and attached: true]`) {
		t.Errorf("the export is %s", export)
	}
}

// TestAVisitorAttachesFiles has visitors send files where the owner allows it, within the
// limits of the embed.
func TestAVisitorAttachesFiles(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	a := newAuthor(t, h, h.Client(t), nil)
	closed := newVisit(t, a, nil)
	closed.With("Content-Type", "text/plain").WantError(stoa.CodeAttachmentType, "POST", closed.chat+"/uploads?name=a.txt", "text")
	v := newVisit(t, a, object{"attachments": object{"enabled": true, "maxFiles": 3, "maxBytes": 1000, "types": []string{"text", "image"}}, "maxMessages": 20})
	if got := orNone(v.embed.Attachments); got.MaxFiles != 3 || got.MaxBytes != 1000 {
		t.Errorf("the embed is %+v", v.embed)
	}
	hook := newHook(t, a.Client, object{"events": []string{"attachment.created"}})
	send := func(name, content string) contract.Upload {
		var up contract.Upload
		v.With("Content-Type", "text/plain").Want(201, "POST", v.chat+"/uploads?name="+name, content).JSON(&up)
		return up
	}
	up := send("note.txt", "The gate is green.")
	v.With("Content-Type", "text/plain").WantError(stoa.CodeTooLarge, "POST", v.chat+"/uploads?name=a.txt", strings.Repeat("x", 1001))
	v.With("Content-Type", "text/plain").WantError(stoa.CodeAttachmentType, "POST", v.chat+"/uploads?name=a.txt", "%PDF-1.7")
	v.With("Content-Type", "text/plain").WantError(stoa.CodeAttachmentType, "POST", v.chat+"/uploads?name=page.html", "<html>")
	v.WantError(stoa.CodeInvalidPath, "POST", v.chat+"/uploads?name=a/b", "text")
	v.WantError(stoa.CodeInvalidJSON, "POST", v.chat+"/messages", "{")
	v.WantError(stoa.CodeUploadExpired, "POST", v.chat+"/messages", object{"message": "say: no", "attachments": []object{{"uploadId": upload(t, a, "mine.txt", "mine").ID}}})
	other := newVisit(t, a, object{"attachments": object{"enabled": true}})
	other.WantError(stoa.CodeUploadExpired, "POST", other.chat+"/messages", object{"message": "say: no", "attachments": []object{{"uploadId": up.ID}}})
	a.WantError(stoa.CodeUploadExpired, "POST", a.agent+"/sessions", object{"message": "say: no", "attachments": []object{{"uploadId": up.ID}}})
	v.Want(202, "POST", v.chat+"/messages", object{"message": "call: drive_read {\"path\":\"note.txt\",\"attached\":true}\nsay: read", "attachments": []object{{"uploadId": up.ID}}})
	chat := v.until(t, "completed")
	if m := chat.Messages[0]; len(m.Attachments) != 1 || m.Attachments[0].Name != "note.txt" {
		t.Errorf("the message is %+v", m)
	}
	if chat.Remaining.Messages != 18 || orNone(chat.Attachments).MaxFiles != 3 {
		t.Errorf("the chat is %+v", chat)
	}
	send("b.txt", "b")
	send("c.txt", "c")
	v.With("Content-Type", "text/plain").WantError(stoa.CodeTooManyAttachments, "POST", v.chat+"/uploads?name=d.txt", "d")
	session := a.agent + "/sessions/" + v.embed.ChatSessionID
	if export := string(a.Want(200, "GET", session+"/export", nil).Body); !strings.Contains(export, `The gate is green.`) {
		t.Errorf("the export is %s", export)
	}
	if got := a.Want(200, "GET", session+"/attachments/"+up.ID+"/content", nil); string(got.Body) != "The gate is green." {
		t.Errorf("the content is %q", got.Body)
	}
	var deliveries page[contract.Delivery]
	a.Want(200, "GET", hooks+"/"+hook.ID+"/deliveries", nil).JSON(&deliveries)
	if len(deliveries.Data) != 3 || deliveries.Data[0].Type != "attachment.created" {
		t.Errorf("the deliveries are %+v", deliveries.Data)
	}
	a.Want(204, "DELETE", session, nil)
	v.With("Content-Type", "text/plain").WantError(stoa.CodeSessionNotFound, "POST", v.chat+"/uploads?name=e.txt", "e")
	// A script tag has the same setting, which applies immediately.
	var tag contract.EmbedTag
	a.Want(201, "POST", a.agent+"/embed-tags", object{"allowedOrigins": []string{site}, "attachments": object{"enabled": true}}).JSON(&tag)
	if got := orNone(tag.Attachments); strings.Join(got.Types, ",") != "image,pdf,text" || got.MaxFiles != 5 || got.MaxBytes != 10<<20 {
		t.Errorf("the tag is %+v", tag)
	}
	a.Want(200, "PATCH", a.agent+"/embed-tags/"+tag.ID, object{"attachments": nil}).JSON(&tag)
	if !tag.Attachments.IsNull() {
		t.Errorf("the tag is %+v", tag)
	}
}

// TestUploadsNeedSpace sends more than the drives of an account may have.
func TestUploadsNeedSpace(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Drive: drive.Limits{MaxAccountBytes: 40}})
	a := newAuthor(t, h, h.Client(t), nil)
	v := newVisit(t, a, object{"attachments": object{"enabled": true}})
	visitor, raw := v.With("Content-Type", "text/plain"), a.With("Content-Type", "text/plain")
	visitor.Want(201, "POST", v.chat+"/uploads?name=a", "12345678")
	visitor.WantError(stoa.CodeStorageFull, "POST", v.chat+"/uploads?name=b", "123") // a quarter
	raw.Want(201, "POST", a.agent+"/uploads?name=a", strings.Repeat("x", 30))
	raw.WantError(stoa.CodeStorageFull, "POST", a.agent+"/uploads?name=b", "123")
	visitor.WantError(stoa.CodeStorageFull, "POST", v.chat+"/uploads?name=c", "123")
}

// TestUploadsExpire has an upload end before a message has it, and one that a message has stay.
func TestUploadsExpire(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	a := newAuthor(t, h, h.Client(t), nil)
	lost, kept := upload(t, a, "lost.txt", "lost"), upload(t, a, "kept.txt", "kept")
	_, path := a.begin(t, "say: hello", object{"attachments": []object{{"uploadId": kept.ID}}})
	a.until(t, path, "completed")
	var me contract.User
	a.Want(200, "GET", "/api/v1/users/me", nil).JSON(&me)
	exist := func() (there []bool) {
		t.Helper()
		if err := h.Store.Read(t.Context(), func(tx *store.Tx) error {
			there = nil
			for _, id := range []string{lost.ID, kept.ID} {
				ok, err := tx.Work().HasUpload(t.Context(), me.ID, id)
				if err != nil {
					return err
				}
				there = append(there, ok)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return there
	}
	if got := exist(); !got[0] || !got[1] {
		t.Errorf("the uploads exist: %v", got)
	}
	if err := h.Store.Write(t.Context(), func(tx *store.Tx) error {
		_, err := tx.Exec(t.Context(), `UPDATE uploads SET expires_at = 1 WHERE account_id = $1`, me.ID)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if got := exist(); got[0] || !got[1] {
		t.Errorf("after an hour the uploads exist: %v", got)
	}
	a.WantError(stoa.CodeUploadExpired, "POST", a.agent+"/sessions", object{"message": "say: no", "attachments": []object{{"uploadId": lost.ID}}})
	var purged int64
	if err := h.Store.Write(t.Context(), func(tx *store.Tx) (err error) {
		purged, err = tx.Work().PurgeUploads(t.Context(), 10)
		return err
	}); err != nil || purged != 1 {
		t.Errorf("%d uploads were purged, %v", purged, err)
	}
	a.Want(204, "DELETE", path, nil)
	if got := exist(); got[1] {
		t.Error("an upload outlives its session")
	}
}
