// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	"gatehouse.dev/internal/review/impact"
)

// controllersOf are the service accounts of the controllers that write what an object owns, by the owner's
// kind.
//
// Source: k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy/controller_policy.go#buildControllerRoles c479d3b1
var controllersOf = map[schema.GroupKind]string{
	{Group: "apps", Kind: "Deployment"}:  "deployment-controller",
	{Group: "apps", Kind: "ReplicaSet"}:  "replicaset-controller",
	{Group: "apps", Kind: "DaemonSet"}:   "daemon-set-controller",
	{Group: "apps", Kind: "StatefulSet"}: "statefulset-controller",
	{Group: "batch", Kind: "Job"}:        "job-controller",
	{Group: "batch", Kind: "CronJob"}:    "cronjob-controller",
	{Kind: "ReplicationController"}:      "replication-controller",
	{Kind: "Service"}:                    "endpointslice-controller",
	{Kind: "Endpoints"}:                  "endpointslicemirroring-controller",
}

// controllersOfPods are the service accounts that write what a pod owns, by the owned object's kind.
var controllersOfPods = map[schema.GroupKind]string{
	{Kind: "PersistentVolumeClaim"}:                   "ephemeral-volume-controller",
	{Group: "resource.k8s.io", Kind: "ResourceClaim"}: "resource-claim-controller",
}

// askerOf returns the user who would write an object again: the controller that its owner reference names, a
// node's kubelet, or else the given user.
func askerOf(object *unstructured.Unstructured, otherwise user.Info) user.Info {
	kind := object.GroupVersionKind().GroupKind()
	for _, owner := range object.GetOwnerReferences() {
		if owner.APIVersion == "v1" && owner.Kind == "Node" && (kind == podKind && isMirror(object) ||
			kind == schema.GroupKind{Group: "coordination.k8s.io", Kind: "Lease"}) {
			return &user.DefaultInfo{Name: "system:node:" + owner.Name, Groups: []string{user.NodesGroup,
				user.AllAuthenticated}}
		}
	}
	owner := metav1.GetControllerOf(object)
	if owner == nil {
		return otherwise
	}
	of := schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind).GroupKind()
	name := controllersOf[of]
	if of == podKind {
		name = controllersOfPods[kind]
	}
	if name == "" {
		return otherwise
	}
	return authenticated(controllerAccount(name))
}

// authenticated returns a user with the group that all users have whom a server has authenticated.
func authenticated(u user.Info) user.Info {
	if slices.Contains(u.GetGroups(), user.AllAuthenticated) {
		return u
	}
	return &user.DefaultInfo{Name: u.GetName(), UID: u.GetUID(), Extra: u.GetExtra(),
		Groups: append(slices.Clone(u.GetGroups()), user.AllAuthenticated)}
}

// managersOf returns the names of an object's field managers, each once.
func managersOf(object *unstructured.Unstructured) []string {
	var names []string
	for _, entry := range object.GetManagedFields() {
		if !slices.Contains(names, entry.Manager) {
			names = append(names, entry.Manager)
		}
	}
	slices.Sort(names)
	return names
}

// owners finds the topmost owner of objects.
type owners struct {
	// cronJobs has the names of the CronJobs of Jobs, by the Job's namespace and name.
	cronJobs map[string]string
}

// maxOwners bounds the Jobs whose CronJobs are known. Pods of others have the Job as their topmost owner.
const maxOwners = 100_000

// add takes note of a Job that a CronJob owns.
func (o *owners) add(object *unstructured.Unstructured) {
	if object.GroupVersionKind().GroupKind() != jobKind || len(o.cronJobs) >= maxOwners {
		return
	}
	if owner := metav1.GetControllerOf(object); owner != nil && owner.Kind == "CronJob" {
		o.cronJobs[object.GetNamespace()+"/"+object.GetName()] = owner.Name
	}
}

// topmost returns the topmost known owner of an object, or nil if it has no controller.
func (o *owners) topmost(object *unstructured.Unstructured) *impact.Object {
	owner := metav1.GetControllerOf(object)
	if owner == nil {
		return nil
	}
	top := &impact.Object{APIVersion: owner.APIVersion, Kind: owner.Kind, Namespace: object.GetNamespace(),
		Name: owner.Name}
	switch schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind).GroupKind() {
	case replicaSetKind.GroupKind():
		// The ReplicaSet of a Deployment has its hash in the name, and its pods have it in a label.
		hash := object.GetLabels()[appsv1.DefaultDeploymentUniqueLabelKey]
		if name, ok := strings.CutSuffix(owner.Name, "-"+hash); ok && hash != "" {
			top.Kind, top.Name = deploymentKind.Kind, name
		}
	case jobKind:
		if name := o.cronJobs[object.GetNamespace()+"/"+owner.Name]; name != "" {
			top.Kind, top.Name = "CronJob", name
		}
	case schema.GroupKind{Kind: "Node"}:
		top.Namespace = ""
	}
	return top
}
