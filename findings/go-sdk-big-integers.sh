#!/usr/bin/env bash
# A tool of MCP's go-sdk 1.8 that is added with mcp.AddTool gets other integers than the client sent: arguments pass through float64 when
# defaults are applied, and so does a typed result. A member of type int64 receives 9007199254740992 for 9007199254740993, as ids of
# orders or messages can be, without an error. Server.AddTool with a raw handler gets the bytes as they are.
# Seen on 2026-11-30 with Go 1.26:
#   sent 9007199254740993, typed 9007199254740992, raw 9007199254740993 · a result of 9007199254740995 arrives as 9007199254740996
set -euo pipefail
sdk=1.8.0
dir=$(mktemp -d)
trap 'chmod -R u+w "$dir"; rm -rf "$dir"' EXIT
cd "$dir"
cat >main.go <<'EOF'
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

type order struct {
	ID int64 `json:"id"`
}

func main() {
	ctx := context.Background()
	server := mcp.NewServer(&mcp.Implementation{Name: "orders", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "typed"}, func(_ context.Context, _ *mcp.CallToolRequest, in order) (*mcp.CallToolResult, order, error) {
		fmt.Println("typed", in.ID)
		return nil, order{9007199254740995}, nil
	})
	server.AddTool(&mcp.Tool{Name: "raw", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		var in order
		err := json.Unmarshal(r.Params.Arguments, &in)
		fmt.Println("raw", in.ID)
		return &mcp.CallToolResult{}, err
	})
	here, there := mcp.NewInMemoryTransports()
	go server.Run(ctx, here)
	session, err := mcp.NewClient(&mcp.Implementation{Name: "client", Version: "1"}, nil).Connect(ctx, there, nil)
	if err != nil {
		log.Fatal(err)
	}
	for _, name := range []string{"typed", "raw"} {
		result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: name, Arguments: json.RawMessage(`{"id":9007199254740993}`)})
		if err != nil || result.IsError {
			log.Fatal(name, err)
		}
		if len(result.Content) > 0 {
			fmt.Println("result", result.Content[0].(*mcp.TextContent).Text)
		}
	}
}
EOF
cat >go.mod <<EOF
module example

go 1.26

require github.com/modelcontextprotocol/go-sdk v$sdk
EOF
go mod tidy >log 2>&1 || { cat log; exit 1; }
go run . | tee seen
diff seen - <<'EOF'
typed 9007199254740992
result {"id":9007199254740996}
raw 9007199254740993
EOF
echo "as stated, with go-sdk $sdk"
