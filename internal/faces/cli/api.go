package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"stoa/internal/base/client"
	"stoa/internal/base/jsonx"
)

func (e *env) api() *cobra.Command {
	c := &cobra.Command{
		Use: "api [METHOD] PATH", Short: "Call any operation of the API", Args: takes("METHOD|PATH", "[PATH]"),
		Long: `Call any operation of the API with the current key and print the reply: JSON, a file, or a stream as it
arrives. The method is GET, or POST if there are fields. The prefix /api/v1 of the path is optional.

Fields: -f NAME=VALUE is text; -F NAME=VALUE is true, false, null or a number if it looks like one, and the
content of a file after @. a[b]=1 creates a nested object, a[]=1 appends to a list. Fields form the JSON body;
for GET, HEAD and DELETE they form the query. --input sends a file unchanged.

An error reply is also printed, and the exit code is 1 (4 for an invalid key).`,
		Example: "  stoa api users/me --jq .plan.id\n  stoa api POST responses -f model=auto -f input=Hello -F stream=true\n  stoa api GET receipts -f limit=100 --jq '[.data[].creditsMicro] | add'\n  stoa api PATCH keys/key_01k9… --input change.json",
	}
	f := c.Flags()
	texts := f.StringArrayP("raw-field", "f", nil, "a text field, `name=value`; repeatable")
	typed := f.StringArrayP("field", "F", nil, "a field with a type, `name=value`; repeatable")
	headers := f.StringArrayP("header", "H", nil, "a `header`, such as 'Accept: text/csv'; repeatable")
	input := f.String("input", "", "`file` to send as the body; - is standard input")
	include := f.Bool("include", false, "also print the status and the headers")
	expr := f.String("jq", "", "print the result of a jq `expression`")
	all := f.Bool("paginate", false, "follow the cursors of a list and print its rows as one array")
	c.RunE = func(c *cobra.Command, args []string) error {
		o := &output{e: e, expr: *expr}
		if err := o.check(); err != nil {
			return err
		}
		r, err := e.apiRequest(args, *texts, *typed, *headers, *input)
		if err != nil {
			return err
		}
		call, err := e.client()
		if err != nil {
			return err
		}
		if *all {
			if r.Method != http.MethodGet {
				return usagef("--paginate requires GET")
			}
			o.json = true
			return o.list(view{}, call.All(c.Context(), r.Path, r.Query, 0), 0, "")
		}
		return e.apiCall(c.Context(), call, r, o, *include)
	}
	return c
}

func (e *env) apiCall(ctx context.Context, call *client.Client, r client.Request, o *output, include bool) error {
	res, err := call.Do(ctx, r)
	if refused, ok := errors.AsType[*client.Error](err); ok {
		if include {
			fmt.Fprintf(e.out, "%d %s\n\n", refused.Status, http.StatusText(refused.Status))
		}
		if jsonx.Valid(refused.Body) {
			if failed := (&output{e: e}).printJSON(refused.Body); failed != nil {
				return failed
			}
		}
		return err
	}
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if include {
		fmt.Fprintf(e.out, "%s %s\n", res.Proto, res.Status)
		if err := res.Header.Write(e.out); err != nil {
			return err
		}
		fmt.Fprintln(e.out)
	}
	if isJSON := strings.HasPrefix(res.Header.Get("Content-Type"), "application/json"); !isJSON || o.expr == "" && !isTerminal(e.out) {
		if o.expr != "" {
			return fmt.Errorf("--jq requires JSON, but the reply is %s", res.Header.Get("Content-Type"))
		}
		return e.copyBody(ctx, res)
	}
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return fmt.Errorf("read the reply: %w", err)
	}
	return o.printJSON(body)
}

// copyBody copies a reply to standard output as it arrives. To a terminal it copies only text, without control
// characters, because the terminal would execute them.
func (e *env) copyBody(ctx context.Context, res *http.Response) error {
	out := e.out
	media := res.Header.Get("Content-Type")
	if isTerminal(e.out) {
		if !strings.HasPrefix(media, "text/") && !strings.Contains(media, "json") {
			return fmt.Errorf("the reply is %s, which a terminal cannot show; redirect it to a file", media)
		}
		out = cleaner{e.out}
	}
	n, err := io.Copy(out, res.Body)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err == nil && n > 0 && strings.Contains(media, "json") && !strings.Contains(media, "jsonl") && !isTerminal(e.out) {
		_, err = io.WriteString(e.out, "\n")
	}
	return err
}

// A cleaner is a writer to a terminal that drops control characters.
type cleaner struct{ out io.Writer }

