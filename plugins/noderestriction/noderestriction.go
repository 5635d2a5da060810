// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package noderestriction implements the admission plugin NodeRestriction, which limits a kubelet
// to the objects of its own node.
//
// A kubelet must write its Node and Lease, the status of its pods, and tokens for them.
// Authorization can't say "its own", so a kubelet's rights cover the Nodes and pods of all. An
// attacker on one node would otherwise have the cluster, by tokens of pods on other nodes or by
// labels that draw pods with secrets onto the node. The plugin checks these requests of nodes:
//
//   - pods: create mirror pods of itself that refer to no other API object; delete and evict pods
//     bound to it; write their status, but neither their labels nor the resource claims in it.
//   - nodes: create and update its own Node, but change neither taints nor owner references nor
//     labels that steer pods.
//   - tokens: one for the account of a pod bound to it, bound to that pod, for an audience that the
//     pod's volumes name.
//   - persistentvolumeclaims: report in the status what a resize did.
//   - leases, csinodes, resourceslices: those of its name.
//   - certificates: request its own, and those of pods bound to it from the signers that the pod names.
//
// A user in the group system:nodes is a node, and the name behind system:node: is the node's name.
// A user in the group with another name may write nothing.
//
// The plugin changes nothing and yet takes part in the mutating phase, as upstream's does, because
// it judges what the node asks for before the API server completes it (such as the audiences of a
// token). If a webhook changes the object, the phase runs once more and the plugin judges the
// result as if the node had sent it. Otherwise a webhook that copies fields could be a way around
// the rules.
//
// # Cache
//
// Pods, nodes and service accounts are looked up in caches, which show a write a moment later. If a
// request doesn't fit the cached objects, the plugin reads them live before it refuses the request:
// a kubelet learns of a new pod by its own watch, and may be first. The claims, volumes and drivers
// of a pod's volumes are older than the pod's binding, so the caches have them.
package noderestriction

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/component-base/featuregate"

	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/pluginconfig"
	"gatehouse.dev/plugin/ready"
)

const (
	name = "NodeRestriction"

	// userPrefix is the beginning of nodes' user names.
	userPrefix = "system:node:"
)

// Kubernetes' feature gates that rules depend on.
const (
	// insecureRequests allows nodes to request kubelet certificates for other nodes.
	insecureRequests featuregate.Feature = "AllowInsecureKubeletCertificateSigningRequests"
	// audienceRestriction limits tokens to the audiences that the pod's volumes name.
	audienceRestriction featuregate.Feature = "ServiceAccountNodeAudienceRestriction"
	// podCertificates allows nodes to request certificates for pods.
	podCertificates featuregate.Feature = "PodCertificateRequest"
	// volumeHealth allows nodes to write the status of their CSINode.
	volumeHealth featuregate.Feature = "CSIVolumeHealth"
	// expansionRecovery allows nodes to report what is allocated to a claim. It is locked in this
	// release, but not in older ones that a server may emulate.
	expansionRecovery featuregate.Feature = "RecoverVolumeExpansionFailure"
)

var (
	podResource            = corev1.Resource("pods")
	nodeResource           = corev1.Resource("nodes")
	claimResource          = corev1.Resource("persistentvolumeclaims")
	accountResource        = corev1.Resource("serviceaccounts")
	leaseResource          = schema.GroupResource{Group: coordinationv1.GroupName, Resource: "leases"}
	csiNodeResource        = schema.GroupResource{Group: storagev1.GroupName, Resource: "csinodes"}
	sliceResource          = schema.GroupResource{Group: resourcev1.GroupName, Resource: "resourceslices"}
	signingRequestResource = schema.GroupResource{Group: certificatesv1.GroupName,
		Resource: "certificatesigningrequests"}
	podCertificateRequestResource = schema.GroupResource{Group: certificatesv1.GroupName,
		Resource: "podcertificaterequests"}
)

//go:embed README.md
var manual string

