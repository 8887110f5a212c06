package actors

import (
	"errors"
	"fmt"
)

// Code names what went wrong, without the installation's prefix (protocol
// section 7). Codes are stable: programs match on them.
type Code string

// The codes a caller can see.
const (
	CodeTokenRequired    Code = "daemon_token_required"
	CodeHubConflict      Code = "daemon_hub_conflict"
	CodeBindFailed       Code = "daemon_bind_failed"
	CodeHubNotStarted    Code = "daemon_hub_not_started"
	CodeHubStopping      Code = "hub_stopping"
	CodeOffline          Code = "daemon_offline"
	CodeFenced           Code = "daemon_fenced"
	CodeCancelling       Code = "daemon_cancelling"
	CodeBusy             Code = "daemon_busy"
	CodeStateUnavailable Code = "daemon_state_unavailable"
	CodeDisconnected     Code = "daemon_disconnected"
	CodePayloadTooLarge  Code = "payload_too_large"
	CodeRunNotFound      Code = "run_not_found"
	CodeInvalidRequest   Code = "invalid_request"
	CodeUnauthorized     Code = "unauthorized"
	CodeIdempotency      Code = "idempotency_conflict"
	CodeFenceChanged     Code = "fence_changed"
	CodeInternal         Code = "internal"
)

// Retryable reports whether the same request may succeed later without anybody
// changing anything.
func (c Code) Retryable() bool {
	switch c {
	case CodeHubStopping, CodeOffline, CodeCancelling, CodeBusy, CodeStateUnavailable:
		return true
	default:
		return false
	}
}

// Error is what the hub refuses or fails with.
type Error struct {
	// Prefix is the installation's error prefix; it is set by the facade.
	Prefix string
	Code   Code
	// Message says what failed and what to do.
	Message string
	// FenceID is set with CodeFenced and CodeFenceChanged.
	FenceID string
}

// Error prints prefix.code: message.
func (e *Error) Error() string { return e.FullCode() + ": " + e.Message }

// FullCode is the code as callers match it: prefix.code.
func (e *Error) FullCode() string {
	if e.Prefix == "" {
		return string(e.Code)
	}
	return e.Prefix + "." + string(e.Code)
}

// Retryable reports whether trying again later can help.
func (e *Error) Retryable() bool { return e.Code.Retryable() }

// CodeOf returns the code of an [Error] anywhere in err's chain, or "".
func CodeOf(err error) Code {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

func errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// The refusals that more than one actor gives, worded once: existing callers
// match these words (protocol section 7).

func errOffline(id string) *Error {
	return errorf(CodeOffline, "daemon %q is not connected; start it, or wait for it", id)
}

func errFenced(id, fenceID, why string) *Error {
	e := errorf(CodeFenced, "daemon %q is fenced (fence %s: %s): check on that machine that nothing of the old run is left, then clear the fence", id, fenceID, why)
	e.FenceID = fenceID
	return e
}

func errCancelling(id string) *Error {
	return errorf(CodeCancelling, "a run on daemon %q is cancelling; try again when its clean-up is confirmed", id)
}

func errStopping() *Error {
	return errorf(CodeHubStopping, "the hub is stopping; try again when it is back")
}
