// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"slices"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"gatehouse.dev/internal/expression"
	"gatehouse.dev/internal/matching"
	"gatehouse.dev/plugin"
)

// create is the request to create a pod such as people have.
func create() admission.Attributes {
	object := pod("web", "registry.example.com/web:1.2.3", "registry.example.com/proxy:4")
	object.TypeMeta.APIVersion, object.TypeMeta.Kind = "v1", "Pod"
	object.Labels = map[string]string{"app": "web", "tier": "front"}
	return admission.NewAttributesRecord(object, nil, corev1.SchemeGroupVersion.WithKind("Pod"), "shop", "web",
		corev1.SchemeGroupVersion.WithResource("pods"), "", admission.Create, nil, false,
		&user.DefaultInfo{Name: "alice", Groups: []string{"system:authenticated"}})
}

var interfaces = admission.NewObjectInterfacesFromScheme(clientgoscheme.Scheme)

// unlike is the i-th of validations that hold for the pod, no two of which read alike.
func unlike(i int) string {
	return fmt.Sprintf(`validations: [{expression: "object.metadata.name != 'nope-%d' && `+
		`!object.spec.containers.exists(c, `+
		`c.image == 'bad-%d')", message: "no"}]`, i, i)
}

func alike(int) string { return unlike(0) }

func validate(b *testing.B, objects ...apiruntime.Object) {
	b.Helper()
	subject := start(b, objects...).Built.(*Validating)
	a := create()
	if err := subject.Validate(b.Context(), a, interfaces); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := subject.Validate(b.Context(), a, interfaces); err != nil {
			b.Fatal(err)
		}
	}
}

func many(b *testing.B, n int, spec func(int) string, change func(*admissionregistrationv1.ValidatingAdmissionPolicy)) (
	objects []apiruntime.Object) {
	for i := range n {
		name := fmt.Sprintf("p%04d", i)
		policy := policyOf(b, name, spec(i))
		if change != nil {
			change(policy)
		}
		objects = append(objects, policy, bind(b, name, ""))
	}
	return objects
}

// One request: what policies cost that match a pod, and that can't.
func BenchmarkValidate(b *testing.B) {
	b.Run("one policy", func(b *testing.B) { validate(b, many(b, 1, unlike, nil)...) })
	b.Run("100 policies", func(b *testing.B) { validate(b, many(b, 100, unlike, nil)...) })
	b.Run("100 policies alike", func(b *testing.B) { validate(b, many(b, 100, alike, nil)...) })
	b.Run("2,000 that can't match", func(b *testing.B) {
		validate(b, many(b, 2000, unlike, func(p *admissionregistrationv1.ValidatingAdmissionPolicy) {
			p.Spec.MatchConstraints = resources("services")
		})...)
	})
	b.Run("1,024 bindings", func(b *testing.B) {
		objects := []apiruntime.Object{policyOf(b, "p", unlike(0))}
		for i := range 1024 {
			objects = append(objects, named(bind(b, "p", ""), fmt.Sprintf("b%04d", i)))
		}
		validate(b, objects...)
	})
	params := func(spec string, bindings ...string) []apiruntime.Object {
		objects := []apiruntime.Object{policyOf(b, "p", spec)}
		for i, binding := range bindings {
			objects = append(objects, named(bind(b, "p", binding), fmt.Sprintf("b%04d", i)))
		}
		for i := range 1024 {
			objects = append(objects, configMap("shop", fmt.Sprintf("c%04d", i), nil, map[string]any{"max": "3"}))
		}
		return objects
	}
	const reading = `{paramKind: {apiVersion: v1, kind: ConfigMap}, validations: [{expression: ` +
		`"size(object.spec.containers) <= int(params.data.max)"}]}`
	b.Run("1,024 params by selector", func(b *testing.B) {
		validate(b, params(reading, `{paramRef: {selector: {}, parameterNotFoundAction: Deny}}`)...)
	})
	b.Run("1,024 params by name", func(b *testing.B) {
		var bindings []string
		for i := range 1024 {
			bindings = append(bindings, fmt.Sprintf(`{paramRef: {name: c%04d, parameterNotFoundAction: Deny}}`, i))
		}
		validate(b, params(reading, bindings...)...)
	})
}

