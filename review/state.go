// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"gatehouse.dev/internal/review/input"
	"gatehouse.dev/internal/review/live"
	"gatehouse.dev/plugin"
)

// loadState gives the server the state, and gives the namespaces that every server has their default
// service accounts.
func (r *Reviewer) loadState(ctx context.Context) error {
	for _, namespace := range []string{"default", "kube-system", "kube-public", "kube-node-lease"} {
		if err := r.addDefaultAccount(ctx, namespace); err != nil {
			return err
		}
	}
	return r.Load(ctx, r.options.State)
}

// Load stores objects as if they had existed before: defaulted and validated, but without admission.
func (r *Reviewer) Load(ctx context.Context, state []input.Document) error {
	snapshots, others := live.Parse(state)
	for _, snapshot := range snapshots {
		if err := r.loadCluster(ctx, snapshot); err != nil {
			return err
		}
	}
	var errs []error
	for _, d := range others {
		// Only manifests count as applied, not objects that a server has written.
		if d.Object.GetUID() == "" && d.Object.GetResourceVersion() == "" {
			r.manifests[r.keyOf(d.Object)] = d.Object
		}
	}
	err := r.store(ctx, others, r.put, func(d input.Document, err error) error {
		errs = append(errs, &input.Error{Source: d.Source, Object: d.Object,
			Err: fmt.Errorf("%s: %w", input.Named(d.Object), err)})
		return nil
	})
	return errors.Join(append(errs, err)...)
}

// A putter stores an object without admission, and returns the stored object, or nil if it is left
// out. It may return an object with an error if only a part of it could be stored.
type putter func(context.Context, *unstructured.Unstructured) (*unstructured.Unstructured, error)

