// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package remote_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	nodev1 "k8s.io/api/node/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-base/featuregate"
	"sigs.k8s.io/yaml"

	"gatehouse.dev/chain"
	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/plugintest"
	"gatehouse.dev/plugins/alwayspullimages"
	"gatehouse.dev/plugins/defaultingressclass"
	"gatehouse.dev/plugins/defaultstorageclass"
	"gatehouse.dev/plugins/defaulttolerationseconds"
	"gatehouse.dev/plugins/extendedresourcetoleration"
	"gatehouse.dev/plugins/limitranger"
	"gatehouse.dev/plugins/podgroupprotection"
	"gatehouse.dev/plugins/podtopologylabels"
	"gatehouse.dev/plugins/priority"
	"gatehouse.dev/plugins/runtimeclass"
	"gatehouse.dev/plugins/serviceaccount"
	"gatehouse.dev/plugins/storageobjectinuseprotection"
	"gatehouse.dev/plugins/taintnodesbycondition"
	"gatehouse.dev/remote"
)

// unknown is a field of a newer or an older API server, which this build doesn't know.
const unknown = "future"

var tokens = regexp.MustCompile(`kube-api-access-[a-z0-9]{5}`)

// everywhere puts the unknown field into every object of value, but into those whose keys are
// anybody's, and counts.
func everywhere(value any, path string, put *int) {
	switch value := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			switch key {
			case "labels", "annotations", "requests", "limits", "nodeSelector", "extra", "capacity":
			default:
				everywhere(value[key], path+"."+key, put)
			}
		}
		*put++
		value[unknown] = map[string]any{"at": path, "list": []any{1.0, "x", nil, map[string]any{}}}
	case []any:
		for i := range value {
			everywhere(value[i], fmt.Sprintf("%s[%d]", path, i), put)
		}
	}
}

// without takes the unknown fields out again, and counts those that are as they were put in.
func without(value any, found *int) {
	switch value := value.(type) {
	case map[string]any:
		if field, ok := value[unknown].(map[string]any); ok && reflect.DeepEqual(field["list"],
			[]any{1.0, "x", nil, map[string]any{}}) {
			*found++
		}
		delete(value, unknown)
		for _, inner := range value {
			without(inner, found)
		}
	case []any:
		for _, inner := range value {
			without(inner, found)
		}
	}
}

// otherPod is a pod that plugins change at many places.
const otherPod = `
apiVersion: v1
kind: Pod
metadata:
  {name: web, namespace: shop, labels: {app: web}, ownerReferences: [{apiVersion: v1, kind: X, name: x, uid: u}]}
spec:
  runtimeClassName: vm
  priorityClassName: high
  nodeName: a
  securityContext: {fsGroup: 1}
  tolerations: [{key: a, operator: Exists}, {key: b, operator: Equal, value: c, effect: NoExecute}]
  initContainers:
  - {name: i, image: j, env: [{name: A, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]}
  containers:
  - {name: a, image: b, ports: [{containerPort: 80}], resources: {limits: {example.com/gpu: "1"}}}
  - name: c
    image: d
    imagePullPolicy: Never
    volumeMounts: [{name: v, mountPath: /v}]
    livenessProbe: {httpGet: {port: 80}}
  volumes: [{name: v, emptyDir: {}}, {name: w, projected: {sources: [{secret: {name: s}}]}}]
`

