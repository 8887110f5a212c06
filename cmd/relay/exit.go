package main

import (
	"fmt"
	"slices"
	"strings"

	"codingrelay/actors"
	"codingrelay/control"
)

// The exit codes of the binary. They are a contract: scripts and service
// managers read them. exitCodes explains each.
const (
	exitOK            = 0
	exitFailed        = 1
	exitUsage         = 2
	exitNotFound      = 3
	exitAuth          = 4
	exitConflict      = 5
	exitUnreachable   = 6
	exitHalted        = 78
	exitTimeout       = 124
	exitRelayFailed   = 125
	exitNotExecutable = 126
	exitNoCommand     = 127
	exitSignalBase    = 128
	exitInterrupted   = 130
)

var exitCodes = []struct {
	codes   string
	code    int
	meaning string
}{
	{"0", exitOK, "done; for `run`: the command ended with 0"},
	{"1", exitFailed, "failed, and none of the codes below says it better"},
	{"2", exitUsage, "wrong usage or configuration; nothing was started"},
	{"3", exitNotFound, "what was named does not exist"},
	{"4", exitAuth, "the token is missing or not accepted"},
	{"5", exitConflict, "fenced, cancelling, in use by another process, or a clean-up that could not be confirmed"},
	{"6", exitUnreachable, "the hub cannot be reached, the daemon is offline, or there is no room; trying again can help"},
	{"78", exitHalted, "`daemon`: halted for good because a run's clean-up was not confirmed; a service manager must not restart it"},
	{"124", exitTimeout, "`run`: the run's timeout passed"},
	{"125", exitRelayFailed, "`run`: the relay itself failed, or the run could not be started for another reason than 126 and 127"},
	{"126", exitNotExecutable, "`run`: the command was found but cannot be executed"},
	{"127", exitNoCommand, "`run`: the command was not found on the daemon's machine"},
	{"128+n", exitSignalBase, "`run`: the command was ended by signal n, or the run was cancelled, clean, because signal n came here (130 for Ctrl-C, 143 for TERM)"},
	{"130", exitInterrupted, "interrupted; for `run` at the third Ctrl-C: left without waiting, the hub goes on"},
}

// errorCode says of a stable error code what exit code it gives and what to do
// when the error itself does not know better.
type errorCode struct {
	code    string
	exit    int
	meaning string
	fix     string
}

// The codes that daemons give to runs they do not take or end themselves, and
// those that only the binary itself gives.
const (
	codeDraining       = "daemon_draining"
	codeStopping       = "daemon_stopping"
	codeUsage          = "usage"
	codeHubNotFound    = "hub_not_found"
	codeHubUnreachable = "hub_unreachable"
	codeStateLocked    = "state_locked"
	codeStateFolder    = "state_folder"
	codeTokenFile      = "token_file"
	codeHalted         = "daemon_halted"
	codeContainment    = "containment_unsupported"
	codeNotConfirmed   = "not_confirmed"
	codeStreamLost     = "stream_lost"
	codeInterrupted    = "interrupted"
	codeOutputClosed   = "output_closed"
	codeDemo           = "demo_failed"
)

