// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package input

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// Reading, and opening, end with the context though nothing comes, and what came before is read.
func TestUntil(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	from, to := io.Pipe()
	defer to.Close()
	in := Until(ctx, from)
	go func() {
		if _, err := to.Write([]byte("abc")); err != nil {
			t.Error(err)
		}
	}()
	got := make([]byte, 8)
	if n, err := in.Read(got); err != nil || string(got[:n]) != "abc" {
		t.Fatalf("read %q, %v", got[:n], err)
	}
	go cancel() // while the second read waits, or before
	if n, err := in.Read(got); n != 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("then read %q, %v", got[:n], err)
	}
	waits := make(chan struct{})
	defer close(waits)
	if _, err := OpenUntil(ctx, func() (*os.File, error) {
		<-waits
		return nil, os.ErrNotExist
	}); !errors.Is(err, context.Canceled) {
		t.Errorf("opened with %v", err)
	}
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, []byte("abc"), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := OpenUntil(t.Context(), func() (*os.File, error) { return os.Open(name) })
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if text, err := io.ReadAll(Until(t.Context(), file)); err != nil || string(text) != "abc" {
		t.Errorf("read %q, %v", text, err)
	}
}
