package review

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"gatehouse.dev/internal/review/input"
	"gatehouse.dev/internal/review/live"
	"gatehouse.dev/plugin"
)

// loadState gives the server the objects that are there from the start, and the namespaces that
// every server has what controllers would.
func (r *Reviewer) loadState(ctx context.Context) error {
	for _, namespace := range []string{"default", "kube-system", "kube-public", "kube-node-lease"} {
		if err := r.addDefaultAccount(ctx, namespace); err != nil {
			return err
		}
	}
	return r.Load(ctx, r.options.State)
}

// Load gives the server objects as if they had been there before: as they are, with their defaults
// and valid, without admission.
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

// A putter stores an object without admission, and returns it as it is stored; nil if it is left
// out. It may return an object with an error, if only a part of it could be stored.
type putter func(context.Context, *unstructured.Unstructured) (*unstructured.Unstructured, error)

// store stores documents without admission, those first that others need. failed says what becomes
// of the error of one that can't be stored.
func (r *Reviewer) store(ctx context.Context, documents []input.Document, put putter,
	failed func(input.Document, error) error) error {
	documents, _ = input.Ordered(documents, r.scopedNamespace)
	slices.SortStableFunc(documents, func(a, b input.Document) int { return turn(a) - turn(b) })
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
	// Side by side, since one look at what is in force is good for all.
	group, waiting := errgroup.WithContext(ctx)
	for _, object := range all {
		group.Go(func() error { return r.awaitObject(waiting, object) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return r.aggregateRoles(ctx)
}

// turn is when an object of the state is stored.
func turn(d input.Document) int {
	switch kind := d.Object.GroupVersionKind().GroupKind(); {
	case kind == definitionKind, kind == serviceRange:
		return 0
	case kind.Group == "admissionregistration.k8s.io":
		return 2 // when the params are there that policies look for
	case kind == ipAddress:
		return 2 // the services have made theirs
	case kind == quotaKind:
		// Quotas have their usage with all objects there, read or not; what is stored after them
		// would be charged.
		return 3
	}
	return 1
}

// load stores an object without admission, and waits until the server goes by it.
func (r *Reviewer) load(ctx context.Context, object *unstructured.Unstructured) error {
	stored, err := r.put(ctx, object)
	if err != nil {
		return err
	}
	return r.awaitObject(ctx, stored)
}

// put is the putter of objects of files, whose fields the server must know.
func (r *Reviewer) put(ctx context.Context, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	stored, _, err := r.putValidated(ctx, object, metav1.FieldValidationStrict)
	return stored, err
}

// putOfCluster is the putter of objects that a cluster has. Fields that the server doesn't know are
// an error, unless they are in a status, which the kinds' newer versions add to all the time.
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
	object, err := r.converted(object)
	var unknown unknownKindError
	if errors.As(err, &unknown) && r.options.IgnoreUnknown {
		r.notes = append(r.notes, fmt.Sprintf("%s: left out of the state: %s", unknown.kind.Kind, unknown.short()))
		return nil, nil, nil
	} else if err != nil {
		return nil, nil, err
	}
	mapping, err := r.cluster.find(object)
	if err != nil || live.IsAPIServer(object) {
		return nil, nil, err
	}
	if object.GroupVersionKind().GroupKind() == definitionKind && object.GetDeletionTimestamp() != nil {
		return nil, nil, errors.New("it is being deleted, and the server would complete that: leave it out, as what " +
			"is of its kind")
	}
	c := call{verb: http.MethodPost, resource: *mapping, as: admin, state: true,
		query: url.Values{"fieldValidation": {validation}}}
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		c.namespace = r.namespaceOf(object)
	}
	object.SetResourceVersion("")
	object.SetManagedFields(nil)
	c.body = creatable(object)
	if err := r.awaitParamKind(ctx, object); err != nil {
		return nil, nil, err
	}
	a, err := r.create(ctx, c)
	if err != nil {
		return nil, nil, err
	}
	if a.code == http.StatusMethodNotAllowed { // it is made of what else there is
		return nil, nil, nil
	}
	if a.code == http.StatusConflict { // every server has it
		stored, err := r.stored(ctx, mapping, c.namespace, object.GetName())
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
	fields = r.cluster.server.UnknownFields(mapping.Resource, object)
	if !a.ok() {
		return nil, nil, errors.New(withMeant(object.GroupVersionKind(), a.message(), fields))
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
	return stored, fields, r.complete(ctx, stored)
}

// loadStatus gives a stored object its status through the API, and returns it as it is then. Kinds
// that have none apart from the object have it already.
func (r *Reviewer) loadStatus(ctx context.Context, mapping *meta.RESTMapping, namespace string,
	stored *unstructured.Unstructured, status any) (*unstructured.Unstructured, error) {
	stored.Object["status"] = status
	a, err := r.cluster.do(ctx, call{verb: http.MethodPut, resource: *mapping, namespace: namespace,
		name: stored.GetName(), subresource: "status", body: stored, as: admin, state: true})
	if err == nil && a.code == http.StatusConflict {
		// The server has written the status that it would have, as that of a quota.
		var now *unstructured.Unstructured
		if now, err = r.stored(ctx, mapping, namespace, stored.GetName()); err == nil && now != nil {
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

// settle does at once what controllers would do for an object sooner or later, and waits for what
// the server does by itself.
func (r *Reviewer) settle(ctx context.Context, object *unstructured.Unstructured) error {
	if err := r.awaitObject(ctx, object); err != nil {
		return err
	}
	return r.complete(ctx, object)
}

// awaitObject waits until the server goes by an object as it is stored; nil for none.
func (r *Reviewer) awaitObject(ctx context.Context, object *unstructured.Unstructured) error {
	if object == nil {
		return nil
	}
	mapping, err := r.cluster.find(object)
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
		return r.awaitResource(ctx, object)
	case serviceRange:
		return r.openRange(ctx, object)
	case clusterRoleKind.GroupKind():
		r.cluster.aggregated = false
	}
	return nil
}

// settleDeleted is settle for an object that was deleted, or is to be.
func (r *Reviewer) settleDeleted(ctx context.Context, c *call) error {
	written := plugin.Written{Resource: c.resource.Resource.GroupResource(), Namespace: c.namespace, Name: c.name}
	stored, err := r.stored(ctx, &c.resource, c.namespace, c.name)
	if err != nil {
		return err
	}
	if stored != nil {
		written.ResourceVersion = stored.GetResourceVersion()
	}
	if err := r.await(ctx, written); err != nil {
		return err
	}
	if c.resource.GroupVersionKind.GroupKind() == clusterRoleKind.GroupKind() {
		r.cluster.aggregated = false
	}
	return nil
}

// await waits until the server goes by what was written.
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
	mapping, err := r.cluster.find(account)
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

const (
	// resourcePoll is how often to check whether a custom resource is served. resourceTimeout
	// bounds how long that, or another write, may take to be in force.
	resourcePoll    = 5 * time.Millisecond
	resourceTimeout = 30 * time.Second
)

// awaitResource waits until the resource of a CustomResourceDefinition is served, and knows it from
// then on: discovery takes longer to.
func (r *Reviewer) awaitResource(ctx context.Context, definition *unstructured.Unstructured) error {
	text := func(path ...string) string {
		s, _, _ := unstructured.NestedString(definition.Object, path...)
		return s
	}
	ctx, cancel := context.WithTimeout(ctx, resourceTimeout)
	defer cancel()
	versions, _, _ := unstructured.NestedSlice(definition.Object, "spec", "versions")
	for _, version := range versions {
		fields, _ := version.(map[string]any)
		name, _, _ := unstructured.NestedString(fields, "name")
		kind := schema.GroupVersionKind{Group: text("spec", "group"), Version: name, Kind: text("spec", "names",
			"kind")}
		if served, _, _ := unstructured.NestedBool(fields, "served"); !served {
			delete(r.cluster.custom, kind)
			continue
		}
		mapping := &meta.RESTMapping{GroupVersionKind: kind, Scope: meta.RESTScopeRoot,
			Resource: kind.GroupVersion().WithResource(text("spec", "names", "plural"))}
		for {
			a, err := r.cluster.do(ctx, call{verb: http.MethodGet, as: admin, resource: *mapping})
			if err != nil {
				return err
			}
			if a.ok() {
				break
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("%s is not served after %s", mapping.Resource.GroupResource(), resourceTimeout)
			case <-time.After(resourcePoll):
			}
		}
		if text("spec", "scope") == "Namespaced" {
			mapping.Scope = meta.RESTScopeNamespace
		}
		r.cluster.custom[kind] = mapping
	}
	return nil
}
