// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"strconv"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"

	"gatehouse.dev/apiserver"
	"gatehouse.dev/plugin"
)

// A Mark is everything that the server had stored at one time.
type Mark struct {
	entries map[string]entry
	// revision is the store's revision at that time, or after the last Restore.
	revision int64
	// manifests are the manifests that objects were made from.
	manifests map[key]*unstructured.Unstructured
	// aggregated reports whether ClusterRoles had the rules of those that they aggregate.
	aggregated bool
}

type entry struct {
	value    []byte
	revision int64
}

// ErrNotRestored is returned if a CustomResourceDefinition was written: only a new server undoes
// that.
var ErrNotRestored = errors.New("a CustomResourceDefinition was written")

// Mark returns a mark of everything that is stored now.
func (r *Reviewer) Mark(ctx context.Context) (*Mark, error) {
	all, err := r.cluster.store.Get(ctx, r.prefix(), clientv3.WithPrefix())
	if err != nil {
		return nil, err
	}
	m := &Mark{entries: map[string]entry{}, revision: all.Header.Revision,
		manifests: maps.Clone(r.manifests), aggregated: r.cluster.aggregated}
	for _, kv := range all.Kvs {
		m.entries[string(kv.Key)] = entry{kv.Value, kv.ModRevision}
	}
	return m, nil
}

// Restore undoes what was written since the mark, quotas' usage included, and waits until the
// server uses the restored state. It doesn't reset the memory of plugins, such as the number of
// events in EventRateLimit.
//
// It works in the store, below the API: objects get their old UIDs back, and nothing is admitted,
// defaulted or finalized.
func (r *Reviewer) Restore(ctx context.Context, m *Mark) error {
	changed, err := r.cluster.store.Get(ctx, r.prefix(), clientv3.WithPrefix(), clientv3.WithMinModRev(m.revision+1))
	if err != nil {
		return err
	}
	now, err := r.cluster.store.Get(ctx, r.prefix(), clientv3.WithPrefix(), clientv3.WithKeysOnly(),
		clientv3.WithRev(changed.Header.Revision))
	if err != nil {
		return err
	}
	there := map[string]bool{}
	for _, kv := range now.Kvs {
		there[string(kv.Key)] = true
	}
	// before holds the old values of the keys that are to be written, nil for keys that had none; is
	// holds the present values.
	before, is := map[string][]byte{}, map[string][]byte{}
	for _, kv := range changed.Kvs {
		key := string(kv.Key)
		before[key], is[key] = m.entries[key].value, kv.Value
	}
	for key, entry := range m.entries {
		if !there[key] {
			before[key] = entry.value
		}
	}
	for key := range before {
		switch {
		case r.isServerKey(key):
			delete(before, key)
		case strings.HasPrefix(key, r.prefix()+"apiextensions.k8s.io/customresourcedefinitions/"):
			if generation(before[key]) != generation(is[key]) {
				return ErrNotRestored
			}
			delete(before, key) // its status is the server's
		}
	}
	r.cluster.aggregated = m.aggregated
	clear(r.namespaces)
	clear(r.manifests)
	maps.Copy(r.manifests, m.manifests)
	return r.undo(ctx, m, before, is)
}

// undo gives keys the values that they had. It writes one key at a time, because watches take a
// revision as the change of one object.
func (r *Reviewer) undo(ctx context.Context, m *Mark, before, is map[string][]byte) error {
	var written []plugin.Written
	for key, value := range before {
		text, revision := value, int64(0)
		if value == nil {
			done, err := r.cluster.store.Delete(ctx, key)
			if err != nil {
				return err
			}
			text, m.revision = is[key], done.Header.Revision
		} else {
			done, err := r.cluster.store.Put(ctx, key, string(value))
			if err != nil {
				return err
			}
			revision, m.revision = done.Header.Revision, done.Header.Revision
			m.entries[key] = entry{value, revision}
		}
		if w, ok := r.describeWrite(text, revision); ok {
			written = append(written, w)
		}
	}
	for _, w := range written {
		if err := r.await(ctx, w); err != nil {
			return err
		}
	}
	return nil
}

// prefix returns the prefix of all keys.
func (r *Reviewer) prefix() string {
	return strings.TrimSuffix(r.options.Config.API.Etcd.StorageConfig.Prefix, "/") + "/"
}

// isServerKey reports whether a key is one by which servers know of each other and of the APIs that
// they serve.
func (r *Reviewer) isServerKey(key string) bool {
	key = strings.TrimPrefix(key, r.prefix())
	return apiserver.OwnKey(key) || strings.HasPrefix(key, "apiregistration.k8s.io/")
}

// generation returns the generation of a stored custom resource or its definition, or 0.
func generation(value []byte) int64 {
	var stored struct {
		Metadata struct {
			Generation int64 `json:"generation"`
		} `json:"metadata"`
	}
	_ = json.Unmarshal(value, &stored)
	return stored.Metadata.Generation
}

// describeWrite describes the write of a stored value at a revision, 0 for deleted. It returns false if
// the value isn't an object of the API, which nothing follows.
func (r *Reviewer) describeWrite(value []byte, revision int64) (plugin.Written, bool) {
	var object runtime.Object = &unstructured.Unstructured{}
	var err error
	if bytes.HasPrefix(value, []byte("{")) {
		err = object.(*unstructured.Unstructured).UnmarshalJSON(value)
	} else {
		object, _, err = scheme.Codecs.UniversalDeserializer().Decode(value, nil, nil)
	}
	if err != nil {
		return plugin.Written{}, false
	}
	accessor, err := meta.Accessor(object)
	if err != nil {
		return plugin.Written{}, false
	}
	kind := object.GetObjectKind().GroupVersionKind()
	resource, _ := meta.UnsafeGuessKindToResource(kind)
	if mapping := r.cluster.custom[kind]; mapping != nil {
		resource = mapping.Resource
	}
	w := plugin.Written{Resource: resource.GroupResource(), Namespace: accessor.GetNamespace(), Name: accessor.GetName()}
	if revision > 0 {
		w.ResourceVersion = strconv.FormatInt(revision, 10)
	}
	return w, true
}
