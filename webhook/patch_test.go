// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"gatehouse.dev/webhook/review"
)

// patchedAlike checks that a patch does to an object what it does to its JSON, and leaves the
// object it is applied to alone.
func patchedAlike(t *testing.T, object runtime.Object, data string) {
	t.Helper()
	patch, err := review.DecodePatch([]byte(data))
	if err != nil {
		return
	}
	before := object.DeepCopyObject()
	want, _, wantErr := patchJSON(object, patch)
	got, changed, _, err := patchObject(object, patch)
	if (err == nil) != (wantErr == nil) {
		t.Errorf("patch %s of %T: the error is %v, of its JSON it is %v", data, object, err, wantErr)
		return
	}
	if err == nil {
		// Validation tells an empty list from none.
		if difference := cmp.Diff(want, got, cmp.Comparer(resource.Quantity.Equal)); difference != "" {
			t.Errorf("patch %s makes, other than its JSON (-):\n%s", data, difference)
		}
	}
	if want := !apiequality.Semantic.DeepEqual(object, want); err == nil && changed != want {
		t.Errorf("patch %s: changed is %v, want %v", data, changed, want)
	}
	if !reflect.DeepEqual(object, before) {
		t.Errorf("patch %s has changed the object it was applied to into\n%+v", data, object)
	}
}

// A webhook's patch can't stop the server with a quantity that takes for ever to parse.
func TestLongQuantitiesInPatches(t *testing.T) {
	for _, path := range []string{"/spec/containers/0/resources", "/spec/containers/-"} {
		patch, err := review.DecodePatch([]byte(`[{"op":"add","path":"` + path +
			`","value":{"name":"x","limits":{"cpu":"1e-99999999"},"resources":{"limits":{"cpu":"1e-99999999"}}}}]`))
		if err != nil {
			t.Fatal(err)
		}
		_, _, _, err = patchObject(benchPod(), patch)
		if err == nil || !strings.Contains(err.Error(), resource.ErrFormatWrong.Error()) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// examples are objects with what there is in objects: inline structs, lists and maps that are
// empty, and what writes its own JSON.
func examples() []runtime.Object {
	two, yes, seconds, half := int64(2), true, metav1.NewTime(time.Unix(1e9, 0).UTC()), intstr.FromString("50%")
	pod := benchPod()
	pod.Annotations = map[string]string{"a/b": "c", "d~e": "f"}
	pod.Finalizers, pod.OwnerReferences = []string{}, []metav1.OwnerReference{{Name: "o", Controller: &yes}}
	pod.CreationTimestamp, pod.DeletionTimestamp = seconds, &seconds
	pod.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "m", Time: &seconds,
		FieldsV1: metav1.NewFieldsV1(`{"f:a":{},"f:b":{}}`)}}
	pod.Spec.NodeSelector, pod.Spec.Tolerations, pod.Spec.InitContainers = map[string]string{}, nil,
		[]corev1.Container{}
	pod.Spec.SecurityContext, pod.Spec.TerminationGracePeriodSeconds = &corev1.PodSecurityContext{}, &two
	pod.Spec.Volumes = []corev1.Volume{
		{Name: "secret", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s",
			Items: []corev1.KeyToPath{{Key: "k"}}}}},
		{Name: "empty",
			VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: resource.NewQuantity(5,
				resource.DecimalSI)}}},
	}
	container := &pod.Spec.Containers[1]
	container.LivenessProbe = &corev1.Probe{PeriodSeconds: 1,
		ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: half}}}
	container.SecurityContext = &corev1.SecurityContext{RunAsUser: &two, Privileged: &yes}
	container.Env[0].ValueFrom = &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}
	container.Resources = corev1.ResourceRequirements{}
	volume := &corev1.PersistentVolume{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolume"},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:               corev1.ResourceList{"storage": resource.MustParse("1500Mi")},
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/p"}},
			NodeAffinity: &corev1.VolumeNodeAffinity{
				Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{}}},
			},
		}}
	return []runtime.Object{
		pod,
		volume,
		&corev1.ConfigMap{TypeMeta: pod.TypeMeta, Data: map[string]string{"k": "v"}},
		&corev1.Secret{TypeMeta: pod.TypeMeta, Data: map[string][]byte{"k": []byte("v"), "nil": nil}},
		&appsv1.Deployment{TypeMeta: pod.TypeMeta, Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"},
				MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "k", Values: []string{"v", "w"}}}},
			Strategy: appsv1.DeploymentStrategy{RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: &half}},
		}},
		&appsv1.ControllerRevision{TypeMeta: pod.TypeMeta,
			Data: runtime.RawExtension{Raw: []byte(`{"a":{"b":1},"a":{"c":[1]}}`)}},
		&unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "e/v1", "kind": "E",
			"metadata": map[string]any{"name": "n", "labels": map[string]any{"app": "web"}},
			"spec": map[string]any{"list": []any{int64(1), "two", nil, 3.5, []any{}, map[string]any{"a": []any{true}}},
				"map": map[string]any{}, "null": nil}, "data": "text", "a~b": "c", "": "nameless",
		}},
		&odd{TypeMeta: metav1.TypeMeta{APIVersion: "e/v1", Kind: "Odd"}, Text: 7, Left: Left{One: "l"},
			Bytes: []byte("b"), Own: map[upper]string{"A": "b"},
			Any: map[string]any{"a": int64(1)}, Numbers: map[int]string{1: "a"}, Array: [2]string{"a", "b"},
			Nils: []*Left{nil, {One: "x"}}, Plain: map[string]Left{"a": {One: "y"}},
			Nests: map[string][]map[string]string{"a": {nil, {}}, "nil": nil}},
	}
}

