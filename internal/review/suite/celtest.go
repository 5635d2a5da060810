// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	kjson "sigs.k8s.io/json"

	"gatehouse.dev/internal/review/input"
)

// admissionInput is an input file of celtest, Kubernetes' own tester of policies. It has the fields of
// admissionInputFile in k8s.io/apiserver/pkg/admission/testing/celtest/parse.go, which Kubernetes has since 1.38.
type admissionInput struct {
	Object          map[string]any                `json:"object"`
	OldObject       map[string]any                `json:"oldObject"`
	Params          map[string]any                `json:"params"`
	Request         *admissionv1.AdmissionRequest `json:"request"`
	Namespace       map[string]any                `json:"namespace"`
	NamespaceObject map[string]any                `json:"namespaceObject"`
}

// readInput reads an input file of celtest, as it is written.
func (r *reader) readInput(n *yaml.Node, path, name string) *unstructured.Unstructured {
	data, err := content(context.Background(), name, r.within)
	var document, second yaml.Node
	documents := yaml.NewDecoder(bytes.NewReader(data))
	switch {
	case err != nil:
		err = withoutPath(err)
	case len(data) > maxFile:
		err = fmt.Errorf("larger than %d MiB", maxFile>>20)
	default:
		if err = documents.Decode(&document); err == nil && !errors.Is(documents.Decode(&second), io.EOF) {
			err = errors.New("it has more than one document, and an input is one")
		}
	}
	if err != nil {
		r.addFileError(n, path, fmt.Errorf("%s: %w", name, err))
		return nil
	}
	own := r.file
	defer func() { r.file = own }()
	r.file = name
	return &unstructured.Unstructured{Object: r.mapping(document.Content[0], "the input")}
}

// convertInput makes an AdmissionReview, which the server is asked, of the celtest input that is the case's object. Its
// namespace and its params become objects of the case's state. It returns an error that names the field if the server
// can't be given what the input says.
func (c *caseRow) convertInput() error {
	var in admissionInput
	data, err := json.Marshal(c.Object.Object)
	if err != nil {
		return err
	}
	strict, err := kjson.UnmarshalStrict(data, &in)
	if err := cmp.Or(err, errors.Join(strict...)); err != nil {
		return err
	}
	if c.Operation != "" || c.Subresource != "" || c.As != nil {
		return errors.New("operation, subresource and as can't be given besides: the file has them as request.operation, " +
			"request.subResource and request.userInfo")
	}
	q := cmp.Or(in.Request, &admissionv1.AdmissionRequest{})
	for _, step := range []func(*admissionv1.AdmissionRequest) error{checkRequest, in.resolveKind, resolveResource,
		in.resolveOperation, resolveOptions, in.resolveNames, in.resolveState} {
		if err := step(q); err != nil {
			return err
		}
	}
	for _, o := range in.objects() {
		map[string]*runtime.RawExtension{"object": &q.Object, "oldObject": &q.OldObject}[o.name].Object = o
	}
	request, err := runtime.DefaultUnstructuredConverter.ToUnstructured(q)
	if err != nil {
		return err
	}
	c.Object = &unstructured.Unstructured{Object: map[string]any{"apiVersion": admissionv1.SchemeGroupVersion.String(),
		"kind": "AdmissionReview", "request": request}}
	c.State = slices.Clip(c.State)
	for _, object := range []map[string]any{in.Namespace, in.Params} {
		if object != nil {
			c.State = append(c.State, input.Document{Source: input.Source{File: c.input},
				Object: &unstructured.Unstructured{Object: object}})
		}
	}
	if in.Params != nil {
		c.Params = &unstructured.Unstructured{Object: in.Params}
	}
	return nil
}

// checkRequest returns an error about a field of the request that the server computes itself, or doesn't take.
func checkRequest(q *admissionv1.AdmissionRequest) error {
	user := &q.UserInfo
	switch {
	case q.UID != "":
		return fmt.Errorf("request.uid: %q: the server gives each request its own: remove it", q.UID)
	case len(q.Object.Raw) > 0:
		return errors.New("request.object: celtest doesn't read it: use object")
	case len(q.OldObject.Raw) > 0:
		return errors.New("request.oldObject: celtest doesn't read it: use oldObject")
	case user.Username == "" && (user.UID != "" || user.Groups != nil || user.Extra != nil):
		return errors.New("request.userInfo.username: Required value: a user of the server has a name")
	}
	for key := range user.Extra {
		if key != strings.ToLower(key) {
			return fmt.Errorf("request.userInfo.extra: %q: keys of the server's users are in lower case", key)
		}
	}
	return nil
}

// A namedObject is an object of an input, with the name of its field.
type namedObject struct {
	name string
	*unstructured.Unstructured
}

