package cli

// extractCommand is the argument with which the service starts itself to read a document. It
// is not a command for people, so it is not in the help.
const extractCommand = "extract"
