// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"context"
	"errors"
	"net/http"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/endpoints/request"

	"gatehouse.dev/apis/decisions/v1alpha1"
)

// Decide returns the decision that Record would store, and stores none.
func TestDecide(t *testing.T) {
	store := newStore()
	r := newRig(t, store, decider{admit: labelling("a", "1"), validate: func(_ context.Context, a admission.Attributes) error {
		if a.GetName() == "bad" {
			return admission.NewForbidden(a, errors.New("it is bad"))
		}
		return nil
	}}.named("A"))
	exec := about(admission.Connect, newPod("web"), nil, func(r *v1alpha1.Request) { r.Subresource = "exec" })
	for _, test := range []struct {
		a    admission.Attributes // nil for no call of the chain
		code int
		want string
	}{
		{about(admission.Create, newPod("web"), nil), http.StatusCreated,
			`Admitted 201 CREATE pods/web by "" changed by [A]: A/M/0* A/V/0`},
		{about(admission.Create, newPod("bad"), nil), http.StatusForbidden,
			`Refused 403 CREATE pods/bad by "A" changed by [A]: A/M/0* A/V/0=Refused`},
		{exec, http.StatusOK, `Admitted 200 CONNECT pods/web/exec by "" changed by [A]: A/M/0* A/V/0`},
		{nil, http.StatusOK, `Admitted 200 CREATE pods/web by "" changed by []: `},
		{nil, http.StatusInternalServerError, `Failed 500 CREATE pods/web by "" changed by []: `},
	} {
		ctx := audit.WithAuditContext(t.Context())
		audit.WithAuditID(ctx, "id")
		info := &request.RequestInfo{IsResourceRequest: true, Verb: "create", APIVersion: "v1", Resource: "pods",
			Namespace: "shop", Name: "web"}
		d := Decide(ctx, info, "agent", ValuesHidden, func(ctx context.Context) (int, *metav1.Status) {
			if test.a != nil {
				if r.admit(ctx, test.a) == nil {
					_ = r.validate(ctx, test.a)
				}
			}
			return test.code, nil
		})
		if got := summary(d); got != test.want {
			t.Errorf("got  %s\nwant %s", got, test.want)
		}
		if d.Name != "id" || d.Namespace != "shop" || d.Request.UserAgent != "agent" {
			t.Errorf("%s/%s by %s", d.Namespace, d.Name, d.Request.UserAgent)
		}
	}
	if stored := listed(t, store, Filter{}); len(stored) > 0 {
		t.Errorf("%d decisions are stored", len(stored))
	}
}
