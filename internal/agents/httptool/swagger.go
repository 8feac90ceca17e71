package httptool

import (
	"errors"
	"fmt"
	"mime"
	"slices"
	"strings"
)

// Documents of Swagger 2.0 differ from those of OpenAPI 3 in the server, the body, and the
// schemas of parameters. This file reads those parts as OpenAPI 3 has them.

// swaggerServers returns the servers of the document in the form of OpenAPI 3.
func (d *document) swaggerServers() []any {
	host, base := texts(d.root["host"]), texts(d.root["basePath"])
	if host == "" {
		return []any{map[string]any{"url": "/" + strings.TrimPrefix(base, "/")}}
	}
	scheme := "https"
	if schemes, _ := d.root["schemes"].([]any); len(schemes) > 0 && !slices.Contains(schemes, any("https")) {
		scheme = texts(schemes[0])
	}
	return []any{map[string]any{"url": scheme + "://" + host + "/" + strings.TrimPrefix(base, "/")}}
}

// consumes returns the types of the body of an operation, JSON if none is stated.
func (r *operationReader) consumes(operation map[string]any) (all []string) {
	list, ok := operation["consumes"].([]any)
	if !ok {
		list, _ = r.d.root["consumes"].([]any)
	}
	for _, v := range list {
		if kind, _, err := mime.ParseMediaType(texts(v)); err == nil {
			all = append(all, kind)
		}
	}
	return all
}

// swaggerParameters reads the parameters of an operation: those of the body become one
// argument, as in OpenAPI 3.
func (r *operationReader) swaggerParameters(all []map[string]any, operation map[string]any) error {
	form, required := map[string]any{}, []any{}
	kinds := r.consumes(operation)
	for _, q := range all {
		name, must := texts(q["name"]), q["required"] == true
		switch texts(q["in"]) {
		case "body":
			if len(kinds) > 0 && !slices.ContainsFunc(kinds, isJSON) {
				return fmt.Errorf("it requires a body of the type %s; only JSON and forms are supported", shown(kinds[0]))
			}
			if err := r.addBody(q["schema"], must, "", nil); err != nil {
				return err
			}
		case "formData":
			if texts(q["type"]) == "file" || len(kinds) > 0 && !slices.Contains(kinds, formType) {
				return errors.New("it requires a body of the type multipart/form-data; only JSON and forms are supported")
			}
			form[name] = swaggerSchema(q)
			if must {
				required = append(required, name)
			}
		default:
			out := map[string]any{"name": q["name"], "in": q["in"], "required": q["required"], "description": q["description"], "schema": swaggerSchema(q)}
			switch format := texts(q["collectionFormat"]); format {
			case "multi":
				out["explode"] = true
			case "", "csv":
				out["explode"] = false
			default:
				out["style"] = format
			}
			if err := r.parameter(out); err != nil {
				return err
			}
		}
	}
	if len(form) == 0 {
		return nil
	}
	lists := map[string]string{}
	for _, q := range all {
		if texts(q["in"]) == "formData" && texts(q["type"]) == "array" && texts(q["collectionFormat"]) != "multi" {
			lists[texts(q["name"])] = joinedList
		}
	}
	schema := map[string]any{"type": "object", "properties": form}
	if len(required) > 0 {
		schema["required"] = required
	}
	return r.addBody(schema, len(required) > 0, formType, lists)
}

// swaggerSchema returns the schema of a parameter, because Swagger writes the keywords of the
// schema into the parameter itself.
func swaggerSchema(q map[string]any) map[string]any {
	schema := map[string]any{}
	for key, v := range q {
		if !slices.Contains([]string{"name", "in", "required", "collectionFormat", "allowEmptyValue"}, key) {
			schema[key] = v
		}
	}
	return schema
}
