package contract_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"

	"stoa/internal/base/contract"
	"stoa/internal/base/stoa"
)

func TestTheDocumentIsValidOpenAPI(t *testing.T) {
	t.Parallel()
	doc, err := contract.Load()
	if err != nil {
		t.Fatal(err)
	}
	if err := doc.Validate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !bytes.HasPrefix(contract.JSON(), []byte(`{"openapi":"3.0.3"`)) {
		t.Errorf("the JSON begins with %.60s; it should keep the order of the text", contract.JSON())
	}
	if !json.Valid(contract.JSON()) {
		t.Error("the JSON form is not JSON")
	}
}

func TestEveryOperationIsDescribed(t *testing.T) {
	t.Parallel()
	doc, err := contract.Load()
	if err != nil {
		t.Fatal(err)
	}
	tags := map[string]bool{}
	for _, tag := range doc.Tags {
		tags[tag.Name] = true
	}
	seen := map[string]bool{}
	for path, item := range doc.Paths.Map() {
		if !strings.HasPrefix(path, "/api/v1/") {
			t.Errorf("%s is outside of /api/v1", path)
		}
		for method, op := range item.Operations() {
			name := method + " " + path
			if op.OperationID == "" || seen[op.OperationID] {
				t.Errorf("%s: the operation id %q is empty or used twice", name, op.OperationID)
			}
			seen[op.OperationID] = true
			if op.Summary == "" || op.Description == "" || len(op.Tags) != 1 || !tags[op.Tags[0]] {
				t.Errorf("%s needs a summary, a description and one of the document's tags", name)
			}
			for status, ref := range op.Responses.Map() {
				if ref.Value.Headers["x-request-id"] == nil {
					t.Errorf("%s: %s does not show x-request-id", name, status)
				}
			}
			if op.RequestBody != nil {
				for _, status := range []int{400, 413, 415} {
					if op.Responses.Status(status) == nil {
						t.Errorf("%s takes a body and does not document %d", name, status)
					}
				}
			}
			if op.Security == nil {
				overloaded := 503
				if op.Extensions["x-error-form"] == "messages" {
					overloaded = contract.StatusOverloaded
				}
				for _, status := range []int{401, 403, 429, 500, overloaded} {
					if op.Responses.Status(status) == nil {
						t.Errorf("%s needs a key and does not document %d", name, status)
					}
				}
			}
		}
	}
}

// vocabularyCodes reads the constants of type Code from the vocabulary's source.
func vocabularyCodes(t *testing.T) []stoa.Code {
	t.Helper()
	src, err := os.ReadFile(filepath.Join("..", "stoa", "error.go"))
	if err != nil {
		t.Fatal(err)
	}
	file, err := parser.ParseFile(token.NewFileSet(), "error.go", src, 0)
	if err != nil {
		t.Fatal(err)
	}
	var codes []stoa.Code
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok && len(spec.Values) == 1 {
			if typ, ok := spec.Type.(*ast.Ident); ok && typ.Name == "Code" {
				text, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
				if err != nil {
					t.Fatal(err)
				}
				codes = append(codes, stoa.Code(text))
			}
		}
		return true
	})
	slices.Sort(codes)
	return codes
}

func TestEveryCodeIsInTheTable(t *testing.T) {
	t.Parallel()
	var table []stoa.Code
	for _, c := range contract.Codes() {
		table = append(table, c.Code)
		if contract.Code(c.Code) != c {
			t.Errorf("Code(%q) does not find its entry", c.Code)
		}
	}
	slices.Sort(table)
	if diff := cmp.Diff(vocabularyCodes(t), table); diff != "" {
		t.Errorf("vocabulary and table differ (-vocabulary +table):\n%s", diff)
	}
	if got := contract.Code("never_heard_of").Code; got != stoa.CodeInternal {
		t.Errorf("an unknown code is published as %q, want %q", got, stoa.CodeInternal)
	}
}

