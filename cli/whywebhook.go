// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"gatehouse.dev/internal/commandline"
	"gatehouse.dev/remote/installation"
)

// findWebhook returns the client configuration of a replica of gatehouse webhook. where is the name of
// its installation, or NAME=URL. The webhook configurations of the cluster say how the replica is
// verified, and where it is. The replica gets the token of the cluster's user, and nothing else that
// the user has.
func findWebhook(ctx context.Context, cluster *rest.Config, where string) (*rest.Config, error) {
	name, address, _ := strings.Cut(where, "=")
	if cluster.Impersonate.UserName != "" {
		return nil, commandline.Usage(errors.New("--webhook: a replica knows users by their tokens: leave out --as"))
	}
	if cluster.BearerToken == "" && cluster.BearerTokenFile == "" && cluster.ExecProvider == nil &&
		cluster.AuthProvider == nil {
		return nil, commandline.Usage(errors.New("--webhook: a replica knows users by their tokens, and the kubeconfig " +
			"has none: say --token=\"$(kubectl create token SERVICEACCOUNT)\", for example"))
	}
	found, err := calledBy(ctx, cluster, name)
	if err != nil {
		return nil, err
	}
	config := &rest.Config{Host: address, UserAgent: cluster.UserAgent, Dial: cluster.Dial,
		BearerToken: cluster.BearerToken, BearerTokenFile: cluster.BearerTokenFile, ExecProvider: cluster.ExecProvider,
		AuthProvider: cluster.AuthProvider, AuthConfigPersister: cluster.AuthConfigPersister,
		TLSClientConfig: rest.TLSClientConfig{CAData: found.CABundle}}
	switch service := found.Service; {
	case service != nil && address == "":
		return nil, commandline.Usage(fmt.Errorf("--webhook=%s: the replicas are behind the Service %s/%s: run "+
			"\"kubectl port-forward -n %[2]s svc/%[3]s 8443:%[4]d\" and say --webhook=%[1]s=https://127.0.0.1:8443", name,
			service.Namespace, service.Name, portOf(service)))
	case service != nil:
		config.ServerName = service.Name + "." + service.Namespace + ".svc"
	default:
		called, err := url.Parse(*found.URL)
		if err != nil {
			return nil, fmt.Errorf("--webhook=%s: the webhook configuration calls %q: %w", name, *found.URL, err)
		}
		if config.ServerName = called.Hostname(); address == "" {
			config.Host = called.Scheme + "://" + called.Host
		}
	}
	if at, err := url.Parse(config.Host); err != nil || at.Scheme != "https" || at.Host == "" {
		return nil, commandline.Usage(fmt.Errorf("--webhook: %q must be https://HOST:PORT", config.Host))
	}
	return config, nil
}

// calledBy returns how API servers call the installation of a name.
func calledBy(ctx context.Context, cluster *rest.Config, name string) (
	*admissionregistrationv1.WebhookClientConfig, error) {
	client, err := kubernetes.NewForConfig(cluster)
	if err != nil {
		return nil, commandline.Usage(fmt.Errorf("kubeconfig: %w", err))
	}
	configurations := client.AdmissionregistrationV1()
	validating, err := configurations.ValidatingWebhookConfigurations().Get(ctx, name, metav1.GetOptions{})
	if err == nil && installation.IsOfAny(validating) && len(validating.Webhooks) > 0 {
		return &validating.Webhooks[0].ClientConfig, nil
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, err
	}
	mutating, err := configurations.MutatingWebhookConfigurations().Get(ctx, name, metav1.GetOptions{})
	if err == nil && installation.IsOfAny(mutating) && len(mutating.Webhooks) > 0 {
		return &mutating.Webhooks[0].ClientConfig, nil
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, err
	}
	return nil, commandline.Usage(fmt.Errorf("--webhook=%s: gatehouse webhook has registered no webhook configuration "+
		"of that name in the cluster: its --name is the name, gatehouse by default", name))
}

func portOf(service *admissionregistrationv1.ServiceReference) int32 {
	if service.Port != nil {
		return *service.Port
	}
	return 443
}
