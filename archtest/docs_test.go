package archtest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func page(t *testing.T, rel string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(rel)))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// A newcomer reads one page and finds the two commands where the gate finds them.
func TestReadmeIsShortAndNamesTheTwoCommands(t *testing.T) {
	readme := page(t, "README.md")
	if n := strings.Count(readme, "\n"); n > 150 {
		t.Errorf("README.md has %d lines, at most 150", n)
	}
	for _, command := range []string{"    go run ./cmd/relay demo\n", "    go test -race ./...\n"} {
		if strings.Count(readme, command) != 1 {
			t.Errorf("README.md has the command %q %d times, want once", command, strings.Count(readme, command))
		}
	}
}

// Every room is in the README's picture of the house, and every link leads somewhere.
func TestReadmeNamesEveryRoomAndItsLinksLead(t *testing.T) {
	readme := page(t, "README.md")
	seen := map[string]bool{}
	for _, s := range sources(t) {
		if pkg := s.pkg(); !seen[pkg] {
			seen[pkg] = true
			if !strings.Contains(readme, "`"+pkg+"/`") {
				t.Errorf("README.md does not say what is in %s/", pkg)
			}
		}
	}
	for _, rel := range []string{"README.md", "docs/operations.md", "docs/http-api.md", "docs/exec.md"} {
		for _, m := range regexp.MustCompile(`\]\(([^)#]+)\)`).FindAllStringSubmatch(page(t, rel), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			if _, err := os.Stat(filepath.Join(root, filepath.Dir(rel), m[1])); err != nil {
				t.Errorf("%s: the link to %s leads nowhere", rel, m[1])
			}
		}
	}
}

// Every module that is required directly has its reason.
func TestDependenciesHaveReasons(t *testing.T) {
	reasons := page(t, "docs/dependencies.md")
	all := regexp.MustCompile(`(?m)^\t(\S+) v\S+( // indirect)?$`).FindAllStringSubmatch(page(t, "go.mod"), -1)
	if len(all) < 20 {
		t.Fatalf("only %d requirements were found in go.mod", len(all))
	}
	listed := map[string]bool{}
	for _, m := range all {
		listed[m[1]] = true
		if m[2] == "" && !strings.Contains(reasons, "| "+m[1]+" |") {
			t.Errorf("docs/dependencies.md does not say why %s is there", m[1])
		}
	}
	for _, m := range regexp.MustCompile(`(?m)^\| (\S+\.\S+) \|`).FindAllStringSubmatch(reasons, -1) {
		if !listed[m[1]] {
			t.Errorf("docs/dependencies.md gives a reason for %s, which go.mod does not require", m[1])
		}
	}
}

// The page of the API has every route of the document.
func TestHTTPAPIPageNamesEveryRoute(t *testing.T) {
	var doc struct {
		Paths map[string]map[string]json.RawMessage `json:"paths"`
	}
	if err := json.Unmarshal([]byte(page(t, "control/openapi.json")), &doc); err != nil {
		t.Fatal(err)
	}
	text := page(t, "docs/http-api.md")
	routes := 0
	for path, methods := range doc.Paths {
		short := strings.ReplaceAll(path, "{run_id}", "{id}")
		for method := range methods {
			if method != "get" && method != "post" {
				continue
			}
			routes++
			if call := strings.ToUpper(method) + " " + short; !strings.Contains(text, "`"+call) && !strings.Contains(text, "`"+short+"`") {
				t.Errorf("docs/http-api.md does not name %s", call)
			}
		}
	}
	if routes < 10 {
		t.Errorf("only %d routes were found in the document", routes)
	}
}

// Every flag that bounds a hub is in the page that operators read.
func TestOperationsPageNamesEveryLimit(t *testing.T) {
	text := page(t, "docs/operations.md")
	flags := regexp.MustCompile(`\{&c\.\w+, "([a-z-]+)", `).FindAllStringSubmatch(page(t, "cmd/relay/serve.go"), -1)
	if len(flags) < 15 {
		t.Fatalf("only %d limits were found in serve.go; does the expression still fit?", len(flags))
	}
	for _, m := range flags {
		if !strings.Contains(text, "`--"+m[1]+"`") {
			t.Errorf("docs/operations.md does not name --%s", m[1])
		}
	}
}
