package telemetry

import (
	"go.opentelemetry.io/otel/attribute"

	"stoa/internal/base/stoa"
)

// conventions is the version of OpenTelemetry's semantic conventions that spans and metrics follow. Names
// change only with this version, because the conventions for generative AI have since moved to a repository
// without a release, which calls cache_creation cache_write.
const conventions = "1.41.0"

// usage returns the attributes of a usage. The input includes cache reads and writes, because the conventions
// require it.
func usage(u stoa.Usage) []attribute.KeyValue {
	return []attribute.KeyValue{
		attribute.Int64("gen_ai.usage.input_tokens", u.InputTokens), attribute.Int64("gen_ai.usage.output_tokens", u.OutputTokens),
		attribute.Int64("gen_ai.usage.cache_read.input_tokens", u.CachedTokens), attribute.Int64("gen_ai.usage.cache_creation.input_tokens", u.CacheWriteTokens),
	}
}
