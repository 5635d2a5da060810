// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package requests_test

import "testing"

// TestTable sends the requests of the table, in order, since later ones work on what earlier ones
// have made.
func TestTable(t *testing.T) {
	table := readTable(t)
	if len(table) < 60 {
		t.Errorf("the table has %d requests", len(table))
	}
	saved := map[string]string{}
	names := map[string]bool{}
	for _, e := range table {
		if e.Name == "" || names[e.Name] || e.Source == "" {
			t.Fatalf("%q (%s) needs a name of its own and a source", e.Name, e.Request)
		}
		names[e.Name] = true
		t.Run(e.Name, func(t *testing.T) {
			if err := e.run(t.Context(), shared, saved); err != nil {
				t.Errorf("%s\n%v\nexpected after: %s", e.Request, err, e.Source)
			}
		})
	}
	shared.wantReady(t)
}
