// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package webhooks_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"gatehouse.dev/internal/webhooktest"
)

// denial is how a patch that can't be used reads: a 500, since the client has done nothing wrong,
// that no failurePolicy changes.
const denial = `Internal error occurred: admission webhook "mutating\.example\.com" `

// badPatches are those that are read and then can't be applied, or make of the object what the API
// doesn't take.
var badPatches = []struct {
	name, patch string
	code        int32
	reason      metav1.StatusReason
	message     string
}{
	{"a path that isn't there", `[{"op":"remove","path":"/data/nothing"}]`, 500, metav1.StatusReasonInternalError,
		denial + `returned a patch that can't be applied: .*Unable to remove nonexistent key: nothing: missing value`},
	{"a test that fails", `[{"op":"test","path":"/data/a","value":"x"}]`, 500, metav1.StatusReasonInternalError,
		denial + `returned a patch that can't be applied: testing value /data/a failed: test failed`},
	{"an unknown operation", `[{"op":"explode","path":"/data"}]`, 500, metav1.StatusReasonInternalError, denial +
		`returned a patch that can't be applied: Unexpected kind: explode`},
	{"no path", `[{"op":"add","value":1}]`, 500, metav1.StatusReasonInternalError, denial +
		`returned a patch that can't be applied: .*`},
	{"the whole document", `[{"op":"replace","path":""}]`, 500, metav1.StatusReasonInternalError, denial +
		`returned a patch that .*`},
	{"an index beyond the end",
		`[{"op":"add","path":"/metadata/finalizers","value":[]},{"op":"add",` +
			`"path":"/metadata/finalizers/999999999999","value":"x"}]`, 500, metav1.StatusReasonInternalError,
		denial + `returned a patch that can't be applied: .*`},
	{"copies that double", doublings(40), 500, metav1.StatusReasonInternalError,
		denial +
			`returned a patch that can't be applied: Unable to complete the copy, the accumulated size increase of ` +
			`copy is \d+, exceeding the limit 3145728`},
	{"copies of something large", `[{"op":"add","path":"/data/x","value":"` + strings.Repeat("z", 1<<20) + `"}` +
		strings.Repeat(`,{"op":"copy","from":"/data/x","path":"/data/y"}`, 5) + `]`,
		500, metav1.StatusReasonInternalError, denial +
			`returned a patch that can't be applied: Unable to complete the copy, the accumulated size increase of ` +
			`copy is \d+, exceeding the limit 3145728`},
	{"values nested too deep", `[{"op":"add","path":"/data/x","value":` + strings.Repeat("[", 100_000) +
		strings.Repeat("]", 100_000) + `}]`, 500, metav1.StatusReasonInternalError,
		calling("mutating.example.com") + `received undecodable patch in webhook response: .*exceeded max depth`},
	{"a wrong type", `[{"op":"replace","path":"/data","value":"x"}]`, 500, metav1.StatusReasonInternalError, denial +
		`returned a patch that makes the object invalid: .*cannot unmarshal string.*`},
	{"another kind", `[{"op":"replace","path":"/kind","value":"Secret"}]`, 500, metav1.StatusReasonInternalError,
		denial +
			`returned a patch that makes the object invalid: apiVersion and kind must stay those of /v1, ` +
			`Kind=ConfigMap, not become those of /v1, Kind=Secret`},
	// These are the API's own validation: as if the client had sent it.
	{"an invalid object", `[{"op":"add","path":"/data/a~1b","value":"x"}]`, 422, metav1.StatusReasonInvalid,
		`ConfigMap "c" is invalid: data\[a/b\]: Invalid value: .*`},
	{"a large object", `[{"op":"add","path":"/data/large","value":"` + strings.Repeat("z", 2<<20) + `"}]`, 422,
		metav1.StatusReasonInvalid,
		`ConfigMap "c" is invalid: \[?: ?Too long: may not be more than 1048576 bytes.*|ConfigMap "c" is invalid: ` +
			`.*[Tt]oo long.*`},
	{"large annotations", `[{"op":"add","path":"/metadata/annotations","value":{"large":"` +
		strings.Repeat("z", 300<<10) + `"}}]`, 422, metav1.StatusReasonInvalid,
		`ConfigMap "c" is invalid: metadata\.annotations: Too long: may not be more than 262144 bytes`},
	{"no name", `[{"op":"remove","path":"/metadata/name"}]`, 422, metav1.StatusReasonInvalid,
		`ConfigMap "" is invalid: metadata\.name: Required value: name or generateName is required`},
}

