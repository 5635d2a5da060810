package review

import (
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"reflect"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
)

// A follower asks for the pods that the controller of a workload would make.
type follower func(ctx context.Context, r *Reviewer, owner *unstructured.Unstructured, now rollout) (*Pods, error)

// followers are those of the workloads, by kind.
var followers = map[schema.GroupKind]follower{}

func init() {
	for _, group := range []string{"apps", "extensions"} {
		maps.Copy(followers, map[schema.GroupKind]follower{
			{Group: group, Kind: "Deployment"}:  followDeployment,
			{Group: group, Kind: "ReplicaSet"}:  replicas("replicaset-controller"),
			{Group: group, Kind: "StatefulSet"}: followStatefulSet,
			{Group: group, Kind: "DaemonSet"}:   followDaemonSet,
		})
	}
	maps.Copy(followers, map[schema.GroupKind]follower{
		{Kind: "ReplicationController"}:   replicas("replication-controller"),
		{Group: "batch", Kind: "Job"}:     followJob,
		{Group: "batch", Kind: "CronJob"}: followCronJob,
	})
}

// controller is the service account as which one of Kubernetes' controllers acts.
func controller(name string) user.Info {
	return serviceaccount.UserInfo("kube-system", name, "")
}

// replicas follows a workload of pods that are all alike.
func replicas(as string) follower {
	return func(ctx context.Context, r *Reviewer, owner *unstructured.Unstructured, now rollout) (*Pods, error) {
		return r.make(ctx, controller(as), now.pods, podOf(owner, nil))
	}
}

// followDeployment makes the ReplicaSet, unless it is there, and its pods.
func followDeployment(ctx context.Context, r *Reviewer, owner *unstructured.Unstructured, now rollout) (*Pods, error) {
	template, _, _ := unstructured.NestedMap(owner.Object, "spec", "template")
	hash := templateHash(template)
	set := owned(owner, "apps/v1", "ReplicaSet")
	set.SetName(owner.GetName() + "-" + hash)
	labels, _, _ := unstructured.NestedStringMap(template, "metadata", "labels")
	set.SetLabels(with(labels, "pod-template-hash", hash))
	spec := map[string]any{"replicas": number(owner, 1, "spec", "replicas"), "template": template}
	if selector, ok, _ := unstructured.NestedMap(owner.Object, "spec", "selector"); ok {
		spec["selector"] = selector
		_ = unstructured.SetNestedField(spec, hash, "selector", "matchLabels", "pod-template-hash")
	}
	set.Object["spec"] = spec
	_ = unstructured.SetNestedField(set.Object, hash, "spec", "template", "metadata", "labels", "pod-template-hash")
	if set.SetUID(owner.GetUID()); !now.same { // else it is there, of whatever UID
		if refused, err := r.makeOne(ctx, controller("deployment-controller"), set); err != nil || refused != nil {
			return refused.of(now.pods), err
		}
	}
	return replicas("replicaset-controller")(ctx, r, set, now)
}

// followStatefulSet makes, for each replica, its claims, unless they are there, and its pod.
func followStatefulSet(ctx context.Context, r *Reviewer, owner *unstructured.Unstructured, now rollout) (*Pods,
	error) {
	as := controller("statefulset-controller")
	first := number(owner, 0, "spec", "ordinals", "start") + now.first
	templates, _, _ := unstructured.NestedSlice(owner.Object, "spec", "volumeClaimTemplates")
	pods := &Pods{Wanted: int(now.pods)}
	for i := range now.pods {
		for _, template := range templates {
			if now.replaced {
				break
			}
			fields, _ := template.(map[string]any)
			claim := &unstructured.Unstructured{Object: deepCopy(fields)}
			claim.SetAPIVersion("v1")
			claim.SetKind("PersistentVolumeClaim")
			claim.SetNamespace(owner.GetNamespace())
			claim.SetName(fmt.Sprintf("%s-%s-%d", claim.GetName(), owner.GetName(), first+i))
			if refused, err := r.makeOne(ctx, as, claim); err != nil || refused != nil {
				refused.Wanted, refused.Admitted = pods.Wanted, pods.Admitted
				return refused, err
			}
		}
		pod := podOf(owner, nil)()
		pod.SetGenerateName("")
		name := fmt.Sprintf("%s-%d", owner.GetName(), first+i)
		pod.SetName(name)
		labels := with(pod.GetLabels(), "statefulset.kubernetes.io/pod-name", name)
		pod.SetLabels(with(labels, "apps.kubernetes.io/pod-index", strconv.FormatInt(first+i, 10)))
		_ = unstructured.SetNestedField(pod.Object, name, "spec", "hostname")
		if service, _, _ := unstructured.NestedString(owner.Object, "spec", "serviceName"); service != "" {
			_ = unstructured.SetNestedField(pod.Object, service, "spec", "subdomain")
		}
		mountClaims(pod, owner.GetName(), first+i, templates)
		if ended, err := r.add(ctx, pods, as, pod); ended || err != nil {
			return pods, err
		}
	}
	return pods, nil
}

