// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"context"
	"fmt"
	"strings"

	apimachineryvalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	corevalidation "k8s.io/kubernetes/pkg/apis/core/validation"
	"k8s.io/kubernetes/pkg/printers"
	printerstorage "k8s.io/kubernetes/pkg/printers/storage"

	policyv1beta1 "gatehouse.dev/removed/apis/policy/v1beta1"
)

func podSecurityPolicyStore() *genericregistry.Store {
	s := podSecurityPolicyStrategy{newStrategy()}
	return &genericregistry.Store{
		NewFunc:                   func() runtime.Object { return &policyv1beta1.PodSecurityPolicy{} },
		NewListFunc:               func() runtime.Object { return &policyv1beta1.PodSecurityPolicyList{} },
		DefaultQualifiedResource:  policyv1beta1.PodSecurityPolicies.GroupResource(),
		SingularQualifiedResource: policyv1beta1.SchemeGroupVersion.WithResource("podsecuritypolicy").GroupResource(),
		CreateStrategy:            s,
		UpdateStrategy:            s,
		DeleteStrategy:            s,
		ReturnDeletedObject:       true,
		TableConvertor: printerstorage.TableConvertor{TableGenerator: printers.NewTableGenerator().With(
			addPodSecurityPolicyTable)},
	}
}

type podSecurityPolicyStorage struct{ *genericregistry.Store }

// ShortNames implements rest.ShortNamesProvider.
func (podSecurityPolicyStorage) ShortNames() []string { return []string{"psp"} }

type podSecurityPolicyStrategy struct{ strategy }

func (podSecurityPolicyStrategy) NamespaceScoped() bool { return false }

func (podSecurityPolicyStrategy) PrepareForCreate(context.Context, runtime.Object) {}

func (podSecurityPolicyStrategy) PrepareForUpdate(context.Context, runtime.Object, runtime.Object) {}

func (podSecurityPolicyStrategy) Validate(_ context.Context, obj runtime.Object) field.ErrorList {
	policy := obj.(*policyv1beta1.PodSecurityPolicy)
	all := corevalidation.ValidateObjectMeta(&policy.ObjectMeta, false, apimachineryvalidation.NameIsDNSSubdomain,
		field.NewPath("metadata"))
	return append(all, validatePodSecurityPolicy(policy)...)
}

func (podSecurityPolicyStrategy) ValidateUpdate(_ context.Context, obj, old runtime.Object) field.ErrorList {
	policy, stored := obj.(*policyv1beta1.PodSecurityPolicy), old.(*policyv1beta1.PodSecurityPolicy)
	all := corevalidation.ValidateObjectMetaUpdate(&policy.ObjectMeta, &stored.ObjectMeta, field.NewPath("metadata"))
	return append(all, validatePodSecurityPolicy(policy)...)
}

// defaultPodSecurityPolicy allows privilege escalation if the policy doesn't mention it: the
// field came later than the kind.
func defaultPodSecurityPolicy(policy *policyv1beta1.PodSecurityPolicy) {
	if policy.Spec.AllowPrivilegeEscalation == nil {
		allow := true
		policy.Spec.AllowPrivilegeEscalation = &allow
	}
}

// addPodSecurityPolicyTable adds what kubectl get shows.
func addPodSecurityPolicyTable(h printers.PrintHandler) {
	columns := []metav1.TableColumnDefinition{
		{Name: "Name", Type: "string", Format: "name", Description: metav1.ObjectMeta{}.SwaggerDoc()["name"]},
		{Name: "Priv", Type: "string", Description: "Whether privileged containers are allowed."},
		{Name: "Caps", Type: "string", Description: "The capabilities that containers may add."},
		{Name: "SELinux", Type: "string", Description: "The rule for SELinux labels."},
		{Name: "RunAsUser", Type: "string", Description: "The rule for the users of containers."},
		{Name: "FsGroup", Type: "string", Description: "The rule for the group of volumes."},
		{Name: "SupGroup", Type: "string", Description: "The rule for supplemental groups."},
		{Name: "ReadOnlyRootFs", Type: "string", Description: "Whether root file systems must be read-only."},
		{Name: "Volumes", Type: "string", Description: "The types of volumes that pods may have."},
	}
	row := func(policy *policyv1beta1.PodSecurityPolicy) metav1.TableRow {
		spec := policy.Spec
		return metav1.TableRow{
			Object: runtime.RawExtension{Object: policy},
			Cells: []any{
				policy.Name, fmt.Sprint(spec.Privileged), join(spec.AllowedCapabilities), string(spec.SELinux.Rule),
				string(spec.RunAsUser.Rule),
				string(spec.FSGroup.Rule), string(spec.SupplementalGroups.Rule),
				fmt.Sprint(spec.ReadOnlyRootFilesystem), join(spec.Volumes),
			},
		}
	}
	utilruntime.Must(h.TableHandler(columns,
		func(policy *policyv1beta1.PodSecurityPolicy, _ printers.GenerateOptions) ([]metav1.TableRow, error) {
			return []metav1.TableRow{row(policy)}, nil
		}))
	utilruntime.Must(h.TableHandler(columns,
		func(list *policyv1beta1.PodSecurityPolicyList, _ printers.GenerateOptions) ([]metav1.TableRow, error) {
			rows := make([]metav1.TableRow, 0, len(list.Items))
			for i := range list.Items {
				rows = append(rows, row(&list.Items[i]))
			}
			return rows, nil
		}))
}

func join[S ~string](all []S) string {
	var texts []string
	for _, one := range all {
		texts = append(texts, string(one))
	}
	return strings.Join(texts, ",")
}
