#!/usr/bin/env bash
# MCP's go-sdk 1.8 calls the list of tools "public", so that any cache may show it to others, even if its handler makes a
# server for each request, with the tools of that caller. A server has to say "private" in SetCacheable.
# Seen on 2026-11-29 with Go 1.26:
#   default ada notes_of_ada public; default grace notes_of_grace public; with SetCacheable both are private
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
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// serverOf returns a server with the one tool of a caller.
func serverOf(caller string, options *mcp.ServerOptions) *mcp.Server {
	server := mcp.NewServer(&mcp.Implementation{Name: "example", Version: "1"}, options)
	server.AddTool(&mcp.Tool{Name: "notes_of_" + caller, InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) { return &mcp.CallToolResult{}, nil })
	return server
}

func main() {
	private := &mcp.ServerOptions{SetCacheable: func(_ context.Context, _ mcp.Request, c *mcp.Cacheable) { c.CacheScope = "private" }}
	for name, options := range map[string]*mcp.ServerOptions{"default": nil, "SetCacheable": private} {
		handler := mcp.NewStreamableHTTPHandler(func(r *http.Request) *mcp.Server {
			return serverOf(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), options)
		}, &mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true})
		for _, caller := range []string{"ada", "grace"} {
			const version = "2026-07-28"
			body := `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"` + version + `","io.modelcontextprotocol/clientCapabilities":{}}}}`
			r := httptest.NewRequest("POST", "/", strings.NewReader(body))
			for k, v := range map[string]string{"Authorization": "Bearer " + caller, "Content-Type": "application/json", "Accept": "application/json, text/event-stream", "MCP-Protocol-Version": version, "Mcp-Method": "tools/list"} {
				r.Header.Set(k, v)
			}
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, r)
			var got struct {
				Result struct {
					CacheScope string
					Tools      []struct{ Name string }
				}
			}
			if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || len(got.Result.Tools) != 1 {
				fmt.Println(w.Code, w.Body)
				continue
			}
			fmt.Println(name, caller, got.Result.Tools[0].Name, got.Result.CacheScope)
		}
	}
}
EOF
{
  go mod init example
  go get "github.com/modelcontextprotocol/go-sdk/mcp@v$sdk"
} >log 2>&1 || { cat log; exit 1; }
go run . | sort | tee seen
diff seen - <<'EOF'
SetCacheable ada notes_of_ada private
SetCacheable grace notes_of_grace private
default ada notes_of_ada public
default grace notes_of_grace public
EOF
echo "as stated, with go-sdk $sdk"