// mountClaims gives a pod the volumes of its claims.
func mountClaims(pod *unstructured.Unstructured, set string, ordinal int64, templates []any) {
	volumes, _, _ := unstructured.NestedSlice(pod.Object, "spec", "volumes")
	for _, template := range templates {
		fields, _ := template.(map[string]any)
		name, _, _ := unstructured.NestedString(fields, "metadata", "name")
		volumes = append(volumes, map[string]any{"name": name, "persistentVolumeClaim": map[string]any{
			"claimName": fmt.Sprintf("%s-%s-%d", name, set, ordinal)}})
	}
	if len(volumes) > 0 {
		_ = unstructured.SetNestedSlice(pod.Object, volumes, "spec", "volumes")
	}
}

// followDaemonSet makes a pod for each node of the state, or one where it has none; of one that is
// updated, as many as are made at a time.
func followDaemonSet(ctx context.Context, r *Reviewer, owner *unstructured.Unstructured, now rollout) (*Pods, error) {
	nodes, err := r.nodes(ctx)
	if err != nil {
		return nil, err
	}
	pods := &Pods{Wanted: max(len(nodes), 1)}
	if now.update {
		pods.Wanted = int(now.pods)
	}
	for i := range pods.Wanted {
		pod := podOf(owner, nil)()
		if i < len(nodes) {
			term := map[string]any{"matchFields": []any{map[string]any{"key": "metadata.name", "operator": "In",
				"values": []any{nodes[i]}}}}
			_ = unstructured.SetNestedField(pod.Object, map[string]any{"nodeSelectorTerms": []any{term}}, "spec",
				"affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
		}
		tolerateAsDaemon(pod)
		if ended, err := r.add(ctx, pods, controller("daemon-set-controller"), pod); ended || err != nil {
			return pods, err
		}
	}
	return pods, nil
}

// daemonTolerations are those that the controller gives every pod of a DaemonSet, the last one
// those on the nodes' network.
var daemonTolerations = []struct{ key, effect string }{
	{"node.kubernetes.io/not-ready", "NoExecute"}, {"node.kubernetes.io/unreachable", "NoExecute"},
	{"node.kubernetes.io/disk-pressure", "NoSchedule"}, {"node.kubernetes.io/memory-pressure", "NoSchedule"},
	{"node.kubernetes.io/pid-pressure", "NoSchedule"}, {"node.kubernetes.io/unschedulable", "NoSchedule"},
	{"node.kubernetes.io/network-unavailable", "NoSchedule"},
}

// tolerateAsDaemon gives a pod these tolerations, unless it has them.
// Source: upstream's AddOrUpdateDaemonPodTolerations.
func tolerateAsDaemon(pod *unstructured.Unstructured) {
	tolerations, _, _ := unstructured.NestedSlice(pod.Object, "spec", "tolerations")
	hostNetwork, _, _ := unstructured.NestedBool(pod.Object, "spec", "hostNetwork")
	for i, t := range daemonTolerations {
		if i == len(daemonTolerations)-1 && !hostNetwork {
			break
		}
		toleration := map[string]any{"key": t.key, "operator": "Exists", "effect": t.effect}
		if !slices.ContainsFunc(tolerations, func(has any) bool { return reflect.DeepEqual(has, toleration) }) {
			tolerations = append(tolerations, toleration)
		}
	}
	_ = unstructured.SetNestedSlice(pod.Object, tolerations, "spec", "tolerations")
}

// followJob makes as many pods as the Job runs at a time.
func followJob(ctx context.Context, r *Reviewer, owner *unstructured.Unstructured, now rollout) (*Pods, error) {
	return r.make(ctx, controller("job-controller"), now.pods, podOf(owner, func(pod *unstructured.Unstructured) {
		labels := with(pod.GetLabels(), "job-name", owner.GetName())
		labels = with(labels, "batch.kubernetes.io/job-name", owner.GetName())
		labels = with(labels, "controller-uid", string(owner.GetUID()))
		pod.SetLabels(with(labels, "batch.kubernetes.io/controller-uid", string(owner.GetUID())))
		pod.SetFinalizers([]string{"batch.kubernetes.io/job-tracking"})
	}))
}

// followCronJob makes the Job of one time, and its pods.
func followCronJob(ctx context.Context, r *Reviewer, owner *unstructured.Unstructured, _ rollout) (*Pods, error) {
	template, _, _ := unstructured.NestedMap(owner.Object, "spec", "jobTemplate")
	job := owned(owner, "batch/v1", "Job")
	job.SetName(owner.GetName() + "-1")
	job.Object["spec"] = template["spec"]
	labels, _, _ := unstructured.NestedStringMap(template, "metadata", "labels")
	job.SetLabels(labels)
	annotations, _, _ := unstructured.NestedStringMap(template, "metadata", "annotations")
	job.SetAnnotations(annotations)
	if refused, err := r.makeOne(ctx, controller("cronjob-controller"), job); err != nil || refused != nil {
		return refused.of(wanted(job)), err
	}
	return followJob(ctx, r, job, rollout{pods: wanted(job)})
}

// podOf is the pod that a controller makes from the owner's template.
func podOf(owner *unstructured.Unstructured,
	change func(*unstructured.Unstructured)) func() *unstructured.Unstructured {
	return func() *unstructured.Unstructured {
		template, _, _ := unstructured.NestedMap(owner.Object, "spec", "template")
		pod := owned(owner, "v1", "Pod")
		pod.SetGenerateName(owner.GetName() + "-")
		labels, _, _ := unstructured.NestedStringMap(template, "metadata", "labels")
		pod.SetLabels(labels)
		annotations, _, _ := unstructured.NestedStringMap(template, "metadata", "annotations")
		pod.SetAnnotations(annotations)
		finalizers, _, _ := unstructured.NestedStringSlice(template, "metadata", "finalizers")
		pod.SetFinalizers(finalizers)
		pod.Object["spec"] = template["spec"]
		if change != nil {
			change(pod)
		}
		return pod
	}
}

// owned is a new object of a kind, controlled by its owner.
func owned(owner *unstructured.Unstructured, apiVersion, kind string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": apiVersion, "kind": kind}}
	o.SetNamespace(owner.GetNamespace())
	_ = unstructured.SetNestedSlice(o.Object, []any{map[string]any{
		"apiVersion": owner.GetAPIVersion(), "kind": owner.GetKind(), "name": owner.GetName(),
		"uid": string(owner.GetUID()), "controller": true, "blockOwnerDeletion": true,
	}}, "metadata", "ownerReferences")
	return o
}

// number is that of a field, or what it is by default.
func number(o *unstructured.Unstructured, otherwise int64, path ...string) int64 {
	if n, ok, err := unstructured.NestedInt64(o.Object, path...); ok && err == nil {
		return n
	}
	return otherwise
}

// with are labels with one more.
func with(labels map[string]string, key, value string) map[string]string {
	if labels == nil {
		labels = map[string]string{}
	}
	labels[key] = value
	return labels
}

func deepCopy(fields map[string]any) map[string]any {
	return (&unstructured.Unstructured{Object: fields}).DeepCopy().Object
}

// templateHash is a name for what a template says. It isn't the Deployment controller's, which is
// one of Go's memory.
func templateHash(template map[string]any) string {
	h := fnv.New32a()
	encoded, _ := (&unstructured.Unstructured{Object: template}).MarshalJSON()
	h.Write(encoded)
	return rand.SafeEncodeString(strconv.FormatUint(uint64(h.Sum32()), 10))
}
