// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"
)

// nameSuffix is the suffix of the names of all manifests. No object of the API has it.
const nameSuffix = ".static.k8s.io"

var decoder = func() runtime.Decoder {
	scheme := runtime.NewScheme()
	utilruntime.Must(admissionregistrationv1.AddToScheme(scheme))
	scheme.AddUnversionedTypes(metav1.SchemeGroupVersion, &metav1.List{})
	return serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
}()

// decodeAll returns the objects of all files in the order of their names, with defaults. Its error
// names everything that is wrong with them.
func decodeAll(plugin *Plugin, validate validateFunc, files []file) ([]Object, error) {
	d := decoding{plugin: plugin, validate: validate, fileOf: map[objectKey]string{}}
	var errs []error
	for _, f := range files {
		documents, err := f.documents()
		if err != nil {
			errs = append(errs, fmt.Errorf("failed to split YAML documents in file %q: %w", f.path, err))
		}
		for _, document := range documents {
			if err := d.addDocument(f.path, document); err != nil {
				errs = append(errs, fmt.Errorf("error loading %s: %w", f.path, err))
			}
		}
	}
	if len(errs) == 0 {
		errs = d.findUnboundBindings()
	}
	if err := utilerrors.NewAggregate(errs); err != nil {
		return nil, err
	}
	slices.SortFunc(d.objects, func(a, b Object) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return d.objects, nil
}

// decoding holds the objects of a directory read so far.
type decoding struct {
	plugin   *Plugin
	objects  []Object
	fileOf   map[objectKey]string
	validate validateFunc
}

// validateFunc sets the defaults of an object, and returns what the API would refuse of it.
type validateFunc = func(runtime.Object) field.ErrorList

type objectKey struct{ kind, name string }

// addDocument adds the objects of one document, which may be an element of a List.
func (d *decoding) addDocument(path string, document []byte) error {
	object, kind, err := decoder.Decode(document, nil, nil)
	if runtime.IsNotRegisteredError(err) {
		// The decoder's error names a scheme, which means nothing to the author of the file.
		var is metav1.TypeMeta
		if yaml.Unmarshal(document, &is) == nil {
			return d.unsupportedError(is.APIVersion, is.Kind)
		}
	}
	if err != nil {
		return err
	}
	if list, ok := object.(*metav1.List); ok {
		return forEach(list.Items, func(item runtime.RawExtension) error { return d.addDocument(path, item.Raw) })
	}
	if element, ok := strings.CutSuffix(kind.Kind, "List"); ok && d.plugin.hasKind(element) {
		elements, err := meta.ExtractList(object)
		if err != nil {
			return err
		}
		return forEach(elements, func(element runtime.Object) error { return d.add(path, element.(Object)) })
	}
	if !d.plugin.hasKind(kind.Kind) {
		return d.unsupportedError(kind.ToAPIVersionAndKind())
	}
	return d.add(path, object.(Object))
}

// forEach calls do for each element of a list and returns all errors, with the positions of the
// elements.
func forEach[E any](list []E, do func(E) error) error {
	var errs []error
	for i, element := range list {
		if err := do(element); err != nil {
			errs = append(errs, fmt.Errorf("items[%d]: %w", i, err))
		}
	}
	return utilerrors.NewAggregate(errs)
}

// add adds one object.
func (d *decoding) add(path string, object Object) error {
	// Objects in informers have no kind set, either.
	object.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	errs := d.validate(object)
	key := objectKey{KindOf(object), object.GetName()}
	if len(errs) > 0 {
		return fmt.Errorf("%s %q: %w", key.kind, key.name, errs.ToAggregate())
	}
	switch first, seen := d.fileOf[key]; {
	case !strings.HasSuffix(key.name, nameSuffix):
		return fmt.Errorf("%q in file %q must have a name ending with %q", key.name, path, nameSuffix)
	case seen:
		return fmt.Errorf("duplicate name %q found in file %q (previously seen in %q)", key.name, path, first)
	}
	if err := checkStatic(object); err != nil {
		return err
	}
	d.fileOf[key] = path
	d.objects = append(d.objects, object)
	return nil
}

// findUnboundBindings returns an error for each binding whose policy isn't in the directory.
func (d *decoding) findUnboundBindings() (errs []error) {
	for _, object := range d.objects {
		policy, ok := boundPolicyName(object)
		if !ok {
			continue
		}
		if _, found := d.fileOf[objectKey{d.plugin.kinds[0], policy}]; !found {
			errs = append(errs,
				fmt.Errorf("binding %q references policy %q which does not exist in the manifest directory",
					object.GetName(), policy))
		}
	}
	return errs
}

func (d *decoding) unsupportedError(apiVersion, kind string) error {
	return fmt.Errorf("unsupported resource type %s in %s: the manifests of %s are %s, lists of them, or a v1 List, "+
		"in %s", kind, apiVersion, d.plugin.name(), d.plugin, admissionregistrationv1.SchemeGroupVersion)
}
