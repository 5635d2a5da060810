// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package recorded

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// names returns the names of the requests' objects, in order.
func names(all []*Request) string {
	var out []string
	for _, q := range all {
		name := q.Name
		if q.Unjudged == Unreadable {
			name = "?"
		}
		out = append(out, name)
	}
	return strings.Join(out, " ")
}

func zipped(t testing.TB, content string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := io.WriteString(w, content); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestFaultsOfLogs(t *testing.T) {
	one, two, three := createdMap("one", "1", 1).line(), createdMap("two", "1", 2).line(), createdMap("three", "1", 3).line()
	received, started := createdMap("x", "1", 4), createdMap("x", "1", 5)
	received.stage, started.stage = "RequestReceived", "ResponseStarted"
	panicked := createdMap("x", "1", 6)
	panicked.stage, panicked.code = "Panic", 500
	item := strings.TrimSpace(two)
	list := `{"kind":"EventList","apiVersion":"audit.k8s.io/v1","metadata":{},"items":[` + item + "," + strings.TrimSpace(three) + "]}"
	for name, test := range map[string]struct {
		log, names, note, err string
		count                 func(Counts) int
		want                  int
	}{
		"whole":                 {log: one + two, names: "one two"},
		"empty":                 {log: ""},
		"empty lines":           {log: "\n" + one + "\n  \n" + two, names: "one two"},
		"no end of line":        {log: one + strings.TrimSpace(two), names: "one two"},
		"truncated":             {log: one + two[:len(two)/2], names: "one", note: "audit.log:2: the last line isn't complete"},
		"truncated first line":  {log: two[:len(two)/2], note: "audit.log:1: the last line isn't complete"},
		"cut off in the middle": {log: one + two[:len(two)/2] + "\n" + three, names: "one ? three", note: notObject(2)},
		"first line cut off":    {log: two[:len(two)/2] + "\n" + three, names: "? three", note: notObject(1)},
		"text":                  {log: "I0102 started\n" + one, names: "? one", note: notObject(1)},
		"text at the end":       {log: one + "started", names: "one ?", note: notObject(2)},
		"array":                 {log: "[" + item + "]\n" + one, names: "? one", note: notObject(1)},
		"a NUL":                 {log: one + strings.Replace(two, "two", "t\x00o", 1) + three, names: "one ? three", note: notObject(2)},
		"ten thousand levels": {log: one + `{"kind":` + strings.Repeat("[", 10001) + strings.Repeat("]", 10001) + "}\n" + three,
			names: "one ? three", note: notObject(2)},
		"a namespace that leads elsewhere": {log: one + strings.ReplaceAll(two, `"default"`, `"../../y"`) + three,
			names: "one ? three", note: `audit.log:2: left out: there is no namespace "../../y"`},
		"a namespace with a NUL": {log: one + strings.ReplaceAll(two, `"default"`, `"a\u0000b"`) + three,
			names: "one ? three", note: `audit.log:2: left out: there is no namespace "a\x00b"`},
		"a namespace of megabytes": {log: one + strings.ReplaceAll(two, `"default"`, `"`+strings.Repeat("n", 3<<20)+`"`) + three,
			names: "one ? three", note: `audit.log:2: left out: there is no namespace "nnn`},
		"a review of such a namespace": {log: `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"namespace":"../y"}}` +
			"\n" + one, names: "? one", note: `audit.log:1: left out: there is no namespace "../y"`},
		"list":              {log: one + list + "\n", names: "one two three"},
		"list of something": {log: `{"kind":"EventList","apiVersion":"audit.k8s.io/v1","items":[1]}` + "\n", err: "audit.log:1: the items"},
		"gzip":              {log: zipped(t, one+two), names: "one two"},
		"gzip twice":        {log: zipped(t, one) + zipped(t, two), names: "one two"},
		"gzip cut off": {log: func() string { z := zipped(t, one+two); return z[:len(z)-20] }(), names: "one",
			note: "the last line isn't complete"},
		"twice": {log: one + two + one, names: "one two", count: func(c Counts) int { return c.Duplicates }, want: 1},
		"other stages": {log: received.line() + started.line() + one, names: "one",
			count: func(c Counts) int { return c.OtherStages }, want: 2},
		"panic": {log: panicked.line() + one, names: "one", count: func(c Counts) int { return c.Panics }, want: 1},
		"unknown kind": {log: `{"kind":"Event","apiVersion":"v1"}` + "\n" + one, names: "one", note: "audit.log:1: the line is neither",
			count: func(c Counts) int { return c.Others }, want: 1},
		"unknown version": {log: strings.Replace(one, "audit.k8s.io/v1", "audit.k8s.io/v9", 1) + two, names: "two",
			note: "audit.log:1: the line is neither", count: func(c Counts) int { return c.Others }, want: 1},
		"beta": {log: strings.Replace(one, "audit.k8s.io/v1", "audit.k8s.io/v1beta1", 1), names: "one"},
		"reads": {log: audit{verb: "get", name: "a"}.line() + audit{verb: "watch"}.line() + audit{verb: "list"}.line() + one,
			names: "one", count: func(c Counts) int { return c.Reads }, want: 3},
		"not served": {log: audit{verb: "create", resource: "lamps", code: 404}.line() + one, names: "one",
			count: func(c Counts) int { return c.NeverAdmitted }, want: 1},
		"not allowed": {log: audit{verb: "create", code: 403, decision: "forbid", request: "{}"}.line() + one, names: "one",
			count: func(c Counts) int { return c.NeverAdmitted }, want: 1},
		"access reviews": {log: audit{verb: "create", group: "authorization.k8s.io", resource: "selfsubjectaccessreviews"}.line() +
			audit{verb: "create", group: "authentication.k8s.io", resource: "tokenreviews"}.line() + one, names: "one",
			count: func(c Counts) int { return c.AccessReviews }, want: 2},
	} {
		t.Run(name, func(t *testing.T) {
			for _, stdin := range []bool{false, true} {
				file, options := logFile(t, test.log), Options{}
				if stdin {
					file, options.Stdin = "-", strings.NewReader(test.log)
				}
				all, r, err := readAll(t, options, file)
				if test.err != "" {
					want := test.err
					if stdin {
						want = strings.Replace(want, "audit.log", "-", 1)
					}
					if err == nil || !strings.Contains(err.Error(), want) {
						t.Errorf("error %v, want %s", err, want)
					}
				} else if err != nil {
					t.Fatal(err)
				}
				if notes := strings.Join(r.Notes(), ""); len(notes) > 1000 {
					t.Errorf("the notes have %d bytes", len(notes))
				}
				if strings.Contains(test.names, "?") {
					options.Strict, options.Stdin = true, strings.NewReader(test.log)
					before, _, _ := strings.Cut(test.names, "?")
					read, _, err := readAll(t, options, file)
					if err == nil || names(read) != strings.TrimSpace(before) {
						t.Errorf("strictly: requests %q, error %v", names(read), err)
					}
				}
				if got := names(all); got != test.names {
					t.Errorf("requests %q, want %q", got, test.names)
				}
				if notes := strings.Join(r.Notes(), "\n"); stdin {
				} else if !strings.Contains(notes, test.note) || test.note == "" && notes != "" {
					t.Errorf("notes %q, want %q", notes, test.note)
				}
				c := r.Counts()
				if sum := c.Writes + c.OtherStages + c.Panics + c.Duplicates + c.Reads + c.AccessReviews + c.NeverAdmitted +
					c.Others; sum != c.Records {
					t.Errorf("counts %+v: their sum is %d", c, sum)
				}
				if test.count != nil && test.count(r.Counts()) != test.want {
					t.Errorf("counts %+v, want %d", r.Counts(), test.want)
				}
			}
		})
	}
}

// notObject is the note on a line that isn't an object.
func notObject(line int) string {
	return fmt.Sprintf("audit.log:%d: left out: the line isn't a JSON object", line)
}

// A record that takes several lines is an error that says how to write it on one.
func TestSeveralLines(t *testing.T) {
	pretty := strings.ReplaceAll(createdMap("one", "1", 1).line(), `,"`, ",\n  \"")
	for name, log := range map[string]string{
		"list":   "{\n\"items\": [\n" + pretty + "],\n\"kind\": \"EventList\",\n\"apiVersion\": \"audit.k8s.io/v1\"\n}\n",
		"events": "{\n" + pretty[1:] + pretty,
	} {
		file := logFile(t, log)
		if _, _, err := readAll(t, Options{}, file); err == nil || !strings.Contains(err.Error(), "jq -c . "+file) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

func TestRecordLimit(t *testing.T) {
	large := createdMap("large", strings.Repeat("x", 15<<20), 1) // twice: as request and as response
	log := createdMap("one", "1", 2).line() + large.line() + createdMap("two", "1", 3).line()
	all, _, err := readAll(t, Options{}, logFile(t, log))
	if err != nil || names(all) != "one large two" || len(all[1].Object) < 15<<20 {
		t.Fatalf("requests %s, error %v", names(all), err)
	}
	all, r, err := readAll(t, Options{MaxRecordBytes: 1 << 20}, logFile(t, log))
	if notes := strings.Join(r.Notes(), "\n"); err != nil || names(all) != "one ? two" ||
		!strings.Contains(notes, "audit.log:2: left out: record is too long: it has more than 1048576 bytes") {
		t.Errorf("requests %s, notes %s, error %v", names(all), notes, err)
	}
}

// endless is a log that never ends by itself.
type endless struct {
	next func() string
	rest string
	left int
}

func (e *endless) Read(p []byte) (int, error) {
	if e.rest == "" {
		if e.left--; e.left < 0 {
			return 0, io.EOF
		}
		e.rest = e.next()
	}
	n := copy(p, e.rest)
	e.rest = e.rest[n:]
	return n, nil
}

// A log of any size takes the memory of its last objects, no more.
func TestMemoryIsBounded(t *testing.T) {
	value := strings.Repeat("x", 20_000)
	n := 0
	in := &endless{left: 4000, next: func() string {
		n++
		return createdMap("m"+strings.Repeat("i", n%7)+"-"+time.Duration(n).String(), value, n).line()
	}}
	r, err := Open(t.Context(), []string{"-"}, Options{Stdin: in, StateBytes: 4 << 20})
	if err != nil {
		t.Fatal(err)
	}
	var most uint64
	for i := 0; ; i++ {
		record, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if record.Decode(); i%1000 == 999 {
			runtime.GC()
			var stats runtime.MemStats
			runtime.ReadMemStats(&stats)
			most = max(most, stats.HeapAlloc)
		}
	}
	if n != 4000 { // 160 MB
		t.Errorf("%d events", n)
	}
	if most > 60<<20 {
		t.Errorf("the heap had %d MiB", most>>20)
	}
	if notes := strings.Join(r.Notes(), "\n"); !strings.Contains(notes, "no more than 4 MiB of objects are kept, and ") {
		t.Errorf("notes %q", notes)
	}
}

// A log that is written to while it is read ends where it ended when it was opened.
func TestGrowingLog(t *testing.T) {
	one, two := createdMap("one", "1", 1).line(), createdMap("two", "1", 2).line()
	name := logFile(t, one+two[:100])
	r, err := Open(t.Context(), []string{name}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(two[100:] + createdMap("three", "1", 3).line()); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	record, err := r.Next()
	if err != nil || record.Decode().Name != "one" {
		t.Fatalf("first record: %v", err)
	}
	if _, err := r.Next(); !errors.Is(err, io.EOF) {
		t.Fatalf("error %v", err)
	}
	if read, total := r.Progress(); read != total || total != int64(len(one)+100) {
		t.Errorf("read %d of %d bytes", read, total)
	}
}

func TestRotatedLogs(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	first := write("audit-2026-01-02T03-04-05.000.log.gz", zipped(t, createdMap("first", "1", 1).line()))
	second := write("audit-2026-01-02T03-04-05.001.log", createdMap("second", "1", 2).line())
	write("audit-2026-01-02T03-04-05.001.log.gz", "half of it") // it is being compressed
	live := write("audit.log", createdMap("live", "1", 3).line())
	write("notes.txt", "not a log")
	all, r, err := readAll(t, Options{}, dir)
	if err != nil || names(all) != "first second live" {
		t.Errorf("requests %q, error %v", names(all), err)
	}
	if len(r.Notes()) > 0 {
		t.Errorf("notes %q", r.Notes())
	}
	if all, _, err = readAll(t, Options{}, live, second, first); err != nil || names(all) != "first second live" {
		t.Errorf("files: requests %q, error %v", names(all), err)
	}
	if all, _, err = readAll(t, Options{}, dir, live); err != nil || names(all) != "first second live" {
		t.Errorf("one twice: requests %q, error %v", names(all), err)
	}

	// While the log is read the server rotates it, and removes the oldest.
	r, err = Open(t.Context(), []string{dir}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(second); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(second + ".gz"); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(live, filepath.Join(dir, "audit-2026-01-02T03-05-05.000.log")); err != nil {
		t.Fatal(err)
	}
	write("audit.log", createdMap("new", "1", 4).line())
	var got []string
	for {
		record, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, record.Decode().Name)
	}
	if !slices.Equal(got, []string{"first", "live"}) {
		t.Errorf("requests %q", got)
	}
	if notes := strings.Join(r.Notes(), "\n"); !strings.Contains(notes, "the log was removed before it could be read") {
		t.Errorf("notes %q", notes)
	}
	if _, err := Open(t.Context(), []string{t.TempDir()}, Options{}); err == nil || !strings.Contains(err.Error(), "has no file whose name") {
		t.Errorf("empty directory: %v", err)
	}
	if _, err := Open(t.Context(), []string{filepath.Join(dir, "missing")}, Options{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
	if _, err := Open(t.Context(), nil, Options{}); err == nil {
		t.Error("no file: no error")
	}
}

// Many files without an order in their names are merged by time, with few of them open at once.
func TestManyFiles(t *testing.T) {
	dir := t.TempDir()
	var want []string
	for i := range 3 * maxOpen {
		var content string
		for j := range 3 {
			a := createdMap(fmt.Sprintf("m-%d-%d", i, j), "1", 1)
			a.at = began.Add(time.Duration(i)*time.Second + time.Duration(j))
			content += a.line()
			want = append(want, a.name)
		}
		if i%2 == 0 {
			content = zipped(t, content)
		}
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d.log", (i*7)%(3*maxOpen))), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r, err := Open(t.Context(), []string{dir}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var got []string
	for {
		record, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		open := 0
		for _, s := range r.series {
			if s.current != nil || s.live != nil {
				open++
			}
		}
		if open > maxOpen+1 {
			t.Fatalf("%d files are open", open)
		}
		got = append(got, record.Decode().Name)
	}
	if !slices.Equal(got, want) {
		t.Errorf("requests %q", got)
	}
}

// The logs of several servers are merged by time.
func TestSeveralServers(t *testing.T) {
	at := func(a audit, second int) string {
		a.at = began.Add(time.Duration(second) * time.Second)
		return a.line()
	}
	a := logFile(t, at(createdMap("m", "1", 1), 1)+at(patchedMap("m", "3", 3), 3))
	b := logFile(t, at(patchedMap("m", "2", 2), 2)+at(patchedMap("m", "4", 4), 4))
	all, _, err := readAll(t, Options{}, a, b)
	if err != nil || len(all) != 4 {
		t.Fatalf("%d requests, error %v", len(all), err)
	}
	for i, q := range all {
		if q.Unjudged != "" {
			t.Errorf("request %d: %s", i, q.Unjudged)
		}
		if i > 0 && text(find(q.OldObject, "data", "k")) != string(rune('0'+i)) {
			t.Errorf("request %d: old object %s", i, q.OldObject)
		}
	}
}
