package decision

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"gopkg.in/natefinch/lumberjack.v2"
	"k8s.io/klog/v2"

	"gatehouse.dev/apis/decisions/v1alpha1"
)

// A Log writes decisions as lines of JSON, in the order in which they were made. What can't be
// written is lost and counted; requests are not refused for it.
type Log struct {
	out   io.WriteCloser
	lines chan []byte
	// closing is closed when no more is to come, written when all that came is written.
	closing, written chan struct{}
}

// logBuffer is how many lines may wait for a disk that is busy. Then requests wait, as they do for
// the audit log.
const logBuffer = 10_000

// OpenLog opens the log, nil where there is to be none. The file is made where there is none, for
// its owner alone.
func (o *Options) OpenLog() (*Log, error) {
	var out io.WriteCloser
	switch o.LogPath {
	case "":
		return nil, nil
	case "-":
		out = keptOpen{os.Stdout}
	default:
		if err := os.MkdirAll(filepath.Dir(o.LogPath), 0o700); err != nil {
			return nil, fmt.Errorf("--decision-log-path: %w", err)
		}
		file, err := os.OpenFile(o.LogPath, os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600)
		if err != nil {
			return nil, fmt.Errorf("--decision-log-path: %w", err)
		}
		file.Close()
		out = &lumberjack.Logger{Filename: o.LogPath, MaxSize: o.LogMaxSize, MaxAge: o.LogMaxAge,
			MaxBackups: o.LogMaxBackup, Compress: o.LogCompress}
	}
	return newLog(out), nil
}

func newLog(out io.WriteCloser) *Log {
	l := &Log{out: out, lines: make(chan []byte, logBuffer), closing: make(chan struct{}), written: make(chan struct{})}
	go l.write()
	return l
}

// Tell writes a decision.
func (l *Log) Tell(d *v1alpha1.Decision) {
	line, err := json.Marshal(d)
	if err != nil {
		klog.ErrorS(err, "Encoding a decision for the log", "decision", klog.KObj(d))
		return
	}
	select {
	case l.lines <- append(line, '\n'):
	case <-l.closing:
	}
}

func (l *Log) write() {
	defer close(l.written)
	for {
		select {
		case line := <-l.lines:
			l.put(line)
		case <-l.closing:
			for {
				select {
				case line := <-l.lines:
					l.put(line)
				default:
					return
				}
			}
		}
	}
}

func (l *Log) put(line []byte) {
	// As with the audit log, a disk that is full refuses no requests.
	if _, err := l.out.Write(line); err != nil {
		logErrorsTotal.Inc()
		klog.ErrorS(err, "Writing the decision log")
	}
}

// Close writes what waits, and closes the file. It may be called once.
func (l *Log) Close() error {
	close(l.closing)
	<-l.written
	return l.out.Close()
}

// keptOpen is not ours to close.
type keptOpen struct{ io.Writer }

func (keptOpen) Close() error { return nil }
