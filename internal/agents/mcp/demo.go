package mcp

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Demo returns a small server to try connections with, built with the SDK: a read-only tool,
// one that may be repeated, and one with an effect each time. Tests use it too. It keeps its
// notes in memory, at most 1,000. legacy restricts it to the era with sessions.
func Demo(legacy bool) http.Handler {
	options := &sdk.ServerOptions{Instructions: "Notes to try connections with. They are gone when the server stops."}
	if legacy {
		options.SupportedProtocolVersions = []string{"2025-11-25", "2025-06-18", "2025-03-26"}
	}
	server := sdk.NewServer(&sdk.Implementation{Name: "stoa-demo", Version: "1.0.0"}, options)
	notes := &notebook{texts: map[string]string{"welcome": "This is a note of the demo server."}}
	no, yes := false, true
	sdk.AddTool(server, &sdk.Tool{
		Name: "search_notes", Title: "Search the notes", Description: "Finds the notes that hold a word.",
		Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true, OpenWorldHint: &no},
	}, notes.search)
	sdk.AddTool(server, &sdk.Tool{
		Name: "put_note", Title: "Write a note", Description: "Writes a note under a name, and replaces an existing one.",
		Annotations: &sdk.ToolAnnotations{IdempotentHint: true, DestructiveHint: &no, OpenWorldHint: &no},
	}, notes.write(""))
	sdk.AddTool(server, &sdk.Tool{
		Name: "append_note", Title: "Add to a note", Description: "Adds a line to a note. A second call adds a second line.",
		Annotations: &sdk.ToolAnnotations{DestructiveHint: &yes, OpenWorldHint: &no},
	}, notes.write("\n"))
	return sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, &sdk.StreamableHTTPOptions{Stateless: !legacy, JSONResponse: !legacy})
}

// Limits of the demo: number of notes, bytes of a note, and bytes of its name.
const maxNotes, maxNote, maxNoteName = 1000, 10_000, 128

type notebook struct {
	mu    sync.Mutex
	texts map[string]string
}

type searchInput struct {
	Word string `json:"word" jsonschema:"the word to look for"`
}

func (n *notebook) search(_ context.Context, _ *sdk.CallToolRequest, in searchInput) (*sdk.CallToolResult, any, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	var found []string
	for name, text := range n.texts {
		if strings.Contains(strings.ToLower(name+" "+text), strings.ToLower(in.Word)) {
			found = append(found, name+": "+text)
		}
	}
	return said(fmt.Sprintf("%d found.\n%s", len(found), strings.Join(found, "\n"))), nil, nil
}

type noteInput struct {
	Name string `json:"name" jsonschema:"the name of the note"`
	Text string `json:"text" jsonschema:"what it says"`
}

// write returns the handler that writes a note. If between is set, the handler appends to an
// existing note after between.
func (n *notebook) write(between string) sdk.ToolHandlerFor[noteInput, any] {
	return func(_ context.Context, _ *sdk.CallToolRequest, in noteInput) (*sdk.CallToolResult, any, error) {
		n.mu.Lock()
		defer n.mu.Unlock()
		old, there := n.texts[in.Name]
		if there && between != "" {
			in.Text = old + between + in.Text
		}
		if len(in.Text) > maxNote || len(in.Name) > maxNoteName || !there && len(n.texts) >= maxNotes {
			return nil, nil, fmt.Errorf("the notes are full, or this one is too long")
		}
		n.texts[in.Name] = in.Text
		return said("Written. The note has " + fmt.Sprint(strings.Count(in.Text, "\n")+1) + " lines."), nil, nil
	}
}

func said(text string) *sdk.CallToolResult {
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text}}}
}
