// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
)

// event reads "+q1 1", "~q1 3", "!q1 4" or "-q1 5": a creation, a charge, another change, a
// deletion of a key at a revision.
func event(text string) *clientv3.Event {
	var key string
	var revision int64
	_, _ = fmt.Sscanf(text[1:], "%s %d", &key, &revision)
	e := &clientv3.Event{Type: mvccpb.PUT,
		Kv: &mvccpb.KeyValue{Key: []byte(key), ModRevision: revision, CreateRevision: 1}}
	switch text[0] {
	case '+':
		e.Kv.CreateRevision = revision
		return e
	case '!':
		e.Kv.Version = byHand
	case '-':
		e.Type, e.Kv.CreateRevision = mvccpb.DELETE, 0
	}
	return e
}

// byHand is the version of what somebody wrote.
const byHand = 7

func charged(_ context.Context, _, after *mvccpb.KeyValue) bool { return after.Version != byHand }

// atTwo are all keys before they were shown: of revision 2.
func atTwo(_ context.Context, key string, _ int64) *mvccpb.KeyValue {
	return &mvccpb.KeyValue{Key: []byte(key), ModRevision: 2}
}

func text(r clientv3.WatchResponse) string {
	var texts []string
	for _, e := range r.Events {
		sign, before := "~", ""
		if e.PrevKv != nil {
			before = fmt.Sprintf("<%d", e.PrevKv.ModRevision)
		}
		switch {
		case e.Type == mvccpb.DELETE:
			sign = "-"
		case e.IsCreate():
			sign = "+"
		case e.Kv.Version == byHand:
			sign = "!"
		}
		texts = append(texts, fmt.Sprintf("%s%s %d%s", sign, e.Kv.Key, e.Kv.ModRevision, before))
	}
	if r.IsProgressNotify() {
		texts = append(texts, fmt.Sprintf("progress %d", r.Header.Revision))
	}
	if err := r.Err(); err != nil {
		texts = append(texts, err.Error())
	}
	return strings.Join(texts, ", ")
}

