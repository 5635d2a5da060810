// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package policies_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gatehouse.dev/gatehousetest"
	"gatehouse.dev/test/servertest"
)

// A policy that refuses whatever is written, by the server itself, too, doesn't keep the server
// from starting, nor itself from being removed. What the server couldn't write meanwhile it writes
// afterwards.
func TestPolicyThatRefusesTheServersWrites(t *testing.T) {
	t.Parallel() // much of it is to wait for what the server does every ten seconds
	dir := t.TempDir()
	c := servertest.Connect(gatehousetest.StartIn(t, dir))
	policies, bindings := c.Dynamic.Resource(validatingPolicies), c.Dynamic.Resource(validatingBindings)
	_, err := policies.Create(t.Context(), servertest.Parsed(t, `{apiVersion: admissionregistration.k8s.io/v1,
		kind: ValidatingAdmissionPolicy, metadata: {name: everything}, spec: {matchConstraints: {resourceRules:
		[{apiGroups: ["*"], apiVersions: ["*"], resources: ["*/*"], operations: ["*"]}]}, matchConditions:
		[{name: no-namespace, expression: "request.resource.resource != 'namespaces'"}], validations:
		[{expression: "false", message: nothing goes}]}}`), metav1.CreateOptions{})
	must(t, err)
	write := func() error {
		_, err := c.Client.CoreV1().ConfigMaps("default").Create(t.Context(),
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c"}},
			metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	enforce := func() {
		t.Helper()
		_, err := bindings.Create(t.Context(), servertest.Parsed(t, `{apiVersion: admissionregistration.k8s.io/v1,
			kind: ValidatingAdmissionPolicyBinding, metadata: {name: everything}, spec: {policyName: everything,
			validationActions: [Deny]}}`), metav1.CreateOptions{})
		must(t, err)
		becomes(t, "nothing goes", write)
	}
	furnished := func(ns string) {
		t.Helper()
		servertest.Retry(t, "what every namespace has", func() error {
			if _, err := c.Client.CoreV1().ServiceAccounts(ns).Get(t.Context(), "default",
				metav1.GetOptions{}); err != nil {
				return err
			}
			_, err := c.Client.CoreV1().ConfigMaps(ns).Get(t.Context(), "kube-root-ca.crt", metav1.GetOptions{})
			return err
		})
	}
	// refused waits until the server has been refused something itself.
	refused := func(what string) {
		t.Helper()
		servertest.Retry(t, "the server to be refused "+what, func() error {
			metrics, err := c.Client.RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())
			if err != nil {
				return err
			}
			for line := range strings.Lines(string(metrics)) {
				if strings.HasPrefix(line, "apiserver_request_total{") && strings.Contains(line, `code="422"`) &&
					strings.Contains(line, `resource="`+what+`"`) && !strings.Contains(line, `dry_run="All"`) {
					return nil
				}
			}
			return fmt.Errorf("no request for %s was", what)
		})
	}

	enforce()
	during := c.Namespace(t, nil)
	refused("serviceaccounts")
	refused("configmaps")
	must(t, bindings.Delete(t.Context(), "everything", metav1.DeleteOptions{}))
	furnished(during)

	enforce()
	before := c.Namespace(t, nil)
	c.Stop()
	c = servertest.Connect(gatehousetest.StartIn(t, dir))
	policies, bindings = c.Dynamic.Resource(validatingPolicies), c.Dynamic.Resource(validatingBindings)
	if err := is(write(), "nothing goes"); err != nil {
		t.Errorf("after a restart: %v", err)
	}
	refused("leases")
	freed := time.Now()
	must(t, bindings.Delete(t.Context(), "everything", metav1.DeleteOptions{}))
	must(t, policies.Delete(t.Context(), "everything", metav1.DeleteOptions{}))
	becomes(t, "", write)
	furnished(before)
	furnished(c.Namespace(t, nil))
	servertest.Retry(t, "a lease that is renewed", func() error {
		leases, err := c.Client.CoordinationV1().Leases("kube-system").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, lease := range leases.Items {
			if lease.Spec.RenewTime != nil && lease.Spec.RenewTime.After(freed) {
				return nil
			}
		}
		return fmt.Errorf("none of %d is", len(leases.Items))
	})
}