// doublings is a patch that doubles a part of the object n times.
func doublings(n int) string {
	var b strings.Builder
	b.WriteString(`[{"op":"add","path":"/data/x","value":{"y":"z"}}`)
	for i := range n {
		fmt.Fprintf(&b, `,{"op":"copy","from":"/data/x","path":"/data/x/%d"}`, i)
	}
	return b.String() + "]"
}

// None of them is stored, whatever the failurePolicy (the API's answer isn't a webhook's failure,
// and neither is a patch that does not fit), and none costs more than its own size allows.
func TestBadPatches(t *testing.T) {
	leakFree(t)
	ns := namespace(t)
	b := webhooktest.New(t, webhooktest.Allow())
	install(t, mutatingPhase, ns,
		faulty{backend: b.ClientConfig("/"), labels: map[string]string{"policy": "fail"}},
		faulty{backend: b.ClientConfig("/"), labels: map[string]string{"policy": "ignore"}, name: "ignored.example.com",
			ignore: true})
	for _, test := range badPatches {
		t.Run(test.name, func(t *testing.T) {
			b.SetHandler(webhooktest.Patch(test.patch))
			object := newMap("c")
			object.Labels = map[string]string{"policy": "fail"}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			err := createMap(t.Context(), ns, object)
			runtime.ReadMemStats(&after)
			wantStatus(t, err, test.code, test.reason, test.message)
			wantStored(t, ns, "c", false)
			if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 256<<20 {
				t.Errorf("allocated %d MiB for it", allocated>>20)
			}
			object.Labels["policy"] = "ignore"
			if strings.HasPrefix(test.message, calling("mutating.example.com")) {
				return // a failure, which the policy does ignore
			}
			wantStatus(t, createMap(t.Context(), ns, object), test.code, test.reason,
				strings.ReplaceAll(test.message, "mutating", "ignored"))
			wantStored(t, ns, "c", false)
		})
	}
	wantAlive(t)
}

