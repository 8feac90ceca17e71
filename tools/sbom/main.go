// Command sbom writes the bill of materials of a stoa binary to standard output,
// as CycloneDX 1.6 in JSON: the Go toolchain, the modules that the binary was
// linked from, and the third-party sources of the pages. The same binary gives
// the same bytes. It fails on a part whose licence it does not recognise.
//
// It runs in the module of the tools; -root is the directory of the product's.
package main

import (
	"bytes"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

type bom struct {
	Format       string      `json:"bomFormat"`
	SpecVersion  string      `json:"specVersion"`
	Version      int         `json:"version"`
	Metadata     metadata    `json:"metadata"`
	Components   []component `json:"components"`
	Dependencies []relation  `json:"dependencies"`
}

type metadata struct {
	Component component `json:"component"`
}

type component struct {
	Type       string     `json:"type"`
	Ref        string     `json:"bom-ref"`
	Name       string     `json:"name"`
	Version    string     `json:"version"`
	Licenses   []license  `json:"licenses,omitempty"`
	PURL       string     `json:"purl"`
	Properties []property `json:"properties,omitempty"`
}

type license struct {
	Expression string `json:"expression"`
}

type property struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

type relation struct {
	Ref       string   `json:"ref"`
	DependsOn []string `json:"dependsOn"`
}

// newComponent returns a component that is named by its package URL.
func newComponent(kind, name, version, purl, expression string) component {
	return component{Type: kind, Ref: purl, Name: name, Version: version, PURL: purl, Licenses: []license{{expression}}}
}

func main() {
	log.SetFlags(0)
	root := flag.String("root", "..", "`directory` of the product")
	flag.Parse()
	if flag.NArg() != 1 {
		log.Fatal("usage: sbom [-root DIRECTORY] BINARY")
	}
	if err := write(os.Stdout, *root, flag.Arg(0)); err != nil {
		log.Fatal("sbom: ", err)
	}
}

func write(out io.Writer, root, binary string) error {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return err
	}
	product := newComponent("application", "stoa", info.Main.Version, "pkg:golang/stoa@"+info.Main.Version, "Apache-2.0")
	toolchain := strings.TrimPrefix(info.GoVersion, "go")
	parts := []component{newComponent("library", "stdlib", toolchain, "pkg:golang/stdlib@"+toolchain, "BSD-3-Clause")}
	for _, m := range info.Deps {
		if m.Replace != nil {
			return fmt.Errorf("module %s is replaced; a bill of materials cannot name it", m.Path)
		}
		c, err := goModule(root, m.Path, m.Version)
		if err != nil {
			return err
		}
		c.Properties = []property{{"go:sum", m.Sum}}
		parts = append(parts, c)
	}
	pages, err := pageParts(root)
	if err != nil {
		return err
	}
	parts = append(parts, pages...)
	slices.SortFunc(parts, func(a, b component) int { return strings.Compare(a.Ref, b.Ref) })
	all := bom{Format: "CycloneDX", SpecVersion: "1.6", Version: 1, Metadata: metadata{product}, Components: parts}
	direct := relation{Ref: product.Ref}
	for _, p := range parts {
		direct.DependsOn = append(direct.DependsOn, p.Ref)
	}
	all.Dependencies = []relation{direct}
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(all)
}

// goModule returns a module with the licence that lies in the module cache.
func goModule(root, path, version string) (component, error) {
	cmd := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", path)
	cmd.Dir = root
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	dir, err := cmd.Output()
	if err != nil {
		return component{}, fmt.Errorf("find module %s: %w\n%s", path, err, stderr.Bytes())
	}
	expression, err := licenceIn(strings.TrimSpace(string(dir)))
	if err != nil {
		return component{}, fmt.Errorf("module %s: %w", path, err)
	}
	return newComponent("library", path, version, "pkg:golang/"+path+"@"+version, expression), nil
}

// pageParts returns the npm packages that the bundles of the pages contain.
func pageParts(root string) ([]component, error) {
	text, err := os.ReadFile(filepath.Join(root, "internal", "faces", "web", "ui", "package-lock.json"))
	if err != nil {
		return nil, err
	}
	var lock struct {
		Packages map[string]struct {
			Version, License string
			Dev, Optional    bool
		}
	}
	if err := json.Unmarshal(text, &lock); err != nil {
		return nil, err
	}
	var out []component
	for path, p := range lock.Packages {
		name, isPackage := strings.CutPrefix(path, "node_modules/")
		if !isPackage || p.Dev || p.Optional {
			continue
		}
		if p.License == "" {
			return nil, fmt.Errorf("%s has no licence in package-lock.json", name)
		}
		out = append(out, npmPackage(name, p.Version, strings.Trim(p.License, "()")))
	}
	if len(out) < 4 {
		return nil, fmt.Errorf("package-lock.json has only %d parts of the pages", len(out))
	}
	return out, nil
}

func npmPackage(name, version, expression string) component {
	return newComponent("library", name, version, "pkg:npm/"+strings.Replace(name, "@", "%40", 1)+"@"+version, expression)
}

// licenceIn returns the SPDX expression of the licence files of a directory.
func licenceIn(dir string) (string, error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	var found []string
	for _, f := range files {
		name := strings.ToUpper(f.Name())
		if f.IsDir() || strings.HasPrefix(name, "LICENSE-LOGO") || !strings.HasPrefix(name, "LICENSE") && !strings.HasPrefix(name, "COPYING") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			return "", err
		}
		found = append(found, licencesOf(string(text))...)
	}
	if len(found) == 0 {
		return "", errors.New("no licence is recognised in " + dir)
	}
	slices.Sort(found)
	return strings.Join(slices.Compact(found), " AND "), nil
}

// licencesOf returns the licences whose characteristic sentence is in a text.
func licencesOf(text string) []string {
	text = strings.Join(strings.Fields(strings.NewReplacer("*", " ", "\"", " ", "“", " ", "”", " ").Replace(text)), " ")
	var out []string
	for _, known := range []struct{ id, sentence string }{
		{"Apache-2.0", `Apache License,? Version 2\.0`},
		{"MIT", `Permission is hereby granted, free of charge, to any person obtaining`},
		{"BSD-3-Clause", `Redistribution and use in source and binary forms.*(Neither the name|names? of .{1,80} (may|to) (not )?be used)`},
		{"BSD-2-Clause", `Redistribution and use in source and binary forms`},
		{"ISC", `Permission to use, copy, modify, and/or distribute`},
		{"blessing", `The author disclaims copyright to this source code`},
	} {
		if known.id == "BSD-2-Clause" && slices.Contains(out, "BSD-3-Clause") {
			continue
		}
		if regexp.MustCompile(`(?i)` + known.sentence).MatchString(text) {
			out = append(out, known.id)
		}
	}
	return out
}
