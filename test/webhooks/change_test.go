// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package webhooks_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gatehouse.dev/gatehousetest"
	"gatehouse.dev/server"
	"gatehouse.dev/test/servertest"
)

// A configuration is in force when it was written, as changed when it was changed, and no more when
// it was deleted.
func TestConfigurationTakesEffect(t *testing.T) {
	ns := namespace(t)
	v := newBackend(t, allow)
	configurations := client.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	validating(t, ns, v, nil, rule("", "v1", "pods"))
	if _, err := client.CoreV1().Pods(ns).Create(t.Context(), servertest.Pod("one"),
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	v.only(t)

	c, err := configurations.Get(t.Context(), "v-"+ns, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c.Webhooks[0].Rules = []admissionregistrationv1.RuleWithOperations{rule("", "v1", "services")}
	if _, err := configurations.Update(t.Context(), c, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	servertest.Eventually(t, "the configuration to be as changed", func() bool {
		before := len(v.asked())
		_, err := client.CoreV1().Pods(ns).Create(t.Context(), servertest.Pod("two"),
			metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err == nil && len(v.asked()) == before
	})
}

// A configuration of 1,000 webhooks is in force in under a second. On a machine that does other
// things as well, one of three must be.
func TestThousandWebhooks(t *testing.T) {
	var took []time.Duration
	for range 3 {
		took = append(took, applyThousand(t))
		t.Logf("in force %v after it was written", took[len(took)-1])
		if took[len(took)-1] < time.Second {
			return
		}
	}
	t.Errorf("in force only after %v", took)
}

// applyThousand writes the configuration, each webhook with an expression of its own, and returns
// how long it takes until the last one answers.
func applyThousand(t *testing.T) time.Duration {
	t.Helper()
	ns := namespace(t)
	v := newBackend(t, allow)
	none := admissionregistrationv1.SideEffectClassNone
	c := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "thousand-" + ns}}
	for i := range 1000 {
		c.Webhooks = append(c.Webhooks, admissionregistrationv1.ValidatingWebhook{
			Name: fmt.Sprintf("w%d.example.com", i), ClientConfig: v.ClientConfig(fmt.Sprintf("/%d", i)),
			SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
			NamespaceSelector: selector(ns),
			Rules:             []admissionregistrationv1.RuleWithOperations{rule("", "v1", "configmaps")},
			MatchConditions: []admissionregistrationv1.MatchCondition{{Name: "one",
				Expression: fmt.Sprintf("object.metadata.name == '%s' && '%s' != '' && %d == 999", probeName, ns, i)}},
		})
	}
	configurations := client.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	if _, err := configurations.Create(t.Context(), c, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	written := time.Now()
	inForce(t, ns, v)
	took := time.Since(written)
	if err := configurations.Delete(t.Context(), c.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	return took
}

// A configuration of the plugins that makes no sense stops the start, and the message says where it
// is.
func TestPluginConfigurationStopsTheStart(t *testing.T) {
	for plugin, test := range map[string]struct{ configuration, want string }{
		"MutatingAdmissionWebhook": {`{apiVersion: apiserver.config.k8s.io/v1, kind: ` +
			`WebhookAdmissionConfiguration, kubeConfigFile: here}`,
			"/here: no such file or directory"},
		"ValidatingAdmissionWebhook": {`{apiVersion: apiserver.config.k8s.io/v1, kind: ` +
			`WebhookAdmissionConfiguration, kubeconfig: /here}`, `unknown field "kubeconfig"`},
	} {
		var file string
		err := servertest.StartError(t, servertest.Configured(t, map[string]string{plugin: test.configuration}),
			gatehousetest.WithConfig(func(c *server.Config) { file = c.Admission.ConfigFile }))
		if err == nil || !strings.Contains(err.Error(), plugin) || !strings.Contains(err.Error(), file) ||
			!strings.Contains(err.Error(), test.want) {
			t.Errorf("the error is %v, and should name %s, %s and say %s", err, plugin, file, test.want)
		}
	}
}

// A webhook that fails is a 500 that names it.
func TestFailureIsTold(t *testing.T) {
	ns := namespace(t)
	v := newBackend(t, allow)
	validating(t, ns, v, nil, rule("", "v1", "pods"))
	v.Stop()
	err := noticed(t, func() error {
		_, err := client.CoreV1().Pods(ns).Create(t.Context(), servertest.Pod("p"), metav1.CreateOptions{})
		return err
	})
	if !apierrors.IsInternalError(err) || !strings.HasPrefix(err.Error(),
		`Internal error occurred: failed calling webhook "validating.example.com": failed to call webhook: Post "`+
			v.URL("/validate")+`?timeout=10s": dial tcp `) {
		t.Errorf("the error is %v", err)
	}
}
