// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package remote_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/warning"

	"gatehouse.dev/plugin"
	"gatehouse.dev/plugins/alwayspullimages"
	"gatehouse.dev/remote"
)

// A plugin on trial changes nothing and refuses nothing. What it would do is told by annotations,
// and with Warn by warnings.
func TestTrial(t *testing.T) {
	changes := func(_ context.Context, a admission.Attributes) error {
		a.GetObject().(*corev1.Pod).Labels = map[string]string{"changed": "yes"}
		return nil
	}
	const never = `{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i","imagePullPolicy":"Never"}]}}`
	const root = `{"metadata":{"name":"p"},"spec":{"securityContext":{"runAsUser":0},"containers":[{"name":"c"}]}}`
	const change, forbidden = "would change /spec/containers/0/imagePullPolicy",
		`pods "p" is forbidden: spec.securityContext.runAsUser is forbidden`
	const would = "would refuse: "
	for name, test := range map[string]struct {
		plugin   plugin.Descriptor
		object   string
		mutating map[string]string // the annotations
		warned   string
		checking map[string]string
	}{
		"it would change": {plugin: alwayspullimages.Descriptor, object: never,
			mutating: map[string]string{"AlwaysPullImages.would-change": change},
			warned:   "AlwaysPullImages " + change},
		"it has nothing to say": {plugin: securityContextDeny, object: never},
		"it would refuse": {plugin: securityContextDeny, object: root,
			checking: map[string]string{"SecurityContextDeny.would-refuse": would + forbidden},
			warned:   "SecurityContextDeny " + would + forbidden},
		"it changes and fails": {object: never, plugin: decider{admit: func(ctx context.Context,
			a admission.Attributes) error {
			_ = changes(ctx, a)
			return errors.New("broken")
		}}.named("Breaks"), mutating: map[string]string{"Breaks.failed": "couldn't decide: broken"},
			warned: "Breaks couldn't decide: broken"},
		"it refuses before it changes": {object: never, plugin: decider{admit: func(context.Context,
			admission.Attributes) error {
			return apierrors.NewBadRequest("no")
		}}.named("Refuses"), mutating: map[string]string{"Refuses.would-refuse": would + "no"},
			warned: "Refuses would refuse: no"},
		"it panics": {object: never, plugin: decider{validate: func(context.Context, admission.Attributes) error {
			panic("as it does")
		}}.named("Panics"), checking: map[string]string{"Panics.failed": "couldn't decide: Internal error occurred: " +
			`admission plugin "Panics" panicked`},
			warned: `Panics couldn't decide: Internal error occurred: admission plugin "Panics" panicked`},
		"it is told that nothing is stored": {object: never, plugin: decider{validate: func(_ context.Context,
			a admission.Attributes) error {
			if !a.IsDryRun() {
				return apierrors.NewBadRequest("it would write")
			}
			return nil
		}}.named("Writes")},
		"it warns by itself": {object: never, plugin: decider{validate: func(ctx context.Context,
			_ admission.Attributes) error {
			warning.AddWarning(ctx, "", "its own")
			return nil
		}}.named("Warns"), warned: "its own"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, mode := range []remote.Mode{remote.Warn, remote.Audit} {
				c := newChain(t, remote.Trial(test.plugin, mode))
				request := &admissionv1.AdmissionRequest{UID: "u", Operation: admissionv1.Create, Name: "p",
					Kind:     metav1.GroupVersionKind{Version: "v1", Kind: "Pod"},
					Resource: metav1.GroupVersionResource{Version: "v1", Resource: "pods"}, Namespace: "default",
					Object: runtime.RawExtension{Raw: []byte(test.object)}}
				mutated, err := remote.Mutate(c)(t.Context(), request)
				if err != nil || !mutated.Allowed || mutated.Patch != nil {
					t.Errorf("%s: %v, allowed %t, patch %s", mode, err, mutated.Allowed, mutated.Patch)
				}
				validated, err := remote.Validate(c)(t.Context(), request)
				if err != nil || !validated.Allowed {
					t.Errorf("%s: %v, allowed %t", mode, err, validated.Allowed)
				}
				if diff := cmp.Diff([]map[string]string{test.mutating, test.checking},
					[]map[string]string{mutated.AuditAnnotations, validated.AuditAnnotations}); diff != "" {
					t.Errorf("%s: -want +got:\n%s", mode, diff)
				}
				for key := range mutated.AuditAnnotations {
					if problems := validation.IsQualifiedName("webhook.example.com/" + key); len(problems) > 0 {
						t.Errorf("%s: %s", key, problems)
					}
				}
				warned := strings.Join(append(mutated.Warnings, validated.Warnings...), "\n")
				if want := map[remote.Mode]string{remote.Warn: test.warned}[mode]; warned != want {
					t.Errorf("%s: warned of %q, want %q", mode, warned, want)
				}
			}
		})
	}
}
