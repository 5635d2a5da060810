// Package podnodeselector is the plugin PodNodeSelector: it ties the pods of a namespace to nodes
// with certain labels.
//
// A namespace has a node selector: labels, written "env=test,zone=b" in one of its annotations or,
// where it has none of them, the cluster's default in the plugin's configuration. An annotation
// that is there but empty is a node selector without labels, which the default doesn't replace.
//
//   - The mutating phase merges it into the node selector of a new pod. A pod that wants another
//     value of a label is refused: it would be scheduled nowhere, or outside of where the
//     namespace's pods belong.
//   - The validating phase refuses that once more, as others may have changed the pod meanwhile.
//     And where the configuration has a whitelist for the namespace, it refuses a pod whose node
//     selector, the merged one, has labels that are not on it. A whitelist without labels allows
//     all.
//
// Only a pod that waits at a scheduling gate can be given more labels by an update, so an update is
// checked if it changes the node selector. Any other passes, whatever has become of the namespace
// since the pod was created: nothing here must keep a pod from ending.
//
// A node selector that can't be read admits nothing that it would be about, rather than everything.
// The configuration is read at the start, and ends it where it is wrong. What is in a namespace's
// annotations is only seen when it is needed.
package podnodeselector

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"

	"gatehouse.dev/chain"
	"gatehouse.dev/chain/podspec"
	"gatehouse.dev/plugins/internal/namespaces"
)

const name = "PodNodeSelector"

var pods = corev1.Resource("pods")

// annotations are where a namespace has its node selector. Kubernetes reads the first; its
// documentation has named all three.
var annotations = []string{
	"scheduler.alpha.kubernetes.io/node-selector",
	"scheduler.kubernetes.io/node-selector",
	"scheduler.kubernetes.io/nodeSelector",
}

// Descriptor is PodNodeSelector, not yet built. It needs a client and informers; its configuration
// has the one field podNodeSelectorPluginConfig.
var Descriptor = chain.Descriptor{
	Name:    name,
	Summary: "Merges the node selector of the namespace into its pods and holds them to a whitelist",
	Phases:  chain.Mutating | chain.Validating,
	New: func(config io.Reader, env *chain.Env) (admission.Interface, error) {
		selectors, err := load(config)
		if err != nil {
			return nil, err
		}
		found, err := namespaces.New(name, env)
		if err != nil {
			return nil, err
		}
		return &plugin{admission.NewHandler(admission.Create, admission.Update), found, namespaces.Derive(annotated),
			selectors}, nil
	},
}

type plugin struct {
	*admission.Handler
	namespaces *namespaces.Namespaces
	annotated  *namespaces.Derived[said]
	selectors  *selectors
}

// said is what a namespace's annotations say.
type said struct {
	selector labels.Set
	// found tells whether it has any.
	found bool
	err   error
}

var (
	_ admission.MutationInterface   = &plugin{}
	_ admission.ValidationInterface = &plugin{}
)

// Admit merges the namespace's node selector into that of a new pod.
func (p *plugin) Admit(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetResource().GroupResource() != pods || a.GetSubresource() != "" || a.GetOperation() != admission.Create {
		return nil
	}
	selector, err := p.ofNamespace(ctx, a)
	if err != nil || len(selector) == 0 {
		return err
	}
	pod, err := podspec.Pod(name, a.GetObject())
	if err != nil {
		return err
	}
	if labels.Conflicts(selector, pod.Spec.NodeSelector) {
		return conflict(a)
	}
	if pod.Spec.NodeSelector == nil {
		pod.Spec.NodeSelector = make(map[string]string, len(selector))
	}
	maps.Copy(pod.Spec.NodeSelector, selector)
	return nil
}

// Validate refuses a node selector that the namespace's or its whitelist doesn't allow.
func (p *plugin) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetResource().GroupResource() != pods || a.GetSubresource() != "" {
		return nil
	}
	if a.GetOperation() == admission.Update {
		if same, err := unchanged(a); same || err != nil {
			return err
		}
	}
	selector, err := p.ofNamespace(ctx, a)
	if err != nil {
		return err
	}
	whitelist := p.selectors.whitelists[a.GetNamespace()]
	if len(selector) == 0 && len(whitelist) == 0 {
		return nil
	}
	pod, err := podspec.Pod(name, a.GetObject())
	if err != nil {
		return err
	}
	if labels.Conflicts(selector, pod.Spec.NodeSelector) {
		return conflict(a)
	}
	if !allowed(pod.Spec.NodeSelector, whitelist) {
		return admission.NewForbidden(a,
			errors.New("pod node label selector labels conflict with its namespace whitelist"))
	}
	return nil
}

func conflict(a admission.Attributes) error {
	return admission.NewForbidden(a,
		errors.New("pod node label selector conflicts with its namespace node label selector"))
}

// unchanged tells whether an update leaves the pod's node selector as it is.
func unchanged(a admission.Attributes) (bool, error) {
	pod, err := podspec.Pod(name, a.GetObject())
	if err != nil {
		return false, err
	}
	old, err := podspec.Pod(name, a.GetOldObject())
	if err != nil {
		return false, err
	}
	return maps.Equal(pod.Spec.NodeSelector, old.Spec.NodeSelector), nil
}

// allowed tells whether all labels of a pod's node selector are on the whitelist.
func allowed(selector, whitelist labels.Set) bool {
	if len(whitelist) == 0 {
		return true
	}
	for key, value := range selector {
		if want, ok := whitelist[key]; !ok || want != value {
			return false
		}
	}
	return true
}

// ofNamespace is the node selector of the request's namespace.
func (p *plugin) ofNamespace(ctx context.Context, a admission.Attributes) (labels.Set, error) {
	namespace, err := p.namespaces.Of(ctx, a)
	if err != nil {
		return nil, err
	}
	said := p.annotated.Of(namespace)
	if said.err != nil {
		return nil, admission.NewForbidden(a, said.err)
	}
	if !said.found {
		return p.selectors.clusterDefault, nil
	}
	return said.selector, nil
}

// annotated is the node selector that a namespace's annotations say, all of them together.
func annotated(namespace *corev1.Namespace) (all said) {
	for _, annotation := range annotations {
		text, ok := namespace.Annotations[annotation]
		if !ok {
			continue
		}
		one, err := parse(text, field.NewPath("metadata", "annotations").Key(annotation))
		if err != nil {
			all.err = fmt.Errorf("the node selector of namespace %s can't be read: %w", namespace.Name, err)
			return all
		}
		if labels.Conflicts(all.selector, one) {
			all.err = fmt.Errorf("%s annotations' node label selectors conflict", namespace.Name)
			return all
		}
		if !all.found {
			all.selector, all.found = one, true
			continue
		}
		all.selector = labels.Merge(all.selector, one)
	}
	return all
}

// parse reads labels as "env=test,zone=b". The error names the field and the value.
func parse(text string, path *field.Path) (labels.Set, *field.Error) {
	selector, err := labels.ConvertSelectorToLabelsMap(text, field.WithPath(path))
	var invalid *field.Error
	switch {
	case err == nil:
		return selector, nil
	case errors.As(err, &invalid):
		return nil, invalid
	default:
		return nil, field.Invalid(path, text, err.Error())
	}
}