func TestPace(t *testing.T) {
	progress := func(revision int64) clientv3.WatchResponse {
		return clientv3.WatchResponse{Header: &etcdserverpb.ResponseHeader{Revision: revision}}
	}
	for name, test := range map[string]struct {
		// in has what comes: events, separated by commas, or a response; a number is a pause in
		// milliseconds
		in []any
		// out is what is shown, with the millisecond at which it is
		out []string
	}{
		"now and then": {[]any{"~q1 3", 60, "~q1 4", 200, "~q1 5"},
			[]string{"0: ~q1 3<2", "60: ~q1 4<3", "260: ~q1 5<4"}},
		"all the time": {[]any{"~q1 3", 10, "~q1 4", 10, "~q1 5", 20, "~q1 6", 20, "~q1 7"},
			[]string{"0: ~q1 3<2", "50: ~q1 6<3", "100: ~q1 7<6"}},
		"two objects keep the order of their last changes": {[]any{"~q1 3, ~q2 3", 1, "~q1 4, ~q2 5", 1, "~q2 6", 1,
			"~q1 7"}, []string{"0: ~q1 3<2, ~q2 3<2", "50: ~q2 6<3, ~q1 7<3"}},
		"what somebody wrote is shown": {[]any{"~q1 3", 1, "~q1 4", 1, "!q1 5", 1, "~q1 6", 1, "~q1 7", 60, "!q1 8", 1,
			"!q1 9"},
			[]string{"0: ~q1 3<2", "50: !q1 5<3, ~q1 7<5", "100: !q1 8<7, !q1 9<8"}},
		"so is what may have been": {[]any{"+q1 3", 1, "~q2 4", 1, "~q2 5", 1, "~q2 6"},
			[]string{"0: +q1 3", "50: ~q2 4<2, ~q2 6<4"}},
		"creations and deletions are shown": {[]any{"~q1 3", 1, "~q1 4", 1, "-q1 5", 1, "+q1 6", 1, "~q1 7", 1,
			"~q1 8"},
			[]string{"0: ~q1 3<2", "50: ~q1 4<3, -q1 5<4, +q1 6, ~q1 8<6"}},
		"progress comes after what it covers": {[]any{"~q1 3", 1, "~q1 4", 1, progress(4), 10, "~q1 5"},
			[]string{"0: ~q1 3<2", "2: ~q1 4<3", "2: progress 4", "50: ~q1 5<4"}},
		"so does the end": {[]any{"~q1 3", 1, "~q1 4", 1, clientv3.WatchResponse{CompactRevision: 9}},
			[]string{"0: ~q1 3<2", "2: ~q1 4<3", "2: etcdserver: mvcc: required revision has been compacted"}},
		"and what is held when the watch ends": {[]any{"~q1 3", 1, "~q1 4"},
			[]string{"0: ~q1 3<2", "1: ~q1 4<3"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				in, out, start := make(chan clientv3.WatchResponse), make(chan clientv3.WatchResponse), time.Now()
				go pace(t.Context(), in, out, 50*time.Millisecond, atTwo, charged)
				go func() {
					defer close(in)
					for _, step := range test.in {
						switch step := step.(type) {
						case int:
							time.Sleep(time.Duration(step) * time.Millisecond)
						case clientv3.WatchResponse:
							in <- step
						case string:
							var response clientv3.WatchResponse
							for _, e := range strings.Split(step, ", ") {
								response.Events = append(response.Events, event(e))
							}
							in <- response
						}
					}
					if name != "and what is held when the watch ends" {
						time.Sleep(time.Second)
					}
				}()
				var got []string
				for response := range out {
					got = append(got, fmt.Sprintf("%d: %s", time.Since(start).Milliseconds(), text(response)))
				}
				if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", test.out) {
					t.Errorf("got\n\t%q\nwant\n\t%q", got, test.out)
				}
			})
		})
	}
}

func TestPaceEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, out := make(chan clientv3.WatchResponse, 3), make(chan clientv3.WatchResponse)
		ctx, cancel := context.WithCancel(t.Context())
		in <- clientv3.WatchResponse{Events: []*clientv3.Event{event("~q1 3")}}
		go pace(ctx, in, out, time.Second, atTwo, charged) // nobody receives
		synctest.Wait()
		cancel()
		close(in)
		synctest.Wait()
		if _, open := <-out; open {
			t.Error("something was shown after the end")
		}
	})
}

// named is a store that says who it is.
type named struct {
	storage.Interface
	name string
}

func (n named) GetList(_ context.Context, _ string, _ storage.ListOptions, list runtime.Object) error {
	list.(*metav1.PartialObjectMetadataList).Continue = n.name
	return nil
}

// A list that promises a revision has the states that the watch cache leaves out.
func TestListsOfQuotasAreStored(t *testing.T) {
	s := storedLists{named{name: "cache"}, named{name: "etcd"}}
	for _, test := range []struct {
		version string
		match   metav1.ResourceVersionMatch
		want    string
	}{
		{"", "", "etcd"},
		{"0", "", "cache"},
		{"0", metav1.ResourceVersionMatchNotOlderThan, "cache"},
		{"5", "", "etcd"},
		{"5", metav1.ResourceVersionMatchNotOlderThan, "etcd"},
		{"5", metav1.ResourceVersionMatchExact, "etcd"},
	} {
		var list metav1.PartialObjectMetadataList
		err := s.GetList(t.Context(), "",
			storage.ListOptions{ResourceVersion: test.version, ResourceVersionMatch: test.match}, &list)
		if err != nil || list.Continue != test.want {
			t.Errorf("at %q %s: from %s, want %s (%v)", test.version, test.match, list.Continue, test.want, err)
		}
	}
}
