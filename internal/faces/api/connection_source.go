package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/oapi-codegen/nullable"

	"stoa/internal/agents/httptool"
	"stoa/internal/agents/remote"
	"stoa/internal/agents/tool"
	"stoa/internal/base/contract"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
)

type connectionSource struct {
	operations            nullable.Nullable[[]contract.ConnectionOperation]
	documentURL, document nullable.Nullable[string]
}

// newSource returns the source of a connection's tools in its stored form; nil means
// unchanged. It rejects a source that does not match the kind.
func newSource(c *store.Connection, s connectionSource, create bool) (*string, error) {
	refuse := func(member, kind string) error {
		return stoa.Errorf(stoa.CodeInvalidValue, "%s is only allowed for connections of the kind %s.", member, kind).At(member)
	}
	operations, address, text := orZero(s.operations), orZero(s.documentURL), orZero(s.document)
	switch {
	case c.Kind != store.KindHTTP && len(operations) > 0:
		return nil, refuse("operations", store.KindHTTP)
	case c.Kind != store.KindOpenAPI && address != "":
		return nil, refuse("documentUrl", store.KindOpenAPI)
	case c.Kind != store.KindOpenAPI && text != "":
		return nil, refuse("document", store.KindOpenAPI)
	case address != "" && text != "":
		return nil, stoa.Errorf(stoa.CodeInvalidValue, "Send either the address or the text of the document, not both.").At("document")
	case create && c.Kind == store.KindHTTP && len(operations) == 0:
		return nil, stoa.Errorf(stoa.CodeMissingParameter, "Send the requests of the tools: operations.").At("operations")
	case create && c.Kind == store.KindOpenAPI && address == "" && text == "":
		return nil, stoa.Errorf(stoa.CodeMissingParameter, "Send the address or the text of the OpenAPI document: documentUrl or document.").At("documentUrl")
	case c.Kind == store.KindHTTP && len(operations) > 0:
		list, err := operationsText(operations)
		return &list, err
	case address != "":
		c.DocumentURL = address
		return new(""), nil
	case text != "":
		c.DocumentURL = ""
		return &text, nil
	}
	return nil, nil
}

func setFilter(c *store.Connection, f nullable.Nullable[contract.ConnectionFilter]) error {
	if f.IsSpecified() {
		c.Filter = nil
		if b := orZero(f); len(b.Tags)+len(b.Paths)+len(b.Search) > 0 {
			c.Filter = &stoa.OperationFilter{Tags: b.Tags, Paths: b.Paths, Search: b.Search}
		}
	}
	switch {
	case c.Filter != nil && c.Kind != store.KindOpenAPI:
		return stoa.Errorf(stoa.CodeInvalidValue, "A filter is only allowed for connections of the kind %s.", store.KindOpenAPI).At("filter")
	case c.Sessions == store.SessionsSession && c.Kind != store.KindMCP:
		return stoa.Errorf(stoa.CodeInvalidValue, "Only connections of the kind %s have sessions at their server.", store.KindMCP).At("sessions")
	}
	return nil
}

func operationsText(operations []contract.ConnectionOperation) (string, error) {
	var list []httptool.Operation
	for _, o := range operations {
		one := httptool.Operation{
			Name: o.Name, Description: orZero(o.Description), Method: o.Method, Path: o.Path, Parameters: orZero(o.Parameters), Effects: orZero(o.Effects),
		}
		if result, err := o.Result.Get(); err == nil {
			one.Result.Pointer, one.Result.MaxItems = orZero(result.Pointer), orZero(result.MaxItems)
		}
		list = append(list, one)
	}
	text, err := json.Marshal(list)
	if err != nil {
		return "", err
	}
	_, err = httptool.FromOperations(string(text))
	if wrong, ok := errors.AsType[*httptool.OperationError](err); ok {
		code := stoa.CodeInvalidValue
		if errors.Is(err, httptool.ErrHeader) {
			code = stoa.CodeInvalidHeader
		}
		return "", stoa.Errorf(code, "%s", remote.Sentence(wrong.Err.Error())).At(fmt.Sprintf("operations[%d].%s", wrong.Index, wrong.Member))
	}
	if err != nil {
		return "", stoa.Errorf(stoa.CodeInvalidValue, "%s", remote.Sentence(err.Error())).At("operations")
	}
	return string(text), nil
}

func keepSource(ctx context.Context, tx *store.Tx, c store.Connection, source string) (store.Connection, error) {
	if c.Kind != store.KindHTTP {
		return c, tx.Setup().SetConnectionSource(ctx, c.AccountID, c.ID, source)
	}
	return tx.Setup().EditConnection(ctx, c.AccountID, c.ID, func(c *store.Connection) error {
		return tool.Describe(ctx, tx, c, source)
	})
}

type shownConnection struct {
	contract.Connection
	revision int64
}

func showConnection(ctx context.Context, tx *store.Tx, accountID, id string) (out shownConnection, err error) {
	c, err := tx.Setup().Connection(ctx, accountID, id)
	if err != nil {
		return out, err
	}
	out.Connection, out.revision = contractConnection(c), c.Revision
	if c.Kind != store.KindHTTP {
		return out, nil
	}
	text, err := tx.Setup().ConnectionSource(ctx, accountID, id)
	if err != nil {
		return out, err
	}
	var list []httptool.Operation
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return out, err
	}
	shown := []contract.ConnectionOperation{}
	for _, o := range list {
		shown = append(shown, contract.ConnectionOperation{
			Name: o.Name, Description: nullIfZero(o.Description), Method: o.Method, Path: o.Path, Parameters: orNull(o.Parameters), Effects: nullIfZero(o.Effects),
			Result: nullUnless(o.Result.Pointer != "" || o.Result.MaxItems != 0, contract.ConnectionOperationResult{Pointer: nullIfZero(o.Result.Pointer), MaxItems: nullIfZero(o.Result.MaxItems)}),
		})
	}
	out.Operations = nullable.NewNullableWithValue(shown)
	return out, nil
}

func setLimits(c *store.Connection, limits nullable.Nullable[contract.SetConnectionLimits]) {
	usual := store.DefaultConnectionLimits
	if limits.IsNull() {
		c.Limits = usual
	}
	b := orZero(limits)
	for _, l := range []struct {
		of    nullable.Nullable[int64]
		into  *int64
		usual int64
	}{
		{b.TimeoutSeconds, &c.Limits.TimeoutSeconds, usual.TimeoutSeconds},
		{b.MaxResultBytes, &c.Limits.MaxResultBytes, usual.MaxResultBytes},
		{b.MaxConcurrent, &c.Limits.MaxConcurrent, usual.MaxConcurrent},
		{b.CallsPerMinute, &c.Limits.CallsPerMinute, usual.CallsPerMinute},
	} {
		if l.of.IsNull() {
			*l.into = l.usual
		} else if l.of.IsSpecified() {
			*l.into = l.of.MustGet()
		}
	}
}
