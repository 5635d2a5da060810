// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package expression

import (
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"

	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/library"
	"k8s.io/apiserver/pkg/cel/mutation"
)

const (
	// freeBytes is the size up to which a result costs the same as in kube-apiserver.
	freeBytes = 1024
	// bytesPerUnit is how many bytes of a larger result one unit of cost pays for. It is the price
	// of a concatenation of strings.
	bytesPerUnit = 10
	// maxBytes is the size of the largest result that an expression can pay for.
	maxBytes = celconfig.PerCallLimit * bytesPerUnit
	// elementBytes is the memory of one element of a list, without what the element refers to.
	elementBytes = 16
)

// resultSizes holds the functions whose result can be larger than what Kubernetes charges for. Each
// returns a size that the result of a call does not exceed, or 0 if the size follows from those of
// the arguments. Sizes above maxBytes need not be exact.
var resultSizes = map[string]func(args []ref.Val) int{
	"replace":       replaceSize,
	"join":          joinSize,
	"format":        formatSize,
	"split":         splitSize,
	"lists.range":   rangeSize,
	"flatten":       flattenSize,
	"_+_":           concatSize,
	"findAll":       zeroSize,
	"slice":         zeroSize,
	"sort":          zeroSize,
	"distinct":      zeroSize,
	"reverse":       zeroSize,
	"strings.quote": zeroSize,
}

func zeroSize([]ref.Val) int { return 0 }

// costEstimator charges what Kubernetes charges, and by size for large results of the functions in
// resultSizes.
type costEstimator struct{ library.CostEstimator }

// CallCost is called after each call of a function.
func (c *costEstimator) CallCost(function, overload string, args []ref.Val, result ref.Val) *uint64 {
	cost := c.CostEstimator.CallCost(function, overload, args, result)
	size := 0
	if resultSizes[function] != nil {
		size = resultSize(result)
	}
	if size <= freeBytes {
		return cost
	}
	charged := uint64(size+bytesPerUnit-1) / bytesPerUnit
	if cost != nil && *cost > charged {
		return cost
	}
	return &charged
}

// resultSize returns the memory of a result, without the elements of a list. It returns 0 for a
// list that a comprehension is still adding to, because each step of the comprehension is charged.
func resultSize(v ref.Val) int {
	switch v := v.(type) {
	case types.String:
		return len(v)
	case types.Bytes:
		return len(v)
	case traits.MutableLister:
		return 0
	case traits.Lister:
		return listLength(v) * elementBytes
	}
	return 0
}

// implementation returns the code of a function's overload. It returns nil if the value that the
// function is called on has the code.
func (c *checker) implementation(function, overload string) (implementation, error) {
	bindings, err := c.functions[function].Bindings()
	if err != nil {
		return nil, err
	}
	var found implementation
	for _, b := range bindings {
		if b.Operator != overload && (b.Operator != function || found != nil) {
			continue
		}
		found = func(args ...ref.Val) ref.Val {
			switch {
			case b.OperandTrait != 0 && !args[0].Type().HasTrait(b.OperandTrait):
			case len(args) == 1 && b.Unary != nil:
				return b.Unary(args[0])
			case len(args) == 2 && b.Binary != nil:
				return b.Binary(args[0], args[1])
			case b.Function != nil:
				return b.Function(args...)
			}
			return types.MaybeNoSuchOverloadErr(args[0])
		}
		if b.Operator == overload {
			break
		}
	}
	return found, nil
}

// concat returns a list that doesn't refer to the others. The library's concatenation refers to
// both lists. Reading it takes time that doubles each time a list is added to itself.
func concat(adapter types.Adapter, lists ...traits.Lister) ref.Val {
	var all []ref.Val
	for _, list := range lists {
		for i := list.Iterator(); i.HasNext() == types.True; {
			all = append(all, i.Next())
		}
	}
	return types.NewRefValList(adapter, all)
}

// concatSize returns the size of the sum of two texts or lists. It returns 0 for a list that a
// comprehension is still adding to, because each step of the comprehension is charged.
func concatSize(args []ref.Val) int {
	if n := argSize(args, 0); n > 0 {
		return n + argSize(args, 1)
	}
	a, ok := args[0].(traits.Lister)
	if _, growing := args[0].(traits.MutableLister); !ok || growing {
		return 0
	}
	b, ok := args[1].(traits.Lister)
	if !ok {
		return 0
	}
	return (listLength(a) + listLength(b)) * elementBytes
}

func replaceSize(args []ref.Val) int {
	s, replaced, by := textArg(args, 0), textArg(args, 1), textArg(args, 2)
	times := utf8.RuneCountInString(s) + 1
	if replaced != "" {
		times = strings.Count(s, replaced)
	}
	if len(args) > 3 {
		times = applyLimit(args[3], times)
	}
	if len(by) > 0 && times > maxBytes/len(by) {
		return maxBytes + 1
	}
	return len(s) + times*(len(by)-len(replaced))
}

