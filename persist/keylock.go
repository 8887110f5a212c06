package persist

import "sync"

// keyLocks serializes what concerns one key and nothing else. A removal that
// follows a save which hangs in its sync thus comes after it.
type keyLocks struct {
	mu   sync.Mutex
	keys map[string]*keyLock
}

type keyLock struct {
	mu    sync.Mutex
	users int // holder and waiters; guarded by keyLocks.mu
}

// lock returns the function that unlocks.
func (k *keyLocks) lock(key string) (unlock func()) {
	k.mu.Lock()
	if k.keys == nil {
		k.keys = make(map[string]*keyLock)
	}
	l := k.keys[key]
	if l == nil {
		l = new(keyLock)
		k.keys[key] = l
	}
	l.users++
	k.mu.Unlock()

	l.mu.Lock()
	return func() {
		l.mu.Unlock()
		k.mu.Lock()
		defer k.mu.Unlock()
		if l.users--; l.users == 0 {
			delete(k.keys, key)
		}
	}
}
