package stoa

import "strings"

// IsGemini reports whether a path is one of Gemini's API.
func IsGemini(path string) bool {
	_, method, _ := strings.Cut(path[strings.LastIndexByte(path, '/')+1:], ":")
	return method == "generateContent" || method == "streamGenerateContent" || method == "countTokens"
}
