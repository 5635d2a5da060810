// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package recorded

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// rotatedName matches the names that kube-apiserver gives to logs when it begins another: the time
// before the suffix, and .gz behind it if they are compressed.
// Source: gopkg.in/natefinch/lumberjack.v2/lumberjack.go#backupName c7fdc5d1
var rotatedName = regexp.MustCompile(`^(.+)-(\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d\.\d{3})(\.[^.]*)?(\.gz)?$`)

// logName matches the names that are read in a directory.
var logName = regexp.MustCompile(`\.(log|json|jsonl|ndjson)(\.gz)?$`)

// series reads the files that one server wrote, in the order of time: rotated ones and the live one,
// or a file alone.
type series struct {
	reader  *Reader
	files   []string
	current *file
	// live is opened before anything is read, so that rotating it meanwhile loses nothing.
	live *file
	// head is the event that comes next, if it was read already.
	head *event
	// begun reports whether an event was returned. skip says that the first one of the current file is
	// the head.
	begun, skip bool
}

// maxOpen is how many series may be open before their turn. With more of them, a series is closed
// once its first event is known, and is opened again when that event is the next.
const maxOpen = 64

// collect returns the series of files and directories.
func (r *Reader) collect(names []string) ([]*series, error) {
	groups := map[string]*series{}
	var all []*series
	add := func(group, name string) {
		s := groups[group]
		if s == nil {
			s = &series{reader: r}
			groups[group] = s
			all = append(all, s)
		}
		if !slices.Contains(s.files, name) {
			s.files = append(s.files, name)
		}
	}
	for _, name := range names {
		if name == "-" {
			add("-", name)
			continue
		}
		info, err := os.Stat(name)
		if err != nil {
			return nil, fmt.Errorf("reading recorded requests: %w", err)
		}
		if !info.IsDir() {
			add(groupOf(name), name)
			continue
		}
		entries, err := os.ReadDir(name)
		if err != nil {
			return nil, fmt.Errorf("reading recorded requests: %w", err)
		}
		found := false
		for _, entry := range entries {
			path := filepath.Join(name, entry.Name())
			// A link to a file is read, as a directory of a mounted volume has them.
			info, err := os.Stat(path)
			if err != nil || info.IsDir() || !logName.MatchString(entry.Name()) {
				continue
			}
			if !info.Mode().IsRegular() { // a pipe could block forever
				return nil, fmt.Errorf("reading recorded requests: %s is not a regular file: name it by itself", path)
			}
			found = true
			add(groupOf(path), path)
		}
		if !found {
			return nil, fmt.Errorf("reading recorded requests: directory %s has no file whose name ends with .log, .json, "+
				".jsonl or .ndjson, or with one of them and .gz", name)
		}
	}
	for _, s := range all {
		s.sort()
		for _, name := range s.files {
			if info, err := os.Stat(name); err == nil && info.Mode().IsRegular() {
				r.total += info.Size()
			}
		}
	}
	if groups["-"] != nil {
		r.total = 0
	}
	return all, nil
}

// groupOf returns what the names of the files of a series have in common.
func groupOf(name string) string {
	dir, file := filepath.Split(filepath.Clean(name))
	if m := rotatedName.FindStringSubmatch(file); m != nil {
		return dir + m[1] + m[3]
	}
	return dir + file
}

// timeOf returns the time in a rotated file's name, which sorts as text; of a live file one behind
// all others.
func timeOf(name string) string {
	if m := rotatedName.FindStringSubmatch(filepath.Base(name)); m != nil {
		return m[2]
	}
	return "~"
}

// sort sorts the files by time. If a file is there compressed and as it was, because it is being
// compressed, the compressed one is left out.
func (s *series) sort() {
	slices.SortStableFunc(s.files, func(a, b string) int { return cmp.Compare(timeOf(a), timeOf(b)) })
	s.files = slices.DeleteFunc(s.files, func(name string) bool {
		plain, compressed := strings.CutSuffix(name, ".gz")
		return compressed && slices.Contains(s.files, plain)
	})
}

// open opens the live file.
func (s *series) open() error {
	last := s.files[len(s.files)-1]
	if last == "-" {
		in, err := s.reader.stream("-", s.reader.options.Stdin, func() error { return nil })
		s.live = in
		return err
	}
	if timeOf(last) != "~" {
		return nil
	}
	var err error
	s.live, err = s.reader.openFile(last)
	return err
}

// next returns the next event.
func (s *series) next() (*event, error) {
	for {
		if s.current == nil {
			if len(s.files) == 0 {
				return nil, io.EOF
			}
			err := s.openNext()
			if err != nil {
				return nil, err
			}
			continue
		}
		e, err := s.current.next()
		if err == nil && s.skip {
			s.skip = false
			continue
		}
		if !errors.Is(err, io.EOF) {
			return e, err
		}
		err = s.current.close()
		if s.current = nil; err != nil {
			return nil, fmt.Errorf("reading recorded requests: %w", err)
		}
	}
}

// openNext opens the next file. A server removes the oldest logs while newer ones are read, and
// compresses others: a log that is gone is noted.
func (s *series) openNext() (err error) {
	name := s.files[0]
	if s.files = s.files[1:]; len(s.files) == 0 && s.live != nil {
		s.current, s.live = s.live, nil
		return nil
	}
	if s.current, err = s.reader.openFile(name); errors.Is(err, fs.ErrNotExist) {
		if s.current, err = s.reader.openFile(name + ".gz"); errors.Is(err, fs.ErrNotExist) {
			s.reader.note("%s: the log was removed before it could be read", name)
			return nil
		}
	}
	return err
}

// park closes the file of the head, so that next begins with it again.
func (s *series) park() error {
	if s.current == nil || s.current.name == "-" {
		return nil
	}
	s.files, s.skip = slices.Insert(s.files, 0, s.current.name), true
	err := s.current.close()
	if s.current = nil; err != nil {
		return fmt.Errorf("reading recorded requests: %w", err)
	}
	return nil
}

// close closes the files that are open.
func (s *series) close() error {
	var errs []error
	for _, f := range []*file{s.current, s.live} {
		if f != nil {
			errs = append(errs, f.close())
		}
	}
	s.current, s.live, s.files = nil, nil, nil
	return errors.Join(errs...)
}

// earlier reports whether the series' next event was written before another's. Their times sort as
// text; AdmissionReviews without one come first.
func (s *series) earlier(than *series) bool { return string(s.head.at) < string(than.head.at) }
