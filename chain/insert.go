package chain

import (
	"fmt"
	"slices"
)

// InsertBefore is list with more plugins, which run before the named one; list stays as it is. It
// panics where the list has no such plugin: what is wrong then is the program.
func InsertBefore(list []Descriptor, name string, plugins ...Descriptor) []Descriptor {
	return slices.Insert(slices.Clone(list), position(list, name), plugins...)
}

// InsertAfter is list with more plugins, which run after the named one, as InsertBefore.
func InsertAfter(list []Descriptor, name string, plugins ...Descriptor) []Descriptor {
	return slices.Insert(slices.Clone(list), position(list, name)+1, plugins...)
}

func position(list []Descriptor, name string) int {
	i := slices.IndexFunc(list, func(d Descriptor) bool { return d.Name == name })
	if i < 0 {
		panic(fmt.Sprintf("admission plugin list: there is no %q to insert plugins beside%s", name,
			suggestion(list, name)))
	}
	return i
}
