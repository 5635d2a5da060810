// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package robustness_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"gatehouse.dev/test/robustness/check"
)

// record writes the history of a run to a directory.
type record struct {
	dir string
	t   testing.TB

	mu    sync.Mutex
	files map[string]*os.File
	// revision is the last revision of etcd that is recorded.
	revision atomic.Int64
}

func newRecord(t testing.TB, dir string) *record {
	r := &record{dir: dir, t: t, files: map[string]*os.File{}}
	t.Cleanup(func() {
		for _, file := range r.files {
			file.Close()
		}
	})
	return r
}

// add adds a line to a file.
func (r *record) add(name string, line any) {
	data, err := json.Marshal(line)
	if err != nil {
		r.t.Error(err)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	file := r.files[name]
	if file == nil {
		if file, err = os.Create(filepath.Join(r.dir, name)); err != nil {
			r.t.Error(err)
			return
		}
		r.files[name] = file
	}
	if _, err := file.Write(append(data, '\n')); err != nil {
		r.t.Error(err)
	}
}

// follow records etcd's history from its first revision on, until the context ends. A member that
// falls behind or ends is left for another one.
func (r *record) follow(ctx context.Context, client *clientv3.Client) {
	for ctx.Err() == nil {
		watching, stop := context.WithCancel(clientv3.WithRequireLeader(ctx))
		for response := range client.Watch(watching, "", clientv3.WithPrefix(), clientv3.WithRev(r.revision.Load()+1)) {
			if response.Err() != nil {
				break
			}
			r.addEvents(response.Events)
		}
		stop()
	}
}

// addEvents adds events, of which those of one revision are side by side.
func (r *record) addEvents(events []*clientv3.Event) {
	now := time.Now().UnixNano()
	for len(events) > 0 {
		one := check.Revision{Revision: events[0].Kv.ModRevision, Seen: now}
		for len(events) > 0 && events[0].Kv.ModRevision == one.Revision {
			event := check.Event{Key: string(events[0].Kv.Key), Deleted: events[0].Type == clientv3.EventTypeDelete}
			if !event.Deleted {
				event.Value = events[0].Kv.Value
			}
			one.Events = append(one.Events, event)
			events = events[1:]
		}
		r.add(check.RevisionsFile, one)
		r.revision.Store(one.Revision)
	}
}

// finish writes to etcd and waits until that is recorded.
func (r *record) finish(ctx context.Context, client *clientv3.Client) error {
	return within(ctx, recovery, func(ctx context.Context) error {
		put, err := client.Put(ctx, "/end", "")
		if err != nil {
			return err
		}
		for r.revision.Load() < put.Header.Revision {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			time.Sleep(10 * time.Millisecond)
		}
		return nil
	})
}
