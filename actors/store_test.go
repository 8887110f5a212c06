package actors_test

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"codingrelay/actors"
	"codingrelay/lease"
	"codingrelay/persist"
)

// Design 5, at acquire: a full disk refuses the run, nothing was sent, and the id
// is usable once there is room.
func TestFullDiskAtAcquireRefusesTheRun(t *testing.T) {
	store := persist.NewFaulty(folder(t, t.TempDir()), persist.Fault{Op: persist.OpSave, Nth: 1, Err: syscall.ENOSPC})
	h := open(t, store, actors.Config{StoreRetry: time.Millisecond})
	p := connect(t, h.addr, "box", token)
	_, err := h.Run(testContext(t), actors.RunRequest{DaemonID: "box", Payload: []byte(`{}`)})
	if e := refused(t, err, actors.CodeStateUnavailable); !e.Retryable() || !strings.Contains(e.Message, "folder") {
		t.Errorf("refusal is %v", e)
	}
	p.barrier() // no run.start before the pong
	r := h.run(p, actors.RunRequest{})
	p.finish(r.ID())
	wants(t, h.outcome(r), actors.Finished, true)
}

// Design 5, at fencing: the outcome is told with durable:false, the id is fenced
// all the same, the save is retried, and a restart finds the fence.
func TestFullDiskAtFencingStillFences(t *testing.T) {
	dir := t.TempDir()
	files := folder(t, dir)
	store := persist.NewFaulty(files, persist.Fault{Op: persist.OpSave, Nth: 2, Err: syscall.ENOSPC})
	h := open(t, store, actors.Config{StoreRetry: 20 * time.Millisecond})
	p := connect(t, h.addr, "box", token)
	r := h.run(p, actors.RunRequest{})
	out, err := r.Cancel(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	wants(t, out, actors.Cancelled, false)
	if out.Durable {
		t.Error("the outcome says durable although the save failed")
	}
	_, err = h.Run(testContext(t), actors.RunRequest{DaemonID: "box", Payload: []byte(`{}`)})
	refused(t, err, actors.CodeFenced)
	until(t, "the save is retried", func() bool {
		s, err := h.Status(testContext(t))
		return err == nil && !s.StoreFailing && s.Fences == 1 && store.Calls(persist.OpSave) >= 3
	})
	entries, err := files.Load()
	if err != nil || len(entries) != 1 || entries[0].FenceID != out.FenceID || entries[0].Record.Reason == "" {
		t.Fatalf("the store holds %+v, %v, want fence %s with a reason", entries, err, out.FenceID)
	}
}

// Design 5, at release: the outcome is told, the removal is retried.
func TestFullDiskAtReleaseIsRetried(t *testing.T) {
	files := folder(t, t.TempDir())
	store := persist.NewFaulty(files, persist.Fault{Op: persist.OpRemove, Nth: 1, Err: syscall.ENOSPC})
	h := open(t, store, actors.Config{StoreRetry: 20 * time.Millisecond})
	p := connect(t, h.addr, "box", token)
	r := h.run(p, actors.RunRequest{})
	p.finish(r.ID())
	wants(t, h.outcome(r), actors.Finished, true)
	until(t, "the record is removed", func() bool {
		entries, err := files.Load()
		return err == nil && len(entries) == 0
	})
	again := h.run(p, actors.RunRequest{})
	p.finish(again.ID())
	wants(t, h.outcome(again), actors.Finished, true)
}

// Design 5: a save that completes after it counted as failed is followed by its
// removal, so that no innocent id is fenced after a restart.
func TestLateSaveIsRemoved(t *testing.T) {
	files := folder(t, t.TempDir())
	hold := persist.NewHold()
	store := persist.NewFaulty(files, persist.Fault{Op: persist.OpSave, Nth: 1, Hold: hold})
	h := open(t, store, actors.Config{StoreTimeout: 50 * time.Millisecond, StoreRetry: 10 * time.Second})
	p := connect(t, h.addr, "box", token)
	_, err := h.Run(testContext(t), actors.RunRequest{DaemonID: "box", Payload: []byte(`{}`)})
	refused(t, err, actors.CodeStateUnavailable)
	hold.Release()
	until(t, "the late record is removed", func() bool {
		entries, err := files.Load()
		return err == nil && len(entries) == 0 && store.Calls(persist.OpRemove) > 0
	})
	p.barrier()
}

// I7: what the store holds at start is fenced before anything listens, with the
// same fence id, whoever wrote it; a daemon that comes back is refused.
func TestRestartFindsTheFence(t *testing.T) {
	dir := t.TempDir()
	first := folder(t, dir)
	h := open(t, first, actors.Config{})
	p := connect(t, h.addr, "box", token)
	r := h.run(p, actors.RunRequest{})
	before, err := first.Load() // what a crash at this instant would leave
	if err != nil || len(before) != 1 {
		t.Fatalf("the store holds %v, %v, want the open run", before, err)
	}
	crashed := persist.NewMemory()
	if err := crashed.Save(*before[0].Record); err != nil {
		t.Fatal(err)
	}
	p.finish(r.ID())
	h.outcome(r)

	second := open(t, crashed, actors.Config{})
	fences, err := second.Fences(testContext(t))
	if err != nil || len(fences) != 1 || fences[0].FenceID != before[0].FenceID || fences[0].Key != lease.Key("box") {
		t.Fatalf("fences are %+v, %v, want %s", fences, err, before[0].FenceID)
	}
	_, err = second.Run(testContext(t), actors.RunRequest{DaemonID: "box", Payload: []byte(`{}`)})
	refused(t, err, actors.CodeFenced)
	again := dial(t, second.addr)
	again.hello("box", token)
	if ce := again.closed(); ce.Code != 1008 || !strings.Contains(ce.Reason, before[0].FenceID) {
		t.Errorf("closed with %d %q", ce.Code, ce.Reason)
	}
	if _, err := second.ClearFence(testContext(t), "sha256:"+lease.Key("box"), fences[0].FenceID, "looked", "tester"); err != nil {
		t.Fatalf("clear by hash: %v", err)
	}
	connect(t, second.addr, "box", token)
}
