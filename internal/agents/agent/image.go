package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"stoa/internal/agents/drive"
	"stoa/internal/agents/session"
	"stoa/internal/base/jsonx"
	"stoa/internal/base/media"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/models/wire"
)

// Limits of the images of a turn. They bound memory, because a step holds the images that it
// sends until its reply begins.
const (
	maxImages     = 10        // maximum number of images; the newest are sent
	maxImageBytes = 8_000_000 // total
	imageSteps    = 6         // maximum of steps and tool calls of this process that hold images at the same time; one account gets at most half
)

// shownImage is the stored result of drive_read for an image. It includes the SHA256, because
// each request of the turn reads the image again and must not send a changed one.
type shownImage struct {
	Path     string `json:"path"`
	Page     int64  `json:"page,omitzero"`
	MimeType string `json:"mimeType"`
	Bytes    int64  `json:"bytes"`
	Width    int64  `json:"width"`
	Height   int64  `json:"height"`
	SHA256   string `json:"sha256"`
	Note     string `json:"note,omitzero"`
	Attached bool   `json:"attached,omitzero"`
}

const (
	unseenText  = "This model cannot see images: of this one only what is told here is known."
	changedText = "The image is left out here: the file has been changed, moved or deleted since it was read. Read it again to see what is there now."
	closedText  = "The image is left out here: the drive is not open to this conversation any more."
	passedText  = "The image is left out here: a request has the newest 10 images at most, 8 MB of them, and no more than the model takes. Read it again to see it."
	refusedText = "The image is left out here: the model's provider refused the request that had it, so it may be damaged. Go on without it."
)

// readImage is drive_read of a file that is not text: an image is checked by its content, and
// any other file is refused with notText.
func (w *Worker) readImage(ctx context.Context, p *prompt, who drive.Owner, path drive.Path, notText error, out *session.ToolEffect) (any, error) {
	file, content, err := w.cfg.Drives.Open(ctx, who, path)
	if err != nil {
		return nil, err
	}
	head := make([]byte, media.HeadBytes)
	n, err := io.ReadFull(content, head)
	switch {
	case err != nil && err != io.EOF && err != io.ErrUnexpectedEOF:
		return nil, err
	case !media.IsImage(head[:n]):
		if file.Pages > 0 {
			notText = stoa.Errorf(stoa.CodeInvalidValue, "%s It has %d pages; drive_read shows one with the argument page.", stoa.AsError(notText).Message, file.Pages)
		}
		return nil, notText
	case file.Size > media.MaxImage:
		return nil, stoa.Errorf(stoa.CodeInvalidValue, "The image %q (%s, %d bytes) is too large: images can have at most %d bytes.", file.Path, file.MimeType, file.Size, media.MaxImage)
	}
	release, err := w.images.Acquire(ctx, who.AccountID, imageSteps, imageSteps/2)
	if err != nil {
		return nil, context.Cause(ctx)
	}
	defer release()
	image, err := loadImage(content, file.Size)
	if err != nil {
		return nil, err
	}
	shown := shownImage{Path: file.Path, MimeType: image.Type, Bytes: file.Size, Width: image.Width, Height: image.Height, SHA256: file.SHA256}
	if !p.sees {
		shown.Note = unseenText
		return shown, nil
	}
	out.Sources = []stoa.Source{{Path: file.Path, SHA256: file.SHA256, Via: "read"}}
	return shown, nil
}

func (w *Worker) readPage(ctx context.Context, p *prompt, who drive.Owner, path drive.Path, page int64, out *session.ToolEffect) (any, error) {
	release, err := w.images.Acquire(ctx, who.AccountID, imageSteps, imageSteps/2)
	if err != nil {
		return nil, context.Cause(ctx)
	}
	defer release()
	file, data, err := w.cfg.Drives.Page(ctx, who, path, page)
	if err != nil {
		return nil, err
	}
	image, err := media.ImageOf(data)
	if err != nil {
		return nil, err
	}
	shown := shownImage{Path: file.Path, Page: page, MimeType: image.Type, Bytes: int64(len(data)), Width: image.Width, Height: image.Height, SHA256: file.SHA256}
	if !p.sees {
		shown.Note = unseenText
		return shown, nil
	}
	out.Sources = []stoa.Source{{Path: file.Path, SHA256: file.SHA256, Place: fmt.Sprintf("p. %d", page), Via: "read"}}
	return shown, nil
}

func loadImage(content io.ReadSeeker, size int64) (*stoa.Media, error) {
	if _, err := content.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	data := make([]byte, size)
	if _, err := io.ReadFull(content, data); err != nil {
		return nil, err
	}
	return media.ImageOf(data)
}

