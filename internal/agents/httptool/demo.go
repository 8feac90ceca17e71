package httptool

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
)

// Limits of the demo.
const demoNotes, demoNote = 1000, 10_000

const demoDocument = `openapi: 3.1.0
info: {title: Notes, version: "1", description: Notes to try connections with. They are gone when the server stops.}
servers: [{url: /v1}]
paths:
  /notes/{name}:
    parameters: [{name: name, in: path, required: true, schema: {type: string, maxLength: 100}}]
    get: {operationId: read_note, summary: Reads a note.}
    put:
      operationId: write_note
      summary: Writes a note in place of the one that is there.
      requestBody: {required: true, content: {application/json: {schema: {type: object, required: [text], properties: {text: {type: string}}}}}}
`

// Demo returns a small HTTP server to try connections with: notes below /v1/notes, and
// the OpenAPI document that describes them at /openapi.yaml. Other requests go to next.
func Demo(next http.Handler) http.Handler {
	var mu sync.Mutex
	notes := map[string]json.RawMessage{"welcome": json.RawMessage(`{"text":"This is a note of the demo server."}`)}
	mux := http.NewServeMux()
	mux.Handle("/", next)
	mux.HandleFunc("GET /openapi.yaml", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/yaml")
		_, _ = io.WriteString(w, demoDocument)
	})
	mux.HandleFunc("GET /v1/notes/{name}", func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		note, ok := notes[r.PathValue("name")]
		mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			note = json.RawMessage(`{"error":"There is no such note."}`)
		}
		fmt.Fprintf(w, `{"data":%s}`, note)
	})
	mux.HandleFunc("PUT /v1/notes/{name}", func(w http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, demoNote))
		name := r.PathValue("name")
		mu.Lock()
		defer mu.Unlock()
		if _, known := notes[name]; err != nil || !json.Valid(text) || len(name) > 100 || !known && len(notes) >= demoNotes {
			http.Error(w, "The notes are full, or this one is too long or no JSON.", http.StatusBadRequest)
			return
		}
		notes[name] = text
		w.WriteHeader(http.StatusNoContent)
	})
	return mux
}
