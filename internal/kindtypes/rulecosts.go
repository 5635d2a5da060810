// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package kindtypes

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	crdvalidation "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"
)

// The limits of estimated costs with which API servers accept a CustomResourceDefinition.
const (
	MaxRuleCost       = crdvalidation.StaticEstimatedCostLimit
	MaxDefinitionCost = crdvalidation.StaticEstimatedCRDCostLimit
)

// A RuleCost is how expensive an expression of x-kubernetes-validations can get.
type RuleCost struct {
	// Path is the expression's JSON pointer below the schema.
	Path string
	Cost uint64
}

// RuleCosts returns the costs of the expressions in the schema of a version of a CustomResourceDefinition, as an
// API server estimates them when the definition is written, and their sum.
//
// Source: k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go#ValidateCustomResourceDefinitionOpenAPISchema 609042ea
func RuleCosts(v *apiextensionsv1.CustomResourceDefinitionVersion) (costs []RuleCost, total uint64, _ error) {
	if v.Schema == nil || v.Schema.OpenAPIV3Schema == nil {
		return nil, 0, nil
	}
	root := &apiextensions.JSONSchemaProps{}
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(v.Schema.OpenAPIV3Schema.DeepCopy(),
		root, nil); err != nil {
		return nil, 0, err
	}
	w := &ruleWalk{environment: environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())}
	if err := w.visit(root, "", crdvalidation.RootCELContext(root)); err != nil {
		return nil, 0, err
	}
	return w.costs, w.total, nil
}

// A ruleWalk visits the schemas below a schema.
type ruleWalk struct {
	environment *environment.EnvSet
	costs       []RuleCost
	total       uint64
}

func (w *ruleWalk) visit(s *apiextensions.JSONSchemaProps, path string, at *crdvalidation.CELSchemaContext) error {
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		property := s.Properties[name]
		if err := w.visit(&property, path+"/properties/"+pointerEscapes.Replace(name), at.ChildPropertyContext(&property, name)); err != nil {
			return err
		}
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		below := s.AdditionalProperties.Schema
		if err := w.visit(below, path+"/additionalProperties", at.ChildAdditionalPropertiesContext(below)); err != nil {
			return err
		}
	}
	if s.Items != nil && s.Items.Schema != nil {
		if err := w.visit(s.Items.Schema, path+"/items", at.ChildItemsContext(s.Items.Schema)); err != nil {
			return err
		}
	}
	if len(s.XValidations) == 0 {
		return nil
	}
	types, err := at.TypeInfo()
	if err != nil {
		return err
	}
	if types == nil {
		return nil
	}
	results, err := cel.Compile(types.Schema, types.DeclType, celconfig.PerCallLimit, w.environment,
		cel.StoredExpressionsEnvLoader())
	if err != nil {
		return err
	}
	for i := range results {
		r := &results[i]
		if r.Error != nil {
			continue // API servers say what is wrong with it
		}
		// A rule in an unbounded list is evaluated as often as its objects fit into a request.
		cardinality := r.MaxCardinality
		if at.MaxCardinality != nil {
			cardinality = *at.MaxCardinality
		}
		rule := fmt.Sprintf("%s/x-kubernetes-validations/%d/", path, i)
		w.add(rule+"rule", multiply(r.MaxCost, cardinality))
		if r.MessageExpression != nil {
			w.add(rule+"messageExpression", r.MessageExpressionMaxCost)
		}
	}
	return nil
}

func (w *ruleWalk) add(path string, cost uint64) {
	w.costs = append(w.costs, RuleCost{path, cost})
	w.total = add(w.total, cost)
}

// add and multiply return the largest number if the result would be larger.
func add(a, b uint64) uint64 {
	if a > math.MaxUint64-b {
		return math.MaxUint64
	}
	return a + b
}

func multiply(a, b uint64) uint64 {
	if b != 0 && a > math.MaxUint64/b {
		return math.MaxUint64
	}
	return a * b
}

// pointerEscapes escapes a key of a JSON pointer.
var pointerEscapes = strings.NewReplacer("~", "~0", "/", "~1")