// store stores documents without admission, in the order in which they need each other. It calls
// failed if a document can't be stored, and stops if failed returns an error.
func (r *Reviewer) store(ctx context.Context, documents []input.Document, put putter,
	failed func(input.Document, error) error) error {
	documents, _ = input.Ordered(documents, r.scopedNamespace, loadingPhase)
	var all []*unstructured.Unstructured
	for _, d := range documents {
		stored, err := put(ctx, d.Object.DeepCopy())
		if err != nil {
			if err := failed(d, err); err != nil {
				return err
			}
		}
		all = append(all, stored)
	}
	// One look at what is in force is good for all that wait side by side.
	group, waiting := errgroup.WithContext(ctx)
	for _, object := range all {
		group.Go(func() error { return r.awaitObject(waiting, object) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return r.aggregateRoles(ctx)
}

// loadingPhase returns the phase in which an object of the state is stored.
func loadingPhase(object *unstructured.Unstructured) int {
	switch kind := object.GroupVersionKind().GroupKind(); {
	case kind == definitionKind, kind == serviceRange:
		return 0
	case kind.Group == "admissionregistration.k8s.io":
		return 2 // after the params that policies look for
	case kind == ipAddress:
		return 2 // after the services, which make theirs
	case kind == quotaKind:
		// The usage of quotas includes all objects of the state. An object that is stored after them
		// would be charged once more.
		return 3
	}
	return 1
}

// load stores an object without admission, and waits until the server uses it.
func (r *Reviewer) load(ctx context.Context, object *unstructured.Unstructured) error {
	stored, err := r.put(ctx, object)
	if err != nil {
		return err
	}
	return r.awaitObject(ctx, stored)
}

// put is the putter of objects of files, whose fields the server must know. With AllowIncomplete it leaves others out,
// with a note.
func (r *Reviewer) put(ctx context.Context, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	if !r.options.AllowIncomplete {
		stored, _, err := r.putValidated(ctx, object, metav1.FieldValidationStrict)
		return stored, err
	}
	stored, fields, err := r.putValidated(ctx, object, metav1.FieldValidationIgnore)
	if len(fields) > 0 && err == nil {
		r.notes = append(r.notes, fmt.Sprintf("%s %s: left out of the state: fields that Kubernetes doesn't have: %s",
			object.GetKind(), object.GetName(), strings.Join(fields, ", ")))
	}
	return stored, err
}

// putOfCluster is the putter of objects that a cluster has. A field that the server doesn't know is
// an error, unless it is in a status: newer versions of Kubernetes often add such fields.
func (r *Reviewer) putOfCluster(ctx context.Context, object *unstructured.Unstructured) (*unstructured.Unstructured,
	error) {
	stored, fields, err := r.putValidated(ctx, object, metav1.FieldValidationIgnore)
	if err != nil {
		return stored, err
	}
	var unknown []string
	for _, field := range fields {
		if !strings.HasPrefix(field, "status.") {
			unknown = append(unknown, strconv.Quote(field))
		}
	}
	if len(unknown) > 0 {
		err = fmt.Errorf("fields that this version of Kubernetes doesn't have: %s", strings.Join(unknown, ", "))
	}
	return stored, err
}

// putValidated stores an object without admission, with its status, and returns the stored object.
// It returns nil if the kind is unknown and to be ignored, or if every server makes its own.
// validation says how to treat unknown fields, which it returns too.
func (r *Reviewer) putValidated(ctx context.Context, object *unstructured.Unstructured, validation string) (
	_ *unstructured.Unstructured, fields []string, _ error) {
	object, err := r.convertToServed(object)
	var unknown unknownKindError
	if errors.As(err, &unknown) && unknown.isForeign && r.options.IgnoreUnknown {
		r.notes = append(r.notes, fmt.Sprintf("%s: left out of the state: %s", unknown.kind.Kind, unknown.short()))
		return nil, nil, nil
	} else if err != nil {
		return nil, nil, err
	}
	mapping, err := r.cluster.findKind(object)
	if err != nil || live.IsAPIServer(object) {
		return nil, nil, err
	}
	if object.GroupVersionKind().GroupKind() == definitionKind && object.GetDeletionTimestamp() != nil {
		return nil, nil, errors.New("it is being deleted, and the server would complete that: leave out the " +
			"definition and the objects of its kind")
	}
	c := call{verb: http.MethodPost, resource: *mapping, as: admin, state: true,
		query: url.Values{"fieldValidation": {validation}}}
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		c.namespace = r.namespaceOf(object)
	}
	object.SetResourceVersion("")
	object.SetManagedFields(nil)
	c.body = makeCreatable(object)
	if r.givesAccounts && object.GroupVersionKind().GroupKind() == podKind {
		defaultAccountName(c.body)
	}
	if err := r.awaitParamKind(ctx, object); err != nil {
		return nil, nil, err
	}
	a, err := r.createStated(ctx, c)
	if err != nil {
		return nil, nil, err
	}
	if a.code == http.StatusMethodNotAllowed { // the server computes such objects
		return nil, nil, nil
	}
	if a.code == http.StatusConflict { // every server has it
		stored, err := r.getStored(ctx, mapping, c.namespace, object.GetName())
		if err != nil {
			return nil, nil, err
		}
		if stored == nil {
			return nil, nil, errors.New(a.message())
		}
		if live.Same(stored, object) {
			return stored, nil, r.complete(ctx, stored)
		}
		c.verb, c.name, c.body = http.MethodPut, object.GetName(), object.DeepCopy()
		c.body.SetDeletionTimestamp(nil)
		c.body.SetResourceVersion(stored.GetResourceVersion())
		c.body.SetUID(stored.GetUID())
		if a, err = r.cluster.do(ctx, c); err != nil {
			return nil, nil, err
		}
	}
	fields, _ = r.cluster.server.CheckFields(mapping.Resource, object)
	if !a.ok() {
		return nil, nil, errors.New(r.withSuggestions(*mapping, a.message(), fields))
	}
	stored, err := r.restate(ctx, mapping, c.namespace, a.object, object)
	if err != nil {
		return nil, nil, err
	}
	if status, ok := object.Object["status"]; ok && object.GroupVersionKind().GroupKind() == quotaKind {
		if stored, err = r.loadStatus(ctx, mapping, c.namespace, stored, status); err != nil {
			return nil, nil, err
		}
	}
	if err := r.complete(ctx, stored); err != nil {
		return stored, fields, err
	}
	if definition, ok := r.cluster.unserved[stored.GetName()]; ok && mapping.GroupVersionKind.GroupKind() == definitionKind {
		r.notes = append(r.notes, "state: CustomResourceDefinition "+definition.why)
	}
	return stored, fields, nil
}

// loadStatus writes the status of a stored object through the API, and returns the stored object.
// Kinds without the subresource have their status already.
func (r *Reviewer) loadStatus(ctx context.Context, mapping *meta.RESTMapping, namespace string,
	stored *unstructured.Unstructured, status any) (*unstructured.Unstructured, error) {
	stored.Object["status"] = status
	a, err := r.cluster.do(ctx, call{verb: http.MethodPut, resource: *mapping, namespace: namespace,
		name: stored.GetName(), subresource: "status", body: stored, as: admin, state: true})
	if err == nil && a.code == http.StatusConflict {
		// The server has written the status that it would have, as that of a quota.
		var now *unstructured.Unstructured
		if now, err = r.getStored(ctx, mapping, namespace, stored.GetName()); err == nil && now != nil {
			return r.loadStatus(ctx, mapping, namespace, now, status)
		}
	}
	switch {
	case err != nil:
		return nil, err
	case a.ok():
		return a.object, nil
	case a.code == http.StatusNotFound, a.code == http.StatusMethodNotAllowed:
		return stored, nil
	}
	return nil, fmt.Errorf("status: %s", a.message())
}

// settle does at once what controllers would do for an object sooner or later, and waits until the
// server uses the object.
func (r *Reviewer) settle(ctx context.Context, object *unstructured.Unstructured) error {
	if err := r.awaitObject(ctx, object); err != nil {
		return err
	}
	return r.complete(ctx, object)
}

// awaitObject waits until the server uses an object as it is stored. It returns at once if the object
// is nil.
func (r *Reviewer) awaitObject(ctx context.Context, object *unstructured.Unstructured) error {
	if object == nil {
		return nil
	}
	mapping, err := r.cluster.findKind(object)
	if err != nil {
		return err
	}
	return r.await(ctx, plugin.Written{Resource: mapping.Resource.GroupResource(), Namespace: object.GetNamespace(),
		Name: object.GetName(), ResourceVersion: object.GetResourceVersion()})
}

// complete does what controllers would do for an object, and waits for what it defines.
func (r *Reviewer) complete(ctx context.Context, object *unstructured.Unstructured) error {
	switch object.GroupVersionKind().GroupKind() {
	case schema.GroupKind{Kind: "Namespace"}:
		if err := r.addDefaultAccount(ctx, object.GetName()); err != nil {
			return err
		}
	case definitionKind:
		if err := r.awaitDefinition(ctx, object); err != nil {
			return err
		}
		if _, ok := r.cluster.unserved[object.GetName()]; ok {
			return nil
		}
		r.cluster.undescribed[object.GetName()] = object
		return r.awaitDescribed(ctx)
	case mutatingPolicy:
		rules, _, _ := unstructured.NestedSlice(object.Object, "spec", "matchConstraints", "resourceRules")
		for _, rule := range rules {
			fields, _ := rule.(map[string]any)
			groups, _, _ := unstructured.NestedStringSlice(fields, "apiGroups")
			for _, group := range groups {
				r.cluster.mutated[group] = true
			}
		}
		return r.awaitDescribed(ctx)
	case serviceRange:
		return r.openRange(ctx, object)
	case clusterRoleKind.GroupKind():
		r.cluster.aggregated = false
	}
	return nil
}

// settleDeleted is settle for a deleted object, which may still exist because of finalizers.
func (r *Reviewer) settleDeleted(ctx context.Context, c *call) error {
	written := plugin.Written{Resource: c.resource.Resource.GroupResource(), Namespace: c.namespace, Name: c.name}
	stored, err := r.getStored(ctx, &c.resource, c.namespace, c.name)
	if err != nil {
		return err
	}
	if stored != nil {
		written.ResourceVersion = stored.GetResourceVersion()
	}
	if err := r.await(ctx, written); err != nil {
		return err
	}
	switch c.resource.GroupVersionKind.GroupKind() {
	case clusterRoleKind.GroupKind():
		r.cluster.aggregated = false
	case definitionKind:
		delete(r.cluster.undescribed, c.name)
	}
	return nil
}

// await waits until the server uses an object that was written.
func (r *Reviewer) await(ctx context.Context, written plugin.Written) error {
	ctx, cancel := context.WithTimeout(ctx, resourceTimeout)
	defer cancel()
	if err := r.cluster.server.Await(ctx, written); err != nil {
		return fmt.Errorf("%s %q is not in force: %w", written.Resource, written.Name, err)
	}
	return nil
}

// addDefaultAccount makes a namespace's default ServiceAccount, unless there is one.
func (r *Reviewer) addDefaultAccount(ctx context.Context, namespace string) error {
	account := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ServiceAccount",
		"metadata": map[string]any{"name": "default", "namespace": namespace}}}
	mapping, err := r.cluster.findKind(account)
	if err != nil {
		return err
	}
	a, err := r.cluster.do(ctx, call{verb: http.MethodPost, resource: *mapping, namespace: namespace, body: account,
		as: admin, state: true})
	if err != nil {
		return err
	}
	if !a.ok() && a.code != http.StatusConflict {
		return errors.New(a.message())
	}
	return nil
}
