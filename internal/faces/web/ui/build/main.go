// Command build bundles the sources below internal/faces/web/ui into internal/faces/web/static: the
// scripts, style sheets and fonts of the pages. It uses esbuild as a library, so that Node is not
// needed. Its output is reproducible, because a test compares it with the committed files.
// Before that it generates the types of the API's bodies, [typesFile], from the contract.
//
// It never downloads anything: "npm ci" in internal/faces/web/ui installs the libraries that
// it bundles, in the versions of the lock file. Start reading at [bundle].
package main

import (
	"bytes"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"github.com/evanw/esbuild/pkg/api"
)

// entries are the bundles: the source, from ui/, and the served name without its extension. The names need no digest,
// because the address of a file contains a digest of its content.
var entries = []api.EntryPoint{
	{InputPath: "css/stoa.css", OutputPath: "stoa"},
	{InputPath: "src/theme.ts", OutputPath: "theme"},
	{InputPath: "src/reference.ts", OutputPath: "reference"},
	{InputPath: "src/console/main.tsx", OutputPath: "console"},
	{InputPath: "src/console/join.tsx", OutputPath: "join"},
	{InputPath: "css/embed.css", OutputPath: "embed"},
	{InputPath: "src/embed/main.tsx", OutputPath: "embed"},
	{InputPath: "src/embed/launcher.ts", OutputPath: "launcher"},
}

// typesFile is the path of the API's types, below ui/.
const typesFile = "src/lib/contract.ts"

// bundle builds all entries in memory. The keys of the result are file names.
func bundle(ui string) (map[string][]byte, error) {
	ui, err := filepath.Abs(ui)
	if err != nil {
		return nil, err
	}
	result := api.Build(api.BuildOptions{
		AbsWorkingDir:       ui,
		EntryPointsAdvanced: entries,
		Outdir:              filepath.Join(ui, "out"), // nothing is written there, because only the names are used
		Bundle:              true,
		Format:              api.FormatIIFE,
		Platform:            api.PlatformBrowser,
		Target:              api.ES2022,
		Engines: []api.Engine{
			{Name: api.EngineChrome, Version: "123"}, {Name: api.EngineFirefox, Version: "121"}, {Name: api.EngineSafari, Version: "17.5"},
		},
		MinifyWhitespace:  true,
		MinifyIdentifiers: true,
		MinifySyntax:      true,
		Charset:           api.CharsetUTF8,
		Loader:            map[string]api.Loader{".woff2": api.LoaderFile},
		AssetNames:        "[name]-[hash]",
		LegalComments:     api.LegalCommentsEndOfFile,
		JSX:               api.JSXAutomatic,
		JSXImportSource:   "preact",
		Define:            map[string]string{"process.env.NODE_ENV": `"production"`},
		TsconfigRaw:       `{"compilerOptions":{"jsx":"react-jsx","jsxImportSource":"preact","target":"ES2022"}}`,
		LogLevel:          api.LogLevelSilent,
	})
	if len(result.Errors) > 0 {
		said := api.FormatMessages(result.Errors, api.FormatMessagesOptions{Kind: api.ErrorMessage})
		sort.Strings(said)
		return nil, fmt.Errorf("bundle the pages:\n%s", strings.Join(said, ""))
	}
	files := map[string][]byte{}
	for _, f := range result.OutputFiles {
		files[filepath.Base(f.Path)] = f.Contents
	}
	if files["licenses.txt"], err = licenses(ui); err != nil {
		return nil, err
	}
	return files, nil
}

// isFont reports whether a file is a font. The names of fonts contain a digest of their content, so that styles can refer
// to them.
func isFont(name string) bool { return filepath.Ext(name) == ".woff2" }

// licenses joins the licences of everything in the bundles. The program serves them, because they must accompany
// every copy.
func licenses(ui string) ([]byte, error) {
	var out bytes.Buffer
	for _, part := range []struct{ name, file string }{
		{"Preact", "node_modules/preact/LICENSE"},
		{"marked", "node_modules/marked/LICENSE"},
		{"DOMPurify", "node_modules/dompurify/LICENSE"},
		{"@fontsource-variable/inter", "node_modules/@fontsource-variable/inter/LICENSE"},
	} {
		text, err := os.ReadFile(filepath.Join(ui, part.file))
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&out, "%s\n%s\n\n%s\n\n", part.name, strings.Repeat("=", len(part.name)), bytes.TrimSpace(text))
	}
	return out.Bytes(), nil
}

// run generates the types, bundles and writes the files. go generate starts it in internal/faces/web.
func run() error {
	api, err := types()
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join("ui", typesFile), api, 0o644); err != nil {
		return err
	}
	if _, err := os.Stat("ui/node_modules"); err != nil {
		return errors.New("the libraries of the pages are not installed: run npm ci in internal/faces/web/ui")
	}
	files, err := bundle("ui")
	if err != nil {
		return err
	}
	old, err := os.ReadDir("static")
	if err != nil {
		return err
	}
	for _, e := range old {
		if isFont(e.Name()) && files[e.Name()] == nil {
			if err := os.Remove(filepath.Join("static", e.Name())); err != nil {
				return err
			}
		}
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join("static", name), content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

func main() {
	log.SetFlags(0)
	if err := run(); err != nil {
		log.Panic(err)
	}
}
