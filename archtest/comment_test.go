package archtest

import (
	"fmt"
	"go/ast"
	"go/token"
	"slices"
	"strings"
	"testing"
)

// commentRule wants a comment on everything a package exports.
func commentRule(s source) []string {
	if s.isTest() || s.file.Name.Name == "main" {
		return nil
	}
	var out []string
	missing := func(p token.Pos, name string) {
		out = append(out, fmt.Sprintf(":%d: %s is exported and has no comment", s.line(p), name))
	}
	for _, d := range s.file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Name.IsExported() && d.Doc == nil && exportedReceiver(d) && !obvious(d) {
				missing(d.Pos(), d.Name.Name)
			}
		case *ast.GenDecl:
			said := 0 // the last line of a block that a comment stands above
			for _, spec := range d.Specs {
				name := bare(d, spec)
				if name != "" && s.line(spec.Pos()) != said+1 {
					missing(spec.Pos(), name)
					continue
				}
				said = s.line(spec.End())
			}
		}
	}
	return out
}

// bare is the exported name in spec that nothing says a word about.
func bare(d *ast.GenDecl, spec ast.Spec) string {
	switch spec := spec.(type) {
	case *ast.TypeSpec:
		if spec.Name.IsExported() && spec.Doc == nil && d.Doc == nil && spec.Comment == nil {
			return spec.Name.Name
		}
	case *ast.ValueSpec:
		for _, n := range spec.Names {
			if n.IsExported() && spec.Doc == nil && d.Doc == nil && spec.Comment == nil {
				return n.Name
			}
		}
	}
	return ""
}

func exportedReceiver(f *ast.FuncDecl) bool {
	if f.Recv == nil {
		return true
	}
	t := f.Recv.List[0].Type
	if star, ok := t.(*ast.StarExpr); ok {
		t = star.X
	}
	if index, ok := t.(*ast.IndexExpr); ok {
		t = index.X
	}
	id, ok := t.(*ast.Ident)
	return ok && id.IsExported()
}

// obvious are methods whose interface says what they do.
func obvious(f *ast.FuncDecl) bool {
	return f.Recv != nil && slices.Contains([]string{"Error", "Unwrap", "String"}, f.Name.Name)
}

func TestExportedNamesHaveComments(t *testing.T) { breaches(t, commentRule) }

// Each package says what it is for, once.
func TestEveryPackageHasOneComment(t *testing.T) {
	docs := map[string][]string{}
	for _, s := range sources(t) {
		if s.isTest() {
			continue
		}
		docs[s.pkg()] = append(docs[s.pkg()], packageComment(s)...)
	}
	for pkg, where := range docs {
		if len(where) != 1 {
			t.Errorf("package %s has %d package comments %v, want 1", pkg, len(where), where)
		}
	}
}

func packageComment(s source) []string {
	want := "Package " + s.file.Name.Name + " "
	if s.file.Name.Name == "main" {
		want = "Command "
	}
	if s.file.Doc == nil {
		return nil
	}
	if !strings.HasPrefix(s.file.Doc.Text(), want) {
		return []string{s.rel, "(which does not begin with " + want + ")"}
	}
	return []string{s.rel}
}

func TestCommentsCatchBreaches(t *testing.T) {
	mustFind(t, commentRule, planted(t, "wire/x.go", "package wire\nfunc F() {}\ntype T int\nvar V int\nfunc (t T) M() {}\nfunc (t T) String() string { return \"\" }\n"),
		"F is exported", "T is exported", "V is exported", "M is exported")
	mustFind(t, commentRule, planted(t, "wire/x.go", "package wire\n// F does.\nfunc F() {}\nfunc g() {}\ntype t int\nfunc (t) M() {}\n"))
	if got := packageComment(planted(t, "wire/x.go", "// Package wire is.\npackage wire\n")); len(got) != 1 {
		t.Errorf("a package comment was not seen: %v", got)
	}
	if got := packageComment(planted(t, "wire/x.go", "// Something else.\npackage wire\n")); len(got) != 2 {
		t.Errorf("a wrong package comment passed: %v", got)
	}
}