// odd has fields such as no API has, yet.
type odd struct {
	metav1.TypeMeta `json:",inline"`
	Left
	Right
	Text    int                            `json:"text,string"`
	Zero    Left                           `json:"zero,omitzero"`
	Bytes   []byte                         `json:"bytes"`
	Own     map[upper]string               `json:"own"`
	Any     any                            `json:"any"`
	Numbers map[int]string                 `json:"numbers"`
	Array   [2]string                      `json:"array"`
	Nils    []*Left                        `json:"nils"`
	Plain   map[string]Left                `json:"plain"`
	Nests   map[string][]map[string]string `json:"nests"`
	Other   embeds                         `json:"other"`
	Hidden  map[string]string              `json:"-"`
	Unnamed string
}

type (
	Left   struct{ Both, One string }
	Right  struct{ Both string }
	embeds struct {
		*Left
		Right
	}
)

// upper is a key that is read as another.
type upper string

func (u *upper) UnmarshalText(text []byte) error {
	*u = upper(strings.ToUpper(string(text)))
	return nil
}

func (o *odd) DeepCopyObject() runtime.Object {
	copied := *o
	copied.Bytes, copied.Own, copied.Numbers, copied.Plain = slices.Clone(o.Bytes), maps.Clone(o.Own),
		maps.Clone(o.Numbers), maps.Clone(o.Plain)
	copied.Any = maps.Clone(o.Any.(map[string]any))
	copied.Nils = []*Left{nil, {One: o.Nils[1].One}}
	copied.Nests = map[string][]map[string]string{"a": {nil, {}}, "nil": nil}
	return &copied
}

