// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/server/healthz"

	"gatehouse.dev/chain/config"
	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/pluginconfig"
)

// reloadable is a plugin that knows its configuration, and works in the background until its Env is
// done.
type reloadable struct {
	fake
	config string
	env    *plugin.Env
	ended  chan struct{}
}

func (r *reloadable) ReadyChecks() []healthz.HealthChecker {
	return []healthz.HealthChecker{healthz.NamedCheck("reloadable", func(*http.Request) error {
		return errors.New(r.config)
	})}
}

// reloadables are plugins A and B; built are all that New made. One with the configuration "bad"
// can't be built.
func reloadables(built *[]*reloadable, asked func(*reloadable)) []plugin.Descriptor {
	var list []plugin.Descriptor
	for _, name := range []string{"A", "B"} {
		list = append(list, plugin.Descriptor{Name: name, Phases: plugin.Mutating | plugin.Validating,
			New: func(config io.Reader, env *plugin.Env) (plugin.Plugin, error) {
				r := &reloadable{env: env, ended: make(chan struct{})}
				if config != nil {
					var content struct {
						Is string `json:"is"`
					}
					if err := json.NewDecoder(config).Decode(&content); err != nil {
						return nil, err
					}
					r.config = content.Is
				}
				call := func(admission.Attributes) error { asked(r); return nil }
				r.fake = fake{admit: call, validate: call}
				go func() {
					<-env.Done
					close(r.ended)
				}()
				*built = append(*built, r)
				if strings.Contains(r.config, "bad") {
					return nil, errors.New("it is bad")
				}
				return r, nil
			}})
	}
	return list
}

// configured returns the plugins' configuration. It is inline, so that it doesn't depend on the file.
func configured(t *testing.T, a, b string) *config.Config {
	t.Helper()
	return loadFiles(t, fmt.Sprintf("plugins:\n- {name: A, configuration: {is: %s}}\n- {name: B, configuration: {is: %s}}\n",
		a, b), nil)
}

func ask(t *testing.T, r *Chain, ctx context.Context, operation admission.Operation) {
	t.Helper()
	a := admission.NewAttributesRecord(&example.Pod{}, nil, podKind, "ns", "n", pods, "", operation, nil, false, nil)
	if err := errors.Join(r.Admit(ctx, a, newInterfaces()), r.Validate(ctx, a, newInterfaces())); err != nil {
		t.Error(err)
	}
}

func isEnded(r *reloadable) bool {
	select {
	case <-r.ended:
		return true
	case <-time.After(20 * time.Millisecond):
		return false
	}
}

func waitEnded(t *testing.T, r *reloadable) {
	t.Helper()
	select {
	case <-r.ended:
	case <-time.After(10 * time.Second):
		t.Errorf("the plugin with configuration %q has not ended", r.config)
	}
}

// Plugins with another configuration are others, and the rest stays as it is.
func TestReload(t *testing.T) {
	var built []*reloadable
	var asked []string
	done := make(chan struct{})
	r, err := New(reloadables(&built, func(r *reloadable) { asked = append(asked, r.config) }),
		configured(t, "a1", "b1"), &plugin.Env{Done: done})
	if err != nil {
		t.Fatal(err)
	}
	check := r.ReadyChecks()[0]
	wantAsked := func(want ...string) {
		t.Helper()
		asked = nil
		ask(t, r, t.Context(), admission.Create)
		if want := slices.Concat(want, want); !slices.Equal(asked, want) {
			t.Errorf("asked %q, want %q", asked, want)
		}
	}
	wantAsked("a1", "b1")

	if changed, err := r.Reload(configured(t, "a1", "b1")); changed || err != nil || len(built) != 2 {
		t.Errorf("the same configuration: %t, %v, %d plugins have been built", changed, err, len(built))
	}
	if changed, err := r.Reload(configured(t, "a1", "b2")); !changed || err != nil || len(built) != 3 {
		t.Errorf("another for B: %t, %v, %d plugins have been built", changed, err, len(built))
	}
	wantAsked("a1", "b2")
	waitEnded(t, built[1])

	// Nothing of one that is wrong is used, not even what is right in it.
	if changed, err := r.Reload(configured(t, "a2", "bad")); changed || err == nil ||
		!strings.Contains(err.Error(), `adm.yaml: plugins[1].configuration): it is bad`) {
		t.Errorf("a wrong one: %t, %v", changed, err)
	}
	wantAsked("a1", "b2")
	for _, r := range built[3:] {
		waitEnded(t, r)
	}
	if changed, err := r.Reload(nil); !changed || err != nil {
		t.Errorf("none: %t, %v", changed, err)
	}
	wantAsked("", "")
	if err := check.Check(nil); err == nil || err.Error() != "" {
		t.Errorf("the check asks another plugin: %v", err)
	}
	if names := r.Plugins(); len(names) != 2 || names[0].Name != "A" || !r.Handles(admission.Create) {
		t.Errorf("the plugins are %v", names)
	}
	close(done)
	for _, r := range built {
		waitEnded(t, r)
	}
}

