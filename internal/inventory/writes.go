// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"fmt"
	"maps"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
)

// resourceOf returns the resource of a kind in the client's scheme.
func resourceOf(kind schema.GroupVersionKind) schema.GroupVersionResource {
	resource, _ := meta.UnsafeGuessKindToResource(kind)
	if kind.Kind == "Endpoints" {
		resource.Resource = "endpoints"
	}
	return resource
}

// makers are the controllers of Kubernetes that make the pods of a kind.
var makers = map[string]string{"Deployment": "replicaset-controller", "ReplicaSet": "replicaset-controller",
	"StatefulSet": "statefulset-controller", "DaemonSet": "daemon-set-controller", "Job": "job-controller",
	"CronJob": "job-controller", "ReplicationController": "replication-controller"}

// PodCreation returns the creation of a pod of a workload, by the controller that makes it.
func PodCreation(w *Workload) *Write {
	spec, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&w.Spec)
	if err != nil {
		spec = nil // it was decoded from such a map
	}
	write := newWrite(admission.Create, corev1.SchemeGroupVersion.WithKind("Pod"), w.Namespace, w.Name)
	write.What = fmt.Sprintf("the creation of pods of %s %s/%s", w.Kind.Kind, w.Namespace, w.Name)
	write.Labels, write.Spec, write.User = maps.Clone(w.Labels), spec, Administrator()
	if maker := makers[w.Kind.Kind]; maker != "" {
		write.User = ServiceAccount("kube-system", maker)
	}
	return write
}

// newWrite returns a write of a kind in the client's scheme.
func newWrite(operation admission.Operation, kind schema.GroupVersionKind, namespace, name string) *Write {
	return &Write{Operation: operation, Kind: kind, Resource: resourceOf(kind), Namespace: namespace, Name: name,
		User: ServiceAccount("kube-system", "controller")}
}

// healing are the writes in a namespace that bring a broken workload of it back, besides the creation of pods,
// with the user who makes them.
var healing = []struct {
	kind      schema.GroupVersionKind
	operation admission.Operation
	user      user.Info
}{
	{schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}, admission.Update, Administrator()},
	{schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "ReplicaSet"}, admission.Create,
		ServiceAccount("kube-system", "deployment-controller")},
	{schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "DaemonSet"}, admission.Update, Administrator()},
	{schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "StatefulSet"}, admission.Update, Administrator()},
	{schema.GroupVersionKind{Version: "v1", Kind: "Service"}, admission.Update, Administrator()},
	{schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, admission.Update, Administrator()},
	{schema.GroupVersionKind{Version: "v1", Kind: "Secret"}, admission.Update, Administrator()},
	{schema.GroupVersionKind{Version: "v1", Kind: "ServiceAccount"}, admission.Create, Administrator()},
	{schema.GroupVersionKind{Group: "discovery.k8s.io", Version: "v1", Kind: "EndpointSlice"}, admission.Update,
		ServiceAccount("kube-system", "endpointslice-controller")},
}

// AnyNamespace stands for a namespace that has nothing special.
const AnyNamespace = "any"

// place says where a namespace's objects are.
func place(namespace string) string {
	if namespace == AnyNamespace {
		return "any namespace"
	}
	return namespace
}

// Healing returns the writes in a namespace that bring broken workloads back: of Deployments and what they
// make, Services and endpoints, and what pods read. The creation of pods is not among them.
func Healing(namespace string) (writes []*Write) {
	for _, h := range healing {
		w := newWrite(h.operation, h.kind, namespace, "any")
		w.User = h.user
		word := map[admission.Operation]string{admission.Create: "creation", admission.Update: "update"}[h.operation]
		w.What = fmt.Sprintf("the %s of %s in %s", word, w.Resource.Resource, place(namespace))
		writes = append(writes, w)
	}
	return writes
}

// AnyPod returns the creation of a pod without labels in a namespace.
func AnyPod(namespace string) *Write {
	w := newWrite(admission.Create, corev1.SchemeGroupVersion.WithKind("Pod"), namespace, "any")
	w.What = "the creation of pods in " + place(namespace)
	w.User = ServiceAccount("kube-system", "replicaset-controller")
	return w
}

// aNode is the user that a node is.
var aNode = &user.DefaultInfo{Name: "system:node:node", Groups: []string{"system:nodes", "system:authenticated"}}

// NodeLeases returns the renewal of a node's Lease, and of that by which controllers elect their leader.
func NodeLeases() []*Write {
	kind := schema.GroupVersionKind{Group: "coordination.k8s.io", Version: "v1", Kind: "Lease"}
	node := newWrite(admission.Update, kind, corev1.NamespaceNodeLease, "node")
	node.What, node.User = "the renewal of nodes' leases", aNode
	elected := newWrite(admission.Update, kind, "kube-system", "kube-controller-manager")
	elected.What, elected.User = "the renewal of the lease that the controller manager holds",
		&user.DefaultInfo{Name: "system:kube-controller-manager", Groups: []string{"system:authenticated"}}
	return []*Write{node, elected}
}

