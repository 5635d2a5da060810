// Package objects is for plugins that look at one kind: the object, or old object, of a request.
package objects

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
)

// As is the object, or old object, of a request as its Go type. Whatever else it may be, which no
// API server sends, is refused as a bad request, in the name of the plugin.
func As[T runtime.Object](plugin string, a admission.Attributes, object runtime.Object) (T, error) {
	typed, ok := object.(T)
	if !ok {
		return typed, apierrors.NewBadRequest(fmt.Sprintf("%s: the object of a request for %s is a %T", plugin,
			a.GetResource().Resource, object))
	}
	return typed, nil
}
