// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package objects converts the object, or old object, of a request for plugins that handle one
// kind.
package objects

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
)

// As returns the object, or old object, of a request as its Go type. It refuses any other object,
// which no API server sends, as a bad request in the name of the plugin.
func As[T runtime.Object](plugin string, a admission.Attributes, object runtime.Object) (T, error) {
	typed, ok := object.(T)
	if !ok {
		return typed, apierrors.NewBadRequest(fmt.Sprintf("%s: the object of a request for %s is a %T", plugin,
			a.GetResource().Resource, object))
	}
	return typed, nil
}
