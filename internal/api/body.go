package api

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"time"

	"stoa/internal/stoa"
)

// bodyTimeout is how long a body may take to arrive.
const bodyTimeout = 2 * time.Minute

// readBody returns the whole body of a request whose caller is known. A missing
// content type is read as JSON, since a body that is not will fail anyway; a
// wrong or compressed one is refused before it is read.
func (s *Server) readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if encoding := r.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return nil, stoa.Errorf(stoa.CodeMediaType, "Compressed bodies are not read. Send the JSON as it is, without Content-Encoding.").At("Content-Encoding")
	}
	if given := r.Header.Get("Content-Type"); given != "" {
		media, _, err := mime.ParseMediaType(given)
		if err != nil && !errors.Is(err, mime.ErrInvalidMediaParameter) || media != "application/json" {
			return nil, stoa.Errorf(stoa.CodeMediaType, "The body must be JSON. Send it with Content-Type: application/json.").At("Content-Type")
		}
	}
	if r.ContentLength > s.MaxBody {
		return nil, s.tooLarge()
	}
	// A caller who sends too slowly does not keep a goroutine for ever. The
	// deadline is lifted again: a reply may take longer than this.
	rc := http.NewResponseController(w)
	_ = rc.SetReadDeadline(time.Now().Add(bodyTimeout)) // where the connection has none, TCP's own limits hold
	defer func() { _ = rc.SetReadDeadline(time.Time{}) }()
	var body []byte
	var err error
	limited := http.MaxBytesReader(w, r.Body, s.MaxBody)
	if r.ContentLength > 0 {
		body = make([]byte, r.ContentLength)
		_, err = io.ReadFull(limited, body)
	} else if r.ContentLength < 0 {
		body, err = io.ReadAll(limited)
	}
	if err == nil {
		return body, nil
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, s.tooLarge()
	}
	if r.Context().Err() != nil {
		return nil, errClientGone
	}
	return nil, stoa.Errorf(stoa.CodeInvalidJSON, "The body ended early. Send it whole.").Because(fmt.Errorf("read the body: %w", err))
}

func (s *Server) tooLarge() error {
	return stoa.Errorf(stoa.CodeTooLarge, "The body is larger than %d bytes. Send less at once.", s.MaxBody)
}
