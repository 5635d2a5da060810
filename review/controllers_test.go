// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package review_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"gatehouse.dev/gatehousetest"
	"gatehouse.dev/internal/review/input"
	"gatehouse.dev/plugins"
	"gatehouse.dev/review"
	"gatehouse.dev/server"
	"gatehouse.dev/test/servertest"
)

// unneeded are plugins that would want to have more there than workloads.
var unneeded = []string{"ServiceAccount", "TaintNodesByCondition"}

// resources are those of workloads, and of all that their controllers make.
var resources = map[string]schema.GroupVersionResource{
	"Pod":                   {Version: "v1", Resource: "pods"},
	"PersistentVolumeClaim": {Version: "v1", Resource: "persistentvolumeclaims"},
	"ReplicationController": {Version: "v1", Resource: "replicationcontrollers"},
	"ReplicaSet":            {Group: "apps", Version: "v1", Resource: "replicasets"},
	"ControllerRevision":    {Group: "apps", Version: "v1", Resource: "controllerrevisions"},
	"Deployment":            {Group: "apps", Version: "v1", Resource: "deployments"},
	"StatefulSet":           {Group: "apps", Version: "v1", Resource: "statefulsets"},
	"DaemonSet":             {Group: "apps", Version: "v1", Resource: "daemonsets"},
	"Job":                   {Group: "batch", Version: "v1", Resource: "jobs"},
	"CronJob":               {Group: "batch", Version: "v1", Resource: "cronjobs"},
}

// made are the kinds of what controllers make.
var made = []string{"Pod", "PersistentVolumeClaim", "ReplicaSet", "ControllerRevision", "Job"}

// nodes are three, of which one has a label, and one a taint.
const nodes = "kind: Node\napiVersion: v1\nmetadata: {name: a, labels: {disk: ssd}}\n---\n" +
	"kind: Node\napiVersion: v1\nmetadata: {name: b}\nspec: {taints: [{key: gpu, effect: NoSchedule}]}\n---\n" +
	"kind: Node\napiVersion: v1\nmetadata: {name: c}\n"

// realServer is a server with Kubernetes' controllers of workloads.
type realServer struct {
	t      *testing.T
	client dynamic.Interface
}

func startReal(t *testing.T) *realServer {
	t.Helper()
	srv := gatehousetest.Start(t, gatehousetest.WithControllers("workloads"),
		gatehousetest.WithoutPlugins(unneeded...))
	config := rest.CopyConfig(srv.Config)
	config.QPS = -1
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	r := &realServer{t, client}
	for _, d := range documents(t, nodes) {
		r.create(schema.GroupVersionResource{Version: "v1", Resource: "nodes"}, d.Object)
	}
	return r
}

func (r *realServer) create(resource schema.GroupVersionResource, object *unstructured.Unstructured) {
	r.t.Helper()
	if err := r.tryCreate(resource, object); err != nil {
		r.t.Fatal(err)
	}
}

func (r *realServer) tryCreate(resource schema.GroupVersionResource, object *unstructured.Unstructured) error {
	_, err := r.client.Resource(resource).Namespace(object.GetNamespace()).Create(r.t.Context(), object,
		metav1.CreateOptions{})
	return err
}

// of is the client for objects of a workload's kind, in its namespace.
func (r *realServer) of(o *unstructured.Unstructured) dynamic.ResourceInterface {
	return r.client.Resource(resources[o.GetKind()]).Namespace(o.GetNamespace())
}

// made is all that controllers have made, as normal has it.
func (r *realServer) made() (map[string][]string, error) { return r.madeBut(nil) }

