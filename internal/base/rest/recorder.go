package rest

import "net/http"

// A responseRecorder counts the sent bytes for the log line. Its status says whether a reply has begun,
// because an error cannot be sent afterwards.
type responseRecorder struct {
	http.ResponseWriter
	status int // 0 if nothing was sent
	bytes  int64
}

// WriteHeader begins the reply.
func (t *responseRecorder) WriteHeader(status int) {
	if t.status == 0 && status >= 200 {
		t.status = status
	}
	t.ResponseWriter.WriteHeader(status)
}

// Write sends a piece of the body.
func (t *responseRecorder) Write(b []byte) (int, error) {
	if t.status == 0 {
		t.status = http.StatusOK
	}
	n, err := t.ResponseWriter.Write(b)
	t.bytes += int64(n)
	return n, err
}

// FlushError sends buffered data; see [http.ResponseController].
func (t *responseRecorder) FlushError() error {
	if t.status == 0 {
		t.status = http.StatusOK
	}
	return http.NewResponseController(t.ResponseWriter).Flush()
}

// Unwrap lets [http.ResponseController] reach the connection.
func (t *responseRecorder) Unwrap() http.ResponseWriter { return t.ResponseWriter }