// errorCodes is the one table of codes: it decides exit codes, and docs and
// help are made from it. The rows of protocol section 7 come first.
var errorCodes = []errorCode{
	{string(actors.CodeTokenRequired), exitUsage, "the shared profile needs a strong token", "relay token new --out FILE, then relay serve --shared --token-file FILE"},
	{string(actors.CodeHubConflict), exitConflict, "the hub is already started with another configuration", "stop it first, or use the same configuration"},
	{string(actors.CodeBindFailed), exitFailed, "the address cannot be listened on", "relay serve --listen 127.0.0.1:0 picks a free port"},
	{string(actors.CodeHubNotStarted), exitUnreachable, "the hub does not listen yet, or no more", "relay serve"},
	{string(actors.CodeHubStopping), exitUnreachable, "the hub is stopping", "try again when it is back"},
	{string(actors.CodeOffline), exitUnreachable, "the daemon is not connected", "start relay daemon on that machine, or give relay run --wait 1m"},
	{string(actors.CodeFenced), exitConflict, "the daemon is fenced: an earlier run on it was not confirmed to be gone", "relay fence show DAEMON says what to check and how to clear"},
	{string(actors.CodeCancelling), exitConflict, "a run on that daemon is being cancelled", "try again in a few seconds"},
	{string(actors.CodeBusy), exitUnreachable, "a limit on runs is reached", "try again later, or raise the limit"},
	{string(actors.CodeStateUnavailable), exitUnreachable, "the run could not be recorded, so it was not sent", "see that the hub's state folder is writable and has room"},
	{string(actors.CodeDisconnected), exitConflict, "the daemon's connection was lost during the run", "relay fence list"},
	{string(actors.CodePayloadTooLarge), exitUsage, "the payload is above what that daemon takes", "send less, or put it into a file of the workspace"},
	{string(actors.CodeRunNotFound), exitNotFound, "there is no such run (any more)", "relay ps"},
	{string(actors.CodeInvalidRequest), exitUsage, "the request is not understood", ""},
	{string(actors.CodeUnauthorized), exitAuth, "the API token is not accepted", "give the hub's own file: --api-token-file FILE"},
	{string(actors.CodeIdempotency), exitConflict, "the idempotency key was used for another request", "use a fresh key"},
	{string(actors.CodeFenceChanged), exitConflict, "another fence is up than the one that was named", "relay fence show DAEMON"},
	{string(control.CodeForbidden), exitAuth, "the API is not asked for by this name or from this web origin", "relay serve --api-host NAME or --api-origin ORIGIN"},
	{string(control.CodeNotFound), exitNotFound, "there is nothing of that name", "relay fence list, relay ps"},
	{string(control.CodeMethodNotAllowed), exitUsage, "the API does not know this method there", ""},
	{codeDraining, exitUnreachable, "the daemon is going away and takes no new runs", "choose another, or try again later"},
	{codeStopping, exitFailed, "the daemon ended the run because it is stopping", "try again when it is back"},
	{string(actors.CodeInternal), exitFailed, "a bug in the relay", ""},
	{codeUsage, exitUsage, "wrong usage", "relay help"},
	{codeHubNotFound, exitUnreachable, "no hub is known here", "relay serve, or --api URL for a hub elsewhere"},
	{codeHubUnreachable, exitUnreachable, "the hub does not answer", "relay serve"},
	{codeStateLocked, exitConflict, "another process uses the state folder", "stop that process, or use --state-dir DIR"},
	{codeStateFolder, exitUsage, "the state folder cannot be used", "use --state-dir DIR"},
	{codeTokenFile, exitUsage, "a token file cannot be used", "relay token new --out FILE"},
	{codeHalted, exitHalted, "the daemon could not confirm that a run's processes are gone, and halted", "look at the machine, then relay daemon --accept-unclean RUN"},
	{codeContainment, exitUsage, "this system offers no containment that was allowed", "on macOS: relay daemon --containment weak"},
	{codeNotConfirmed, exitConflict, "it is not confirmed that everything the run started is gone", "relay fence list"},
	{codeStreamLost, exitRelayFailed, "the run's event stream was lost", "relay ps, relay logs RUN"},
	{codeInterrupted, exitInterrupted, "interrupted", ""},
	{codeOutputClosed, exitSignalBase + 13, "nobody reads the output any more", ""},
	{codeDemo, exitFailed, "a claim of the demo did not hold", ""},
}

// lookUpCode finds a code's row. The code may carry the installation's prefix.
func lookUpCode(code string) (errorCode, bool) {
	bare := code[strings.LastIndexByte(code, '.')+1:]
	i := slices.IndexFunc(errorCodes, func(e errorCode) bool { return e.code == bare })
	if i < 0 {
		return errorCode{code: bare, exit: exitFailed}, false
	}
	return errorCodes[i], true
}

// exitHelp is the text of `relay help exit-codes`.
func exitHelp() string {
	var b strings.Builder
	b.WriteString("The exit code says what happened; `relay run` passes the command's own code through.\n\n")
	for _, e := range exitCodes {
		fmt.Fprintf(&b, "  %-6s %s\n", e.codes, e.meaning)
	}
	b.WriteString("\nWith --json an error is one object on stderr, with its code and exit_code:\n\n")
	for _, e := range errorCodes {
		fmt.Fprintf(&b, "  %-24s %3d  %s\n", e.code, e.exit, e.meaning)
	}
	return b.String()
}

// exitMarkdown is docs/exit-codes.md.
func exitMarkdown() string {
	var b strings.Builder
	b.WriteString("# Exit codes and error codes\n\n" +
		"Made from the table in `cmd/relay/exit.go`; a test checks that this page is current.\n\n" +
		"`relay run` passes the exit code of the command through. Where a code of the command could be taken for one\n" +
		"of the relay's, `relay run --json` tells them apart: its last line is `{\"type\":\"end\", …}` with the outcome.\n\n" +
		"| exit code | meaning |\n|---|---|\n")
	for _, e := range exitCodes {
		fmt.Fprintf(&b, "| %s | %s |\n", e.codes, e.meaning)
	}
	b.WriteString("\n## Error codes\n\n" +
		"An error is printed on stderr as `error:`, `cause:`, `fix:` and `code:` lines, with `--json` as one object\n" +
		"`{\"error\":{\"code\",\"message\",\"cause\",\"fix\",\"exit_code\",\"retryable\"}}`. Codes that come from the hub carry its\n" +
		"prefix (`--error-prefix`, default `agent_runtime`): `agent_runtime.daemon_fenced`.\n\n" +
		"| code | exit code | meaning | what to do |\n|---|---|---|---|\n")
	for _, e := range errorCodes {
		fmt.Fprintf(&b, "| `%s` | %d | %s | %s |\n", e.code, e.exit, e.meaning, e.fix)
	}
	return b.String()
}
