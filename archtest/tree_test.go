package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// module is the module's path, root its folder seen from here.
const (
	module = "codingrelay"
	root   = ".."
)

// source is one parsed Go file. rel is its path from the root, with slashes.
type source struct {
	rel  string
	text string
	file *ast.File
	fset *token.FileSet
}

func (s source) pkg() string {
	dir := filepath.ToSlash(filepath.Dir(s.rel))
	if dir == "." {
		return ""
	}
	return dir
}

func (s source) isTest() bool { return strings.HasSuffix(s.rel, "_test.go") }

func (s source) line(p token.Pos) int { return s.fset.Position(p).Line }

// imports are the paths the file imports.
func (s source) imports() []string {
	var out []string
	for _, i := range s.file.Imports {
		out = append(out, strings.Trim(i.Path.Value, `"`))
	}
	return out
}

func parse(rel, text string) (source, error) {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, rel, text, parser.ParseComments)
	return source{rel: rel, text: text, file: f, fset: fset}, err
}

// planted is a file that exists only in a test.
func planted(t *testing.T, rel, text string) source {
	t.Helper()
	s, err := parse(rel, text)
	if err != nil {
		t.Fatalf("the planted file does not parse: %v", err)
	}
	return s
}

// load reads every Go file of the module, whatever system it is for, once.
var load = sync.OnceValues(func() ([]source, error) {
	var out []source
	err := walk(func(rel string) error {
		if filepath.Ext(rel) != ".go" {
			return nil
		}
		text, err := os.ReadFile(filepath.Join(root, rel))
		if err != nil {
			return err
		}
		s, err := parse(rel, string(text))
		out = append(out, s)
		return err
	})
	return out, err
})

// walk visits the module's files, leaving out what is not part of it: hidden
// folders, test data, and modules of their own.
func walk(visit func(rel string) error) error {
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil || rel == "." {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); name == "testdata" || name == "dist" || strings.HasPrefix(name, ".") {
				return fs.SkipDir
			}
			if _, err := os.Stat(filepath.Join(path, "go.mod")); err == nil {
				return fs.SkipDir
			}
			return nil
		}
		return visit(filepath.ToSlash(rel))
	})
}

func sources(t *testing.T) []source {
	t.Helper()
	all, err := load()
	if err != nil {
		t.Fatalf("read the module: %v", err)
	}
	// The rules must have something to judge.
	for _, rel := range []string{"archtest/doc.go", "wire/frame.go", "lease/lease.go"} {
		if !slices.ContainsFunc(all, func(s source) bool { return s.rel == rel }) {
			t.Fatalf("%s was not found; the rules would judge nothing", rel)
		}
	}
	return all
}

// breaches reports what a rule finds in all of the module.
func breaches(t *testing.T, rule func(source) []string) {
	t.Helper()
	for _, s := range sources(t) {
		for _, b := range rule(s) {
			t.Errorf("%s%s", s.rel, b)
		}
	}
}

// mustFind fails unless the rule finds a breach that contains each of want, and
// no other.
func mustFind(t *testing.T, rule func(source) []string, s source, want ...string) {
	t.Helper()
	got := rule(s)
	if len(got) != len(want) {
		t.Errorf("%s: got %d breaches %q, want %d", s.rel, len(got), got, len(want))
		return
	}
	for i, w := range want {
		if !strings.Contains(got[i], w) {
			t.Errorf("%s: breach %q does not contain %q", s.rel, got[i], w)
		}
	}
}
