// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// switching is a REST mapper that learns.
type switching struct {
	meta.RESTMapper
	mu      sync.Mutex
	learned meta.RESTMapper
}

func (s *switching) set(mapper meta.RESTMapper) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.learned = mapper
}

func (s *switching) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.learned != nil {
		return s.learned.RESTMapping(kind, versions...)
	}
	return s.RESTMapper.RESTMapping(kind, versions...)
}
