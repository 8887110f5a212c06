package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// envAnnotation names a flag's variable where it is not made from its name.
const envAnnotation = "relay_env"

// noEnv are flags that make no sense in an environment: words for one start.
var noEnv = []string{"help", "version", "accept-unclean", "force", "detach", "fence-id", "reason", "idempotency-key", "follow"}

// The variables that hold a secret or another program's setting. They are no
// flags: no flag takes a secret's value.
const (
	envToken    = "RELAY_TOKEN"
	envAPIToken = "RELAY_API_TOKEN"
	envProfile  = "LANGBOT_PLUGIN_RUNTIME_PROFILE"
)

// envName is the variable that gives a flag its value when it is not on the
// command line.
func envName(f *pflag.Flag) string {
	if slices.Contains(noEnv, f.Name) {
		return ""
	}
	if name := f.Annotations[envAnnotation]; len(name) == 1 {
		return name[0]
	}
	return "RELAY_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
}

// setEnvName gives a flag a variable of another name.
func setEnvName(c *cobra.Command, flag, name string) {
	if err := c.Flags().SetAnnotation(flag, envAnnotation, []string{name}); err != nil {
		panic(err) // the flag was just defined
	}
}

// applyEnv fills in from the environment what the command line left out: flag,
// then environment, then default. An empty variable counts as not set, except
// for the secrets, which are not read here.
func (a *app) applyEnv(cmd *cobra.Command) error {
	var first error
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		name := envName(f)
		if first != nil || f.Changed || name == "" {
			return
		}
		v, ok := a.lookupEnv(name)
		if !ok || v == "" {
			return
		}
		if err := cmd.Flags().Set(f.Name, v); err != nil {
			first = usagef("the variable %s: %v", name, err)
		}
	})
	return first
}

// envHelp is the text of `relay help environment`.
func envHelp(root *cobra.Command) string {
	seen := map[string]string{}
	var walk func(c *cobra.Command)
	add := func(f *pflag.Flag) {
		if name := envName(f); name != "" {
			seen[name] = "--" + f.Name
		}
	}
	walk = func(c *cobra.Command) {
		c.PersistentFlags().VisitAll(add)
		c.LocalFlags().VisitAll(add)
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(root)
	names := make([]string, 0, len(seen))
	for name := range seen {
		names = append(names, name)
	}
	slices.Sort(names)
	var b strings.Builder
	b.WriteString("A flag on the command line wins over its variable, the variable over the default.\n\n")
	for _, name := range names {
		fmt.Fprintf(&b, "  %-28s %s\n", name, seen[name])
	}
	fmt.Fprintf(&b, "\nSecrets, for which there is no flag:\n\n"+
		"  %-28s the token between hub and daemons, instead of a --token-file\n"+
		"  %-28s the API token for commands that ask a hub, instead of an --api-token-file\n"+
		"\nOf other programs:\n\n"+
		"  %-28s shared turns the shared profile on (as --shared)\n"+
		"  %-28s where the state folder is, when there is no --state-dir\n"+
		"  %-28s no colour; CLICOLOR_FORCE=1 forces it\n",
		envToken, envAPIToken, envProfile, "XDG_STATE_HOME, HOME", "NO_COLOR")
	return b.String()
}