var examplePatches = []string{
	labelPatch("a", "b"),
	`[{"op":"remove","path":"/metadata/labels/app"}]`,
	`[{"op":"add","path":"/metadata/annotations/a~1b","value":"\ud800"},{"op":"replace",` +
		`"path":"/metadata/labels/app","value":"web"}]`,
	`[{"op":"replace","path":"/metadata/annotations/a~1b","value":"x"},{"op":"replace",` +
		`"path":"/metadata/annotations/a~1b","value":"c"}]`,
	`[{"op":"replace","path":"/metadata/annotations/d~01e","value":"x"}]`,
	`[{"op":"replace","path":"/metadata/labels/other","value":"x"}]`,
	`[{"op":"add","path":"/metadata/labels/","value":"x"}]`,
	`[{"op":"add","path":"/metadata/labels/app","value":null}]`,
	`[{"op":"add","path":"/metadata/labels/app","value":1}]`,
	`[{"op":"add","path":"/metadata/labels/app"}]`,
	`[{"op":"add","path":"/metadata/labels/app/x","value":"y"}]`,
	`[{"op":"test","path":"/metadata/labels/app","value":"web"}]`,
	`[{"op":"add","path":"/metadata/labels/x","value":"y"},{"op":"remove","path":"/metadata/labels/app"}]`,
	`[{"op":"replace","path":"/metadata","value":null}]`,
	`[{"op":"remove","path":"/metadata"}]`,
	`[{"op":"remove","path":"/spec"},{"op":"add","path":"/spec","value":{"list":[]}}]`,
	`[{"op":"add","path":"/spec/containers/-","value":{"name":"sidecar","image":"i"}}]`,
	`[{"op":"add","path":"/spec/list/0","value":{"x":[1,2.5]}}]`,
	`[{"op":"move","from":"/metadata/labels","path":"/metadata/annotations"}]`,
	`[{"op":"copy","from":"/metadata/name","path":"/spec/hostname"}]`,
	`[{"op":"copy","from":"/metadata/name","path":"/data"}]`,
	`[{"op":"copy","from":"/nothing","path":"/spec"}]`,
	`[{"op":"test","path":"/kind","value":"Pod"}]`,
	`[{"op":"replace","path":"/kind","value":"Other"}]`,
	`[{"op":"remove","path":"/apiVersion"}]`,
	`[{"op":"add","path":"/unknown","value":{"a":1}}]`,
	`[{"op":"add","path":"/a~0b","value":"d"}]`,
	`[{"op":"add","path":"/","value":"d"}]`,
	`[{"op":"replace","path":"","value":{}}]`,
	`[{"op":"add","path":"no path","value":1}]`,
	`[{"op":"test","path":"/status/phase","value":null}]`,
	`[{"op":"test","path":"/status","value":{}}]`,
	`[{"op":"frob","path":"/spec"}]`,
	`[{"op":"remove","path":"/metadata/annotations/a~1b"},{"op":"remove","path":"/metadata/annotations/d~0e"}]`,
	`[{"path":"/metadata"}]`,
	`[null]`,
	// Sidecars are injected.
	`[{"op":"add","path":"/spec/containers/-","value":{"name":"s","image":"i","env":[]}},{"op":"add","path":"/spec/volumes/0","value":{"name":"v","emptyDir":{"sizeLimit":"1Gi"}}},
	  {"op":"add","path":"/spec/containers/1/env/-","value":{"name":"A","value":"b"}},{"op":"add","path":"/spec/containers/1/volumeMounts","value":[{"name":"v","mountPath":"/v"}]},{"op":"add","path":"/metadata/labels/injected","value":"yes"}]`,
	`[{"op":"add","path":"/spec/initContainers/-","value":{"name":"s"}}]`,
	`[{"op":"add","path":"/spec/containers/1/resources/limits","value":{"cpu":"1000m"}}]`,
	`[{"op":"add","path":"/spec/containers/0/resources/requests/cpu","value":"0.1"},{"op":"replace",` +
		`"path":"/spec/containers/0/resources/limits/memory","value":268435456}]`,
	// Operations cancel out, or build on one another.
	`[{"op":"add","path":"/spec/containers/-","value":{"name":"s"}},{"op":"remove","path":"/spec/containers/4"}]`,
	`[{"op":"remove","path":"/metadata/labels/app"},{"op":"add","path":"/metadata/labels/app","value":"web"}]`,
	`[{"op":"add","path":"/spec/containers/-","value":{"name":"s"}},{"op":"add",` +
		`"path":"/spec/containers/4/resources/limits","value":{}}]`,
	`[{"op":"add","path":"/spec/containers/-","value":{"name":"s"}},{"op":"add",` +
		`"path":"/spec/containers/04/resources/limits","value":{}}]`,
	`[{"op":"add","path":"/spec/containers/-","value":{"name":"s"}},{"op":"add","path":"/spec/containers/0",` +
		`"value":{"name":"t"}},{"op":"add","path":"/spec/containers/5/resources/limits","value":{}}]`,
	`[{"op":"add","path":"/spec/securityContext","value":{"seLinuxOptions":{"user":"u"},` +
		`"seLinuxOptions":{"role":"r"}}},{"op":"add","path":"/spec/securityContext/runAsUser","value":1}]`,
	`[{"op":"add","path":"/metadata/annotations","value":{}},{"op":"add","path":"/metadata/annotations/x",` +
		`"value":"y"}]`,
	`[{"op":"add","path":"/metadata/labels","value":{"~2":{}}},{"op":"add","path":"/metadata/labels/~02","value":"y"}]`,
	`[{"op":"remove","path":"/status"},{"op":"remove","path":"/status"}]`,
	`[{"op":"remove","path":"/spec/containers/0/resources"},{"op":"add",` +
		`"path":"/spec/containers/0/resources/limits","value":{}}]`,
	`[{"op":"remove","path":"/spec/containers/0"},{"op":"remove","path":"/spec/containers/0"},{"op":"remove",` +
		`"path":"/spec/containers/0"},{"op":"remove","path":"/spec/containers/0"},{"op":"add",` +
		`"path":"/spec/containers/-","value":{}}]`,
	// What isn't in the JSON, is in it otherwise, or isn't there in this way.
	`[{"op":"remove","path":"/metadata/finalizers"}]`,
	`[{"op":"add","path":"/metadata/finalizers/-","value":"f"}]`,
	`[{"op":"add","path":"/spec/nodeSelector/a","value":"b"}]`,
	`[{"op":"remove","path":"/spec/hostNetwork"}]`,
	`[{"op":"replace","path":"/spec/hostNetwork","value":true}]`,
	`[{"op":"remove","path":"/metadata/creationTimestamp"}]`,
	`[{"op":"add","path":"/metadata/managedFields/0/fieldsV1/f:c","value":{}}]`,
	`[{"op":"replace","path":"/metadata/managedFields/0/time","value":"2001-09-09T01:46:40Z"}]`,
	`[{"op":"add","path":"/data/a","value":{}}]`,
	`[{"op":"replace","path":"/data/k","value":"dw=="}]`,
	`[{"op":"add","path":"/spec/hostPath/type","value":"Directory"}]`,
	`[{"op":"add","path":"/spec/persistentVolumeSource/hostPath/type","value":"Directory"}]`,
	`[{"op":"replace","path":"/spec/volumes/0/secret/items/0/path","value":"p"}]`,
	`[{"op":"replace","path":"/spec/strategy/rollingUpdate/maxSurge","value":1}]`,
	`[{"op":"replace","path":"/spec/containers/01/image","value":"x"}]`,
	`[{"op":"replace","path":"/spec/containers/-1/image","value":"x"}]`,
	`[{"op":"replace","path":"/spec/containers/4/image","value":"x"}]`,
	`[{"op":"remove","path":"/spec/containers/-1"}]`,
	`[{"op":"replace","path":"/spec/containers/0/image","value":"x"},{"op":"test","path":"/spec/containers/0/image",` +
		`"value":"x"}]`,
	`[{"op":"add","path":"/spec/list/4/-","value":1},{"op":"add","path":"/spec/map/x","value":1.0},{"op":"add",` +
		`"path":"/spec/null/x","value":1}]`,
	`[{"op":"replace","path":"/spec/list/5/a/0","value":[null]}]`,
	`[{"op":"add","path":"x/metadata/labels/a","value":"b"}]`,
	`[{"op":"add","path":"/spec/strategy/rollingUpdate/maxSurge/IntVal","value":1}]`,
	`[{"op":"replace","path":"/text","value":"8"}]`,
	`[{"op":"replace","path":"/text","value":8}]`,
	`[{"op":"add","path":"/-","value":{"a":"b"}}]`,
	`[{"op":"add","path":"/nests/a/0/x","value":"y"}]`,
	`[{"op":"add","path":"/nests/a/1/x","value":"y"}]`,
	`[{"op":"add","path":"/nests/nil/-","value":{}}]`,
	`[{"op":"replace","path":"/Both","value":"x"}]`,
	`[{"op":"replace","path":"/One","value":"x"}]`,
	`[{"op":"add","path":"/zero/One","value":"x"}]`,
	`[{"op":"add","path":"/bytes/-","value":1}]`,
	`[{"op":"add","path":"/own/a","value":"x"}]`,
	`[{"op":"add","path":"/any/b","value":2}]`,
	`[{"op":"remove","path":"/numbers/1"}]`,
	`[{"op":"replace","path":"/array/1","value":"c"}]`,
	`[{"op":"replace","path":"/nils/0/One","value":"c"}]`,
	`[{"op":"replace","path":"/nils/1/One","value":"c"},{"op":"replace","path":"/plain/a/One","value":"c"}]`,
	`[{"op":"add","path":"/other/Both","value":"c"}]`,
	`[{"op":"add","path":"/Unnamed","value":"c"},{"op":"add","path":"/unnamed","value":"d"}]`,
	`[{"op":"add","path":"/spec/list/5/a/-","value":` + strings.Repeat("[", 9998) + strings.Repeat("]", 9998) + `}]`,
}

