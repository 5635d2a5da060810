// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package recorded

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"

	"k8s.io/apiserver/pkg/admission"

	"gatehouse.dev/internal/count"
)

// Options are the limits of a reader and what it knows besides the log. The zero value is usable.
type Options struct {
	// MaxRecordBytes limits the size of one line or one event; 64 MiB if it is 0.
	MaxRecordBytes int
	// StateBytes limits the memory for the last known objects; 256 MiB if it is 0. Those seen least
	// recently are forgotten first.
	StateBytes int64
	// Lookup, if not nil, returns objects as they were before the log began.
	Lookup Lookup
	// Stdin is what "-" stands for; nil if nothing.
	Stdin io.Reader
	// Strict says that reading ends with an error at a line that can't be read. Otherwise such a line is left out, with
	// a note, and gives a record that isn't judged.
	Strict bool
}

// Counts says what a reader has read.
type Counts struct {
	// Records is the number of events and AdmissionReviews, and the sum of all that follow.
	Records int
	// Writes became records to be judged. A deletion of a collection counts once, though it gives a
	// record for each of its items.
	Writes int
	// OtherStages are events before the response was complete.
	OtherStages int
	// Unreadable are writes of which only the place is known, because the line can't be read.
	Unreadable int
	// Panics are events of requests in which the server panicked.
	Panics int
	// Duplicates are events that came before.
	Duplicates int
	// Reads are gets, lists and watches, and requests for no resource.
	Reads int
	// AccessReviews are requests that ask who somebody is or what somebody may do.
	AccessReviews int
	// NeverAdmitted are writes that didn't come to admission: authorization or decoding refused them,
	// or the server doesn't serve the resource.
	NeverAdmitted int
	// Others are lines of JSON that are neither events nor AdmissionReviews.
	Others int
}

// A Reader reads recorded requests in the order in which they were made. Its methods may not be
// called concurrently, other than Progress.
type Reader struct {
	ctx     context.Context // of Open
	options Options
	series  []*series
	states  *states
	seen    *seen
	counts  Counts
	notes   []string
	more    int
	// waiting has events whose order may yet change.
	waiting      []*event
	waitingBytes int
	ready        []*Record
	err          error
	read         atomic.Int64
	total        int64
}

const (
	defaultRecordBytes = 64 << 20
	defaultStateBytes  = 256 << 20
	// maxNotes is how many notes are kept as text.
	maxNotes = 20
	// Events are written when a request is answered, and not when it is stored. So two writes of one
	// object may be recorded in the wrong order, and with several servers often are. This many events,
	// or bytes, are held back to see whether an earlier version comes after a later one.
	maxWaiting      = 64
	maxWaitingBytes = 16 << 20
)

// Open begins to read files, directories with rotated logs, and standard input as "-". Files that
// one server wrote are read in the order of time; the logs of several servers are merged by time. Reading ends with
// ctx.
func Open(ctx context.Context, names []string, options Options) (*Reader, error) {
	if options.MaxRecordBytes == 0 {
		options.MaxRecordBytes = defaultRecordBytes
	}
	if options.StateBytes == 0 {
		options.StateBytes = defaultStateBytes
	}
	if options.Stdin == nil {
		options.Stdin = strings.NewReader("")
	}
	if len(names) == 0 {
		return nil, errors.New("reading recorded requests: name a file, a directory, or - for standard input")
	}
	r := &Reader{ctx: ctx, options: options, states: newStates(options.StateBytes, options.Lookup), seen: newSeen()}
	var err error
	if r.series, err = r.collect(names); err != nil {
		return nil, err
	}
	for _, s := range r.series {
		if len(r.series) > maxOpen && s.files[0] != "-" {
			continue
		}
		if err := s.open(); err != nil {
			return nil, errors.Join(err, r.Close())
		}
	}
	return r, nil
}

