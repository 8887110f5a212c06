package archtest

import (
	"fmt"
	"go/ast"
	"strings"
	"testing"
)

// The longest file and function, tests included, in lines.
const (
	fileLines     = 400
	functionLines = 70
)

// longer are functions that may have more lines, and why. Do not add to it.
var longer = map[string]string{
	"actors.TestConnMatrix": "one table",
	"actors.TestHubMatrix":  "one table",
}

func sizeRule(s source) []string {
	var out []string
	if n := strings.Count(s.text, "\n"); n > fileLines {
		out = append(out, fmt.Sprintf(": %d lines, at most %d", n, fileLines))
	}
	for _, d := range s.file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		if n := s.line(f.End()) - s.line(f.Pos()) + 1; n > functionLines && longer[s.pkg()+"."+f.Name.Name] == "" {
			out = append(out, fmt.Sprintf(":%d: %s has %d lines, at most %d", s.line(f.Pos()), f.Name.Name, n, functionLines))
		}
	}
	return out
}

func TestFilesAndFunctionsAreShort(t *testing.T) { breaches(t, sizeRule) }

func TestSizesCatchBreaches(t *testing.T) {
	body := func(n int) string { return "func f() {\n" + strings.Repeat("_ = 1\n", n-2) + "}\n" }
	mustFind(t, sizeRule, planted(t, "wire/x.go", "package wire\n"+body(functionLines)))
	mustFind(t, sizeRule, planted(t, "wire/x.go", "package wire\n"+body(functionLines+1)), "f has 71 lines")
	mustFind(t, sizeRule, planted(t, "wire/x.go", "package wire\n"+strings.Repeat("\n", fileLines)), "401 lines")
}