// What becomes of patches to metadata that says which object it is. The same as in Kubernetes: the
// API looks at the object after the mutating phase as if a client had sent it, but the name of a
// new object is what the webhook has made it.
//
// Source: BeforeCreate and BeforeUpdate in k8s.io/apiserver/pkg/registry/rest,
// FillObjectMetaSystemFields in its meta.go, Create and Update in
// registry/generic/registry/store.go, ErrResourceVersionSetOnCreate in storage/errors.go.
func TestPatchesOfIdentity(t *testing.T) {
	leakFree(t)
	const uid = "11111111-2222-3333-4444-555555555555"
	create := func(ctx context.Context, ns string) (*corev1.ConfigMap, error) {
		return client.CoreV1().ConfigMaps(ns).Create(ctx, newMap("c"), metav1.CreateOptions{})
	}
	update := func(ctx context.Context, ns string) (*corev1.ConfigMap, error) {
		changed := newMap("c")
		changed.Data["a"] = "changed"
		return client.CoreV1().ConfigMaps(ns).Update(ctx, changed, metav1.UpdateOptions{})
	}
	mergePatch := func(ctx context.Context, ns string) (*corev1.ConfigMap, error) {
		return client.CoreV1().ConfigMaps(ns).Patch(ctx, "c", types.MergePatchType, []byte(`{"data":{"a":"changed"}}`),
			metav1.PatchOptions{})
	}
	const (
		immutable   = `ConfigMap "%s" is invalid: metadata\.%s: Invalid value: "%s": field is immutable`
		othersSpace = "the namespace of the provided object does not match the namespace sent on the request"
		hasChanged  = `Operation cannot be fulfilled on configmaps "c": the object has been modified; please apply ` +
			`your changes to the latest version and try again`
		versionGiven = "resourceVersion should not be set on objects to be created"
	)
	t.Cleanup(func() { // after all writes, which are parallel
		_, err := client.CoreV1().ConfigMaps("default").Get(context.Background(), "c", metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			t.Errorf("an object has got into another namespace: %v", err)
		}
	})
	for _, test := range []struct {
		name   string
		exists bool
		write  func(context.Context, string) (*corev1.ConfigMap, error)
		patch  string
		code   int32 // 0: success
		reason metav1.StatusReason
		want   string
		stored string // the object's name
	}{
		// it gets one of its own
		{"uid, create", false, create, `[{"op":"add","path":"/metadata/uid","value":"` + uid + `"}]`, 0, "", "", "c"},
		{"uid, update", true, update, `[{"op":"replace","path":"/metadata/uid","value":"` + uid + `"}]`, 422,
			metav1.StatusReasonInvalid, fmt.Sprintf(immutable, "c", "uid", uid), "c"},
		{"uid, patch", true, mergePatch, `[{"op":"replace","path":"/metadata/uid","value":"` + uid + `"}]`, 422,
			metav1.StatusReasonInvalid, fmt.Sprintf(immutable, "c", "uid", uid), "c"},
		{"uid removed, patch", true, mergePatch, `[{"op":"remove","path":"/metadata/uid"}]`, 0, "", "", "c"},
		{"name, create", false, create, `[{"op":"replace","path":"/metadata/name","value":"other"}]`, 0, "", "",
			"other"},
		{"name, update", true, update, `[{"op":"replace","path":"/metadata/name","value":"other"}]`, 422,
			metav1.StatusReasonInvalid, fmt.Sprintf(immutable, "other", "name", "other"), "c"},
		{"name, patch", true, mergePatch, `[{"op":"replace","path":"/metadata/name","value":"other"}]`, 422,
			metav1.StatusReasonInvalid, fmt.Sprintf(immutable, "other", "name", "other"), "c"},
		{"namespace, create", false, create, `[{"op":"replace","path":"/metadata/namespace","value":"default"}]`, 400,
			metav1.StatusReasonBadRequest, othersSpace, ""},
		{"namespace, update", true, update, `[{"op":"replace","path":"/metadata/namespace","value":"default"}]`, 400,
			metav1.StatusReasonBadRequest, othersSpace, "c"},
		{"namespace, patch", true, mergePatch, `[{"op":"replace","path":"/metadata/namespace","value":"default"}]`, 400,
			metav1.StatusReasonBadRequest, othersSpace, "c"},
		{"namespace removed, create", false, create, `[{"op":"remove","path":"/metadata/namespace"}]`, 0, "", "", "c"},
		{"resourceVersion, create", false, create, `[{"op":"add","path":"/metadata/resourceVersion","value":"1"}]`, 500,
			"", versionGiven, ""},
		{"resourceVersion, update", true, update, `[{"op":"add","path":"/metadata/resourceVersion","value":"1"}]`, 409,
			metav1.StatusReasonConflict, hasChanged, "c"},
		{"resourceVersion, patch", true, mergePatch,
			`[{"op":"replace","path":"/metadata/resourceVersion","value":"1"}]`, 409, metav1.StatusReasonConflict,
			hasChanged, "c"},
		{"resourceVersion removed, patch", true, mergePatch, `[{"op":"remove","path":"/metadata/resourceVersion"}]`, 0,
			"", "", "c"},
		{"resourceVersion that is none, update", true, update,
			`[{"op":"add","path":"/metadata/resourceVersion","value":"x"}]`, 500, "",
			`strconv\.ParseUint: parsing "x": invalid syntax`, "c"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			ns := namespace(t)
			var original *corev1.ConfigMap
			if test.exists {
				var err error
				if original, err = create(t.Context(), ns); err != nil {
					t.Fatal(err)
				}
			}
			b := webhooktest.New(t, webhooktest.Patch(test.patch))
			install(t, mutatingPhase, ns, faulty{backend: b.ClientConfig("/")})
			got, err := test.write(t.Context(), ns)
			if test.code != 0 {
				wantStatus(t, err, test.code, test.reason, test.want)
			} else if err != nil {
				t.Error(err)
			} else if got.UID == uid || got.UID == "" || got.Name != test.stored || got.Namespace != ns ||
				got.ResourceVersion == "" {
				t.Errorf("the answer is %v", got)
			}
			wantStored(t, ns, "c", test.stored == "c")
			if test.stored == "" {
				return
			}
			stored, err := client.CoreV1().ConfigMaps(ns).Get(t.Context(), test.stored, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if stored.UID == uid || test.exists && stored.UID != original.UID || test.exists &&
				(stored.Data["a"] == "changed") != (test.code == 0) {
				t.Errorf("stored is %v", stored)
			}
		})
	}
}