// compiled are n policies, made ready and all their expressions compiled.
func compiled(b *testing.B, n int, spec func(int) string) (use func()) {
	var policies []*admissionregistrationv1.ValidatingAdmissionPolicy
	for i := range n {
		policies = append(policies, policyOf(b, fmt.Sprint("p", i), spec(i)))
	}
	var kept []*definition[*validations]
	var snapshots *snapshot[*validations]
	compiler := expression.NewCompiler()
	return func() {
		var all []boundPolicy[*validations]
		for _, p := range policies {
			d := defineValidating(compiler, p, false)
			if err := d.action.validations[0].condition.Prepare(); err != nil {
				b.Fatal(err)
			}
			kept = append(kept, d)
			all = append(all,
				boundPolicy[*validations]{definition: d, bindings: []*binding{newBinding(p.Name, p.Name, false, nil,
					nil, nil)}})
		}
		snapshots = newSnapshot(all)
		snapshots.index.Candidates(matching.TargetOf(create()), nil)
		runtime.KeepAlive(kept)
	}
}

// How much memory a policy takes with its binding, besides the objects.
func BenchmarkMemory(b *testing.B) {
	for name, spec := range map[string]func(int) string{"alike": alike, "unlike": unlike} {
		b.Run(name, func(b *testing.B) {
			// the environment
			compiled(b, 1, func(int) string { return `validations: [{expression: "true"}]` })()
			const n = 1000
			perPolicy := 0.0
			for b.Loop() {
				use := compiled(b, n, spec)
				var before, after runtime.MemStats
				runtime.GC()
				runtime.GC()
				runtime.ReadMemStats(&before)
				use()
				runtime.GC()
				runtime.GC()
				runtime.ReadMemStats(&after)
				runtime.KeepAlive(use)
				perPolicy = float64(after.HeapAlloc-before.HeapAlloc) / n
			}
			b.ReportMetric(perPolicy/1024, "KiB/policy")
		})
	}
}

// From the objects in the cache to policies in force, and on to the first request that they all
// match: one that comes at once, and one that finds everything compiled.
func BenchmarkStart(b *testing.B) {
	objects := many(b, 2000, unlike, nil)
	for _, prepared := range []bool{false, true} {
		b.Run(fmt.Sprintf("compiled=%t", prepared), func(b *testing.B) {
			var inForce, first time.Duration
			for b.Loop() {
				c := cluster(b, objects...)
				var subject *Validating
				d := descriptor
				d.New = func(config io.Reader, env *plugin.Env) (plugin.Plugin, error) {
					var err error
					subject, err = NewValidating(config, env)
					return subject, err
				}
				begin := time.Now()
				c.Build(b, d, "")
				if err := subject.ready.Wait(context.Background(), create()); err != nil {
					b.Fatal(err)
				}
				inForce += time.Since(begin)
				if prepared {
					for _, p := range subject.snapshot().policies {
						p.prepare()
					}
				}
				begin = time.Now()
				if err := subject.Validate(b.Context(), create(), interfaces); err != nil {
					b.Fatal(err)
				}
				first += time.Since(begin)
			}
			b.ReportMetric(float64(inForce.Milliseconds())/float64(b.N), "ms-in-force")
			b.ReportMetric(float64(first.Milliseconds())/float64(b.N), "ms-first-request")
		})
	}
}

// A policy of many changes: what it takes until requests are judged by it.
func BenchmarkChange(b *testing.B) {
	for _, n := range []int{100, 1_000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			policies, bindings := &fixed[*admissionregistrationv1.ValidatingAdmissionPolicy]{},
				&fixed[*admissionregistrationv1.ValidatingAdmissionPolicyBinding]{}
			for i, object := range many(b, n, unlike, nil) {
				if i%2 == 0 {
					policies.objects = append(policies.objects,
						object.(*admissionregistrationv1.ValidatingAdmissionPolicy))
				} else {
					bindings.objects = append(bindings.objects,
						object.(*admissionregistrationv1.ValidatingAdmissionPolicyBinding))
				}
			}
			s := newSource(kind[*admissionregistrationv1.ValidatingAdmissionPolicy,
				*admissionregistrationv1.ValidatingAdmissionPolicyBinding, *validations]{
				define: defineValidating, bind: bindValidating, policies: policies.list, bindings: bindings.list,
			})
			s.params = newParamKinds(nil, nil, nil, nil)
			s.snapshot()
			target := matching.TargetOf(create())
			b.ReportAllocs()
			for b.Loop() {
				policies.objects[0] = policies.objects[0].DeepCopy()
				s.snapshot().index.Candidates(target, nil)
			}
		})
	}
}

// fixed is a lister.
type fixed[T any] struct{ objects []T }

func (f *fixed[T]) list(labels.Selector) ([]T, error) { return slices.Clone(f.objects), nil }
