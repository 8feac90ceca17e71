package responses

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"stoa/internal/base/media"
	"stoa/internal/base/stoa"
)

// Limits of a request, which the contract publishes.
const (
	maxImages = 20
	maxFiles  = 5
)

type mediaItem struct {
	*stoa.Media
	place // of the part
	kind  stoa.PartKind
	tool  bool // it is in the output of a tool
}

func (m mediaItem) urlPath() string {
	if m.kind == stoa.PartFile {
		return m.at("file_url")
	}
	return m.at("image_url")
}

type mediaMembers struct {
	imageURL, detail, fileData, fileURL, name, fileID string
}

// member returns the destination of a member's value; nil for unknown members.
func (m *mediaMembers) member(name string) *string {
	switch name {
	case "image_url":
		return &m.imageURL
	case "detail":
		return &m.detail
	case "file_data":
		return &m.fileData
	case "file_url":
		return &m.fileURL
	case "filename":
		return &m.name
	case "file_id":
		return &m.fileID
	}
	return nil
}

func (p *parser) mediaMember(m *mediaMembers) func(name, path string) error {
	return func(name, path string) (err error) {
		if !p.opts.Images && !p.opts.Files {
			return p.skip()
		}
		*m.member(name), err = p.text(path)
		return err
	}
}

func (p *parser) medium(l place, kind string, m *mediaMembers) (stoa.Part, error) {
	switch {
	case kind == "input_image" && p.opts.Images:
		return p.image(l, m)
	case kind == "input_file" && p.opts.Files:
		return p.file(l, m)
	}
	return stoa.Part{}, unsupportedValue(l.at("type"), p.opts.partsText())
}

func (p *parser) image(l place, m *mediaMembers) (stoa.Part, error) {
	var image *stoa.Media
	var err error
	switch {
	case m.fileID != "":
		return stoa.Part{}, unsupported(l.at("file_id"), "Files are not stored here. Send the image itself, as a data URL in \"image_url\".")
	case m.imageURL == "":
		return stoa.Part{}, stoa.Errorf(stoa.CodeMissingParameter, "The part has no \"image_url\".").At(l.at("image_url"))
	case isAddress(m.imageURL):
		image, err = address(m.imageURL, p.opts.ImageURL)
	default:
		image, err = media.Image(m.imageURL)
	}
	if err != nil {
		return stoa.Part{}, stoa.AsError(err).At(l.at("image_url"))
	}
	switch m.detail {
	case "", "low", "high", "auto", "original":
		image.Detail = m.detail
	default:
		return stoa.Part{}, stoa.Errorf(stoa.CodeInvalidValue, "%q must be low, high, auto or original.", l.at("detail")).At(l.at("detail"))
	}
	return p.media(stoa.Part{Kind: stoa.PartImage, Media: image}, l)
}

func (p *parser) file(l place, m *mediaMembers) (stoa.Part, error) {
	if _, err := media.Name(m.name); err != nil {
		return stoa.Part{}, stoa.AsError(err).At(l.at("filename"))
	}
	switch {
	case m.fileID != "":
		return stoa.Part{}, unsupported(l.at("file_id"), "Files are not stored here. Send the file itself, as a data URL in \"file_data\".")
	case m.fileData != "":
		part, err := media.File(m.name, m.fileData, p.opts.Documents)
		if err != nil {
			return stoa.Part{}, stoa.AsError(err).At(l.at("file_data"))
		}
		return p.media(part, l)
	case m.fileURL == "":
		return stoa.Part{}, stoa.Errorf(stoa.CodeMissingParameter, "The part has no \"file_data\" and no \"file_url\".").At(l.at("file_data"))
	}
	file, err := address(m.fileURL, p.opts.FileURL)
	if err != nil {
		return stoa.Part{}, stoa.AsError(err).At(l.at("file_url"))
	}
	file.Name = m.name
	return p.media(stoa.Part{Kind: stoa.PartFile, Media: file}, l)
}

func isAddress(url string) bool {
	return len(url) < 5 || !strings.EqualFold(url[:5], "data:")
}

func address(url string, policy media.Policy) (*stoa.Media, error) {
	if policy == media.Refuse {
		return nil, stoa.Errorf(stoa.CodeUnsupportedValue, "Addresses are not supported here. Send the content itself, as a data URL.")
	}
	if err := media.CheckURL(url); err != nil {
		return nil, err
	}
	return &stoa.Media{URL: url}, nil
}

func (p *parser) media(part stoa.Part, l place) (stoa.Part, error) {
	if part.Media == nil { // a text
		p.extra().textFile = true
		return part, nil
	}
	n, most := 1, maxImages
	if part.Kind == stoa.PartFile {
		most = maxFiles
	}
	for _, m := range p.req.media {
		if m.kind == part.Kind {
			n++
		}
	}
	if n > most {
		return stoa.Part{}, stoa.Errorf(stoa.CodeInvalidValue, "A request can have at most %d images and %d files.", maxImages, maxFiles).At(l.path)
	}
	p.req.media = append(p.req.media, mediaItem{Media: part.Media, kind: part.Kind, place: l})
	return part, nil
}

func onlyTexts(path string) error {
	return unsupportedValue(path+".type", "Images and files are only allowed in messages of the user and in the outputs of tools.")
}

// fetch reads the content of addresses if the operator's policy is to fetch them. It does
// nothing for a request that is already refused.
func (r *run) fetch(ctx context.Context) error {
	if len(r.Request.media) == 0 {
		return nil
	}
	return r.fetchMedia(ctx)
}

