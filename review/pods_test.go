// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package review_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gatehouse.dev/review"
)

// A workload that makes no pods says why, and one whose claims are there makes no others.
func TestNoPods(t *testing.T) {
	const template = "template: {metadata: {labels: {app: web}}, spec: {restartPolicy: Always, containers: " +
		"[{name: c, image: c}]}}\n"
	const once = "template: {spec: {restartPolicy: Never, containers: [{name: c, image: c}]}}\n"
	workload := func(kind, version, spec string) string {
		return "kind: " + kind + "\napiVersion: " + version + "\nmetadata: {name: web, namespace: shop}\n" +
			"spec:\n  " + spec
	}
	selector := "selector: {matchLabels: {app: web}}\n  "
	finished := workload("Job", "batch/v1", once)
	for name, test := range map[string]struct {
		state []string
		input string
		want  string // below the object
	}{
		"paused": {nil, workload("Deployment", "apps/v1", "paused: true\n  "+selector+template),
			"no pods: it is paused"},
		"no node fits": {[]string{nodes}, workload("DaemonSet", "apps/v1", selector+strings.Replace(template,
			"restartPolicy", "nodeSelector: {disk: tape}, restartPolicy", 1)),
			"no pods: its nodeName, nodeSelector, affinity and tolerations fit none of the nodes (3)"},
		"suspended": {nil, workload("Job", "batch/v1", "suspend: true\n  "+once), "no pods: it is suspended"},
		"a CronJob that is suspended": {nil, workload("CronJob", "batch/v1",
			"suspend: true\n  schedule: '@daily'\n  jobTemplate: {spec: {"+strings.TrimSpace(once)+"}}\n"),
			"no pods: it is suspended"},
		"of another controller": {nil, workload("Job", "batch/v1", "managedBy: example.com/c\n  "+once),
			"no pods: its controller is example.com/c"},
		"finished": {[]string{finished + "status:\n  succeeded: 1\n  startTime: '2026-01-01T00:00:00Z'\n" +
			"  completionTime: '2026-01-01T00:01:00Z'\n  conditions:\n" +
			"  - {type: SuccessCriteriaMet, status: 'True'}\n  - {type: Complete, status: 'True'}\n"}, finished,
			"no pods: it has finished"},
		"of claims that are there": {[]string{`
kind: ResourceQuota
apiVersion: v1
metadata: {name: q, namespace: shop}
spec: {hard: {persistentvolumeclaims: "1"}}
status: {hard: {persistentvolumeclaims: "1"}, used: {persistentvolumeclaims: "1"}}
`, "kind: PersistentVolumeClaim\napiVersion: v1\nmetadata: {name: data-web-0, namespace: shop}\n" +
			"spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}\n"},
			workload("StatefulSet", "apps/v1", "replicas: 2\n  volumeClaimTemplates:\n"+
				"  - metadata: {name: data}\n"+
				"    spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}\n  "+
				selector+template),
			"1 of 2 pods would start, then: by ResourceQuota: persistentvolumeclaims \"data-web-1\" is " +
				"forbidden: exceeded quota: q, requested: persistentvolumeclaims=1, used: " +
				"persistentvolumeclaims=1, limited: persistentvolumeclaims=1"},
	} {
		t.Run(name, func(t *testing.T) {
			output := judged(t, append([]string{shop}, test.state...), []string{test.input}, nil)
			_, below, _ := strings.Cut(output, "\n")
			line, _, _ := strings.Cut(below, "\n")
			if diff := cmp.Diff(test.want, strings.TrimSpace(line)); diff != "" {
				t.Errorf("-want +got:\n%s%s", diff, output)
			}
		})
	}
}

// The claims that controllers make for a pod are judged with it: those of ephemeral volumes, and those that it
// has a template for.
func TestClaimsOfPods(t *testing.T) {
	state := []string{shop, `
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu.example.com}
spec: {}
`, `
apiVersion: v1
kind: ResourceQuota
metadata: {name: q, namespace: shop}
spec: {hard: {gpu.example.com.deviceclass.resource.k8s.io/devices: "2", requests.storage: 2Gi}}
`}
	const template = `
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: one, namespace: shop}
spec: {spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu.example.com}}]}}}
`
	pod := func(name, spec string) string {
		return "apiVersion: v1\nkind: Pod\nmetadata: {name: " + name + ", namespace: shop}\nspec: " + spec + "\n"
	}
	claiming := func(template string) string {
		return `{resourceClaims: [{name: g, resourceClaimTemplateName: ` + template + `}],
  containers: [{name: c, image: i, resources: {claims: [{name: g}]}}]}`
	}
	volume := func(size string) string {
		return `{containers: [{name: c, image: i}], volumes: [{name: v, ephemeral: {volumeClaimTemplate: {
  spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: ` + size + `}}}}}}]}`
	}
	for name, test := range map[string]struct {
		input []string
		want  []string // on the lines in this order
	}{
		"of a workload": {[]string{"apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: train, namespace: shop}\n" +
			"spec:\n  replicas: 3\n  selector: {matchLabels: {a: t}}\n  template:\n    metadata: {labels: {a: t}}\n" +
			"    spec: " + claiming("one") + "\n", template}, []string{"refused", "2 of 3 pods would start, then: by ResourceQuota: " +
			`resourceclaims.resource.k8s.io "train-`, "exceeded quota: q, requested: " +
			"gpu.example.com.deviceclass.resource.k8s.io/devices=1", "1 admitted, 1 refused, 0 failed"}},
		"of a pod": {[]string{template, pod("p", claiming("one"))}, []string{"2 admitted, 0 refused, 0 failed"}},
		"no template": {[]string{pod("p", claiming("none"))}, []string{"refused", `it would not start: its resource claim "g" ` +
			`needs the ResourceClaimTemplate "none" of namespace shop, which isn't there`}},
		"a volume with room": {[]string{pod("p", volume("2Gi"))}, []string{"1 admitted, 0 refused"}},
		"a volume": {[]string{pod("p", volume("9Gi"))}, []string{"refused", "it would not start: by ResourceQuota: " +
			`persistentvolumeclaims "p-v" is forbidden: exceeded quota: q, requested: requests.storage=9Gi`}},
	} {
		t.Run(name, func(t *testing.T) {
			output := judged(t, state, test.input, nil)
			rest := output
			for _, want := range test.want {
				_, after, found := strings.Cut(rest, want)
				if !found {
					t.Fatalf("no %q in\n%s", want, output)
				}
				rest = after
			}
		})
	}
}

// A workload shows what is changed in the first of its pods.
func TestChangesInPods(t *testing.T) {
	judged, err := started(t).Review(t.Context(), documents(t, `{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {
replicas: 2, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	for changes, want := range map[bool]int{true: 1, false: 0} {
		var out strings.Builder
		if err := (review.Print{Changes: changes}).Write(&out, judged, ""); err != nil {
			t.Fatal(err)
		}
		const change = "          changed in its pods by Priority:\n          + spec.priority: 0\n"
		if got := strings.Count(out.String(), change); got != want {
			t.Errorf("with %t it is shown %d times in\n%s", changes, got, &out)
		}
	}
}
