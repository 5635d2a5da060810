// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package requests_test

import (
	"context"
	"io"
	"slices"
	"sync"
	"testing"

	"k8s.io/apiserver/pkg/admission"
	"k8s.io/kubernetes/pkg/apis/core"

	"gatehouse.dev/plugin"
	"gatehouse.dev/server"
)

// The shared server's own plugins, one before all others, two after them.
var (
	first   = &probe{name: "ProbeFirst"}
	adopted = &probe{name: "ProbeAdopted"}
	last    = &probe{name: "ProbeLast"}
)

// probe is a plugin in both phases that does in a namespace what a test asks it to, and nothing
// elsewhere.
type probe struct {
	name string

	mu    sync.RWMutex
	hooks map[string]hook
}

// hook is a probe's conduct in one namespace; nil admits.
type hook struct {
	admit, validate func(ctx context.Context, a admission.Attributes) error
}

// during sets the conduct in a namespace until the test's end.
func (p *probe) during(t testing.TB, namespace string, h hook) {
	p.set(namespace, h)
	t.Cleanup(func() { p.set(namespace, hook{}) })
}

func (p *probe) set(namespace string, h hook) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.hooks == nil {
		p.hooks = map[string]hook{}
	}
	p.hooks[namespace] = h
}

func (p *probe) hook(a admission.Attributes) hook {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.hooks[a.GetNamespace()]
}

func (p *probe) Handles(admission.Operation) bool { return true }

func (p *probe) Admit(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if admit := p.hook(a).admit; admit != nil {
		return admit(ctx, a)
	}
	return nil
}

func (p *probe) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if validate := p.hook(a).validate; validate != nil {
		return validate(ctx, a)
	}
	return nil
}

func (p *probe) descriptor() plugin.Descriptor {
	return plugin.Descriptor{
		Name: p.name, Summary: "Does what a test asks it to", Phases: plugin.Mutating | plugin.Validating, Default: true,
		New: func(io.Reader, *plugin.Env) (plugin.Plugin, error) { return p, nil },
	}
}

// upstream is a plugin as they are written for kube-apiserver: it is registered, and works on
// internal types.
type upstream struct {
	*admission.Handler
}

// Register is what such a plugin's package exports.
func Register(plugins *admission.Plugins) {
	plugins.Register(adopted.name, func(io.Reader) (admission.Interface, error) {
		return &upstream{admission.NewHandler(admission.Create, admission.Update)}, nil
	})
}

func (u *upstream) Admit(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	return adopted.Admit(ctx, a, o)
}

func (u *upstream) Validate(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	return adopted.Validate(ctx, a, o)
}

// alwaysPull does to a pod what Kubernetes' AlwaysPullImages does.
func alwaysPull(_ context.Context, a admission.Attributes) error {
	pod, ok := a.GetObject().(*core.Pod)
	if !ok || a.GetSubresource() != "" {
		return nil
	}
	for i := range pod.Spec.Containers {
		pod.Spec.Containers[i].ImagePullPolicy = core.PullAlways
	}
	return nil
}

func withProbes(c *server.Config) {
	c.Plugins = slices.Concat(
		[]plugin.Descriptor{first.descriptor()},
		c.Plugins,
		[]plugin.Descriptor{
			plugin.Adopt(plugin.Descriptor{Name: adopted.name, Phases: plugin.Mutating | plugin.Validating, Default: true},
				Register),
			last.descriptor(),
		})
}

// journal is what happened, in order.
type journal struct {
	mu    sync.Mutex
	lines []string
}

func (j *journal) write(line string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, line)
}

// read returns what was written since it was last read.
func (j *journal) read() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	lines := j.lines
	j.lines = nil
	return lines
}

// recording writes what the plugins are asked in the namespace, as describe says it.
func recording(t testing.TB, namespace string, describe func(plugin, phase string, a admission.Attributes) string,
	plugins ...*probe) *journal {
	j := &journal{}
	for _, p := range plugins {
		record := func(phase string) func(context.Context, admission.Attributes) error {
			return func(_ context.Context, a admission.Attributes) error {
				if line := describe(p.name, phase, a); line != "" {
					j.write(line)
				}
				return nil
			}
		}
		p.during(t, namespace, hook{admit: record("admit"), validate: record("validate")})
	}
	return j
}
