// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package recorded

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"reflect"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/kubernetes/scheme"
)

// maxPatchOperations is how many operations a server takes in a JSON patch.
// Source: k8s.io/apiserver/pkg/endpoints/handlers/patch.go#maxJSONPatchOperations 869714bd
const maxPatchOperations = 10000

// applyPatch returns what a patch makes of an object that is known. The result has no defaults for
// what the patch adds.
//
// An audit event doesn't say of which type its patch is. A JSON patch is a list. A patch with
// apiVersion and kind is taken for a server-side apply. Any other is a merge patch or, for kinds that
// are compiled in, maybe a strategic merge patch: it is applied if both give the same object.
func applyPatch(old, patch []byte, uri string) ([]byte, Reason) {
	if patch[0] == '[' {
		operations, err := jsonpatch.DecodePatch(patch)
		if err != nil || len(operations) > maxPatchOperations {
			return nil, FailedPatch
		}
		patched, err := operations.Apply(old)
		if err != nil {
			return nil, FailedPatch
		}
		return patched, ""
	}
	if patch[0] != '{' {
		return nil, Unparseable
	}
	if queryOf(uri).Has("force") || find(patch, "apiVersion") != nil && find(patch, "kind") != nil {
		return nil, ApplyPatch
	}
	gvk := kindOf(old)
	typed, err := scheme.Scheme.New(gvk)
	if err != nil { // a custom resource takes no strategic merge patches
		merged, err := jsonpatch.MergePatch(old, patch)
		if err != nil {
			return nil, FailedPatch
		}
		return merged, ""
	}
	merged, mergeErr := jsonpatch.MergePatch(old, patch)
	strategic, strategicErr := strategicMerge(old, patch, typed)
	switch {
	case mergeErr != nil || strategicErr != nil:
		return nil, FailedPatch
	case isStrategic(patch), sameJSON(merged, strategic):
		return strategic, ""
	}
	return nil, AmbiguousPatch
}

// strategicMerge applies a strategic merge patch as the server does, with whole numbers kept whole.
// Source: k8s.io/apiserver/pkg/endpoints/handlers/patch.go#applyPatchToObject 3033978b
func strategicMerge(old, patch []byte, typed any) ([]byte, error) {
	var object, changes map[string]any
	if err := utiljson.Unmarshal(old, &object); err != nil {
		return nil, err
	}
	if err := utiljson.Unmarshal(patch, &changes); err != nil {
		return nil, err
	}
	patched, err := strategicpatch.StrategicMergeMapPatch(object, changes, typed)
	if err != nil {
		return nil, err
	}
	return json.Marshal(patched)
}

// isStrategic reports whether a patch has directives that only strategic merge patches have.
func isStrategic(patch []byte) bool {
	for _, directive := range []string{`"$patch"`, `"$retainKeys"`, `"$setElementOrder/`, `"$deleteFromPrimitiveList/`} {
		if bytes.Contains(patch, []byte(directive)) {
			return true
		}
	}
	return false
}

func sameJSON(a, b []byte) bool {
	var x, y any
	return utiljson.Unmarshal(a, &x) == nil && utiljson.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}

// scaleFrom returns the Scale of one of Kubernetes' own workloads, or nil if it can't be made.
// Source: k8s.io/kubernetes/pkg/registry/apps/deployment/storage/storage.go#scaleFromDeployment 693fa070
// Source: k8s.io/kubernetes/pkg/registry/core/replicationcontroller/storage/storage.go#scaleFromRC 039c1f16
func scaleFrom(workload []byte) []byte {
	object, err := Parse(workload)
	if err != nil {
		return nil
	}
	replicas, _, err := unstructured.NestedInt64(object.Object, "spec", "replicas")
	if err != nil {
		return nil
	}
	current, _, err := unstructured.NestedInt64(object.Object, "status", "replicas")
	if err != nil {
		return nil
	}
	selector, ok := selectorOf(workload, object.GetKind() == "ReplicationController")
	if !ok {
		return nil
	}
	scale := &autoscalingv1.Scale{
		TypeMeta: metav1.TypeMeta{APIVersion: "autoscaling/v1", Kind: "Scale"},
		ObjectMeta: metav1.ObjectMeta{Name: object.GetName(), Namespace: object.GetNamespace(), UID: object.GetUID(),
			ResourceVersion: object.GetResourceVersion(), CreationTimestamp: object.GetCreationTimestamp()},
		Spec:   autoscalingv1.ScaleSpec{Replicas: int32(replicas)},
		Status: autoscalingv1.ScaleStatus{Replicas: int32(current), Selector: selector},
	}
	data, err := json.Marshal(scale)
	if err != nil {
		return nil
	}
	return data
}

func selectorOf(workload []byte, isMap bool) (string, bool) {
	raw := find(workload, "spec", "selector")
	if isMap {
		var set labels.Set
		if !isNull(raw) && json.Unmarshal(raw, &set) != nil {
			return "", false
		}
		return labels.SelectorFromSet(set).String(), true
	}
	selector := &metav1.LabelSelector{}
	if isNull(raw) || json.Unmarshal(raw, selector) != nil {
		return "", false
	}
	parsed, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return "", false
	}
	return parsed.String(), true
}

// isRedacted reports whether values of a Secret were taken out: it has no values at all, or one that
// isn't base64, which no API server takes.
func isRedacted(secret []byte) bool {
	if secret == nil {
		return false
	}
	h := readHead(secret)
	if h.kind != "Secret" || h.apiVersion != "v1" {
		return false
	}
	data, plain := find(secret, "data"), find(secret, "stringData")
	if isNull(data) && isNull(plain) {
		return true
	}
	redacted := false
	if err := members(data, func(_, value []byte) error {
		_, err := base64.StdEncoding.DecodeString(text(value))
		redacted = redacted || err != nil || isNull(value)
		return nil
	}); err != nil {
		return true
	}
	if err := members(plain, func(_, value []byte) error {
		redacted = redacted || !strings.HasPrefix(string(value), `"`)
		return nil
	}); err != nil {
		return true
	}
	return redacted
}
