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

// A Log writes decisions as lines of JSON, in the order in which they were made. A line that can't
// be written is dropped and counted. It refuses no request.
type Log struct {
	out   io.WriteCloser
	lines chan []byte
	// closing is closed when no more decisions come, written when all of them are written.
	closing, written chan struct{}
}

// logBuffer is the number of lines that wait for a busy disk. If there are more, requests wait, as
// they do for the audit log.
const logBuffer = 10_000

// OpenLog opens the log, nil without a LogPath. It creates the file if there is none, readable by
// its owner only.
func (o *Options) OpenLog() (*Log, error) {
	var out io.WriteCloser
	switch o.LogPath {
	case "":
		return nil, nil
	case "-":
		out = unclosedWriter{os.Stdout}
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
		klog.ErrorS(err, "Cannot encode a decision for the decision log", "decision", klog.KObj(d))
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
		klog.ErrorS(err, "Cannot write the decision log")
	}
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