// uids are those of all that controllers have made.
func (r *realServer) uids() (map[types.UID]bool, error) {
	all := map[types.UID]bool{}
	for _, kind := range made {
		list, err := r.client.Resource(resources[kind]).List(r.t.Context(), metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		for _, item := range list.Items {
			all[item.GetUID()] = true
		}
	}
	return all, nil
}

// madeBut is all that controllers have made but what was there, as normal has it.
func (r *realServer) madeBut(there map[types.UID]bool) (map[string][]string, error) {
	all := map[string][]string{}
	for _, kind := range made {
		list, err := r.client.Resource(resources[kind]).List(r.t.Context(), metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		for _, item := range list.Items {
			if !there[item.GetUID()] {
				add(all, item.Object)
			}
		}
	}
	return sorted(all), nil
}

// run says of every pod that it runs and is ready, as a kubelet would.
func (r *realServer) run() error {
	pods := r.client.Resource(resources["Pod"])
	list, err := pods.List(r.t.Context(), metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, pod := range list.Items {
		if phase, _, _ := unstructured.NestedString(pod.Object, "status", "phase"); phase == "Running" {
			continue
		}
		patch := fmt.Sprintf(`{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True",`+
			`"lastTransitionTime":%q}]}}`, time.Now().Add(-time.Hour).UTC().Format(time.RFC3339))
		if _, err := pods.Namespace(pod.GetNamespace()).Patch(r.t.Context(), pod.GetName(), types.MergePatchType,
			[]byte(patch), metav1.PatchOptions{}, "status"); err != nil {
			return err
		}
	}
	return nil
}

// schedule makes a CronJob that is to run once a year run now, as it did so long ago.
func (r *realServer) schedule(job *unstructured.Unstructured) {
	r.t.Helper()
	patch := fmt.Sprintf(`{"status":{"lastScheduleTime":%q}}`,
		time.Now().AddDate(0, 0, -400).UTC().Format(time.RFC3339))
	if _, err := r.of(job).Patch(r.t.Context(), job.GetName(), types.MergePatchType, []byte(patch),
		metav1.PatchOptions{}, "status"); err != nil {
		r.t.Fatal(err)
	}
}

// reviewed is all that a review makes for workloads.
func reviewed(t *testing.T, state, objects []input.Document) map[string][]string {
	t.Helper()
	config := server.NewConfig(plugins.List)
	config.Admission.Disable = unneeded
	r, err := review.Start(t.Context(), review.Options{Config: config, State: state, Pods: true,
		FieldValidation: metav1.FieldValidationIgnore})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	done, err := r.Review(t.Context(), objects, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, result := range done.Results {
		if result.Verdict != "Admitted" || len(result.Pods) != 1 || result.Pods[0].Refused != nil {
			t.Errorf("%s: %s: %s %v", result.Source, result.Verdict, result.Message, result.Pods)
		}
	}
	all := map[string][]string{}
	for _, kind := range made {
		stored, err := r.Stored(t.Context(), resources[kind].GroupVersion().WithKind(kind))
		if err != nil {
			t.Fatal(err)
		}
		for _, fields := range stored {
			fields["apiVersion"], fields["kind"] = resources[kind].GroupVersion().String(), kind
			add(all, fields)
		}
	}
	return sorted(all)
}

// add adds an object by its namespace, if it is one that a controller made.
func add(all map[string][]string, fields map[string]any) {
	o := (&unstructured.Unstructured{Object: fields}).DeepCopy()
	if len(o.GetOwnerReferences()) == 0 && o.GetKind() != "PersistentVolumeClaim" {
		return
	}
	all[o.GetNamespace()] = append(all[o.GetNamespace()], normal(o))
}

func sorted(all map[string][]string) map[string][]string {
	for _, list := range all {
		slices.Sort(list)
	}
	return all
}

var (
	suffix = regexp.MustCompile(`^[a-z0-9]{5}$`)
	uid    = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	minute = regexp.MustCompile(`-[0-9]{8}\b`)
	moment = regexp.MustCompile(`[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}`)
)

// normal is an object without what differs from one time to the next: UIDs, generated names, times,
// and the order of volumes.
func normal(o *unstructured.Unstructured) string {
	kind := o.GetKind()
	unstructured.RemoveNestedField(o.Object, "status")
	for _, field := range []string{"uid", "resourceVersion", "creationTimestamp", "generation", "managedFields"} {
		unstructured.RemoveNestedField(o.Object, "metadata", field)
	}
	if suffix.MatchString(strings.TrimPrefix(o.GetName(), o.GetGenerateName())) {
		o.SetName("")
	}
	if volumes, ok, _ := unstructured.NestedSlice(o.Object, "spec", "volumes"); ok {
		name := func(v any) string { return v.(map[string]any)["name"].(string) }
		slices.SortFunc(volumes, func(a, b any) int { return cmp.Compare(name(a), name(b)) })
		_ = unstructured.SetNestedSlice(o.Object, volumes, "spec", "volumes")
	}
	text, err := json.MarshalIndent(o.Object, "", "  ")
	if err != nil {
		return err.Error()
	}
	for _, varying := range []*regexp.Regexp{uid, minute, moment} {
		text = varying.ReplaceAll(text, []byte("…"))
	}
	return kind + " " + string(text)
}

// publicWorkloads are those of the manifests that Kubernetes has for its tests.
func publicWorkloads(t *testing.T) []input.Document {
	t.Helper()
	module, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/kubernetes").Output()
	if err != nil {
		t.Fatal(err)
	}
	var all []input.Document
	for _, dir := range []string{"hack/testdata", "test/fixtures", "test/e2e/testing-manifests", "test/images"} {
		found, _ := input.Read([]string{filepath.Join(strings.TrimSpace(string(module)), dir)}, nil)
		all = append(all, found...)
	}
	return slices.DeleteFunc(all, func(d input.Document) bool {
		return resources[d.Object.GetKind()].GroupVersion() != d.Object.GroupVersionKind().GroupVersion() ||
			slices.Contains([]string{"Pod", "PersistentVolumeClaim", "ControllerRevision"}, d.Object.GetKind())
	})
}

// marksOf are what an object has that the controller of a kind has made.
var marksOf = map[string][]string{
	"Deployment":            {`"pod-template-hash"`, `"deployment.kubernetes.io/revision": "1"`},
	"ReplicaSet":            {`"pod-template-hash"`, `"generateName"`},
	"ReplicationController": {`"generateName"`},
	"StatefulSet":           {`"controller-revision-hash"`, `"apps.kubernetes.io/pod-index": "0"`},
	"DaemonSet":             {`"controller-revision-hash"`, `"node.kubernetes.io/unschedulable"`},
	"Job":                   {`"batch.kubernetes.io/job-name"`, `"batch.kubernetes.io/controller-uid"`},
	"CronJob":               {`"batch.kubernetes.io/cronjob-scheduled-timestamp"`},
}

// What a review makes for a workload is what Kubernetes' controllers make: all objects, with all
// that they say. The workloads are those of the manifests that Kubernetes has for its own tests,
// and of testdata.
func TestControllersMakeTheSame(t *testing.T) {
	own, errs := input.Read([]string{"testdata/workloads.yaml"}, nil)
	if errs != nil {
		t.Fatal(errs)
	}
	controllers := startReal(t)
	state := documents(t, nodes)
	var workloads []input.Document
	for i, d := range slices.Concat(own, publicWorkloads(t)) {
		namespace := fmt.Sprintf("w%d", i)
		d.Object.SetNamespace(namespace)
		inNamespace := documents(t, "kind: Namespace\napiVersion: v1\nmetadata: {name: "+namespace+"}\n")
		controllers.create(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}, inNamespace[0].Object)
		if err := controllers.tryCreate(resources[d.Object.GetKind()], d.Object.DeepCopy()); err != nil {
			if i < len(own) {
				t.Error(err)
			}
			continue // it isn't to be applied as it is
		}
		if d.Object.GetKind() == "CronJob" {
			controllers.schedule(d.Object)
		}
		state, workloads = append(state, inNamespace...), append(workloads, d)
	}
	if len(workloads) < len(own)+40 {
		t.Errorf("there are %d workloads", len(workloads))
	}
	want := reviewed(t, state, workloads)
	for owner, marks := range marksOf {
		if !slices.ContainsFunc(slices.Concat(slices.Collect(maps.Values(want))...), func(object string) bool {
			return strings.Contains(object, fmt.Sprintf(`"kind": %q`, owner)) &&
				!slices.ContainsFunc(marks, func(mark string) bool { return !strings.Contains(object, mark) })
		}) {
			t.Errorf("nothing of a %s has %v", owner, marks)
		}
	}
	servertest.Retry(t, "what is made for "+fmt.Sprint(len(workloads))+" workloads", func() error {
		if err := controllers.run(); err != nil {
			return err
		}
		got, err := controllers.made()
		if err != nil {
			return err
		}
		var errs []error
		for _, d := range workloads {
			namespace := d.Object.GetNamespace()
			if diff := gocmp.Diff(got[namespace], want[namespace]); diff != "" {
				errs = append(errs, fmt.Errorf("%s: %s %s: -controllers +review:\n%s", d.Source, d.Object.GetKind(),
					d.Object.GetName(), diff))
			}
		}
		return errors.Join(errs...)
	})
	t.Logf("%d workloads, in %d namespaces", len(workloads), len(slices.Collect(maps.Keys(want))))
}
