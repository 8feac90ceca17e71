// Package stoa is the vocabulary of the service: its nouns, the small pure
// rules that belong to them, its identifiers and its one error type.
//
// It never opens a socket, reads a clock for anyone else, or knows SQL, HTTP or
// a vendor's format; it imports the standard library alone. Start with [Call]
// and [Event] (one model call), [Credits] (its cost) and [Error] (how it fails).
package stoa