func (r *run) fetchMedia(ctx context.Context) error {
	var wg sync.WaitGroup
	errs := make([]error, len(r.Request.media))
	for i, m := range r.Request.media {
		policy, limit := r.s.Options.ImageURL, media.MaxImage
		if m.kind == stoa.PartFile {
			policy, limit = r.s.Options.FileURL, media.MaxFile
		}
		if m.URL == "" || policy != media.Fetch {
			continue
		}
		wg.Go(func() {
			data, err := r.s.Fetcher.Fetch(ctx, r.Caller.Account.ID, m.URL, limit)
			if err == nil {
				err = m.fill(data)
			}
			if err != nil {
				errs[i] = stoa.AsError(err).At(m.urlPath())
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func (m mediaItem) fill(data []byte) error {
	var got *stoa.Media
	var err error
	if m.kind == stoa.PartFile {
		got, err = media.PDFOf(m.Name, data)
	} else {
		got, err = media.ImageOf(data)
	}
	if err != nil {
		return err
	}
	got.Detail = m.Detail
	*m.Media = *got
	return nil
}

func (r *run) fitsMedia(route stoa.Route) error {
	t := route.Traits
	for _, m := range r.Request.media {
		switch {
		case m.tool && r.enforced.leftOut[m.kind]: // a note replaces it
		case r.enforced.texts[m.Media] != "": // a text replaces it
		case m.kind == stoa.PartFile && !t.PDF:
			return unsupportedValue(m.at("type"), "This model does not support PDF files."+r.able(func(t stoa.Traits) bool { return t.PDF }))
		case m.kind == stoa.PartImage && !t.Vision:
			return unsupportedValue(m.at("type"), "This model does not support images."+r.able(func(t stoa.Traits) bool { return t.Vision }))
		case m.URL != "" && (m.kind == stoa.PartImage && !t.ImageURL || route.Wire == "chat" && m.kind == stoa.PartFile):
			return unsupportedValue(m.urlPath(), "This model does not support addresses. Send the content itself, as a data URL.")
		}
	}
	return nil
}

// The notes instead of images and files that a model does not support.
const (
	imageNote = "[An image was left out here: this model cannot see images.]"
	fileNote  = "[The PDF file %q was left out here: this model cannot read PDF files.]"
)

// leaveOutMedia replaces the images and files in the outputs of tools by notes if no route of
// the model supports them. An error would end the session of an agent, because its tools chose them,
// and the history keeps them.
func (r *run) leaveOutMedia(m *stoa.Model, call *stoa.Call) {
	var leftOut map[stoa.PartKind]bool
	for _, item := range r.Request.media {
		if item.tool && r.enforced.texts[item.Media] == "" && !slices.ContainsFunc(m.Routes, func(route stoa.Route) bool {
			t := route.Traits
			return item.kind == stoa.PartImage && t.Vision || item.kind == stoa.PartFile && t.PDF
		}) {
			if leftOut == nil {
				leftOut = map[stoa.PartKind]bool{}
			}
			leftOut[item.kind] = true
		}
	}
	if leftOut == nil {
		return
	}
	r.enforced.leftOut = leftOut
	r.enforced.adjusted |= stoa.MediaLeftOut
	call.Messages = slices.Clone(call.Messages)
	for i := range call.Messages {
		parts := slices.Clone(call.Messages[i].Parts)
		for j, p := range parts {
			if p.Kind != stoa.PartResult || !slices.ContainsFunc(p.Result.Parts, func(p stoa.Part) bool { return leftOut[p.Kind] }) {
				continue
			}
			result := *p.Result
			result.Parts = slices.Clone(result.Parts)
			for k, shown := range result.Parts {
				if note := imageNote; leftOut[shown.Kind] {
					if shown.Kind == stoa.PartFile {
						note = fmt.Sprintf(fileNote, shown.Media.Name)
					}
					result.Parts[k] = stoa.Part{Kind: stoa.PartText, Text: note}
				}
			}
			parts[j].Result = &result
		}
		call.Messages[i].Parts = parts
	}
}

func (r *run) able(has func(stoa.Traits) bool) string {
	var names []string
	for _, m := range r.s.Gateway.Catalog.Load().Models() {
		if r.Caller.Plan.Allows(m) && len(m.Routes) > 0 && has(m.Routes[0].Traits) {
			if names = append(names, m.ID); len(names) == 12 {
				break
			}
		}
	}
	if names == nil {
		return " No configured model does."
	}
	return " These do: " + strings.Join(names, ", ") + "."
}

func (r *run) sizeMedia(m *stoa.Model) {
	if len(m.Routes) == 0 {
		return
	}
	for _, item := range r.Request.media {
		tokens := item.Estimate(m.Routes[0].Traits, item.kind == stoa.PartFile)
		if m.ContextTokens > 0 {
			tokens = min(tokens, m.ContextTokens)
		}
		item.Tokens = tokens
	}
}

func (o *Options) partsText() string {
	switch {
	case o.Images && o.Files:
		return "Only texts, images and files are supported: audio and other parts are not."
	case o.Images:
		return "Only texts and images are supported: audio and other parts are not, and the operator can enable the extension \"files\"."
	case o.Files:
		return "Only texts and files are supported: audio and other parts are not, and the operator can enable the extension \"images\"."
	}
	return "Only text is supported: audio and other parts are not, and the operator can enable the extensions \"images\" and \"files\". Send {\"type\":\"input_text\",\"text\":\"…\"}."
}
