package wire

// skipPlain gives how many bytes of the inside of a string come before the first
// special one, or, when the last whole block of sixteen has none, before what is
// left of less than a block.
//
//go:noescape
func skipPlain(text []byte) int

// skipEscaped gives how many bytes of the inside of a string, which begins with a
// backslash, are certain, up to a place between two characters. It stops when
// escapes have become rare, or at a block with anything but ASCII, a quote that
// ends the string, or an escape that is rare itself. It may be none at all.
//
//go:noescape
func skipEscaped(text []byte) int