// Next returns the next write, or io.EOF at the end. Its methods may be called from any goroutine.
// After an error every call returns that error.
func (r *Reader) Next() (*Record, error) {
	for len(r.ready) == 0 {
		if r.err != nil && len(r.waiting) == 0 {
			return nil, r.err
		}
		if r.err == nil {
			e, err := r.nextEvent()
			if err != nil {
				r.err = err
				continue
			}
			if !r.accept(e) {
				continue
			}
			if e.problem != "" && r.options.Strict {
				r.err = fmt.Errorf("%s: %s", e.source, e.problem)
				continue
			}
			r.waiting = append(r.waiting, e)
			r.waitingBytes += e.size()
		}
		if r.err != nil || len(r.waiting) > maxWaiting || r.waitingBytes > maxWaitingBytes {
			r.sequence(r.takeFirst())
		}
	}
	next := r.ready[0]
	r.ready[0] = nil
	r.ready = r.ready[1:]
	return next, nil
}

// Counts returns what was read so far. At the end of the log it is complete.
func (r *Reader) Counts() Counts { return r.counts }

// Notes returns what users should know of the log, such as a last line that isn't complete.
func (r *Reader) Notes() []string {
	notes := slices.Clone(r.notes)
	if r.more > 0 {
		notes = append(notes, count.Of(r.more, "more note"))
	}
	if n := r.states.evicted; n > 0 {
		notes = append(notes, fmt.Sprintf("no more than %d MiB of objects are kept, and %s had to be forgotten: their patches "+
			"aren't judged", r.options.StateBytes>>20, count.Of(n, "object")))
	}
	return notes
}

// Progress returns how many bytes of files were read, and how many there are; a total of 0 is
// unknown, as for standard input. It may be called from any goroutine.
func (r *Reader) Progress() (read, total int64) {
	if read = r.read.Load(); r.total > 0 {
		read = min(read, r.total) // the beginning of a file may be read twice
	}
	return read, r.total
}

// Close closes the files.
func (r *Reader) Close() error {
	var errs []error
	for _, s := range r.series {
		errs = append(errs, s.close())
	}
	return errors.Join(errs...)
}

func (r *Reader) note(format string, args ...any) {
	if len(r.notes) >= maxNotes {
		r.more++
		return
	}
	r.notes = append(r.notes, fmt.Sprintf(format, args...))
}

// nextEvent returns the next event of all series.
func (r *Reader) nextEvent() (*event, error) {
	if len(r.series) == 1 {
		return r.series[0].next()
	}
	var first *series
	for i := 0; i < len(r.series); {
		s := r.series[i]
		if s.head == nil {
			e, err := s.next()
			if errors.Is(err, io.EOF) {
				r.series = slices.Delete(r.series, i, i+1)
				continue
			}
			if err != nil {
				return nil, err
			}
			s.head = e
			if !s.begun && len(r.series) > maxOpen {
				if err := s.park(); err != nil {
					return nil, err
				}
			}
		}
		if first == nil || s.earlier(first) {
			first = s
		}
		i++
	}
	if first == nil {
		return nil, io.EOF
	}
	e := first.head
	first.head, first.begun = nil, true
	return e, nil
}

// accept counts an event and reports whether it is a write.
func (r *Reader) accept(e *event) bool {
	c := &r.counts
	c.Records++
	switch {
	case e.problem != "":
		return r.leaveOut(e, e.problem)
	case e.kind == reviewLine:
		if problem := e.namespaceProblem(); problem != "" {
			return r.leaveOut(e, problem)
		}
		c.Writes++
		return true
	case e.kind != eventLine:
		if c.Others++; c.Others == 1 {
			r.note("%s: the line is neither an audit event nor an AdmissionReview, of a version that is known: it has %s",
				e.source, e.what)
		}
		return false
	case !is(e.stage, "ResponseComplete") && !is(e.stage, "Panic"):
		c.OtherStages++
		return false
	}
	// An ID has one event of each stage: panics and completions are told apart by a byte.
	if len(e.auditID) > 0 && r.seen.add(append(slices.Clip(e.auditID), e.stage[1])) {
		c.Duplicates++
		return false
	}
	if err := e.readTarget(); err != nil {
		c.Others++
		r.note("%s: the event's objectRef, responseStatus or annotations can't be read", e.source)
		return false
	}
	if !e.isWrite() || e.resource == "" {
		c.Reads++
		return false
	}
	if IsAccessReview(e.group, e.resource) {
		c.AccessReviews++
		return false
	}
	if is(e.stage, "Panic") {
		c.Panics++
		return true // for what it may have stored
	}
	var write bool
	if e.outcome, write = judgeAnswer(e.code, e.message, e.decision, e.subresource); !write || e.lacksBody() {
		c.NeverAdmitted++
		return false
	}
	if problem := e.namespaceProblem(); problem != "" {
		return r.leaveOut(e, problem)
	}
	c.Writes++
	return true
}

