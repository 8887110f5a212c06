package daemon

import (
	"slices"
	"strings"
)

// allowedNames are the variables of the daemon's own environment that a run gets.
// A name that ends in * stands for all that begin like it. Everything else, API
// keys among it, must be named by the owner of the machine (Config.EnvAllow).
var allowedNames = []string{
	"HOME", "PATH", "USER", "LOGNAME", "SHELL", "TERM", "COLORTERM", "TMPDIR", "TZ",
	"LANG", "LANGUAGE", "LC_*",
	"XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR",
	"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY",
	"http_proxy", "https_proxy", "all_proxy", "no_proxy",
	"SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS",
}

// reservedPrefix begins the names of the relay's own variables, which may hold
// its secrets.
const reservedPrefix = "RELAY_"

func reserved(name string) bool {
	return len(name) >= len(reservedPrefix) && strings.EqualFold(name[:len(reservedPrefix)], reservedPrefix)
}

// allowed reports whether a name is on a list.
func allowed(name string, lists ...[]string) bool {
	for _, list := range lists {
		for _, a := range list {
			if a == name {
				return true
			}
			if prefix, ok := strings.CutSuffix(a, "*"); ok && strings.HasPrefix(name, prefix) {
				return true
			}
		}
	}
	return false
}

// runEnviron makes the environment of a run: what is allowed of the daemon's own,
// then what the run asks for, then the proxy exceptions. In each list the last
// value of a name counts.
func runEnviron(own, allow, extra []string) []string {
	env := make(environ)
	for _, entry := range own {
		if name, value, ok := strings.Cut(entry, "="); ok && allowed(name, allowedNames, allow) {
			env[name] = value
		}
	}
	for _, entry := range extra {
		if name, value, ok := strings.Cut(entry, "="); ok {
			env[name] = value
		}
	}
	env.exceptLoopback()
	return env.entries()
}

type environ map[string]string

// exceptLoopback keeps an agent from sending what is meant for this machine to a
// company's proxy. Programs differ in which spelling they read, so both say the
// same.
func (e environ) exceptLoopback() {
	var list []string
	for _, host := range append(
		append(strings.Split(e["NO_PROXY"], ","), strings.Split(e["no_proxy"], ",")...),
		"127.0.0.1", "localhost", "::1",
	) {
		if host = strings.TrimSpace(host); host != "" && !slices.Contains(list, host) {
			list = append(list, host)
		}
	}
	e["NO_PROXY"] = strings.Join(list, ",")
	e["no_proxy"] = e["NO_PROXY"]
}

func (e environ) entries() []string {
	out := make([]string, 0, len(e))
	for name, value := range e {
		out = append(out, name+"="+value)
	}
	slices.Sort(out)
	return out
}

// containedSecret is the length from which a secret is also looked for inside a
// value; a shorter one would be found everywhere.
const containedSecret = 8

// guardEnviron takes out what must never reach a child: the relay's own
// variables, and any that holds one of the secrets, under whatever name. It
// returns the names it took out.
func guardEnviron(env, secrets []string) (kept, out []string) {
	for _, entry := range env {
		name, value, _ := strings.Cut(entry, "=")
		if reserved(name) || holdsSecret(value, secrets) {
			out = append(out, name)
			continue
		}
		kept = append(kept, entry)
	}
	return kept, out
}

func holdsSecret(value string, secrets []string) bool {
	return slices.ContainsFunc(secrets, func(secret string) bool {
		return value == secret || len(secret) >= containedSecret && strings.Contains(value, secret)
	})
}
