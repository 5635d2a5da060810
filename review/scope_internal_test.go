package review

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A rule for a resource with all its subresources is one for the resource, too.
func TestScopeOfRules(t *testing.T) {
	pods, deployments := schema.GroupResource{Resource: "pods"}, schema.GroupResource{Group: "apps", Resource: "deployments"}
	for _, test := range []struct {
		resources, operations  []any
		pods, logs, deployment bool // the creation of pods, the read of logs, and whether Deployments are audited
	}{
		{[]any{"pods"}, []any{"CREATE"}, true, false, true},
		{[]any{"pods/*"}, []any{"*"}, true, true, true},
		{[]any{"pods/log"}, []any{"*"}, false, true, false},
		{[]any{"*"}, []any{"CREATE"}, true, false, true},
		{[]any{"*/*"}, []any{"*"}, true, true, true},
		{[]any{"pods"}, []any{"DELETE"}, false, false, false},
		{[]any{"deployments"}, []any{"UPDATE"}, false, false, true},
	} {
		s := &scope{}
		s.addRules([]any{map[string]any{"apiGroups": []any{"", "apps"}, "resources": test.resources,
			"operations": test.operations}}, true)
		if s.matchesRequest(pods, "", "CREATE") != test.pods || s.matchesRequest(pods, "log", "CONNECT") != test.logs ||
			s.has(deployments) != test.deployment {
			t.Errorf("%v %v: pods %v, logs %v, Deployments %v", test.resources, test.operations,
				s.matchesRequest(pods, "", "CREATE"), s.matchesRequest(pods, "log", "CONNECT"), s.has(deployments))
		}
	}
}