func TestPatchedObjectIsThatOfPatchedJSON(t *testing.T) {
	for _, object := range examples() {
		for _, patch := range examplePatches {
			patchedAlike(t, object, patch)
		}
	}
}

func FuzzPatched(f *testing.F) {
	for _, patch := range examplePatches {
		f.Add(patch)
	}
	f.Fuzz(func(t *testing.T, patch string) {
		for _, object := range examples() {
			patchedAlike(t, object, patch)
		}
	})
}

// Patches made of paths and values that there are in the objects, most of which can be applied.
func FuzzPatchedPlaces(f *testing.F) {
	seeds := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		seed := make([]byte, 40)
		for i := range seed {
			seed[i] = byte(seeds.Uint32())
		}
		f.Add(seed)
	}
	objects := examples()
	var places [][]place
	for _, object := range objects {
		data, err := review.EncodeObject(object)
		if err != nil {
			f.Fatal(err)
		}
		var content any
		if err := json.Unmarshal(data, &content); err != nil {
			f.Fatal(err)
		}
		places = append(places, placesIn(nil, "", content))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		choice := func(n int) int {
			if len(data) < 2 {
				return 0
			}
			chosen := (int(data[0])<<8 | int(data[1])) % n
			data = data[2:]
			return chosen
		}
		which := choice(len(objects))
		object, there := objects[which], places[which]
		var operations []string
		var path string
		for range 1 + choice(4) {
			// Often, what an operation is about is near what the one before it was about.
			if path == "" || choice(3) > 0 {
				path = there[choice(len(there))].path
			}
			for range max(0, choice(5)-2) {
				path = path[:max(0, strings.LastIndexByte(path, '/'))]
			}
			value := there[choice(len(there))].value
			for _, p := range there {
				if p.path == path && choice(10) > 0 {
					value = p.value // of the type that belongs there
				}
			}
			if n := choice(4 * len(more)); n < len(more) {
				path += "/" + more[n].path
				value = more[n].value
			}
			kind := []string{"add", "replace", "remove"}[choice(3)]
			if choice(20) == 0 {
				kind = []string{"test", "copy", "move"}[choice(3)]
			}
			quoted, err := json.Marshal(path)
			if err != nil {
				t.Fatal(err)
			}
			from, err := json.Marshal(there[choice(len(there))].path)
			if err != nil {
				t.Fatal(err)
			}
			operations = append(operations,
				fmt.Sprintf(`{"op":%q,"path":%s,"from":%s,"value":%s}`, kind, quoted, from, value))
		}
		patchedAlike(t, object, "["+strings.Join(operations, ",")+"]")
	})
}

