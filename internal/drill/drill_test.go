// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package drill_test

import (
	"slices"
	"strings"
	"testing"

	"gatehouse.dev/internal/drill"
	"gatehouse.dev/internal/lint"
	"gatehouse.dev/internal/review/input"
)

// cluster has a webhook server, an application and DNS.
const cluster = `
{apiVersion: v1, kind: Namespace, metadata: {name: guard}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: shop, labels: {team: shop}}}
---
{apiVersion: v1, kind: Service, metadata: {name: guard, namespace: guard}, spec: {selector: {app: guard}, ports: [{port: 443}]}}
---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: guard, namespace: guard}, spec: {selector: {matchLabels: {app: guard}},
template: {metadata: {labels: {app: guard}}, spec: {containers: [{name: guard, image: guard}]}}}}
---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: shop}, spec: {selector: {matchLabels: {app: web}},
template: {metadata: {labels: {app: web}}, spec: {containers: [{name: web, image: web}]}}}}
---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: coredns, namespace: kube-system}, spec: {selector: {matchLabels: {app: dns}},
template: {metadata: {labels: {app: dns}}, spec: {containers: [{name: dns, image: dns}]}}}}
---
`

// hook returns a validating configuration with a webhook of the Service guard.
func hook(name, fields string) string {
	return `{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: ` + name + `},
webhooks: [{name: ` + name + `.example.com, sideEffects: None, admissionReviewVersions: [v1],
clientConfig: {service: {namespace: guard, name: guard}}, ` + fields + `}]}
---
`
}

const (
	pods       = `rules: [{apiGroups: [""], apiVersions: [v1], resources: [pods], operations: [CREATE]}]`
	everything = `rules: [{apiGroups: ["*"], apiVersions: ["*"], resources: ["*"], operations: ["*"]}]`
	notOwn     = `, namespaceSelector: {matchExpressions: [{key: kubernetes.io/metadata.name, operator: NotIn, values: [guard, kube-system]}]}`
)

func run(t *testing.T, text string, down ...string) *drill.Report {
	t.Helper()
	reader := &input.Reader{Stdin: strings.NewReader(text)}
	documents, errs := reader.Read(t.Context(), []string{"-"})
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	report, err := drill.Run(t.Context(), drill.Options{Documents: documents, Namespace: "default", Down: down})
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// areasOf returns the names of areas.
func areasOf(areas []drill.Area) (names []string) {
	for _, a := range areas {
		names = append(names, a.Name)
	}
	return names
}

// The rules, the selectors and failurePolicy decide which writes stop, and whether the backend heals.
func TestOutages(t *testing.T) {
	for _, test := range []struct {
		name, hooks  string
		stops, waits []string
		heals        drill.Heals
		code         int
	}{
		{"its own pods under Fail", hook("a", pods), []string{"kube-system", "guard", "shop"}, nil, drill.No, 1},
		{"its own namespace excluded", hook("a", pods+notOwn), []string{"shop"}, nil, drill.Yes, 0},
		{"everything under Fail", hook("a", everything), []string{"nodes", "events", "kube-system", "guard", "shop"}, nil,
			drill.No, 1},
		{"everything under Ignore", hook("a", everything+", failurePolicy: Ignore, timeoutSeconds: 5"), nil,
			[]string{"nodes", "events", "kube-system", "guard", "shop"}, drill.Yes, 0},
		{"timeouts under Ignore that add up", strings.ReplaceAll(hook("a", pods+notOwn+", failurePolicy: Ignore, timeoutSeconds: 20")+
			hook("b", pods+notOwn+", failurePolicy: Ignore, timeoutSeconds: 20"), "Validating", "Mutating"), []string{"shop"}, nil,
			drill.Yes, 0},
		{"timeouts under Ignore at the same time", hook("a", pods+notOwn+", failurePolicy: Ignore, timeoutSeconds: 20") +
			hook("b", pods+notOwn+", failurePolicy: Ignore, timeoutSeconds: 20"), nil, []string{"shop"}, drill.Yes, 0},
		{"a selector of one namespace", hook("a", pods+", namespaceSelector: {matchLabels: {team: shop}}"), []string{"shop"}, nil,
			drill.Yes, 0},
		{"a condition that leaves its pods out", hook("a", pods+`, matchConditions: [{name: other, expression: "request.namespace == 'shop'"}]`),
			[]string{"shop"}, nil, drill.Yes, 0},
		{"leases alone", hook("a", `rules: [{apiGroups: [coordination.k8s.io], apiVersions: [v1], resources: [leases], operations: [UPDATE]}]`),
			[]string{"nodes"}, nil, drill.No, 1},
		{"nothing that is tried", hook("a", `rules: [{apiGroups: [example.com], apiVersions: [v1], resources: [crons], operations: [CREATE]}]`),
			nil, nil, drill.Yes, 0},
		{"outside the cluster", strings.Replace(hook("a", pods), "service: {namespace: guard, name: guard}",
			"url: 'https://guard.example.com/x'", 1), []string{"kube-system", "guard", "shop"}, nil, drill.Unknown, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			report := run(t, cluster+test.hooks)
			if len(report.Outages) != 1 {
				t.Fatalf("%d outages", len(report.Outages))
			}
			o := report.Outages[0]
			if !slices.Equal(areasOf(o.Stops), test.stops) || !slices.Equal(areasOf(o.Waits), test.waits) || o.Heals != test.heals {
				t.Errorf("stops %v, waits %v, heals %s: %+v", areasOf(o.Stops), areasOf(o.Waits), o.Heals, o.Blocked)
			}
			if code := report.ExitCode(lint.Error); code != test.code {
				t.Errorf("it ends with %d", code)
			}
		})
	}
}