// objects returns the object and the old object, without one that isn't there.
func (in *admissionInput) objects() []namedObject {
	return slices.DeleteFunc([]namedObject{{"object", &unstructured.Unstructured{Object: in.Object}},
		{"oldObject", &unstructured.Unstructured{Object: in.OldObject}}},
		func(o namedObject) bool { return o.Object == nil })
}

// merge sets a value to that of the field that says what the client asked for. If both are given, they must be the
// same.
func merge[T comparable](value *T, field string, asked T) error {
	var none T
	if asked != none && *value != none && asked != *value {
		return fmt.Errorf("request.%s: it is %v, and must be %v: the server gets one, and converts objects itself", field,
			asked, *value)
	}
	if *value == none {
		*value = asked
	}
	return nil
}

// resolveKind sets the kind of the request and of its objects, which may be written with any of them.
func (in *admissionInput) resolveKind(q *admissionv1.AdmissionRequest) error {
	if err := merge(&q.Kind, "requestKind", ptr.Deref(q.RequestKind, q.Kind)); err != nil {
		return err
	}
	for _, o := range in.objects() {
		if q.Kind == (metav1.GroupVersionKind{}) {
			q.Kind = metav1.GroupVersionKind(o.GroupVersionKind())
		}
	}
	if q.Kind.Version == "" || q.Kind.Kind == "" {
		return errors.New("object: apiVersion and kind must be set, or request.kind with version and kind")
	}
	for _, o := range in.objects() {
		if o.GetAPIVersion() == "" && o.GetKind() == "" {
			o.SetGroupVersionKind(schema.GroupVersionKind(q.Kind))
		}
		if own := metav1.GroupVersionKind(o.GroupVersionKind()); own != q.Kind {
			return fmt.Errorf("%s: it is a %v, and must be a %v as the request says", o.name, own, q.Kind)
		}
	}
	return nil
}

// resolveResource sets the resource of the request, which may be left out, and the subresource.
func resolveResource(q *admissionv1.AdmissionRequest) error {
	resource, kind := schema.GroupVersionResource(q.Resource), schema.GroupVersionKind(q.Kind)
	asked := schema.GroupVersionResource(ptr.Deref(q.RequestResource, q.Resource))
	if err := merge(&resource, "requestResource", asked); err != nil {
		return err
	}
	if err := merge(&q.SubResource, "requestSubResource", q.RequestSubResource); err != nil {
		return err
	}
	switch {
	case resource.Empty() && q.SubResource != "":
		return errors.New("request.resource: Required value with request.subResource")
	case resource.Empty(): // the server knows it
	case q.SubResource == "" && resource.GroupVersion() != kind.GroupVersion():
		return fmt.Errorf("request.resource: %v: its group and version must be those of the kind, %v", resource, kind)
	}
	q.Resource = metav1.GroupVersionResource(resource)
	return nil
}

// resolveOperation sets the operation, by default by the objects that are there. It returns an error if the server
// has other ones for it.
func (in *admissionInput) resolveOperation(q *admissionv1.AdmissionRequest) error {
	switch {
	case q.Operation != "":
	case in.OldObject == nil:
		q.Operation = admissionv1.Create
	case in.Object == nil:
		q.Operation = admissionv1.Delete
	default:
		q.Operation = admissionv1.Update
	}
	wants := map[admissionv1.Operation][2]bool{admissionv1.Create: {true, false}, admissionv1.Update: {true, true},
		admissionv1.Delete: {false, true}, admissionv1.Connect: {true, false}}
	want, ok := wants[q.Operation]
	if !ok {
		return fmt.Errorf("request.operation: unknown value %q: it is one of CREATE, UPDATE, DELETE, CONNECT", q.Operation)
	}
	if q.Operation == admissionv1.Update && q.SubResource != "" && q.Kind.Kind == "Scale" {
		want[1] = false // the server makes it of the object that is scaled
	}
	for i, has := range [2]bool{in.Object != nil, in.OldObject != nil} {
		name := [2]string{"object", "oldObject"}[i]
		switch {
		case has && !want[i]:
			return fmt.Errorf("%s: it can't be given to the server for %s of a %s: remove it", name, q.Operation, q.Kind.Kind)
		case want[i] && !has:
			return fmt.Errorf("%s: Required value for %s", name, q.Operation)
		}
	}
	return nil
}

