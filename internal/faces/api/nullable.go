package api

import (
	"time"

	"github.com/oapi-codegen/nullable"

	"stoa/internal/base/contract"
)

// nullIfZero returns null for zero, because that means "none" or "unknown" in the packages below.
func nullIfZero[T comparable](v T) nullable.Nullable[T] {
	var zero T
	if v == zero {
		return nullable.NewNullNullable[T]()
	}
	return nullable.NewNullableWithValue(v)
}

func nullIfNever(t time.Time) nullable.Nullable[contract.Time] {
	if t.IsZero() {
		return nullable.NewNullNullable[contract.Time]()
	}
	return nullable.NewNullableWithValue(contract.Time(t))
}

func orZero[T any](n nullable.Nullable[T]) T {
	v, err := n.Get()
	if err != nil {
		var zero T
		return zero
	}
	return v
}

// patch applies a member of a PATCH: a value sets it, null clears it, an absent member
// does not change it.
func patch[T, U any](into *U, n nullable.Nullable[T], convert func(T) U) {
	var zero U
	patchOr(into, n, zero, convert)
}

// patchOr is like patch for a member of which null means another value than zero.
func patchOr[T, U any](into *U, n nullable.Nullable[T], other U, convert func(T) U) {
	if !n.IsSpecified() {
		return
	}
	*into = other
	if v, err := n.Get(); err == nil {
		*into = convert(v)
	}
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}
