package acp

import "fmt"

// Codes of failures. Callers in the field know most of them from the daemons they
// talk to today.
const (
	CodePayload         = "acp.daemon_config_invalid" // a member of the payload is wrong
	CodeEmptyPrompt     = "acp.daemon_empty_prompt"   // neither text nor attachment
	CodeInitialize      = "acp.initialize_timeout"    // no answer to initialize in time
	CodeTimeout         = "acp.daemon_timeout"        // no session, or no end of the turn, in time
	CodeProtocol        = "acp.protocol_error"        // the agent answered with an error
	CodeProtocolVersion = "acp.protocol_version"      // the agent speaks another version
	CodeAuthRequired    = "acp.auth_required"         // the agent wants a login first
	CodeResponse        = "acp.response_invalid"      // an answer that says nothing usable
	CodeSessionMissing  = "acp.session_missing"       // nothing to take up, and no new one wanted
	CodeExited          = "acp.process_exited"        // the agent ended before its turn did
	CodeEmptyResponse   = "acp.empty_response"        // a turn without a word or a tool call
	CodeRefused         = "acp.refused"               // the agent refused to go on
	CodeAgentCancelled  = "acp.turn_cancelled"        // the agent says cancelled; nobody here did
)

// Failure is why a run failed: the data of its run.failed. All errors of
// [ParsePayload] and [Run] are of this type, except that of a run whose context
// ended and of an event that could not be given away.
type Failure struct {
	// Code is one of the Code constants.
	Code string
	// Text is for people and says what to do. It holds no value of the
	// environment.
	Text string
	// Member is the member of the payload that is wrong, empty for other causes.
	Member string
	// Exit is how the agent's process ended, nil when that is not the cause.
	Exit *Exit
	// StderrTail is the end of what the agent wrote to its standard error output,
	// of an agent that failed.
	StderrTail string
	// Retryable says that the same run may well succeed later.
	Retryable bool
}

// Error gives the text.
func (f *Failure) Error() string { return f.Text }

// Exit is how a process ended.
type Exit struct {
	// Code is the exit code, -1 when a signal ended it.
	Code int
	// Signal is the number of the signal that ended it, 0 for none.
	Signal int
}

// String is "exit 7" or "signal 9".
func (e Exit) String() string {
	if e.Signal != 0 {
		return fmt.Sprintf("signal %d", e.Signal)
	}
	return fmt.Sprintf("exit %d", e.Code)
}

// headOf gives at most limit bytes of a text, cut between characters.
func headOf(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && s[limit]&0xc0 == 0x80 {
		limit--
	}
	return s[:limit]
}
