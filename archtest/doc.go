// Package archtest holds the rules of the house as tests: which package may
// know which, what policy files may use, how long files and functions are, and
// that what the documents name exists. It has no code of its own.
//
// Each rule is a function over parsed files, and each has a second test that
// shows it a planted breach: a rule that cannot fail proves nothing.
package archtest
