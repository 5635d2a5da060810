// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package archive reads and writes the file of a backup: a tar archive of a snapshot of etcd, of
// the server's keys, and at its end of SHA-256 sums of all of them.
//
// The tools tar and sha256sum can inspect an archive, and etcd's own etcdutl accepts its snapshot.
// Read checks the archive to the last byte: a file that was cut or changed, or that is something
// else, is an error.
//
// The package can be imported, but docs/compatibility.md makes no promise about it: it may change with
// any release.
package archive

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"path"
	"slices"
	"strings"
	"time"
)

const (
	// Snapshot is the entry of etcd's snapshot, as etcdctl would save it.
	Snapshot = "etcd.db"
	sums     = "SHA256SUMS"
	keysDir  = "pki"

	// maxKey bounds the file of a key or of a certificate, and maxSums the list of sums, in bytes.
	maxKey, maxSums = 1 << 20, 1 << 16
)

// Keys are the files that may be beside the snapshot: the authority that signs certificates, and
// the key of service account tokens.
var Keys = []string{"ca.crt", "ca.key", "sa.key"}

// A Writer writes an archive. Its entries are written one after the other, and Close ends it.
type Writer struct {
	tar  *tar.Writer
	sums bytes.Buffer
	made time.Time
}

// NewWriter writes an archive to out of what there was at a time.
func NewWriter(out io.Writer, made time.Time) *Writer {
	// Every tar reads whole seconds. Truncating never gives a later time.
	return &Writer{tar: tar.NewWriter(out), made: made.Truncate(time.Second)}
}

// Key writes one of Keys.
func (w *Writer) Key(name string, content []byte) error {
	return w.entry(path.Join(keysDir, name), int64(len(content)), func(out io.Writer) error {
		_, err := out.Write(content)
		return err
	})
}

// Snapshot writes the snapshot, which has size bytes; write writes them.
func (w *Writer) Snapshot(size int64, write func(io.Writer) error) error {
	return w.entry(Snapshot, size, write)
}

// Close writes the archive's end.
func (w *Writer) Close() error {
	list := bytes.Clone(w.sums.Bytes())
	if err := w.header(sums, int64(len(list))); err != nil {
		return err
	}
	if _, err := w.tar.Write(list); err != nil {
		return err
	}
	return w.tar.Close()
}

func (w *Writer) entry(name string, size int64, write func(io.Writer) error) error {
	if err := w.header(name, size); err != nil {
		return err
	}
	sum := sha256.New()
	if err := write(io.MultiWriter(w.tar, sum)); err != nil {
		return err
	}
	w.sums.WriteString(line(name, sum))
	return w.tar.Flush()
}

func (w *Writer) header(name string, size int64) error {
	return w.tar.WriteHeader(&tar.Header{Name: name, Size: size, Mode: 0o600, ModTime: w.made})
}

// line returns the line of sha256sum for a file.
func line(name string, sum hash.Hash) string { return fmt.Sprintf("%x  %s\n", sum.Sum(nil), name) }

// Read reads an archive. It calls key for each key, and passes on the snapshot with its size and
// its time. If it returns an error, what it has passed on must not be used.
func Read(in io.Reader, key func(name string, content []byte) error,
	snapshot func(content io.Reader, size int64, made time.Time) error) error {
	r := tar.NewReader(in)
	var read string // the sums, as they must be
	seen := map[string]bool{}
	for {
		header, err := r.Next()
		switch {
		case errors.Is(err, io.EOF) && read == "", errors.Is(err, tar.ErrHeader) && read == "":
			return errors.New("it is no backup: no archive of gatehouse backup")
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return errors.New("it is cut: its end is missing")
		case err != nil:
			return fmt.Errorf("it is damaged: %w", err)
		case seen[header.Name]:
			return fmt.Errorf("it is damaged: it has %s twice", header.Name)
		}
		seen[header.Name] = true
		dir, name := path.Split(header.Name)
		sum := sha256.New()
		content := io.TeeReader(r, sum)
		switch {
		case header.Typeflag != tar.TypeReg || sparse(header):
			return fmt.Errorf("it is no backup: %q in it is no file", header.Name)
		case header.Name == sums:
			if err := end(r, in, read, seen[Snapshot]); err != nil {
				return cut(err)
			}
			return nil
		case header.Name == Snapshot:
			err = snapshot(content, header.Size, header.ModTime)
			if _, rest := io.Copy(io.Discard, content); err == nil {
				err = rest
			}
		case dir == keysDir+"/" && slices.Contains(Keys, name) && header.Size <= maxKey:
			var data []byte
			if data, err = io.ReadAll(content); err == nil {
				err = key(name, data)
			}
		default:
			return fmt.Errorf("it is no backup: it has a file %q of %d bytes", header.Name, header.Size)
		}
		if err != nil {
			return cut(err)
		}
		read += line(header.Name, sum)
	}
}

// sparse reports whether an entry has holes: it may be larger than any disk.
func sparse(header *tar.Header) bool {
	for name := range header.PAXRecords {
		if strings.HasPrefix(name, "GNU.sparse.") {
			return true
		}
	}
	return false
}

// end reads the sums and what must follow them: the two blocks of zeros that end every tar archive,
// and nothing more.
func end(entry, in io.Reader, read string, hasSnapshot bool) error {
	list, err := io.ReadAll(io.LimitReader(entry, maxSums))
	switch {
	case err != nil:
		return err
	case string(list) != read:
		return fmt.Errorf("it is damaged: the sums of its files are not those in %s", sums)
	case !hasSnapshot:
		return fmt.Errorf("it is no backup: it has no %s", Snapshot)
	}
	padding := (block - len(list)%block) % block
	rest := make([]byte, padding+2*block)
	if _, err := io.ReadFull(in, rest); err != nil {
		return err
	}
	if slices.ContainsFunc(rest, func(b byte) bool { return b != 0 }) {
		return errors.New("it is damaged: it doesn't end where it should")
	}
	// An error of the reader's is none of the file: all of it has been read.
	if n, err := io.ReadFull(in, rest[:1]); n > 0 {
		return errors.New("it is damaged: something follows its end")
	} else if !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// block is the size to which tar pads entries.
const block = 512

// cut says of an error that it is the file's end before its time.
func cut(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return errors.New("it is cut: its end is missing")
	}
	return err
}
