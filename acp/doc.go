// Package acp drives an agent that speaks the Agent Client Protocol over its
// standard streams (agentclientprotocol.com, protocol version 1), for one run: it
// opens or takes up a session, gives the prompt, and turns what the agent reports
// into the events of protocol section 9.
//
// It knows neither the daemon nor how processes are started: [ParsePayload] says
// what a caller wants, the embedder starts that command, and [Run] talks to it
// through an [Agent]. Ending the process and everything it started is the
// embedder's part, after Run has returned.
//
// The rules are in a state machine without clock, goroutine or stream
// (machine.go); run.go alone has those. What the agent prints is cut into lines of
// at most [LineBytesMax]; lines that are no JSON object are noise, which an agent
// is free to make.
package acp