// sees reports whether one of the models that may serve accepts images.
func (w *Worker) sees(model string, plan stoa.Plan) bool {
	res, err := w.cfg.Gateway.Catalog.Load().Resolve(model, plan, nil)
	return err == nil && slices.ContainsFunc(res.Models, func(m stoa.Model) bool { return slices.ContainsFunc(m.Routes, seesImages) })
}

func seesImages(r stoa.Route) bool { return r.Traits.Vision }

func imageIn(r *stoa.ToolResult) *shownImage {
	text := r.Content
	if showsImage(r) {
		text = r.Parts[0].Text
	}
	if r.Name != toolRead || r.IsError || !strings.Contains(text, `"sha256":`) {
		return nil
	}
	var shown shownImage
	if jsonx.UnmarshalKnown([]byte(text), &shown) != nil || shown.SHA256 == "" || shown.Width == 0 {
		return nil
	}
	return &shown
}

// withImages returns the results of the turn's steps with the newest images that fit into the
// limits, whose content is not yet loaded. The other images are marked as left out.
func (p *prompt) withImages() [][]stoa.ToolResult {
	list := make([][]stoa.ToolResult, len(p.steps))
	number, bytes := 0, int64(0)
	for i, s := range slices.Backward(p.steps) {
		list[i] = s.Answers()
		for j := range slices.Backward(list[i]) {
			r := &list[i][j]
			if size := sizeOf(r.Images); len(r.Images) > 0 {
				switch {
				case !p.sees:
					r.Content += "\n(" + unseenText + ")"
				case p.refused:
					r.Content += "\n(" + refusedText + ")"
				case number+len(r.Images) > maxImages || bytes+size > maxImageBytes:
					number = maxImages
					r.Content += "\n(" + passedText + ")"
				default:
					number += len(r.Images)
					bytes += size
					r.Parts = []stoa.Part{{Kind: stoa.PartText, Text: r.Content}}
					for _, s := range r.Images {
						r.Parts = append(r.Parts, stoa.Part{Kind: stoa.PartImage, Media: &stoa.Media{Type: s.Type, Width: s.Width, Height: s.Height}})
					}
					r.Content = ""
				}
				continue
			}
			shown := imageIn(r)
			if shown == nil || shown.Note != "" {
				continue
			}
			switch {
			case !p.sees:
				r.Content = shown.without(unseenText)
			case p.access == stoa.DriveNone && !shown.Attached:
				r.Content = shown.without(closedText)
			case p.refused:
				r.Content = shown.without(refusedText)
			case number == maxImages || bytes+shown.Bytes > maxImageBytes:
				number = maxImages // nor any older one
				r.Content = shown.without(passedText)
			default:
				number++
				bytes += shown.Bytes
				r.Parts = []stoa.Part{
					{Kind: stoa.PartText, Text: r.Content},
					{Kind: stoa.PartImage, Media: &stoa.Media{Type: shown.MimeType, Width: shown.Width, Height: shown.Height}},
				}
				r.Content = ""
			}
		}
	}
	return list
}

// dropImages reports whether a request may have been refused because of its images, since only
// their headers are checked. The request is then repeated without images.
func (p *prompt) dropImages(err error) bool {
	f, ok := errors.AsType[*wire.Failure](err)
	if !ok || !p.shown || p.refused || f.Status != http.StatusBadRequest && f.Status != http.StatusRequestEntityTooLarge && f.Status != http.StatusUnprocessableEntity {
		return false
	}
	p.refused = true
	return true
}

func (s shownImage) without(why string) string {
	s.Note = why
	text, err := jsonx.Marshal(s)
	if err != nil { // cannot fail, because its fields are decoded texts and numbers
		return why
	}
	return string(text)
}

// eachImage calls do with each part of a call that has an image. It copies messages and results
// first, so that changes affect only this call.
func eachImage(call *stoa.Call, do func(p *stoa.Part) error) error {
	cloned := false
	for i := range call.Messages {
		if !slices.ContainsFunc(call.Messages[i].Parts, hasImage) {
			continue
		}
		if !cloned {
			call.Messages, cloned = slices.Clone(call.Messages), true
		}
		parts := slices.Clone(call.Messages[i].Parts)
		call.Messages[i].Parts = parts
		for j := range parts {
			if !hasImage(parts[j]) {
				continue
			}
			if parts[j].Result != nil {
				r := *parts[j].Result
				parts[j].Result = &r
			}
			if err := do(&parts[j]); err != nil {
				return err
			}
		}
	}
	return nil
}

func hasImage(p stoa.Part) bool { return p.Result != nil && showsImage(p.Result) || shows(p) }

// showsImage reports whether [prompt.withImages] has added images to a result: a text followed
// by the images.
func showsImage(r *stoa.ToolResult) bool { return len(r.Parts) > 1 }

