package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// resolveRoots makes the folders in which runs may work absolute and free of
// links.
func resolveRoots(workspaces []string) ([]string, error) {
	if len(workspaces) == 0 {
		workspaces = []string{"."}
	}
	roots := make([]string, 0, len(workspaces))
	for _, w := range workspaces {
		abs, err := filepath.Abs(w)
		if err == nil {
			abs, err = filepath.EvalSymlinks(abs)
		}
		if err == nil {
			var info os.FileInfo
			if info, err = os.Stat(abs); err == nil && !info.IsDir() {
				err = errors.New("it is not a folder")
			}
		}
		if err != nil {
			return nil, fmt.Errorf("daemon: workspace %q cannot be used: %w; name a folder that exists", w, err)
		}
		roots = append(roots, abs)
	}
	return roots, nil
}

// resolveWorkspace finds the folder that a payload asks for: a path, relative to
// the first root, that lies in one of the roots after all links are followed. The
// error is a [*Failure].
func resolveWorkspace(roots []string, asked string) (string, error) {
	if asked == "" {
		return roots[0], nil
	}
	fail := func(format string, args ...any) (string, error) {
		return "", &Failure{Code: codeExecWorkspace, Text: fmt.Sprintf(format, args...)}
	}
	if strings.ContainsRune(asked, 0) {
		return fail("the workspace has a NUL byte in its name")
	}
	path := asked
	if !filepath.IsAbs(path) {
		path = filepath.Join(roots[0], path)
	}
	// What lies outside is not looked at: whether it exists is nobody's business.
	if !inside(roots, nearest(path)) {
		return fail("the workspace %q is outside the folders that the owner of this daemon allows (--workspace)", asked)
	}
	target, err := filepath.EvalSymlinks(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fail("the workspace %q does not exist (looked at %s)", asked, path)
	case err != nil:
		return fail("the workspace %q cannot be entered: %v", asked, err)
	case !inside(roots, target):
		return fail("the workspace %q is outside the folders that the owner of this daemon allows (--workspace)", asked)
	}
	info, err := os.Stat(target)
	switch {
	case err != nil:
		return fail("the workspace %q cannot be entered: %v", asked, err)
	case !info.IsDir():
		return fail("the workspace %q is not a folder", asked)
	}
	return target, nil
}

// nearest follows the links of the longest beginning of a path that exists.
func nearest(path string) string {
	path = filepath.Clean(path)
	rest := ""
	for {
		if target, err := filepath.EvalSymlinks(path); err == nil {
			return filepath.Join(target, rest)
		}
		parent := filepath.Dir(path)
		if parent == path {
			return filepath.Join(path, rest)
		}
		rest = filepath.Join(filepath.Base(path), rest)
		path = parent
	}
}

func inside(roots []string, path string) bool {
	for _, root := range roots {
		if rel, err := filepath.Rel(root, path); err == nil && filepath.IsLocal(rel) {
			return true
		}
	}
	return false
}
