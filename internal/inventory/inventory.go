// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"errors"
	"fmt"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"gatehouse.dev/internal/expression"
	"gatehouse.dev/internal/review/input"
)

// An Inventory holds the objects of a cluster. It never changes.
type Inventory struct {
	// Complete reports whether the cluster has no other objects of these kinds. Files may leave some out.
	Complete bool
	// Documents are all objects, in order.
	Documents []input.Document
	Webhooks  []*Webhook
	Policies  []*Policy
	Bindings  []*Binding
	// Definitions are the CustomResourceDefinitions.
	Definitions []*Definition
	Workloads   []*Workload
	Services    map[types.NamespacedName]*corev1.Service
	Secrets     map[types.NamespacedName]*corev1.Secret
	Namespaces  map[string]*corev1.Namespace
	// Resources are Kubernetes' own and those of the CustomResourceDefinitions. Equivalents knows which are the same in
	// several groups and versions.
	Resources   []Resource
	Equivalents runtime.EquivalentResourceMapper

	// ready counts the ready endpoints of Services.
	ready map[types.NamespacedName]int
	// hasEndpoints reports whether there are any endpoints of Services among the objects.
	hasEndpoints bool
	compiler     *expression.Compiler
}

// group is the group of webhook configurations, policies and bindings.
const group = admissionregistrationv1.GroupName

