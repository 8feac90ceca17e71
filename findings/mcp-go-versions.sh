#!/usr/bin/env bash
# mcp-go 1.2 (github.com/mark3labs/mcp-go) has the option WithStreamableHTTPProtocolVersions, which restricts the revisions that a server offers.
# It holds for requests without a session only: a server restricted to 2025-06-18 tells a client of 2026-07-28 that it supports nothing else,
# and then agrees on 2025-11-25 with the same client's initialize, because that is the newest revision with sessions; an older client gets
# 2025-03-26. Its own client ends up with 2025-11-25 as well, and calls tools with it.
# Seen on 2026-11-30 with Go 1.26: what the end of the file has.
set -euo pipefail
dir=$(mktemp -d)
trap 'chmod -R u+w "$dir"; rm -rf "$dir"' EXIT
cd "$dir"
cat >main.go <<'EOF'
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

func main() {
	ctx := context.Background()
	s := server.NewMCPServer("s", "1")
	s.AddTool(mcp.NewTool("hello"), func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) { return mcp.NewToolResultText("hi"), nil })
	web := httptest.NewServer(server.NewStreamableHTTPServer(s, server.WithStreamableHTTPProtocolVersions("2025-06-18")))
	post := func(name, header, body string) {
		r, _ := http.NewRequest("POST", web.URL+"/mcp", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		if header != "" {
			r.Header.Set("Mcp-Protocol-Version", header)
			r.Header.Set("Mcp-Method", "server/discover")
		}
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			panic(err)
		}
		text, _ := io.ReadAll(res.Body)
		var out struct {
			Result struct{ ProtocolVersion string }
			Error  struct{ Message string }
		}
		if err := json.Unmarshal(text, &out); err != nil {
			panic(string(text))
		}
		fmt.Println(name+":", out.Result.ProtocolVersion+out.Error.Message)
	}
	post("discover with 2026-07-28", "2026-07-28", `{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`)
	for _, v := range []string{"2025-11-25", "2025-06-18", "2025-03-26"} {
		post("initialize with "+v, "", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"`+v+`","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
	}
	t, err := transport.NewStreamableHTTP(web.URL + "/mcp")
	if err != nil {
		panic(err)
	}
	c := client.NewClient(t)
	if err := c.Start(ctx); err != nil {
		panic(err)
	}
	var init mcp.InitializeRequest
	init.Params.ClientInfo = mcp.Implementation{Name: "c", Version: "1"}
	agreed, err := c.Initialize(ctx, init)
	if err != nil {
		panic(err)
	}
	var call mcp.CallToolRequest
	call.Params.Name = "hello"
	result, err := c.CallTool(ctx, call)
	if err != nil {
		panic(err)
	}
	fmt.Println("its own client:", agreed.ProtocolVersion+", the tool says", result.Content[0].(mcp.TextContent).Text)
}
EOF
cat >go.mod <<EOF
module example

go 1.26

require github.com/mark3labs/mcp-go v1.2.1
EOF
go mod tidy >log 2>&1 || { cat log; exit 1; }
go run . | tee seen
diff seen - <<'EOF'
discover with 2026-07-28: unsupported protocol version: "2026-07-28" (supported: [2025-06-18])
initialize with 2025-11-25: 2025-11-25
initialize with 2025-06-18: 2025-06-18
initialize with 2025-03-26: 2025-03-26
its own client: 2025-11-25, the tool says hi
EOF
echo "as stated, with mcp-go 1.2.1"
