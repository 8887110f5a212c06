// Package persist keeps what must survive the process: the records that fence
// daemon ids, and the small private files beside them.
//
// It knows folders, files, locks and the order in which they reach the disk. It
// does not know what a fence is for: every entry it finds is handed over, and
// what to do about it is the fence actor's policy. Nothing here reads a clock
// for a decision, keeps a goroutine, or tries again by itself.
//
// # The folder of a store
//
// A store ([Open]) has a folder of its own and holds its lock for as long as it
// is open; two processes never share one (protocol section 6).
//
//	lock               the exclusive lock and who holds it; never removed
//	<hash>.json        the record of one daemon id, named by [lease.Key]
//	<hash>.pending     a marker left by a Python hub; the name is what counts
//	cleared/…/         what an operator cleared, moved aside, never deleted
//	.relay-tmp-…       a write that was cut short; removed at the next start
//
// Folders are 0700 and files 0600, from their first byte on and whatever the
// umask. A folder that is looser is tightened when it is empty or is seen to
// belong to a store, and refused otherwise: it could be a system folder. A
// looser entry is tightened when it is read.
//
// # What durable means
//
// Save writes a temporary file in the same folder, syncs it, renames it over the
// old one and syncs the folder. A process killed, or a machine without power, at
// any point leaves the old record or the new one. Removal is applied but not
// synced: a record that comes back fences an id that was free, which is the safe
// direction (design section 5). Windows cannot sync a folder; there a rename is
// as durable as the file system makes it.
//
// # Why no library for atomic files
//
// renameio and its portable half leave out what matters here: they do not sync
// the folder, may put the temporary file into TMPDIR (another file system, with
// other permissions), give it a name that cannot be told from a user's file
// after a crash, are not atomic on Windows, and have no seam at which a test can
// fail one step. The whole of it is about sixty lines in atomic.go.
package persist
