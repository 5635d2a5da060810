// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin_test

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/admission"

	"gatehouse.dev/chain"
	"gatehouse.dev/plugin"
)

// validateFunc is a Validator made of a function.
type validateFunc func(a admission.Attributes) error

func (f validateFunc) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	return f(a)
}

// validate runs plugins on a request. It prints the error if one refuses the request.
func validate(observer plugin.Observer, plugins ...validateFunc) {
	var list []plugin.Descriptor
	for i, p := range plugins {
		list = append(list, describe(fmt.Sprintf("Plugin%d", i+1), plugin.Validating, p))
	}
	c, err := chain.New(list, nil, nil, observer)
	if err == nil {
		err = c.Validate(context.Background(), create("nginx"), nil)
	}
	if err != nil {
		fmt.Println("error:", err)
	}
}

// An Observer sees each call of a plugin. This one prints them.
func ExampleObserve() {
	observer := plugin.Observe{Step: func(_ context.Context, step plugin.Step) {
		verdict, code := plugin.VerdictOf(step.Err)
		fmt.Println(step.Phase, step.Plugin, verdict, code)
	}}
	validate(observer,
		func(admission.Attributes) error { return nil },
		func(a admission.Attributes) error { return admission.NewForbidden(a, errors.New("no")) })
	// Output:
	// validating Plugin1 Admitted 200
	// validating Plugin2 Refused 403
	// error: pods "web" is forbidden: no
}

func ExampleVerdictOf() {
	fmt.Println(plugin.VerdictOf(nil))
	fmt.Println(plugin.VerdictOf(apierrors.NewForbidden(corev1.Resource("pods"), "web", errors.New("no"))))
	fmt.Println(plugin.VerdictOf(errors.New("the disk is full")))
	// Output:
	// Admitted 200
	// Refused 403
	// Failed 500
}

// A plugin reports the policies, webhooks and so on that it asks, if an observer wants calls.
func ExampleCallsOf() {
	observer := plugin.Observe{
		Want: plugin.Wants{Calls: true},
		Step: func(_ context.Context, step plugin.Step) {
			for _, call := range step.Calls {
				fmt.Println(call.Kind, call.Name, call.Verdict)
			}
		},
	}
	validate(observer, func(a admission.Attributes) error {
		if calls := plugin.CallsOf(a); calls != nil {
			calls.Add(plugin.Call{Kind: plugin.Policy, Name: "require-labels", Verdict: plugin.Admitted})
		}
		return nil
	})
	// Output: Policy require-labels Admitted
}

// A plugin leaves its decision to the storage, which reports the result later. An observer is called
// with the result.
func ExampleEnforce() {
	observer := plugin.Observe{Step: func(_ context.Context, step plugin.Step) {
		step.Enforcement.Then(func(err error, _ []plugin.Call) { fmt.Println("the storage says:", err) })
	}}
	var enforcement *plugin.Enforcement
	validate(observer, func(a admission.Attributes) error {
		enforcement = plugin.Enforce(a)
		return nil
	})

	enforcement.Report(errors.New("exceeded quota: compute"))
	// Output: the storage says: exceeded quota: compute
}

// The second plugin of a phase finds what the first one made.
func ExampleShared() {
	read := func(a admission.Attributes) error {
		text := plugin.Shared[string](a)
		if *text == "" {
			fmt.Println("reading")
			*text = "text"
		}
		fmt.Println(*text)
		return nil
	}
	validate(plugin.Observe{}, read, read)
	// Output:
	// reading
	// text
	// text
}
