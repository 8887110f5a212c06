package control_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"codingrelay/control"
)

// document is the API's description, as far as tests read it.
type document struct {
	OpenAPI    string                             `json:"openapi"`
	Paths      map[string]map[string]documentedOp `json:"paths"`
	Components struct {
		Responses map[string]documentedAnswer `json:"responses"`
		Schemas   map[string]*schema          `json:"schemas"`
	} `json:"components"`
}

type documentedOp struct {
	OperationID string                      `json:"operationId"`
	Security    *[]map[string][]string      `json:"security"`
	Responses   map[string]documentedAnswer `json:"responses"`
}

type documentedAnswer struct {
	Ref     string `json:"$ref"`
	Content map[string]struct {
		Schema *schema `json:"schema"`
	} `json:"content"`
}

// schema is the subset of JSON Schema that the description uses; a keyword that
// is not here fails the decoding.
type schema struct {
	Ref                  string             `json:"$ref"`
	Type                 any                `json:"type"`
	AnyOf                []*schema          `json:"anyOf"`
	Properties           map[string]*schema `json:"properties"`
	Required             []string           `json:"required"`
	AdditionalProperties *bool              `json:"additionalProperties"`
	Items                *schema            `json:"items"`
	Enum                 []string           `json:"enum"`
	Pattern              string             `json:"pattern"`
	Format               string             `json:"format"`
	Minimum              *float64           `json:"minimum"`
	Maximum              *float64           `json:"maximum"`
	MinLength            int                `json:"minLength"`
	MaxLength            *int               `json:"maxLength"`
	MinItems             int                `json:"minItems"`
	MaxItems             *int               `json:"maxItems"`
	Default              any                `json:"default"`
	Description          string             `json:"description"`
}

// UnmarshalJSON refuses keywords that are not checked here.
func (s *schema) UnmarshalJSON(text []byte) error {
	type plain schema
	dec := json.NewDecoder(strings.NewReader(string(text)))
	dec.DisallowUnknownFields()
	return dec.Decode((*plain)(s))
}

var description = func() *document {
	var d document
	if err := json.Unmarshal(control.OpenAPI(), &d); err != nil {
		panic("openapi.json: " + err.Error())
	}
	return &d
}()

// find is the operation of a request, as "METHOD /path".
func (d *document) find(method, escapedPath string) (string, *documentedOp) {
	for _, path := range slices.Sorted(maps.Keys(d.Paths)) { // /v1/fences/clear comes before /v1/fences/{daemon_id}
		if op, ok := d.Paths[path][strings.ToLower(method)]; ok && matches(path, escapedPath) {
			return method + " " + path, &op
		}
	}
	return "", nil
}

func matches(pattern, path string) bool {
	want, got := strings.Split(pattern, "/"), strings.Split(path, "/")
	if len(want) != len(got) {
		return false
	}
	for i, s := range want {
		if s != got[i] && !strings.HasPrefix(s, "{") {
			return false
		}
	}
	return true
}

// check fails the test when an answer is none that the description promises.
func (d *document) check(t *testing.T, req *http.Request, status int, kind string, text []byte) {
	name, op := d.find(req.Method, req.URL.EscapedPath())
	if op == nil {
		if status != http.StatusNotFound && status != http.StatusMethodNotAllowed && status != http.StatusUnauthorized && status != http.StatusForbidden {
			t.Errorf("%s %s is not described, and answered %d", req.Method, req.URL.Path, status)
		}
		return
	}
	a, ok := op.Responses[strconv.Itoa(status)]
	if ref := strings.TrimPrefix(a.Ref, "#/components/responses/"); a.Ref != "" {
		a = d.Components.Responses[ref]
	}
	if !ok {
		t.Errorf("%s answered %d, which is not described: %s", name, status, text)
		return
	}
	content, ok := a.Content[strings.TrimSpace(strings.Split(kind, ";")[0])]
	if !ok {
		t.Errorf("%s answered %d with %q, which is not described", name, status, kind)
		return
	}
	if text == nil {
		return
	}
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		t.Errorf("%s answered %d with no JSON: %v", name, status, err)
		return
	}
	if err := d.valid(content.Schema, v, "body"); err != nil {
		t.Errorf("%s answered %d: %v\n%s", name, status, err, text)
	}
}

// validText holds JSON to a named schema.
func (d *document) validText(name, text string) error {
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		return err
	}
	return d.valid(&schema{Ref: "#/components/schemas/" + name}, v, name)
}

func (d *document) valid(s *schema, v any, at string) error {
	if s.Ref != "" {
		name := strings.TrimPrefix(s.Ref, "#/components/schemas/")
		if s = d.Components.Schemas[name]; s == nil {
			return fmt.Errorf("%s: no schema %s", at, name)
		}
	}
	if len(s.AnyOf) > 0 {
		var err error
		for _, one := range s.AnyOf {
			if err = d.valid(one, v, at); err == nil {
				return nil
			}
		}
		return err
	}
	if !s.isType(v) {
		return fmt.Errorf("%s: %v (%T) is no %v", at, v, v, s.Type)
	}
	switch v := v.(type) {
	case string:
		return s.validString(v, at)
	case float64:
		if s.Minimum != nil && v < *s.Minimum || s.Maximum != nil && v > *s.Maximum {
			return fmt.Errorf("%s: %v is out of range", at, v)
		}
	case []any:
		if len(v) < s.MinItems || s.MaxItems != nil && len(v) > *s.MaxItems {
			return fmt.Errorf("%s: %d items", at, len(v))
		}
		for i, one := range v {
			if err := d.valid(s.Items, one, fmt.Sprintf("%s[%d]", at, i)); err != nil {
				return err
			}
		}
	case map[string]any:
		return d.validObject(s, v, at)
	}
	return nil
}

func (s *schema) isType(v any) bool {
	is := func(name any) bool {
		switch v := v.(type) {
		case nil:
			return name == "null"
		case bool:
			return name == "boolean"
		case string:
			return name == "string"
		case float64:
			return name == "integer" && v == float64(int64(v))
		case []any:
			return name == "array"
		default:
			return name == "object"
		}
	}
	if list, ok := s.Type.([]any); ok {
		return slices.ContainsFunc(list, is)
	}
	return is(s.Type)
}

func (s *schema) validString(v, at string) error {
	n := utf8.RuneCountInString(v)
	switch {
	case n < s.MinLength, s.MaxLength != nil && n > *s.MaxLength:
		return fmt.Errorf("%s: %q has %d characters", at, v, n)
	case s.Enum != nil && !slices.Contains(s.Enum, v):
		return fmt.Errorf("%s: %q is none of %q", at, v, s.Enum)
	case s.Pattern != "" && !regexp.MustCompile(s.Pattern).MatchString(v):
		return fmt.Errorf("%s: %q does not match %s", at, v, s.Pattern)
	case s.Format == "date-time":
		if _, err := time.Parse(time.RFC3339Nano, v); err != nil {
			return fmt.Errorf("%s: %w", at, err)
		}
	}
	return nil
}

func (d *document) validObject(s *schema, v map[string]any, at string) error {
	for _, name := range s.Required {
		if _, ok := v[name]; !ok {
			return fmt.Errorf("%s: %s is missing", at, name)
		}
	}
	for name, value := range v {
		sub, ok := s.Properties[name]
		if !ok {
			if s.AdditionalProperties != nil && !*s.AdditionalProperties {
				return fmt.Errorf("%s: %s is not described", at, name)
			}
			continue
		}
		if err := d.valid(sub, value, at+"."+name); err != nil {
			return err
		}
	}
	return nil
}