// Each backend is down alone, unless names say which are down together.
func TestDown(t *testing.T) {
	other := strings.Replace(hook("b", pods), "service: {namespace: guard, name: guard}", "url: 'https://guard.example.com/x'", 1)
	text := cluster + hook("a", pods+notOwn) + other
	if report := run(t, text); len(report.Outages) != 2 {
		t.Errorf("%d outages", len(report.Outages))
	}
	for _, name := range []string{"a", "a.example.com", "a/a.example.com", "guard/guard", "Service guard/guard"} {
		report := run(t, text, name)
		if len(report.Outages) != 1 || !slices.Equal(report.Outages[0].Backends, []string{"Service guard/guard"}) {
			t.Errorf("%s: %+v", name, report.Outages)
		}
	}
	report := run(t, text, "a", "https://guard.example.com")
	if len(report.Outages) != 1 || len(report.Outages[0].Backends) != 2 || report.Outages[0].Heals != drill.No {
		t.Errorf("%+v", report.Outages)
	}
	if _, err := drill.Run(t.Context(), drill.Options{Down: []string{"nobody"}}); err == nil ||
		!strings.Contains(err.Error(), `"nobody"`) {
		t.Errorf("an unknown name: %v", err)
	}
}

// A condition that can't be evaluated without the cluster counts as one that holds, and is told.
func TestUnsure(t *testing.T) {
	report := run(t, cluster+hook("a", pods+`, matchConditions: [{name: asks, expression: "authorizer.path('/x').check('get').allowed()"}]`))
	if len(report.Notes) == 0 || len(report.Outages[0].Stops) == 0 {
		t.Errorf("%+v", report)
	}
}

// The table has a line for each outage, and each that does something a paragraph with the way back.
func TestText(t *testing.T) {
	var text strings.Builder
	if err := run(t, cluster+hook("a", pods)).Write(&text, "", "v1"); err != nil {
		t.Fatal(err)
	}
	const want = `DOWN                 WEBHOOKS  STOPS                     HEALS BY ITSELF
Service guard/guard  1         kube-system, guard, shop  no

Service guard/guard is down
  webhooks a.example.com (Fail)
  stops    kube-system: the creation of pods of Deployment kube-system/coredns
           guard: the creation of pods of Deployment guard/guard
           shop: the creation of pods of Deployment shop/web
  heals    no: the creation of pods of Deployment guard/guard is refused by a.example.com
  way back kubectl delete validatingwebhookconfiguration/a, which no webhook can refuse

1 outage: 1 stops writes, 1 of these what the cluster can't do without, 1 doesn't end by itself
`
	if text.String() != want {
		t.Errorf("got:\n%s\nwant:\n%s", &text, want)
	}
	for _, format := range lint.Formats {
		text.Reset()
		if err := run(t, cluster+hook("a", pods)).Write(&text, format, "v1"); err != nil || !strings.Contains(text.String(), "guard") {
			t.Errorf("%s: %v\n%s", format, err, &text)
		}
	}
}