func (c cleaner) Write(b []byte) (int, error) {
	_, err := io.WriteString(c.out, clean(string(b)))
	return len(b), err
}

func (e *env) copyOut(ctx context.Context, call *client.Client, path string, query url.Values) error {
	res, err := call.Do(ctx, client.Request{Path: path, Query: query})
	if err != nil {
		return err
	}
	defer res.Body.Close()
	return e.copyBody(ctx, res)
}

func (e *env) apiRequest(args, texts, typed, headers []string, input string) (client.Request, error) {
	r := client.Request{Header: http.Header{}}
	fields := len(texts)+len(typed) > 0
	path := args[len(args)-1]
	switch {
	case len(args) == 2:
		r.Method = strings.ToUpper(args[0])
		if !slices.Contains([]string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"}, r.Method) {
			return r, usagef("%q is not a method; the form is \"stoa api [METHOD] PATH\"", args[0])
		}
	case fields || input != "":
		r.Method = http.MethodPost
	default:
		r.Method = http.MethodGet
	}
	if strings.Contains(path, "://") {
		return r, usagef("PATH is a path of the API such as users/me, not an address")
	}
	u, err := url.Parse(path)
	if err != nil {
		return r, usagef("%q is not a path: %w", path, err)
	}
	r.Path, r.Query = u.EscapedPath(), u.Query()
	for _, h := range headers {
		name, value, ok := strings.Cut(h, ":")
		if !ok || strings.TrimSpace(name) == "" {
			return r, usagef("-H requires NAME: VALUE, not %q", h)
		}
		r.Header.Add(strings.TrimSpace(name), strings.TrimSpace(value))
	}
	if strings.TrimPrefix("/"+strings.Trim(r.Path, "/"), client.Prefix) == "/responses" {
		r.Once = r.Header.Get("Idempotency-Key") == "" // because the service would store the reply
	}
	if input != "" {
		if fields {
			return r, usagef("--input is the whole body; it cannot be combined with fields")
		}
		text, err := e.textOf("@" + input)
		if err != nil {
			return r, err
		}
		r.Body = []byte(text)
		return r, nil
	}
	if !fields {
		return r, nil
	}
	body, err := e.fields(texts, typed)
	if err != nil {
		return r, err
	}
	if r.Method == http.MethodGet || r.Method == http.MethodHead || r.Method == http.MethodDelete {
		for name, value := range body {
			r.Query.Set(name, fmt.Sprint(value))
		}
		return r, nil
	}
	r.Body, err = jsonx.Marshal(body)
	return r, err
}

// fields builds a JSON object from the values of -f and -F.
func (e *env) fields(texts, typed []string) (map[string]any, error) {
	body := map[string]any{}
	add := func(pair string, read func(string) (any, error)) error {
		name, value, ok := strings.Cut(pair, "=")
		if !ok || name == "" {
			return usagef("a field must be NAME=VALUE, not %q", pair)
		}
		v, err := read(value)
		if err != nil {
			return err
		}
		return put(body, name, v)
	}
	for _, pair := range texts {
		if err := add(pair, func(s string) (any, error) { return s, nil }); err != nil {
			return nil, err
		}
	}
	for _, pair := range typed {
		if err := add(pair, e.typed); err != nil {
			return nil, err
		}
	}
	return body, nil
}

// typed converts a value of -F: true, false, null and numbers are JSON, @FILE
// is the content of a file, and anything else is text.
func (e *env) typed(text string) (any, error) {
	switch text {
	case "true":
		return true, nil
	case "false":
		return false, nil
	case "null":
		return nil, nil
	}
	if strings.HasPrefix(text, "@") {
		return e.textOf(text)
	}
	if text != "" && strings.Trim(text, "0123456789.-+eE") == "" && jsonx.Valid([]byte(text)) {
		return jsonx.Value(text), nil
	}
	return text, nil
}

// put sets the member that name denotes: a, a[b][c], or a[] to append.
func put(object map[string]any, name string, value any) error {
	head, rest, nested := strings.Cut(name, "[")
	if !nested {
		object[name] = value
		return nil
	}
	inner, after, ok := strings.Cut(rest, "]")
	if !ok || head == "" {
		return usagef("%q is not a field name; write a[b] or a[]", name)
	}
	if inner == "" {
		if after != "" {
			return usagef("%q is not a field name: [] must be last", name)
		}
		have, _ := object[head].([]any)
		object[head] = append(have, value)
		return nil
	}
	below, ok := object[head].(map[string]any)
	if !ok {
		below = map[string]any{}
		object[head] = below
	}
	return put(below, inner+after, value)
}

func readFile(name string) (*os.File, int64, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, 0, err
	}
	return f, info.Size(), nil
}
