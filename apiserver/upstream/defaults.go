// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// InformerResync is how often the server's informers hand out again what they have.
	InformerResync = 10 * time.Minute
	// ServiceRepairInterval is how often Services' IPs and ports are compared with the allocations.
	ServiceRepairInterval = 3 * time.Minute
	// KeepAlivePeriod is how often a quiet connection is probed.
	KeepAlivePeriod = 3 * time.Minute
	// SignerKeysTimeout and SignerLimitsTimeout bound how long an external signer of tokens may take
	// to return its keys, and then its limits.
	SignerKeysTimeout   = time.Minute
	SignerLimitsTimeout = 10 * time.Second
	// WebhookTokenLifetime is how long a token for a webhook is good.
	WebhookTokenLifetime = 10 * time.Minute
)

var (
	// SystemNamespaces are the namespaces that every cluster has.
	SystemNamespaces = []string{metav1.NamespaceSystem, metav1.NamespacePublic, metav1.NamespaceDefault,
		corev1.NamespaceNodeLease}
	// ServiceNames are the names by which pods call the API server.
	ServiceNames = []string{"kubernetes.default.svc", "kubernetes.default", "kubernetes"}
	// LongRunningVerbs and LongRunningSubresources are those of requests that have no time limit.
	LongRunningVerbs        = []string{"watch", "proxy"}
	LongRunningSubresources = []string{"attach", "exec", "proxy", "log", "portforward"}
	// FairnessVersions are the keys of --runtime-config that switch the API of priority and fairness on
	// or off. The first one that is set counts.
	FairnessVersions = []string{"flowcontrol.apiserver.k8s.io/v1", "api/ga", "api/all"}
)