// place is where something is in the JSON of an object, and what.
type place struct{ path, value string }

// more are places below others, some of which may be there.
var more = []place{
	{"-", `{"name":"new","image":"i","resources":{"limits":{"cpu":"1"}}}`}, {"-", `"text"`}, {"0", `{}`},
	{"1", `{"name":"one"}`}, {"2", `null`}, {"01", `1`}, {"-1", `{}`}, {"9", `{}`},
	{"a", `"b"`}, {"a~1b", `"c"`}, {"", `""`}, {"nothing", `{"a":{"b":[]}}`}, {"env", `[]`},
	{"env", `[{"name":"A","value":"b"},{}]`}, {"hostNetwork", `true`}, {"hostNetwork", `false`},
	{"resources", `{}`}, {"limits", `{"cpu":"0.5"}`}, {"limits/cpu", `"1"`}, {"securityContext", `{"runAsUser":0}`},
	{"runAsUser", `1`}, {"volumes", `[{"name":"v","emptyDir":{}}]`}, {"emptyDir", `{}`},
	{"livenessProbe", `{"httpGet":{"port":"x"},"httpGet":{"path":"/"}}`}, {"httpGet", `{"port":80}`}, {"labels", `{}`},
	{"labels", `{"a":null,"b":"c"}`}, {"annotations/x", `"y"`}, {"finalizers", `["f"]`},
	{"status", `{"phase":"Running"}`},
	{"One", `"x"`}, {"Both", `"x"`}, {"Other", `"x"`}, {"zero", `{"One":""}`}, {"spec", `{}`},
	{"metadata", `{"name":"other"}`}, {"time", `"2020-01-01T00:00:00Z"`},
	{"list", `[1,2.0,-0,99999999999999999999]`},
}

// placesIn adds all places in value, which is at a path.
func placesIn(places []place, path string, value any) []place {
	data, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	places = append(places, place{path, string(data)})
	switch value := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			places = placesIn(places, path+"/"+strings.NewReplacer("~", "~0", "/", "~1").Replace(key), value[key])
		}
	case []any:
		for i := range value {
			places = placesIn(places, fmt.Sprintf("%s/%d", path, i), value[i])
		}
	}
	return places
}

