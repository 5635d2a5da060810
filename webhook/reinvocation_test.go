// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"io"
	"reflect"
	"strings"
	"sync"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"

	"gatehouse.dev/chain"
	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/plugintest"
)

// compiledIn is a compiled-in plugin before MutatingAdmissionWebhook, that changes pods where it is
// told to.
type compiledIn struct {
	admit func(*corev1.Pod)
}

func (c *compiledIn) Admit(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	c.admit(a.GetObject().(*corev1.Pod))
	return nil
}

// The scenarios and their names are those of KEP-492, "Mutating admission re-running".
//
// Source: k8s.io/kubernetes/test/integration/apiserver/admissionwebhook/reinvocation_test.go#testWebhookReinvocationPolicy 2f2d3385
func TestReinvocation(t *testing.T) {
	both := []func(*admissionregistrationv1.MutatingWebhook){reinvocable}
	never := []func(*admissionregistrationv1.MutatingWebhook){}
	for name, test := range map[string]struct {
		// mutates has who changes the object, by name and round: "in-tree 0", "A 1".
		mutates []string
		// of webhooks A and B, nil for no such webhook
		a, b []func(*admissionregistrationv1.MutatingWebhook)
		want []string
	}{
		"No reinvocation": {
			[]string{"in-tree 0"}, both, nil,
			[]string{"in-tree 0", "A 0"},
		},
		"In-tree reinvocation only": {
			[]string{"in-tree 0", "A 0"}, both, nil,
			[]string{"in-tree 0", "A 0", "in-tree 1"},
		},
		"Full reinvocation": {
			[]string{"in-tree 0", "A 0", "in-tree 1", "A 1"}, both, nil,
			[]string{"in-tree 0", "A 0", "in-tree 1", "A 1"},
		},
		"Multiple webhooks, partial reinvocation": {
			[]string{"in-tree 0", "A 0", "B 0"}, both, both,
			[]string{"in-tree 0", "A 0", "B 0", "in-tree 1", "A 1"},
		},
		"Multiple webhooks, full reinvocation": {
			[]string{"in-tree 0", "A 0", "B 0", "A 1", "B 1"}, both, both,
			[]string{"in-tree 0", "A 0", "B 0", "in-tree 1", "A 1", "B 1"},
		},

		"reinvocationPolicy Never": {
			[]string{"in-tree 0", "A 0", "B 0", "in-tree 1"}, never, never,
			[]string{"in-tree 0", "A 0", "B 0", "in-tree 1"},
		},
		"Never and IfNeeded": {
			[]string{"A 0", "B 0", "in-tree 1"}, never, both,
			[]string{"in-tree 0", "A 0", "B 0", "in-tree 1", "B 1"},
		},
		"in-tree changes it again, all webhooks see that": {
			[]string{"A 0", "in-tree 1"}, both, both,
			[]string{"in-tree 0", "A 0", "B 0", "in-tree 1", "A 1", "B 1"},
		},
		"a webhook that wasn't called isn't called again": {
			[]string{"A 0", "in-tree 1"}, both, []func(*admissionregistrationv1.MutatingWebhook){reinvocable,
				when(`"in-tree-1" in object.metadata.labels`)},
			[]string{"in-tree 0", "A 0", "in-tree 1", "A 1"},
		},
		"a webhook that doesn't match any more isn't called again": {
			[]string{"A 0", "in-tree 1"}, both, []func(*admissionregistrationv1.MutatingWebhook){reinvocable,
				when(`!("in-tree-1" in object.metadata.labels)`)},
			[]string{"in-tree 0", "A 0", "B 0", "in-tree 1", "A 1"},
		},
		"a change in the second round makes no third": {
			[]string{"A 0", "B 0", "in-tree 1", "A 1", "B 1"}, both, both,
			[]string{"in-tree 0", "A 0", "B 0", "in-tree 1", "A 1", "B 1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			var calls []string
			// call takes down who was called, and tells whether that changes the object.
			call := func(who string) (string, bool) {
				mu.Lock()
				defer mu.Unlock()
				round := "0"
				for _, c := range calls {
					if strings.HasPrefix(c, who) {
						round = "1"
					}
				}
				calls = append(calls, who+" "+round)
				for _, m := range test.mutates {
					if m == who+" "+round {
						return who + "-" + round, true
					}
				}
				return "", false
			}
			cluster := plugintest.NewCluster(t, ns)
			for who, changes := range map[string][]func(*admissionregistrationv1.MutatingWebhook){"A": test.a,
				"B": test.b} {
				if changes == nil {
					continue
				}
				backend := newAnswering(t, func(r *admissionRequest) *admissionResponse {
					if mark, ok := call(who); ok {
						return patchResponse(`[{"op":"add","path":"/metadata/labels/` + mark + `","value":"yes"}]`)
					}
					return allowed(r)
				})
				if err := cluster.Client.Tracker().Add(mutatingConfiguration(who,
					aWebhook(who, backend.ClientConfig("/"), changes...))); err != nil {
					t.Fatal(err)
				}
			}
			cluster.Env.Authorizer = authorizerfactory.NewAlwaysAllowAuthorizer()
			var built *Mutating
			subject := plugin.Descriptor{Name: "MutatingAdmissionWebhook", Phases: plugin.Mutating, Operations: plugin.EveryOperation,
				Server: plugin.Server{Only: "it is the server's"},
				New: func(config io.Reader, env *plugin.Env) (_ plugin.Plugin, err error) {
					built, err = NewMutating(config, env)
					return built, err
				}}
			cluster.Build(t, subject, "")
			inTree := plugin.Descriptor{Name: "in-tree", Phases: plugin.Mutating, Operations: plugin.EveryOperation,
				New: func(io.Reader, *plugin.Env) (plugin.Plugin, error) {
					return &compiledIn{func(pod *corev1.Pod) {
						if mark, ok := call("in-tree"); ok {
							pod.Labels[mark] = "yes"
						}
					}}, nil
				}}
			subject.New = func(io.Reader, *plugin.Env) (plugin.Plugin, error) { return built, nil }
			c, err := chain.New([]plugin.Descriptor{inTree, subject}, nil, cluster.Env)
			if err != nil {
				t.Fatal(err)
			}
			pod := newPod()
			a := newAttributes(create, pod, nil)
			if err := c.Admit(a.context(t.Context()), a, interfaces); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(calls, test.want) {
				t.Errorf("called were %q\nwant        %q", calls, test.want)
			}
			if len(pod.Labels)-1 != len(test.mutates) {
				t.Errorf("the object was changed by %v, want %q", pod.Labels, test.mutates)
			}
			for _, called := range test.want {
				who, round, _ := strings.Cut(called, " ")
				index := map[string]string{"A": "0", "B": "1"}[who]
				if index == "" {
					continue
				}
				key := "mutation.webhook.admission.k8s.io/round_" + round + "_index_" + index
				if a.annotations[key] == "" {
					t.Errorf("there is no audit annotation %s: %q", key, a.annotations)
				}
			}
		})
	}
}
