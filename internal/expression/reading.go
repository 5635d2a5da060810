package expression

import (
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"

	celconfig "k8s.io/apiserver/pkg/apis/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"
)

// reading holds the functions that Kubernetes charges less for than what they read. Each returns
// how many units that is.
var reading = map[string]func(args []ref.Val) int{
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

// dispatched holds the functions that Kubernetes charges only where their overload is known.
var dispatched = map[string]func(args []ref.Val) int{
	"bytes":  func(args []ref.Val) int { return sizeOf(args, 0) / bytesPerUnit },
	"string": func(args []ref.Val) int { return sizeOf(args, 0) / bytesPerUnit },
	"_<_":    readBoth, "_<=_": readBoth, "_>_": readBoth, "_>=_": readBoth,
}

func readBoth(args []ref.Val) int { return min(sizeOf(args, 0), sizeOf(args, 1)) / readPerUnit }

// sizeOf returns the size of an argument that is a text or bytes.
func sizeOf(args []ref.Val, i int) int {
	switch v := args[i].(type) {
	case types.String:
		return len(v)
	case types.Bytes:
		return len(v)
	}
	return 0
}

func readText(args []ref.Val) int { return len(textOf(args, 0)) / readPerUnit }

func readURL(args []ref.Val) int {
	if u, ok := args[0].(apiservercel.URL); ok && u.URL != nil {
		return (len(u.Host) + len(u.Path) + len(u.RawPath)) / readPerUnit
	}
	return 0
}

// readQuery counts a unit for each character of a query: two of them can be a key of the result.
func readQuery(args []ref.Val) int {
	if u, ok := args[0].(apiservercel.URL); ok && u.URL != nil {
		return len(u.RawQuery)
	}
	return 0
}

// readVersion counts the parts of a version that are compared. Quantities are short.
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

// readValues counts all that is in a list. What Kubernetes charges goes through all of it as well,
// once it has been done.
func readValues(args []ref.Val) int {
	if _, ok := args[0].(traits.Lister); !ok {
		return 0
	}
	return valueUnits(args[0])
}

// comparePairs counts all that is in lists of lists, maps or objects, once for each element that it
// is compared with. Other pairs Kubernetes charges, once they have been compared.
func comparePairs(args []ref.Val) int {
	first, ok := args[0].(traits.Lister)
	last, okay := args[len(args)-1].(traits.Lister)
	if !ok || !okay {
		return 0
	}
	n, m := length(first), length(last)
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

// valueUnits returns how many values there are in a value, each counted as often as it is held, and
// what it takes to read the texts. It is a little more than what can be paid for where it is more
// than that.
func valueUnits(v ref.Val) int {
	left := maxBytes + elementBytes
	return countValues(v, &left)
}

// countValues takes 16 bytes for each value from what is left.
func countValues(v ref.Val, left *int) int {
	before := *left
	takeSize(v, left)
	if *left == 0 {
		return celconfig.PerCallLimit + 1
	}
	return (before - *left) / elementBytes
}
