// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package review_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"

	"gatehouse.dev/internal/review/input"
	"gatehouse.dev/test/servertest"
)

// A rollout is a workload that runs, and how it is changed.
type rollout struct {
	kind   string
	spec   string
	change map[string]any // values of fields, by their paths
}

// anotherTemplate is a field of a workload's spec whose change makes another template of its pods.
const anotherTemplate = "template.metadata.annotations.changed"

var rollouts = map[string]rollout{
	"more replicas":         {"ReplicaSet", "replicas: 2", map[string]any{"replicas": int64(3)}},
	"fewer replicas":        {"ReplicaSet", "replicas: 2", map[string]any{"replicas": int64(1)}},
	"a set, of another":     {"ReplicaSet", "replicas: 2", map[string]any{anotherTemplate: "x"}},
	"a controller":          {"ReplicationController", "replicas: 1", map[string]any{"replicas": int64(4)}},
	"a deployment, scaled":  {"Deployment", "replicas: 2", map[string]any{"replicas": int64(4)}},
	"a deployment, renamed": {"Deployment", "replicas: 2", map[string]any{"revisionHistoryLimit": int64(3)}},
	"a surge": {"Deployment", "replicas: 3\n  strategy: {rollingUpdate: {maxSurge: 2, maxUnavailable: 0}}",
		map[string]any{anotherTemplate: "x"}},
	"a surge of a quarter, and more replicas": {"Deployment",
		"replicas: 2\n  strategy: {rollingUpdate: {maxUnavailable: 0}}",
		map[string]any{anotherTemplate: "x", "replicas": int64(6)}},
	"no surge": {"Deployment", "replicas: 4\n  strategy: {rollingUpdate: {maxSurge: 0, maxUnavailable: 2}}",
		map[string]any{anotherTemplate: "x"}},
	"all anew": {"Deployment", "replicas: 2\n  strategy: {type: Recreate}",
		map[string]any{anotherTemplate: "x"}},
	"paused, with another template": {"Deployment", "replicas: 2",
		map[string]any{anotherTemplate: "x", "paused": true}},
	"paused, with more replicas": {"Deployment", "replicas: 2",
		map[string]any{anotherTemplate: "x", "paused": true, "replicas": int64(3)}},
	"the last of a set": {"StatefulSet", "replicas: 3", map[string]any{anotherTemplate: "x"}},
	"a set, from a partition on": {"StatefulSet", "replicas: 3",
		map[string]any{anotherTemplate: "x", "updateStrategy.rollingUpdate.partition": int64(2)}},
	"a set, below a partition": {"StatefulSet", "replicas: 3",
		map[string]any{anotherTemplate: "x", "updateStrategy.rollingUpdate.partition": int64(3)}},
	"more of a set, below a partition": {"StatefulSet", "replicas: 1",
		map[string]any{anotherTemplate: "x", "updateStrategy.rollingUpdate.partition": int64(2), "replicas": int64(2)}},
	"two of a set": {"StatefulSet",
		"replicas: 3\n  podManagementPolicy: Parallel\n" +
			"  updateStrategy: {rollingUpdate: {maxUnavailable: 2}}",
		map[string]any{anotherTemplate: "x"}},
	"a set that is replaced by hand": {"StatefulSet", "replicas: 2\n  updateStrategy: {type: OnDelete}",
		map[string]any{anotherTemplate: "x"}},
	"more of a set, with claims": {"StatefulSet", "replicas: 1\n  volumeClaimTemplates: [{metadata: {name: d}, " +
		"spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}]",
		map[string]any{"replicas": int64(2)}},
	"one of a set, with claims": {"StatefulSet", "replicas: 1\n  volumeClaimTemplates: [{metadata: {name: d}, " +
		"spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}]",
		map[string]any{anotherTemplate: "x"}},
	"daemons": {"DaemonSet", "updateStrategy: {rollingUpdate: {maxUnavailable: 2}}",
		map[string]any{anotherTemplate: "x"}},
	"daemons, with a surge": {"DaemonSet", "updateStrategy: {rollingUpdate: {maxSurge: 2, maxUnavailable: 0}}",
		map[string]any{anotherTemplate: "x"}},
	"daemons that are replaced by hand": {"DaemonSet", "updateStrategy: {type: OnDelete}",
		map[string]any{anotherTemplate: "x"}},
	"daemons, as they are":    {"DaemonSet", "minReadySeconds: 0", map[string]any{"revisionHistoryLimit": int64(3)}},
	"a job, at greater speed": {"Job", "parallelism: 1\n  completions: 4", map[string]any{"parallelism": int64(3)}},
	"a job that goes on":      {"Job", "parallelism: 2\n  suspend: true", map[string]any{"suspend": false}},
	"a job that waits":        {"Job", "parallelism: 2", map[string]any{"suspend": true}},
}

