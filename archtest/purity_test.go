package archtest

import (
	"fmt"
	"go/ast"
	"go/token"
	"path"
	"slices"
	"strings"
	"testing"
)

// edges are the files of the actors' packages that may know the engine,
// contexts, channels, locks, goroutines and the clock (design section 6). All
// other product files there are policy.
var edges = map[string][]string{
	"actors": {"facade.go", "facade_run.go", "shim.go", "shim_ports.go"},
	"step":   {"host.go", "process.go"},
	"daemon": {
		"facade.go", "facade_config.go", "facade_exec.go", "facade_halt.go", "facade_job.go", "facade_workspace.go", "shim_run.go", "shim_session.go", "shim_signal.go", "shim_world.go",
	},
}

// pureImports is what policy may import. Beside these: only the rooms wire,
// lease and step.
var pureImports = []string{
	"bytes", "cmp", "crypto/sha256", "encoding/hex", "encoding/json", "errors", "fmt", "maps", "math", "math/bits",
	"slices", "sort", "strconv", "strings", "time", "unicode", "unicode/utf8",
	module + "/wire", module + "/lease", module + "/step",
	"github.com/go-json-experiment/json", "github.com/go-json-experiment/json/jsontext",
}

// pureExceptions are single imports of single files that only name types or
// compute, with the reason.
var pureExceptions = map[string]string{
	"actors/port.go context":  "the ports' signatures; nothing there is called",
	"actors/port.go log/slog": "the type of a port",
	"actors/port.go net":      "the type of an address",
	"actors/listen.go net":    "parsing an address",
	"actors/hub_stop.go net":  "joining host and port",
}

// impureTime are the functions of package time that read or use the clock.
var impureTime = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"}

// purityRule judges the policy files of the packages in edges.
func purityRule(s source) []string {
	files, ruled := edges[s.pkg()]
	if !ruled || s.isTest() || slices.Contains(files, path.Base(s.rel)) {
		return nil
	}
	var out []string
	breach := func(n ast.Node, format string, args ...any) {
		out = append(out, fmt.Sprintf(":%d: policy %s", s.line(n.Pos()), fmt.Sprintf(format, args...)))
	}
	for _, i := range s.file.Imports {
		p := strings.Trim(i.Path.Value, `"`)
		if !slices.Contains(pureImports, p) && pureExceptions[s.rel+" "+p] == "" {
			breach(i, "imports %s", p)
		}
	}
	ast.Inspect(s.file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			breach(n, "starts a goroutine")
		case *ast.SelectStmt:
			breach(n, "selects on channels")
		case *ast.SendStmt:
			breach(n, "sends on a channel")
		case *ast.ChanType:
			breach(n, "has a channel")
		case *ast.UnaryExpr:
			if n.Op == token.ARROW {
				breach(n, "receives from a channel")
			}
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && x.Name == "time" && slices.Contains(impureTime, n.Sel.Name) {
				breach(n, "uses time.%s", n.Sel.Name)
			}
		}
		return true
	})
	return out
}

// Policy is a function of messages (design section 6): no engine, clock,
// goroutine, channel, lock, file or socket.
func TestPolicyIsPure(t *testing.T) { breaches(t, purityRule) }

// The list of edge files is the list of files, not of wishes.
func TestEdgeFilesExist(t *testing.T) {
	have := map[string]bool{}
	for _, s := range sources(t) {
		have[s.rel] = true
	}
	for pkg, files := range edges {
		for _, f := range files {
			if !have[pkg+"/"+f] {
				t.Errorf("%s/%s is named as an edge and does not exist", pkg, f)
			}
		}
	}
	for key := range pureExceptions {
		if rel, _, _ := strings.Cut(key, " "); !have[rel] {
			t.Errorf("%s has an exception and does not exist", rel)
		}
	}
}

func TestPurityCatchesBreaches(t *testing.T) {
	mustFind(t, purityRule, planted(t, "actors/x.go", "package actors\nimport \"sync\"\nvar m sync.Mutex\n"), "imports sync")
	mustFind(t, purityRule, planted(t, "actors/x.go", "package actors\nimport \"time\"\nvar t = time.Now()\nvar d = time.Second\n"), "time.Now")
	mustFind(t, purityRule, planted(t, "actors/x.go", "package actors\nfunc f(c chan int) { go f(c); c <- 1; <-c; select {} }\n"),
		"has a channel", "goroutine", "sends", "receives", "selects")
	mustFind(t, purityRule, planted(t, "actors/shim.go", "package actors\nfunc f(c chan int) { go f(c) }\n"))
	mustFind(t, purityRule, planted(t, "transport/x.go", "package transport\nfunc f(c chan int) { go f(c) }\n"))
}

// mapFields are the names of fields and variables of a map type in s.
func mapFields(s source) []string {
	var out []string
	ast.Inspect(s.file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Field:
			if _, ok := n.Type.(*ast.MapType); ok {
				for _, name := range n.Names {
					out = append(out, name.Name)
				}
			}
		case *ast.AssignStmt:
			for i, rhs := range n.Rhs {
				if lit, ok := rhs.(*ast.CompositeLit); ok && i < len(n.Lhs) {
					if _, ok := lit.Type.(*ast.MapType); ok {
						if id, ok := n.Lhs[i].(*ast.Ident); ok {
							out = append(out, id.Name)
						}
					}
				}
			}
		}
		return true
	})
	return out
}

// orderFree are the functions that range over a map and only count or look for
// what is there once: their result does not depend on the order.
var orderFree = map[string]bool{
	"actors.status":      true,
	"actors.retireFence": true,
}

// orderRule finds policy that ranges over a map, whose order differs between two
// runs of the same schedule.
func orderRule(maps []string) func(source) []string {
	return func(s source) []string {
		files, ruled := edges[s.pkg()]
		if !ruled || s.isTest() || slices.Contains(files, path.Base(s.rel)) {
			return nil
		}
		var out []string
		for _, d := range s.file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || orderFree[s.pkg()+"."+f.Name.Name] {
				continue
			}
			ast.Inspect(f, func(n ast.Node) bool {
				r, ok := n.(*ast.RangeStmt)
				if !ok {
					return true
				}
				name := ""
				switch x := r.X.(type) {
				case *ast.SelectorExpr:
					name = x.Sel.Name
				case *ast.Ident:
					name = x.Name
				}
				if slices.Contains(maps, name) {
					out = append(out, fmt.Sprintf(":%d: %s ranges over the map %s", s.line(r.Pos()), f.Name.Name, name))
				}
				return true
			})
		}
		return out
	}
}

// The same schedule gives the same effects in the same order (design section 6).
func TestPolicyDoesNotRangeOverMaps(t *testing.T) {
	byPackage := map[string][]string{}
	for _, s := range sources(t) {
		if !s.isTest() {
			byPackage[s.pkg()] = append(byPackage[s.pkg()], mapFields(s)...)
		}
	}
	for _, s := range sources(t) {
		for _, b := range orderRule(byPackage[s.pkg()])(s) {
			t.Errorf("%s%s", s.rel, b)
		}
	}
}

func TestOrderCatchesBreaches(t *testing.T) {
	s := planted(t, "actors/x.go", "package actors\ntype h struct{ m map[string]int; l []int }\n"+
		"func (x h) f() { for range x.m {}; for range x.l {}; y := map[int]int{}; for range y {} }\n")
	mustFind(t, orderRule(mapFields(s)), s, "the map m", "the map y")
}
