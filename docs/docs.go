// Package docs carries the guides of this directory, which the program serves
// at /docs.
package docs

import "embed"

// Guides are the pages of this directory, as Markdown. The decision notes are
// for those who change the code and are not among them.
//
//go:embed *.md
var Guides embed.FS
