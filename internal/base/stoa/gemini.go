package stoa

import "strings"

// IsGemini reports whether a path is one of Gemini's API.
func IsGemini(path string) bool {
	_, method, _ := strings.Cut(path[strings.LastIndexByte(path, '/')+1:], ":")
	return method == "generateContent" || method == "streamGenerateContent" || method == "countTokens"
}

// NoGemini returns the error for a path of Gemini's API.
func NoGemini() *Error {
	return Errorf(CodeNotFound, "Gemini's format is not offered. Use a client of the Responses API (POST /api/v1/responses), of chat completions or of Messages.")
}
