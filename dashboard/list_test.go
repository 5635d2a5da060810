// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"gatehouse.dev/apis/decisions/v1alpha1"
)

// What has been read of a list is shown while the rest is on its way. Where that never comes the
// list is read again, and each decision is there once: those that have gone by then are not.
func TestListInParts(t *testing.T) {
	list := v1alpha1.DecisionList{TypeMeta: metav1.TypeMeta{Kind: "DecisionList"},
		ListMeta: metav1.ListMeta{ResourceVersion: "1"}}
	for i := range firstRows + 2 {
		list.Items = append(list.Items, *made(fmt.Sprint("d-", i), i))
	}
	seen := make(chan struct{})
	lists := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("watch") {
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
			return
		}
		lists++ // one after the other
		whole, _ := json.Marshal(list)
		w.Header().Set("Content-Type", "application/json")
		if lists > 1 {
			_, _ = w.Write(whole)
			return
		}
		_, _ = w.Write(whole[:strings.LastIndex(string(whole), `"metadata"`)])
		_ = http.NewResponseController(w).Flush()
		select {
		case <-seen:
		case <-r.Context().Done(): // of a test that has failed
		}
		list.Items = list.Items[1:]
		panic(http.ErrAbortHandler)
	}))
	t.Cleanup(server.Close)
	d, client := startOver(t, &rest.Config{Host: server.URL}, "")
	page := d.read(t, client)
	eventually(t, "the first decisions", func() bool { return d.mirror.get("shop/d-0") != nil })
	second := d.read(t, client)
	second.next("rows", "shop/d-0")
	close(seen)
	page.next("state", `"waiting"`)
	page.next("state", `"live"`)
	page.next("rows", "shop/d-1\"")
	eventually(t, "the one that has gone to have gone", func() bool { return d.mirror.get("shop/d-0") == nil })
	d.mirror.mu.Lock()
	defer d.mirror.mu.Unlock()
	kept := d.mirror.entries()
	if len(kept) != len(list.Items) || len(d.mirror.byKey) != len(kept) {
		t.Fatalf("%d decisions are kept, by %d names, want %d", len(kept), len(d.mirror.byKey), len(list.Items))
	}
	for i, e := range kept {
		if e.decision.Name != list.Items[i].Name {
			t.Errorf("decision %d is %s, want %s", i, e.decision.Name, list.Items[i].Name)
		}
	}
}

// A page that has been told of all while the list was read isn't told again.
func TestListIsToldOnce(t *testing.T) {
	m := newMirror(10, state{})
	p := m.open(1)
	m.take(p)
	some := []*v1alpha1.Decision{made("first", 1), made("second", 2)}
	m.filler()(some)
	if err := m.Replace([]any{some[0], some[1]}, ""); err != nil {
		t.Fatal(err)
	}
	if n := m.take(p); n.all || len(n.changes) != 2 {
		t.Errorf("told %+v, want the two", n)
	}
	m.filler()([]*v1alpha1.Decision{made("third", 3)})
	if n := m.take(p); n.all || len(n.changes) != 0 {
		t.Errorf("told %+v while a later list is read", n)
	}
}