func TestTheDocumentAndTheTableOfCodesAgree(t *testing.T) {
	t.Parallel()
	doc, err := contract.Load()
	if err != nil {
		t.Fatal(err)
	}
	type row struct {
		Code    stoa.Code
		Status  int
		Meaning string
	}
	var want, got []row
	for _, c := range contract.Codes() {
		want = append(want, row{c.Code, c.Status, c.Meaning})
	}
	text := doc.Components.Schemas["Error"].Value.Properties["code"].Value.Description
	for _, m := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\| (\\d+) \\| (.*) \\|$").FindAllStringSubmatch(text, -1) {
		status, _ := strconv.Atoi(m[2])
		got = append(got, row{stoa.Code(m[1]), status, m[3]})
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the table in the document differs (-codes.go +openapi.yaml):\n%s", diff)
	}

	types := doc.Components.Schemas["Error"].Value.Properties["type"].Value.Extensions["x-extensible-enum"].([]any)
	for _, c := range contract.Codes() {
		if !slices.Contains(types, any(c.Type)) {
			t.Errorf("the type %q of %q is not in the document", c.Type, c.Code)
		}
	}
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			for status, ref := range op.Responses.Map() {
				n, _ := strconv.Atoi(status)
				if n < 400 || path == "/api/v1/health" {
					continue
				}
				codes, _ := ref.Value.Extensions["x-codes"].([]any)
				if len(codes) == 0 {
					t.Errorf("%s %s: %s lists no codes", method, path, status)
				}
				for _, code := range codes {
					c := contract.Code(stoa.Code(code.(string)))
					want := c.Status
					if op.Extensions["x-error-form"] == "messages" {
						want, _ = c.MessagesForm()
					} else if op.Extensions["x-error-form"] == "gemini" {
						want, _ = c.GeminiForm()
					}
					if n == 402 && c.Type == contract.TypeQuota { // of chat completions, as the operator says
						want = n
					}
					if string(c.Code) != code || want != n {
						t.Errorf("%s %s: %s lists %q, whose status is %d", method, path, status, code, want)
					}
					if c.MayCarryRetryAfter() && c.RetryAfter > 0 && ref.Value.Headers["Retry-After"] == nil {
						t.Errorf("%s %s: %s may carry Retry-After for %q and does not show it", method, path, status, code)
					}
				}
				if ref.Value.Headers["x-should-retry"] == nil {
					t.Errorf("%s %s: %s does not show x-should-retry", method, path, status)
				}
			}
		}
	}
}

func TestExamplesFitTheirSchemas(t *testing.T) {
	t.Parallel()
	// Validate also checks the examples; this keeps it from being switched off.
	doc, err := contract.Load()
	if err != nil {
		t.Fatal(err)
	}
	post := doc.Paths.Value("/api/v1/responses").Post
	post.Responses.Status(200).Value.Content["application/json"].Example = map[string]any{"id": 1}
	if err := doc.Validate(t.Context()); err == nil {
		t.Error("a wrong example passes")
	}
}

func TestTheJSONIsThatOfTheYAML(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	raw, err := yaml.YAMLToJSON(source)
	if err != nil {
		t.Fatal(err)
	}
	packed, err := os.Open("openapi.json.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer packed.Close()
	z, err := gzip.NewReader(packed)
	if err != nil {
		t.Fatal(err)
	}
	written, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	var want, got bytes.Buffer
	if err := errors.Join(json.Compact(&want, raw), json.Compact(&got, written)); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), want.Bytes()) {
		t.Error("openapi.json.gz is stale: run `go generate ./internal/base/contract`")
	}
}

// TestGeneratedCodeIsFresh generates the code again and compares.
func TestGeneratedCodeIsFresh(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("builds the generator")
	}
	config, err := os.ReadFile("models.cfg.yaml")
	if err != nil {
		t.Fatal(err)
	}
	// Without an output file the generator writes to its standard output.
	config = regexp.MustCompile(`(?m)^output: .*$`).ReplaceAll(config, nil)
	path := filepath.Join(t.TempDir(), "cfg.yaml")
	if err := os.WriteFile(path, config, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "tool", "oapi-codegen", "-config", path, "openapi.yaml")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("generate the models: %v\n%s", err, &stderr)
	}
	want, err := os.ReadFile("models.gen.go")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(bytes.TrimSpace(stdout.Bytes()), bytes.TrimSpace(want)) {
		t.Error("models.gen.go is stale: run `go generate ./internal/base/contract`")
	}
	// The test's cache key must hold what is generated from.
	for _, name := range []string{"openapi.yaml", "overlay.yaml", "models.cfg.yaml"} {
		if _, err := os.ReadFile(name); err != nil {
			t.Fatal(err)
		}
	}
}
