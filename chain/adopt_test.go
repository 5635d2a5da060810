// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"context"
	"errors"
	"io"
	"reflect"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/client-go/dynamic"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	clientfake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/component-base/compatibility"
	"k8s.io/component-base/featuregate"

	"gatehouse.dev/plugin"
)

// upstream is a plugin as people write them for k8s.io/apiserver: registered, half built, then
// initialized.
type upstream struct {
	*admission.Handler
	config string
	env    plugin.Env
	// unconditional is the authorizer that plugins of 1.37 ask for.
	unconditional authorizer.UnconditionalAuthorizer
	// validations is how often it was validated: upstream's plugins for policies start their
	// goroutines then.
	validations int
}

var (
	_ initializer.WantsExternalKubeClientSet       = &upstream{}
	_ initializer.WantsDynamicClient               = &upstream{}
	_ initializer.WantsExternalKubeInformerFactory = &upstream{}
	_ initializer.WantsAuthorizer                  = &upstream{}
	_ initializer.WantsUnconditionalAuthorizer     = &upstream{}
	_ initializer.WantsRESTMapper                  = &upstream{}
	_ initializer.WantsFeatures                    = &upstream{}
	_ initializer.WantsEffectiveVersion            = &upstream{}
	_ initializer.WantsDrainedNotification         = &upstream{}
	_ admission.InitializationValidator            = &upstream{}
)

func (u *upstream) SetExternalKubeClientSet(c kubernetes.Interface) { u.env.Client = c }
func (u *upstream) SetDynamicClient(c dynamic.Interface)            { u.env.Dynamic = c }
func (u *upstream) SetExternalKubeInformerFactory(f informers.SharedInformerFactory) {
	u.env.Informers = f
}
func (u *upstream) SetUnconditionalAuthorizer(a authorizer.UnconditionalAuthorizer) {
	u.unconditional = a
}
func (u *upstream) SetAuthorizer(a authorizer.Authorizer)                    { u.env.Authorizer = a }
func (u *upstream) SetRESTMapper(m meta.RESTMapper)                          { u.env.RESTMapper = m }
func (u *upstream) InspectFeatureGates(f featuregate.FeatureGate)            { u.env.Features = f }
func (u *upstream) InspectEffectiveVersion(v compatibility.EffectiveVersion) { u.env.Version = v }
func (u *upstream) SetDrainedNotification(done <-chan struct{})              { u.env.Done = done }

func (u *upstream) ValidateInitialization() error {
	u.validations++
	if u.env.Client == nil {
		return errors.New("missing client")
	}
	return nil
}

func (u *upstream) Admit(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	a.GetObject().(*example.Pod).Labels["upstream"] = u.config
	return nil
}

func TestAdopt(t *testing.T) {
	var built *upstream
	register := func(plugins *admission.Plugins) {
		plugins.Register("Upstream", func(config io.Reader) (admission.Interface, error) {
			built = &upstream{Handler: admission.NewHandler(admission.Create), config: "none"}
			if config == nil {
				return built, nil
			}
			data, err := io.ReadAll(config)
			built.config = string(data)
			return built, err
		})
	}
	d := plugin.Adopt(plugin.Descriptor{Name: "Upstream", Summary: "Labels pods.", Phases: plugin.Mutating, Default: true}, register)
	if !d.Server.Internal || d.Phases != plugin.Mutating || !d.Default || d.Summary != "Labels pods." {
		t.Errorf("descriptor is %+v", d)
	}
	client := clientfake.NewClientset()
	env := &plugin.Env{
		Client:     client,
		Dynamic:    dynamicfake.NewSimpleDynamicClient(scheme),
		Informers:  informers.NewSharedInformerFactory(client, 0),
		Authorizer: authorizerfactory.NewAlwaysAllowAuthorizer(),
		RESTMapper: meta.NewDefaultRESTMapper(nil),
		Features:   featuregate.NewFeatureGate(),
		Version:    compatibility.NewEffectiveVersionFromString("1.36", "1.31", "1.35"),
		Done:       make(chan struct{}),
	}
	config := loadFiles(t, "plugins:\n- {name: Upstream, path: upstream}\n", map[string]string{"upstream": "given"})
	c, err := New([]plugin.Descriptor{d}, config, env)
	if err != nil {
		t.Fatal(err)
	}
	if built.env.Done == nil {
		t.Error("the plugin isn't told when the server stops")
	}
	built.env.Done = env.Done
	if !reflect.DeepEqual(built.env, *env) {
		t.Errorf("the plugin was given %+v, want %+v", built.env, env)
	}
	if built.unconditional != env.Authorizer {
		t.Errorf("the plugin's unconditional authorizer is %v", built.unconditional)
	}
	if built.validations != 1 {
		t.Errorf("the plugin was validated %d times", built.validations)
	}
	pod, o := newPod(), newInterfaces()
	if err := c.Admit(context.Background(), create(pod), o); err != nil {
		t.Fatal(err)
	}
	if pod.Labels["upstream"] != "given" {
		t.Errorf("labels are %v", pod.Labels)
	}
	o.wantConversions(t, 0, 0)

	if _, err := New([]plugin.Descriptor{d}, nil, env); err != nil || built.config != "none" {
		t.Errorf("without configuration: %v, the plugin read %q", err, built.config)
	}

	_, err = New([]plugin.Descriptor{d}, nil, nil)
	wantError(t, err,
		`admission plugin "Upstream": adopting it (its registration has ["Upstream"]): failed to initialize `+
			`admission plugin "Upstream": missing client`)
	_, err = New([]plugin.Descriptor{plugin.Adopt(plugin.Descriptor{Name: "Other", Phases: plugin.Mutating}, register)}, nil, env)
	wantError(t, err,
		`admission plugin "Other": adopting it (its registration has ["Upstream"]): unknown admission plugin: Other`)
}
