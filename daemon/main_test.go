package daemon

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the golden files; read the diff, commit only what you can explain")

// interpreter is the real Python, found once: a version manager's shim would be
// a process tree of its own.
var interpreter string

func TestMain(m *testing.M) {
	SupervisorMain()
	out, err := exec.Command("python3", "-c", "import sys; print(sys.executable)").Output()
	if err != nil {
		fmt.Fprintln(os.Stderr, "these tests need python3 on PATH:", err)
		os.Exit(1)
	}
	interpreter = strings.TrimSpace(string(out))
	goleak.VerifyTestMain(m)
}

// golden compares text with a file in testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *rewrite {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs; run with -rewrite and read the diff (-want +got):\n%s", path, diff)
	}
}
