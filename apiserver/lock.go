package apiserver

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// lockDir makes the calling process the only user of dir, which is created where it doesn't exist,
// for as long as the file it returns is open.
func lockDir(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("data directory %s can't be created: %w", dir, err)
	}
	name := filepath.Join(dir, "lock")
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("data directory %s can't be written: %w", dir, err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		defer f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			owner, _ := io.ReadAll(io.LimitReader(f, 32))
			return nil, fmt.Errorf("data directory %s is in use by process %s: stop it, or choose another --data-dir",
				dir, strings.TrimSpace(string(owner)))
		}
		return nil, fmt.Errorf("data directory %s can't be locked: %w", dir, err)
	}
	if err := errors.Join(f.Truncate(0), writeAt(f, fmt.Sprintf("%d\n", os.Getpid()))); err != nil {
		f.Close()
		return nil, fmt.Errorf("data directory %s can't be written: %w", dir, err)
	}
	return f, nil
}

func writeAt(f *os.File, text string) error {
	_, err := f.WriteAt([]byte(text), 0)
	return err
}
