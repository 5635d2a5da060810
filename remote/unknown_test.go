package remote_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"gatehouse.dev/chain"
	"gatehouse.dev/chain/chaintest"
	"gatehouse.dev/plugins/alwayspullimages"
	"gatehouse.dev/plugins/defaulttolerationseconds"
	"gatehouse.dev/plugins/extendedresourcetoleration"
	"gatehouse.dev/plugins/limitranger"
	"gatehouse.dev/plugins/priority"
	"gatehouse.dev/plugins/resourcedefaults"
	"gatehouse.dev/plugins/runtimeclass"
	"gatehouse.dev/plugins/serviceaccount"
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
			case "labels", "annotations", "requests", "limits", "nodeSelector":
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

// What plugins change of an object they change beside what this build doesn't know of it, at every
// place, and as they change it where nothing is unknown.
func TestUnknownFieldsSurvive(t *testing.T) {
	const pod = `
apiVersion: v1
kind: Pod
metadata:
  {name: web, namespace: shop, labels: {app: web}, ownerReferences: [{apiVersion: v1, kind: X, name: x, uid: u}]}
spec:
  runtimeClassName: vm
  priorityClassName: high
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
	cluster := chaintest.NewCluster(t,
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "default"},
			ImagePullSecrets: []corev1.LocalObjectReference{{Name: "pull"}}},
		&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "high"}, Value: 7},
		&nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: "vm"}, Handler: "vm",
			Overhead: &nodev1.Overhead{PodFixed: corev1.ResourceList{"cpu": resource.MustParse("1")}},
			Scheduling: &nodev1.Scheduling{NodeSelector: map[string]string{"vm": "yes"},
				Tolerations: []corev1.Toleration{{Key: "vm", Operator: "Exists"}}}},
		&corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "l"},
			Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{Type: corev1.LimitTypeContainer,
				Default: corev1.ResourceList{"cpu": resource.MustParse("1")}}}}})
	c, err := chain.New([]chain.Descriptor{resourcedefaults.Descriptor, limitranger.Descriptor,
		serviceaccount.Descriptor, alwayspullimages.Descriptor, priority.Descriptor,
		defaulttolerationseconds.Descriptor, extendedresourcetoleration.Descriptor, runtimeclass.Descriptor}, nil,
		cluster.Env)
	if err != nil {
		t.Fatal(err)
	}
	cluster.Env.Informers.Start(cluster.Env.Done)
	cluster.Env.Informers.WaitForCacheSync(cluster.Env.Done)
	mutate := remote.Mutate(c)

	patched := func(object any) any {
		t.Helper()
		raw, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		response := answered(t, mutate, request(admissionv1.Create, "pods", "Pod", string(raw)))
		if !response.Allowed || len(response.Patch) == 0 {
			t.Fatalf("%s", inWords(response))
		}
		patch, err := jsonpatch.DecodePatch(response.Patch)
		if err != nil {
			t.Fatal(err)
		}
		changed, err := patch.Apply(raw)
		if err != nil {
			t.Fatal(err)
		}
		// the name of the token's volume is drawn
		var result any
		if err := json.Unmarshal(tokens.ReplaceAll(changed, []byte("kube-api-access")), &result); err != nil {
			t.Fatal(err)
		}
		return result
	}
	plain, future := map[string]any{}, map[string]any{}
	for _, into := range []*map[string]any{&plain, &future} {
		if err := yaml.Unmarshal([]byte(pod), into); err != nil {
			t.Fatal(err)
		}
	}
	put, found := 0, 0
	everywhere(future, "", &put)
	want, got := patched(plain), patched(future)
	without(got, &found)
	if found != put || put < 20 {
		t.Errorf("of %d unknown fields %d are left", put, found)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}
