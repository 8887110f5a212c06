package wire

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// Design sections 3 and 6: the codec is shared by both sides and the simulator,
// so it may know no socket, goroutine, lock, clock or log.
func TestWireIsPure(t *testing.T) {
	allowed := map[string]bool{
		"bytes": true, "errors": true, "fmt": true, "io": true, "math": true, "strconv": true, "strings": true, "time": true,
		"encoding/binary": true, "math/bits": true,
		"unicode": true, "unicode/utf16": true, "unicode/utf8": true, "crypto/sha256": true, "crypto/subtle": true,
		"github.com/go-json-experiment/json/jsontext": true,
	}
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) < 10 {
		t.Fatalf("found %d files, %v", len(files), err)
	}
	set := token.NewFileSet()
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(set, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, imp := range file.Imports {
			if path, _ := strconv.Unquote(imp.Path.Value); !allowed[path] {
				t.Errorf("%s imports %s", name, path)
			}
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt, *ast.ChanType:
				t.Errorf("%s: a goroutine or a channel", set.Position(n.Pos()))
			case *ast.SelectorExpr:
				if pkg, ok := n.X.(*ast.Ident); ok && pkg.Name == "time" && (n.Sel.Name == "Now" || n.Sel.Name == "Since") {
					t.Errorf("%s: the clock", set.Position(n.Pos()))
				}
			}
			return true
		})
	}
}
