// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package expression

import (
	"fmt"
	"runtime"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
)

// distinct is an expression as webhooks have them, that reads like no other and is false for pod.
func distinct(i int) string {
	return fmt.Sprintf("request.userInfo.username.startsWith('system:node:%d') || "+
		"object.metadata.?labels['skip-%d'].orValue('') == 'true'", i, i)
}

// One condition on a pod: the first one of a request, which converts what it reads, each further
// one, and one that another webhook of the request has as well.
func BenchmarkMatch(b *testing.B) {
	for name, expression := range map[string]string{
		"constant": "false",
		"object":   "object.metadata.namespace == 'kube-system'",
		"request":  "request.userInfo.username == 'system:admin'",
		"list":     "object.spec.containers.exists(c, c.image.startsWith('docker.io/'))",
		"both":     distinct(0),
	} {
		compiled := conditions(expression)
		object, shown := pod(), request()
		source := func() *admissionv1.AdmissionRequest { return shown }
		b.Run(name+"/first", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				excludes(b, compiled, NewVariables(contentOf(object), nil, source, alice, nil))
			}
		})
		b.Run(name+"/further", func(b *testing.B) {
			b.ReportAllocs()
			v := NewVariables(contentOf(object), nil, source, alice, nil)
			for b.Loop() {
				v.outcomes = nil
				excludes(b, compiled, v)
			}
		})
		b.Run(name+"/again", func(b *testing.B) {
			b.ReportAllocs()
			v := NewVariables(contentOf(object), nil, source, alice, nil)
			for b.Loop() {
				excludes(b, compiled, v)
			}
		})
	}
}

// The conditions of 100 webhooks on one request, each of which excludes its webhook: one operation
// is one request. They are all different, or all the same.
func BenchmarkHundredExcluded(b *testing.B) {
	compiler := NewCompiler()
	for name, expression := range map[string]func(int) string{
		"different": distinct,
		"same":      func(int) string { return distinct(0) },
	} {
		b.Run(name, func(b *testing.B) {
			var hundred []*Conditions
			for i := range 100 {
				hundred = append(hundred,
					compiler.Compile([]admissionregistrationv1.MatchCondition{{Name: "x", Expression: expression(i)}}))
			}
			object, shown := pod(), request()
			source := func() *admissionv1.AdmissionRequest { return shown }
			b.ReportAllocs()
			for b.Loop() {
				v := NewVariables(contentOf(object), nil, source, alice, nil)
				for _, compiled := range hundred {
					excludes(b, compiled, v)
				}
			}
		})
	}
}

// A thousand conditions: new ones up to their first evaluation, and those a compiler knows already,
// as after a change of a configuration.
func BenchmarkCompile(b *testing.B) {
	var thousand []admissionregistrationv1.MatchCondition
	for i := range 1000 {
		thousand = append(thousand, admissionregistrationv1.MatchCondition{Name: "x", Expression: distinct(i)})
	}
	compileAll := func(b *testing.B, compiler *Compiler) *Conditions {
		compiled := compiler.Compile(thousand)
		for _, c := range compiled.conditions {
			if _, err := c.program.compileOnce(); err != nil {
				b.Fatal(err)
			}
		}
		return compiled
	}
	b.Run("new", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			compileAll(b, NewCompiler())
		}
	})
	b.Run("known", func(b *testing.B) {
		b.ReportAllocs()
		compiler := NewCompiler()
		held := compileAll(b, compiler)
		for b.Loop() {
			compileAll(b, compiler)
		}
		runtime.KeepAlive(held)
	})
}

func excludes(b *testing.B, compiled *Conditions, v *Variables) {
	if verdict := compiled.Match(b.Context(), v); verdict.Failed == "" {
		b.Fatalf("%+v", verdict)
	}
}
