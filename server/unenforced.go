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

	"gatehouse.dev/apiserver"
	"gatehouse.dev/chain"
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

// unenforcedChain is a chain that warns clients who write objects that only its disabled plugins
// enforce.
type unenforcedChain struct {
	*chain.Chain
	about map[schema.GroupResource][]unenforcedWarning
}

// withWarnings returns c with warnings about objects that a plugin of all enforces, and none of the
// selected.
func withWarnings(c *chain.Chain, all, selected []plugin.Descriptor) apiserver.Admission {
	about := unenforcedWarnings(all, selected)
	if len(about) == 0 {
		return c
	}
	return &unenforcedChain{c, about}
}

// unenforcedWarnings returns the warnings by resource.
func unenforcedWarnings(all, selected []plugin.Descriptor) map[schema.GroupResource][]unenforcedWarning {
	found := map[schema.GroupResource][]unenforcedWarning{}
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

// Handles implements admission.Interface.
func (w *unenforcedChain) Handles(operation admission.Operation) bool {
	return operation == admission.Create || operation == admission.Update || w.Chain.Handles(operation)
}

// Validate implements admission.ValidationInterface.
func (w *unenforcedChain) Validate(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	if err := w.Chain.Validate(ctx, a, o); err != nil || a.GetSubresource() != "" {
		return err
	}
	for _, unenforced := range w.about[a.GetResource().GroupResource()] {
		if a.GetObject() != nil && hasLabel(a, unenforced.labels) {
			warning.AddWarning(ctx, "", unenforced.text)
		}
	}
	return nil
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
