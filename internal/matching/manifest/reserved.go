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

// Reserved returns the refusal of a request that would create an object of the set's kinds under a
// name that is reserved for manifests. It returns nil of all others, and of all if there is no set.
//
// Kubernetes refuses them with its feature gate ManifestBasedAdmissionControlConfig, and warns
// without it. What has such a name already may be changed and deleted.
//
// Source: ValidateStaticSuffix in k8s.io/kubernetes/pkg/apis/admissionregistration/validation.
func (s *Set) Reserved(a admission.Attributes) error {
	kind := a.GetKind().GroupKind()
	if s == nil || a.GetOperation() != admission.Create || a.GetSubresource() != "" ||
		kind.Group != admissionregistrationv1.GroupName || !s.plugin.has(kind.Kind) {
		return nil
	}
	object, err := meta.Accessor(a.GetObject())
	if err != nil || !strings.HasSuffix(object.GetName(), nameSuffix) {
		return nil // the API has an object without metadata validated
	}
	return apierrors.NewInvalid(kind, object.GetName(), field.ErrorList{field.Invalid(
		field.NewPath("metadata", "name"), object.GetName(), fmt.Sprintf("names ending with %q are reserved for "+
			"static manifest-based configurations and cannot be managed via the API", nameSuffix))})
}
