// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package robustness_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"gatehouse.dev/internal/webhooktest"
	"gatehouse.dev/test/robustness/check"
)

// configuration changes a policy and a webhook, which write their generation into the ConfigMaps of
// the namespace Registers.
type configuration struct {
	backend *webhooktest.Server
	// generation is the last one that was written.
	generation atomic.Int64
}

// configurationName is the name of all objects of the configuration.
const configurationName = "generation"

// typed returns a client that asks the server directly.
func (s *server) typed() (kubernetes.Interface, error) {
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(s.dir, "admin.kubeconfig"))
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	config.Timeout = patience
	return kubernetes.NewForConfig(rest.AddUserAgent(config, "configuration"))
}

// configure makes the namespaces, the quota, the policy and the webhook, and waits until all servers
// heed them.
func configure(t testing.TB, servers []*server) *configuration {
	t.Helper()
	c := &configuration{backend: webhooktest.New(t, http.HandlerFunc(annotate))}
	c.generation.Store(1)
	api, err := servers[0].typed()
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	var errs []error
	created := func(_ any, err error) { errs = append(errs, err) }
	for _, namespace := range []string{check.Registers, check.Quotas} {
		created(api.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}},
			metav1.CreateOptions{}))
	}
	hard := corev1.ResourceList{}
	for what, limit := range map[corev1.ResourceName]string{"configmaps": "5", "pods": "4", "requests.cpu": "500m",
		"count/pods": "5"} {
		hard[what] = resource.MustParse(limit)
	}
	created(api.CoreV1().ResourceQuotas(check.Quotas).Create(ctx, &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "all"}, Spec: corev1.ResourceQuotaSpec{Hard: hard}}, metav1.CreateOptions{}))
	registration := api.AdmissionregistrationV1()
	created(registration.MutatingAdmissionPolicies().Create(ctx, policy(1), metav1.CreateOptions{}))
	created(registration.MutatingAdmissionPolicyBindings().Create(ctx,
		&admissionregistrationv1.MutatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: configurationName},
			Spec: admissionregistrationv1.MutatingAdmissionPolicyBindingSpec{PolicyName: configurationName}},
		metav1.CreateOptions{}))
	created(registration.MutatingWebhookConfigurations().Create(ctx, c.webhook(1), metav1.CreateOptions{}))
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	if err := c.awaitInForce(ctx, servers); err != nil {
		t.Fatal(err)
	}
	return c
}

// policy returns the policy of a generation.
func policy(generation int64) *admissionregistrationv1.MutatingAdmissionPolicy {
	fail := admissionregistrationv1.Fail
	rule := admissionregistrationv1.NamedRuleWithOperations{RuleWithOperations: rule()}
	expression := fmt.Sprintf(`Object{metadata: Object.metadata{annotations: {%q: "%d"}}}`, check.PolicyAnnotation,
		generation)
	return &admissionregistrationv1.MutatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: configurationName},
		Spec: admissionregistrationv1.MutatingAdmissionPolicySpec{
			FailurePolicy:      &fail,
			ReinvocationPolicy: admissionregistrationv1.NeverReinvocationPolicy,
			MatchConstraints: &admissionregistrationv1.MatchResources{NamespaceSelector: registersOnly(),
				ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{rule}},
			Mutations: []admissionregistrationv1.Mutation{{
				PatchType:          admissionregistrationv1.PatchTypeApplyConfiguration,
				ApplyConfiguration: &admissionregistrationv1.ApplyConfiguration{Expression: expression},
			}},
		}}
}

// webhook returns the webhook of a generation.
func (c *configuration) webhook(generation int64) *admissionregistrationv1.MutatingWebhookConfiguration {
	none, fail, seconds := admissionregistrationv1.SideEffectClassNone, admissionregistrationv1.Fail, int32(3)
	return &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: configurationName},
		Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name: "generation.example.com", ClientConfig: c.backend.ClientConfig(fmt.Sprintf("/%d", generation)),
			SideEffects: &none, FailurePolicy: &fail, TimeoutSeconds: &seconds, AdmissionReviewVersions: []string{"v1"},
			Rules: []admissionregistrationv1.RuleWithOperations{rule()}, NamespaceSelector: registersOnly(),
		}}}
}

func rule() admissionregistrationv1.RuleWithOperations {
	return admissionregistrationv1.RuleWithOperations{
		Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
		Rule: admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"},
			Resources: []string{"configmaps"}}}
}

func registersOnly() *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: check.Registers}}
}

// annotate answers a review by writing the generation in the URL into the object.
func annotate(w http.ResponseWriter, r *http.Request) {
	generation := strings.TrimPrefix(r.URL.Path, "/")
	webhooktest.Respond(func(request *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		jsonPatch := admissionv1.PatchTypeJSONPatch
		var object corev1.ConfigMap
		patch := fmt.Sprintf(`{"op":"add","path":"/metadata/annotations/%s","value":%q}`,
			strings.ReplaceAll(check.WebhookAnnotation, "/", "~1"), generation)
		if err := json.Unmarshal(request.Object.Raw, &object); err == nil && object.Annotations == nil {
			patch = `{"op":"add","path":"/metadata/annotations","value":{}},` + patch
		}
		return &admissionv1.AdmissionResponse{UID: request.UID, Allowed: true, PatchType: &jsonPatch,
			Patch: []byte("[" + patch + "]")}
	}).ServeHTTP(w, r)
}

// change writes the next generations until the context ends, each at a server of its own.
func (c *configuration) change(ctx context.Context, servers []*server) {
	random := rand.New(rand.NewPCG(*seed, 0))
	for ctx.Err() == nil {
		if err := c.next(ctx, servers[random.IntN(len(servers))]); err == nil {
			c.generation.Add(1)
		}
		select {
		case <-ctx.Done():
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// next writes the next generation. Its writes have the resource version of what they replace: one whose
// answer was lost can't come after the next.
func (c *configuration) next(ctx context.Context, s *server) error {
	api, err := s.typed()
	if err != nil {
		return err
	}
	generation := c.generation.Load() + 1
	policies := api.AdmissionregistrationV1().MutatingAdmissionPolicies()
	was, err := policies.Get(ctx, configurationName, metav1.GetOptions{})
	if err != nil {
		return err
	}
	changed := policy(generation)
	changed.ResourceVersion = was.ResourceVersion
	if _, err := policies.Update(ctx, changed, metav1.UpdateOptions{}); err != nil {
		return err
	}
	webhooks := api.AdmissionregistrationV1().MutatingWebhookConfigurations()
	old, err := webhooks.Get(ctx, configurationName, metav1.GetOptions{})
	if err != nil {
		return err
	}
	webhook := c.webhook(generation)
	webhook.ResourceVersion = old.ResourceVersion
	_, err = webhooks.Update(ctx, webhook, metav1.UpdateOptions{})
	return err
}

// awaitInForce waits until all servers apply the last generation.
func (c *configuration) awaitInForce(ctx context.Context, servers []*server) error {
	for _, s := range servers {
		err := within(ctx, recovery, func(ctx context.Context) error {
			api, err := s.typed()
			if err != nil {
				return err
			}
			made, err := api.CoreV1().ConfigMaps(check.Registers).Create(ctx, &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{GenerateName: "probe-"}}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			if err != nil {
				return err
			}
			got, want := describe(made), c.generation.Load()
			if got.Policy < want || got.Webhook < want {
				return fmt.Errorf("it applies policy %d and webhook %d, want %d", got.Policy, got.Webhook, want)
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return nil
}
