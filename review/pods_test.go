// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package review_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
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
