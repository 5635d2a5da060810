// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package expression

import (
	"math"
	"strings"

	celchecker "github.com/google/cel-go/checker"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/library"
)

// UnknownCost is the cost of an expression that can't be estimated.
const UnknownCost = math.MaxUint64

// EstimateCosts returns for each of a policy's expressions what it costs at most, for the largest objects and
// params of the types. The cost of reading a variable's value is not part of it, and that of its own
// expression neither. The cost is UnknownCost for an expression with errors, or one that loops over something
// whose size no type bounds.
//
// Source: k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/compilation.go#newCostEstimator cf0f5011
func (t *TypeChecker) EstimateCosts(variables []admissionregistrationv1.Variable, expressions ...string) []uint64 {
	defer t.declareVariables(variables)()
	sizes := &sizeEstimator{variables: map[string]*apiservercel.DeclType{objectVariable: t.object,
		oldObjectVariable: t.object, paramsVariable: t.params, variablesVariable: t.variables}}
	for _, v := range variables {
		if named := t.typeOfName(v.Expression, sizes); named != nil {
			t.variables.Fields[v.Name] = apiservercel.NewDeclField(v.Name, named, true, nil, nil)
		}
	}
	estimator := &library.CostEstimator{SizeEstimator: sizes}
	costs := make([]uint64, len(expressions))
	for i, text := range expressions {
		costs[i] = UnknownCost
		ast, issues := t.env.Compile(text)
		if issues != nil {
			continue
		}
		sizes.hasUnknown = false
		estimate, err := t.env.EstimateCost(ast, estimator)
		if err == nil && (estimate.Max < unboundedCost || !sizes.hasUnknown) {
			costs[i] = estimate.Max
		}
	}
	return costs
}

// typeOfName returns the type of a variable that is only a name for a field, such as object.spec. It is nil for
// another expression. The type in the expression's environment doesn't say how large its values can be.
func (t *TypeChecker) typeOfName(text string, sizes *sizeEstimator) *apiservercel.DeclType {
	ast, issues := t.env.Parse(text)
	if issues != nil {
		return nil
	}
	path, ok := pathOf(ast.NativeRep().Expr())
	if !ok {
		return nil
	}
	return sizes.typeAt(strings.Split(path, "."))
}

// unboundedCost is at most what CEL estimates for reading something of any size.
const unboundedCost = UnknownCost / 16

// sizeEstimator knows how large fields can be, by the types of the variables that they are below.
type sizeEstimator struct {
	variables map[string]*apiservercel.DeclType
	// hasUnknown reports whether a size was asked for that no type bounds.
	hasUnknown bool
}

// EstimateSize implements celchecker.CostEstimator.
//
// Source: k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/compilation.go#sizeEstimator.EstimateSize d4720e82
func (e *sizeEstimator) EstimateSize(element celchecker.AstNode) *celchecker.SizeEstimate {
	found := e.typeAt(element.Path())
	if found == nil || found.MaxElements < 0 {
		e.hasUnknown = true
		return nil
	}
	return &celchecker.SizeEstimate{Max: uint64(found.MaxElements)}
}

// typeAt returns the type at a path that begins with a variable, or nil if it isn't known.
func (e *sizeEstimator) typeAt(path []string) *apiservercel.DeclType {
	if len(path) == 0 {
		return nil
	}
	current := e.variables[path[0]]
	for _, name := range path[1:] {
		if current == nil {
			return nil
		}
		switch name {
		case "@items", "@values":
			current = current.ElemType
		case "@keys":
			current = current.KeyType
		default:
			field := current.Fields[name]
			if field == nil {
				return nil
			}
			current = field.Type
		}
	}
	return current
}

// EstimateCallCost implements celchecker.CostEstimator.
func (*sizeEstimator) EstimateCallCost(string, string, *celchecker.AstNode, []celchecker.AstNode) *celchecker.CallEstimate {
	return nil
}