// Nodes returns the registration of a node, and the update of its status.
func Nodes() []*Write {
	kind := corev1.SchemeGroupVersion.WithKind("Node")
	create, status := newWrite(admission.Create, kind, "", "node"), newWrite(admission.Update, kind, "", "node")
	create.What, create.User = "the registration of nodes", aNode
	status.What, status.User, status.Subresource = "the update of nodes' statuses", aNode, "status"
	return []*Write{create, status}
}

// CertificateRequests returns the request of a node for a certificate, and its approval.
func CertificateRequests() []*Write {
	kind := schema.GroupVersionKind{Group: "certificates.k8s.io", Version: "v1", Kind: "CertificateSigningRequest"}
	create, approve := newWrite(admission.Create, kind, "", "csr"), newWrite(admission.Update, kind, "", "csr")
	create.What, create.User = "nodes' requests for certificates", aNode
	approve.What, approve.Subresource = "the approval of nodes' certificates", "approval"
	approve.User = ServiceAccount("kube-system", "certificate-controller")
	return []*Write{create, approve}
}

// Events returns the creation of events in the namespace default, in both of their groups.
func Events() []*Write {
	core := newWrite(admission.Create, corev1.SchemeGroupVersion.WithKind("Event"), "default", "event")
	newer := newWrite(admission.Create, schema.GroupVersionKind{Group: "events.k8s.io", Version: "v1", Kind: "Event"},
		"default", "event")
	core.What, newer.What = "the creation of events", "the creation of events of events.k8s.io"
	core.User, newer.User = aNode, aNode
	return []*Write{core, newer}
}

// CertificateAnnotation is the annotation of a webhook configuration that names the Certificate, as NAMESPACE/NAME, from
// which its caBundle is copied.
const CertificateAnnotation = "cert-manager.io/inject-ca-from"

// Certificates returns the writes by which the program cert-manager renews a Certificate.
func Certificates(namespace, name string) (writes []*Write) {
	const group = "cert-manager.io"
	for _, of := range []struct {
		kind, subresource string
		operation         admission.Operation
	}{{"CertificateRequest", "", admission.Create}, {"CertificateRequest", "status", admission.Update},
		{"Certificate", "status", admission.Update}, {"Certificate", "", admission.Update}} {
		w := newWrite(of.operation, schema.GroupVersionKind{Group: group, Version: "v1", Kind: of.kind}, namespace, name)
		w.Subresource, w.User = of.subresource, ServiceAccount("cert-manager", "cert-manager")
		w.What = fmt.Sprintf("the writing of %s in %s", w.Resource.Resource, namespace)
		writes = append(writes, w)
	}
	secret := newWrite(admission.Update, corev1.SchemeGroupVersion.WithKind("Secret"), namespace, name)
	secret.What, secret.User = "the update of secrets in "+namespace, ServiceAccount("cert-manager", "cert-manager")
	return append(writes, secret)
}

// Anything returns writes of cluster-wide and of namespaced objects that have nothing special.
func Anything() []*Write {
	role := newWrite(admission.Create, schema.GroupVersionKind{Group: "rbac.authorization.k8s.io", Version: "v1",
		Kind: "ClusterRole"}, "", "any")
	role.What, role.User = "the creation of clusterroles", Administrator()
	return []*Write{AnyPod(AnyNamespace), role}
}

// OfRule returns a write for each operation and resource that a rule names. Those with wildcards and
// subresources are left out.
func OfRule(r *admissionregistrationv1.RuleWithOperations) (writes []*Write) {
	for _, operation := range r.Operations {
		if operation == admissionregistrationv1.OperationAll {
			operation = admissionregistrationv1.Create
		}
		for _, group := range r.APIGroups {
			for _, version := range r.APIVersions {
				for _, resource := range r.Resources {
					if strings.ContainsAny(group+resource, "*/") || operation == admissionregistrationv1.Connect {
						continue
					}
					if version == "*" {
						version = "v1"
					}
					gvr := schema.GroupVersionResource{Group: group, Version: version, Resource: resource}
					w := &Write{What: fmt.Sprintf("%s of %s", operation, gvr.GroupResource()),
						Operation: admission.Operation(operation), Resource: gvr, Namespace: AnyNamespace, Name: "any",
						Kind: builtInEquivalents().KindFor(gvr, ""), User: Administrator()}
					if r.Scope != nil && *r.Scope == admissionregistrationv1.ClusterScope {
						w.Namespace = ""
					}
					writes = append(writes, w)
				}
			}
		}
	}
	return writes
}
