// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"time"
)

const (
	// firstRows is how many rows a page gets first, so that it shows them while the others come in
	// parts.
	firstRows = 200
	partRows  = 1000
	// writeTimeout is how long a page may take to read an event. A browser that slept connects
	// again.
	writeTimeout = 30 * time.Second
	// heartbeat is how often something is sent to a page, so that the server notices one that is
	// gone.
	heartbeat = 20 * time.Second
)

// serveEvents sends a page everything, and then the changes, as server-sent events:
//
//	state  how it is with the server
//	reset  forget everything: what follows is all there is
//	rows   rows, the newest first
//	ready  what follows is news
//	added  rows, the newest last
//	gone   the IDs of those that the server no longer keeps
func (d *Dashboard) serveEvents(w http.ResponseWriter, r *http.Request) {
	p := d.mirror.open(maxPages)
	if p == nil {
		refuse(w, http.StatusServiceUnavailable, "too many pages are open")
		return
	}
	defer d.mirror.close(p)
	w.Header().Set("Content-Type", "text/event-stream")
	s := &stream{w: w, controller: http.NewResponseController(w)}
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	for s.err == nil {
		select {
		case <-r.Context().Done():
			return
		case <-beat.C:
			s.write([]byte(":\n\n"))
		case <-p.wake:
			s.tell(d.mirror.take(p))
		}
		s.flush()
	}
}

// stream writes server-sent events until one can't be written.
type stream struct {
	w          http.ResponseWriter
	controller *http.ResponseController
	err        error
}

func (s *stream) tell(n news) {
	if n.state != nil {
		if encoded, err := json.Marshal(n.state); err == nil {
			s.event("state", encoded)
		}
	}
	if n.all {
		s.event("reset", nil)
		slices.Reverse(n.rows)
		for part := firstRows; len(n.rows) > 0; part = partRows {
			part = min(part, len(n.rows))
			s.event("rows", array(n.rows[:part], func(e *entry) []byte { return e.row() }))
			s.flush()
			n.rows = n.rows[part:]
		}
		s.event("ready", nil)
	}
	// Runs of the same kind go together, in order: a name may come again.
	for len(n.changes) > 0 {
		end := slices.IndexFunc(n.changes, func(c change) bool { return c.gone != n.changes[0].gone })
		if end < 0 {
			end = len(n.changes)
		}
		name, text := "added", func(c change) []byte { return c.entry.row() }
		if n.changes[0].gone {
			name, text = "gone", func(c change) []byte {
				quoted, _ := json.Marshal(c.entry.key) // a string always can be
				return quoted
			}
		}
		s.event(name, array(n.changes[:end], text))
		n.changes = n.changes[end:]
	}
}

// array returns a JSON array of items that are JSON already.
func array[T any](items []T, text func(T) []byte) []byte {
	var b bytes.Buffer
	b.WriteByte('[')
	for i, item := range items {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(text(item))
	}
	b.WriteByte(']')
	return b.Bytes()
}

// event writes an event. JSON has no line breaks, which would end it.
func (s *stream) event(name string, data []byte) {
	s.write([]byte("event: " + name + "\ndata: "))
	s.write(data)
	s.write([]byte("\n\n"))
}

func (s *stream) write(text []byte) {
	if s.err == nil {
		s.err = s.controller.SetWriteDeadline(time.Now().Add(writeTimeout))
	}
	if s.err == nil {
		_, s.err = s.w.Write(text)
	}
}

func (s *stream) flush() {
	if s.err == nil {
		s.err = s.controller.Flush()
	}
}
