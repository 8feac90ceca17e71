#!/usr/bin/env bash
# oapi-codegen 2.8.2 makes a word of the null in a nullable enum of OpenAPI 3.0, which 3.0 asks for: the constant has the
# text "<nil>", and Valid() accepts it. A program that sends it sends that text instead of null.
# Seen on 2026-11-29 with Go 1.26:
#   "<nil>" is a constant, Valid: true
set -euo pipefail
version=2.8.2
dir=$(mktemp -d)
trap 'chmod -R u+w "$dir"; rm -rf "$dir"' EXIT
cd "$dir"
cat >openapi.yaml <<'EOF'
openapi: 3.0.3
info: {title: Things, version: "1"}
paths: {}
components:
  schemas:
    Thing:
      type: object
      required: [state]
      properties:
        state: {type: string, nullable: true, enum: [new, used, null]}
EOF
mkdir thing
{
  go mod init example.com/things
  go run "github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v$version" -generate types,skip-prune -package thing -o thing/thing.gen.go openapi.yaml
} >log 2>&1 || { cat log; exit 1; }
cat >main.go <<'EOF'
package main

import (
	"fmt"

	"example.com/things/thing"
)

func main() {
	null := thing.LessThannil
	fmt.Printf("%q is a constant, Valid: %v\n", string(null), null.Valid())
}
EOF
seen=$(go run .)
echo "$seen"
[[ $seen == '"<nil>" is a constant, Valid: true' ]]
