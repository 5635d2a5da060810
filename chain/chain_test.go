// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/klog/v2"

	"gatehouse.dev/plugin"
)

func TestOrder(t *testing.T) {
	var calls []string
	say := func(what string) func(admission.Attributes) error {
		return func(admission.Attributes) error { calls = append(calls, what); return nil }
	}
	sayAndRefuse := func(what string) func(admission.Attributes) error {
		return func(a admission.Attributes) error { calls = append(calls, what); return refuse(a) }
	}
	const forbidden = `pods.example.apiserver.k8s.io "web" is forbidden: no`
	for name, test := range map[string]struct {
		list              []plugin.Descriptor
		calls             []string
		admitErr, validee string
		handles           bool
	}{
		"no plugins": {},
		"list order in both phases": {
			list: []plugin.Descriptor{
				described("a", fake{validate: say("a validate")}),
				described("b", fake{admit: say("b admit"), validate: say("b validate")}),
				described("c", fake{admit: say("c admit")}),
			},
			calls:   []string{"b admit", "c admit", "a validate", "b validate"},
			handles: true,
		},
		"refused while mutating": {
			list: []plugin.Descriptor{
				described("a", fake{admit: sayAndRefuse("a admit"), validate: say("a validate")}),
				described("b", fake{admit: say("b admit")}),
			},
			calls: []string{"a admit"}, admitErr: forbidden, handles: true,
		},
		"refused while validating": {
			list: []plugin.Descriptor{
				described("a", fake{validate: sayAndRefuse("a validate")}),
				described("b", fake{admit: say("b admit"), validate: say("b validate")}),
			},
			calls: []string{"b admit", "a validate"}, validee: forbidden, handles: true,
		},
		"only what handles the operation": {
			list: []plugin.Descriptor{
				described("a", fake{operations: []admission.Operation{admission.Delete}, admit: say("a admit"),
					validate: say("a validate")}),
				described("b", fake{operations: []admission.Operation{admission.Create}, admit: say("b admit")}),
			},
			calls: []string{"b admit"}, handles: true,
		},
		"nothing handles the operation": {
			list: []plugin.Descriptor{described("a", fake{operations: []admission.Operation{admission.Delete},
				admit: say("a admit"), validate: say("a validate")})},
		},
	} {
		t.Run(name, func(t *testing.T) {
			calls = nil
			c := newChain(t, test.list)
			if got := c.Handles(admission.Create); got != test.handles {
				t.Errorf("Handles(CREATE) is %v, want %v", got, test.handles)
			}
			err := c.Admit(context.Background(), create(newPod()), newInterfaces())
			wantError(t, err, test.admitErr)
			if err == nil {
				wantError(t, c.Validate(context.Background(), create(newPod()), newInterfaces()), test.validee)
			}
			if !reflect.DeepEqual(calls, test.calls) {
				t.Errorf("calls are %q, want %q", calls, test.calls)
			}
			if got, want := plugin.Names(c.Plugins()), plugin.Names(test.list); !reflect.DeepEqual(got, want) {
				t.Errorf("Names() is %q, want %q", got, want)
			}
		})
	}
}

func TestHandlesInEitherPhase(t *testing.T) {
	c := newChain(t, []plugin.Descriptor{
		described("a", fake{operations: []admission.Operation{admission.Create}, admit: idle}),
		described("b", fake{operations: []admission.Operation{admission.Delete}, validate: idle}),
	})
	for operation, want := range map[admission.Operation]bool{admission.Create: true, admission.Delete: true,
		admission.Update: false} {
		if got := c.Handles(operation); got != want {
			t.Errorf("Handles(%s) is %v, want %v", operation, got, want)
		}
	}
}

