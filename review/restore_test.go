// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package review_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"gatehouse.dev/internal/review/input"
	"gatehouse.dev/plugins"
	"gatehouse.dev/review"
	"gatehouse.dev/server"
)

// What each turn writes is undone before the next, and nothing goes by it any more: a namespace
// that is restricted, params that are gone, params that are new, what a quota counts, a LimitRange.
func TestRestore(t *testing.T) {
	r := started(t, shop, `
kind: ResourceQuota
apiVersion: v1
metadata: {name: q, namespace: shop}
spec: {hard: {pods: '2'}}
`, `
kind: ConfigMap
apiVersion: v1
metadata: {name: names, namespace: shop, labels: {params: "yes"}}
data: {prefix: web}
`, `
kind: ValidatingAdmissionPolicy
apiVersion: admissionregistration.k8s.io/v1
metadata: {name: names}
spec:
  paramKind: {apiVersion: v1, kind: ConfigMap}
  matchConstraints:
    resourceRules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [pods]}]
  validations: [{expression: object.metadata.name.startsWith(params.data.prefix)}]
---
kind: ValidatingAdmissionPolicyBinding
apiVersion: admissionregistration.k8s.io/v1
metadata: {name: names}
spec:
  policyName: names
  validationActions: [Deny]
  paramRef: {selector: {matchLabels: {params: "yes"}}, parameterNotFoundAction: Deny}
`)
	judge := func(r *review.Reviewer, texts ...string) string {
		t.Helper()
		done, err := r.Review(t.Context(), documents(t, texts...), nil)
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for i := range done.Results {
			result := string(done.Results[i].Verdict)
			if d := done.Results[i].Decision; d != nil && d.By != "" {
				result += " by " + d.By
			}
			all = append(all, result)
		}
		return strings.Join(all, ", ")
	}
	mark, err := r.Mark(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	pod := func(name string) string {
		return "kind: Pod\napiVersion: v1\nmetadata: {name: " + name + ", namespace: shop}\n" +
			"spec: {containers: [{name: c, image: i}]}\n"
	}
	restricted := strings.Replace(shop, "shop}", "shop, labels: {pod-security.kubernetes.io/enforce: restricted}}", 1)
	params := "kind: ConfigMap\napiVersion: v1\nmetadata: {name: names, namespace: shop}\n"
	other := "kind: ConfigMap\napiVersion: v1\nmetadata: {name: more, namespace: shop, labels: {params: 'yes'}}\n" +
		"data: {prefix: db}\n"
	limits := "kind: LimitRange\napiVersion: v1\nmetadata: {name: l, namespace: shop}\n" +
		"spec: {limits: [{type: Pod, min: {cpu: '1'}}]}\n"
	for range 3 {
		for _, turn := range []struct {
			reviewer *review.Reviewer
			texts    []string
			want     string
		}{
			{r, []string{pod("web1"), pod("web2"), pod("web3")}, "Admitted, Admitted, Refused by ResourceQuota"},
			{r, []string{restricted, pod("web")}, "Admitted, Refused by PodSecurity"},
			{r.With(nil, review.Delete), []string{params}, "Admitted"},
			{r, []string{pod("db")}, "Refused by ValidatingAdmissionPolicy"},
			{r, []string{other, pod("db")}, "Admitted, Refused by ValidatingAdmissionPolicy"},
			{r, []string{limits, pod("web")}, "Admitted, Refused by LimitRanger"},
		} {
			if got := judge(turn.reviewer, turn.texts...); got != turn.want {
				t.Errorf("%q: %s, want %s", turn.texts, got, turn.want)
			}
			if err := r.Restore(t.Context(), mark); err != nil {
				t.Fatal(err)
			}
			if got := judge(r, pod("web1"), pod("web2")); got != "Admitted, Admitted" {
				t.Errorf("after %q was undone: %s", turn.texts, got)
			}
			if err := r.Restore(t.Context(), mark); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got := judge(r, definition); got != "Admitted" {
		t.Error(got)
	}
	if err := r.Restore(t.Context(), mark); !errors.Is(err, review.ErrNotRestored) {
		t.Errorf("a definition was undone: %v", err)
	}
}

// A Lease that servers know of each other by stays, and what was deleted besides comes back all the
// same.
func TestRestoreBesideServers(t *testing.T) {
	const here = "kind: Pod\napiVersion: v1\nmetadata: {name: here, namespace: shop}\n" +
		"spec: {containers: [{name: c, image: i}]}\n"
	r := started(t, shop, here)
	mark, err := r.Mark(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	const lease = "kind: Lease\napiVersion: coordination.k8s.io/v1\n" +
		"metadata: {name: apiserver-of-another, namespace: kube-system}\n"
	for turn, text := range []string{lease, deletion("here", ""), deletion("here", "")} {
		done, err := r.Review(t.Context(), documents(t, text), nil)
		if err != nil {
			t.Fatal(err)
		}
		if message := done.Results[0].Message; message != "" {
			t.Errorf("turn %d: %s", turn, message)
		}
		if err := r.Restore(t.Context(), mark); err != nil {
			t.Fatal(err)
		}
	}
}

const definition = `
kind: CustomResourceDefinition
apiVersion: apiextensions.k8s.io/v1
metadata: {name: gates.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: gates, kind: Gate}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
`

// started has pods, and the state that the texts say.
func started(t *testing.T, state ...string) *review.Reviewer {
	t.Helper()
	r, err := review.Start(context.WithoutCancel(t.Context()), review.Options{Config: server.NewConfig(plugins.List),
		Pods: true, State: documents(t, state...)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func documents(t *testing.T, texts ...string) []input.Document {
	t.Helper()
	documents, errs := input.Read([]string{"-"}, strings.NewReader(strings.Join(texts, "---\n")))
	if errs != nil {
		t.Fatal(errs)
	}
	return documents
}