// ofOthers are objects of the kinds that plugins change, some with fields that Kubernetes had once.
var ofOthers = []struct {
	resource metav1.GroupVersionResource
	object   string
	// changed is what the patch has, at least.
	changed string
	// once is a field of former releases, which this build doesn't know.
	once string
}{
	{metav1.GroupVersionResource{Version: "v1", Resource: "pods"}, otherPod, "/spec/containers/0/imagePullPolicy", ""},
	{metav1.GroupVersionResource{Version: "v1", Resource: "pods/binding"}, `
{apiVersion: v1, kind: Binding, metadata: {name: web, namespace: shop, clusterName: here},
target: {kind: Node, name: a}}`,
		"/metadata/labels", "clusterName"},
	{metav1.GroupVersionResource{Version: "v1", Resource: "persistentvolumeclaims"}, `
{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: web, namespace: shop},
spec: {accessModes: [ReadWriteOnce],
resources: {claims: [{name: c}], requests: {storage: 1Gi}},
selector: {matchExpressions: [{key: a, operator: Exists}]}}}`,
		"/spec/storageClassName", "claims"},
	{metav1.GroupVersionResource{Version: "v1", Resource: "persistentvolumes"}, `
{apiVersion: v1, kind: PersistentVolume, metadata: {name: web, initializers: {pending: [{name: i}]}}, spec: {
capacity: {storage: 1Gi}, hostPath: {path: /v}, nodeAffinity: {required: {nodeSelectorTerms: [{matchFields: [
{key: metadata.name, operator: In, values: [a]}]}]}}}}`, "/metadata/finalizers", "initializers"},
	{metav1.GroupVersionResource{Group: "networking.k8s.io", Version: "v1", Resource: "ingresses"}, `
{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: web, namespace: shop}, spec: {rules: [{host: a,
http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: s, port: {number: 80}}}}]}}]}}`,
		"/spec/ingressClassName", ""},
	{metav1.GroupVersionResource{Version: "v1", Resource: "nodes"}, `
{apiVersion: v1, kind: Node, metadata: {name: web, clusterName: here}, spec: {taints: [{key: a, effect: NoSchedule}]},
status: {conditions: [{type: Ready, status: "True"}], phase: Running}}`, "/spec/taints", "clusterName"},
	{metav1.GroupVersionResource{Group: "scheduling.k8s.io", Version: "v1beta1", Resource: "podgroups"}, `
{apiVersion: scheduling.k8s.io/v1beta1, kind: PodGroup, metadata: {name: web, namespace: shop}, spec: {
schedulingPolicy: {gang: {minCount: 2}}, priorityClassName: high}}`, "/metadata/finalizers", ""},
}

// reviewOf is what an API server asks about the creation of an object: one of today, or of once,
// which knew v1beta1 only, and neither requestKind nor options.
func reviewOf(t *testing.T, resource metav1.GroupVersionResource, object string, once bool) map[string]any {
	t.Helper()
	var decoded map[string]any
	if err := yaml.Unmarshal([]byte(object), &decoded); err != nil {
		t.Fatal(err)
	}
	group, version, ok := strings.Cut(decoded["apiVersion"].(string), "/")
	if !ok {
		group, version = "", group
	}
	name, sub, _ := strings.Cut(resource.Resource, "/")
	kind := map[string]any{"group": group, "version": version, "kind": decoded["kind"]}
	at := map[string]any{"group": group, "version": version, "resource": name}
	review := map[string]any{"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": map[string]any{
		"uid": "1", "kind": kind, "resource": at, "subResource": sub, "operation": "CREATE", "namespace": "shop",
		"name": "web", "requestKind": maps.Clone(kind), "requestResource": maps.Clone(at),
		"userInfo": map[string]any{"username": "jane", "groups": []any{"a"}, "extra": map[string]any{"k": []any{"v"}}},
		"options":  map[string]any{"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
		"dryRun":   false, "object": decoded,
	}}
	if once {
		review["apiVersion"] = "admission.k8s.io/v1beta1"
		for _, field := range []string{"requestKind", "requestResource", "options", "dryRun"} {
			delete(review["request"].(map[string]any), field)
		}
	}
	return review
}

// patched posts a review and is the object with the patch of the answer.
func patched(t *testing.T, handler http.Handler, review map[string]any, changed string) any {
	t.Helper()
	body, err := json.Marshal(review)
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", bytes.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	handler.ServeHTTP(w, r)
	var answer admissionv1.AdmissionReview
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
		t.Fatalf("%v: %s", err, w.Body)
	}
	if answer.APIVersion != review["apiVersion"] || answer.Response == nil || !answer.Response.Allowed ||
		!strings.Contains(string(answer.Response.Patch), `"`+changed) {
		t.Fatalf("the answer is %s, with the patch %s", w.Body, answer.Response.Patch)
	}
	patch, err := jsonpatch.DecodePatch(answer.Response.Patch)
	if err != nil {
		t.Fatal(err)
	}
	object, err := json.Marshal(review["request"].(map[string]any)["object"])
	if err != nil {
		t.Fatal(err)
	}
	if object, err = patch.Apply(object); err != nil {
		t.Fatal(err)
	}
	// the name of the token's volume is drawn
	var result any
	if err := json.Unmarshal(tokens.ReplaceAll(object, []byte("kube-api-access")), &result); err != nil {
		t.Fatal(err)
	}
	return result
}

