// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"fmt"
	"strings"

	"gatehouse.dev/apis/decisions/v1alpha1"
	"gatehouse.dev/internal/review/suite"
	"gatehouse.dev/plugin"
)

// faults returns the failed calls of a decision, whatever its verdict: expressions that could not be
// evaluated, missing params, webhooks that could not be asked. Webhooks that are deliberately taken to
// be down are not among them. A recorded decision has only the text of an error.
func faults(d *v1alpha1.Decision) []string {
	if d == nil {
		return nil
	}
	var all []string
	for i := range d.Steps {
		s := &d.Steps[i]
		for _, c := range s.Calls {
			if c.Verdict == v1alpha1.Failed && !strings.Contains(c.Why, plugin.ErrBackendDown.Error()) {
				all = append(all, fmt.Sprintf("%s/%s: %s", s.Plugin, c.Name, c.Why))
			}
		}
	}
	return all
}

// faultDifferences returns the faults that lack the expected text, or a difference if no fault has
// it.
func faultDifferences(field, want string, got []string) []suite.Difference {
	if want == "" {
		if len(got) == 0 {
			return nil
		}
		return []suite.Difference{{Field: field, Expected: "none", Got: strings.Join(got, "\n")}}
	}
	if len(got) == 0 {
		return []suite.Difference{{Field: field, Expected: want, Got: "none"}}
	}
	var all []suite.Difference
	for _, fault := range got {
		if !strings.Contains(fault, want) {
			all = append(all, suite.Difference{Field: field, Expected: want, Got: fault})
		}
	}
	return all
}
