// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package telemetry_test

import (
	"bytes"
	"context"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/component-base/metrics/testutil"

	"gatehouse.dev/internal/webhooktest"
	"gatehouse.dev/remote/door"
	"gatehouse.dev/test/servertest"
)

// admissions are the prefixes of the metrics that docs/metrics.md lists all of.
var admissions = []string{"gatehouse_", "apiserver_admission_", "apiserver_validating_admission_policy_",
	"apiserver_mutating_admission_policy_", "apiserver_manifest_admission_", "pod_security_"}

// documented is a metric as docs/metrics.md has it.
type documented struct {
	kind   string
	labels []string
}

var row = regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| (counter|gauge|histogram|summary) \\| ([a-z_, ]*) ?\\| .+ \\|$")

func documentedMetrics(t *testing.T) map[string]documented {
	t.Helper()
	page, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]documented{}
	for _, found := range row.FindAllStringSubmatch(string(page), -1) {
		var labels []string
		if list := strings.TrimSpace(found[3]); list != "" {
			labels = strings.Split(list, ", ")
		}
		slices.Sort(labels)
		all[found[1]] = documented{found[2], labels}
	}
	if rows := strings.Count(string(page), "\n| `"); rows != len(all) {
		t.Fatalf("%d of %d rows are metrics", len(all), rows)
	}
	return all
}

// shown are the metrics that the server shows.
func shown(t *testing.T) map[string]*dto.MetricFamily {
	t.Helper()
	page, err := cluster.Client.RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	families, err := testutil.TextToMetricFamilies(bytes.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	return families
}

// use has the server count what the metrics of admission count.
func use(t *testing.T) {
	t.Helper()
	ns := namespace(t)
	configure(t, ns, webhooktest.New(t, (&told{}).handler()))
	api := client.AdmissionregistrationV1()
	mutating := &admissionregistrationv1.MutatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: ns},
		Spec: admissionregistrationv1.MutatingAdmissionPolicySpec{
			ReinvocationPolicy: admissionregistrationv1.NeverReinvocationPolicy,
			MatchConstraints: &admissionregistrationv1.MatchResources{
				NamespaceSelector: inNamespace(ns),
				ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
					RuleWithOperations: admissionregistrationv1.RuleWithOperations{
						Operations: []admissionregistrationv1.OperationType{"CREATE"},
						Rule: admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"},
							Resources: []string{"pods"}},
					},
				}},
			},
			Mutations: []admissionregistrationv1.Mutation{{
				PatchType: admissionregistrationv1.PatchTypeApplyConfiguration,
				ApplyConfiguration: &admissionregistrationv1.ApplyConfiguration{
					Expression: `Object{metadata: Object.metadata{annotations: {"mapped": "yes"}}}`,
				},
			}},
		},
	}
	if _, err := api.MutatingAdmissionPolicies().Create(t.Context(), mutating, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := api.MutatingAdmissionPolicyBindings().Create(t.Context(),
		&admissionregistrationv1.MutatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: ns},
			Spec: admissionregistrationv1.MutatingAdmissionPolicyBindingSpec{PolicyName: ns}},
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = api.MutatingAdmissionPolicies().Delete(context.Background(), ns, metav1.DeleteOptions{})
		_ = api.MutatingAdmissionPolicyBindings().Delete(context.Background(), ns, metav1.DeleteOptions{})
	})
	dryRun := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	servertest.Eventually(t, "the mutating policy to be in force", func() bool {
		seen, err := client.CoreV1().Pods(ns).Create(t.Context(), pod("probe", map[string]string{"a": ""}), dryRun)
		return err == nil && seen.Annotations["mapped"] == "yes"
	})
}

// What the server shows of admission is documented, as it is; what is documented is a metric.
func TestMetricsAreDocumented(t *testing.T) {
	use(t)
	door.New() // registers the metrics of webhook mode
	documents, families := documentedMetrics(t), shown(t)
	for name, family := range families {
		if !slices.ContainsFunc(admissions, func(prefix string) bool { return strings.HasPrefix(name, prefix) }) {
			continue
		}
		is, ok := documents[name]
		if kind := strings.ToLower(family.GetType().String()); !ok || is.kind != kind {
			t.Errorf("%s, a %s, is documented as %q", name, kind, is.kind)
			continue
		}
		var labels []string
		for _, l := range family.Metric[0].Label {
			labels = append(labels, l.GetName())
		}
		slices.Sort(labels)
		if !slices.Equal(labels, is.labels) {
			t.Errorf("%s has the labels %q, documented are %q", name, labels, is.labels)
		}
	}
	for name := range documents {
		if families[name] != nil {
			continue
		}
		// Nothing was counted in it so far. Where it is registered, another of its name can't be.
		other := metrics.NewGauge(&metrics.GaugeOpts{Name: name, Help: "another"})
		if err := legacyregistry.Register(other); err == nil {
			t.Errorf("%s is documented, but no metric", name)
		}
	}
}

// A refusal by a quota, which storage decides, counts as the plugin's, as in Kubernetes.
func TestQuotaRefusalIsCounted(t *testing.T) {
	refusals := func() (plugin, phase uint64) {
		families := shown(t)
		count := func(family, name string) (n uint64) {
			for _, m := range families[family].GetMetric() {
				labels := map[string]string{}
				for _, l := range m.Label {
					labels[l.GetName()] = l.GetValue()
				}
				if labels["name"] == name && labels["type"] == "validate" && labels["operation"] == "CREATE" &&
					labels["rejected"] == "true" {
					n += m.GetHistogram().GetSampleCount()
				}
			}
			return n
		}
		return count("apiserver_admission_controller_admission_duration_seconds", "ResourceQuota"),
			count("apiserver_admission_step_admission_duration_seconds", "")
	}
	ns := namespace(t)
	if _, err := client.CoreV1().ResourceQuotas(ns).Create(t.Context(), &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "none"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"secrets": resource.MustParse("0")}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	plugin, phase := refusals()
	_, err := client.CoreV1().Secrets(ns).Create(t.Context(),
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "one"}}, metav1.CreateOptions{})
	if !apierrors.IsForbidden(err) {
		t.Fatalf("the Secret isn't refused: %v", err)
	}
	if p, s := refusals(); p != plugin+1 || s <= phase {
		t.Errorf("refusals of the plugin went from %d to %d, of the phase from %d to %d", plugin, p, phase, s)
	}
}
