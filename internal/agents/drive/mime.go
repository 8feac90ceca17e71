package drive

import (
	"mime"
	"net/http"
	"strings"

	"stoa/internal/base/extract"
	"stoa/internal/base/stoa"
)

const maxMime = 255

// byEnding returns the media type for the extension of a name, "" if unknown. It does not use the
// tables of the system, so that a file has the same type on every machine.
func byEnding(name string) string {
	i := strings.LastIndexByte(name, '.')
	if i < 0 {
		return ""
	}
	if t := extract.TypeOf(name); t != "" {
		return t
	}
	switch strings.ToLower(name[i+1:]) {
	case "txt", "text", "log", "ini", "conf", "cfg", "env", "properties":
		return "text/plain"
	case "md", "markdown":
		return "text/markdown"
	case "css":
		return "text/css"
	case "csv":
		return "text/csv"
	case "tsv":
		return "text/tab-separated-values"
	case "yaml", "yml":
		return "application/yaml"
	case "toml":
		return "application/toml"
	case "xml":
		return "application/xml"
	case "svg":
		return "image/svg+xml"
	case "js", "mjs", "cjs":
		return "text/javascript"
	case "ts", "tsx", "jsx", "go", "py", "rb", "rs", "java", "kt", "swift", "c", "h", "cc", "cpp", "hpp", "cs",
		"php", "pl", "lua", "r", "scala", "sh", "bash", "zsh", "ps1", "bat", "rst", "adoc", "org", "tex", "diff", "patch":
		return "text/plain"
	case "sql":
		return "application/sql"
	case "ics":
		return "text/calendar"
	case "vcf":
		return "text/vcard"
	case "rtf":
		return "application/rtf"
	case "pdf":
		return "application/pdf"
	case "png":
		return "image/png"
	case "jpg", "jpeg":
		return "image/jpeg"
	case "gif":
		return "image/gif"
	case "webp":
		return "image/webp"
	case "avif":
		return "image/avif"
	case "ico":
		return "image/x-icon"
	case "mp3":
		return "audio/mpeg"
	case "wav":
		return "audio/wav"
	case "ogg":
		return "audio/ogg"
	case "mp4":
		return "video/mp4"
	case "webm":
		return "video/webm"
	case "zip":
		return "application/zip"
	case "gz":
		return "application/gzip"
	case "tar":
		return "application/x-tar"
	}
	return ""
}

// guess returns the media type of content that was sent without one.
func guess(p Path, c *Content) string {
	if t := byEnding(p.Base()); t != "" {
		return t
	}
	if c.utf8 {
		return "text/plain"
	}
	// The first bytes can look like text, but a text type must not name content that is not text.
	if t := http.DetectContentType(c.Head()); !isTextType(t) {
		return t
	}
	return "application/octet-stream"
}

// ParseMime checks the media type of a caller and returns it in canonical form. Empty stays
// empty, so that the type is guessed.
func ParseMime(text string) (string, error) {
	if text == "" {
		return "", nil
	}
	t, params, err := mime.ParseMediaType(text)
	if err == nil && strings.Count(t, "/") == 1 {
		if t = mime.FormatMediaType(t, params); t != "" && len(t) <= maxMime {
			return t, nil
		}
	}
	return "", stoa.Errorf(stoa.CodeInvalidValue, "mimeType is not a media type such as text/markdown.").At("mimeType")
}

func isTextType(t string) bool {
	t, _, _ = strings.Cut(t, ";")
	t = strings.ToLower(strings.TrimSpace(t))
	if strings.HasPrefix(t, "text/") || strings.HasSuffix(t, "+json") || strings.HasSuffix(t, "+xml") || strings.HasSuffix(t, "+yaml") {
		return true
	}
	switch t {
	case "application/json", "application/x-ndjson", "application/ndjson", "application/jsonl", "application/json-seq", "application/json5",
		"application/xml", "application/yaml", "application/x-yaml", "application/toml", "application/x-toml",
		"application/javascript", "application/x-javascript", "application/ecmascript", "application/typescript", "application/x-typescript",
		"application/sql", "application/x-sh", "application/x-httpd-php", "application/x-python", "application/x-tex", "application/x-latex",
		"application/graphql", "application/rtf", "application/x-subrip", "application/csv", "message/rfc822":
		return true
	}
	return false
}
