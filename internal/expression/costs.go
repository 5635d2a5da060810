// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package expression

import (
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"

	celconfig "k8s.io/apiserver/pkg/apis/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"
)

// readCosts holds the functions for which Kubernetes charges less than for reading their arguments.
// Each returns the units for that.
var readCosts = map[string]func(args []ref.Val) int{
	"charAt": readText, "size": readText, "int": readText, "uint": readText, "double": readText, "bool": readText,
	"timestamp": readText, "duration": readText,
	"getScheme": readURL, "getHostname": readURL, "getHost": readURL, "getPort": readURL, "getEscapedPath": readURL,
	"getQuery": readQuery,
	"isSorted": readValues, "sum": readValues, "max": readValues, "min": readValues, "indexOf": readValues,
	"lastIndexOf": readValues,
	"compareTo":   readVersion, "isGreaterThan": readVersion, "isLessThan": readVersion,
	"distinct": comparePairs, "sets.contains": comparePairs, "sets.intersects": comparePairs,
	"sets.equivalent": comparePairs,
}

// dynamicCosts holds the functions for which Kubernetes charges only if it knows the overload.
var dynamicCosts = map[string]func(args []ref.Val) int{
	"bytes":  func(args []ref.Val) int { return argSize(args, 0) / bytesPerUnit },
	"string": func(args []ref.Val) int { return argSize(args, 0) / bytesPerUnit },
	"_<_":    readBoth, "_<=_": readBoth, "_>_": readBoth, "_>=_": readBoth,
}

func readBoth(args []ref.Val) int { return min(argSize(args, 0), argSize(args, 1)) / readPerUnit }

// argSize returns the size of an argument that is a text or bytes, 0 for others.
func argSize(args []ref.Val, i int) int { return textSize(args[i]) }

func textSize(v ref.Val) int {
	switch v := v.(type) {
	case types.String:
		return len(v)
	case types.Bytes:
		return len(v)
	}
	return 0
}

func readText(args []ref.Val) int { return len(textArg(args, 0)) / readPerUnit }

func readURL(args []ref.Val) int {
	if u, ok := args[0].(apiservercel.URL); ok && u.URL != nil {
		return (len(u.Host) + len(u.Path) + len(u.RawPath)) / readPerUnit
	}
	return 0
}

// readQuery counts a unit for each character of a query, because two characters can make a key of
// the result.
func readQuery(args []ref.Val) int {
	if u, ok := args[0].(apiservercel.URL); ok && u.URL != nil {
		return len(u.RawQuery)
	}
	return 0
}

// readVersion counts the parts of a version that are compared. It returns 0 for quantities, which
// are short.
func readVersion(args []ref.Val) int {
	v, ok := args[0].(apiservercel.Semver)
	if !ok {
		return 0
	}
	n := 0
	for _, part := range v.Pre {
		n += 1 + len(part.VersionStr)/readPerUnit
	}
	return n
}

// readValues counts everything in a list. Kubernetes charges for this too, but only afterwards.
func readValues(args []ref.Val) int {
	if _, ok := args[0].(traits.Lister); !ok {
		return 0
	}
	return valueUnits(args[0])
}

// comparePairs counts everything in lists of lists, maps or objects, once for each element that it
// is compared with. Kubernetes charges for other pairs, after they have been compared.
func comparePairs(args []ref.Val) int {
	first, ok := args[0].(traits.Lister)
	last, okay := args[len(args)-1].(traits.Lister)
	if !ok || !okay {
		return 0
	}
	n, m := listLength(first), listLength(last)
	if m > 0 && n > celconfig.PerCallLimit/m {
		return celconfig.PerCallLimit + 1
	}
	units := max(valueUnits(first), valueUnits(last))
	if units <= max(n, m)+1 {
		return 0
	}
	if times := max(n, m); times > celconfig.PerCallLimit/units {
		return celconfig.PerCallLimit + 1
	}
	return units * max(n, m)
}

// valueUnits returns the number of values in a value, counting each as often as it occurs, plus the
// units for reading their texts. If there are more than an expression can pay for, the result is
// just above that.
func valueUnits(v ref.Val) int {
	left := maxBytes + elementBytes
	return countValues(v, &left)
}

// countValues subtracts 16 bytes for each value from left and returns the number of values.
func countValues(v ref.Val, left *int) int {
	before := *left
	subtractSize(v, left)
	if *left == 0 {
		return celconfig.PerCallLimit + 1
	}
	return (before - *left) / elementBytes
}
