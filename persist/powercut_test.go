package persist

import (
	"bytes"
	"errors"
	"os"
	"testing"

	"codingrelay/lease"
)

var errPower = errors.New("the power is gone")

// cutFolder is a folder on a disk that loses power after a number of steps. It
// keeps apart what a process sees and what the disk holds for sure: content
// counts only after the file's sync, names only after the folder's.
type cutFolder struct {
	left    int // steps until the power goes
	seen    map[string]*cutFile
	pending []func(names map[string]*cutFile) // changes of names, not yet synced
	durable map[string]*cutFile
}

type cutFile struct {
	content []byte
	synced  bool
}

func (d *cutFolder) power() error {
	if d.left == 0 {
		return errPower
	}
	d.left--
	return nil
}

func (d *cutFolder) change(c func(names map[string]*cutFile)) {
	c(d.seen)
	d.pending = append(d.pending, c)
}

func (d *cutFolder) create(name string, _ os.FileMode) (tempFile, error) {
	if err := d.power(); err != nil {
		return nil, err
	}
	file := &cutFile{}
	d.change(func(names map[string]*cutFile) { names[name] = file })
	return cutHandle{d, file}, nil
}

func (d *cutFolder) rename(from, to string) error {
	if err := d.power(); err != nil {
		return err
	}
	d.change(func(names map[string]*cutFile) {
		names[to] = names[from]
		delete(names, from)
	})
	return nil
}

func (d *cutFolder) remove(name string) error {
	if err := d.power(); err != nil {
		return err
	}
	d.change(func(names map[string]*cutFile) { delete(names, name) })
	return nil
}

func (d *cutFolder) mkdir(string) error                { return d.power() }
func (d *cutFolder) open(string) (folderHandle, error) { return cutHandle{d, nil}, d.power() }

// cutHandle is an open file, or (file nil) the open folder.
type cutHandle struct {
	disk *cutFolder
	file *cutFile
}

func (h cutHandle) Write(p []byte) (int, error) {
	if err := h.disk.power(); err != nil {
		return 0, err
	}
	h.file.content, h.file.synced = bytes.Clone(p), false
	return len(p), nil
}

func (h cutHandle) Sync() error {
	if err := h.disk.power(); err != nil {
		return err
	}
	if h.file != nil {
		h.file.synced = true
		return nil
	}
	for _, c := range h.disk.pending {
		c(h.disk.durable)
	}
	h.disk.pending = nil
	return nil
}

func (h cutHandle) Close() error { return nil }

// afterwards gives every content that a name can have when the power is back;
// nil stands for no such file. A disk may have written any number of the
// pending changes, and of an unsynced file nothing, a part, or zeros.
func (d *cutFolder) afterwards(name string) [][]byte {
	names := map[string]*cutFile{}
	for n, f := range d.durable {
		names[n] = f
	}
	var all [][]byte
	look := func() {
		f := names[name]
		switch {
		case f == nil:
			all = append(all, nil)
		case f.synced:
			all = append(all, f.content)
		default:
			all = append(all, []byte{}, f.content[:len(f.content)/2], make([]byte, len(f.content)), f.content)
		}
	}
	look()
	for _, c := range d.pending {
		c(names)
		look()
	}
	return all
}

// D29, I7: the power goes at every step of a save in turn. What the restart
// finds is the old record or the new one, and the new one for sure once Save
// has returned.
func TestPowerCutLeavesTheOldRecordOrTheNew(t *testing.T) {
	key := lease.Key("a")
	name := key + recordExt
	before, after := encoded(t, record("a", "old")), encoded(t, record("a", "new"))
	saves := 0
	for cut := range 20 {
		for _, old := range [][]byte{nil, before} {
			s := open(t, t.TempDir())
			disk := &cutFolder{left: cut, seen: map[string]*cutFile{}, durable: map[string]*cutFile{}}
			if old != nil {
				disk.seen[name] = &cutFile{content: old, synced: true}
				disk.durable[name] = disk.seen[name]
				put(t, s.dir, name, old) // the store looks there for what it replaces
			}
			s.disk = disk
			err := s.Save(record("a", "new"))
			if err != nil && !errors.Is(err, errPower) {
				t.Fatal(err)
			}
			for _, content := range disk.afterwards(name) {
				isOld := bytes.Equal(content, old) && (content == nil) == (old == nil)
				isNew := bytes.Equal(content, after)
				if err == nil && !isNew || !isNew && !isOld {
					t.Errorf("power cut after %d steps (Save = %v), old %.12q: the restart finds %.60q", cut, err, old, content)
				}
			}
			if err == nil {
				saves++
			}
			s.Close()
		}
	}
	if saves == 0 {
		t.Error("no save got through: the power was cut too early each time")
	}
}
