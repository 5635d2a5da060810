// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/user"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	core "k8s.io/kubernetes/pkg/apis/core"

	"gatehouse.dev/chain"
	"gatehouse.dev/chain/config"
	"gatehouse.dev/internal/decision"
	"gatehouse.dev/plugin"
	"gatehouse.dev/plugins"
	"gatehouse.dev/telemetry"
)

// BenchmarkDefaults is what all plugins that are on by default, and AlwaysPullImages, take for the
// creation of a pod that has nothing but a container: both phases, with the server's caches, and
// with the decision that is kept of it.
//
//	go test -run=^$ -bench=Defaults -cpuprofile=/tmp/cpu.prof
func BenchmarkDefaults(b *testing.B) {
	err := withEnv(context.Background(), b.TempDir(), func(env *plugin.Env) error {
		for _, recorded := range []bool{false, true} {
			b.Run(map[bool]string{false: "Plain", true: "Recorded"}[recorded], func(b *testing.B) {
				timeDefaults(b, env, recorded)
			})
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
}

func timeDefaults(b *testing.B, env *plugin.Env, recorded bool) {
	// The server's storage does the work of ResourceQuota.
	options := config.Options{Enable: []string{"AlwaysPullImages"}, Disable: []string{"ResourceQuota"}}
	selected, err := options.Select(plugins.List)
	if err != nil {
		b.Fatal(err)
	}
	recorder := decision.NewRecorder(decision.NewStore("server", 10_000, 64<<20), decision.ValuesHidden)
	observers := []plugin.Observer{telemetry.Metrics()}
	if recorded {
		observers = append(observers, recorder)
	}
	timed, err := chain.New(selected, nil, env, observers...)
	if err != nil {
		b.Fatal(err)
	}
	env.Informers.Start(b.Context().Done())
	env.Informers.WaitForCacheSync(b.Context().Done())
	kind, resource := corev1.SchemeGroupVersion.WithKind("Pod"), corev1.SchemeGroupVersion.WithResource("pods")
	sent := newPod("web")
	sent.Namespace = namespace
	sent.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "bench", Operation: metav1.ManagedFieldsOperationUpdate,
		APIVersion: "v1", FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(strings.Repeat(" ", 700))}}
	legacyscheme.Scheme.Default(sent)
	model := &core.Pod{}
	if err := legacyscheme.Scheme.Convert(sent, model, nil); err != nil {
		b.Fatal(err)
	}
	interfaces := admission.NewObjectInterfacesFromScheme(legacyscheme.Scheme)
	alice := &user.DefaultInfo{Name: "alice", Groups: []string{"dev", user.AllAuthenticated}}
	create := http.Handler(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		// What plugins change of it are its own fields and those of its only container.
		pod, containers := *model, []core.Container{model.Spec.Containers[0]}
		pod.Spec.Containers = containers
		a := admission.NewAttributesRecord(&pod, nil, kind, namespace, pod.Name, resource, "", admission.Create,
			&metav1.CreateOptions{}, false, alice)
		if err := timed.Admit(req.Context(), a, interfaces); err != nil {
			b.Fatal(err)
		}
		if err := timed.Validate(req.Context(), a, interfaces); err != nil {
			b.Fatal(err)
		}
		w.WriteHeader(http.StatusCreated)
	}))
	if recorded {
		create = recorder.Filter(create)
	}
	info := &apirequest.RequestInfo{IsResourceRequest: true, Verb: "create", APIVersion: "v1", Resource: "pods",
		Namespace: namespace}
	ctx := apirequest.WithUser(apirequest.WithRequestInfo(audit.WithAuditContext(b.Context()), info), alice)
	req := httptest.NewRequestWithContext(ctx, http.MethodPost, "/api/v1/namespaces/"+namespace+"/pods", nil)
	w := discardResponse{http.Header{}}
	b.ReportAllocs()
	for b.Loop() {
		create.ServeHTTP(w, req)
	}
}

// discardResponse is a ResponseWriter that keeps nothing.
type discardResponse struct{ header http.Header }

func (d discardResponse) Header() http.Header          { return d.header }
func (discardResponse) Write(data []byte) (int, error) { return len(data), nil }
func (discardResponse) WriteHeader(int)                {}
