package cli

// extractCommand is the argument with which the service starts itself to read a document. It is not in the help, because
// it is not a command for people.
const extractCommand = "extract"
