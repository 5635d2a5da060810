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
	// freeBytes is the size up to which a result costs what it does in kube-apiserver.
	freeBytes = 1024
	// bytesPerUnit is how much of a larger result one unit of cost pays for, as in a concatenation
	// of strings.
	bytesPerUnit = 10
	// maxBytes is the size of the largest result that an expression can pay for.
	maxBytes = celconfig.PerCallLimit * bytesPerUnit
	// elementBytes is what a list takes for each element, without the element itself.
	elementBytes = 16
)

// growing holds the functions whose result can be larger than what they are charged for. Each
// returns a size that the result of a call will not exceed, or 0 if that follows from the
// arguments' sizes. Sizes above maxBytes need not be exact.
var growing = map[string]func(args []ref.Val) int{
	"replace":       replaceSize,
	"join":          joinSize,
	"format":        formatSize,
	"split":         splitSize,
	"lists.range":   rangeSize,
	"flatten":       flattenSize,
	"_+_":           concatSize,
	"findAll":       noSize,
	"slice":         noSize,
	"sort":          noSize,
	"distinct":      noSize,
	"reverse":       noSize,
	"strings.quote": noSize,
}

func noSize([]ref.Val) int { return 0 }

// charges charges what Kubernetes charges, and large results of growing functions by their size.
type charges struct{ library.CostEstimator }

// CallCost is called after each call of a function.
func (c *charges) CallCost(function, overload string, args []ref.Val, result ref.Val) *uint64 {
	cost := c.CostEstimator.CallCost(function, overload, args, result)
	size := 0
	if growing[function] != nil {
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

// resultSize returns the memory that a result takes, without the elements of a list. A list that a
// comprehension is still adding to takes none: each step of the comprehension is charged.
func resultSize(v ref.Val) int {
	switch v := v.(type) {
	case types.String:
		return len(v)
	case types.Bytes:
		return len(v)
	case traits.MutableLister:
		return 0
	case traits.Lister:
		return length(v) * elementBytes
	}
	return 0
}

// implementation returns what a call of the function does, nil if the value it is called on knows.
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

// concat returns a list of its own. The library's refers to both lists, and takes time that doubles
// with each list that is added to itself.
func concat(adapter types.Adapter, lists ...traits.Lister) ref.Val {
	var all []ref.Val
	for _, list := range lists {
		for i := list.Iterator(); i.HasNext() == types.True; {
			all = append(all, i.Next())
		}
	}
	return types.NewRefValList(adapter, all)
}

// concatSize returns the size of the sum of two texts or lists. A list that a comprehension is
// still adding to has none: each step of the comprehension is charged.
func concatSize(args []ref.Val) int {
	if n := sizeOf(args, 0); n > 0 {
		return n + sizeOf(args, 1)
	}
	a, ok := args[0].(traits.Lister)
	if _, growing := args[0].(traits.MutableLister); !ok || growing {
		return 0
	}
	b, ok := args[1].(traits.Lister)
	if !ok {
		return 0
	}
	return (length(a) + length(b)) * elementBytes
}

func replaceSize(args []ref.Val) int {
	s, replaced, by := textOf(args, 0), textOf(args, 1), textOf(args, 2)
	times := utf8.RuneCountInString(s) + 1
	if replaced != "" {
		times = strings.Count(s, replaced)
	}
	if len(args) > 3 {
		times = atMost(args[3], times)
	}
	if len(by) > 0 && times > maxBytes/len(by) {
		return maxBytes + 1
	}
	return len(s) + times*(len(by)-len(replaced))
}

func splitSize(args []ref.Val) int {
	s, separator := textOf(args, 0), textOf(args, 1)
	parts := strings.Count(s, separator) + 1
	if len(args) > 2 {
		parts = atMost(args[2], parts)
	}
	return parts * elementBytes
}

// atMost returns the limit that an argument sets; a negative one sets none.
func atMost(limit ref.Val, n int) int {
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
		separator = len(textOf(args, 1))
	}
	for i := list.Iterator(); n <= maxBytes && i.HasNext() == types.True; {
		n += separator
		if s, ok := i.Next().(types.String); ok {
			n += len(s)
		}
	}
	return n
}

// flattenSize returns the size of the result and of all lists that are made on the way to it.
func flattenSize(args []ref.Val) int {
	depth := 1
	if len(args) > 1 {
		if d, ok := args[1].(types.Int); ok && d < math.MaxInt32 {
			depth = int(d)
		}
	}
	elements := maxBytes/elementBytes + 1
	countFlat(args[0], depth, &elements)
	return (maxBytes/elementBytes + 1 - elements) * elementBytes
}

// countFlat takes the elements of a flattened list from what is left.
func countFlat(v ref.Val, depth int, left *int) {
	list, ok := v.(traits.Lister)
	if !ok {
		return
	}
	for i := list.Iterator(); *left > 0 && i.HasNext() == types.True; {
		*left--
		if depth > 0 {
			countFlat(i.Next(), depth-1, left)
		} else {
			i.Next()
		}
	}
}

// formatSize returns the length of the text, each argument written once and each precision filled.
func formatSize(args []ref.Val) int {
	text := textOf(args, 0)
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
		takeSize(args[1], &left)
	}
	if hex {
		spend(before - left)
	}
	return maxBytes + 1 - left
}

// takeSize takes the size of a value, all that it holds included, from what is left. A value that
// is held twice counts twice.
func takeSize(v ref.Val, left *int) {
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
			takeSize(field, left)
		}
	case *types.Optional:
		if v.HasValue() {
			takeSize(v.GetValue(), left)
		}
	case *mutation.JSONPatchVal:
		*left = max(*left-len(v.Op)-len(v.Path)-len(v.From), 0)
		if v.Val != nil {
			takeSize(v.Val, left)
		}
	case traits.Lister:
		for i := v.Iterator(); *left > 0 && i.HasNext() == types.True; {
			takeSize(i.Next(), left)
		}
	case traits.Mapper:
		for i := v.Iterator(); *left > 0 && i.HasNext() == types.True; {
			key := i.Next()
			takeSize(key, left)
			takeSize(v.Get(key), left)
		}
	}
}

// isHuge reports whether a value is larger than an expression can pay for once each value that it
// holds twice is written twice, as it is in JSON.
func isHuge(v ref.Val) bool {
	left := maxBytes + 1
	takeSize(v, &left)
	return left == 0
}

func textOf(args []ref.Val, i int) string {
	s, _ := args[i].(types.String)
	return string(s)
}

func length(list traits.Lister) int {
	n, _ := list.Size().(types.Int)
	return int(n)
}