func splitSize(args []ref.Val) int {
	s, separator := textArg(args, 0), textArg(args, 1)
	parts := strings.Count(s, separator) + 1
	if len(args) > 2 {
		parts = applyLimit(args[2], parts)
	}
	return parts * elementBytes
}

// applyLimit returns n or, if it is smaller, the limit that an argument sets. A negative limit
// means none.
func applyLimit(limit ref.Val, n int) int {
	if l, ok := limit.(types.Int); ok && l >= 0 && int64(l) < int64(n) {
		return int(l)
	}
	return n
}

func rangeSize(args []ref.Val) int {
	n, ok := args[0].(types.Int)
	switch {
	case !ok || n <= 0:
		return 0
	case n > maxBytes:
		return maxBytes + 1
	}
	return int(n) * elementBytes
}

func joinSize(args []ref.Val) int {
	list, ok := args[0].(traits.Lister)
	if !ok {
		return 0
	}
	separator, n := 0, 0
	if len(args) > 1 {
		separator = len(textArg(args, 1))
	}
	for i := list.Iterator(); n <= maxBytes && i.HasNext() == types.True; {
		n += separator
		if s, ok := i.Next().(types.String); ok {
			n += len(s)
		}
	}
	return n
}

// flattenSize returns the size of the result and of all lists that are made to get there.
func flattenSize(args []ref.Val) int {
	depth := 1
	if len(args) > 1 {
		if d, ok := args[1].(types.Int); ok && d < math.MaxInt32 {
			depth = int(d)
		}
	}
	elements := maxBytes/elementBytes + 1
	countFlattened(args[0], depth, &elements)
	return (maxBytes/elementBytes + 1 - elements) * elementBytes
}

// countFlattened subtracts the number of elements of a flattened list from left.
func countFlattened(v ref.Val, depth int, left *int) {
	list, ok := v.(traits.Lister)
	if !ok {
		return
	}
	for i := list.Iterator(); *left > 0 && i.HasNext() == types.True; {
		*left--
		if depth > 0 {
			countFlattened(i.Next(), depth-1, left)
		} else {
			i.Next()
		}
	}
}

// formatSize returns the length of the text if each argument is written once and each precision is
// filled.
func formatSize(args []ref.Val) int {
	text := textArg(args, 0)
	left := maxBytes + 1
	spend := func(n int) { left = max(left-n, 0) }
	spend(len(text))
	hex := false
	for _, clause := range strings.Split(text, "%")[1:] {
		if strings.HasPrefix(clause, "x") || strings.HasPrefix(clause, "X") {
			hex = true
		}
		if digits, ok := strings.CutPrefix(clause, "."); ok {
			end := strings.IndexFunc(digits, func(r rune) bool { return r < '0' || r > '9' })
			if end > 0 {
				if n, err := strconv.Atoi(digits[:end]); err == nil {
					spend(n)
				} else {
					spend(maxBytes)
				}
			}
		}
	}
	before := left
	if len(args) > 1 {
		subtractSize(args[1], &left)
	}
	if hex {
		spend(before - left)
	}
	return maxBytes + 1 - left
}

// subtractSize subtracts the size of a value, with everything in it, from left. A value that occurs
// twice counts twice.
func subtractSize(v ref.Val, left *int) {
	*left = max(*left-elementBytes, 0)
	switch v := v.(type) {
	case types.String:
		*left = max(*left-len(v), 0)
	case types.Bytes:
		*left = max(*left-len(v), 0)
	case *objectValue:
		for name, field := range v.fields {
			if *left == 0 {
				return
			}
			*left = max(*left-len(name), 0)
			subtractSize(field, left)
		}
	case *types.Optional:
		if v.HasValue() {
			subtractSize(v.GetValue(), left)
		}
	case *mutation.JSONPatchVal:
		*left = max(*left-len(v.Op)-len(v.Path)-len(v.From), 0)
		if v.Val != nil {
			subtractSize(v.Val, left)
		}
	case traits.Lister:
		for i := v.Iterator(); *left > 0 && i.HasNext() == types.True; {
			subtractSize(i.Next(), left)
		}
	case traits.Mapper:
		for i := v.Iterator(); *left > 0 && i.HasNext() == types.True; {
			key := i.Next()
			subtractSize(key, left)
			subtractSize(v.Get(key), left)
		}
	}
}

// isHuge reports whether a value is larger than an expression can pay for. A value that occurs
// twice in it counts twice, as in JSON.
func isHuge(v ref.Val) bool {
	left := maxBytes + 1
	subtractSize(v, &left)
	return left == 0
}

func textArg(args []ref.Val, i int) string {
	s, _ := args[i].(types.String)
	return string(s)
}

func listLength(list traits.Lister) int {
	n, _ := list.Size().(types.Int)
	return int(n)
}
