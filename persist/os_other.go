//go:build !unix

package persist

import "io/fs"

// noFollow is not known here; what was opened is compared with what was seen.
const noFollow = 0

// holderOffset is where the holder's name begins in a lock file: Windows locks
// byte 0 against every other handle, this process's own included.
const holderOffset = 1

// loose is unknown where permissions are lists: a new file inherits them from
// the user's own folder.
func loose(fs.FileMode) bool { return false }

// alive takes the lock file's word.
func alive(int) bool { return true }

// noFolderSync: a folder cannot be opened for fsync here.
func noFolderSync(error) bool { return true }
