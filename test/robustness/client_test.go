// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package robustness_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gatehouse.dev/test/robustness/check"
)

// patience is how long a client waits for an answer.
const patience = 4 * time.Second

// A client sends requests to one server, one after the other, and records them.
type client struct {
	name   string
	server *server
	record *record
	random *rand.Rand

	http *http.Client
	sent int
}

// clients counts those of a run, for their names and seeds.
var clients atomic.Uint64

func newClient(kind string, s *server, r *record) (*client, error) {
	n := clients.Add(1)
	c := &client{name: fmt.Sprintf("%s-%d", kind, n), server: s, record: r, random: rand.New(rand.NewPCG(*seed, n))}
	var err error
	c.http, err = s.client(s.proxied)
	return c, err
}

// id returns the ID of the next request.
func (c *client) id() string {
	c.sent++
	return fmt.Sprintf("%s-%d", c.name, c.sent)
}

// pause waits a little between requests.
func (c *client) pause(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(time.Duration(20+c.random.IntN(60)) * time.Millisecond):
	}
}

// send makes a request and records it with its outcome, and returns the body of the answer. An answer
// that didn't arrive whole is none.
func (c *client) send(o *check.Operation, method, path, contentType string, body any) []byte {
	o.Server, o.Start = c.server.name, time.Now().UnixNano()
	defer func() { c.record.add(check.OperationsFile, o) }()
	// A request isn't canceled at the end of the run. Its outcome would be unknown.
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var content []byte
	var err error
	if body != nil {
		if content, err = json.Marshal(body); err != nil {
			c.record.t.Error(err)
		}
	}
	request, err := http.NewRequestWithContext(ctx, method, c.server.url(path), bytes.NewReader(content))
	if err != nil {
		c.record.t.Error(err)
		return nil
	}
	request.Header.Set("Audit-Id", o.ID)
	request.Header.Set("Content-Type", contentType)
	request.Header.Set("Accept", "application/json")
	answer, err := c.http.Do(request)
	var data []byte
	if err == nil {
		data, err = io.ReadAll(answer.Body)
		answer.Body.Close()
	}
	o.End = time.Now().UnixNano()
	if err != nil {
		o.Message = err.Error()
		return nil
	}
	o.Code = answer.StatusCode
	if o.Code >= 300 {
		var status metav1.Status
		if err := json.Unmarshal(data, &status); err != nil {
			status.Message = string(data)
		}
		o.Message = status.Message
		return nil
	}
	switch {
	case o.Verb == "list":
		o.List = listIn(data)
	case o.Verb != "delete":
		o.Object = objectIn(data)
	}
	return data
}

// objectIn returns what the checks need of an object.
func objectIn(data []byte) *check.Object {
	var object corev1.ConfigMap // other objects have the same metadata
	if json.Unmarshal(data, &object) != nil {
		return nil
	}
	return describe(&object)
}

func describe(object *corev1.ConfigMap) *check.Object {
	number := func(text string) int64 {
		n, _ := strconv.ParseInt(text, 10, 64) // 0 if there is none
		return n
	}
	return &check.Object{Name: object.Name, Revision: number(object.ResourceVersion), Value: object.Data["value"],
		Policy:  number(object.Annotations[check.PolicyAnnotation]),
		Webhook: number(object.Annotations[check.WebhookAnnotation])}
}

func listIn(data []byte) *check.List {
	var list corev1.ConfigMapList
	if json.Unmarshal(data, &list) != nil {
		return nil
	}
	revision, _ := strconv.ParseInt(list.ResourceVersion, 10, 64)
	found := &check.List{Revision: revision}
	for i := range list.Items {
		found.Objects = append(found.Objects, *describe(&list.Items[i]))
	}
	return found
}

const (
	asJSON       = "application/json"
	asMergePatch = "application/merge-patch+json"
)

// object is an object as JSON.
type object = map[string]any

func path(namespace, resource, name string) string {
	path := "/api/v1/namespaces/" + namespace + "/" + resource
	if name != "" {
		path += "/" + name
	}
	return path
}

// registers reads and writes the ConfigMaps of the namespace Registers until the context ends.
func (c *client) registers(ctx context.Context, began time.Time) {
	known := map[string]*check.Object{}
	for ; ctx.Err() == nil; c.pause(ctx) {
		// Objects are busy for a while, and then left to others, so that no history is long.
		name := fmt.Sprintf("r-%d-%d", int(time.Since(began)/(10*time.Second)), c.random.IntN(4))
		o := &check.Operation{ID: c.id(), Resource: "configmaps", Namespace: check.Registers, Name: name}
		one := path(check.Registers, "configmaps", name)
		value := object{"data": object{"value": o.ID}}
		switch choice, last := c.random.IntN(20), known[name]; {
		case choice < 4 || last == nil && choice < 8:
			o.Verb, o.Value = "create", o.ID
			value["metadata"] = object{"name": name}
			c.send(o, http.MethodPost, path(check.Registers, "configmaps", ""), asJSON, value)
		case choice < 6 && last != nil:
			o.Verb = "delete"
			var options any
			if choice == 5 {
				o.Expected = last.Value
				options = object{"preconditions": object{"resourceVersion": fmt.Sprint(last.Revision)}}
			}
			c.send(o, http.MethodDelete, one, asJSON, options)
		case choice < 12 && last != nil:
			o.Verb, o.Value, o.Expected = "update", o.ID, last.Value
			value["metadata"] = object{"name": name, "resourceVersion": fmt.Sprint(last.Revision)}
			c.send(o, http.MethodPut, one, asJSON, value)
		case choice < 14:
			o.Verb, o.Value = "patch", o.ID
			c.send(o, http.MethodPatch, one, asMergePatch, value)
		case choice < 18:
			o.Verb = "get"
			c.send(o, http.MethodGet, one, asJSON, nil)
		default:
			o.Verb, o.Name, o.MayBeOld = "list", "", choice == 18
			c.send(o, http.MethodGet, path(check.Registers, "configmaps", "")+listQuery(o.MayBeOld), asJSON, nil)
			continue
		}
		known[name] = o.Object
	}
}

// listQuery returns the parameters of a list as of now, or of any time.
func listQuery(mayBeOld bool) string {
	if mayBeOld {
		return "?resourceVersion=0"
	}
	return ""
}
