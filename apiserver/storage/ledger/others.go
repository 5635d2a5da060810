// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"context"
	"slices"
	"strings"
	"sync"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"gatehouse.dev/internal/quota"
)

var (
	classResource = resourcev1.Resource("deviceclasses")
	deviceClaims  = resourcev1.Resource("resourceclaims")
)

// others reads from etcd what costs depend on besides their objects, each once: the objects on which
// resource claims' costs depend, and which pods have ended. It reads them as of a revision or, if that is 0, as they
// are now. conditions hold as long as they don't change.
type others struct {
	ctx      context.Context
	ledger   *Ledger
	revision int64

	classes map[string]string // what extended resource devices of a class are
	claims  map[string][]*resourcev1.ResourceClaim
	pods    map[string]*corev1.Pod
	ended   map[string]uids // by namespace

	conditions []clientv3.Cmp
}

var _ quota.RelatedObjects = &others{}

func (l *Ledger) others(ctx context.Context, revision int64) *others {
	return &others{ctx: ctx, ledger: l, revision: revision, classes: map[string]string{},
		claims: map[string][]*resourcev1.ResourceClaim{}, pods: map[string]*corev1.Pod{},
		ended: map[string]uids{}}
}

// ExtendedResource implements quota.RelatedObjects.
func (o *others) ExtendedResource(class string) (string, error) {
	if name, known := o.classes[class]; known {
		return name, nil
	}
	var name string
	read := &resourcev1.DeviceClass{}
	found, err := o.get(o.ledger.store(classResource), class, read)
	if err != nil {
		return "", err
	}
	if found && read.Spec.ExtendedResourceName != nil {
		name = *read.Spec.ExtendedResourceName
	}
	o.classes[class] = name
	return name, nil
}

// Pod implements quota.RelatedObjects.
func (o *others) Pod(namespace, name string) (*corev1.Pod, error) {
	key := namespace + "/" + name
	if pod, known := o.pods[key]; known {
		return pod, nil
	}
	pod := &corev1.Pod{}
	found, err := o.get(o.ledger.store(corev1.Resource("pods")), key, pod)
	if err != nil {
		return nil, err
	}
	if !found {
		pod = nil
	}
	o.pods[key] = pod
	return pod, nil
}

// get reads the object of a store whose key ends with name. A kind that isn't served has none.
func (o *others) get(s *accounted, name string, into runtime.Object) (found bool, err error) {
	if s == nil {
		return false, nil
	}
	key := s.prefix + name
	response, err := o.ledger.client.KV.Get(o.ctx, key, clientv3.WithRev(o.revision))
	if err != nil {
		return false, err
	}
	var revision int64
	if found = len(response.Kvs) == 1; found {
		revision = response.Kvs[0].ModRevision
		err = s.decode(o.ctx, key, response.Kvs[0].Value, into)
	}
	o.conditions = append(o.conditions, clientv3.Compare(clientv3.ModRevision(key), "=", revision))
	return found, err
}

// Claims implements quota.RelatedObjects. The condition is that there are no new ones.
func (o *others) Claims(namespace string) ([]*resourcev1.ResourceClaim, error) {
	if claims, known := o.claims[namespace]; known {
		return claims, nil
	}
	s := o.ledger.store(deviceClaims)
	if s == nil {
		return nil, nil
	}
	var claims []*resourcev1.ResourceClaim
	prefix := s.prefix + namespace + "/"
	revision, err := o.ledger.each(o.ctx, prefix, o.revision, func(kv *mvccpb.KeyValue) error {
		claim := &resourcev1.ResourceClaim{}
		claims = append(claims, claim)
		return s.decode(o.ctx, string(kv.Key), kv.Value, claim)
	})
	if err != nil {
		return nil, err
	}
	o.claims[namespace] = claims
	o.conditions = append(o.conditions,
		clientv3.Compare(clientv3.CreateRevision(prefix).WithPrefix(), "<", revision+1))
	return claims, nil
}

// outside returns the conditions about what may change without moving a quota: device classes, and which
// pods have ended.
func (o *others) outside() []clientv3.Cmp {
	s := o.ledger.store(classResource)
	ended := o.ledger.endedKey("")
	var conditions []clientv3.Cmp
	for _, c := range o.conditions {
		key := string(c.KeyBytes())
		if s != nil && strings.HasPrefix(key, s.prefix) || strings.HasPrefix(key, ended) {
			conditions = append(conditions, c)
		}
	}
	return conditions
}