// Kinds are the kinds of objects that an Inventory looks at. Of others only the document is kept.
var Kinds = []schema.GroupKind{
	{Group: group, Kind: "MutatingWebhookConfiguration"}, {Group: group, Kind: "ValidatingWebhookConfiguration"},
	{Group: group, Kind: "ValidatingAdmissionPolicy"}, {Group: group, Kind: "ValidatingAdmissionPolicyBinding"},
	{Group: group, Kind: "MutatingAdmissionPolicy"}, {Group: group, Kind: "MutatingAdmissionPolicyBinding"},
	{Kind: "Service"}, {Group: "discovery.k8s.io", Kind: "EndpointSlice"}, {Kind: "Namespace"}, {Kind: "Secret"},
	{Kind: "Pod"}, {Kind: "ReplicationController"}, {Group: "apps", Kind: "Deployment"},
	{Group: "apps", Kind: "ReplicaSet"}, {Group: "apps", Kind: "StatefulSet"}, {Group: "apps", Kind: "DaemonSet"},
	{Group: "batch", Kind: "Job"}, {Group: "batch", Kind: "CronJob"},
	{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"},
}

// ClusterKinds returns the kinds that are read of a cluster: all but Secrets, whose data is never read.
func ClusterKinds() []schema.GroupKind {
	return slices.DeleteFunc(slices.Clone(Kinds), func(k schema.GroupKind) bool { return k.Kind == "Secret" })
}

// New returns the inventory of documents. Objects without a namespace are in namespace. The errors are
// *input.Errors of the objects that can't be decoded.
func New(documents []input.Document, namespace string, complete bool) (*Inventory, []error) {
	i := &Inventory{Complete: complete, Documents: documents, Services: map[types.NamespacedName]*corev1.Service{},
		Secrets: map[types.NamespacedName]*corev1.Secret{}, Namespaces: map[string]*corev1.Namespace{},
		ready:    map[types.NamespacedName]int{},
		compiler: expression.NewCompiler()}
	var errs []error
	for _, d := range documents {
		if !slices.Contains(Kinds, d.Object.GroupVersionKind().GroupKind()) {
			continue
		}
		if err := i.add(d, namespace); err != nil {
			errs = append(errs, &input.Error{Source: d.Source, Object: d.Object,
				Err: fmt.Errorf("%s %s can't be read: %w", d.Object.GetKind(), d.Object.GetName(), err)})
		}
	}
	i.setResources()
	return i, errs
}

// add adds an object of a kind that is looked at.
func (i *Inventory) add(d input.Document, namespace string) error {
	if d.Object.GetNamespace() != "" {
		namespace = d.Object.GetNamespace()
	}
	name := types.NamespacedName{Namespace: namespace, Name: d.Object.GetName()}
	switch kind := d.Object.GroupVersionKind(); kind.Kind {
	case "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration":
		return i.addWebhooks(d)
	case "ValidatingAdmissionPolicy", "MutatingAdmissionPolicy":
		p, err := newPolicy(d, i.Complete)
		if err == nil {
			i.Policies = append(i.Policies, p)
		}
		return err
	case "ValidatingAdmissionPolicyBinding", "MutatingAdmissionPolicyBinding":
		b, err := newBinding(d, i.Complete)
		if err == nil {
			i.Bindings = append(i.Bindings, b)
		}
		return err
	case "CustomResourceDefinition":
		definition, err := newDefinition(d)
		if err == nil {
			i.Definitions = append(i.Definitions, definition)
		}
		return err
	case "Service":
		return decodeInto(d.Object, func(s *corev1.Service) { i.Services[name] = s })
	case "Secret":
		return decodeInto(d.Object, func(s *corev1.Secret) { i.Secrets[name] = s })
	case "Namespace":
		return decodeInto(d.Object, func(n *corev1.Namespace) { i.Namespaces[n.Name] = named(n) })
	case "EndpointSlice":
		return decodeInto(d.Object, func(s *discoveryv1.EndpointSlice) {
			i.hasEndpoints = true
			of := types.NamespacedName{Namespace: namespace, Name: s.Labels[discoveryv1.LabelServiceName]}
			for _, e := range s.Endpoints {
				if r := e.Conditions.Ready; r == nil || *r {
					i.ready[of]++
				}
			}
		})
	}
	return i.addWorkload(d, namespace)
}

// named returns a namespace with the label that every namespace has.
func named(n *corev1.Namespace) *corev1.Namespace {
	labels := map[string]string{corev1.LabelMetadataName: n.Name}
	for key, value := range n.Labels {
		labels[key] = value
	}
	n.Labels = labels
	return n
}

// A Workload is a pod, or an object with a template of pods.
type Workload struct {
	Source          input.Source
	Kind            schema.GroupVersionKind
	Namespace, Name string
	// Labels and Spec are those of its pods.
	Labels map[string]string
	Spec   corev1.PodSpec
	// Replicas is how many pods it has; 1 if that depends on others, such as the nodes.
	Replicas int32
	// Owner is the controller that owns it; nil for none.
	Owner *metav1.OwnerReference
}

// Critical reports whether a cluster can't do without the workload's pods, by their priority.
func (w *Workload) Critical() bool {
	return w.NodeCritical() || w.Spec.PriorityClassName == "system-cluster-critical"
}

// NodeCritical reports whether nodes can't do without the workload's pods, by their priority: those of the
// network, for example.
func (w *Workload) NodeCritical() bool { return w.Spec.PriorityClassName == "system-node-critical" }

// addWorkload adds a pod, or an object with a template of pods.
func (i *Inventory) addWorkload(d input.Document, namespace string) error {
	w := &Workload{Source: d.Source, Kind: d.Object.GroupVersionKind(), Namespace: namespace, Name: d.Object.GetName(),
		Owner: metav1.GetControllerOf(d.Object), Replicas: 1}
	replicas := func(n *int32) {
		if n != nil {
			w.Replicas = *n
		}
	}
	var template *corev1.PodTemplateSpec
	var err error
	switch w.Kind.Kind {
	case "Pod":
		err = decodeInto(d.Object, func(p *corev1.Pod) {
			template = &corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: p.Labels}, Spec: p.Spec}
		})
	case "ReplicationController":
		err = decodeInto(d.Object, func(c *corev1.ReplicationController) {
			template = c.Spec.Template
			replicas(c.Spec.Replicas)
		})
	case "Deployment":
		err = decodeInto(d.Object, func(o *appsv1.Deployment) {
			template = &o.Spec.Template
			replicas(o.Spec.Replicas)
		})
	case "ReplicaSet":
		err = decodeInto(d.Object, func(o *appsv1.ReplicaSet) {
			if o.Spec.Replicas == nil || *o.Spec.Replicas > 0 { // others are left from before a roll-out
				template = &o.Spec.Template
			}
		})
	case "StatefulSet":
		err = decodeInto(d.Object, func(o *appsv1.StatefulSet) {
			template = &o.Spec.Template
			replicas(o.Spec.Replicas)
		})
	case "DaemonSet":
		err = decodeInto(d.Object, func(o *appsv1.DaemonSet) { template = &o.Spec.Template })
	case "Job":
		err = decodeInto(d.Object, func(o *batchv1.Job) { template = &o.Spec.Template })
	case "CronJob":
		err = decodeInto(d.Object, func(o *batchv1.CronJob) { template = &o.Spec.JobTemplate.Spec.Template })
	default:
		return errors.New("unknown kind")
	}
	if template != nil {
		w.Labels, w.Spec = template.Labels, template.Spec
		i.Workloads = append(i.Workloads, w)
	}
	return err
}

// decodeInto decodes an object into a type, and calls use with it.
func decodeInto[T any](object *unstructured.Unstructured, use func(*T)) error {
	var typed T
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &typed); err != nil {
		return err
	}
	use(&typed)
	return nil
}

// decodeStrict is decodeInto for objects whose fields must all be known: a field that is misspelt would go
// unnoticed. Objects that a cluster has stored may have fields of a newer Kubernetes.
func decodeStrict[T any](object *unstructured.Unstructured, stored bool, use func(*T)) error {
	if stored {
		return decodeInto(object, use)
	}
	var typed T
	err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, &typed, true)
	if err != nil {
		return err
	}
	use(&typed)
	return nil
}