// manifest is the workload before it is changed.
func (r rollout) manifest() string {
	selector, restart := "  selector: {matchLabels: {app: web}}\n", ""
	switch r.kind {
	case "Job":
		selector, restart = "", "restartPolicy: Never, "
	case "ReplicationController":
		selector = "  selector: {app: web}\n"
	}
	return fmt.Sprintf("kind: %s\napiVersion: %s\nmetadata: {name: web}\nspec:\n  %s\n%s  template:\n"+
		"    metadata: {labels: {app: web}, annotations: {a: b}}\n"+
		"    spec: {%scontainers: [{name: c, image: 'c:1'}]}\n",
		r.kind, resources[r.kind].GroupVersion(), r.spec, selector, restart)
}

// apply changes a workload.
func (r rollout) apply(t *testing.T, o *unstructured.Unstructured) {
	t.Helper()
	for path, value := range r.change {
		fields := append([]string{"spec"}, strings.Split(path, ".")...)
		if err := unstructured.SetNestedField(o.Object, value, fields...); err != nil {
			t.Fatal(err)
		}
	}
}

// Of a workload that is changed, what a review makes is what Kubernetes' controllers make until the
// first of the new pods is ready.
func TestControllersUpdateTheSame(t *testing.T) {
	controllers := startReal(t)
	names := slices.Sorted(maps.Keys(rollouts))
	before, namespaces := map[string]input.Document{}, map[string]input.Document{}
	for i, name := range names {
		namespace := fmt.Sprintf("r%d", i)
		namespaces[name] = documents(t, "kind: Namespace\napiVersion: v1\nmetadata: {name: "+namespace+"}\n")[0]
		controllers.create(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}, namespaces[name].Object)
		before[name] = documents(t, rollouts[name].manifest())[0]
		before[name].Object.SetNamespace(namespace)
		controllers.create(resources[rollouts[name].kind], before[name].Object.DeepCopy())
	}
	live := map[string]*unstructured.Unstructured{}
	servertest.Retry(t, "all to run", func() error {
		if err := controllers.run(); err != nil {
			return err
		}
		for _, name := range names {
			o := before[name].Object
			found, err := controllers.of(o).Get(t.Context(), "web", metav1.GetOptions{})
			if err != nil {
				return err
			}
			if live[name] = found; !runs(found) {
				return fmt.Errorf("%s: %v", name, found.Object["status"])
			}
		}
		return nil
	})
	there, err := controllers.uids()
	if err != nil {
		t.Fatal(err)
	}
	want, old := map[string][]string{}, documents(t, nodes)
	var changed []input.Document
	for _, name := range names {
		patch := &unstructured.Unstructured{Object: map[string]any{}}
		manifest := before[name].Object.DeepCopy()
		rollouts[name].apply(t, patch)
		rollouts[name].apply(t, manifest)
		data, err := json.Marshal(patch.Object)
		if err != nil {
			t.Fatal(err)
		}
		if err := retry.RetryOnConflict(retry.DefaultBackoff, func() error { // its status changes
			_, err := controllers.of(manifest).Patch(t.Context(), "web", types.MergePatchType, data,
				metav1.PatchOptions{})
			return err
		}); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		old = append(old, namespaces[name], input.Document{Source: before[name].Source, Object: live[name]})
		changed = append(changed, input.Document{Source: before[name].Source, Object: manifest})
	}
	want = reviewed(t, old, changed)
	servertest.Retry(t, "the changes of "+fmt.Sprint(len(names))+" workloads", func() error {
		got, err := controllers.madeBut(there)
		if err != nil {
			return err
		}
		var errs []error
		for _, name := range names {
			namespace := before[name].Object.GetNamespace()
			if diff := gocmp.Diff(got[namespace], want[namespace]); diff != "" {
				errs = append(errs, fmt.Errorf("%s: -controllers +review:\n%s", name, diff))
			}
		}
		return errors.Join(errs...)
	})
}

// runs reports whether a workload has all that it wants, as its controller says.
func runs(o *unstructured.Unstructured) bool {
	number := func(path ...string) int64 {
		n, _, _ := unstructured.NestedInt64(o.Object, path...)
		return n
	}
	switch o.GetKind() {
	case "Job":
		suspended, _, _ := unstructured.NestedBool(o.Object, "spec", "suspend")
		return suspended || number("status", "active") == number("spec", "parallelism")
	case "DaemonSet":
		return number("status", "numberReady") == 2
	}
	return number("status", "readyReplicas") == number("spec", "replicas") &&
		number("status", "replicas") == number("spec", "replicas")
}
