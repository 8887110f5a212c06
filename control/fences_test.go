package control_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"codingrelay/actors"
	"codingrelay/control"
	"codingrelay/lease"
)

// fence raises the fence of a daemon id by losing its connection in mid-run.
func (h *house) fence(id string) control.Fence {
	h.t.Helper()
	p := h.connect(id)
	run := h.start(p, func(r *control.RunRequest) { r.DaemonID = id })
	p.leave()
	if out := h.ended(run.RunID); out.Result != "disconnected" || out.FenceID == "" {
		h.t.Fatalf("outcome is %+v, want a fence", out)
	}
	f, err := h.client.Fence(testContext(h.t), id)
	if err != nil {
		h.t.Fatalf("fence of %q: %v", id, err)
	}
	return f
}

// Ids hold slashes, spaces, dots, percent signs and any script: each finds its
// own fence by path, by id and by hash, and is lifted by it.
func TestAnyDaemonIDFindsItsFence(t *testing.T) {
	h := open(t, setup{})
	for _, id := range []string{"a/b", "..", ".", "a b", "büro/größe 1", "%2F", "a?b#c", "clear", "会/议", "\"q\"", "a//b/", "+"} {
		f := h.fence(id)
		if f.DaemonID != id || f.SHA256 != lease.Key(id) || len(f.Unresolved) != 1 || f.Unresolved[0].Reason != "daemon_disconnected" {
			t.Errorf("fence of %q is %+v", id, f)
		}
		byHash, err := h.client.Fence(testContext(t), "sha256:"+strings.ToUpper(f.SHA256))
		if err != nil || !cmp.Equal(f, byHash) {
			t.Errorf("fence of %q by hash is %+v, %v", id, byHash, err)
		}
		_, err = h.client.ClearFence(testContext(t), id, "another", "looked")
		if e := refusedWith(t, err, http.StatusConflict, actors.CodeFenceChanged); e.FenceID != f.FenceID {
			t.Errorf("refusal of %q names fence %q, want %q", id, e.FenceID, f.FenceID)
		}
		cleared, err := h.client.ClearFence(testContext(t), id, f.FenceID, "looked")
		if err != nil || cleared.FenceID != f.FenceID {
			t.Errorf("clear of %q is %+v, %v", id, cleared, err)
		}
		_, err = h.client.Fence(testContext(t), id)
		refusedWith(t, err, http.StatusNotFound, control.CodeNotFound)
	}
	fact := h.facts.await(t, actors.FactFenceCleared)
	if fact.Operator != "api from 127.0.0.1" || fact.Text != "looked" {
		t.Errorf("the audit says %+v", fact)
	}
}

// A clear without fence_id or reason, or of no daemon, is refused.
func TestClearNeedsToKnowWhatItDoes(t *testing.T) {
	h := open(t, setup{})
	f := h.fence("d")
	for _, body := range []string{
		`{}`, `{"fence_id":"` + f.FenceID + `"}`, `{"reason":"looked"}`, `{"fence_id":"` + f.FenceID + `","reason":" "}`,
		`{"fence_id":"` + f.FenceID + `","reason":"looked","force":true}`, ``,
	} {
		h.wants(h.ask("POST", "/v1/fences/d/clear", body), 400, "invalid_request")
	}
	for _, path := range []string{"/v1/fences/sha256:12/clear", "/v1/fences/%01/clear", "/v1/fences/" + strings.Repeat("x", 129) + "/clear"} {
		h.wants(h.ask("POST", path, `{"fence_id":"f","reason":"looked"}`), 400, "invalid_request")
	}
	list, err := h.client.Fences(testContext(t))
	if err != nil || len(list) != 1 || !cmp.Equal(list[0], f) {
		t.Errorf("fences are %+v, %v; want %+v", list, err, f)
	}
}

// Protocol section 6: a list of fences is cleared item by item, each judged alone.
func TestBulkClearJudgesEachAlone(t *testing.T) {
	h := open(t, setup{})
	one, two, three := h.fence("one"), h.fence("two"), h.fence("three")
	results, err := h.client.ClearFences(testContext(t), []control.ClearItem{
		{DaemonID: "one", FenceID: one.FenceID},
		{DaemonID: "two", FenceID: one.FenceID},
		{SHA256: three.SHA256, FenceID: three.FenceID},
		{DaemonID: "none", FenceID: "f"},
		{DaemonID: "one", SHA256: one.SHA256, FenceID: one.FenceID},
		{FenceID: "f"},
		{SHA256: "zz", FenceID: "f"},
		{DaemonID: "two"},
	}, "looked at all of them")
	if err != nil {
		t.Fatalf("clear: %v", err)
	}
	want := []string{"cleared", "fence_changed", "cleared", "fence_changed", "invalid_request", "invalid_request", "invalid_request", "invalid_request"}
	var got []string
	for _, r := range results {
		switch {
		case r.Cleared && r.Error == nil:
			got = append(got, "cleared")
		case !r.Cleared && r.Error != nil:
			got = append(got, string(r.Error.Short()))
		default:
			t.Errorf("result is %+v", r)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("results differ (-want +got):\n%s", diff)
	}
	left, err := h.client.Fences(testContext(t))
	if err != nil || len(left) != 1 || left[0].FenceID != two.FenceID {
		t.Errorf("left are %+v, %v; want that of two", left, err)
	}
	_, err = h.client.ClearFences(testContext(t), make([]control.ClearItem, control.BulkMax+1), "looked")
	refusedWith(t, err, 400, actors.CodeInvalidRequest)
	_, err = h.client.ClearFences(testContext(t), nil, "looked")
	refusedWith(t, err, 400, actors.CodeInvalidRequest)
	_, err = h.client.ClearFences(testContext(t), []control.ClearItem{{DaemonID: "two", FenceID: two.FenceID}}, " ")
	refusedWith(t, err, 400, actors.CodeInvalidRequest)
}

// Daemons are listed with their runs, and as fenced while they are both.
func TestDaemonsAreListed(t *testing.T) {
	h := open(t, setup{hub: actors.Config{CancelTimeout: 50 * time.Millisecond}})
	if list, err := h.client.Daemons(testContext(t)); err != nil || list == nil || len(list) != 0 {
		t.Errorf("daemons are %v, %v; want []", list, err)
	}
	p := h.connect("d")
	run := h.start(p)
	list, err := h.client.Daemons(testContext(t))
	if err != nil || len(list) != 1 {
		t.Fatalf("daemons are %v, %v", list, err)
	}
	d := list[0]
	if d.DaemonID != "d" || !cmp.Equal(d.OpenRuns, []string{run.RunID}) || d.Fenced || string(d.Metadata) != `{"pid":1}` || d.Incarnation != run.Incarnation {
		t.Errorf("daemon is %+v", d)
	}
	if _, err := h.client.Cancel(testContext(t), run.RunID); err != nil {
		t.Fatal(err)
	}
	list, err = h.client.Daemons(testContext(t))
	if err != nil || len(list) != 1 || !list[0].Fenced || len(list[0].OpenRuns) != 0 {
		t.Errorf("daemons are %+v, %v; want d, fenced", list, err)
	}
}
