// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"context"
	"errors"
	"math"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/tools/record"
	"k8s.io/kubernetes/pkg/controller/history"
	"k8s.io/kubernetes/pkg/controller/statefulset"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/utils/ptr"
)

var (
	statefulSetKind = appsv1.SchemeGroupVersion.WithKind("StatefulSet")
	claimKind       = corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim")
	revisionKind    = appsv1.SchemeGroupVersion.WithKind("ControllerRevision")
)

// followStatefulSet makes the revision of a StatefulSet's template, unless it exists, and then for
// each replica its claims, unless they exist, and its pod. Upstream's control of StatefulSets makes
// the objects. The pods that an update replaces are counted here.
func followStatefulSet(ctx context.Context, r *Reviewer, owner, before *unstructured.Unstructured) (*Pods, error) {
	set, err := convert[appsv1.StatefulSet](owner)
	if err != nil {
		return nil, err
	}
	was, err := convert[appsv1.StatefulSet](before)
	if err != nil {
		return nil, err
	}
	there, all := was.Status.Replicas, ptr.Deref(set.Spec.Replicas, 1)
	start, partition := int32(0), int32(0)
	if set.Spec.Ordinals != nil {
		start = set.Spec.Ordinals.Start
	}
	rolling := set.Spec.UpdateStrategy.RollingUpdate
	if rolling != nil {
		partition = ptr.Deref(rolling.Partition, 0)
	}
	same := there == 0 || equality.Semantic.DeepEqual(set.Spec.Template, was.Spec.Template)
	first, wanted, replaces := there, all-there, false
	if !same && wanted <= 0 && set.Spec.UpdateStrategy.Type != appsv1.OnDeleteStatefulSetStrategyType {
		// The last ones are replaced first.
		if wanted, err = unavailableOf(rolling, all); err != nil {
			return nil, err
		}
		wanted, replaces = min(wanted, max(0, all-partition)), true
		first = all - wanted
		if err := r.giveBackQuotaOf(ctx, &was.Spec.Template, was, statefulSetKind, wanted); err != nil {
			return nil, err
		}
	}
	pods := &Pods{Wanted: int(max(wanted, 0))}
	old := &setObjects{r: r, pods: pods, hasClaims: replaces}
	now := &setObjects{r: r, pods: pods, hasClaims: replaces}
	earlier := set.DeepCopy()
	earlier.Spec.Template = was.Spec.Template
	if there > 0 {
		old.hasRevision = true
		if err := old.sync(ctx, earlier, 0, 0); err != nil {
			return nil, err
		}
		now.revisions = old.revisions
	}
	if err := now.sync(ctx, set, 0, 0); err != nil || now.refused {
		return pods, err
	}
	return pods, r.makeEach(ctx, pods, set.Namespace, func(n int) (bool, error) {
		ordinal, objects, from := first+int32(n), now, set
		if there > 0 && ordinal < partition {
			objects, from = old, earlier
		}
		err := objects.sync(ctx, from, start+ordinal, 1)
		return objects.refused, err
	})
}

// setObjects is the API that upstream's control of a StatefulSet calls.
type setObjects struct {
	// Of these, the control calls the methods below.
	history.Interface
	statefulset.StatefulPodControlObjectManager

	r    *Reviewer
	pods *Pods
	ctx  context.Context // which some of the methods aren't given
	// hasRevision and hasClaims report whether the revision and the claims exist already.
	hasRevision, hasClaims bool
	revisions              []*appsv1.ControllerRevision
	refused                bool
}

// errRefused ends the control's work.
var errRefused = errors.New("refused")

// sync has upstream's control make the objects of a set with replicas pods from an ordinal on, none
// of which exist yet.
func (s *setObjects) sync(ctx context.Context, set *appsv1.StatefulSet, ordinal, replicas int32) error {
	s.ctx, set = ctx, set.DeepCopy()
	set.Spec.RevisionHistoryLimit = ptr.To[int32](math.MaxInt32)
	set.Status = appsv1.StatefulSetStatus{CollisionCount: set.Status.CollisionCount}
	set.Spec.Replicas, set.Spec.Ordinals = &replicas, &appsv1.StatefulSetOrdinals{Start: ordinal}
	control := statefulset.NewDefaultStatefulSetControl(
		statefulset.NewStatefulPodControlFromManager(s, &record.FakeRecorder{}), s, s)
	_, err := control.UpdateStatefulSet(ctx, set, nil, time.Now())
	if s.refused {
		return nil
	}
	return err
}

// request creates an object, unless it exists.
func (s *setObjects) request(object runtime.Object, kind schema.GroupVersionKind) error {
	account := controllerAccount("statefulset-controller")
	_, refused, err := s.r.ensure(s.ctx, account, object, kind, int32(s.pods.Wanted))
	if refused == nil || err != nil {
		return err
	}
	refused.Admitted = s.pods.Admitted
	*s.pods, s.refused = *refused, true
	return errRefused
}

// CreatePod creates a pod.
func (s *setObjects) CreatePod(ctx context.Context, pod *corev1.Pod, _ *appsv1.StatefulSet) (err error) {
	s.refused, err = s.r.addPod(ctx, s.pods, controllerAccount("statefulset-controller"), pod)
	if s.refused {
		return errRefused
	}
	return err
}

// GetClaim finds no claim, so that the control calls CreateClaim, which knows the existing ones.
func (s *setObjects) GetClaim(_, name string) (*corev1.PersistentVolumeClaim, error) {
	return nil, apierrors.NewNotFound(corev1.Resource("persistentvolumeclaims"), name)
}

// CreateClaim creates a claim, unless it exists.
func (s *setObjects) CreateClaim(claim *corev1.PersistentVolumeClaim, _ *appsv1.StatefulSet) error {
	if s.hasClaims || s.refused {
		return nil
	}
	return s.request(claim, claimKind)
}

func (s *setObjects) UpdateStatefulSetStatus(context.Context, *appsv1.StatefulSet, *appsv1.StatefulSetStatus) error {
	return nil
}

func (s *setObjects) ListControllerRevisions(metav1.Object, schema.GroupVersionKind, labels.Selector) (
	[]*appsv1.ControllerRevision, error) {
	return s.revisions, nil
}

func (s *setObjects) CreateControllerRevision(set metav1.Object, revision *appsv1.ControllerRevision, _ *int32) (
	*appsv1.ControllerRevision, error) {
	revision.Namespace = set.GetNamespace()
	s.revisions = append(s.revisions[:len(s.revisions):len(s.revisions)], revision)
	if s.hasRevision {
		return revision, nil
	}
	return revision, s.request(revision, revisionKind)
}

// unavailableOf returns how many pods an update replaces at a time.
func unavailableOf(rolling *appsv1.RollingUpdateStatefulSetStrategy, all int32) (int32, error) {
	if rolling == nil || !utilfeature.DefaultFeatureGate.Enabled(features.MaxUnavailableStatefulSet) {
		return 1, nil
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(intstr.ValueOrDefault(rolling.MaxUnavailable, intstr.FromInt32(1)),
		int(all), false)
	return int32(max(n, 1)), err
}
