package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Extensions are optional features beyond version 1 of the API. All are off by default, so that the
// service answers exactly as version 1 says. The contract marks their parts with x-extension and these names.
type Extensions struct {
	Models      bool `yaml:"models"`      // GET /models, for clients that list models
	InputTokens bool `yaml:"inputTokens"` // POST /responses/input_tokens, which counts tokens
	Compact     bool `yaml:"compact"`     // POST /responses/compact, which summarizes a conversation
	V1Alias     bool `yaml:"v1Alias"`     // /v1/… answers as /api/v1/…
	Tools       bool `yaml:"tools"`       // function tools in POST /responses
	Formats     bool `yaml:"formats"`     // text.format json_object and json_schema
	Images      bool `yaml:"images"`      // images in POST /responses
	Files       bool `yaml:"files"`       // PDF and text files in POST /responses

	ChatCompletions bool `yaml:"chatCompletions"` // POST /chat/completions
	Messages        bool `yaml:"messages"`        // POST /messages
	Gemini          bool `yaml:"gemini"`          // POST /models/{model}:generateContent and its siblings
}

// ExtensionOptions are settings of extensions. They have no effect while the extension is off.
type ExtensionOptions struct {
	Tools   ToolsOptions   `yaml:"tools"`
	Formats FormatsOptions `yaml:"formats"`
	Images  ImagesOptions  `yaml:"images"`
	Files   FilesOptions   `yaml:"files"`

	ChatCompletions ChatCompletionsOptions `yaml:"chatCompletions"`
}

// ChatCompletionsOptions are settings of the extension chatCompletions.
type ChatCompletionsOptions struct {
	// NoCredits is the status of a call that credits or a budget do not cover: 429, as OpenAI sends
	// it, or 402, because some clients repeat every 429 for ever.
	NoCredits int `yaml:"noCredits" env:"STOA_CHAT_NO_CREDITS"`
}

// ImagesOptions are settings of the extension images.
type ImagesOptions struct {
	// URL selects the handling of an image's address: pass (the vendor fetches it), fetch
	// (Stoa fetches it) or refuse.
	URL string `yaml:"url" env:"STOA_IMAGES_URL"`
}

// FilesOptions are settings of the extension files.
type FilesOptions struct {
	// URL is like that of [ImagesOptions].
	URL string `yaml:"url" env:"STOA_FILES_URL"`
}

// ToolsOptions are settings of the extension tools.
type ToolsOptions struct {
	// Forced selects the handling of a tool_choice that forces a call, for a model that cannot be
	// forced: refuse, or auto, which lets the model decide.
	Forced string `yaml:"forced" env:"STOA_TOOLS_FORCED"`
	// Foreign selects the handling of tools that the caller does not execute: ignore or refuse.
	Foreign string `yaml:"foreign" env:"STOA_TOOLS_FOREIGN"`
}

// FormatsOptions are settings of the extension formats.
type FormatsOptions struct {
	// BestEffort asks a model for JSON in words if its vendor does not support the format.
	BestEffort bool `yaml:"bestEffort" env:"STOA_FORMATS_BEST_EFFORT"`
}

// Names returns the names of the enabled extensions, in a fixed order.
func (e Extensions) Names() []string {
	var names []string
	v := reflect.ValueOf(e)
	for i := range v.NumField() {
		if v.Field(i).Bool() {
			names = append(names, yamlName(v.Type().Field(i)))
		}
	}
	return names
}

// AllExtensions returns the extensions with all of them enabled.
func AllExtensions() Extensions {
	var all Extensions
	v := reflect.ValueOf(&all).Elem()
	for i := range v.NumField() {
		v.Field(i).SetBool(true)
	}
	return all
}

// parseExtensions parses names separated by commas: models,v1Alias. "all" enables every
// extension, "none" disables those of the file.
func parseExtensions(text string) (Extensions, error) {
	switch text {
	case "all":
		return AllExtensions(), nil
	case "none":
		return Extensions{}, nil
	}
	var e Extensions
	v := reflect.ValueOf(&e).Elem()
	known := AllExtensions().Names()
	for name := range strings.SplitSeq(text, ",") {
		name = strings.TrimSpace(name)
		i := slices.Index(known, name)
		if i < 0 {
			return Extensions{}, fmt.Errorf("there is no extension %q%s", name, didYouMean(name, append(slices.Clone(known), "all", "none")))
		}
		v.Field(i).SetBool(true)
	}
	return e, nil
}
