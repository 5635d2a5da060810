// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package serviceaccount implements the admission plugin ServiceAccount, which gives pods an
// identity towards the API server.
//
// A pod runs as the ServiceAccount of its namespace that it names or, if it names none, as the one
// named default. The account must exist. The mutating phase gives a new pod:
//
//   - A volume kube-api-access-<5 characters>, projected from a token of the account (valid for
//     3607 seconds and renewed by the kubelet), the API server's certificate authority (the
//     ConfigMap kube-root-ca.crt) and the pod's namespace.
//   - A mount of that volume in each container and init container that has none at the path where
//     client libraries look. Volume and mounts are left out if automountServiceAccountToken is
//     false in the pod or, if the pod doesn't say, in the account.
//   - The account's imagePullSecrets, if the pod has none.
//
// If the account has the annotation kubernetes.io/enforce-mountable-secrets: "true", its pods may
// use only the Secrets that it lists. Both phases check that, for new pods and for added ephemeral
// containers. The validating phase also checks that the pod still names an existing account. Other
// updates aren't checked.
//
// Mirror pods, which kubelets create for pods that they run from files, get none of this. One that
// refers to an account, a Secret or any other API object is refused.
//
// Accounts are looked up in a cache, which shows a write a moment later. An account that the cache
// doesn't have is read live. The plugin waits for the account default, because a pod is often
// created right after its namespace, before the controller has created the account.
package serviceaccount

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/client-go/kubernetes"
	corev1listers "k8s.io/client-go/listers/core/v1"

	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/pluginconfig"
	"gatehouse.dev/plugin/podspec"
	"gatehouse.dev/plugin/ready"
)

const (
	name = "ServiceAccount"

	// defaultAccount is the account of pods that name none.
	defaultAccount = "default"
)

// defaultReads sets the number of live reads for the account default, and the pauses between them:
// 12 reads in 6 seconds. (Upstream: 10 reads, 100 to 200 ms apart.) The controller makes the
// account within milliseconds of its namespace, or much later if the controller is only starting.
var defaultReads = wait.Backoff{Duration: 3 * time.Millisecond, Factor: 2, Jitter: 0.1, Steps: 12}

var pods = corev1.Resource("pods")

//go:embed README.md
var manual string

// Descriptor describes ServiceAccount. It needs a client and informers.
var Descriptor = plugin.Descriptor{
	Name:       name,
	Summary:    "Gives pods a service account, its token and its pull secrets",
	Manual:     manual,
	Remedy:     "Create the service account, or name one that exists. A mirror pod can have none, nor Secrets.",
	Phases:     plugin.Mutating | plugin.Validating,
	Operations: []admission.Operation{admission.Create, admission.Update},
	Resources:  plugin.On(pods, "", "ephemeralcontainers"),
	Default:    true,
	Access:     []rbacv1.PolicyRule{plugin.To("get list watch", "", "serviceaccounts")},
	New: func(config io.Reader, env *plugin.Env) (plugin.Plugin, error) {
		if err := pluginconfig.None(name, config); err != nil {
			return nil, err
		}
		if err := ready.Needs(name, env); err != nil {
			return nil, err
		}
		informer := env.Informers.Core().V1().ServiceAccounts()
		return &serviceAccount{
			synced: ready.After(informer.Informer()),
			cache:  informer.Lister(),
			client: env.Client,
		}, nil
	},
}

type serviceAccount struct {
	synced ready.Gate
	cache  corev1listers.ServiceAccountLister
	client kubernetes.Interface
}

var (
	_ plugin.Mutator   = &serviceAccount{}
	_ plugin.Validator = &serviceAccount{}
)