// A request is asked about by the plugins that it began with, which go on until it has ended.
func TestReloadDuringRequest(t *testing.T) {
	var built []*reloadable
	var asked []string
	r, err := New(reloadables(&built, func(r *reloadable) { asked = append(asked, r.config) }),
		configured(t, "a1", "b"), &plugin.Env{Done: t.Context().Done()})
	if err != nil {
		t.Fatal(err)
	}
	serve := func(method string, operation admission.Operation) {
		r.WithRequest(http.HandlerFunc(func(_ http.ResponseWriter, request *http.Request) {
			ask(t, r, request.Context(), operation)
			if _, err := r.Reload(configured(t, "a2", "b")); err != nil {
				t.Error(err)
			}
			if method == http.MethodPost && operation == admission.Create && isEnded(built[0]) {
				t.Error("a plugin has ended before its request")
			}
			ask(t, r, request.Context(), operation)
		})).ServeHTTP(nil, httptest.NewRequest(method, "/", nil))
	}
	serve(http.MethodPost, admission.Create)
	if want := []string{"a1", "b", "a1", "b", "a1", "b", "a1", "b"}; !slices.Equal(asked, want) {
		t.Errorf("asked %q, want %q", asked, want)
	}
	waitEnded(t, built[0])
	if isEnded(built[1]) {
		t.Error("a plugin whose configuration is as it was has ended")
	}
	asked = nil
	serve(http.MethodPost, admission.Connect)
	serve(http.MethodGet, admission.Create)
	if slices.Contains(asked, "a1") {
		t.Errorf("asked %q", asked)
	}
}

// However often it is reloaded, nothing is left of the plugins before.
func TestReloadLeavesNothing(t *testing.T) {
	var built []*reloadable
	r, err := New(reloadables(&built, func(*reloadable) {}), nil, &plugin.Env{Done: t.Context().Done()})
	if err != nil {
		t.Fatal(err)
	}
	before := runtime.NumGoroutine()
	for i := range 50 {
		if _, err := r.Reload(configured(t, fmt.Sprint("a", i), fmt.Sprint("b", i))); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Reload(configured(t, "bad", "bad")); err == nil {
			t.Fatal("a wrong one is no error")
		}
	}
	for _, r := range built[:len(built)-4] {
		waitEnded(t, r)
	}
	// A goroutine that has said that it ends is there for a moment more.
	for end := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > before+2; runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("%d goroutines, %d before", runtime.NumGoroutine(), before)
		}
	}
}