// relatives holds, by namespace, the writes that may have changed what other objects cost. A namespace that
// has an entry has a goroutine that looks at them.
type relatives struct {
	mu      sync.Mutex
	waiting map[string][]kinWrite
}

// kinWrite is a write to the object at key that may have changed what its kin cost, except for the claim that
// is named.
type kinWrite struct {
	key       string
	kin       types.UID
	named     string
	uncertain bool // less was given back for a claim than it may have been charged
}

// recountKin counts a namespace if a write to the object at key has changed what others cost, and there
// are such others. They are claims that the scheduler made: their cost changes when their pod ends, goes
// or names another of them, and when one of them comes or goes. It also counts if less was given back for
// such a claim than it may have been charged. However many pods end at a time, the claims of their namespace
// are read once.
func (l *Ledger) recountKin(namespace, key string, change quota.Change) {
	affects, named := change.AffectsKin()
	if !affects {
		return
	}
	w := kinWrite{key: key, kin: change.New.Kin(), named: named, uncertain: change.IsUncertain()}
	if w.kin == "" {
		w.kin = change.Old.Kin()
	}
	l.relatives.mu.Lock()
	defer l.relatives.mu.Unlock()
	waiting, running := l.relatives.waiting[namespace]
	l.relatives.waiting[namespace] = append(waiting, w)
	if !running {
		l.inBackground(func() { l.recountWaiting(namespace) })
	}
}

// recountWaiting looks at the writes that wait for it, until there are none.
func (l *Ledger) recountWaiting(namespace string) {
	for {
		l.relatives.mu.Lock()
		writes := l.relatives.waiting[namespace]
		if len(writes) == 0 {
			delete(l.relatives.waiting, namespace)
			l.relatives.mu.Unlock()
			return
		}
		l.relatives.waiting[namespace] = nil
		l.relatives.mu.Unlock()
		l.recountFor(namespace, writes)
	}
}

// recountFor counts a namespace if one of the writes has changed what others cost.
func (l *Ledger) recountFor(namespace string, writes []kinWrite) {
	count := slices.ContainsFunc(writes, func(w kinWrite) bool { return w.uncertain })
	if s := l.store(deviceClaims); s != nil && !count {
		ctx, cancel := context.WithTimeout(l.ctx, commitTimeout)
		defer cancel()
		claims, err := l.others(ctx, 0).Claims(namespace)
		if err != nil && l.ctx.Err() == nil {
			klog.ErrorS(err, "Looking for the resource claims of pods", "namespace", namespace)
		}
		owned := map[types.UID][]string{}
		for _, claim := range claims {
			if owner := quota.OwnerPodUID(claim); owner != "" {
				owned[owner] = append(owned[owner], claim.Name)
			}
		}
		count = err != nil || slices.ContainsFunc(writes, func(w kinWrite) bool {
			return slices.ContainsFunc(owned[w.kin], func(claim string) bool {
				return claim != w.named && s.prefix+namespace+"/"+claim != w.key
			})
		})
	}
	if count {
		l.giveBack(namespace, l.now())
	}
}

// reclassify counts the namespaces with quotas that resource claims count for, after the device
// class at the key class has been written or deleted.
func (l *Ledger) reclassify(class string) {
	ctx, cancel := context.WithTimeout(l.ctx, commitTimeout)
	defer cancel()
	s, prefix := l.quotas("")
	prefix = strings.TrimSuffix(prefix, "/")
	namespaces := map[string]bool{}
	_, err := l.each(ctx, prefix, 0, func(kv *mvccpb.KeyValue) error {
		namespace, _, _ := namespaceAndName(prefix, string(kv.Key))
		if namespaces[namespace] {
			return nil
		}
		q := &corev1.ResourceQuota{}
		if err := s.decode(ctx, string(kv.Key), kv.Value, q); err != nil {
			return err
		}
		namespaces[namespace] = slices.Contains(quota.Resources(q), deviceClaims)
		return nil
	})
	if err != nil && l.ctx.Err() == nil {
		klog.ErrorS(err, "Looking for quotas that a device class concerns", "key", class)
	}
	for namespace, concerned := range namespaces {
		if concerned {
			l.giveBack(namespace, l.now())
		}
	}
}
