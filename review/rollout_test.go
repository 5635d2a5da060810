// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package review_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Of a workload that runs, only the pods count that its update makes beside those that are there,
// or in place of them.
func TestRollouts(t *testing.T) {
	state := func(pods, cpu, used string) []string {
		return []string{shop, fmt.Sprintf(`
kind: ResourceQuota
apiVersion: v1
metadata: {name: q, namespace: shop}
spec: {hard: {pods: %[1]q, requests.cpu: %[2]q}}
status: {hard: {pods: %[1]q, requests.cpu: %[2]q}, used: {pods: "3", requests.cpu: %[3]q}}
`, pods, cpu, used), `
kind: LimitRange
apiVersion: v1
metadata: {name: l, namespace: shop}
spec: {limits: [{type: Container, defaultRequest: {cpu: 100m}}]}
`, deployment("web", 3) + "status: {replicas: 3}\n", `
kind: StatefulSet
apiVersion: apps/v1
metadata: {name: db, namespace: shop}
spec:
  replicas: 3
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec: {containers: [{name: db, image: postgres}]}
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
status: {replicas: 3}
`}
	}
	const noSurge = "  strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 0, maxUnavailable: 1}}\n"
	other := strings.Replace(deployment("web", 3), "nginx", "httpd", 1)
	set := strings.Replace(state("", "", "")[4], "postgres", "mysql", 1)
	for name, test := range map[string]struct {
		state []string
		input string
		want  string
	}{
		"as it was":     {state("3", "1", "300m"), deployment("web", 3), "admitted"},
		"fewer":         {state("3", "1", "300m"), deployment("web", 2), "admitted"},
		"one more":      {state("4", "1", "300m"), deployment("web", 4), "admitted"},
		"one too many":  {state("4", "1", "300m"), deployment("web", 5), "1 of 2 pods would start"},
		"others, surge": {state("4", "1", "300m"), other, "admitted"},
		"no room":       {state("3", "1", "300m"), other, "its pod would not start"},
		"no surge":      {state("3", "300m", "300m"), other + noSurge, "admitted"},
		"all anew":      {state("3", "300m", "300m"), other + "  strategy: {type: Recreate}\n", "admitted"},
		"larger, anew": {state("3", "500m", "300m"), strings.Replace(other, "image: httpd",
			"image: httpd, resources: {requests: {cpu: 200m}}", 1) + "  strategy: {type: Recreate}\n",
			"2 of 3 pods would start"},
		"of a set":       {state("3", "300m", "300m"), set, "admitted"},
		"of a set, more": {state("4", "1", "300m"), strings.Replace(set, "replicas: 3", "replicas: 4", 1), "admitted"},
	} {
		t.Run(name, func(t *testing.T) {
			got := judged(t, test.state, []string{test.input}, nil)
			lines := strings.Split(got, "\n")
			word, _, _ := strings.Cut(lines[0], " ")
			if word == "refused" {
				word, _, _ = strings.Cut(strings.TrimSpace(lines[1]), ":")
				word = strings.TrimSuffix(word, ", then")
			}
			if diff := cmp.Diff(test.want, word); diff != "" {
				t.Errorf("-want +got:\n%s%s", diff, got)
			}
		})
	}
}
