// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"gatehouse.dev/internal/review/live"
)

var (
	jobKind        = schema.GroupKind{Group: "batch", Kind: "Job"}
	podKind        = schema.GroupKind{Kind: "Pod"}
	definitionKind = schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}
	mutatingPolicy = schema.GroupKind{Group: "admissionregistration.k8s.io", Kind: "MutatingAdmissionPolicy"}
	certificate    = schema.GroupKind{Group: "certificates.k8s.io", Kind: "CertificateSigningRequest"}
)

// identityFields are the fields of metadata that a server sets when it creates an object.
var identityFields = []string{"uid", "creationTimestamp", "generation", "deletionTimestamp",
	"deletionGracePeriodSeconds"}

// fieldsSetOnCreate are the fields outside of metadata and status that a server sets when it creates
// an object, whatever the client has sent, or that it refuses then.
var fieldsSetOnCreate = map[schema.GroupKind][][]string{
	jobKind: {{"spec", "selector"}, {"spec", "template", "metadata", "labels"}},
	podKind: {{"spec", "ephemeralContainers"}},
	certificate: {{"spec", "username"}, {"spec", "uid"}, {"spec", "groups"},
		{"spec", "extra"}},
	service.GroupKind(): {{"spec", "clusterIP"}, {"spec", "clusterIPs"}, {"spec", "ipFamilies"},
		{"spec", "ipFamilyPolicy"}},
}

// makeCreatable returns an object of the state without the fields that a server refuses in a new
// object, although existing objects have them.
func makeCreatable(object *unstructured.Unstructured) *unstructured.Unstructured {
	object = object.DeepCopy()
	switch object.GroupVersionKind().GroupKind() {
	case podKind: // ephemeral containers are added to a running pod
		unstructured.RemoveNestedField(object.Object, "spec", "ephemeralContainers")
	case jobKind: // the selector is made of the UID
		if manual, _, _ := unstructured.NestedBool(object.Object, "spec", "manualSelector"); !manual {
			unstructured.RemoveNestedField(object.Object, "spec", "selector")
			for _, label := range []string{"controller-uid", "batch.kubernetes.io/controller-uid"} {
				unstructured.RemoveNestedField(object.Object, "spec", "template", "metadata", "labels", label)
			}
		}
	}
	for _, field := range identityFields {
		unstructured.RemoveNestedField(object.Object, "metadata", field)
	}
	return object
}

// defaultAccountName gives a pod the service account that the plugin ServiceAccount gives to every pod but mirror
// pods when it is created. Without one, the plugin refuses updates of the pod's ephemeral containers.
func defaultAccountName(pod *unstructured.Unstructured) {
	spec, ok, _ := unstructured.NestedMap(pod.Object, "spec")
	_, isMirror := pod.GetAnnotations()[corev1.MirrorPodAnnotationKey]
	if !ok || isMirror || cmp.Or(spec["serviceAccountName"], spec["serviceAccount"], any("")) != any("") {
		return
	}
	_ = unstructured.SetNestedField(pod.Object, "default", "spec", "serviceAccountName")
}

// mergeStated returns a stored object with the fields of a document of the state that no client can
// write: its UID, its times of creation and deletion, and its status.
func mergeStated(stored, document *unstructured.Unstructured) *unstructured.Unstructured {
	now, kind := stored.DeepCopy(), document.GroupVersionKind().GroupKind()
	take := func(path ...string) {
		if value, ok, _ := unstructured.NestedFieldCopy(document.Object, path...); ok && value != nil {
			_ = unstructured.SetNestedField(now.Object, value, path...) // the server has read both
		}
	}
	for _, field := range identityFields {
		if kind != quotaKind || field != "uid" { // the ledger goes by the UID that the server gave it
			take("metadata", field)
		}
	}
	_, selects, _ := unstructured.NestedMap(document.Object, "spec", "selector")
	if kind != jobKind || selects { // otherwise the server makes the labels
		for _, path := range fieldsSetOnCreate[kind] {
			take(path...)
		}
	}
	if kind == jobKind && document.GetUID() == "" { // objects read from a cluster have none
		labels, _, _ := unstructured.NestedStringMap(now.Object, "spec", "selector", "matchLabels")
		uid := cmp.Or(labels[batchv1.ControllerUidLabel], labels["controller-uid"], string(now.GetUID()))
		now.SetUID(types.UID(uid))
	}
	status, _, _ := unstructured.NestedMap(document.Object, "status")
	switch kind {
	case quotaKind: // the ledger has it, see loadStatus
	case definitionKind: // the rest is the server's own
		if versions, _, _ := unstructured.NestedStringSlice(status, "storedVersions"); len(versions) > 0 {
			has, _, _ := unstructured.NestedStringSlice(now.Object, "status", "storedVersions")
			for _, version := range has {
				if !slices.Contains(versions, version) {
					versions = append(versions, version)
				}
			}
			_ = unstructured.SetNestedStringSlice(now.Object, versions, "status", "storedVersions")
		}
	default:
		for _, field := range slices.Sorted(maps.Keys(status)) {
			take("status", field)
		}
	}
	return now
}