// What plugins change of an object they change beside what this build doesn't know of it, at every
// place, and as they change it where nothing is unknown; in reviews of API servers of today, of
// once, and of some day, which say more in the review itself, too.
func TestUnknownFieldsSurvive(t *testing.T) {
	isDefault := map[string]string{"storageclass.kubernetes.io/is-default-class": "true",
		"ingressclass.kubernetes.io/is-default-class": "true"}
	cluster := plugintest.NewCluster(t,
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "default"},
			ImagePullSecrets: []corev1.LocalObjectReference{{Name: "pull"}}},
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a",
			Labels: map[string]string{corev1.LabelTopologyZone: "z"}}},
		&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "usual", Annotations: isDefault}},
		&networkingv1.IngressClass{ObjectMeta: metav1.ObjectMeta{Name: "usual", Annotations: isDefault}},
		&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "high"}, Value: 7},
		&nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: "vm"}, Handler: "vm",
			Overhead: &nodev1.Overhead{PodFixed: corev1.ResourceList{"cpu": resource.MustParse("1")}},
			Scheduling: &nodev1.Scheduling{NodeSelector: map[string]string{"vm": "yes"},
				Tolerations: []corev1.Toleration{{Key: "vm", Operator: "Exists"}}}},
		&corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "l"},
			Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{Type: corev1.LimitTypeContainer,
				Default: corev1.ResourceList{"cpu": resource.MustParse("1")}}}}})
	gates := featuregate.NewFeatureGate()
	on := featuregate.FeatureSpec{Default: true, PreRelease: featuregate.Alpha}
	if err := gates.Add(map[featuregate.Feature]featuregate.FeatureSpec{"GenericWorkload": on,
		"PodTopologyLabelsAdmission": on, "WorkloadAwarePreemption": on}); err != nil {
		t.Fatal(err)
	}
	cluster.Env.Features = gates
	c, err := chain.New([]plugin.Descriptor{limitranger.Descriptor,
		serviceaccount.Descriptor, taintnodesbycondition.Descriptor, alwayspullimages.Descriptor, priority.Descriptor,
		defaulttolerationseconds.Descriptor, extendedresourcetoleration.Descriptor, defaultstorageclass.Descriptor,
		storageobjectinuseprotection.Descriptor, podgroupprotection.Descriptor, runtimeclass.Descriptor,
		defaultingressclass.Descriptor,
		podtopologylabels.Descriptor}, nil, cluster.Env)
	if err != nil {
		t.Fatal(err)
	}
	cluster.Env.Informers.Start(cluster.Env.Done)
	cluster.Env.Informers.WaitForCacheSync(cluster.Env.Done)
	mutate := remote.Mutate(c)
	for _, test := range ofOthers {
		t.Run(test.resource.Resource, func(t *testing.T) {
			want := patched(t, mutate, reviewOf(t, test.resource, test.object, false), test.changed)
			if text := fmt.Sprint(want); test.once != "" && !strings.Contains(text, test.once+":") {
				t.Errorf("the field %s is lost: %s", test.once, text)
			}
			once := patched(t, mutate, reviewOf(t, test.resource, test.object, true), test.changed)
			if !reflect.DeepEqual(once, want) {
				t.Errorf("of an older API server's object becomes\n%v, want\n%v", once, want)
			}
			someDay, around, put, found := reviewOf(t, test.resource, test.object, false), 0, 0, 0
			asked := someDay["request"].(map[string]any)
			object := asked["object"]
			asked["object"] = nil
			everywhere(someDay, "", &around)
			everywhere(object, "", &put)
			asked["object"] = object
			got := patched(t, mutate, someDay, test.changed)
			without(got, &found)
			if found != put || put < 3 || around < 6 {
				t.Errorf("of %d unknown fields %d are left, with %d around the object", put, found, around)
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("got  %v\nwant %v", got, want)
			}
		})
	}
}
