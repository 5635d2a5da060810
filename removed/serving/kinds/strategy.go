// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage/names"
)

// strategy is what creating, updating and deleting the removed kinds have in common.
type strategy struct {
	runtime.ObjectTyper
	names.NameGenerator
}

func newStrategy() strategy { return strategy{Scheme, names.SimpleNameGenerator} }

// AllowCreateOnUpdate is false: objects are made with POST or apply, as they always were.
func (strategy) AllowCreateOnUpdate(context.Context) bool { return false }

// AllowUnconditionalUpdate is true: an update without resource version overwrites what there is.
func (strategy) AllowUnconditionalUpdate(context.Context) bool { return true }

func (strategy) Canonicalize(runtime.Object) {}

func (strategy) WarningsOnCreate(context.Context, runtime.Object) []string { return nil }

func (strategy) WarningsOnUpdate(context.Context, runtime.Object, runtime.Object) []string {
	return nil
}
