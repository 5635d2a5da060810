package review

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/kubernetes/pkg/controller/history"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/utils/ptr"
)

var (
	statefulSetKind = appsv1.SchemeGroupVersion.WithKind("StatefulSet")
	claimKind       = corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim")
	revisionKind    = appsv1.SchemeGroupVersion.WithKind("ControllerRevision")
)

// followStatefulSet makes the revision of a StatefulSet's template, unless it is there, and then
// for each replica its claims, unless they are there, and its pod.
// Source: updateStatefulSet and newVersionedStatefulSetPod of
// k8s.io/kubernetes/pkg/controller/statefulset.
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
	revision, err := revisionOf(set)
	if err != nil {
		return nil, err
	}
	old := revision.Name
	if !same {
		oldRevision, err := revisionOf(was)
		if err != nil {
			return nil, err
		}
		old = oldRevision.Name
	}
	first, wanted, freed := there, all-there, int32(0)
	if !same && wanted <= 0 && set.Spec.UpdateStrategy.Type != appsv1.OnDeleteStatefulSetStrategyType {
		// The last ones are replaced first.
		if wanted, err = unavailableOf(rolling, all); err != nil {
			return nil, err
		}
		wanted = min(wanted, max(0, all-partition))
		first, freed = all-wanted, wanted
		if err := r.freeAlike(ctx, &was.Spec.Template, was, statefulSetKind, freed); err != nil {
			return nil, err
		}
	}
	if there > 0 {
		revision.Revision = 2 // at least
	}
	account := controller("statefulset-controller")
	if !same || there == 0 {
		_, refused, err := r.need(ctx, account, revision, revisionKind, max(wanted, 0))
		if refused != nil || err != nil {
			return refused, err
		}
	}
	pods := &Pods{Wanted: int(max(wanted, 0))}
	return pods, r.makeEach(ctx, pods, set.Namespace, func(n int) (bool, error) {
		i := first + int32(n)
		from, name := set, revision.Name
		if there > 0 && i < partition {
			from, name = was, old
		}
		pod, err := podOf(&from.Spec.Template, set, statefulSetKind)
		if err != nil {
			return false, err
		}
		identify(pod, set, start+i, name)
		claims := claimsOf(set, start+i)
		mount(pod, claims, set.Spec.VolumeClaimTemplates)
		for j := range claims {
			if freed > 0 {
				break // its claims stay
			}
			_, refused, err := r.need(ctx, account, &claims[j], claimKind, wanted)
			if refused != nil {
				refused.Wanted, refused.Admitted = pods.Wanted, pods.Admitted
				*pods = *refused
			}
			if refused != nil || err != nil {
				return true, err
			}
		}
		return r.addPod(ctx, pods, account, pod)
	})
}

// unavailableOf is how many pods an update replaces at a time.
func unavailableOf(rolling *appsv1.RollingUpdateStatefulSetStrategy, all int32) (int32, error) {
	if rolling == nil || !utilfeature.DefaultFeatureGate.Enabled(features.MaxUnavailableStatefulSet) {
		return 1, nil
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(intstr.ValueOrDefault(rolling.MaxUnavailable, intstr.FromInt32(1)),
		int(all), false)
	return int32(max(n, 1)), err
}

// revisionOf is what a StatefulSet keeps of its template.
func revisionOf(set *appsv1.StatefulSet) (*appsv1.ControllerRevision, error) {
	data, err := revisionData(set)
	if err != nil {
		return nil, err
	}
	revision, err := history.NewControllerRevision(set, statefulSetKind, set.Spec.Template.Labels,
		runtime.RawExtension{Raw: data}, 1, ptr.To(ptr.Deref(set.Status.CollisionCount, 0)))
	if err != nil {
		return nil, err
	}
	revision.Namespace = set.Namespace
	revision.Annotations = maps.Clone(set.Annotations)
	return revision, nil
}

// revisionData is the patch by which a workload gets its template back.
func revisionData(workload any) ([]byte, error) {
	data, err := json.Marshal(workload)
	if err != nil {
		return nil, err
	}
	var fields struct {
		Spec struct {
			Template map[string]any `json:"template"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(data, &fields); err != nil {
		return nil, err
	}
	fields.Spec.Template["$patch"] = "replace"
	return json.Marshal(fields)
}

// identify gives a pod of a set its ordinal, by which it is named and found.
func identify(pod *corev1.Pod, set *appsv1.StatefulSet, ordinal int32, revision string) {
	pod.Name = fmt.Sprintf("%s-%d", set.Name, ordinal)
	if pod.Labels == nil {
		pod.Labels = map[string]string{}
	}
	pod.Labels[appsv1.StatefulSetPodNameLabel] = pod.Name
	pod.Labels[appsv1.PodIndexLabel] = strconv.Itoa(int(ordinal))
	pod.Labels[appsv1.StatefulSetRevisionLabel] = revision
	pod.Spec.Hostname, pod.Spec.Subdomain = pod.Name, set.Spec.ServiceName
}

// claimsOf are the claims of a pod of a set.
func claimsOf(set *appsv1.StatefulSet, ordinal int32) []corev1.PersistentVolumeClaim {
	var claims []corev1.PersistentVolumeClaim
	for i := range set.Spec.VolumeClaimTemplates {
		claim := *set.Spec.VolumeClaimTemplates[i].DeepCopy()
		claim.Name = fmt.Sprintf("%s-%s-%d", claim.Name, set.Name, ordinal)
		claim.Namespace = set.Namespace
		if claim.Labels == nil {
			claim.Labels = map[string]string{}
		}
		maps.Copy(claim.Labels, set.Spec.Selector.MatchLabels)
		claims = append(claims, claim)
	}
	return claims
}

// mount gives a pod the volumes of its claims, in place of others of the same names.
func mount(pod *corev1.Pod, claims []corev1.PersistentVolumeClaim, templates []corev1.PersistentVolumeClaim) {
	var volumes []corev1.Volume
	claimed := map[string]bool{}
	for i := range claims {
		claimed[templates[i].Name] = true
		volumes = append(volumes, corev1.Volume{Name: templates[i].Name, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claims[i].Name}}})
	}
	for _, volume := range pod.Spec.Volumes {
		if !claimed[volume.Name] {
			volumes = append(volumes, volume)
		}
	}
	pod.Spec.Volumes = volumes
}
