// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package matching

import (
	"errors"
	"unique"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// selector is a parsed selector or, if it can't be parsed, the error. API validation refuses
// selectors that can't be parsed.
type selector struct {
	labels.Selector
	// key is equal for selectors that mean the same.
	key unique.Handle[string]
	err error
}

func newSelector(stated *metav1.LabelSelector) selector {
	if stated == nil {
		// The API's defaults prevent this.
		return selector{err: errors.New("a nil selector was passed, please ensure selectors are initialized properly")}
	}
	parsed, err := metav1.LabelSelectorAsSelector(stated)
	if err != nil {
		return selector{err: err}
	}
	return selector{Selector: parsed, key: unique.Make(parsed.String())}
}

// selectsEverything reports whether the selector selects every object.
func (s *selector) selectsEverything() bool { return s.err == nil && s.Empty() }
