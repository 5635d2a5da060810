// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"gatehouse.dev/plugin"
	"gatehouse.dev/remote/manifests"
	"gatehouse.dev/remote/registration"
)

const (
	// patience is how long a process waits for missing rights, and lookAgain how often it asks for
	// them.
	patience  = time.Minute
	lookAgain = 2 * time.Second
	// questions is how many rights are asked for at a time.
	questions = 8
)

// rights are the rights that a replica needs.
type rights struct {
	cluster, namespaced []rbacv1.PolicyRule
	// noNamespace reports whether the installation's namespace may be missing and the process can't
	// create it.
	noNamespace bool
}

func (r *rights) isEmpty() bool {
	return len(r.cluster) == 0 && len(r.namespaced) == 0 && !r.noNamespace
}

// awaitRights returns when the process has the rights that it needs. It prints the missing ones
// once, and returns an error if they are still missing after a minute.
func (w *worker) awaitRights(ctx context.Context, stderr io.Writer) error {
	config := rest.CopyConfig(w.connection)
	config.QPS = -1 // a few dozen questions, once
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	var needed rights
	needed.cluster, needed.namespaced = registration.Access(w.registration, w.options.certFile == "")
	needed.cluster = slices.Concat(needed.cluster, manifests.Rights(w.registration.Plugins))
	return awaitRights(ctx, client, w.registration, needed, stderr)
}

func awaitRights(ctx context.Context, client kubernetes.Interface, o *registration.Options, needed rights,
	stderr io.Writer) error {
	until := time.Now().Add(patience)
	for printed := false; ; {
		missing, err := missingRights(ctx, client, o, needed)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil { // the first use of a right shows whether it is missing
			klog.InfoS("The rights of this process can't be looked up", "err", err)
			return nil
		}
		if missing.isEmpty() {
			return nil
		}
		if !printed {
			if err := printMissing(ctx, client, o, missing, stderr); err != nil {
				return err
			}
			printed = true
		}
		if time.Now().After(until) {
			return fmt.Errorf("the rights above are still missing after %s", patience)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(lookAgain):
		}
	}
}

// missingRights returns the rules of which the process lacks a right, each with what of it is
// missing.
func missingRights(ctx context.Context, client kubernetes.Interface, o *registration.Options, needed rights) (
	missing rights, err error) {
	_, err = client.CoreV1().Namespaces().Get(ctx, o.Namespace, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		create, err := missingRules(ctx, client, []rbacv1.PolicyRule{plugin.To("create", "", "namespaces")}, "")
		if err != nil {
			return missing, err
		}
		missing.noNamespace = len(create) > 0
	}
	if missing.cluster, err = missingRules(ctx, client, needed.cluster, ""); err != nil {
		return missing, err
	}
	missing.namespaced, err = missingRules(ctx, client, needed.namespaced, o.Namespace)
	return missing, err
}

// missingRules does that for the rules of a namespace, or of the cluster.
func missingRules(ctx context.Context, client kubernetes.Interface, rules []rbacv1.PolicyRule, namespace string) (
	[]rbacv1.PolicyRule, error) {
	lacking := make([]rbacv1.PolicyRule, len(rules))
	asking, ctx := errgroup.WithContext(ctx)
	asking.SetLimit(questions)
	for n := range rules {
		if len(rules[n].NonResourceURLs) > 0 {
			continue // the feature gates are their defaults without
		}
		asking.Go(func() (err error) {
			lacking[n], err = lackingRule(ctx, client, rules[n], namespace)
			return err
		})
	}
	if err := asking.Wait(); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(lacking, func(r rbacv1.PolicyRule) bool { return len(r.Verbs) == 0 }), nil
}

// lackingRule returns the rule with the verbs and resources that the process may not use.
func lackingRule(ctx context.Context, client kubernetes.Interface, rule rbacv1.PolicyRule, namespace string) (
	rbacv1.PolicyRule, error) {
	lacking := rbacv1.PolicyRule{APIGroups: rule.APIGroups, ResourceNames: rule.ResourceNames}
	names := rule.ResourceNames
	if len(names) == 0 {
		names = []string{""}
	}
	for _, group := range rule.APIGroups {
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				for _, name := range names {
					attributes := &authorizationv1.ResourceAttributes{Namespace: namespace, Verb: verb, Group: group,
						Name: name}
					attributes.Resource, attributes.Subresource, _ = strings.Cut(resource, "/")
					review, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx,
						&authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
							ResourceAttributes: attributes}}, metav1.CreateOptions{})
					if err != nil {
						return lacking, err
					}
					if review.Status.Allowed {
						continue
					}
					lacking.Verbs = appendOnce(lacking.Verbs, verb)
					lacking.Resources = appendOnce(lacking.Resources, resource)
				}
			}
		}
	}
	return lacking, nil
}

func appendOnce(list []string, element string) []string {
	if slices.Contains(list, element) {
		return list
	}
	return append(list, element)
}

// printMissing prints the missing rights as objects to apply. Their names are others than those of
// an installation's roles, whose rules they would replace.
func printMissing(ctx context.Context, client kubernetes.Interface, o *registration.Options, missing rights,
	stderr io.Writer) error {
	user := o.User
	review, err := client.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{},
		metav1.CreateOptions{})
	if err == nil {
		user = review.Status.UserInfo.Username
	}
	subjects := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}}
	name := o.Name + "-missing-rights"
	var objects []runtime.Object
	if missing.noNamespace {
		objects = append(objects, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: o.Namespace}})
	}
	if len(missing.cluster) > 0 {
		meta := metav1.ObjectMeta{Name: name}
		objects = append(objects, &rbacv1.ClusterRole{ObjectMeta: meta, Rules: missing.cluster},
			&rbacv1.ClusterRoleBinding{ObjectMeta: meta, Subjects: subjects,
				RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name}})
	}
	if len(missing.namespaced) > 0 {
		meta := metav1.ObjectMeta{Name: name, Namespace: o.Namespace}
		objects = append(objects, &rbacv1.Role{ObjectMeta: meta, Rules: missing.namespaced},
			&rbacv1.RoleBinding{ObjectMeta: meta, Subjects: subjects,
				RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name}})
	}
	var text bytes.Buffer
	fmt.Fprintf(&text, "User %q lacks rights that the webhooks need. An administrator can grant them by\n"+
		"kubectl apply --filename=FILE with what follows. They are waited for, %s at most.\n\n", user, patience)
	if err := manifests.WriteObjects(&text, objects...); err != nil {
		return err
	}
	_, err = stderr.Write(text.Bytes())
	return err
}
