// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/component-base/metrics/testutil"

	"gatehouse.dev/apis/decisions/v1alpha1"
	"gatehouse.dev/internal/linelog"
)

func logged(name string) *v1alpha1.Decision {
	return &v1alpha1.Decision{TypeMeta: metav1.TypeMeta{Kind: "Decision"}, ObjectMeta: metav1.ObjectMeta{Name: name},
		Message: strings.Repeat("m", 1000)}
}

func open(t *testing.T, o Options) *Log {
	t.Helper()
	log, err := o.OpenLog()
	if err != nil {
		t.Fatal(err)
	}
	return log
}

// namesIn are the decisions in what was logged, in order.
func namesIn(t *testing.T, content []byte) []string {
	t.Helper()
	var names []string
	for line := range bytes.Lines(content) {
		var d v1alpha1.Decision
		if err := json.Unmarshal(line, &d); err != nil {
			t.Fatalf("%v in line %q", err, line)
		}
		names = append(names, d.Name)
	}
	return names
}

// The file is its owner's, what was in it stays, and everything that was told is in it once the log
// is closed.
func TestLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "logs", "decisions.log")
	const tellers, each = 8, 100
	for range 2 {
		log := open(t, Options{LogPath: path})
		var all sync.WaitGroup
		for teller := range tellers {
			all.Go(func() {
				for i := range each {
					log.Tell(logged(fmt.Sprintf("%d-%d", teller, i)))
				}
			})
		}
		all.Wait()
		if err := log.Close(); err != nil {
			t.Fatal(err)
		}
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	names := namesIn(t, content)
	next := map[string]int{}
	for _, name := range names {
		teller, number, _ := strings.Cut(name, "-")
		if want := fmt.Sprint(next[teller] % each); number != want {
			t.Fatalf("of %s came %s, want %s", teller, number, want)
		}
		next[teller]++
	}
	if len(names) != 2*tellers*each {
		t.Errorf("%d decisions, want %d", len(names), 2*tellers*each)
	}
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if info, err := os.Stat(filepath.Dir(path)); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// It is rotated by size, and old files are kept, as those of the audit log are, by number; they are
// their owner's, too.
func TestLogRotates(t *testing.T) {
	for _, test := range []struct {
		options Options
		files   int
		suffix  string
	}{
		{Options{LogMaxSize: 1}, 4, ".log"},
		{Options{LogMaxSize: 1, LogMaxBackup: 1}, 2, ".log"},
		{Options{LogMaxSize: 1, LogMaxBackup: 1, LogCompress: true}, 2, ".log.gz"},
	} {
		dir := t.TempDir()
		test.options.LogPath = filepath.Join(dir, "decisions.log")
		log := open(t, test.options)
		for i := range 3 << 10 { // of more than a kilobyte each
			log.Tell(logged(fmt.Sprint(i)))
		}
		if err := log.Close(); err != nil {
			t.Fatal(err)
		}
		// Old files are looked after in the background.
		var files []os.DirEntry
		if err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, 30*time.Second, true,
			func(context.Context) (done bool, err error) {
				files, err = os.ReadDir(dir)
				return len(files) == test.files && strings.HasSuffix(files[0].Name(), test.suffix), err
			}); err != nil {
			t.Errorf("%+v: %v: the files are %v", test.options, err, files)
		}
		for _, file := range files {
			if info, err := file.Info(); err != nil || info.Mode() != 0o600 || info.Size() > 1<<20 {
				t.Errorf("%s: %v, %d bytes, %v", file.Name(), info.Mode(), info.Size(), err)
			}
		}
	}
}

// "-" is the standard output, which stays open.
func TestLogToStandardOutput(t *testing.T) {
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout := os.Stdout
	os.Stdout = write
	defer func() { os.Stdout = stdout }()
	log := open(t, Options{LogPath: "-"})
	log.Tell(logged("a"))
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := write.WriteString(`{"metadata":{"name":"after"}}` + "\n"); err != nil {
		t.Fatal(err)
	}
	write.Close()
	content, err := io.ReadAll(read)
	if err != nil {
		t.Fatal(err)
	}
	if names := namesIn(t, content); strings.Join(names, " ") != "a after" {
		t.Errorf("what was written is of %q", names)
	}
}

// full is a disk that is full for a while.
type full struct {
	bytes.Buffer
	errors int
}

func (f *full) Write(line []byte) (int, error) {
	if f.errors > 0 {
		f.errors--
		return 0, errors.New("no space left on device")
	}
	return f.Buffer.Write(line)
}

func (*full) Close() error { return nil }

// What can't be written is counted, and what comes later is written.
func TestLogOnAFullDisk(t *testing.T) {
	registerMetrics()
	before, err := testutil.GetCounterMetricValue(logErrorsTotal)
	if err != nil {
		t.Fatal(err)
	}
	disk := &full{errors: 2}
	log := &Log{linelog.New(disk, linelog.Options{OnError: logErrorsTotal.Inc})}
	for _, name := range []string{"a", "b", "c"} {
		log.Tell(logged(name))
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	after, err := testutil.GetCounterMetricValue(logErrorsTotal)
	if err != nil {
		t.Fatal(err)
	}
	if names := namesIn(t, disk.Bytes()); after-before != 2 || strings.Join(names, " ") != "c" {
		t.Errorf("%v errors, written is %q", after-before, names)
	}
}

// A path that can't be written is an error that names the flag.
func TestLogThatCantBe(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, filepath.Join(file, "decisions.log")} {
		o := Options{LogPath: path}
		if log, err := o.OpenLog(); err == nil || !strings.Contains(err.Error(), "--decision-log-path: ") ||
			!strings.Contains(err.Error(), file) && path != dir {
			t.Errorf("%s: %v, %v", path, log, err)
		}
	}
	if log, err := (&Options{}).OpenLog(); log != nil || err != nil {
		t.Errorf("%v, %v", log, err)
	}
}