// restate makes a stored object equal to a document of the state, and returns it. It works in the
// store, below the API, because a status may follow rules that only controllers and kubelets keep,
// and the API sets an object's identity.
func (r *Reviewer) restate(ctx context.Context, mapping *meta.RESTMapping, namespace string,
	stored, document *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	for {
		now := mergeStated(stored, document)
		if equality.Semantic.DeepEqual(now.Object, stored.Object) {
			return stored, nil
		}
		key, value, err := r.storedAt(ctx, mapping, stored)
		if err != nil {
			return nil, err
		}
		done := false
		if key != "" {
			whole := now.DeepCopy()
			whole.SetResourceVersion("") // which etcd has itself
			text, err := whole.MarshalJSON()
			if err != nil {
				return nil, err
			}
			value, err := r.cluster.server.Storable(text, value)
			if runtime.IsNotRegisteredError(err) {
				return r.restateCustom(ctx, mapping, namespace, stored, document, key)
			} else if err != nil {
				return nil, err
			}
			if done, err = r.replace(ctx, key, now, value); err != nil {
				return nil, err
			}
		}
		if done {
			return now, nil
		}
		// The server has written it in between.
		if stored, err = r.getStored(ctx, mapping, namespace, document.GetName()); err == nil && stored == nil {
			err = errors.New("the server has deleted it")
		}
		if err != nil {
			return nil, err
		}
	}
}

// restateCustom is restate for a custom resource, which may be stored in another version. It writes
// the status through the API, unless the status is stored already.
func (r *Reviewer) restateCustom(ctx context.Context, mapping *meta.RESTMapping, namespace string,
	stored, document *unstructured.Unstructured, key string) (*unstructured.Unstructured, error) {
	_, value, err := r.storedAt(ctx, mapping, stored)
	if err != nil {
		return nil, err
	}
	raw := &unstructured.Unstructured{}
	if err := raw.UnmarshalJSON(value); err != nil {
		return nil, err
	}
	whole := document.DeepCopy()
	unstructured.RemoveNestedField(whole.Object, "status")
	now := mergeStated(stored, whole)
	for _, field := range identityFields {
		if value, ok, _ := unstructured.NestedFieldCopy(now.Object, "metadata", field); ok {
			if err := unstructured.SetNestedField(raw.Object, value, "metadata", field); err != nil {
				return nil, err
			}
		}
	}
	text, err := raw.MarshalJSON()
	if err != nil {
		return nil, err
	}
	done, err := r.replace(ctx, key, now, text)
	if err == nil && !done {
		err = fmt.Errorf("%s has been written in between", key)
	}
	if err != nil {
		return nil, err
	}
	if status, ok := document.Object["status"]; ok {
		return r.loadStatus(ctx, mapping, namespace, now, status)
	}
	return now, nil
}

// replace replaces the value of a stored object, and sets the object's resourceVersion. It returns
// false if the value was written in between.
func (r *Reviewer) replace(ctx context.Context, key string, stored *unstructured.Unstructured, value []byte) (bool,
	error) {
	revision, err := strconv.ParseInt(stored.GetResourceVersion(), 10, 64)
	if err != nil {
		return false, err
	}
	done, err := r.cluster.store.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(key), "=", revision)).
		Then(clientv3.OpPut(key, string(value))).Commit()
	if err != nil || !done.Succeeded {
		return false, err
	}
	stored.SetResourceVersion(strconv.FormatInt(done.Header.Revision, 10))
	return true, nil
}

