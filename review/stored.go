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
	certificate    = schema.GroupKind{Group: "certificates.k8s.io", Kind: "CertificateSigningRequest"}
)

// identity are the fields of metadata that a server gives an object which is created.
var identity = []string{"uid", "creationTimestamp", "generation", "deletionTimestamp",
	"deletionGracePeriodSeconds"}

// created are the fields outside of metadata and status that a server gives an object which is
// created, whatever the client has sent, or refuses then.
var created = map[schema.GroupKind][][]string{
	jobKind: {{"spec", "selector"}, {"spec", "template", "metadata", "labels"}},
	podKind: {{"spec", "ephemeralContainers"}},
	certificate: {{"spec", "username"}, {"spec", "uid"}, {"spec", "groups"},
		{"spec", "extra"}},
	service.GroupKind(): {{"spec", "clusterIP"}, {"spec", "clusterIPs"}, {"spec", "ipFamilies"},
		{"spec", "ipFamilyPolicy"}},
}

// creatable returns an object of the state as it can be created: without what a server refuses in a
// new object, although every server has objects with it.
func creatable(object *unstructured.Unstructured) *unstructured.Unstructured {
	object = object.DeepCopy()
	switch object.GroupVersionKind().GroupKind() {
	case podKind: // they are added to a pod that runs
		unstructured.RemoveNestedField(object.Object, "spec", "ephemeralContainers")
	case jobKind: // the selector is made of the UID
		if manual, _, _ := unstructured.NestedBool(object.Object, "spec", "manualSelector"); !manual {
			unstructured.RemoveNestedField(object.Object, "spec", "selector")
			for _, label := range []string{"controller-uid", "batch.kubernetes.io/controller-uid"} {
				unstructured.RemoveNestedField(object.Object, "spec", "template", "metadata", "labels", label)
			}
		}
	}
	for _, field := range identity {
		unstructured.RemoveNestedField(object.Object, "metadata", field)
	}
	return object
}

// asStated returns a stored object with all that a document of the state says of it and that no
// client can write: who it is, since when, whether it is being deleted, and its status.
func asStated(stored, document *unstructured.Unstructured) *unstructured.Unstructured {
	now, kind := stored.DeepCopy(), document.GroupVersionKind().GroupKind()
	take := func(path ...string) {
		if value, ok, _ := unstructured.NestedFieldCopy(document.Object, path...); ok && value != nil {
			_ = unstructured.SetNestedField(now.Object, value, path...) // the server has read both
		}
	}
	for _, field := range identity {
		if kind != quotaKind || field != "uid" { // the ledger goes by the UID that the server gave it
			take("metadata", field)
		}
	}
	_, selects, _ := unstructured.NestedMap(document.Object, "spec", "selector")
	if kind != jobKind || selects { // else nobody has made its labels yet
		for _, path := range created[kind] {
			take(path...)
		}
	}
	if kind == jobKind && document.GetUID() == "" { // in what is read of a cluster nobody has one
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
		now := asStated(stored, document)
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
		if stored, err = r.stored(ctx, mapping, namespace, document.GetName()); err == nil && stored == nil {
			err = errors.New("the server has deleted it")
		}
		if err != nil {
			return nil, err
		}
	}
}

// restateCustom is restate of a custom resource, which may be stored in another version. Its status
// goes through the API, unless it has been stored with the object.
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
	now := asStated(stored, whole)
	for _, field := range identity {
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

// replace writes a value in place of that of a stored object, whose version is then that of the new
// one. It reports whether it did: not if somebody else has written it.
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

// storedAt returns the key and the value of a stored object; empty if it has been written again.
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
	// The version of an object is the revision at which its key was written, and no other.
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

// converted is an object in a version that the server serves: in that of Kubernetes' own, if its
// own isn't. Events are taken in the older group, since the newer one refuses those that were made
// there.
func (r *Reviewer) converted(object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	kind := object.GroupVersionKind()
	to, unserved := kind, error(nil)
	if kind.GroupKind() == (schema.GroupKind{Group: "events.k8s.io", Kind: "Event"}) {
		to = schema.GroupVersionKind{Version: "v1", Kind: "Event"}
	} else if _, unserved = r.cluster.find(object); unserved != nil {
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
// resources: if it can't when it reads the policy it tries again later only.
func (r *Reviewer) awaitParamKind(ctx context.Context, policy *unstructured.Unstructured) error {
	for kind := range live.ParamKinds([]*unstructured.Unstructured{policy}) {
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

// withMeant returns the message of a server about fields that a kind doesn't have, with those that
// were likely meant.
func withMeant(kind schema.GroupVersionKind, message string, unknown []string) string {
	for _, field := range unknown {
		if meant := meantField(kind, field); meant != "" {
			quoted := strconv.Quote(field)
			message = strings.ReplaceAll(message, quoted, fmt.Sprintf("%s (did you mean %q?)", quoted, meant))
		}
	}
	return message
}

// list returns all objects of a kind, in all namespaces.
func (r *Reviewer) list(ctx context.Context, like *unstructured.Unstructured) ([]map[string]any, error) {
	mapping, err := r.cluster.find(like)
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

// listed returns all objects of a kind in their Go type.
func listed[T any](ctx context.Context, r *Reviewer, kind schema.GroupVersionKind) ([]T, error) {
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
