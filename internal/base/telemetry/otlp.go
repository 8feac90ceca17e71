package telemetry

import (
	"math"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/protobuf/encoding/protowire"
)

// The fields of the written OTLP messages:
// https://github.com/open-telemetry/opentelemetry-proto, version 1. A test reads the result with the
// generated types.
const (
	requestResourceSpans protowire.Number = 1

	resourceSpansResource = 1
	resourceSpansScopes   = 2
	resourceAttributes    = 1
	scopeSpansScope       = 1
	scopeSpansSpans       = 2
	scopeName             = 1
	scopeVersion          = 2

	spanTraceID      = 1
	spanID           = 2
	spanParentID     = 4
	spanName         = 5
	spanKind         = 6
	spanStart        = 7
	spanEnd          = 8
	spanAttributes   = 9
	spanStatus       = 15
	spanFlags        = 16
	statusCode       = 3
	statusOK         = 1
	statusError      = 2
	flagsHasIsRemote = 0x100
	flagsIsRemote    = 0x200
	keyValueKey      = 1
	keyValueValue    = 2
	anyString        = 1
	anyBool          = 2
	anyInt           = 3
	anyDouble        = 4
	anyArray         = 5
	arrayValues      = 1
)

// encode returns an ExportTraceServiceRequest with the spans. It uses one resource and one scope, because there is
// only one tracer.
func encode(spans []sdk.ReadOnlySpan) []byte {
	if len(spans) == 0 {
		return nil
	}
	first := spans[0]
	var resource, scope, scopes, all []byte
	for _, kv := range first.Resource().Attributes() {
		resource = appendMessage(resource, resourceAttributes, keyValue(kv))
	}
	scope = appendText(scope, scopeName, first.InstrumentationScope().Name)
	scope = appendText(scope, scopeVersion, first.InstrumentationScope().Version)
	scopes = appendMessage(scopes, scopeSpansScope, scope)
	for _, s := range spans {
		scopes = appendMessage(scopes, scopeSpansSpans, encodeSpan(s))
	}
	all = appendMessage(all, resourceSpansResource, resource)
	all = appendMessage(all, resourceSpansScopes, scopes)
	return appendMessage(nil, requestResourceSpans, all)
}

func encodeSpan(s sdk.ReadOnlySpan) []byte {
	sc, parent := s.SpanContext(), s.Parent()
	traceID, id := sc.TraceID(), sc.SpanID()
	b := appendMessage(nil, spanTraceID, traceID[:])
	b = appendMessage(b, spanID, id[:])
	if parent.SpanID().IsValid() {
		id := parent.SpanID()
		b = appendMessage(b, spanParentID, id[:])
	}
	b = appendText(b, spanName, s.Name())
	b = appendNumber(b, spanKind, uint64(trace.ValidateSpanKind(s.SpanKind())))
	b = appendTime(b, spanStart, s.StartTime())
	b = appendTime(b, spanEnd, s.EndTime())
	for _, kv := range s.Attributes() {
		b = appendMessage(b, spanAttributes, keyValue(kv))
	}
	var code uint64
	switch s.Status().Code {
	case codes.Ok:
		code = statusOK
	case codes.Error:
		code = statusError
	}
	if code != 0 {
		b = appendMessage(b, spanStatus, appendNumber(nil, statusCode, code))
	}
	flags := uint32(sc.TraceFlags()) | flagsHasIsRemote
	if parent.IsRemote() {
		flags |= flagsIsRemote
	}
	return protowire.AppendFixed32(protowire.AppendTag(b, spanFlags, protowire.Fixed32Type), flags)
}

func keyValue(kv attribute.KeyValue) []byte {
	b := appendText(nil, keyValueKey, string(kv.Key))
	return appendMessage(b, keyValueValue, anyValue(kv.Value))
}

// anyValue writes the kinds of values that occur in spans and resources, and others as their text.
func anyValue(v attribute.Value) []byte {
	switch v.Type() {
	case attribute.BOOL:
		return appendNumber(nil, anyBool, protowire.EncodeBool(v.AsBool()))
	case attribute.INT64:
		return appendNumber(nil, anyInt, uint64(v.AsInt64()))
	case attribute.FLOAT64:
		return protowire.AppendFixed64(protowire.AppendTag(nil, anyDouble, protowire.Fixed64Type), math.Float64bits(v.AsFloat64()))
	case attribute.STRINGSLICE:
		var list []byte
		for _, s := range v.AsStringSlice() {
			list = appendMessage(list, arrayValues, appendMessage(nil, anyString, []byte(s)))
		}
		return appendMessage(nil, anyArray, list)
	}
	return appendMessage(nil, anyString, []byte(v.String()))
}

func appendMessage(b []byte, field protowire.Number, message []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), message)
}

func appendText(b []byte, field protowire.Number, text string) []byte {
	if text == "" {
		return b
	}
	return protowire.AppendString(protowire.AppendTag(b, field, protowire.BytesType), text)
}

func appendNumber(b []byte, field protowire.Number, n uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), n)
}

func appendTime(b []byte, field protowire.Number, t time.Time) []byte {
	return protowire.AppendFixed64(protowire.AppendTag(b, field, protowire.Fixed64Type), uint64(t.UnixNano()))
}

// partialSuccess reads the reply to an export: the number of rejected spans, and why. An unreadable reply
// rejects nothing, because the receiver has accepted the request.
func partialSuccess(reply []byte) (rejected int64, reason string) {
	fields(reply, func(n protowire.Number, _ uint64, partial []byte) {
		if n != 1 { // partial_success
			return
		}
		fields(partial, func(n protowire.Number, number uint64, text []byte) {
			switch n {
			case 1: // rejected_spans
				rejected = int64(number)
			case 2: // error_message
				reason = string(text)
			}
		})
	})
	return rejected, reason
}

// fields calls do with each number and each byte sequence of a message, up to the first invalid field.
func fields(message []byte, do func(n protowire.Number, number uint64, data []byte)) {
	for len(message) > 0 {
		n, kind, size := protowire.ConsumeTag(message)
		if size < 0 {
			return
		}
		message = message[size:]
		value := protowire.ConsumeFieldValue(n, kind, message)
		if value < 0 {
			return
		}
		switch kind {
		case protowire.VarintType:
			number, _ := protowire.ConsumeVarint(message)
			do(n, number, nil)
		case protowire.BytesType:
			data, _ := protowire.ConsumeBytes(message)
			do(n, 0, data)
		}
		message = message[value:]
	}
}
