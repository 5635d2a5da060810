// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"gatehouse.dev/test/peers"
)

// A feature is something that a cluster has, and that each creation of a pod has to do with or not.
type feature struct {
	name string
	// install makes it, and returns when it is in force.
	install func(ctx context.Context, client kubernetes.Interface, hook *yesWebhook) error
}

// features are measured one after the other, on servers of their own.
var features = []feature{
	{"nothing but the plugins", func(context.Context, kubernetes.Interface, *yesWebhook) error { return nil }},
	{"a webhook", installWebhooks(1, nil)},
	{"10 webhooks", installWebhooks(10, nil)},
	{"100 webhooks, excluded by a condition", installWebhooks(100, func(i int, w *admissionregistrationv1.ValidatingWebhook) {
		w.MatchConditions = []admissionregistrationv1.MatchCondition{{Name: "not-this-one",
			Expression: fmt.Sprintf("object.metadata.name == 'this-%d'", i)}}
	})},
	{"100 webhooks, excluded by a selector", installWebhooks(100, func(i int, w *admissionregistrationv1.ValidatingWebhook) {
		w.ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": fmt.Sprint(i)}}
	})},
	{"1,000 webhooks for other kinds", installWebhooks(1000, func(i int, w *admissionregistrationv1.ValidatingWebhook) {
		w.Rules[0].APIGroups, w.Rules[0].Resources = []string{"example.com"}, []string{fmt.Sprint("kind", i)}
	})},
	{"a quota", func(ctx context.Context, client kubernetes.Interface, _ *yesWebhook) error {
		return installQuota(ctx, client)
	}},
	{"100 policies", func(ctx context.Context, client kubernetes.Interface, _ *yesWebhook) error {
		if err := runParallel(ctx, 100,
			func(i int) error { return createValidatingPolicy(ctx, client, i, "pods", trueExpression(i), nil, "") }); err != nil {
			return err
		}
		return awaitPolicies(ctx, client)
	}},
}

// yesWebhook is the backend of all webhooks: a process that says yes.
type yesWebhook struct {
	url string
	ca  []byte
}

// installWebhooks returns an install function for n webhooks about pods. change may alter each.
func installWebhooks(n int, change func(int, *admissionregistrationv1.ValidatingWebhook)) func(context.Context,
	kubernetes.Interface, *yesWebhook) error {
	return func(ctx context.Context, client kubernetes.Interface, hook *yesWebhook) error {
		one := func(name string, i int) admissionregistrationv1.ValidatingWebhook {
			return admissionregistrationv1.ValidatingWebhook{
				Name: fmt.Sprintf("%s-%d.bench.example.com", name, i),
				ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: ptr.To(hook.url + "/" + validate),
					CABundle: hook.ca},
				Rules: []admissionregistrationv1.RuleWithOperations{
					matchResource("pods").ResourceRules[0].RuleWithOperations},
				SideEffects:             ptr.To(admissionregistrationv1.SideEffectClassNone),
				AdmissionReviewVersions: []string{"v1"},
			}
		}
		all := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "bench"}}
		for i := range n {
			w := one("yes", i)
			if change != nil {
				change(i, &w)
			}
			all.Webhooks = append(all.Webhooks, w)
		}
		// The last one refuses a pod that nobody makes, once it is in force.
		probe := one("probe", 0)
		probe.ClientConfig.URL = ptr.To("https://127.0.0.1:1/")
		probe.MatchConditions = []admissionregistrationv1.MatchCondition{{Name: "probe",
			Expression: "object.metadata.name == 'probe'"}}
		all.Webhooks = append(all.Webhooks, probe)
		if _, err := client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(ctx, all,
			metav1.CreateOptions{}); err != nil {
			return err
		}
		return awaitRefusal(ctx, client, probe.Name)
	}
}

// installQuota makes a quota that is never reached. It writes the status too: kube-apiserver has no
// controller here that would, and enforces what is in the status.
func installQuota(ctx context.Context, client kubernetes.Interface) error {
	quotas := client.CoreV1().ResourceQuotas(namespace)
	limits := corev1.ResourceList{corev1.ResourcePods: resource.MustParse("1M"),
		corev1.ResourceRequestsCPU: resource.MustParse("1M")}
	made, err := quotas.Create(ctx, &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "bench"},
		Spec: corev1.ResourceQuotaSpec{Hard: limits}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	made.Status = corev1.ResourceQuotaStatus{Hard: limits,
		Used: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0"),
			corev1.ResourceRequestsCPU: resource.MustParse("0")}}
	_, err = quotas.UpdateStatus(ctx, made, metav1.UpdateOptions{})
	if err == nil || !strings.Contains(err.Error(), "the object has been modified") {
		return err
	}
	return nil // Gatehouse's controller has been faster
}

