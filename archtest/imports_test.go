package archtest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// The libraries that more than one room uses.
const (
	hollywood = "github.com/anthdm/hollywood/actor"
	websocket = "github.com/coder/websocket"
	uuid      = "github.com/google/uuid"
	jsonv2    = "github.com/go-json-experiment/json"
	jsontext  = "github.com/go-json-experiment/json/jsontext"
)

// rooms says what the product code of each package may import beside the
// standard library. A package that is not here is a breach: a new room needs a
// line, so that it is seen.
var rooms = map[string][]string{
	"wire":        {jsonv2, jsontext},
	"lease":       {jsonv2, jsontext},
	"step":        {hollywood},
	"transport":   {module + "/wire", websocket, "golang.org/x/sys/unix"},
	"persist":     {module + "/lease", jsonv2, jsontext, "github.com/gofrs/flock"},
	"containment": {"golang.org/x/sys/unix", "golang.org/x/sys/windows"},
	"actors":      {module + "/lease", module + "/step", module + "/wire", hollywood, uuid},
	"daemon": {
		module + "/containment", module + "/lease", module + "/persist", module + "/step", module + "/transport", module + "/wire",
		hollywood, uuid, jsonv2, jsontext,
	},
	"control": {
		module + "/actors", module + "/lease", module + "/persist", module + "/wire", uuid, jsonv2, jsontext, "golang.org/x/time/rate", "golang.org/x/sync/semaphore",
		"github.com/prometheus/client_golang/prometheus", "github.com/prometheus/client_golang/prometheus/collectors",
		"github.com/prometheus/client_golang/prometheus/promhttp",
	},
	"cmd/relay": {
		module + "/actors", module + "/containment", module + "/control", module + "/daemon", module + "/lease", module + "/persist",
		module + "/transport", module + "/wire", uuid, jsonv2, jsontext, websocket,
		"github.com/lmittmann/tint", "github.com/spf13/cobra", "github.com/spf13/pflag",
		"golang.org/x/term", "golang.org/x/time/rate",
	},
	"mcp":      {},
	"acp":      {jsonv2, jsontext},
	"jsonl":    {jsonv2, jsontext},
	"bench":    {module + "/actors", module + "/control", module + "/persist", module + "/transport", module + "/wire", websocket},
	"archtest": {},
}

// forbidden are parts of the standard library that a room must not know.
var forbidden = map[string][]string{
	"wire":      {"net", "net/http", "os", "sync", "log/slog", "testing"},
	"lease":     {"net", "net/http", "os", "sync", "log/slog", "testing"},
	"step":      {"net", "net/http", "os", "testing"},
	"actors":    {"net/http", "os", "os/exec", "testing"},
	"transport": {"os", "os/exec", "testing"},
	"persist":   {"net", "net/http", "os/exec", "testing"},
	"daemon":    {"net/http/httptest", "testing"},
	"control":   {"net/http/httptest", "testing"},
	"mcp":       {"os", "os/exec", "testing"},
	"cmd/relay": {"net/http/httptest", "testing"},
}

// importRule judges product files; tests may put rooms together.
func importRule(s source) []string {
	if s.isTest() {
		return nil
	}
	allowed, known := rooms[s.pkg()]
	if !known {
		return []string{fmt.Sprintf(": package %q is in no line of the table of rooms", s.pkg())}
	}
	var out []string
	for _, path := range s.imports() {
		first, _, _ := strings.Cut(path, "/")
		std := !strings.Contains(first, ".") && first != module
		if std && !slices.Contains(forbidden[s.pkg()], path) || slices.Contains(allowed, path) {
			continue
		}
		out = append(out, fmt.Sprintf(": %s must not import %s", s.pkg(), path))
	}
	return out
}

// The arrows of the README: rooms below know nothing of rooms above, policy
// knows no socket, file or HTTP, and the engine is behind step and the facades.
func TestImportDirections(t *testing.T) { breaches(t, importRule) }

func TestImportDirectionsCatchBreaches(t *testing.T) {
	head := "package x\nimport (\n"
	mustFind(t, importRule, planted(t, "actors/x.go", head+`"time"; "codingrelay/wire"; "codingrelay/persist")`), "codingrelay/persist")
	mustFind(t, importRule, planted(t, "transport/x.go", head+`"codingrelay/actors")`), "codingrelay/actors")
	mustFind(t, importRule, planted(t, "actors/x.go", head+`"net/http")`), "net/http")
	mustFind(t, importRule, planted(t, "wire/x.go", head+`"github.com/google/uuid")`), "uuid")
	mustFind(t, importRule, planted(t, "util/x.go", "package util"), "table of rooms")
	mustFind(t, importRule, planted(t, "actors/x_test.go", head+`"codingrelay/persist")`))
}
