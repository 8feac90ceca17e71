package cli

import (
	"fmt"
	"io"

	"stoa/internal/base/extract"
)

// extractCommand is the argument with which the service starts itself to read a document. It
// is not a command for people, so it is not in the help.
const extractCommand = "extract"

// extractDocument reads one document from in and writes its text to out; see
// [extract.Child].
func extractDocument(in io.Reader, out, errOut io.Writer) int {
	if err := extract.Child(in, out); err != nil {
		fmt.Fprintln(errOut, err)
		return exitFailed
	}
	return exitDone
}
