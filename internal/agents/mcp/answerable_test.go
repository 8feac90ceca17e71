package mcp

import (
	"context"
	"errors"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

func TestAnErrorHasDataThatCanBeSent(t *testing.T) {
	t.Parallel()
	plain := errors.New("plain")
	for data, want := range map[string]string{`{"uri":"a"}`: `{"uri":"a"}`, `{"uri":`: "", "": ""} {
		_, err := answerable(func(context.Context, string, sdk.Request) (sdk.Result, error) {
			return nil, &jsonrpc.Error{Code: 1, Message: "no", Data: []byte(data)}
		})(t.Context(), "resources/read", nil)
		if wire, ok := errors.AsType[*jsonrpc.Error](err); !ok || string(wire.Data) != want || wire.Message != "no" {
			t.Errorf("%q: %v", data, err)
		}
	}
	if _, err := answerable(func(context.Context, string, sdk.Request) (sdk.Result, error) { return nil, plain })(t.Context(), "x", nil); err != plain {
		t.Errorf("another error is %v", err)
	}
}
