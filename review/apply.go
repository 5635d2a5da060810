// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"encoding/json"
	"fmt"
	"net/http"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/jsonmergepatch"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/kubernetes/scheme"
)

// lastApplied is the annotation in which `kubectl apply` keeps the manifest that it applied.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// fieldManagers are the names under which kubectl writes, by the operation. The empty one is that of kubectl apply.
//
// Source: k8s.io/kubectl/pkg/cmd/apply/apply.go af45d95c
var fieldManagers = map[Operation]string{"": "kubectl-client-side-apply", Apply: "kubectl", Create: "kubectl-create",
	Update: "kubectl-replace"}

// A key names an object in any version.
type key struct {
	kind            schema.GroupKind
	namespace, name string
}

func (r *Reviewer) keyOf(o *unstructured.Unstructured) key {
	return key{o.GroupVersionKind().GroupKind(), r.namespaceOf(o), o.GetName()}
}

// update makes the call change the stored object as `kubectl apply` does. It sets the manifest's
// fields, and removes fields that only the previous manifest has. Fields that others have set stay,
// such as the volume of a claim, the IP of a service, the selector of a Job. The previous manifest
// is in the state's file, or in kubectl's annotation.
func (c *call) update(object, stored, before *unstructured.Unstructured) error {
	kind := object.GroupVersionKind()
	var original []byte
	if noted := stored.GetAnnotations()[lastApplied]; noted != "" {
		original = []byte(noted)
	} else if before != nil {
		var err error
		if original, err = manifestJSON(before); err != nil {
			return err
		}
	}
	modified, err := manifestJSON(object)
	if err != nil {
		return err
	}
	current, err := stored.MarshalJSON()
	if err != nil {
		return err
	}
	typed, err := scheme.Scheme.New(kind)
	if err != nil { // a custom resource
		c.contentType = string(types.MergePatchType)
		c.raw, err = jsonmergepatch.CreateThreeWayJSONMergePatch(original, modified, current)
	} else {
		var fields strategicpatch.PatchMetaFromStruct
		if fields, err = strategicpatch.NewPatchMetaFromStruct(typed); err != nil {
			return err
		}
		c.contentType = string(types.StrategicMergePatchType)
		c.raw, err = strategicpatch.CreateThreeWayMergePatch(original, modified, current, fields, true)
	}
	if err != nil {
		return fmt.Errorf("merging it with the stored object: %w", err)
	}
	return nil
}

// applyType is the content type of a server-side apply.
const applyType = "application/apply-patch+yaml"

// apply makes the call a server-side apply.
func (c *call) apply() {
	c.verb, c.contentType = http.MethodPatch, applyType
	c.query.Set("fieldManager", fieldManagers[Apply])
	c.query.Set("force", "true")
	c.body.SetManagedFields(nil)
}

// manifestJSON returns an object in JSON, without the fields that only a server sets.
func manifestJSON(object *unstructured.Unstructured) ([]byte, error) {
	object = object.DeepCopy()
	for _, field := range []string{"resourceVersion", "uid", "managedFields", "creationTimestamp"} {
		unstructured.RemoveNestedField(object.Object, "metadata", field)
	}
	return json.Marshal(object.Object)
}
