// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package gatehousetest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/kubernetes/cmd/kube-controller-manager/names"

	"gatehouse.dev/internal/clusterrole"
)

const (
	// settledPoll is how often awaitSettled checks whether the controllers are done, and settledWithin
	// bounds the wait.
	settledPoll   = 5 * time.Millisecond
	settledWithin = 30 * time.Second
)

// awaitSettled waits until the running controllers have set up the cluster. Otherwise every reset would
// undo what they do later, and they would do it again.
func (s *Server) awaitSettled(ctx context.Context) error {
	config := rest.CopyConfig(s.Config)
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	var missing []func(context.Context, kubernetes.Interface) error
	runs := s.config.Controllers.Runs
	if runs(names.ServiceAccountController) && runs(names.RootCACertificatePublisherController) {
		missing = append(missing, checkNamespaces)
	}
	if runs(names.ClusterRoleAggregationController) {
		missing = append(missing, checkClusterRoles)
	}
	ctx, cancel := context.WithTimeout(ctx, settledWithin)
	defer cancel()
	for _, missing := range missing {
		var last error
		err := wait.PollUntilContextCancel(ctx, settledPoll, true, func(ctx context.Context) (bool, error) {
			last = missing(ctx, client)
			return last == nil, nil
		})
		if err != nil {
			return fmt.Errorf("what controllers make is not there: %w", errors.Join(err, last))
		}
	}
	return nil
}

// checkNamespaces returns an error if a namespace lacks an object that every namespace gets.
func checkNamespaces(ctx context.Context, client kubernetes.Interface) error {
	namespaces, err := client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, namespace := range namespaces.Items {
		if namespace.DeletionTimestamp != nil {
			continue
		}
		_, err := client.CoreV1().ServiceAccounts(namespace.Name).Get(ctx, "default", metav1.GetOptions{})
		if err != nil {
			return err
		}
		_, err = client.CoreV1().ConfigMaps(namespace.Name).Get(ctx, "kube-root-ca.crt", metav1.GetOptions{})
		if err != nil {
			return err
		}
	}
	return nil
}

// checkClusterRoles returns an error if a ClusterRole lacks rules of the roles that its
// aggregationRule selects.
func checkClusterRoles(ctx context.Context, client kubernetes.Interface) error {
	roles, err := client.RbacV1().ClusterRoles().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, role := range roles.Items {
		if role.AggregationRule == nil {
			continue
		}
		aggregated, err := clusterrole.Aggregate(&role, roles.Items)
		if err != nil {
			return err
		}
		if !equality.Semantic.DeepEqual(aggregated, role.Rules) {
			return fmt.Errorf("ClusterRole %s does not have the rules yet that are aggregated to it", role.Name)
		}
	}
	return nil
}
