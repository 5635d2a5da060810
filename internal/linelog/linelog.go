// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package linelog writes lines to a file that is rotated by size.
//
// One goroutine writes, so that callers don't wait for the disk. A line that can't be written is
// dropped and counted: a full disk refuses no requests.
package linelog

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"

	"gopkg.in/natefinch/lumberjack.v2"
	"k8s.io/klog/v2"
)

const (
	// maxLines and maxBytes bound the lines that wait for a busy disk. Only Offer heeds maxBytes.
	maxLines = 10_000
	maxBytes = 64 << 20
)

// Options say where a log is and how it is rotated.
type Options struct {
	// Name is what the process's own log calls it.
	Name string
	// Path is the file; "-" is the standard output.
	Path string
	// MaxSize is in megabytes. MaxAge is in days, and MaxBackups is a number of files; 0 is any.
	MaxSize, MaxAge, MaxBackups int
	Compress                    bool
	// OnError is called for each line that can't be written, by one goroutine.
	OnError func()
}

// A Log writes lines in the order in which they come.
type Log struct {
	options Options
	out     io.WriteCloser
	lines   chan []byte
	waiting atomic.Int64 // bytes in lines
	// closing is closed when no more lines come, written when all of them are written.
	closing, written chan struct{}
}

// Open opens a log. It creates the file if there is none, readable by its owner only. The error
// names the path.
func Open(o Options) (*Log, error) {
	if o.Path == "-" {
		return New(unclosedWriter{os.Stdout}, o), nil
	}
	if err := os.MkdirAll(filepath.Dir(o.Path), 0o700); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(o.Path, os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := file.Close(); err != nil {
		return nil, fmt.Errorf("closing %s: %w", o.Path, err)
	}
	return New(&lumberjack.Logger{Filename: o.Path, MaxSize: o.MaxSize, MaxAge: o.MaxAge, MaxBackups: o.MaxBackups,
		Compress: o.Compress}, o), nil
}

// New returns a log that writes to out. Of the options it heeds Name and OnError.
func New(out io.WriteCloser, o Options) *Log {
	l := &Log{options: o, out: out, lines: make(chan []byte, maxLines), closing: make(chan struct{}),
		written: make(chan struct{})}
	go l.write()
	return l
}

// Write takes a line, which ends with a newline. It waits while the disk is too busy. After Close it
// drops the line.
func (l *Log) Write(line []byte) {
	l.waiting.Add(int64(len(line)))
	select {
	case l.lines <- line:
	case <-l.closing:
	}
}

// Offer takes a line, which ends with a newline. It never waits: if too many lines wait already, or
// the log is closed, it drops the line and returns false.
func (l *Log) Offer(line []byte) bool {
	select {
	case <-l.closing:
		return false
	default:
	}
	size := int64(len(line))
	if l.waiting.Add(size) <= maxBytes {
		select {
		case l.lines <- line:
			return true
		default:
		}
	}
	l.waiting.Add(-size)
	return false
}

func (l *Log) write() {
	defer close(l.written)
	isFailing := false
	for {
		select {
		case line := <-l.lines:
			isFailing = l.put(line, isFailing)
		case <-l.closing:
			for {
				select {
				case line := <-l.lines:
					isFailing = l.put(line, isFailing)
				default:
					return
				}
			}
		}
	}
}

// put writes a line and reports whether that failed. Of several failures, it logs the first.
func (l *Log) put(line []byte, wasFailing bool) bool {
	l.waiting.Add(-int64(len(line)))
	_, err := l.out.Write(line)
	switch {
	case err == nil && wasFailing:
		klog.InfoS("Writing again", "log", l.options.Name, "path", l.options.Path)
	case err != nil:
		l.options.OnError()
		if !wasFailing {
			klog.ErrorS(err, "Cannot write, and drops lines until it can", "log", l.options.Name, "path", l.options.Path)
		}
	}
	return err != nil
}

// Close writes the lines that wait, and closes the file. It may be called once.
func (l *Log) Close() error {
	close(l.closing)
	<-l.written
	return l.out.Close()
}

// unclosedWriter is a writer that the process keeps open, such as the standard output.
type unclosedWriter struct{ io.Writer }

func (unclosedWriter) Close() error { return nil }
