// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
)

// policyCreates is how many pods one client makes in a batch, with policies.
const policyCreates = 100

// A policyCase is some policies, of which all say yes.
type policyCase struct {
	name string
	// install makes them.
	install func(ctx context.Context, client kubernetes.Interface) error
}

// policyCases are measured one after the other, on servers of their own.
var policyCases = []policyCase{
	{"no policies", func(context.Context, kubernetes.Interface) error { return nil }},
	{"100 policies on pods", func(ctx context.Context, client kubernetes.Interface) error {
		return runParallel(ctx, 100, func(i int) error {
			return createValidatingPolicy(ctx, client, i, "pods", trueExpression(i), nil, "")
		})
	}},
	{"1,024 bindings of one policy", func(ctx context.Context, client kubernetes.Interface) error {
		if err := createValidatingPolicy(ctx, client, 0, "pods", trueExpression(0), nil, ""); err != nil {
			return err
		}
		return runParallel(ctx, 1023,
			func(i int) error { return createBinding(ctx, client, fmt.Sprint("more-", i), "policy-0", nil) })
	}},
	{"1,024 params of one policy", func(ctx context.Context, client kubernetes.Interface) error {
		if err := runParallel(ctx, 1024, func(i int) error {
			_, err := client.CoreV1().ConfigMaps(namespace).Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
				Name: fmt.Sprint("param-", i), Labels: map[string]string{"param": "true"}},
				Data: map[string]string{"max": "3"}},
				metav1.CreateOptions{})
			return err
		}); err != nil {
			return err
		}
		return createValidatingPolicy(ctx, client, 0, "pods", "size(object.spec.containers) <= int(params.data.max)",
			&admissionregistrationv1.ParamKind{APIVersion: "v1", Kind: "ConfigMap"}, "param")
	}},
	{"2,000 policies that can't match", func(ctx context.Context, client kubernetes.Interface) error {
		return runParallel(ctx, 2000, func(i int) error {
			return createValidatingPolicy(ctx, client, i, "replicationcontrollers", trueExpression(i), nil, "")
		})
	}},
	{"20 mutating policies that set a label", func(ctx context.Context, client kubernetes.Interface) error {
		return runParallel(ctx, 20, func(i int) error { return createMutatingPolicy(ctx, client, i) })
	}},
	{"1,000 policies, no two alike", func(ctx context.Context, client kubernetes.Interface) error {
		return runParallel(ctx, 1000, func(i int) error {
			return createValidatingPolicy(ctx, client, i, "pods", trueExpression(i), nil, "")
		})
	}},
	{"1,000 policies, all alike", func(ctx context.Context, client kubernetes.Interface) error {
		return runParallel(ctx, 1000, func(i int) error {
			return createValidatingPolicy(ctx, client, i, "pods", trueExpression(0), nil, "")
		})
	}},
}

// trueExpression returns an expression that holds for every pod. No two are alike.
func trueExpression(i int) string { return fmt.Sprintf("object.metadata.name != 'not-this-%d'", i) }

// runParallel calls do n times, several at a time.
func runParallel(ctx context.Context, n int, do func(int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for i := next.Add(1) - 1; i < int64(n) && ctx.Err() == nil; i = next.Add(1) - 1 {
				if err := do(int(i)); err != nil {
					cancel(err)
				}
			}
		})
	}
	group.Wait()
	return context.Cause(ctx)
}

func matchResource(resource string) *admissionregistrationv1.MatchResources {
	group := ""
	return &admissionregistrationv1.MatchResources{
		ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
			RuleWithOperations: admissionregistrationv1.RuleWithOperations{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule: admissionregistrationv1.Rule{APIGroups: []string{group}, APIVersions: []string{"v1"},
					Resources: []string{resource}},
			}}},
	}
}

// createValidatingPolicy makes a policy and its binding. If kind is not nil, the binding selects
// params by paramLabel.
func createValidatingPolicy(ctx context.Context, client kubernetes.Interface, i int, resource, expression string,
	kind *admissionregistrationv1.ParamKind, paramLabel string) error {
	name := fmt.Sprint("policy-", i)
	if _, err := client.AdmissionregistrationV1().ValidatingAdmissionPolicies().Create(ctx,
		&admissionregistrationv1.ValidatingAdmissionPolicy{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{MatchConstraints: matchResource(resource), ParamKind: kind,
				Validations: []admissionregistrationv1.Validation{{Expression: expression}}},
		}, metav1.CreateOptions{}); err != nil {
		return err
	}
	var ref *admissionregistrationv1.ParamRef
	if kind != nil {
		ref = &admissionregistrationv1.ParamRef{ParameterNotFoundAction: ptr.To(admissionregistrationv1.DenyAction),
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{paramLabel: "true"}}}
	}
	return createBinding(ctx, client, name, name, ref)
}

func createBinding(ctx context.Context, client kubernetes.Interface, name, policy string,
	ref *admissionregistrationv1.ParamRef) error {
	_, err := client.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Create(ctx,
		&admissionregistrationv1.ValidatingAdmissionPolicyBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: policy, ParamRef: ref,
				ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny}},
		}, metav1.CreateOptions{})
	return err
}

