package main

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"codingrelay/containment"
)

var rewrite = flag.Bool("rewrite", false, "write generated documents instead of comparing them")

// docs/exit-codes.md is made from the table that decides exit codes.
func TestExitCodesPageIsCurrent(t *testing.T) {
	path := filepath.Join("..", "..", "docs", "exit-codes.md")
	if *rewrite {
		if err := os.WriteFile(path, []byte(exitMarkdown()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != exitMarkdown() {
		t.Error("docs/exit-codes.md is stale; run go test ./cmd/relay -run ExitCodes -rewrite")
	}
}

// Every code is there once, has a meaning, and ends with a documented exit code.
func TestErrorCodesAreComplete(t *testing.T) {
	seen := map[string]bool{}
	known := map[int]bool{exitSignalBase + 13: true}
	for _, e := range exitCodes {
		known[e.code] = true
	}
	for _, e := range errorCodes {
		if seen[e.code] || e.meaning == "" || !known[e.exit] {
			t.Errorf("row %+v is double, without a meaning, or ends with an unknown code", e)
		}
		seen[e.code] = true
	}
}

// No code that a hub, its API or a daemon gives is missing in the table.
func TestEveryCodeHasARow(t *testing.T) {
	re := regexp.MustCompile(`(?m)^\s*[cC]ode[A-Z]\w*\s+(?:Code |actors\.Code )?= "(?:agent_runtime\.)?(\w+)"`)
	for _, file := range []string{"actors/errors.go", "control/errors.go", "daemon/session_in.go"} {
		text, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(file)))
		if err != nil {
			t.Fatal(err)
		}
		codes := re.FindAllStringSubmatch(string(text), -1)
		if len(codes) < 3 {
			t.Errorf("%s: only %d codes were found; does the expression still fit?", file, len(codes))
		}
		for _, m := range codes {
			if _, known := lookUpCode(m[1]); !known {
				t.Errorf("%s: the code %s has no row in errorCodes", file, m[1])
			}
		}
	}
}

// What each system is told about running jobs.
func TestContainmentIsJudgedBySystem(t *testing.T) {
	for name, tt := range map[string]struct {
		mode, goos string
		refused    string
	}{
		"linux":       {"strict", "linux", ""},
		"darwin":      {"strict", "darwin", "--containment weak"},
		"darwin_weak": {"weak", "darwin", ""},
		"windows":     {"weak", "windows", "Linux"},
		"typo":        {"wek", "linux", "help"},
	} {
		t.Run(name, func(t *testing.T) {
			err := contain(&containment.Config{}, tt.mode, tt.goos)
			switch {
			case tt.refused == "" && err != nil:
				t.Errorf("refused: %v", err)
			case tt.refused != "" && (err == nil || !strings.Contains(explain(err).fixLine(), tt.refused)):
				t.Errorf("got %v, want a refusal that says %q", err, tt.refused)
			}
		})
	}
}

// Each row of docs/weaknesses.md and docs/cases.md names tests that exist.
func TestListsNameExistingTests(t *testing.T) {
	tests := existingTests(t)
	for name, list := range map[string]struct {
		row  *regexp.Regexp
		rows int
	}{
		"weaknesses.md": {regexp.MustCompile(`^\| \d+ \|`), 51},
		"cases.md":      {regexp.MustCompile(`^\| D\d\d \|`), 20},
	} {
		text, err := os.ReadFile(filepath.Join("..", "..", "docs", name))
		if err != nil {
			t.Fatal(err)
		}
		rows := 0
		for line := range strings.Lines(string(text)) {
			if list.row.MatchString(line) {
				rows++
				checkRow(t, tests, line)
			}
		}
		if rows != list.rows {
			t.Errorf("%s has %d rows, want %d", name, rows, list.rows)
		}
	}
}

var namedTest = regexp.MustCompile("`([a-z/]+)\\.((?:Test|Fuzz)[A-Za-z0-9_]+)`")

func checkRow(t *testing.T, tests map[string]bool, line string) {
	t.Helper()
	found := namedTest.FindAllStringSubmatch(line, -1)
	if len(found) == 0 && !strings.Contains(line, "later") {
		t.Errorf("no test is named: %s", line)
	}
	for _, m := range found {
		if !tests[m[1]+"."+m[2]] {
			t.Errorf("there is no %s.%s: %s", m[1], m[2], line)
		}
	}
}

// existingTests are the names of all tests, as folder.TestName.
func existingTests(t *testing.T) map[string]bool {
	t.Helper()
	tests := map[string]bool{}
	root := filepath.Join("..", "..")
	re := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)[A-Za-z0-9_]+)\(`)
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		dir, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		for _, m := range re.FindAllStringSubmatch(string(text), -1) {
			tests[filepath.ToSlash(dir)+"."+m[1]] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return tests
}