func sizeOf(images []stoa.ResultImage) (bytes int64) {
	for _, s := range images {
		bytes += s.Bytes
	}
	return bytes
}

func anyImage(call *stoa.Call) bool {
	return slices.ContainsFunc(call.Messages, func(m stoa.Message) bool { return slices.ContainsFunc(m.Parts, hasImage) })
}

func leaveOut(p *stoa.Part, why string) {
	r := p.Result
	if r == nil {
		*p = stoa.Part{Kind: stoa.PartText, Text: "(" + why + ")"}
		return
	}
	if len(r.Images) > 0 {
		r.Content, r.Parts = r.Parts[0].Text+"\n("+why+")", nil
		return
	}
	r.Content, r.Parts = imageIn(r).without(why), nil
}

// fillImages reads the images of a call from the drive, and those of results of servers from
// the store. It leaves out an image whose file has changed or is missing.
func (w *Worker) fillImages(ctx context.Context, t *turn, call *stoa.Call) error {
	return eachImage(call, func(p *stoa.Part) error {
		if p.Result == nil {
			f, ok := t.prompt.upload(p.Media.UploadID)
			if !ok {
				leaveOut(p, passedText)
				return nil
			}
			image, err := w.attachedImage(ctx, t.row.AccountID, f)
			if err == nil {
				p.Media = image
			}
			return err
		}
		r := p.Result
		if len(r.Images) > 0 {
			return w.fillResult(ctx, t, p)
		}
		who, shown := t.drive, imageIn(r)
		name := shown.Path
		if shown.Attached {
			f, err := t.prompt.attached(shown.Path)
			if err != nil {
				leaveOut(p, changedText)
				return nil
			}
			who.AgentID, name = f.ID, f.Path
		}
		image, err := w.storedImage(ctx, who, name, shown)
		if err != nil {
			return err
		}
		if image == nil {
			leaveOut(p, changedText)
			return nil
		}
		r.Parts = []stoa.Part{r.Parts[0], {Kind: stoa.PartImage, Media: image}}
		return nil
	})
}

func (w *Worker) fillResult(ctx context.Context, t *turn, p *stoa.Part) error {
	r := p.Result
	parts := []stoa.Part{r.Parts[0]}
	err := w.store.Read(ctx, func(tx *store.Tx) error {
		parts = parts[:1]
		for _, s := range r.Images {
			content, err := tx.Work().ResultImage(ctx, t.row.ID, t.row.Turn.Number, s)
			if err != nil {
				return err
			}
			if content != "" {
				parts = append(parts, stoa.Part{Kind: stoa.PartImage, Media: &stoa.Media{Type: s.Type, Base64: content, Width: s.Width, Height: s.Height}})
			}
		}
		return nil
	})
	if r.Parts = parts; err == nil && len(parts) <= len(r.Images) { // cannot happen within a turn
		leaveOut(p, passedText)
	}
	return err
}

func (w *Worker) storedImage(ctx context.Context, who drive.Owner, name string, shown *shownImage) (*stoa.Media, error) {
	path, err := drive.ParsePath(name)
	if err != nil {
		return nil, nil
	}
	file, content, err := w.cfg.Drives.Open(ctx, who, path)
	switch {
	case stoa.CodeOf(err) == stoa.CodeFileNotFound || err == nil && file.SHA256 != shown.SHA256:
		return nil, nil
	case err != nil:
		return nil, err
	case shown.Page > 0:
		_, data, err := w.cfg.Drives.Page(ctx, who, path, shown.Page)
		if stoa.CodeOf(err) == stoa.CodeInvalidValue {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		return media.ImageOf(data)
	}
	return loadImage(content, file.Size)
}

// fitImages restricts a call with images to the model's routes that accept them and counts the
// tokens that each image uses there. Without such a route, text replaces the images.
func fitImages(m *stoa.Model, call *stoa.Call) error {
	var seeing []stoa.Route
	for _, r := range m.Routes {
		if seesImages(r) {
			seeing = append(seeing, r)
		}
	}
	if seeing == nil {
		return eachImage(call, func(p *stoa.Part) error {
			leaveOut(p, unseenText)
			return nil
		})
	}
	m.Routes = seeing
	return eachImage(call, func(p *stoa.Part) error {
		r := p.Result
		if r == nil {
			image := *p.Media
			image.Tokens = image.Estimate(seeing[0].Traits, false)
			p.Media = &image
			return nil
		}
		parts := slices.Clone(r.Parts)
		for i := range parts[1:] {
			image := *parts[i+1].Media
			image.Tokens = image.Estimate(seeing[0].Traits, false)
			parts[i+1].Media = &image
		}
		r.Parts = parts
		return nil
	})
}