// leaveOut counts an event as a write that can't be read, and names it.
func (r *Reader) leaveOut(e *event, problem string) bool {
	e.leaveOut(problem)
	r.counts.Writes++
	r.counts.Unreadable++
	r.note("%s: left out: %s", e.source, problem)
	return true
}

// lacksBody reports whether the event is of a write that failed before its body was read: the server
// records the body before it asks admission. The resource may not be served, for example.
func (e *event) lacksBody() bool {
	return e.outcome == NoNews && isNull(e.request) && !is(e.level, "Metadata") && !e.truncated && !e.isDelete && !e.connects()
}

// takeFirst takes the event that is next in order out of those that wait: the one that waits
// longest, unless another stored an earlier version of the same object.
func (r *Reader) takeFirst() *event {
	at := 0
	for i, e := range r.waiting[1:] {
		if e.storedBefore(r.waiting[at]) {
			at = i + 1
		}
	}
	e := r.waiting[at]
	r.waiting = slices.Delete(r.waiting, at, at+1)
	r.waitingBytes -= e.size()
	return e
}

// storedBefore reports whether e certainly stored an earlier version of the object that other
// stored a version of.
func (e *event) storedBefore(other *event) bool {
	if !e.stores() || !other.stores() || e.resource != other.resource {
		return false
	}
	a, b := e.responseHead(), other.responseHead()
	return a.uid != "" && a.uid == b.uid && a.resourceVersion != 0 && a.resourceVersion < b.resourceVersion
}

// stores reports whether the event's request changed what is stored.
func (e *event) stores() bool { return e.kind == eventLine && e.outcome == Admitted && !e.dryRun }

// responseHead returns the head of the response.
func (e *event) responseHead() *head {
	if e.stored == nil {
		h := readHead(e.response)
		e.stored = &h
	}
	return e.stored
}

// size returns about how much memory the event holds.
func (e *event) size() int {
	return len(e.request) + len(e.response) + len(e.reviewRequest) + len(e.reviewResponse) + 2000
}

// A Record is a recorded write that is not decoded yet. It holds no more memory than its line and
// the object before it. Its methods may not be called concurrently.
type Record struct {
	event     *event
	operation admission.Operation
	from      origin
	old       []byte
	// scaleOf is the object that old is to be made the Scale of.
	scaleOf []byte
	// evicted is the pod that an eviction is for, if it is known.
	evicted  []byte
	unjudged Reason
	// decoded is the Request of an AdmissionReview, once it was asked for.
	decoded *Request
}

// Outcome returns how the request ended.
func (rec *Record) Outcome() Outcome {
	if rec.event.kind == reviewLine {
		return rec.review().Recorded.Outcome
	}
	return rec.event.outcome
}

// Namespace returns the namespace of the request. That of a namespace is itself.
func (rec *Record) Namespace() string {
	switch e := rec.event; {
	case e.kind == reviewLine:
		return rec.review().Namespace
	case e.group == "" && e.resource == "namespaces":
		return e.name
	default:
		return e.namespace
	}
}

// CreatesNamespace reports whether the request created a namespace.
func (rec *Record) CreatesNamespace() bool {
	if rec.Outcome() != Admitted {
		return false
	}
	e, operation := rec.event, rec.operation
	if e.kind != reviewLine {
		return e.group == "" && e.resource == "namespaces" && operation == admission.Create && !e.dryRun
	}
	q := rec.review()
	return q.Resource.GroupResource() == namespaces && q.Operation == admission.Create && !q.DryRun
}

// review returns the Request of an AdmissionReview.
func (rec *Record) review() *Request {
	if rec.decoded == nil {
		rec.decoded = decodeReview(rec.event)
		rec.setStored(rec.decoded)
	}
	return rec.decoded
}

// origin says where a record's object comes from.
type origin int

const (
	fromNothing origin = iota
	fromRequest
	fromResponse
	fromPatch
	fromURI
)