// Many requests, while the configuration changes: none is asked about by half of each.
func TestReloadUnderLoad(t *testing.T) {
	var built []*reloadable
	r, err := New(reloadables(&built, func(*reloadable) {}), configured(t, "a0", "b0"),
		&plugin.Env{Done: t.Context().Done()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	for range 4 {
		go func() {
			defer func() { ended <- struct{}{} }()
			for ctx.Err() == nil {
				r.WithRequest(http.HandlerFunc(func(_ http.ResponseWriter, request *http.Request) {
					// Each has one chain, whose plugins go on meanwhile.
					ask(t, r, request.Context(), admission.Create)
					has := request.Context().Value(requestKey{}).(*place).generation
					ask(t, r, request.Context(), admission.Create)
					for name, p := range has.running {
						select {
						case <-p.plugin.(*reloadable).env.Done:
							t.Errorf("plugin %s has ended before its request", name)
						default:
						}
					}
				})).ServeHTTP(nil, httptest.NewRequest(http.MethodPost, "/", nil))
			}
		}()
	}
	for i := range 100 {
		if _, err := r.Reload(configured(t, fmt.Sprint("a", i+1), fmt.Sprint("b", i+1))); err != nil {
			t.Error(err)
		}
	}
	stop()
	for range 4 {
		<-ended
	}
	for _, r := range built[:len(built)-2] {
		waitEnded(t, r)
	}
}

// A file that a plugin's configuration names, as a kubeconfig, counts as a part of it, and is among
// those to be followed.
func TestReloadOfNamedFiles(t *testing.T) {
	file := writeFiles(t, v1Header+"plugins:\n- {name: A, path: a}\n- {name: B, configuration: {}}\n",
		map[string]string{"a": "named", "named": "one", "unnamed": "one"})
	at := func(name string) string { return filepath.Join(filepath.Dir(file), name) }
	reads := plugin.Descriptor{Name: "A", Phases: plugin.Validating, New: func(config io.Reader, _ *plugin.Env) (plugin.Plugin,
		error) {
		name, err := io.ReadAll(config)
		if err != nil {
			return nil, err
		}
		_ = pluginconfig.Path(config, ".") // a directory is the plugin's own to follow
		content, err := os.ReadFile(pluginconfig.Path(config, string(name)))
		if err != nil || string(content) == "bad" {
			return nil, fmt.Errorf("the named file: %q, %w", content, err)
		}
		return fake{validate: func(admission.Attributes) error { return errors.New(string(content)) }}, nil
	}}
	load := func() *config.Config {
		t.Helper()
		c, err := config.Load(file)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	r, err := New([]plugin.Descriptor{reads}, load(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		name, content string
		changed, ok   bool
		want          string
	}{
		{"unnamed", "two", false, true, "one"},
		{"named", "two", true, true, "two"},
		{"named", "bad", false, false, "two"},
		{"named", "two", false, true, "two"},
		{"named", "three", true, true, "three"},
		{"a", "unnamed", true, true, "two"},
		{"named", "four", false, true, "two"},
		{"unnamed", "four", true, true, "four"},
	} {
		if err := os.WriteFile(at(step.name), []byte(step.content), 0o600); err != nil {
			t.Fatal(err)
		}
		if changed, err := r.Reload(load()); changed != step.changed || (err == nil) != step.ok {
			t.Errorf("with %s in %s: %t, %v", step.content, step.name, changed, err)
		}
		a := admission.NewAttributesRecord(&example.Pod{}, nil, podKind, "ns", "n", pods, "", admission.Create, nil,
			false,
			nil)
		if err := r.Validate(t.Context(), a, newInterfaces()); err == nil || err.Error() != step.want {
			t.Errorf("with %s in %s the plugin says %v, want %s", step.content, step.name, err, step.want)
		}
	}
	if got, want := r.Files(), []string{file, at("a"), at("unnamed")}; !slices.Equal(got, want) {
		t.Errorf("follows %q, want %q", got, want)
	}
	if err := os.Remove(at("unnamed")); err != nil {
		t.Fatal(err)
	}
	if changed, err := r.Reload(load()); changed || err == nil {
		t.Errorf("without the named file: %t, %v", changed, err)
	}
	without, err := New(nil, nil, nil)
	if err != nil || without.Files() != nil {
		t.Errorf("without a configuration %q are followed, %v", without.Files(), err)
	}
}