// Admit gives a new pod its account and what comes with it.
func (p *serviceAccount) Admit(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if !createsPod(a) {
		return nil
	}
	pod, err := podspec.Pod(name, a.GetObject())
	if err != nil {
		return err
	}
	if isMirror(pod) { // the kubelet deletes one that differs from what it made
		return admitMirror(a, pod)
	}
	if pod.Spec.ServiceAccountName == "" {
		pod.Spec.ServiceAccountName = cmp.Or(pod.Spec.DeprecatedServiceAccount, defaultAccount)
	}
	// DeprecatedServiceAccount is the field's former name, which v1 has kept. Webhooks see both.
	pod.Spec.DeprecatedServiceAccount = pod.Spec.ServiceAccountName
	account, err := p.account(ctx, a, pod)
	if err != nil {
		return err
	}
	if wantsToken(pod, account) {
		mountToken(&pod.Spec)
	}
	if len(pod.Spec.ImagePullSecrets) == 0 {
		pod.Spec.ImagePullSecrets = append(pod.Spec.ImagePullSecrets, account.ImagePullSecrets...)
	}
	return checkMountable(a, pod, account, checkSecrets)
}

// Validate refuses a pod, or ephemeral containers that join it, if its account doesn't allow it.
func (p *serviceAccount) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	creates := createsPod(a)
	if !creates && !addsEphemeralContainers(a) {
		return nil
	}
	pod, err := podspec.Pod(name, a.GetObject())
	if err != nil {
		return err
	}
	if creates && isMirror(pod) {
		return admitMirror(a, pod)
	}
	if pod.Spec.ServiceAccountName == "" {
		return admission.NewForbidden(a,
			fmt.Errorf("no service account specified for pod %s/%s", a.GetNamespace(), pod.Name))
	}
	account, err := p.account(ctx, a, pod)
	if err != nil {
		return err
	}
	check := checkSecrets
	if !creates {
		check = checkEphemeralSecrets
	}
	return checkMountable(a, pod, account, check)
}

// checkMountable refuses a pod that uses Secrets which its account doesn't list, if that is enforced.
func checkMountable(a admission.Attributes, pod *corev1.Pod, account *corev1.ServiceAccount,
	check func(*corev1.PodSpec, *corev1.ServiceAccount) error) error {
	if !enforcesSecrets(account) {
		return nil
	}
	if err := check(&pod.Spec, account); err != nil {
		return admission.NewForbidden(a, err)
	}
	return nil
}

func admitMirror(a admission.Attributes, pod *corev1.Pod) error {
	if err := checkMirror(&pod.Spec); err != nil {
		return admission.NewForbidden(a, err)
	}
	return nil
}

func createsPod(a admission.Attributes) bool {
	return a.GetOperation() == admission.Create && a.GetSubresource() == "" && a.GetResource().GroupResource() == pods
}

func addsEphemeralContainers(a admission.Attributes) bool {
	return a.GetOperation() == admission.Update && a.GetSubresource() == "ephemeralcontainers" &&
		a.GetResource().GroupResource() == pods
}

func isMirror(pod *corev1.Pod) bool {
	_, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]
	return mirror
}

// account returns the account that the pod names. Callers must not change it. The error is the
// request's refusal.
func (p *serviceAccount) account(ctx context.Context, a admission.Attributes, pod *corev1.Pod) (*corev1.ServiceAccount, error) {
	if err := p.synced.Wait(ctx, a); err != nil {
		return nil, err
	}
	namespace, wanted := a.GetNamespace(), pod.Spec.ServiceAccountName
	account, err := p.cache.ServiceAccounts(namespace).Get(wanted)
	if err != nil && apierrors.IsNotFound(err) {
		account, err = p.live(ctx, namespace, wanted)
	}
	if err != nil {
		return nil, plugin.Unanswered(err,
			admission.NewForbidden(a, fmt.Errorf("error looking up service account %s/%s: %w", namespace, wanted, err)))
	}
	return account, nil
}

// live reads an account from the server. It repeats the read of the default account until it is
// there.
func (p *serviceAccount) live(ctx context.Context, namespace, wanted string) (*corev1.ServiceAccount, error) {
	reads := wait.Backoff{Steps: 1}
	if wanted == defaultAccount {
		reads = defaultReads
	}
	for {
		account, err := p.client.CoreV1().ServiceAccounts(namespace).Get(ctx, wanted, metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			return account, err
		}
		pause := reads.Step()
		if reads.Steps == 0 {
			// Upstream's words: the kind in lower case, and no plural.
			return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "serviceaccount"}, wanted)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
