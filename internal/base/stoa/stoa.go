// Package stoa is the vocabulary of the service: its domain types, their small pure rules,
// its identifiers and its one error type.
//
// It never opens a socket or reads a clock for other packages, and is independent of SQL,
// HTTP and vendors' formats; it imports only the standard library. Start with [Call] and
// [Event] (one model call), [Credits] (its cost) and [Error] (its failure).
package stoa