// Were the way through JSON taken always, no other test would tell.
// A patch of which nothing is left, as of a field that the type doesn't have, is no change, although the
// JSON has the times of managed fields without fractions of seconds.
func TestTimesAreNoChange(t *testing.T) {
	pod := benchPod()
	now := metav1.NewTime(time.Unix(1e9, 1))
	pod.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "m", Time: &now}}
	for text, want := range map[string]bool{
		`[{"op":"add","path":"/metadata/unknown","value":{}}]`:                                                    false,
		`[{"op":"test","path":"/metadata/name","value":"` + pod.Name + `"}]`:                                      false,
		`[{"op":"replace","path":"/metadata/managedFields/0/time","value":"2001-09-09T01:46:41Z"}]`:               true,
		`[{"op":"add","path":"/metadata/unknown","value":{}},{"op":"remove","path":"/metadata/managedFields/0"}]`: true,
	} {
		patch, err := review.DecodePatch([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		after, changed, _, err := patchObject(pod, patch)
		if err != nil || changed != want {
			t.Errorf("%s changes the object: %v, %v; want %v", text, changed, err, want)
		}
		if fields := after.(*corev1.Pod).ManagedFields; !want && !fields[0].Time.Equal(&now) {
			t.Errorf("%s: the time is %s, want %s", text, fields[0].Time, now)
		}
	}
}

// withLimit returns a copy of a pod with a limit in a container.
func withLimit(pod *corev1.Pod, limit string) *corev1.Pod {
	pod = pod.DeepCopy()
	pod.Spec.Containers[0].Resources.Limits = corev1.ResourceList{"cpu": resource.MustParse(limit)}
	return pod
}

func TestMostPatchesNeedNoJSON(t *testing.T) {
	objects := examples()
	pod, custom := objects[0].DeepCopyObject().(*corev1.Pod), objects[6]
	pod.Finalizers, pod.Spec.NodeSelector, pod.Spec.InitContainers = nil, nil, nil
	for _, test := range []struct {
		object runtime.Object
		patch  string
		want   bool
	}{
		{pod, labelPatch("a", "b"), true},
		{pod, `[{"op":"replace","path":"/spec/containers/0/image","value":"x"}]`, true},
		{pod,
			`[{"op":"add","path":"/spec/containers/-","value":{"name":"s"}},{"op":"add","path":"/spec/volumes/0",` +
				`"value":{"name":"v"}},{"op":"add","path":"/spec/containers/1/env/-","value":{"name":"A"}}]`, true},
		{pod,
			`[{"op":"add","path":"/spec/volumes/2","value":{"name":"a"}},{"op":"add","path":"/spec/volumes/3",` +
				`"value":{"name":"b"}},{"op":"remove","path":"/spec/volumes/1"},{"op":"remove",` +
				`"path":"/spec/volumes/0"}]`,
			true},
		{pod,
			`[{"op":"remove","path":"/metadata/annotations/a~1b"},{"op":"add","path":"/metadata/finalizers",` +
				`"value":["f"]}]`, true},
		{pod, `[{"op":"add","path":"/spec/containers/1/resources/limits","value":{"cpu":"1"}}]`, true},
		{custom,
			`[{"op":"replace","path":"/spec/list/5/a/0","value":false},{"op":"add","path":"/spec/map/x","value":{}},` +
				`{"op":"remove","path":"/metadata/labels/app"}]`, true},
		{pod, `[{"op":"test","path":"/metadata/name","value":"p"}]`, false},
		{objects[0], labelPatch("a", "b"), false}, // it has empty lists, which the JSON leaves out
		{withLimit(pod, "999T"), labelPatch("a", "b"), true},
		{withLimit(pod, "1000E"), labelPatch("a", "b"), false},
		{withLimit(pod, "9300000000000000000"), labelPatch("a", "b"), false}, // 9300P in JSON
		{withLimit(pod, "-1e22"), labelPatch("a", "b"), false},
		{&odd{Any: map[string]string{"a": "b"}}, `[{"op":"add","path":"/any/b","value":"c"}]`, false},
		{pod, `[{"op":"replace","path":"/kind","value":"Pod"}]`, false},
		{pod, "[" + strings.Repeat(`{"op":"add","path":"/metadata/labels/app","value":""},`, fewOperations) +
			`{"op":"add","path":"/metadata/labels/a","value":""}]`, false},
	} {
		patch, err := review.DecodePatch([]byte(test.patch))
		if err != nil {
			t.Fatal(err)
		}
		if _, _, _, got := patchDirectly(test.object, patch); got != test.want {
			t.Errorf("patch %s needs no JSON: %v, want %v", test.patch, got, test.want)
		}
	}
}
