package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"codingrelay/wire"
)

// version is set by release builds: -ldflags "-X main.version=v1.2.3".
var version = ""

// buildVersion is the release, or the commit it was built from.
func buildVersion() (v, commit string) {
	bi, ok := debug.ReadBuildInfo()
	v = version
	if v == "" && ok && bi.Main.Version != "" {
		v = bi.Main.Version
	}
	if v == "" {
		v = "(devel)"
	}
	if ok {
		for _, s := range bi.Settings {
			if s.Key == "vcs.revision" {
				commit = s.Value
			}
		}
	}
	return v, commit
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  exactly(),
		RunE: func(*cobra.Command, []string) error {
			v, commit := buildVersion()
			if a.opts.json {
				return printJSON(a.stdout, map[string]string{
					"version": v, "commit": commit, "protocol": wire.Protocol,
					"go": runtime.Version(), "os": runtime.GOOS, "arch": runtime.GOARCH,
				})
			}
			if commit != "" {
				v += " (" + commit + ")"
			}
			fmt.Fprintf(a.stdout, "relay %s %s %s %s/%s\n", v, wire.Protocol, runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return nil
		},
	}
}