func TestReinvocation(t *testing.T) {
	var calls []string
	asks := func(name string, wants bool) func(admission.Attributes) error {
		return func(a admission.Attributes) error {
			again := a.GetReinvocationContext()
			calls = append(calls, fmt.Sprintf("%s %v", name, again.IsReinvoke()))
			if wants {
				again.SetShouldReinvoke()
			}
			return nil
		}
	}
	for name, test := range map[string]struct {
		list  []plugin.Descriptor
		calls []string
		err   string
	}{
		"nobody asks": {mutators(asks("a", false), asks("b", false)), []string{"a false", "b false"}, ""},
		"one asks": {mutators(asks("a", false), asks("b", true)),
			[]string{"a false", "b false", "a true", "b true"}, ""},
		"all ask": {mutators(asks("a", true), asks("b", true)),
			[]string{"a false", "b false", "a true", "b true"}, ""},
		"and refused": {mutators(asks("a", true), refuse), []string{"a false"},
			`pods.example.apiserver.k8s.io "web" is forbidden: no`},
	} {
		t.Run(name, func(t *testing.T) {
			calls = nil
			a := create(newPod())
			c := newChain(t, test.list)
			wantError(t, c.Admit(context.Background(), a, newInterfaces()), test.err)
			if !reflect.DeepEqual(calls, test.calls) {
				t.Errorf("calls are %q, want %q", calls, test.calls)
			}
		})
	}

	t.Run("a refusal in the second round", func(t *testing.T) {
		o := newInterfaces()
		c := newChain(t, mutators(label("x", "1"), func(a admission.Attributes) error {
			if a.GetReinvocationContext().IsReinvoke() {
				return refuse(a)
			}
			a.GetReinvocationContext().SetShouldReinvoke()
			return nil
		}))
		wantError(t, c.Admit(context.Background(), create(newPod()), o),
			`pods.example.apiserver.k8s.io "web" is forbidden: no`)
		o.wantConversions(t, 1, 0)
	})

	t.Run("a request that was re-run already", func(t *testing.T) {
		calls = nil
		a := create(newPod())
		a.GetReinvocationContext().SetIsReinvoke()
		if err := newChain(t, mutators(asks("a", true))).Admit(context.Background(), a, newInterfaces()); err != nil {
			t.Error(err)
		}
		if want := []string{"a true"}; !reflect.DeepEqual(calls, want) {
			t.Errorf("calls are %q, want %q", calls, want)
		}
	})

	t.Run("both rounds see one object", func(t *testing.T) {
		pod, o := newPod(), newInterfaces()
		c := newChain(t, mutators(func(a admission.Attributes) error {
			a.GetReinvocationContext().SetShouldReinvoke()
			return label("x", "1")(a)
		}))
		if err := c.Admit(context.Background(), create(pod), o); err != nil {
			t.Error(err)
		}
		if pod.Labels["x"] != "1" {
			t.Errorf("labels are %v", pod.Labels)
		}
		o.wantConversions(t, 1, 1)
	})
}

// captureLog returns what klog writes from now on.
func captureLog(t *testing.T) *bytes.Buffer {
	state := klog.CaptureState()
	t.Cleanup(state.Restore)
	var flags flag.FlagSet
	klog.InitFlags(&flags)
	for name, value := range map[string]string{"logtostderr": "false", "alsologtostderr": "false",
		"stderrthreshold": "FATAL"} {
		if err := flags.Set(name, value); err != nil {
			t.Fatal(err)
		}
	}
	log := &bytes.Buffer{}
	klog.SetOutput(log)
	return log
}

func TestPanic(t *testing.T) {
	log := captureLog(t)
	broken := func(admission.Attributes) error { panic("the password is hunter2") }
	c := newChain(t, []plugin.Descriptor{described("Broken", fake{admit: broken, validate: broken})})
	for phase, call := range map[string]func() error{
		"mutating":   func() error { return c.Admit(context.Background(), create(newPod()), newInterfaces()) },
		"validating": func() error { return c.Validate(context.Background(), create(newPod()), newInterfaces()) },
	} {
		log.Reset()
		err := call()
		wantError(t, err, `Internal error occurred: admission plugin "Broken" panicked in the `+phase+` phase`)
		if !apierrors.IsInternalError(err) {
			t.Errorf("error is a %T", err)
		}
		klog.Flush()
		for _, want := range []string{`"Admission plugin panicked"`, `plugin="Broken"`, `phase="` + phase + `"`,
			"chain_test.go", `object="shop/web"`} {
			if !strings.Contains(log.String(), want) {
				t.Errorf("the log has no %s:\n%s", want, log)
			}
		}
	}
}

func TestAbortedHandler(t *testing.T) {
	c := newChain(t, mutators(func(admission.Attributes) error { panic(http.ErrAbortHandler) }))
	defer func() {
		if got := recover(); got != http.ErrAbortHandler {
			t.Errorf("recovered %v, want http.ErrAbortHandler", got)
		}
	}()
	_ = c.Admit(context.Background(), create(newPod()), newInterfaces())
	t.Error("did not panic")
}