func createMutatingPolicy(ctx context.Context, client kubernetes.Interface, i int) error {
	name := fmt.Sprint("policy-", i)
	api := client.AdmissionregistrationV1()
	if _, err := api.MutatingAdmissionPolicies().Create(ctx, &admissionregistrationv1.MutatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionregistrationv1.MutatingAdmissionPolicySpec{
			MatchConstraints: matchResource("pods"), ReinvocationPolicy: admissionregistrationv1.NeverReinvocationPolicy,
			Mutations: []admissionregistrationv1.Mutation{{
				PatchType: admissionregistrationv1.PatchTypeApplyConfiguration,
				ApplyConfiguration: &admissionregistrationv1.ApplyConfiguration{
					Expression: fmt.Sprintf("Object{metadata: Object.metadata{labels: {'label-%d': 'x'}}}", i)},
			}},
		}}, metav1.CreateOptions{}); err != nil {
		return err
	}
	_, err := api.MutatingAdmissionPolicyBindings().Create(ctx, &admissionregistrationv1.MutatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       admissionregistrationv1.MutatingAdmissionPolicyBindingSpec{PolicyName: name}},
		metav1.CreateOptions{})
	return err
}

// awaitPolicies makes one more policy, which refuses the pod named probe, and waits until it does.
// Policies that were made earlier are in force then, too.
func awaitPolicies(ctx context.Context, client kubernetes.Interface) error {
	if err := createValidatingPolicy(ctx, client, 9999, "pods", "object.metadata.name != 'probe'", nil, ""); err != nil {
		return err
	}
	return awaitProbe(ctx, client)
}

func awaitProbe(ctx context.Context, client kubernetes.Interface) error {
	return awaitRefusal(ctx, client, "ValidatingAdmissionPolicy 'policy-9999'")
}

// policyFigures are a subject's with one policyCase.
type policyFigures struct {
	p50 samples // ms
	rss samples // MB
	// again is how long it takes from a start until the policies are in force, in seconds.
	again samples
}

// measurePolicies starts a server for each case, round and subject, and has one client make pods.
// Between the subjects of a round only the server differs.
func measurePolicies(ctx context.Context, o options, bin string) (string, error) {
	measured := []int{gatehouse, kubernetesPeer}
	all := make([][]policyFigures, len(policyCases))
	for c, policies := range policyCases {
		all[c] = make([]policyFigures, len(subjects))
		for round := range o.rounds {
			for _, s := range measured {
				if err := measurePolicyCase(ctx, subjects[s], policies, bin, &all[c][s]); err != nil {
					return "", fmt.Errorf("%s, %s: %w", subjects[s].name, policies.name, err)
				}
				f := &all[c][s]
				progress("policies %d of %d: %-24s %-40s %.2f ms, %.0f MB, in force after %.2f s", round+1, o.rounds,
					subjects[s].name, policies.name, f.p50[round], f.rss[round], f.again[round])
			}
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "| policies | %s | %s |\n| --- | ---: | ---: |\n", subjects[gatehouse].name, subjects[kubernetesPeer].name)
	row := func(name string, cell func(s int) string) {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", name, cell(gatehouse), cell(kubernetesPeer))
	}
	for c, policies := range policyCases {
		row(policies.name+": a create, p50", func(s int) string { return all[c][s].p50.show(2, " ms") })
		row("… over none", func(s int) string { return all[c][s].p50.differencesFrom(all[0][s].p50).show(2, " ms") })
		row("… memory, RSS, over none", func(s int) string {
			return all[c][s].rss.differencesFrom(all[0][s].rss).show(0, " MB")
		})
		row("… in force after a start", func(s int) string { return all[c][s].again.show(2, " s") })
	}
	return b.String(), nil
}

func measurePolicyCase(ctx context.Context, s subject, policies policyCase, bin string, f *policyFigures) error {
	dir, err := os.MkdirTemp(bin, "policies-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	server, err := start(ctx, s, bin, dir)
	if err != nil {
		return err
	}
	defer func() { server.Stop() }()
	l := &load{server: server}
	if err := l.prepare(ctx); err != nil {
		return err
	}
	if err := policies.install(ctx, l.clients[0]); err != nil {
		return err
	}
	if err := awaitPolicies(ctx, l.clients[0]); err != nil {
		return err
	}
	if _, err := l.create(ctx, 1, policyCreates); err != nil { // compiles what it takes
		return err
	}
	made, err := l.create(ctx, 1, policyCreates)
	if err != nil {
		return err
	}
	m, err := memoryOf(server.Processes...)
	if err != nil {
		return err
	}
	server.Stop()
	begin := time.Now()
	if server, err = start(ctx, s, bin, dir); err != nil {
		return err
	}
	client, err := newClient(server.Config)
	if err != nil {
		return err
	}
	if err := awaitProbe(ctx, client); err != nil {
		return err
	}
	f.again = append(f.again, time.Since(begin).Seconds())
	f.p50, f.rss = append(f.p50, milliseconds(made.p50)), append(f.rss, m.rss)
	return nil
}

// differencesFrom returns the differences of values with the same index.
func (s samples) differencesFrom(base samples) samples {
	differences := slices.Clone(s)
	for i := range differences {
		differences[i] -= base[i]
	}
	return differences
}