// storedAt returns the key and the value of a stored object, or "" if it has been written again.
func (r *Reviewer) storedAt(ctx context.Context, mapping *meta.RESTMapping, stored *unstructured.Unstructured) (
	string, []byte, error) {
	resource, name := mapping.Resource.GroupResource(), stored.GetName()
	if namespace := stored.GetNamespace(); namespace != "" {
		name = namespace + "/" + name
	}
	if prefix, ok := r.cluster.keys[resource]; ok {
		found, err := r.cluster.store.Get(ctx, prefix+name)
		if err != nil {
			return "", nil, err
		}
		if len(found.Kvs) == 1 {
			return prefix + name, found.Kvs[0].Value, nil
		}
	}
	// An object's version is the revision at which its key, and no other, was written.
	revision, err := strconv.ParseInt(stored.GetResourceVersion(), 10, 64)
	if err != nil {
		return "", nil, err
	}
	found, err := r.cluster.store.Get(ctx, r.prefix(), clientv3.WithPrefix(), clientv3.WithMinModRev(revision),
		clientv3.WithMaxModRev(revision))
	if err != nil {
		return "", nil, err
	}
	for _, kv := range found.Kvs {
		if key, ok := strings.CutSuffix(string(kv.Key), "/"+name); ok {
			r.cluster.keys[resource] = key + "/"
			return string(kv.Key), kv.Value, nil
		}
	}
	return "", nil, nil
}

// convertToServed returns an object in a version that the server serves: its own, or else the one
// that Kubernetes prefers. Events are converted to the older group, because the newer group refuses
// events that were created in the older.
func (r *Reviewer) convertToServed(object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	kind := object.GroupVersionKind()
	to, unserved := kind, error(nil)
	if kind.GroupKind() == (schema.GroupKind{Group: "events.k8s.io", Kind: "Event"}) {
		to = schema.GroupVersionKind{Version: "v1", Kind: "Event"}
	} else if _, unserved = r.cluster.findKind(object); unserved != nil {
		mapping, err := r.cluster.mapper.RESTMapping(kind.GroupKind())
		if err != nil {
			return nil, unserved
		}
		to = mapping.GroupVersionKind
	}
	if to == kind {
		return object, nil
	}
	text, err := object.MarshalJSON()
	if err == nil {
		text, err = r.cluster.server.Converted(text, to)
	}
	if runtime.IsNotRegisteredError(err) && unserved != nil { // a custom resource
		return nil, unserved
	}
	if err != nil {
		return nil, fmt.Errorf("conversion to %s: %w", to.GroupVersion(), err)
	}
	now := &unstructured.Unstructured{}
	return now, now.UnmarshalJSON(text)
}

// awaitParamKind waits until the server can find the params of a policy, if they are custom
// resources. If the server couldn't when it reads the policy, it would only try again later.
func (r *Reviewer) awaitParamKind(ctx context.Context, policy *unstructured.Unstructured) error {
	for kind := range live.ParamKinds([]*unstructured.Unstructured{policy}) {
		r.cluster.params[kind.GroupKind()] = true
		if r.cluster.custom[kind] == nil {
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, resourceTimeout)
		defer cancel()
		if err := r.cluster.server.AwaitKind(ctx, kind); err != nil {
			return fmt.Errorf("spec.paramKind: %s is not known to policies: %w", kind, err)
		}
	}
	return nil
}

// withSuggestions adds the fields that were likely meant to a server's message about unknown fields.
func (r *Reviewer) withSuggestions(mapping meta.RESTMapping, message string, unknown []string) string {
	for _, field := range unknown {
		if meant := r.suggestField(mapping, field); meant != "" {
			quoted := strconv.Quote(field)
			message = strings.ReplaceAll(message, quoted, fmt.Sprintf("%s (did you mean %q?)", quoted, meant))
		}
	}
	return message
}

// list returns all objects of a kind, in all namespaces.
func (r *Reviewer) list(ctx context.Context, like *unstructured.Unstructured) ([]map[string]any, error) {
	mapping, err := r.cluster.findKind(like)
	if err != nil {
		return nil, err
	}
	a, err := r.cluster.do(ctx, call{verb: http.MethodGet, resource: *mapping, as: admin})
	if err != nil {
		return nil, err
	}
	if !a.ok() {
		return nil, errors.New(a.message())
	}
	var all []map[string]any
	items, _, _ := unstructured.NestedSlice(a.object.Object, "items")
	for _, item := range items {
		fields, _ := item.(map[string]any)
		all = append(all, fields)
	}
	return all, nil
}

// listAs returns all objects of a kind in their Go type.
func listAs[T any](ctx context.Context, r *Reviewer, kind schema.GroupVersionKind) ([]T, error) {
	like := &unstructured.Unstructured{}
	like.SetGroupVersionKind(kind)
	items, err := r.list(ctx, like)
	if err != nil {
		return nil, err
	}
	all := make([]T, len(items))
	for i, item := range items {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(item, &all[i]); err != nil {
			return nil, err
		}
	}
	return all, nil
}
