// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package aggregate joins errors as k8s.io/apimachinery does, in time that grows with their size
// only. Upstream copies what it has joined for each error: of 8,000 errors that takes seconds.
package aggregate

import (
	"strings"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/sets"
)

type aggregate struct{ utilerrors.Aggregate }

// New returns the error that utilerrors.NewAggregate returns; nil if there are no errors. Its text
// is the same.
func New(errs []error) error {
	all := utilerrors.NewAggregate(errs)
	if all == nil {
		return nil
	}
	return aggregate{all}
}

// Error implements error.
func (a aggregate) Error() string {
	seen := sets.New[string]()
	var text strings.Builder
	for _, err := range utilerrors.Flatten(a.Aggregate).Errors() {
		message := err.Error()
		if seen.Has(message) {
			continue
		}
		if seen.Insert(message); seen.Len() > 1 {
			text.WriteString(", ")
		}
		text.WriteString(message)
	}
	if seen.Len() == 1 {
		return text.String()
	}
	return "[" + text.String() + "]"
}
