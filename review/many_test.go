// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package review_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// However many pods there are, those are judged that decide, and quotas of any size are charged
// with all: what comes next finds them used.
func TestManyPods(t *testing.T) {
	quota := func(hard, used string) string {
		return fmt.Sprintf("kind: ResourceQuota\napiVersion: v1\nmetadata: {name: q, namespace: shop}\nspec: "+
			"{hard: {%s}}\n"+
			"status: {hard: {%[1]s}, used: {%s}}\n", hard, used)
	}
	const limits = "kind: LimitRange\napiVersion: v1\nmetadata: {name: l, namespace: shop}\n" +
		"spec: {limits: [{type: Container, defaultRequest: {cpu: 100m}}]}\n"
	set := `
kind: StatefulSet
apiVersion: apps/v1
metadata: {name: db, namespace: shop}
spec:
  replicas: 1000000
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec: {containers: [{name: db, image: postgres}]}
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
`
	job := `
kind: Job
apiVersion: batch/v1
metadata: {name: j, namespace: shop}
spec:
  parallelism: 1000000
  template: {spec: {restartPolicy: Never, containers: [{name: c, image: busybox}]}}
`
	next := deployment("next", 2)
	for name, test := range map[string]struct {
		state, input []string
		want         []string
	}{
		"without a quota": {input: []string{deployment("web", 1000000)}, want: []string{"admitted"}},
		"a quota for all, and for one of the next": {state: []string{quota(`pods: "1000001"`, `pods: "0"`)},
			input: []string{deployment("web", 1000000), next}, want: []string{"admitted", "1 of 2 pods would start"}},
		"a quota for some": {state: []string{quota(`pods: "500000"`, `pods: "7"`)},
			input: []string{deployment("web", 1000000)}, want: []string{"499993 of 1000000 pods would start"}},
		"a quota for just those that are judged": {state: []string{quota(`pods: "100"`, `pods: "0"`)},
			input: []string{deployment("web", 1000000)}, want: []string{"100 of 1000000 pods would start"}},
		"a quota for fewer": {state: []string{quota(`pods: "99"`, `pods: "0"`)},
			input: []string{deployment("web", 1000000)}, want: []string{"99 of 1000000 pods would start"}},
		"of what a pod costs": {state: []string{limits, quota(`pods: 2M, requests.cpu: 20k`,
			`pods: "0", requests.cpu: 50m`)},
			input: []string{deployment("web", 1000000)}, want: []string{"199999 of 1000000 pods would start"}},
		"claims": {state: []string{quota(`requests.storage: 1Ti`, `requests.storage: 512Mi`)},
			input: []string{set}, want: []string{"1023 of 1000000 pods would start"}},
		"a Job": {state: []string{quota(`pods: 1k`, `pods: "0"`)}, input: []string{job},
			want: []string{"1000 of 1000000 pods would start"}},
		"fewer than there were": {state: []string{quota(`pods: 2G`, `pods: 2G`),
			deployment("web", 2000000000) + "status: {replicas: 2000000000}\n"},
			input: []string{strings.Replace(deployment("web", 2000000000), "nginx", "httpd", 1) +
				"  strategy: {type: Recreate}\n"}, want: []string{"admitted"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := judged(t, append([]string{shop}, test.state...), test.input, nil)
			var words []string
			for line := range strings.Lines(got) {
				switch first, _, _ := strings.Cut(strings.TrimSpace(line), ","); {
				case strings.HasPrefix(line, "admitted "):
					words = append(words, "admitted")
				case strings.HasSuffix(first, " would start"):
					words = append(words, first)
				}
			}
			if diff := cmp.Diff(test.want, words); diff != "" {
				t.Errorf("-want +got:\n%s%s", diff, got)
			}
		})
	}
}
