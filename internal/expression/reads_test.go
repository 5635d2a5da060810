// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package expression

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
)

// Reads finds the fields through macros, functions on lists, optional fields and the policy's variables.
func TestFieldsThatAreRead(t *testing.T) {
	composition := NewCompiler().Compose([]admissionregistrationv1.Variable{
		{Name: "containers", Expression: "object.spec.containers + object.spec.?initContainers.orValue([])"},
		{Name: "images", Expression: "variables.containers.map(c, c.image)"},
	}, true)
	for text, want := range map[string]string{
		"object.spec.containers.all(c, c.image.startsWith('a/'))": "object.spec.containers[*].image",
		"object.spec.containers.all(c, has(c.resources.limits))":  "object.spec.containers[*].resources.limits",
		"size(object.spec.containers) < 3":                        "object.spec.containers[]",
		"object.spec.containers.size() < 3":                       "object.spec.containers[]",
		"object.spec.containers[0].image == 'a'":                  "object.spec.containers[*].image",
		"object.metadata.labels['example.com/team'] == 'a'":       "object.metadata.labels[example.com/team]",
		"'team' in object.metadata.labels":                        "object.metadata.labels.team",
		"object.metadata.labels.all(k, k != 'a')":                 "object.metadata.labels[*]",
		"object.spec.tolerations.filter(t, t.effect == 'x').exists(t, t.key == 'a')": "object.spec.tolerations[*].effect " +
			"object.spec.tolerations[*].key",
		"object.spec.?replicas.orValue(1) < 3":                                "object.spec.replicas",
		"object.spec.?securityContext.optMap(s, s.runAsUser).orValue(1) != 0": "object.spec.securityContext.runAsUser",
		"request.userInfo.username != 'jane'":                                 "request.userInfo.username",
		"object.spec.replicas <= params.data.max && oldObject == null":        "object.spec.replicas oldObject params.data.max",
		"variables.containers.all(c, c.image != 'a')":                         "object.spec.containers[*].image object.spec.initContainers[*].image",
		"variables.images.all(i, i != 'a')":                                   "object.spec.containers[*].image object.spec.initContainers[*].image",
		"true":                                                                "",
		"object.":                                                             "",
	} {
		got := strings.Join(composition.Expression(text, Condition).Reads(), " ")
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", text, diff)
		}
	}
}
