package main

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"codingrelay/persist"
)

// newSecret makes a token of 256 random bits. Its prefix says what it is for, so
// that a scanner for leaked secrets can know it.
func newSecret() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails: it ends the program instead
	return "rly_dmn_" + base64.RawURLEncoding.EncodeToString(b[:])
}

// readToken reads a token file that a user named.
func readToken(path string) (string, error) {
	token, err := persist.ReadSecret(path)
	if err == nil {
		return token, nil
	}
	f := &failure{code: codeTokenFile, what: fmt.Sprintf("the token file %s cannot be used", path), cause: err.Error()}
	switch {
	case errors.Is(err, persist.ErrSecretOpen):
		f.fix = "chmod 600 " + path
	case errors.Is(err, fs.ErrNotExist):
		f.fix = "relay token new --out " + path
	}
	return "", f
}

// ensureToken reads the token file at path, and makes it first when it is
// missing.
func ensureToken(path string) (token string, err error) {
	_, err = os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		err = writeToken(path, newSecret())
	}
	if err != nil {
		return "", err
	}
	// What is in the file counts: another start may have made one at the same time.
	return readToken(path)
}

// writeToken writes a token file, 0600 from its first byte.
func writeToken(path, token string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return &failure{code: codeTokenFile, what: "the token file cannot be made", cause: err.Error(), fix: "choose another place for it"}
	}
	if err := persist.WriteFileAtomic(path, []byte(token+"\n"), 0o600); err != nil {
		return &failure{code: codeTokenFile, what: "the token file cannot be written", cause: err.Error(), fix: "choose another place for it"}
	}
	return nil
}

// tokenFromEnv reads a secret from the environment. One that is set but empty is
// an error: it must never be taken for "no token".
func (a *app) tokenFromEnv(name string) (token string, ok bool, err error) {
	v, ok := a.lookupEnv(name)
	if !ok {
		return "", false, nil
	}
	if token = strings.TrimSpace(v); token == "" {
		return "", false, &failure{code: codeTokenFile, what: name + " is set but empty", fix: "unset " + name + ", or put the token into it"}
	}
	return token, true, nil
}

func (a *app) tokenCommand() *cobra.Command {
	var out string
	var force bool
	c := &cobra.Command{
		Use:   "new",
		Short: "Make a token: on stdout, or in a file only you can read",
		Example: "  relay token new --out hub.token\n" +
			"  relay serve --shared --token-file hub.token",
		Args: exactly(),
		RunE: func(*cobra.Command, []string) error { return a.tokenNew(out, force) },
	}
	c.Flags().StringVar(&out, "out", "", "write the token to this file (0600) instead of stdout")
	c.Flags().BoolVar(&force, "force", false, "replace the file if it exists")
	return group("token", "Make tokens", c)
}

func (a *app) tokenNew(out string, force bool) error {
	token := newSecret()
	if out == "" {
		if a.opts.json {
			return printJSON(a.stdout, map[string]string{"token": token})
		}
		fmt.Fprintln(a.stdout, token)
		return nil
	}
	if _, err := os.Lstat(out); err == nil && !force {
		return &failure{
			code: codeTokenFile, what: out + " exists already", exit: exitConflict,
			fix: "relay token new --force --out " + out + " replaces it: whoever uses the old token is locked out",
		}
	}
	if err := writeToken(out, token); err != nil {
		return err
	}
	if a.opts.json {
		return printJSON(a.stdout, map[string]string{"token_file": out})
	}
	fmt.Fprintln(a.stdout, out)
	return nil
}
