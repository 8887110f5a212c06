// Package jsonl follows a command-line agent that prints one JSON object a line
// (claude -p --output-format stream-json, codex exec --json), for one run: each
// object becomes an event under a name of its own, and the line in which the agent
// gives its result ends the run, whether or not the process then ends.
//
// It knows neither the daemon nor how processes are started; giving the prompt and
// ending the process, with everything it started, is the embedder's part.
package jsonl
