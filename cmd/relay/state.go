package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"codingrelay/persist"
)

// The names in the state folder. Hub and daemons have folders of their own in it,
// each with its lock.
const (
	infoName        = "relay.json"
	hubDirName      = "hub"
	apiTokenName    = "api-token"
	daemonTokenName = "daemon-token"
)

// stateFolder is the state folder's path; it need not exist.
func (a *app) stateFolder() (string, error) {
	if a.opts.stateDir != "" {
		return filepath.Abs(a.opts.stateDir)
	}
	return a.defaultStateFolder()
}

// defaultStateFolder is the user's state folder (XDG base directories).
func (a *app) defaultStateFolder() (string, error) {
	if runtime.GOOS == "windows" {
		if v, _ := a.lookupEnv("LocalAppData"); filepath.IsAbs(v) {
			return filepath.Join(v, "relay"), nil
		}
	}
	// The specification says that a relative path there is to be ignored.
	if v, _ := a.lookupEnv("XDG_STATE_HOME"); filepath.IsAbs(v) {
		return filepath.Join(v, "relay"), nil
	}
	if v, _ := a.lookupEnv("HOME"); filepath.IsAbs(v) {
		return filepath.Join(v, ".local", "state", "relay"), nil
	}
	return "", &failure{
		code: codeStateFolder, what: "there is no state folder",
		cause: "neither XDG_STATE_HOME nor HOME is set to a full path",
		fix:   "use --state-dir DIR, or set RELAY_STATE_DIR",
	}
}

// info is relay.json: where the hub of this state folder can be reached.
type info struct {
	Event    string `json:"event"`
	Endpoint string `json:"endpoint"`
	API      string `json:"api"`
	// APITokenFile and TokenFile are the paths of the tokens, never tokens.
	APITokenFile string `json:"api_token_file"`
	TokenFile    string `json:"token_file,omitempty"`
	Durable      bool   `json:"durable"`
	PID          int    `json:"pid"`
	// Instance tells one start of a hub from another.
	Instance string `json:"instance"`
}

// readInfo reads the folder's relay.json. The error is fs.ErrNotExist when there
// is none.
func readInfo(dir string) (info, error) {
	path := filepath.Join(dir, infoName)
	b, err := os.ReadFile(path)
	if err != nil {
		return info{}, err
	}
	var i info
	if err := json.Unmarshal(b, &i); err != nil || i.API == "" || i.Endpoint == "" {
		return info{}, &failure{
			code: codeHubNotFound, what: fmt.Sprintf("%s is no relay.json of a hub", path),
			cause: "it cannot be read as one", fix: "remove it, then relay serve",
		}
	}
	return i, nil
}

// writeInfo puts relay.json into the folder, 0600.
func writeInfo(dir string, i info) error {
	b, err := json.MarshalIndent(i, "", "  ")
	if err != nil {
		return err
	}
	if err := persist.WriteFileAtomic(filepath.Join(dir, infoName), append(b, '\n'), 0o600); err != nil {
		return fmt.Errorf("write %s: %w", infoName, err)
	}
	return nil
}

// removeInfo removes relay.json if it is still this hub's own: another may have
// taken over since.
func removeInfo(dir string, own info) error {
	have, err := readInfo(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil || have.Instance != own.Instance {
		return nil
	}
	return os.Remove(filepath.Join(dir, infoName))
}

// knownHub reads the relay.json of the state folder, and says what to do when
// there is none.
func (a *app) knownHub() (info, error) {
	dir, err := a.stateFolder()
	if err != nil {
		return info{}, err
	}
	i, err := readInfo(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return info{}, &failure{
			code: codeHubNotFound, what: "no hub is known here",
			cause:     fmt.Sprintf("there is no %s in %s", infoName, dir),
			retryable: true,
		}
	}
	var pathError *fs.PathError
	if errors.As(err, &pathError) {
		return info{}, &failure{code: codeStateFolder, what: fmt.Sprintf("%s in %s cannot be read", infoName, dir), cause: err.Error()}
	}
	return i, err
}
