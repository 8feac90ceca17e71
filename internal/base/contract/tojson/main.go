// Command tojson writes openapi.json.gz from openapi.yaml in the current directory. The service embeds
// JSON, because reading the YAML takes 50 MB of garbage and 100 ms at every start. It is compressed, because
// half a megabyte of JSON takes 80 KB then.
//
// It changes nothing but the form, and keeps the order of the members. A test of
// package contract compares the two files. Start at [lines].
package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"log"
	"os"

	"github.com/goccy/go-yaml"
)

func main() {
	source, err := os.ReadFile("openapi.yaml")
	if err != nil {
		log.Fatal(err)
	}
	raw, err := yaml.YAMLToJSON(source)
	if err != nil {
		log.Fatal(err)
	}
	var out bytes.Buffer
	if err := json.Compact(&out, raw); err != nil {
		log.Fatal(err)
	}
	var packed bytes.Buffer
	z, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := z.Write(lines(out.Bytes())); err != nil {
		log.Fatal(err)
	}
	if err := z.Close(); err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile("openapi.json.gz", packed.Bytes(), 0o644); err != nil {
		log.Fatal(err)
	}
}

// depth is the number of levels of the document that get a line for each member, such as operations and
// schemas, so that differences are readable.
const depth = 3

// lines breaks JSON without white space into lines.
func lines(text []byte) []byte {
	var out []byte
	level, quoted, escaped := 0, false, false
	for _, b := range text {
		if !quoted && (b == '}' || b == ']') {
			level--
		}
		out = append(out, b)
		switch {
		case escaped:
			escaped = false
		case quoted:
			escaped = b == '\\'
			quoted = b != '"'
		case b == '"':
			quoted = true
		case b == '{' || b == '[':
			if level++; level > 1 && level <= depth {
				out = append(out, '\n')
			}
		case b == ',' && level <= depth:
			out = append(out, '\n')
		}
	}
	return append(out, '\n')
}