// awaitRefusal waits until the pod named probe is refused with these words.
func awaitRefusal(ctx context.Context, client kubernetes.Interface, words string) error {
	for {
		_, err := client.CoreV1().Pods(namespace).Create(ctx, newPod("probe"),
			metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil && strings.Contains(err.Error(), words) {
			return nil
		}
		if err := sleep(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
}

// measureFeatures starts both servers for each feature and gives each its batches in turn, in an
// order that changes from round to round. The table has the worst ratio first.
func measureFeatures(ctx context.Context, o options, bin string) (string, error) {
	hook, stop, err := startYesWebhook(ctx, bin)
	if err != nil {
		return "", err
	}
	defer stop()
	var rows []featureRow
	for _, f := range features {
		more, err := measureFeature(ctx, o, bin, f, hook)
		if err != nil {
			return "", fmt.Errorf("%s: %w", f.name, err)
		}
		rows = append(rows, more...)
	}
	slices.SortStableFunc(rows, func(a, b featureRow) int { return cmp.Compare(a.times.median(), b.times.median()) })
	var b strings.Builder
	fmt.Fprintf(&b, "| | %s | %s | times as fast |\n| --- | ---: | ---: | ---: |\n", subjects[gatehouse].name,
		subjects[kubernetesPeer].name)
	for _, row := range rows {
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", row.name, row.ours.show(row.digits, row.unit),
			row.theirs.show(row.digits, row.unit), row.times.show(2, ""))
	}
	return b.String(), nil
}

// featureRow is a row of the table; times is how many times as fast Gatehouse was in each round.
type featureRow struct {
	name, unit          string
	digits              int
	ours, theirs, times samples
}

func startYesWebhook(ctx context.Context, bin string) (*yesWebhook, func(), error) {
	dir, err := os.MkdirTemp(bin, "yes-")
	if err != nil {
		return nil, nil, err
	}
	port, err := peers.FreePort()
	if err != nil {
		return nil, nil, err
	}
	p, err := startBare(ctx, dir, port)
	if err != nil {
		return nil, nil, err
	}
	ca, err := os.ReadFile(filepath.Join(dir, caFile))
	return &yesWebhook{url: "https://127.0.0.1:" + port, ca: ca}, p.Stop, err
}

func measureFeature(ctx context.Context, o options, bin string, f feature, hook *yesWebhook) ([]featureRow, error) {
	measured := []int{gatehouse, kubernetesPeer}
	var loads []*load
	for _, s := range measured {
		dir, err := os.MkdirTemp(bin, "features-")
		if err != nil {
			return nil, err
		}
		defer os.RemoveAll(dir)
		server, err := start(ctx, subjects[s], bin, dir)
		if err != nil {
			return nil, err
		}
		defer server.Stop()
		l := &load{server: server}
		loads = append(loads, l)
		if err := l.prepare(ctx); err != nil {
			return nil, err
		}
		if err := f.install(ctx, l.clients[0], hook); err != nil {
			return nil, err
		}
		if _, err := l.create(ctx, manyClients, warmUp); err != nil { // compiles what it takes
			return nil, err
		}
	}
	one := featureRow{name: f.name + ": a create, p50", unit: " ms", digits: 2}
	many := featureRow{name: fmt.Sprintf("%s: creates/s, %d clients", f.name, manyClients)}
	for round := range o.rounds {
		var lone, all [2]batch
		for turn := range measured {
			i := (round + turn) % len(measured)
			var err error
			if lone[i], err = loads[i].create(ctx, 1, o.pods/10); err != nil {
				return nil, err
			}
			if all[i], err = loads[i].createProfiled(ctx, o, fmt.Sprintf("%s-%d", f.name, i), o.pods); err != nil {
				return nil, err
			}
			progress("features %d of %d: %-40s %-24s %.2f ms, %.0f/s", round+1, o.rounds, f.name,
				subjects[measured[i]].name, milliseconds(lone[i].p50), all[i].rate)
		}
		one.ours = append(one.ours, milliseconds(lone[0].p50))
		one.theirs = append(one.theirs, milliseconds(lone[1].p50))
		many.ours, many.theirs = append(many.ours, all[0].rate), append(many.theirs, all[1].rate)
	}
	one.times, many.times = one.theirs.ratiosTo(one.ours), many.ours.ratiosTo(many.theirs)
	return []featureRow{one, many}, nil
}
