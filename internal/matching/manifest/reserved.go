// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"fmt"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"
)

// CheckReserved returns an error if the request would create an object of the set's kinds with a
// name that is reserved for manifests. A nil Set reserves no names.
//
// With its feature gate ManifestBasedAdmissionControlConfig, Kubernetes' API refuses such names for
// all kinds of manifests; without, it warns, and this is what refuses. Existing objects with such
// names can be changed and deleted.
//
// Source: k8s.io/kubernetes/pkg/apis/admissionregistration/validation#ValidateStaticSuffix bd3e3b4e
func (s *Set) CheckReserved(a admission.Attributes) error {
	kind := a.GetKind().GroupKind()
	if s == nil || a.GetOperation() != admission.Create || a.GetSubresource() != "" ||
		kind.Group != admissionregistrationv1.GroupName || !s.plugin.hasKind(kind.Kind) {
		return nil
	}
	object, err := meta.Accessor(a.GetObject())
	if err != nil || !strings.HasSuffix(object.GetName(), nameSuffix) {
		return nil // the API's validation refuses an object without metadata
	}
	return apierrors.NewInvalid(kind, object.GetName(), field.ErrorList{field.Invalid(
		field.NewPath("metadata", "name"), object.GetName(), fmt.Sprintf("names ending with %q are reserved for "+
			"static manifest-based configurations and cannot be managed via the API", nameSuffix))})
}