// resolveOptions sets the options that the server is given. Fields that the object's kind doesn't have are errors by
// default, as in other cases.
func resolveOptions(q *admissionv1.AdmissionRequest) (err error) {
	options, allowed := map[string]any{}, []string{"fieldManager", "fieldValidation"}
	if len(q.Options.Raw) > 0 {
		if err := json.Unmarshal(q.Options.Raw, &options); err != nil {
			return fmt.Errorf("request.options: %w", err)
		}
	}
	switch q.Operation {
	case admissionv1.Connect:
		if len(options) > 0 || q.DryRun != nil {
			return errors.New("request.options, request.dryRun: they can't be given to the server for CONNECT: remove them")
		}
		return nil
	case admissionv1.Delete:
		allowed = []string{"gracePeriodSeconds", "propagationPolicy"}
	}
	kind := string(q.Operation[:1]) + strings.ToLower(string(q.Operation[1:])) + "Options"
	for name, value := range options {
		switch {
		case name == "kind" && value == kind, name == "apiVersion" && (value == "v1" || value == "meta.k8s.io/v1"),
			slices.Contains(allowed, name):
		default:
			return fmt.Errorf("request.options.%s: %v: it can't be given to the server for %s, which takes a %s with %s. "+
				"A dry run is request.dryRun", name, value, q.Operation, kind, strings.Join(allowed, " and "))
		}
	}
	if q.Operation != admissionv1.Delete && options["fieldValidation"] == nil {
		options["fieldValidation"] = metav1.FieldValidationStrict
	}
	q.Options.Raw, err = json.Marshal(options)
	return err
}

// resolveNames sets the name and the namespace of the request, and the namespace of its objects. All that are given
// must be the same.
func (in *admissionInput) resolveNames(q *admissionv1.AdmissionRequest) error {
	ofNamespace := q.Kind == metav1.GroupVersionKind{Version: "v1", Kind: "Namespace"}
	switch {
	case in.Namespace != nil && in.NamespaceObject != nil:
		return errors.New("namespace, namespaceObject: only one can be given")
	case in.Namespace == nil:
		in.Namespace = in.NamespaceObject
	}
	if in.Namespace != nil && ofNamespace {
		return errors.New("namespace: a server has no namespace object for a Namespace: remove it")
	}
	objects := in.objects()
	if q.Operation == admissionv1.Connect {
		objects = nil // it is the options of a connection
	}
	for _, o := range objects {
		q.Name, q.Namespace = cmp.Or(q.Name, o.GetName()), cmp.Or(q.Namespace, o.GetNamespace())
	}
	namespace := unstructured.Unstructured{Object: in.Namespace}
	q.Namespace = cmp.Or(q.Namespace, namespace.GetName())
	for _, o := range objects {
		switch {
		case o.GetName() != q.Name && (o.GetName() != "" || q.SubResource == ""):
			return fmt.Errorf("%s.metadata.name: it is %q, and must be the name of the request, %q", o.name, o.GetName(),
				q.Name)
		case o.GetNamespace() != "" && o.GetNamespace() != q.Namespace:
			return fmt.Errorf("%s.metadata.namespace: it is %q, and must be the namespace of the request, %q", o.name,
				o.GetNamespace(), q.Namespace)
		case q.Namespace != "" && !ofNamespace:
			o.SetNamespace(q.Namespace)
		}
	}
	switch {
	case ofNamespace && q.Namespace != "" && q.Namespace != q.Name:
		return fmt.Errorf("request.namespace: it is %q, and must be the name of the Namespace, %q", q.Namespace, q.Name)
	case q.Name == "" && (q.Operation != admissionv1.Create || q.SubResource != ""):
		return fmt.Errorf("request.name: Required value for %s of a %s", q.Operation, q.Kind.Kind)
	case in.Namespace != nil && (namespace.GetName() == "" || namespace.GetName() != q.Namespace):
		return fmt.Errorf("namespace.metadata.name: it is %q, and must be the namespace of the request, %q",
			namespace.GetName(), q.Namespace)
	}
	return nil
}

// resolveState checks the objects that become state. celtest needs neither their kinds nor the params' name.
func (in *admissionInput) resolveState(*admissionv1.AdmissionRequest) error {
	namespace, params := unstructured.Unstructured{Object: in.Namespace}, unstructured.Unstructured{Object: in.Params}
	if in.Namespace != nil && namespace.GetAPIVersion() == "" && namespace.GetKind() == "" {
		namespace.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "Namespace"})
	}
	switch {
	case in.Namespace != nil && (namespace.GetAPIVersion() != "v1" || namespace.GetKind() != "Namespace"):
		return fmt.Errorf("namespace: it is a %v, and must be a Namespace", namespace.GroupVersionKind())
	case in.Params != nil && (params.GetAPIVersion() == "" || params.GetKind() == "" || params.GetName() == ""):
		return errors.New("params: apiVersion, kind and metadata.name must be set: the server stores them, and a binding's " +
			"paramRef selects them")
	}
	return nil
}
