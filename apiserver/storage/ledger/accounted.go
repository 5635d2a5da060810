// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"context"
	"maps"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/kubernetes"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/value"
	"k8s.io/apiserver/pkg/storage/value/encrypt/identity"
	"k8s.io/kubernetes/cmd/kube-controller-manager/names"
	"k8s.io/kubernetes/pkg/api/legacyscheme"

	"gatehouse.dev/internal/quota"
)

var namespaceResource = schema.GroupResource{Resource: "namespaces"}

// accounted is the etcd client of one kind's store. Its writes move the quotas of their namespace.
type accounted struct {
	kubernetes.Interface
	ledger      *Ledger
	resource    schema.GroupResource
	prefix      string
	codec       runtime.Codec
	transformer value.Transformer
}

// AccountFor makes the writes of a kind's store go through the ledger.
func (l *Ledger) AccountFor(client *kubernetes.Client, config *storagebackend.ConfigForResource,
	resourcePrefix string) *kubernetes.Client {
	s := &accounted{
		Interface:   client.Kubernetes,
		ledger:      l,
		resource:    config.GroupResource,
		prefix:      keyPrefix(config.Prefix, resourcePrefix),
		codec:       config.Codec,
		transformer: config.Transformer,
	}
	if s.transformer == nil {
		s.transformer = identity.NewEncryptCheckTransformer()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stores[s.resource] = s
	if s.resource == quotaResource {
		return &kubernetes.Client{Client: withPacedWatcher(client.Client, usageInterval, s.isCharge), Kubernetes: s}
	}
	return &kubernetes.Client{Client: client.Client, Kubernetes: s}
}

// OptimisticPut implements kubernetes.Interface.
func (s *accounted) OptimisticPut(ctx context.Context, key string, data []byte, expected int64,
	opts kubernetes.PutOptions) (kubernetes.PutResponse, error) {
	namespace, name, ok := namespaceAndName(s.prefix, key)
	if !ok || (expected > 0 && !quota.DependsOnContent(s.resource) && s.resource != quotaResource) {
		response, err := s.Interface.OptimisticPut(ctx, key, data, expected, opts)
		if response.Succeeded {
			s.written(key)
		}
		return response, err
	}
	w := &write{
		key:      key,
		expected: expected,
		op:       putBytes(key, data, clientv3.WithLease(opts.LeaseID)),
		enforced: quota.TakeEnforcement(ctx, s.resource, namespace, name),
	}
	w.change = func(ctx context.Context) (quota.Change, error) {
		// If the request named the object by another group than it is stored in, the costs differ, too.
		// Costs that depend on the time or on other objects are measured only here.
		if w.enforced != nil && w.enforced.Resource == s.resource && !s.tied() &&
			!w.enforced.Old.DependsOnTime() && !w.enforced.New.DependsOnTime() {
			return quota.Change{Resource: s.resource, Old: w.enforced.Old, New: w.enforced.New,
				StatusLimits: s.ledger.KeepStatus}, nil
		}
		return s.change(ctx, w, data)
	}
	result, err := s.commit(ctx, namespace, w)
	return kubernetes.PutResponse{Succeeded: result.succeeded, Revision: result.revision, KV: result.current}, err
}

// OptimisticDelete implements kubernetes.Interface.
func (s *accounted) OptimisticDelete(ctx context.Context, key string, expected int64,
	opts kubernetes.DeleteOptions) (kubernetes.DeleteResponse, error) {
	namespace, _, ok := namespaceAndName(s.prefix, key)
	if !ok {
		response, err := s.Interface.OptimisticDelete(ctx, key, expected, opts)
		if response.Succeeded {
			if s.resource == namespaceResource {
				s.ledger.forget(key[len(s.prefix):])
				s.ledger.forgetEnded(ctx, key[len(s.prefix):], response.Revision)
			}
			s.written(key)
		}
		return response, err
	}
	w := &write{key: key, expected: expected, op: clientv3.OpDelete(key)}
	w.change = func(ctx context.Context) (quota.Change, error) { return s.change(ctx, w, nil) }
	result, err := s.commit(ctx, namespace, w)
	if result.succeeded {
		s.ledger.endings.stop(key)
	}
	return kubernetes.DeleteResponse{Succeeded: result.succeeded, Revision: result.revision, KV: result.current}, err
}

func (s *accounted) commit(ctx context.Context, namespace string, w *write) (outcome, error) {
	if s.resource == quotaResource {
		return s.ledger.commitQuota(ctx, namespace, w)
	}
	return s.ledger.commit(ctx, namespace, w)
}

// written is called when an object outside of namespaces has been written or deleted.
func (s *accounted) written(key string) {
	if s.resource == classResource && quota.DependsOnRelated(deviceClaims, s.ledger.Off) {
		s.ledger.inBackground(func() { s.ledger.reclassify(key) })
	}
}

// tied reports whether the cost of the store's objects depends on other objects.
func (s *accounted) tied() bool { return quota.DependsOnRelated(s.resource, s.ledger.Off) }

// change returns what the write of data (nil: the deletion) means for quotas. It adds what that
// depends on, besides the object, to the write's conditions.
func (s *accounted) change(ctx context.Context, w *write, data []byte) (quota.Change, error) {
	change := quota.Change{Resource: s.resource}
	about := s.ledger.others(ctx, 0)
	if data != nil {
		cost, err := s.cost(ctx, w.key, data, about)
		if err != nil {
			return change, err
		}
		change.New = cost
	}
	if w.expected > 0 {
		response, err := s.ledger.client.KV.Get(ctx, w.key)
		if err != nil {
			return change, err
		}
		// If it has changed since, the transaction will not hold, and this computation is wasted.
		if len(response.Kvs) == 1 {
			if change.Old, err = s.cost(ctx, w.key, response.Kvs[0].Value, about); err != nil {
				return change, err
			}
		}
	}
	if data == nil {
		change.Old = change.Old.CertainPart()
	}
	w.conditions = about.conditions
	return change, nil
}

// cost returns the cost of the object stored as data at key.
func (s *accounted) cost(ctx context.Context, key string, data []byte, about *others) (*quota.Cost, error) {
	object := quota.NewObject(s.resource)
	if object == nil {
		return quota.CostOf(s.resource, &metav1.PartialObjectMetadata{})
	}
	if err := s.decode(ctx, key, data, object); err != nil {
		return nil, err
	}
	return s.costOf(object, about)
}

// costOf returns the cost of an object whose cost depends on its content.
func (s *accounted) costOf(object runtime.Object, about *others) (*quota.Cost, error) {
	meter := quota.Meter{Off: s.ledger.Off, Related: about}
	if pod, ok := object.(*corev1.Pod); ok {
		now, err := about.timeOf(pod)
		if err != nil {
			return nil, err
		}
		meter.Now = func() time.Time { return now }
	}
	return meter.CostOf(s.resource, object)
}

func (s *accounted) decode(ctx context.Context, key string, data []byte, into runtime.Object) error {
	plain, _, err := s.transformer.TransformFromStorage(ctx, data, value.DefaultContext(key))
	if err != nil {
		return err
	}
	_, stored, err := s.codec.Decode(plain, nil, into)
	if err == nil || stored == nil {
		return err
	}
	kinds, _, typeErr := legacyscheme.Scheme.ObjectKinds(into)
	if typeErr != nil || slices.Contains(kinds, *stored) {
		return err
	}
	// An object stored by or for an older Kubernetes may be of another version, from
	// which no way leads to into's but through the server's own form.
	internal, _, err := s.codec.Decode(plain, nil, nil)
	if err != nil {
		return err
	}
	return legacyscheme.Scheme.Convert(internal, into, nil)
}

// encode sets e.data to what is stored of e.quota. It goes by the entry's template, if it has one,
// or makes it one: an entry that has one is changed by Change.Apply or Admit only, which change
// nothing but the usage of a quota that has moved before.
func (s *accounted) encode(ctx context.Context, e *quotaEntry) error {
	var plain []byte
	var err error
	if e.template != nil {
		plain, err = e.template.encode(e.quota.Status.Used)
	} else if plain, err = runtime.Encode(s.codec, e.quota); err == nil {
		e.template = newTemplate(e.quota, plain)
	}
	if err != nil {
		return err
	}
	e.data, err = s.transformer.TransformToStorage(ctx, plain, value.DefaultContext(e.key))
	return err
}

// isCharge reports whether a charge has made one state of a quota of another. Nothing else moves a
// usage to another one: see restate. It is never sure of quotas that aren't stored in protobuf.
func (s *accounted) isCharge(ctx context.Context, before, after *mvccpb.KeyValue) bool {
	context := value.DefaultContext(after.Key)
	from, _, err := s.transformer.TransformFromStorage(ctx, before.Value, context)
	if err != nil {
		return false
	}
	to, _, err := s.transformer.TransformFromStorage(ctx, after.Value, context)
	return err == nil && onlyUsage(from, to)
}

// restate returns the state in which a quota is to be stored that a client has sent, without a quota if the
// client deletes it.
//
// The stored usage stays as long as it is right, that is, if the quota still counts the same objects,
// whatever the client sent. Otherwise no usage is stored, as for a new quota, because a wrong usage must at
// no moment look right. Hard limits in a sent status bound nothing. They are stored, and replaced by those
// of the spec when the quota moves or is counted.
//
// With KeepStatus a sent status is stored as it is. A client that changes the spec sends the stored one. Then
// new limits have effect at once.
func (s *accounted) restate(ctx context.Context, key string, sent clientv3.Op, list *quotaList) (quotaEntry, error) {
	if !sent.IsPut() {
		return quotaEntry{}, nil
	}
	restated := quotaEntry{key: key, data: sent.ValueBytes(), quota: &corev1.ResourceQuota{}}
	q, stored := restated.quota, list.entry(key).quota
	if err := s.decode(ctx, key, restated.data, q); err != nil {
		return restated, err
	}
	if stored == nil || quota.HasStatedUsage(ctx) {
		return restated, nil
	}
	keep := s.ledger.KeepStatus && !isQuotaController(ctx)
	same := apiequality.Semantic.DeepEqual(q.Spec.Scopes, stored.Spec.Scopes) &&
		apiequality.Semantic.DeepEqual(q.Spec.ScopeSelector, stored.Spec.ScopeSelector)
	if keep && same && apiequality.Semantic.DeepEqual(q.Spec.Hard, stored.Spec.Hard) {
		return restated, nil
	}
	right := same && (keep || apiequality.Semantic.DeepEqual(q.Status.Used, stored.Status.Used))
	written := q.Status.Hard
	q.Status = corev1.ResourceQuotaStatus{}
	if right {
		q.Status.Hard = q.Spec.Hard
		q.Status.Used = maps.Clone(stored.Status.Used)
		maps.DeleteFunc(q.Status.Used, func(name corev1.ResourceName, _ resource.Quantity) bool {
			_, limited := q.Spec.Hard[name]
			return !limited
		})
	}
	if !apiequality.Semantic.DeepEqual(written, stored.Status.Hard) {
		q.Status.Hard = written
	}
	return restated, s.encode(ctx, &restated)
}

// isQuotaController reports whether the request is that of a controller that counts what quotas limit.
func isQuotaController(ctx context.Context) bool {
	requester, ok := request.UserFrom(ctx)
	return ok && (requester.GetName() == user.KubeControllerManager ||
		requester.GetName() == serviceaccount.MakeUsername(metav1.NamespaceSystem, names.ResourceQuotaController))
}

func (s *accounted) decodeQuotas(ctx context.Context, kvs []*mvccpb.KeyValue, revision int64) (*quotaList, error) {
	list := &quotaList{revision: revision}
	for _, kv := range kvs {
		q := &corev1.ResourceQuota{}
		if err := s.decode(ctx, string(kv.Key), kv.Value, q); err != nil {
			return nil, err
		}
		cacheStrings(q.Spec.Hard)
		cacheStrings(q.Status.Hard)
		cacheStrings(q.Status.Used)
		list.entries = append(list.entries,
			quotaEntry{key: string(kv.Key), data: kv.Value, quota: q, revision: kv.ModRevision})
	}
	return list, nil
}