// Descriptor describes NodeRestriction. It needs a client, informers, an authorizer, and
// Kubernetes' feature gates.
var Descriptor = plugin.Descriptor{
	Name:    name,
	Summary: "Keeps kubelets to the objects of their own node",
	Manual:  manual,
	Remedy: "A node may write itself, and what belongs to the pods that are bound to it. Have somebody else do " +
		"the rest.",
	Phases:     plugin.Mutating,
	Operations: []admission.Operation{admission.Create, admission.Update, admission.Delete},
	Access: []rbacv1.PolicyRule{
		plugin.To("get list watch", "", "pods", "nodes", "serviceaccounts"),
		plugin.To("list watch", "", "persistentvolumeclaims", "persistentvolumes"),
		plugin.To("list watch", "storage.k8s.io", "csidrivers"),
		plugin.AskAuthorizer,
		plugin.AskGates,
	},
	New: build,
}

func build(config io.Reader, env *plugin.Env) (plugin.Plugin, error) {
	if err := pluginconfig.None(name, config); err != nil {
		return nil, err
	}
	if err := ready.Needs(name, env); err != nil {
		return nil, err
	}
	switch {
	case env.Authorizer == nil:
		return nil, errors.New(name + " needs an authorizer")
	case env.Features == nil:
		return nil, errors.New(name + " needs feature gates")
	}
	p := &nodeRestriction{
		cluster:    newCluster(env),
		authorizer: env.Authorizer,
	}
	// Reading a feature gate that the host doesn't have would panic.
	known := env.Features.DeepCopy().GetAllVersioned()
	for _, want := range []struct {
		gate featuregate.Feature
		on   *bool
	}{
		{insecureRequests, &p.insecureRequests},
		{audienceRestriction, &p.audienceRestriction},
		{podCertificates, &p.podCertificates},
		{volumeHealth, &p.volumeHealth},
		{expansionRecovery, &p.expansionRecovery},
	} {
		if _, ok := known[want.gate]; !ok {
			return nil, fmt.Errorf("%s needs the feature gate %s, on or off", name, want.gate)
		}
		*want.on = env.Features.Enabled(want.gate)
	}
	if p.audienceRestriction {
		p.audiences = newAudiences(env)
	}
	return p, nil
}

type nodeRestriction struct {
	cluster   *cluster
	audiences *audiences // nil without audienceRestriction

	insecureRequests, audienceRestriction, podCertificates, volumeHealth, expansionRecovery bool

	authorizer authorizer.UnconditionalAuthorizer
}

var _ plugin.Mutator = &nodeRestriction{}

// request holds a node's request.
type request struct {
	admission.Attributes
	node string
}

// forbid returns the refusal of the request, with a reason formatted as by fmt.Errorf.
func (r request) forbid(format string, args ...any) error {
	return admission.NewForbidden(r.Attributes, fmt.Errorf(format, args...))
}

// Admit refuses writes that a node may not make.
func (p *nodeRestriction) Admit(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	node, isNode := identity(a.GetUserInfo())
	if !isNode {
		return nil
	}
	r := request{a, node}
	if node == "" {
		return r.forbid("could not determine node from user %q", a.GetUserInfo().GetName())
	}
	switch a.GetResource().GroupResource() {
	case podResource:
		return p.admitPods(ctx, r)
	case nodeResource:
		return admitNode(r)
	case claimResource:
		return p.admitClaim(r)
	case accountResource:
		return p.admitToken(ctx, r)
	case leaseResource:
		return admitLease(r)
	case csiNodeResource:
		return p.admitCSINode(r)
	case sliceResource:
		return admitSlice(r)
	case signingRequestResource:
		return p.admitSigningRequest(r)
	case podCertificateRequestResource:
		return p.admitPodCertificateRequest(ctx, r)
	}
	return nil
}

// identity returns the name of the user's node, empty if the user name isn't a node's. isNode
// reports whether the user is in the group of nodes.
func identity(u user.Info) (node string, isNode bool) {
	if u == nil || !slices.Contains(u.GetGroups(), user.NodesGroup) {
		return "", false
	}
	node, ok := strings.CutPrefix(u.GetName(), userPrefix)
	if !ok {
		return "", true
	}
	return node, true
}
