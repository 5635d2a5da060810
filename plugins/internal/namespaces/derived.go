// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package namespaces

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/lru"
)

// derivedKept bounds how many namespaces a Derived remembers. It remembers the most recently used.
const derivedKept = 4096

// Derived remembers a value derived from each namespace, such as the meaning of its annotations,
// because it is the same for many requests.
type Derived[T any] struct {
	derive func(*corev1.Namespace) T
	known  *lru.Cache // of derived[T], by name
}

type derived[T any] struct {
	from  *corev1.Namespace
	value T
}

// Derive returns a Derived that remembers the results of derive, which must depend on the namespace
// alone.
func Derive[T any](derive func(*corev1.Namespace) T) *Derived[T] {
	return &Derived[T]{derive, lru.New(derivedKept)}
}

// Of returns derive's result for this state of the namespace. The cache of Namespaces has another
// object for each state.
func (d *Derived[T]) Of(namespace *corev1.Namespace) T {
	if known, ok := d.known.Get(namespace.Name); ok && known.(derived[T]).from == namespace {
		return known.(derived[T]).value
	}
	value := d.derive(namespace)
	d.known.Add(namespace.Name, derived[T]{namespace, value})
	return value
}
