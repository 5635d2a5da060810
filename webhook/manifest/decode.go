package manifest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"sigs.k8s.io/yaml"

	"gatehouse.dev/expression"
)

// nameSuffix ends the names of all configurations that are manifests, and of none of the API.
const nameSuffix = ".static.k8s.io"

var decoder = func() runtime.Decoder {
	scheme := runtime.NewScheme()
	utilruntime.Must(admissionregistrationv1.AddToScheme(scheme))
	scheme.AddUnversionedTypes(metav1.SchemeGroupVersion, &metav1.List{})
	return serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
}()

// decodeAll returns the configurations of all files, by name, with defaults; or all that is wrong
// with them.
func decodeAll[T Configuration](files []file) ([]T, error) {
	d := decoding[T]{compiler: expression.NewCompiler(), fileOf: map[string]string{}}
	var errs []error
	for _, f := range files {
		documents, err := f.documents()
		if err != nil {
			errs = append(errs, fmt.Errorf("failed to split YAML documents in file %q: %w", f.path, err))
		}
		for _, document := range documents {
			if err := d.document(f.path, document); err != nil {
				errs = append(errs, fmt.Errorf("error loading %s: %w", f.path, err))
			}
		}
	}
	if err := utilerrors.NewAggregate(errs); err != nil {
		return nil, err
	}
	slices.SortFunc(d.configurations, func(a, b T) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return d.configurations, nil
}

// decoding is what has been read of a directory.
type decoding[T Configuration] struct {
	configurations []T
	fileOf         map[string]string // by the configuration's name
	compiler       *expression.Compiler
}

// document adds the configurations of one document, which may be a List's element.
func (d *decoding[T]) document(path string, document []byte) error {
	object, kind, err := decoder.Decode(document, nil, nil)
	if runtime.IsNotRegisteredError(err) {
		// The error names the scheme, which tells nothing to whoever wrote the file.
		var is metav1.TypeMeta
		if yaml.Unmarshal(document, &is) == nil {
			return unsupported[T](is.APIVersion, is.Kind)
		}
	}
	if err != nil {
		return err
	}
	if list, ok := object.(*metav1.List); ok {
		return each(list.Items, func(item runtime.RawExtension) error { return d.document(path, item.Raw) })
	}
	if configuration, ok := object.(T); ok {
		return d.add(path, configuration)
	}
	configurations, ok := elements[T](object)
	if !ok {
		return unsupported[T](kind.ToAPIVersionAndKind())
	}
	return each(configurations, func(c T) error { return d.add(path, c) })
}

// each calls do for all elements of a list and returns all errors, with the elements' positions.
func each[E any](list []E, do func(E) error) error {
	var errs []error
	for i, element := range list {
		if err := do(element); err != nil {
			errs = append(errs, fmt.Errorf("items[%d]: %w", i, err))
		}
	}
	return utilerrors.NewAggregate(errs)
}

// elements are the elements of list, false where it isn't a list of T.
func elements[T Configuration](list runtime.Object) ([]T, bool) {
	switch list := list.(type) {
	case *admissionregistrationv1.MutatingWebhookConfigurationList:
		return pointers[T](list.Items)
	case *admissionregistrationv1.ValidatingWebhookConfigurationList:
		return pointers[T](list.Items)
	default:
		return nil, false
	}
}

func pointers[T Configuration, E any](elements []E) (pointers []T, ok bool) {
	if _, ok := any(new(E)).(T); !ok {
		return nil, false
	}
	for i := range elements {
		pointers = append(pointers, any(&elements[i]).(T))
	}
	return pointers, true
}

// add adds one configuration.
func (d *decoding[T]) add(path string, c T) error {
	// as those have none that informers hold
	c.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	setDefaults(c)
	name := c.GetName()
	if errs := validate(c, d.compiler); len(errs) > 0 {
		return fmt.Errorf("%s %q: %w", kindOf[T](), name, errs.ToAggregate())
	}
	switch first, seen := d.fileOf[name]; {
	case !strings.HasSuffix(name, nameSuffix):
		return fmt.Errorf("%q in file %q must have a name ending with %q", name, path, nameSuffix)
	case seen:
		return fmt.Errorf("duplicate name %q found in file %q (previously seen in %q)", name, path, first)
	}
	d.fileOf[name] = path
	d.configurations = append(d.configurations, c)
	return nil
}

func unsupported[T Configuration](apiVersion, kind string) error {
	return fmt.Errorf("unsupported resource type %s in %s: the manifests of %s are %s, lists of them, or a v1 List, "+
		"in %s",
		kind, apiVersion, pluginOf[T](), kindOf[T](), admissionregistrationv1.SchemeGroupVersion)
}

// kindOf is the kind of T.
func kindOf[T Configuration]() string {
	if _, ok := any(*new(T)).(*admissionregistrationv1.MutatingWebhookConfiguration); ok {
		return "MutatingWebhookConfiguration"
	}
	return "ValidatingWebhookConfiguration"
}

// pluginOf is the plugin that T configures.
func pluginOf[T Configuration]() string {
	return strings.Replace(kindOf[T](), "WebhookConfiguration", "AdmissionWebhook", 1)
}
