// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"gatehouse.dev/apis/decisions/v1alpha1"
	"gatehouse.dev/chain"
	"gatehouse.dev/internal/decision"
	"gatehouse.dev/plugin"
	"gatehouse.dev/remote"
	"gatehouse.dev/remote/decisions"
	"gatehouse.dev/remote/registration"
	"gatehouse.dev/telemetry"
	"gatehouse.dev/webhook/server"
)

// build builds the plugins, and returns the handlers of reviews and of decisions by path, and the
// plugins' own checks.
func (w *worker) build(env *plugin.Env) (map[string]http.Handler, []healthz.HealthChecker, error) {
	observers := []plugin.Observer{telemetry.Metrics()}
	if w.tracer.enabled() {
		observers = append(observers, telemetry.Traces())
	}
	reviews := map[string]http.Handler{}
	var recorder *decision.Recorder
	if kept := &w.options.decisions; kept.Enabled {
		var listeners []func(*v1alpha1.Decision)
		if w.log != nil {
			listeners = append(listeners, w.log.Tell)
		}
		store := decision.NewStore(hostName(), kept.MaxCount, kept.MaxBytes)
		recorder = decision.NewRecorder(store, kept.Values, listeners...)
		observers = append(observers, recorder)
		// Strangers make it ask about their tokens. This must not delay the replica's own requests.
		config := rest.CopyConfig(w.connection)
		config.QPS, config.Burst = decisions.QPS, decisions.Burst
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			return nil, nil, fmt.Errorf("kubeconfig: %w", err)
		}
		reviews[decisions.Path] = decisions.Handler(store, client)
	}
	built := map[string]plugin.Descriptor{}
	var shared []plugin.Descriptor
	for _, p := range w.registration.Plugins {
		built[p.Name] = once(p)
		shared = append(shared, built[p.Name])
	}
	all, err := chain.New(shared, w.config, env)
	if err != nil {
		return nil, nil, err
	}
	for _, call := range registration.Served(w.registration) {
		asked := make([]plugin.Descriptor, len(call.Plugins))
		for i := range call.Plugins {
			name := call.Plugins[i].Name
			asked[i] = remote.Trial(built[name], w.options.modeOf(name))
		}
		c, err := chain.New(asked, w.config, env, observers...)
		if err != nil {
			return nil, nil, err
		}
		decide := remote.Mutate(c)
		if call.Phase == plugin.Validating {
			decide = remote.Validate(c)
		}
		reviews[call.Path] = w.review(decide, recorder, &call)
	}
	return reviews, all.ReadyChecks(), nil
}

// once returns a plugin that is built once, for any number of chains.
func once(d plugin.Descriptor) plugin.Descriptor {
	var mu sync.Mutex
	var built plugin.Plugin
	build := d.New
	d.Deprecated = "" // which is said once
	d.New = func(config io.Reader, env *plugin.Env) (plugin.Plugin, error) {
		mu.Lock()
		defer mu.Unlock()
		if built != nil {
			return built, nil
		}
		var err error
		built, err = build(config, env)
		return built, err
	}
	return d
}

// review returns the handler of a call's reviews. It is traced, makes decisions if there is a recorder
// of them, and records requests if there is a file for them.
func (w *worker) review(decide server.FallibleHandler, recorder *decision.Recorder,
	call *registration.Call) http.Handler {
	if recorder != nil {
		decide = decided(decide, recorder)
	}
	if w.record != nil {
		decide = w.recorded(decide, call)
	}
	return w.tracer.trace(decide)
}

// decided returns decide with a recorder of its decisions. A request that mutates and validates
// makes two decisions: it comes as two reviews, and nothing links them.
func decided(decide server.FallibleHandler, recorder *decision.Recorder) server.FallibleHandler {
	return func(ctx context.Context, r *admissionv1.AdmissionRequest) (response server.Response, err error) {
		ctx = request.WithUser(ctx, remote.UserOf(&r.UserInfo))
		recorder.Record(ctx, infoOf(r), "", func(ctx context.Context) (int, *metav1.Status) {
			response, err = decide(ctx, r)
			switch {
			case err != nil:
				return http.StatusInternalServerError, &metav1.Status{Message: err.Error()}
			case response.Allowed:
				return http.StatusOK, nil
			}
			return int(response.Result.Code), response.Result
		})
		return response, err
	}
}

// infoOf returns the RequestInfo that an API server has of the request.
func infoOf(r *admissionv1.AdmissionRequest) *request.RequestInfo {
	return &request.RequestInfo{IsResourceRequest: true, Verb: strings.ToLower(string(r.Operation)),
		APIGroup: r.Resource.Group, APIVersion: r.Resource.Version, Resource: r.Resource.Resource,
		Subresource: r.SubResource, Namespace: r.Namespace, Name: r.Name}
}

// shutdownCheck fails once draining is closed.
func shutdownCheck(draining <-chan struct{}) healthz.HealthChecker {
	return healthz.NamedCheck("shutdown", func(*http.Request) error {
		select {
		case <-draining:
			return fmt.Errorf("process is shutting down")
		default:
			return nil
		}
	})
}
