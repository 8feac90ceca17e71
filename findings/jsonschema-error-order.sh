#!/usr/bin/env bash
# santhosh-tekuri/jsonschema 6.0.3 describes the same value and schema differently each time: the names of additional properties come
# in the order of a Go map, within one line, so that sorting the lines does not help. A text that has to stay the same, as in the
# prompt of a model whose vendor caches prefixes, must be stored.
# Seen on 2026-11-29 with Go 1.26:
#   more than one text in 100 checks; one text with one additional property
set -euo pipefail
version=6.0.3
dir=$(mktemp -d)
trap 'chmod -R u+w "$dir"; rm -rf "$dir"' EXIT
cd "$dir"
cat >main.go <<'EOF'
package main

import (
	"fmt"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

func parse(text string) any {
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		panic(err)
	}
	return v
}

func main() {
	c := jsonschema.NewCompiler()
	if err := c.AddResource("s.json", parse(`{"type":"object","properties":{"a":{}},"additionalProperties":false}`)); err != nil {
		panic(err)
	}
	schema := c.MustCompile("s.json")
	for _, value := range []string{`{"a":1,"b":2}`, `{"a":1,"b":2,"c":3,"d":4,"e":5,"f":6}`} {
		texts := map[string]bool{}
		for range 100 {
			texts[schema.Validate(parse(value)).Error()] = true
		}
		fmt.Println(strings.Count(value, ":")-1, "additional properties: one text:", len(texts) == 1)
	}
}
EOF
{
  go mod init example
  go get "github.com/santhosh-tekuri/jsonschema/v6@v$version"
} >log 2>&1 || { cat log; exit 1; }
go run . | tee seen
diff seen - <<'EOF'
1 additional properties: one text: true
5 additional properties: one text: false
EOF
echo "as stated, with jsonschema $version"
