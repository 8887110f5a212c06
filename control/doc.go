// Package control is the hub's HTTP API, and a client for it.
//
//	program ──▶ Client ──HTTP, SSE──▶ Server ──▶ actors.Hub
//
// It knows requests, tokens, addresses, event streams and status codes. What a
// run, a fence or a daemon may do is the hub's to decide: every handler asks the
// hub once and says what it answered. openapi.json describes every route; it is
// served, and the tests hold the handlers to it.
//
// # Who may ask
//
// Being on loopback proves nothing: any web page can send requests there. So each
// request passes, in this order, a list of Host names (against DNS rebinding), a
// list of Origins (absent is fine, since browsers always send it where it
// matters), [net/http.CrossOriginProtection], and a bearer token, compared in
// constant time. There are no cookies and no CORS headers. Wrong tokens are
// counted by address; the right one always gets in. /healthz, /readyz and
// /openapi.json need no token.
//
// # Attached and detached
//
// A POST /v1/runs whose Accept names text/event-stream is attached: its response
// is the run's caller. When that TCP connection ends, a grace of 10 s begins (the
// hub's AttachGrace), in which GET /v1/runs/{id}/events?attach=1 with
// Last-Event-ID takes over; then the run's on_disconnect applies. Without it the
// run is detached and no connection matters to it. Whoever says attach=1 becomes
// the caller, also of a run that was started detached, and the caller before is
// told that it was replaced.
//
// A caller that goes away before run.start was sent has nothing to take over: an
// attached run with on_disconnect cancel is given up then.
//
// # Streams
//
// Each entry of a run's log is one server-sent event. Its id is the entry's
// sequence number, which counts from 1, and which Last-Event-ID (or after=N)
// names to read on from there. The event's name says who speaks:
//
//	event: event      the daemon's event, verbatim, on one data line: line breaks
//	                  between JSON tokens become spaces, nothing else is touched
//	event: dropped    {"bytes":N}: a message of the run that could not be taken
//	event: truncated  {"from":N,"to":M}: entries that are gone; its id is M
//	event: started    the run, first thing in an attached stream; no id
//	event: replaced   {}: another stream has become the caller; do not come back
//	event: end        the outcome, last, and its only authority; no id
//
// A comment comes every 15 s. A reader that takes nothing for 30 s is let go. The
// attached stream stays however long it takes nothing: the run's on_overflow
// decides what its slowness means, and afterwards it is told what was truncated.
// Only when its run is over for 15 minutes, it is let go, too.
//
// Reading the hub and writing the socket are two goroutines with a small bounded
// queue between them. So the hub learns at once that a connection has ended, even
// one whose last write is still blocked.
package control
