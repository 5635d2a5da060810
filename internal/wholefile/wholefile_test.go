package wholefile_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"gatehouse.dev/internal/wholefile"
)

// What was there stays until all of the new is, and a write that fails leaves nothing.
func TestWrite(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "file")
	write := func(content string, failure error) error {
		return wholefile.Write(name, func(out io.Writer) error {
			if _, err := io.WriteString(out, content); err != nil {
				return err
			}
			return failure
		})
	}
	expect := func(want string) {
		t.Helper()
		got, err := os.ReadFile(name)
		if want != "" && err != nil || string(got) != want {
			t.Errorf("the file has %q (%v), want %q", got, err, want)
		}
		entries, err := os.ReadDir(dir)
		if err != nil || len(entries) > 1 || want == "" && len(entries) > 0 {
			t.Errorf("the directory has %v (%v)", entries, err)
		}
	}
	broken := errors.New("broken off")
	if err := write("half", broken); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	expect("")
	if err := write("one", nil); err != nil {
		t.Fatal(err)
	}
	expect("one")
	if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if err := write("half", broken); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	expect("one")
	if err := write("two", nil); err != nil {
		t.Fatal(err)
	}
	expect("two")
}
