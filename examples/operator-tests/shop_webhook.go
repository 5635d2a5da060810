// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package shops

import (
	"context"
	"fmt"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// defaultTables is the number of tables of a shop that doesn't say it.
const defaultTables int32 = 4

// SetUpWebhooks registers the webhooks of shops.
func SetUpWebhooks(mgr ctrl.Manager) error {
	return ctrl.NewWebhookManagedBy(mgr, &Shop{}).WithDefaulter(webhook{}).WithValidator(webhook{}).Complete()
}

// webhook sets defaults of shops, and validates them.
type webhook struct{}

var (
	_ admission.Defaulter[*Shop] = webhook{}
	_ admission.Validator[*Shop] = webhook{}
)

// Default gives a shop tables.
func (webhook) Default(_ context.Context, shop *Shop) error {
	if shop.Spec.Tables == nil {
		tables := defaultTables
		shop.Spec.Tables = &tables
	}
	return nil
}

// ValidateCreate refuses a shop without tables.
func (webhook) ValidateCreate(_ context.Context, shop *Shop) (admission.Warnings, error) {
	if tables := *shop.Spec.Tables; tables < 1 {
		return nil, fmt.Errorf("spec.tables is %d, and must be 1 at least", tables)
	}
	return nil, nil
}

// ValidateUpdate refuses a shop without tables, or with another owner.
func (w webhook) ValidateUpdate(ctx context.Context, old, shop *Shop) (admission.Warnings, error) {
	if old.Spec.Owner != shop.Spec.Owner {
		return nil, fmt.Errorf("spec.owner is %s, and must stay %s", shop.Spec.Owner, old.Spec.Owner)
	}
	return w.ValidateCreate(ctx, shop)
}

// ValidateDelete lets every shop go.
func (webhook) ValidateDelete(context.Context, *Shop) (admission.Warnings, error) { return nil, nil }
