package control_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"codingrelay/control"
)

// scripted is a server whose n-th answer is the n-th text, as a stream; after the
// last it says nothing until the client goes.
func scripted(t *testing.T, texts ...string) (*control.Client, func() []string) {
	t.Helper()
	cursors := make(chan string, 100)
	answers := make(chan string, len(texts))
	for _, text := range texts {
		answers <- text
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		cursors <- r.Header.Get("Last-Event-ID")
		w.Header().Set("Content-Type", "text/event-stream")
		select {
		case text := <-answers:
			_, _ = io.WriteString(w, text)
		default:
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}
	}))
	t.Cleanup(srv.Close)
	c := control.NewClient(srv.URL, apiToken)
	c.ReconnectFor = 150 * time.Millisecond
	c.SetSilence(testTimeout)
	t.Cleanup(c.Close)
	return c, func() (all []string) {
		for len(cursors) > 0 {
			all = append(all, <-cursors)
		}
		return all
	}
}

// read gives what a client makes of the streams.
func read(t *testing.T, c *control.Client) (got string, err error) {
	t.Helper()
	for e, err := range c.Events(testContext(t), "r", 0, false) {
		if err != nil {
			return got, err
		}
		got += string(e.Kind) + " " + string(e.Data) + ";"
	}
	return got, nil
}

const scriptedEnd = "event: end\ndata: {\"result\":\"finished\"}\n\n"

// Server-sent events in every form that the format allows; what is cut short is
// none, and is asked for again.
func TestClientReadsTheFormat(t *testing.T) {
	const end = `end {"result":"finished"};`
	for name, c := range map[string]struct {
		texts []string
		want  string
	}{
		"plain":     {[]string{"id: 1\nevent: event\ndata: {}\n\n" + scriptedEnd}, "event {};" + end},
		"crlf":      {[]string{"id: 1\r\nevent: event\r\ndata: {}\r\n\r\n" + scriptedEnd}, "event {};" + end},
		"no_space":  {[]string{"id:1\nevent:event\ndata:{}\n\n" + scriptedEnd}, "event {};" + end},
		"comments":  {[]string{": a\n\n:\n\nid: 1\n: b\nevent: event\ndata: {}\n\n" + scriptedEnd}, "event {};" + end},
		"two_lines": {[]string{"id: 1\nevent: event\ndata: {\ndata: }\n\n" + scriptedEnd}, "event {\n};" + end},
		"unknown":   {[]string{"event: news\ndata: 1\n\nretry: 5\nfoo\n\nid: 1\nevent: event\ndata: {}\n\n" + scriptedEnd}, "event {};" + end},
		"cut_event": {[]string{"id: 1\nevent: event\ndata: {}\n\nid: 2\nevent: event\ndata: {\"x\":", "id: 2\nevent: event\ndata: 2\n\n" + scriptedEnd}, "event {};event 2;" + end},
		"cut_blank": {[]string{"id: 1\nevent: event\ndata: 1\n", "id: 1\nevent: event\ndata: 1\n\n" + scriptedEnd}, "event 1;" + end},
		"repeated":  {[]string{"id: 1\nevent: event\ndata: 1\n\n", "id: 1\nevent: event\ndata: 1\n\nid: 2\nevent: event\ndata: 2\n\n" + scriptedEnd}, "event 1;event 2;" + end},
		"truncated": {[]string{"id: 4\nevent: truncated\ndata: {\"from\":1,\"to\":4}\n\nid: 5\nevent: dropped\ndata: {\"bytes\":7}\n\n" + scriptedEnd}, `truncated {"from":1,"to":4};dropped {"bytes":7};` + end},
	} {
		client, _ := scripted(t, c.texts...)
		got, err := read(t, client)
		if err != nil || got != c.want {
			t.Errorf("%s: got %q, %v; want %q", name, got, err, c.want)
		}
	}
}

// A stream that breaks its rules is an error, and is not asked for again.
func TestClientRefusesABrokenStream(t *testing.T) {
	for name, text := range map[string]string{
		"gap":           "id: 2\nevent: event\ndata: {}\n\n",
		"no_id":         "event: event\ndata: {}\n\n",
		"bad_id":        "id: x\nevent: event\ndata: {}\n\n",
		"wrong_range":   "id: 4\nevent: truncated\ndata: {\"from\":2,\"to\":4}\n\n",
		"no_range":      "id: 4\nevent: truncated\ndata: null\n\n",
		"no_outcome":    "event: end\ndata: null\n\n",
		"broken_bytes":  "id: 1\nevent: dropped\ndata: {\n\n",
		"endless_line":  "data: " + strings.Repeat("x", control.LineMax+200<<10) + "\n\n",
		"endless_event": strings.Repeat("data: "+strings.Repeat("x", 1<<20)+"\n", 17) + "\n",
	} {
		client, cursors := scripted(t, text, text)
		if got, err := read(t, client); !errors.Is(err, control.ErrStream) {
			t.Errorf("%s: got %q, %v; want ErrStream", name, got, err)
		}
		if n := len(cursors()); n != 1 {
			t.Errorf("%s: asked %d times", name, n)
		}
	}
}

// Coming back is bounded: by time when nothing new comes, by nothing else.
func TestClientComesBackFromItsCursor(t *testing.T) {
	client, cursors := scripted(t, "id: 1\nevent: event\ndata: 1\n\n", "id: 2\nevent: event\ndata: 2\n\n", scriptedEnd)
	if got, err := read(t, client); err != nil || got != `event 1;event 2;end {"result":"finished"};` {
		t.Errorf("got %q, %v", got, err)
	}
	if got := strings.Join(cursors(), ","); got != ",1,2" {
		t.Errorf("cursors are %q, want ,1,2", got)
	}
	empty := make([]string, 200)
	client, cursors = scripted(t, empty...)
	got, err := read(t, client)
	var u *control.UnreachableError
	if got != "" || !errors.As(err, &u) {
		t.Errorf("streams that end at once give %q, %v", got, err)
	}
	if n := len(cursors()); n < 2 || n > 20 {
		t.Errorf("asked %d times within 150ms", n)
	}
}

// A connection from which nothing comes, not even a comment, is given up.
func TestClientNoticesASilentConnection(t *testing.T) {
	client, cursors := scripted(t, "id: 1\nevent: event\ndata: 1\n\n")
	client.SetSilence(30 * time.Millisecond)
	got, err := read(t, client)
	var u *control.UnreachableError
	if got != "event 1;" || !errors.As(err, &u) || !strings.Contains(err.Error(), "nothing came") {
		t.Errorf("got %q, %v", got, err)
	}
	if n := len(cursors()); n < 2 {
		t.Errorf("asked %d times, want it to have come back", n)
	}
}
