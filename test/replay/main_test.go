// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package replay_test compares what recorded requests are read as with what admission was asked when
// they were made: a plugin in a running server notes every question, and the server writes an audit
// log and a record.
package replay_test

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	apiaudit "k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/user"

	"gatehouse.dev/gatehousetest"
	"gatehouse.dev/plugin"
	"gatehouse.dev/server"
	"gatehouse.dev/test/needs"
	"gatehouse.dev/test/servertest"
)

// auditPolicy records everything, most of it with bodies.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
rules:
- {level: Metadata, namespaces: [metadata-only]}
- {level: Request, namespaces: [request-only]}
- {level: RequestResponse}
`

var (
	suite    servertest.Suite
	cluster  *servertest.Cluster
	auditLog string
	// record is the file of --record.
	record string
	// questions is the plugin before all others, and conclusions the one behind them.
	questions, conclusions = &observer{name: "Questions"}, &observer{name: "Conclusions"}
)

func TestMain(m *testing.M) {
	needs.NotShort()
	dir, err := os.MkdirTemp("", "replay-")
	if err != nil {
		suite.Fatal(err)
	}
	suite.Cleanup(func() { os.RemoveAll(dir) })
	policy := filepath.Join(dir, "policy.yaml")
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
		suite.Fatal(err)
	}
	auditLog, record = filepath.Join(dir, "audit.log"), filepath.Join(dir, "record.log")
	cluster = servertest.Start(&suite, gatehousetest.WithConfig(func(c *server.Config) {
		c.Record.Path = record
		c.API.Audit.PolicyFile, c.API.Audit.LogOptions.Path = policy, auditLog
		c.Plugins = slices.Concat([]plugin.Descriptor{questions.descriptor()}, c.Plugins,
			[]plugin.Descriptor{conclusions.descriptor()})
	}))
	suite.Main(m)
}

// question is what admission was asked.
type question struct {
	operation                    admission.Operation
	resource                     schema.GroupVersionResource
	kind                         schema.GroupVersionKind
	subresource, namespace, name string
	dryRun                       bool
	object, oldObject            map[string]any
	options                      runtime.Object
	info                         user.Info
	validating                   bool
}

// observer notes what it is asked, and refuses objects with the annotation refuse.
type observer struct {
	name string

	mu    sync.Mutex
	asked map[string][]question // by audit ID
}

func (o *observer) descriptor() plugin.Descriptor {
	return plugin.Descriptor{
		Name: o.name, Summary: "Notes what it is asked", Phases: plugin.Mutating | plugin.Validating, Default: true,
		New: func(io.Reader, *plugin.Env) (plugin.Plugin, error) { return o, nil },
	}
}

func (o *observer) Handles(admission.Operation) bool { return true }

func (o *observer) Admit(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	return o.note(ctx, a, false)
}

func (o *observer) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	return o.note(ctx, a, true)
}

func (o *observer) note(ctx context.Context, a admission.Attributes, validating bool) error {
	id := string(apiaudit.GetAuditIDTruncated(ctx))
	q := question{operation: a.GetOperation(), resource: a.GetResource(), kind: a.GetKind(), subresource: a.GetSubresource(),
		namespace: a.GetNamespace(), name: a.GetName(), dryRun: a.IsDryRun(), info: a.GetUserInfo(), validating: validating}
	var err error
	if q.object, err = contentOf(a.GetObject(), a.GetKind()); err != nil {
		return err
	}
	if q.oldObject, err = contentOf(a.GetOldObject(), a.GetKind()); err != nil {
		return err
	}
	if options := a.GetOperationOptions(); options != nil {
		q.options = options.DeepCopyObject()
	}
	o.mu.Lock()
	if o.asked == nil {
		o.asked = map[string][]question{}
	}
	o.asked[id] = append(o.asked[id], q)
	o.mu.Unlock()
	for _, object := range []runtime.Object{a.GetObject(), a.GetOldObject()} {
		if m, err := meta.Accessor(object); err == nil && m.GetAnnotations()["refuse"] == string(a.GetOperation()) {
			return admission.NewForbidden(a, errRefused)
		}
	}
	return nil
}

// all returns what was asked so far.
func (o *observer) all() map[string][]question {
	o.mu.Lock()
	defer o.mu.Unlock()
	return maps.Clone(o.asked)
}

// contentOf returns an object as data, with its kind.
func contentOf(object runtime.Object, kind schema.GroupVersionKind) (map[string]any, error) {
	if object == nil {
		return nil, nil
	}
	data, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	var content map[string]any
	if err := json.Unmarshal(data, &content); err != nil {
		return nil, err
	}
	content["apiVersion"], content["kind"] = kind.GroupVersion().String(), kind.Kind
	return content, nil
}
