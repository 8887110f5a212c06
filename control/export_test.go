package control

import (
	"net/http"
	"time"

	"codingrelay/actors"
)

// SetSilence makes a client give a silent stream up sooner.
func (c *Client) SetSilence(d time.Duration) { c.silence = d }

// Wrap puts something between a client and the network.
func (c *Client) Wrap(with func(http.RoundTripper) http.RoundTripper) {
	c.http.Transport = with(c.http.Transport)
}

// Routes are the operations of the API, as "METHOD /path".
func (s *Server) Routes() []string {
	var list []string
	for _, rt := range s.table() {
		list = append(list, rt.method+" "+rt.path)
	}
	return list
}

// FailLogin counts a failed login at a time, and returns how long to wait.
func FailLogin() func(now time.Time, remote string) time.Duration { return newLogins().failed }

// Limits that tests stay at or go beyond.
const (
	BodyMax = bodyMax
	BulkMax = bulkMax
	LineMax = lineMax
)

// Decoder reads a body of POST /v1/runs.
func Decoder() (func([]byte) (actors.RunRequest, *APIError), error) {
	s, err := New(nil, Options{Token: "t"})
	if err != nil {
		return nil, err
	}
	return s.runRequest, nil
}
