// Package wire is the codec of coding-relay-v1: it turns one WebSocket message
// into one [Frame], or one thing to say into the bytes of one message. The hub's
// side, the daemon's side and the simulator share it.
//
// It is pure: no socket, goroutine, clock or log. What it decides is in
// protocol sections 1 (what a frame is, sizes), 2 (types and keys), 3.2 (what a
// hello must hold), 4.7 (errors for tool calls) and 10 (extensions). What a frame
// means, and who may send it, is decided elsewhere.
//
//	message ──▶ [Decoder.Decode]   ──▶ [Frame] ──▶ [ParseHello], [ParseReady], [ParseReceipt]
//	message ──▶ [Decoder.Oversize] ──▶ [Frame]
//	[AppendEvent], [AppendStart] and their kin ──▶ message
//
// # What is proven
//
// A WebSocket library can hand over a cut message without an error. So a message
// is proven to be one complete JSON object (RFC 8259) before anything in it
// counts, and a strict prefix of an object is never an object. The one exception
// is [Frame.JobID] of an ignored or oversize message, which says whose message
// was lost.
//
// That costs one pass for ordinary messages: a scanner proves them, wide words at
// a time, and finds the frame's keys without decoding what they hold. It only ever
// says that a message is certainly one, with these keys, or nothing; then a strict
// decoder decides, and gives the reasons. On amd64 the scanner's two inner loops
// are in assembly (SSE2, part of every amd64); the same two in plain Go finish
// what is left of them, and are all there is elsewhere.
//
// # What is changed
//
// Valid JSON passes byte for byte: number and id tokens, white space, the order
// and repetition of names below the top level. Two kinds of text that peers in
// the field write are mended: the bare tokens NaN, Infinity and -Infinity become
// null, and a lone surrogate escape or a byte that is not UTF-8 becomes U+FFFD.
// A [Frame.Body] is always valid JSON in valid UTF-8.
package wire