// onlyAdmit, onlyValidate and uninitialized are plugin types.
type (
	onlyAdmit     struct{ plugin.Mutator }
	onlyValidate  struct{ plugin.Validator }
	uninitialized struct{ fake }
)

func (uninitialized) ValidateInitialization() error { return errors.New("missing client") }

func TestNew(t *testing.T) {
	build := func(p plugin.Plugin, err error) func(io.Reader, *plugin.Env) (plugin.Plugin, error) {
		return func(io.Reader, *plugin.Env) (plugin.Plugin, error) { return p, err }
	}
	for name, test := range map[string]struct {
		list []plugin.Descriptor
		err  string
	}{
		"New fails": {[]plugin.Descriptor{{Name: "A", Phases: plugin.Mutating, New: build(nil, errors.New("Client is nil"))}},
			`admission plugin "A": Client is nil`},
		"no plugin": {[]plugin.Descriptor{{Name: "A", Phases: plugin.Mutating, New: build(nil, nil)}},
			`admission plugin "A": New returned no plugin`},
		"no Admit": {[]plugin.Descriptor{{Name: "A", Phases: plugin.Mutating | plugin.Validating,
			Operations: plugin.EveryOperation, New: build(onlyValidate{}, nil)}},
			`admission plugin "A": takes part in the mutating phase, but its type chain.onlyValidate has no Admit ` +
				`method`},
		"no Validate": {[]plugin.Descriptor{{Name: "A", Phases: plugin.Validating, Operations: plugin.EveryOperation,
			New: build(onlyAdmit{}, nil)}},
			`admission plugin "A": takes part in the validating phase, but its type chain.onlyAdmit has no Validate ` +
				`method`},
		"uninitialized": {[]plugin.Descriptor{{Name: "A", Phases: plugin.Validating, New: build(uninitialized{}, nil)}},
			`admission plugin "A": missing client`},
		"all are named": {[]plugin.Descriptor{{Name: "A", Phases: plugin.Mutating, New: build(nil, errors.New("x"))},
			{Name: "B", Phases: plugin.Mutating, New: build(nil, errors.New("y"))}},
			`[admission plugin "A": x, admission plugin "B": y]`},
		"no Operations": {[]plugin.Descriptor{{Name: "A", Phases: plugin.Validating, New: build(onlyValidate{}, nil)}},
			`admission plugin "A": its Descriptor has no Operations`},
		"malformed list": {[]plugin.Descriptor{{Name: "A", Phases: plugin.Mutating}}, `admission plugin list: "A" has no New`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := New(test.list, nil, nil)
			wantError(t, err, test.err)
		})
	}
}

func TestNewPassesConfigurationAndEnv(t *testing.T) {
	env := &plugin.Env{APIServerID: "id", Done: make(chan struct{})}
	config := loadFiles(t, "plugins:\n- {name: A, configuration: {x: 1}}\n- {name: C, path: c}\n",
		map[string]string{"c": "y"})
	got := map[string]string{}
	var list []plugin.Descriptor
	for _, name := range []string{"A", "B", "C"} {
		list = append(list,
			plugin.Descriptor{Name: name, Phases: plugin.Mutating, New: func(config io.Reader, e *plugin.Env) (plugin.Plugin, error) {
				if e.APIServerID != env.APIServerID || e.Done == nil {
					t.Error("env is another one")
				}
				got[name] = "none"
				if config != nil {
					data, _ := io.ReadAll(config)
					got[name] = string(data)
				}
				return nil, errors.New("bad")
			}})
	}
	_, err := New(list, config, env)
	wantError(t, err,
		fmt.Sprintf(`[admission plugin "A" (configured in %s: plugins[0].configuration): bad, admission plugin "B": bad, `+
			`admission plugin "C" (configured in %s): bad]`, config.Files()[0], config.Files()[1]))
	if want := map[string]string{"A": `{"x":1}`, "B": "none", "C": "y"}; !reflect.DeepEqual(got, want) {
		t.Errorf("configurations are %v, want %v", got, want)
	}
}

func TestDeprecatedIsLogged(t *testing.T) {
	log := captureLog(t)
	d := described("Old", fake{admit: idle})
	d.Deprecated = "use New instead"
	newChain(t, []plugin.Descriptor{d})
	klog.Flush()
	if want := `Admission plugin "Old" is enabled, but deprecated: use New instead`; !strings.Contains(log.String(),
		want) {
		t.Errorf("the log has no %s:\n%s", want, log)
	}
}
