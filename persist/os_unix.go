//go:build unix

package persist

import (
	"errors"
	"io/fs"
	"syscall"
)

// noFollow makes an open fail on a symbolic link.
const noFollow = syscall.O_NOFOLLOW

// holderOffset is where the holder's name begins in a lock file.
const holderOffset = 0

// loose tells whether others than the owner have any right.
func loose(mode fs.FileMode) bool { return mode.Perm()&0o077 != 0 }

// alive tells whether this machine runs a process of that id.
func alive(pid int) bool {
	err := syscall.Kill(pid, 0)
	return err == nil || errors.Is(err, syscall.EPERM)
}

// noFolderSync tells whether err is how a file system says that it does not
// know fsync on a folder. It offers nothing better then.
func noFolderSync(err error) bool {
	return errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP)
}
