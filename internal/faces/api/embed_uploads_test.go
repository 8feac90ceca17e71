package api_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"stoa/internal/agents/drive"
	"stoa/internal/base/contract"
	"stoa/internal/base/stoa"
	"stoa/internal/testkit/apitest"
)

// attach uploads a file as a visitor and wants a status.
func attach(t *testing.T, v tagVisit, status int, name, content string) (up contract.Upload) {
	t.Helper()
	r := v.With("Content-Type", "text/plain").Want(status, "POST", v.chat+"/uploads?name="+name, content)
	if status == 201 {
		r.JSON(&up)
	}
	return up
}

// TestStrangersLeaveUploadsForVisitors has strangers who say nothing upload as much as they can: first from one
// network, then from many.
func TestStrangersLeaveUploadsForVisitors(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Idle: true})
	a := newAuthor(t, h, h.Client(t), nil)
	files := object{"attachments": object{"enabled": true}}
	tag, _, page := newTag(t, a, files)
	other, _, otherPage := newTag(t, a, files)
	var visits []tagVisit
	for i := range 5 {
		v := visitFrom(t, a, tag, page, fmt.Sprintf("203.0.113.%d", i))
		attach(t, v, 201, "a.txt", "a")
		visits = append(visits, v)
	}
	visits[0].With("Content-Type", "text/plain").WantError(stoa.CodeTooManyAttachments, "POST", visits[0].chat+"/uploads?name=b.txt", "b")
	same := visitFrom(t, a, tag, page, "203.0.113.200")
	attach(t, same, 429, "a.txt", "a")
	for i := range 20 {
		attach(t, visitFrom(t, a, tag, page, fmt.Sprintf("198.51.%d.1", i)), 201, "a.txt", "a")
	}
	attach(t, visitFrom(t, a, tag, page, "192.0.2.1"), 429, "a.txt", "a")
	attach(t, visitFrom(t, a, other, otherPage, "192.0.2.1"), 201, "a.txt", "a")
	upload(t, a, "mine.txt", "mine")

	// A message without the file leaves it waiting. With the file, more can follow.
	v := visits[0]
	v.Want(202, "POST", v.chat+"/messages", object{"message": "say: hello"})
	attach(t, v, 429, "b.txt", "b")
	var up contract.Upload
	silent := visitFrom(t, a, other, otherPage, "192.0.2.2")
	up = attach(t, silent, 201, "a.txt", "a")
	silent.Want(202, "POST", silent.chat+"/messages", object{"message": "say: hello", "attachments": []object{{"uploadId": up.ID}}})
	attach(t, silent, 201, "b.txt", "b")
	attach(t, silent, 201, "c.txt", "c")
}

// TestVisitorsShareBytes: of the bytes for all visitors, a tag may use half, and a network a tenth in a day.
func TestVisitorsShareBytes(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Idle: true, Drive: drive.Limits{MaxAccountBytes: 4000}})
	a := newAuthor(t, h, h.Client(t), nil)
	files := object{"attachments": object{"enabled": true}}
	tag, _, page := newTag(t, a, files)
	other, _, otherPage := newTag(t, a, files)
	sixty := strings.Repeat("x", 60)
	for i := range 8 {
		attach(t, visitFrom(t, a, tag, page, fmt.Sprintf("198.51.%d.1", i)), 201, "a.txt", sixty)
	}
	attach(t, visitFrom(t, a, tag, page, "198.51.0.2"), 507, "a.txt", sixty)
	attach(t, visitFrom(t, a, tag, page, "192.0.2.1"), 507, "a.txt", sixty)
	attach(t, visitFrom(t, a, other, otherPage, "192.0.2.1"), 201, "a.txt", sixty)
}

// TestUploadsAreCountedBeforeTheyAreRead: the drives are full, so that reading the file would fail otherwise.
func TestUploadsAreCountedBeforeTheyAreRead(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Idle: true, Drive: drive.Limits{MaxAccountBytes: 400}})
	a := newAuthor(t, h, h.Client(t), nil)
	v := newVisit(t, a, object{"attachments": object{"enabled": true, "maxFiles": 1}})
	v.With("Content-Type", "text/plain").Want(201, "POST", v.chat+"/uploads?name=a.txt", "a")
	upload(t, a, "mine.txt", strings.Repeat("x", 399))
	v.With("Content-Type", "text/plain").WantError(stoa.CodeTooManyAttachments, "POST", v.chat+"/uploads?name=b.txt", "b")
	// An upload that fails leaves nothing that waits.
	for range 3 {
		a.With("Content-Type", "text/plain").WantError(stoa.CodeStorageFull, "POST", a.agent+"/uploads?name=c.txt", "c")
	}
	other := newVisit(t, a, object{"attachments": object{"enabled": true, "maxFiles": 1}})
	for range 3 {
		other.With("Content-Type", "text/plain").WantError(stoa.CodeStorageFull, "POST", other.chat+"/uploads?name=c.txt", "c")
	}
}

// TestASilentChatUploadsAtOnce sends many files before the first message at the same time: one is accepted.
func TestASilentChatUploadsAtOnce(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Idle: true})
	a := newAuthor(t, h, h.Client(t), nil)
	tag, _, page := newTag(t, a, object{"attachments": object{"enabled": true}})
	v := visitFrom(t, a, tag, page, "203.0.113.1")
	var accepted atomic.Int64
	var all sync.WaitGroup
	for i := range 6 {
		all.Go(func() {
			if r := v.With("Content-Type", "text/plain").Do("POST", fmt.Sprint(v.chat, "/uploads?name=", i), "x"); r.Status == 201 {
				accepted.Add(1)
			} else if r.Status != 400 {
				t.Errorf("%d %s", r.Status, r.Body)
			}
		})
	}
	if all.Wait(); accepted.Load() != 1 {
		t.Errorf("%d uploads were accepted", accepted.Load())
	}
}

// TestANetworkGetsATenthOfTheTickets requests tickets from changing addresses of one network.
func TestANetworkGetsATenthOfTheTickets(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Idle: true})
	a := newAuthor(t, h, h.Client(t), nil)
	tag, _, page := newTag(t, a, nil)
	got := 0
	for i := range 40 {
		if r := from(page, fmt.Sprintf("2001:db8:1:%x::1", i)).Do("POST", shows(tag)+"/tickets", nil); r.Status == 200 {
			got++
		}
	}
	if got != 30 {
		t.Errorf("a network has got %d tickets, want 30", got)
	}
	from(page, "2001:db8:2::1").Want(200, "POST", shows(tag)+"/tickets", nil)
}
