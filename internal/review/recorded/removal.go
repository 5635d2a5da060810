// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package recorded

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/utils/ptr"
)

// setStored sets what the record shows of the object in storage: its name, and whether it was removed.
func (rec *Record) setStored(q *Request) {
	e := rec.event
	if q.StoredName = q.Name; q.StoredName == "" {
		for _, object := range [][]byte{q.OldObject, e.response, q.Object} {
			if h := readHead(object); q.StoredName == "" && h.kind != "Status" {
				q.StoredName = h.name
			}
		}
	}
	if q.Recorded.Outcome != Admitted && q.Recorded.Outcome != Unknown || q.DryRun {
		return
	}
	answered := e.kind == eventLine && !isNull(e.response) && !is(e.verb, "deletecollection")
	switch {
	case q.Subresource == "eviction":
		q.Removes = rec.evicted != nil && isRemovedBy(nil, true, rec.evicted)
	case q.Operation == admission.Update && answered && e.showsObject():
		q.Removes = hasEnded(e.response)
	case q.Operation == admission.Update:
		q.Removes = hasEnded(q.Object)
	case q.Operation != admission.Delete || q.Subresource != "":
	case answered && e.showsObject():
		q.Removes = !e.responseHead().deleting || hasEnded(e.response)
	case answered && !e.partial():
		q.Removes = true // a Status
	default:
		options, _ := q.Options.(*metav1.DeleteOptions)
		q.Removes = isRemovedBy(options, q.Resource.GroupResource() == pods, q.OldObject)
	}
}

// An ending has what decides when an object that is deleted is removed.
type ending struct {
	Metadata struct {
		DeletionTimestamp          *string  `json:"deletionTimestamp"`
		DeletionGracePeriodSeconds *int64   `json:"deletionGracePeriodSeconds"`
		Finalizers                 []string `json:"finalizers"`
	} `json:"metadata"`
	Spec struct {
		NodeName                      string `json:"nodeName"`
		TerminationGracePeriodSeconds *int64 `json:"terminationGracePeriodSeconds"`
	} `json:"spec"`
	Status struct {
		Phase corev1.PodPhase `json:"phase"`
	} `json:"status"`
}

// hasEnded reports whether an object that was written is removed by that: it is being deleted, and neither
// its grace period nor a finalizer holds it.
//
// Source: k8s.io/apiserver/pkg/registry/generic/registry/store.go#ShouldDeleteDuringUpdate c0058689
func hasEnded(object []byte) bool {
	var o ending
	return json.Unmarshal(object, &o) == nil && o.Metadata.DeletionTimestamp != nil && len(o.Metadata.Finalizers) == 0 &&
		ptr.Deref(o.Metadata.DeletionGracePeriodSeconds, 0) == 0
}

// isRemovedBy reports whether a deletion removes an object at once. An object that is not known is taken to have no
// finalizers, and a pod to be on a node.
//
// Source: k8s.io/apiserver/pkg/registry/rest/delete.go#BeforeDelete 0793f990
// Source: k8s.io/kubernetes/pkg/registry/core/pod/strategy.go#podStrategy.CheckGracefulDelete 4ef33f22
func isRemovedBy(options *metav1.DeleteOptions, isPod bool, object []byte) bool {
	var o ending
	if object != nil && json.Unmarshal(object, &o) != nil {
		return false
	}
	var grace *int64
	if options != nil {
		grace = options.GracePeriodSeconds
		if p := options.PropagationPolicy; p != nil && *p != metav1.DeletePropagationBackground {
			return false // the garbage collector has to do something first
		}
	}
	switch {
	case len(o.Metadata.Finalizers) > 0:
		return false
	case o.Metadata.DeletionTimestamp != nil && o.Metadata.DeletionGracePeriodSeconds != nil: // which only gets shorter
		return grace != nil && *grace == 0
	case !isPod:
		return true
	case object != nil && o.Spec.NodeName == "" || o.Status.Phase == corev1.PodFailed || o.Status.Phase == corev1.PodSucceeded:
		return true
	case grace == nil:
		grace = o.Spec.TerminationGracePeriodSeconds
	}
	return ptr.Deref(grace, corev1.DefaultTerminationGracePeriodSeconds) == 0
}
