// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package impact

import (
	"fmt"
	"io"
)

// A Baseline has the differences of an earlier report.
type Baseline struct {
	kind string
	keys map[key]struct{}
}

// maxBaseline is the number of differences of a baseline.
const maxBaseline = 5_000_000

// ReadBaseline reads the differences of an earlier report of -o json. A report with all results will do as well.
func ReadBaseline(r io.Reader) (*Baseline, error) {
	// A key depends on the kind, which may follow the results.
	byKind := map[string]map[key]struct{}{Audit: {}, Replay: {}}
	document, err := Read(r, func(result *Result) error {
		if !result.Differs || result.Unjudged != "" {
			return nil
		}
		for kind, keys := range byKind {
			for _, p := range result.policies() {
				if len(keys) == maxBaseline {
					return fmt.Errorf("there are more than %d differences", maxBaseline)
				}
				keys[keyOf(kind, result, &p)] = struct{}{}
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &Baseline{document.Kind, byKind[document.Kind]}, nil
}

// has reports whether the baseline has a difference. A nil Baseline has none.
func (b *Baseline) has(k key) bool {
	if b == nil {
		return false
	}
	_, ok := b.keys[k]
	return ok
}
