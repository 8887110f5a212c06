package archtest

import (
	"fmt"
	"go/ast"
	"testing"
)

// hopeRule finds tests that wait and hope, and tests that are passed over. A
// test waits on a condition or a channel, with a deadline.
func hopeRule(s source) []string {
	if !s.isTest() {
		return nil
	}
	var out []string
	ast.Inspect(s.file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		sel, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		x, _ := sel.X.(*ast.Ident)
		switch {
		case x != nil && x.Name == "synctest" && sel.Sel.Name == "Test":
			return false // time is virtual there: a pause is exact, and hopes for nothing
		case x != nil && x.Name == "time" && sel.Sel.Name == "Sleep":
			if mayPause[s.rel] == "" {
				out = append(out, fmt.Sprintf(":%d: time.Sleep in a test", s.line(n.Pos())))
			}
		case sel.Sel.Name == "Skip" || sel.Sel.Name == "Skipf" || sel.Sel.Name == "SkipNow":
			if mayPassOver[s.rel] == "" {
				out = append(out, fmt.Sprintf(":%d: a test is passed over", s.line(n.Pos())))
			}
		}
		return true
	})
	return out
}

// mayPassOver are the files with a case that does not run everywhere, and why.
var mayPassOver = map[string]string{
	"containment/host_test.go": "TestSoak runs for a minute, on RELAY_SOAK=1 only",
}

// mayPause are the files with a pause between two looks at a condition, with a
// deadline around it.
var mayPause = map[string]string{
	"persist/order_test.go": "waitUntil",
}

func TestTestsDoNotHope(t *testing.T) { breaches(t, hopeRule) }

func TestHopeCatchesBreaches(t *testing.T) {
	src := "package x\nimport (\"time\"; \"testing\")\nfunc TestX(t *testing.T) { time.Sleep(1); t.Skip() }\n"
	mustFind(t, hopeRule, planted(t, "wire/x_test.go", src), "time.Sleep", "passed over")
	mustFind(t, hopeRule, planted(t, "wire/x.go", src))
	mustFind(t, hopeRule, planted(t, "wire/x_test.go", "package x\nimport (\"time\"; \"testing\"; \"testing/synctest\")\n"+
		"func TestX(t *testing.T) { synctest.Test(t, func(t *testing.T) { time.Sleep(1) }); time.Sleep(1) }\n"), ":3: time.Sleep")
}
