package httptool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"stoa/internal/agents/remote"
	"stoa/internal/base/stoa"
)

// A Filter selects operations of a document. Each member that is not empty must match.
type Filter = stoa.OperationFilter

// selects reports whether an operation matches the tags and the words of a filter.
func selects(f *Filter, o found) bool {
	tags := tagsOf(o)
	if len(f.Tags) > 0 && !slices.ContainsFunc(f.Tags, func(tag string) bool { return slices.Contains(tags, tag) }) {
		return false
	}
	text := strings.ToLower(strings.Join(append(tags, o.method, o.path, texts(o.operation["operationId"]), texts(o.operation["summary"]), texts(o.operation["description"])), " "))
	for _, word := range strings.Fields(strings.ToLower(f.Search)) {
		if !strings.Contains(text, word) {
			return false
		}
	}
	return true
}

// Reduce returns a document in JSON with only the operations that a filter selects and what
// they reference. A filter without members selects all.
func Reduce(ctx context.Context, text string, f Filter) (string, error) {
	left := 10 * maxValues
	tree, err := parseDocument([]byte(text), &left)
	if err != nil {
		return "", err
	}
	d := document{ctx: ctx, root: tree, left: &left, filter: &f}
	all, err := d.selected()
	if err != nil {
		return "", err
	}
	out := map[string]any{}
	for name, v := range tree {
		if parts[name] == 0 {
			out[name] = v
		}
	}
	paths := map[string]any{}
	for _, o := range all {
		item, ok := paths[o.path].(map[string]any)
		if !ok {
			item = map[string]any{}
			for name, v := range o.item {
				if !slices.Contains(verbs, name) {
					item[name] = v
				}
			}
			paths[o.path] = item
		}
		item[strings.ToLower(o.method)] = o.operation
	}
	out["paths"] = paths
	d.keep(paths, out)
	reduced, err := json.Marshal(out)
	if err == nil && len(reduced) > MaxDocument {
		err = fmt.Errorf("the selected operations have more than %d MiB: select fewer by tag, path or search", MaxDocument>>20)
	}
	return string(reduced), err
}

// keep copies into a document what a value references, directly or not. References that lead
// nowhere are left as they are.
func (d *document) keep(v any, out map[string]any) {
	switch v := v.(type) {
	case map[string]any:
		if to, ok := v["$ref"].(string); ok && strings.HasPrefix(to, "#/") {
			steps := strings.Split(to[2:], "/")
			if n := parts[steps[0]]; n > 0 && len(steps) > n && steps[0] != "paths" {
				target, err := d.at("#/" + strings.Join(steps[:n+1], "/"))
				in := out
				for _, step := range steps[:n] {
					next, ok := in[step].(map[string]any)
					if !ok {
						next = map[string]any{}
						in[step] = next
					}
					in = next
				}
				name := steps[n]
				if plain, bad := url.PathUnescape(name); bad == nil {
					name = plain
				}
				name = strings.NewReplacer("~1", "/", "~0", "~").Replace(name)
				if _, kept := in[name]; err == nil && !kept {
					in[name] = target
					d.keep(target, out)
				}
			}
		}
		for _, member := range v {
			d.keep(member, out)
		}
	case []any:
		for _, member := range v {
			d.keep(member, out)
		}
	}
}

func tagsOf(o found) (tags []string) {
	list, _ := o.operation["tags"].([]any)
	for _, tag := range list {
		tags = append(tags, texts(tag))
	}
	return tags
}

// selected returns the operations that match the filter; all of them if there is no filter. Its error says that none
// match, or too many.
func (d *document) selected() ([]found, error) {
	all, err := d.operations()
	if err != nil {
		return nil, err
	}
	tags := map[string]bool{}
	var chosen []found
	for _, o := range all {
		for _, tag := range tagsOf(o) {
			tags[tag] = true
		}
		if d.filter == nil || selects(d.filter, o) {
			chosen = append(chosen, o)
		}
	}
	reason := "the filter selects no operation of the document"
	switch {
	case len(chosen) > remote.MaxTools:
		reason = fmt.Sprintf("the document has more than %d operations: %d of its %d are selected. Select those that agents need with a filter (tags, paths or search)", remote.MaxTools, len(chosen), len(all))
	case len(chosen) > 0 || d.filter == nil:
		return chosen, nil
	}
	if len(tags) == 0 {
		return nil, errors.New(reason)
	}
	list := slices.Sorted(maps.Keys(tags))
	return nil, fmt.Errorf("%s. Tags of it are: %s", reason, remote.Visible(remote.Cut(strings.Join(list[:min(len(list), 100)], ", "), 700)))
}
