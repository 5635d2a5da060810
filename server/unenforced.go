// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/warning"

	"gatehouse.dev/plugin"
)

// enforcedByKubernetes are the objects that Kubernetes enforces by admission by default. A program
// may have a list without their plugin; users may store the objects all the same.
var enforcedByKubernetes = []plugin.Enforced{
	{Resource: corev1.Resource("limitranges")},
	{Resource: corev1.Resource("namespaces"), Labels: "pod-security.kubernetes.io/"},
	{Resource: corev1.Resource("resourcequotas")},
	{Resource: admissionregistrationv1.Resource("mutatingadmissionpolicies")},
	{Resource: admissionregistrationv1.Resource("mutatingadmissionpolicybindings")},
	{Resource: admissionregistrationv1.Resource("mutatingwebhookconfigurations")},
	{Resource: admissionregistrationv1.Resource("validatingadmissionpolicies")},
	{Resource: admissionregistrationv1.Resource("validatingadmissionpolicybindings")},
	{Resource: admissionregistrationv1.Resource("validatingwebhookconfigurations")},
}

// unenforcedWarning warns about stored objects that no plugin enforces.
type unenforcedWarning struct {
	labels string // see plugin.Enforced
	text   string
}

// unenforced has the warnings about objects that only disabled plugins enforce, by resource.
type unenforced map[schema.GroupResource][]unenforcedWarning

// newUnenforced returns the warnings about what a plugin of all enforces, and none of the selected.
func newUnenforced(all, selected []plugin.Descriptor) unenforced {
	found := unenforced{}
	seen := map[plugin.Enforced]bool{}
	add := func(enforced plugin.Enforced, why string) {
		if seen[enforced] || slices.ContainsFunc(selected, func(d plugin.Descriptor) bool {
			return slices.Contains(d.Server.Enforces, enforced)
		}) {
			return
		}
		seen[enforced] = true
		what := enforced.Resource.Resource + " are"
		if enforced.Labels != "" {
			what = fmt.Sprintf("labels %s* of %s are", enforced.Labels, enforced.Resource.Resource)
		}
		found[enforced.Resource] = append(found[enforced.Resource],
			unenforcedWarning{enforced.Labels, fmt.Sprintf("%s not enforced: %s", what, why)})
	}
	for _, d := range all {
		for _, enforced := range d.Server.Enforces {
			add(enforced, fmt.Sprintf("admission plugin %s is off (--enable-admission-plugins=%s)", d.Name, d.Name))
		}
	}
	for _, enforced := range enforcedByKubernetes {
		add(enforced, "this server has no admission plugin that does")
	}
	return found
}

// warn warns of what no plugin enforces in the object of a request that was admitted.
func (w unenforced) warn(ctx context.Context, a admission.Attributes) {
	for _, about := range w[a.GetResource().GroupResource()] {
		if hasLabel(a, about.labels) {
			warning.AddWarning(ctx, "", about.text)
		}
	}
}

// hasLabel reports whether a label of a request's object has a key that begins with prefix.
func hasLabel(a admission.Attributes, prefix string) bool {
	if prefix == "" {
		return true
	}
	object, err := meta.Accessor(a.GetObject())
	if err != nil {
		return false
	}
	for key := range object.GetLabels() {
		if strings.HasPrefix(key, prefix) {
			return true
		}
	}
	return false
}
