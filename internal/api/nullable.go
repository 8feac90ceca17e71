package api

import (
	"time"

	"github.com/oapi-codegen/nullable"

	"stoa/internal/contract"
)

// unlessZero is null for zero, which stands for "none" or "unknown" below.
func unlessZero[T comparable](v T) nullable.Nullable[T] {
	var zero T
	if v == zero {
		return nullable.NewNullNullable[T]()
	}
	return nullable.NewNullableWithValue(v)
}

// unlessNever is null for the zero time.
func unlessNever(t time.Time) nullable.Nullable[contract.Time] {
	if t.IsZero() {
		return nullable.NewNullNullable[contract.Time]()
	}
	return nullable.NewNullableWithValue(contract.Time(t))
}

// orZero is the value of an optional member; zero where it is absent or null.
func orZero[T any](n nullable.Nullable[T]) T {
	v, err := n.Get()
	if err != nil {
		var zero T
		return zero
	}
	return v
}

// patch changes what a PATCH names: a value sets it, null clears it, absence
// leaves it.
func patch[T, U any](into *U, n nullable.Nullable[T], convert func(T) U) {
	if n.IsSpecified() {
		var zero U
		*into = zero
		if v, err := n.Get(); err == nil {
			*into = convert(v)
		}
	}
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}
