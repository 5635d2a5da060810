// Package wholefile writes files that are there as a whole or not at all.
package wholefile

import (
	"errors"
	"io"
	"os"
	"path/filepath"
)

// Write makes name, with mode 0600, what write writes: all of it or nothing, also after a crash. A
// file that was there stays as it is where write fails.
func Write(name string, write func(io.Writer) error) error {
	dir := filepath.Dir(name)
	tmp, err := os.CreateTemp(dir, "."+filepath.Base(name)+"-") // CreateTemp's mode is 0600
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	err = write(tmp)
	if err == nil {
		err = tmp.Sync()
	}
	if err := errors.Join(err, tmp.Close()); err != nil {
		return err
	}
	if err := os.Rename(tmp.Name(), name); err != nil {
		return err
	}
	return syncDir(dir)
}

// syncDir makes what files a directory has outlast a crash, and their order of coming.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
