// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"fmt"
	"slices"

	"gatehouse.dev/internal/nearest"
)

// InsertBefore returns a copy of list with more plugins, which run before the named one. It panics
// if the list has no plugin of that name.
func InsertBefore(list []Descriptor, name string, plugins ...Descriptor) []Descriptor {
	return slices.Insert(slices.Clone(list), position(list, name), plugins...)
}

// InsertAfter returns a copy of list with more plugins, which run after the named one. It panics if
// the list has no plugin of that name.
func InsertAfter(list []Descriptor, name string, plugins ...Descriptor) []Descriptor {
	return slices.Insert(slices.Clone(list), position(list, name)+1, plugins...)
}

func position(list []Descriptor, name string) int {
	i := slices.IndexFunc(list, func(d Descriptor) bool { return d.Name == name })
	if i < 0 {
		panic(fmt.Sprintf("admission plugin list: there is no %q to insert plugins beside%s", name,
			nearest.Meant(name, Names(list))))
	}
	return i
}
