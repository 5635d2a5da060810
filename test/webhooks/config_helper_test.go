// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package webhooks_test

import (
	"encoding/json"
	"sync"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/yaml"
)

// parse reads an object, in YAML.
func parse[O any](t testing.TB, text string) *O {
	t.Helper()
	object := new(O)
	if err := yaml.UnmarshalStrict([]byte(text), object); err != nil {
		t.Fatal(err)
	}
	return object
}

// unmatched are rules about something that isn't there.
var unmatched = []admissionregistrationv1.RuleWithOperations{{
	Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
	Rule: admissionregistrationv1.Rule{APIGroups: []string{"none.example.com"}, APIVersions: []string{"v1"},
		Resources: []string{"things"}},
}}

// collector collects the warnings that a server sends.
type collector struct {
	mu       sync.Mutex
	warnings sets.Set[string]
}

// HandleWarningHeader implements rest.WarningHandler.
func (c *collector) HandleWarningHeader(_ int, _, text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.warnings == nil {
		c.warnings = sets.New[string]()
	}
	c.warnings.Insert(text)
}

func (c *collector) seen() sets.Set[string] {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.warnings.Clone()
}

// mergePatch gives an object other webhooks.
func mergePatch(t testing.TB, webhooks any) []byte {
	t.Helper()
	patch, err := json.Marshal(map[string]any{"webhooks": webhooks})
	if err != nil {
		t.Fatal(err)
	}
	return patch
}
