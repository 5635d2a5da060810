// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package robustness_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gatehouse.dev/test/robustness/check"
)

// quotas makes and deletes objects that quotas count, and edits the limits, until the context ends.
func (c *client) quotas(ctx context.Context) {
	type made struct {
		resource, name string
		isDeleted      bool // perhaps not gone yet
	}
	var mine []made
	for ; ctx.Err() == nil; c.pause(ctx) {
		o := &check.Operation{ID: c.id(), Namespace: check.Quotas}
		switch choice := c.random.IntN(20); {
		case choice < 1:
			o.Verb, o.Resource, o.Name = "patch", "resourcequotas", "all"
			limits := object{"pods": fmt.Sprint(2 + c.random.IntN(4)),
				"requests.cpu": fmt.Sprintf("%dm", 300+c.random.IntN(500))}
			c.send(o, http.MethodPatch, path(check.Quotas, o.Resource, o.Name), asMergePatch,
				object{"spec": object{"hard": limits}})
		case choice < 11:
			o.Verb, o.Resource, o.Name = "create", "configmaps", o.ID
			if choice < 6 {
				o.Resource = "pods"
			}
			c.send(o, http.MethodPost, path(check.Quotas, o.Resource, ""), asJSON, check.CountedObject(o.Resource, o.Name))
			if o.Code == http.StatusCreated || o.Code == 0 || o.Code >= http.StatusInternalServerError {
				mine = append(mine, made{resource: o.Resource, name: o.Name})
			}
		case len(mine) > 0:
			// A pod that is given a second is stored until it is deleted again, as by a kubelet.
			i, grace := c.random.IntN(len(mine)), c.random.IntN(2)
			if mine[i].isDeleted {
				grace = 0
			}
			mine[i].isDeleted = true
			o.Verb, o.Resource, o.Name, o.Grace = "delete", mine[i].resource, mine[i].name, grace
			c.send(o, http.MethodDelete, path(check.Quotas, o.Resource, o.Name), asJSON, object{"gracePeriodSeconds": grace})
			stays := o.Resource == "pods" && grace > 0
			if o.Code == http.StatusOK && !stays || o.Code == http.StatusNotFound {
				mine = slices.Delete(mine, i, i+1)
			}
		}
	}
}

// namespaces makes and deletes namespaces with objects until the context ends. It returns the names.
// The leader's controllers fill and empty them.
func (c *client) namespaces(ctx context.Context) (names []string) {
	for ; ctx.Err() == nil; c.pause(ctx) {
		o := &check.Operation{ID: c.id(), Verb: "create", Resource: "namespaces"}
		o.Name = o.ID
		c.send(o, http.MethodPost, "/api/v1/namespaces", asJSON, object{"metadata": object{"name": o.Name}})
		names = append(names, o.Name)
		content := &check.Operation{ID: c.id(), Verb: "create", Resource: "configmaps", Namespace: o.Name, Name: "one"}
		c.send(content, http.MethodPost, path(o.Name, "configmaps", ""), asJSON, object{"metadata": object{"name": "one"}})
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
		c.deleteNamespace(o.Name)
	}
	return names
}

func (c *client) deleteNamespace(name string) {
	o := &check.Operation{ID: c.id(), Verb: "delete", Resource: "namespaces", Name: name}
	c.send(o, http.MethodDelete, "/api/v1/namespaces/"+name, asJSON, nil)
}

// missNamespace returns an error until a namespace is gone. It deletes a namespace that isn't deleted
// yet.
func (c *client) missNamespace(name string) error {
	o := &check.Operation{ID: c.id(), Verb: "get", Resource: "namespaces", Name: name}
	data := c.send(o, http.MethodGet, "/api/v1/namespaces/"+name, asJSON, nil)
	if o.Code == http.StatusNotFound {
		return nil
	}
	var found corev1.Namespace
	if o.Object != nil && json.Unmarshal(data, &found) == nil && found.DeletionTimestamp == nil {
		c.deleteNamespace(name)
	}
	return fmt.Errorf("namespace %s isn't gone: %d %s", name, o.Code, o.Message)
}

// watch watches the namespace Registers until a watch has told a revision that end returns, which is
// 0 until there is one, or the context ends. It reports whether that revision came. Each watch may be at
// the server of another client, and go on where the last one ended, as behind a load balancer.
func (c *client) watch(ctx context.Context, others []*client, end func() int64) bool {
	all := append([]*client{c}, others...)
	var told []int64 // revisions of events, the last ones
	var from int64
	for ctx.Err() == nil {
		if from == 0 {
			o := &check.Operation{ID: c.id(), Verb: "list", Resource: "configmaps", Namespace: check.Registers}
			if c.send(o, http.MethodGet, path(check.Registers, "configmaps", ""), asJSON, nil); o.List == nil {
				c.pause(ctx)
				continue
			}
			from = o.List.Revision
		}
		at := all[c.random.IntN(len(all))]
		w := &check.Watch{Client: c.name, Server: at.server.name, From: from, Start: time.Now().UnixNano()}
		at.follow(ctx, w, end)
		w.End = time.Now().UnixNano()
		c.record.add(check.WatchesFile, w)
		for _, event := range w.Events {
			from = event.Revision
			told = append(told, from)
		}
		told = told[max(0, len(told)-500):]
		switch last := end(); {
		case last > 0 && from >= last:
			return true
		case w.Code == http.StatusGone || w.Error == http.StatusGone:
			from = 0
		case last == 0 && len(told) > 0 && c.random.IntN(3) == 0:
			from = told[c.random.IntN(len(told))] // once more
		}
		c.pause(ctx)
	}
	return false
}

// follow makes one watch, until it ends or has told the revision that end returns.
func (c *client) follow(ctx context.Context, w *check.Watch, end func() int64) {
	seconds := 2 + c.random.IntN(10)
	ctx, cancel := context.WithTimeout(ctx, time.Duration(seconds)*time.Second+patience)
	defer cancel()
	url := c.server.url(path(check.Registers, "configmaps", "")) + fmt.Sprintf(
		"?watch=true&allowWatchBookmarks=true&resourceVersion=%d&timeoutSeconds=%d", w.From, seconds)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		c.record.t.Error(err)
		return
	}
	answer, err := c.http.Do(request)
	if err != nil {
		return
	}
	defer answer.Body.Close()
	if w.Code = answer.StatusCode; w.Code != http.StatusOK {
		return
	}
	lines := bufio.NewReader(answer.Body)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return // half a line isn't an event
		}
		var event struct {
			Type   string
			Object json.RawMessage
		}
		if err := json.Unmarshal(line, &event); err != nil {
			c.record.t.Errorf("%s: %v in %s", c.name, err, line)
			return
		}
		if event.Type == "ERROR" {
			var status metav1.Status
			if err := json.Unmarshal(event.Object, &status); err != nil || status.Code == 0 {
				c.record.t.Errorf("%s: no code in %s", c.name, line)
			}
			w.Error = int(status.Code)
			return
		}
		var one corev1.ConfigMap
		if err := json.Unmarshal(event.Object, &one); err != nil {
			c.record.t.Errorf("%s: %v in %s", c.name, err, line)
			return
		}
		seen := describe(&one)
		w.Events = append(w.Events, check.WatchEvent{Type: event.Type, Name: seen.Name, Revision: seen.Revision,
			Value: seen.Value})
		if last := end(); last > 0 && seen.Revision >= last {
			return
		}
	}
}
