// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"context"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/audit"

	"gatehouse.dev/apis/decisions/v1alpha1"
)

// A decision is made when somebody reads it, however it is read. What was changed by much is compared at once.
func TestMadeWhenRead(t *testing.T) {
	for name, test := range map[string]struct {
		audited, logged bool
		annotation      string
		read            func(*testing.T, *Store) *v1alpha1.Decision
		wantCompared    bool // before it is read
	}{
		"listed": {read: func(t *testing.T, s *Store) *v1alpha1.Decision { return only(t, s) }},
		"got": {read: func(_ *testing.T, s *Store) *v1alpha1.Decision {
			return s.Get("shop", s.order[0].decision.Name)
		}},
		"watched": {read: func(t *testing.T, s *Store) *v1alpha1.Decision {
			w, err := s.Watch(Filter{}, "", true)
			if err != nil {
				t.Fatal(err)
			}
			defer w.Stop()
			return (<-w.ResultChan()).Object.(*v1alpha1.Decision)
		}},
		"logged":  {logged: true, wantCompared: true},
		"audited": {audited: true, wantCompared: true},
		"large":   {annotation: strings.Repeat("x", 2*maxPatch), wantCompared: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore()
			r := newRig(t, s, decider{admit: labelling("a", "b")}.named("A"),
				decider{admit: func(_ context.Context, a admission.Attributes) error {
					a.GetObject().(*corev1.Pod).Annotations = map[string]string{"large": test.annotation}
					return nil
				}}.named("B"))
			var logged *v1alpha1.Decision
			if test.logged {
				r.observers = append(r.observers, func(d *v1alpha1.Decision) { logged = d })
			}
			var event *audit.AuditContext
			r.serve(t.Context(), call{verb: "create", handler: func(ctx context.Context, w http.ResponseWriter) {
				if test.audited {
					audited(t, ctx)
					event = audit.AuditContextFrom(ctx)
				}
				r.both(ctx, w, about(admission.Create, newPod("web"), nil))
			}})
			for _, c := range s.order[0].changes {
				if compared := c.changes == nil; compared != test.wantCompared {
					t.Errorf("compared: %t, want %t", compared, test.wantCompared)
				}
			}
			if test.audited {
				if by, _ := event.GetEventAnnotation("admission.gatehouse.dev/changed-by"); by != "A,B" {
					t.Errorf("the event says that %q changed the object", by)
				}
			}
			var made []*v1alpha1.Decision
			if test.read != nil {
				made = append(made, test.read(t, s))
			}
			if test.logged {
				made = append(made, logged)
			}
			for _, d := range append(made, only(t, s)) {
				if len(d.Steps) != 2 || len(d.Steps[0].Patch) != 1 || strings.Join(d.ChangedBy, " ") != "A B" {
					t.Errorf("got %s", encoded(d))
				}
				d.Steps[0].Patch[0].Path, d.Steps[0].Plugin = "/changed", "by its reader" // which nobody else sees
			}
		})
	}
}
