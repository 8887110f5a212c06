package daemon

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// edgeFiles are the only product files that may know the engine, goroutines,
// channels, contexts, locks, the clock, files and sockets.
var edgeFiles = []string{
	"facade.go", "facade_config.go", "facade_exec.go", "facade_halt.go", "facade_job.go", "facade_workspace.go",
	"shim_run.go", "shim_session.go", "shim_signal.go", "shim_world.go",
}

// policyImports are what all other product files may import.
var policyImports = []string{
	"bytes", "crypto/sha256", "errors", "fmt", "math", "slices", "strconv", "strings", "time",
	"codingrelay/step", "codingrelay/wire",
	"github.com/go-json-experiment/json", "github.com/go-json-experiment/json/jsontext",
}

// clockFunctions are what of package time reads or uses the clock.
var clockFunctions = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"}

// impure says what in a policy file does not belong there.
func impure(fset *token.FileSet, f *ast.File) []string {
	var out []string
	for _, i := range f.Imports {
		if path := strings.Trim(i.Path.Value, `"`); !slices.Contains(policyImports, path) {
			out = append(out, "imports "+path)
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt, *ast.SelectStmt, *ast.SendStmt, *ast.ChanType:
			out = append(out, fset.Position(n.Pos()).String()+" has a goroutine or a channel")
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && x.Name == "time" && slices.Contains(clockFunctions, n.Sel.Name) {
				out = append(out, "uses time."+n.Sel.Name)
			}
		}
		return true
	})
	return out
}

// Design section 6: a policy is a function of messages, so that the simulator
// drives what ships.
func TestPolicyFilesArePure(t *testing.T) {
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") || slices.Contains(edgeFiles, name) {
			continue
		}
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, why := range impure(fset, f) {
			t.Errorf("%s is policy and %s", name, why)
		}
	}
	for _, name := range edgeFiles {
		if !slices.Contains(names, name) {
			t.Errorf("%s is named as an edge and does not exist", name)
		}
	}
}

// A rule that cannot fail proves nothing.
func TestPurityRuleSeesBreaches(t *testing.T) {
	const src = "package daemon\nimport \"os\"\nimport \"time\"\nvar n = time.Now()\nfunc f(c chan int) { go f(c); c <- 1; select {} }\n"
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, "x.go", src, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Join(impure(fset, f), "\n")
	for _, want := range []string{"imports os", "time.Now", "x.go:5:10 has", "x.go:5:22 has", "x.go:5:31 has", "x.go:5:39 has"} {
		if !strings.Contains(got, want) {
			t.Errorf("no breach %q in:\n%s", want, got)
		}
	}
}
