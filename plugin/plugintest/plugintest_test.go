// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package plugintest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/warning"
	corev1listers "k8s.io/client-go/listers/core/v1"

	"gatehouse.dev/plugin"
)

// call is one phase of a plugin under test.
type call func(ctx context.Context, a admission.Attributes) error

type both struct{ admit, validate call }

func (p both) Admit(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	return p.admit(ctx, a)
}

func (p both) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	return p.validate(ctx, a)
}

// doing is a plugin that does the same in both phases.
func doing(what call) *Plugin {
	return &Plugin{Built: both{what, what},
		Operations: []admission.Operation{admission.Create, admission.Update, admission.Delete}}
}

// failed takes down what a test of this package's users would have failed with.
type failed struct {
	testing.TB
	failures []string
}

func (f *failed) Errorf(format string, args ...any) {
	f.failures = append(f.failures, fmt.Sprintf(format, args...))
}

func (f *failed) Fatalf(format string, args ...any) {
	f.Errorf(format, args...)
	panic(f)
}

// failuresOf runs a test and is what it fails with.
func failuresOf(t *testing.T, test func(t TB)) string {
	f := &failed{TB: t}
	func() {
		defer func() {
			if r := recover(); r != nil && r != any(f) {
				panic(r)
			}
		}()
		test(f)
	}()
	return strings.Join(f.failures, "\n")
}

func pod(labels ...string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", Labels: map[string]string{}}}
	for _, label := range labels {
		p.Labels[label] = ""
	}
	return p
}

func label(object runtime.Object, label string) {
	object.(*corev1.Pod).Labels[label] = ""
}

func TestGoodPluginPasses(t *testing.T) {
	subject := &Plugin{Built: both{
		admit: func(ctx context.Context, a admission.Attributes) error {
			label(a.GetObject(), "new")
			warning.AddWarning(ctx, "", "careful")
			audit.AddAuditAnnotation(ctx, "example.com/event", "straight")
			return a.AddAnnotation("example.com/admit", a.GetUserInfo().GetName())
		},
		validate: func(context.Context, admission.Attributes) error { return errors.New("no") },
	}, Operations: []admission.Operation{admission.Create, admission.Update, admission.Delete}}
	given := pod()
	result := subject.Admit(t, Create(given).By("alice")).Admitted(t)
	if !result.Handled || !result.Changed || result.Code() != 0 || result.Message() != "" {
		t.Errorf("got %+v", result)
	}
	if _, ok := result.Object.(*corev1.Pod).Labels["new"]; !ok || len(given.Labels) != 0 {
		t.Errorf("the result has labels %v, the given pod %v", result.Object.(*corev1.Pod).Labels, given.Labels)
	}
	if want := map[string]string{"example.com/admit": "alice", "example.com/event": "straight"}; !maps.Equal(
		result.Annotations, want) || !slices.Equal(result.Warnings, []string{"careful"}) {
		t.Errorf("annotations %v, warnings %v", result.Annotations, result.Warnings)
	}
	subject.Validate(t, Create(given)).Refused(t, 500, "no")
	subject.Validate(t, Update(given, given)).Refused(t, 500, "no")
	subject.Validate(t, Delete(given)).Refused(t, 500, "no")
	if result := subject.Validate(t, Connect(given, "exec", &corev1.PodExecOptions{})).Admitted(t); result.Handled {
		t.Error("an operation that the plugin doesn't handle is handled")
	}
}

func TestBadPluginIsCaught(t *testing.T) {
	counter := 0
	for name, test := range map[string]struct {
		does call
		test func(t TB, subject *Plugin)
		want string // empty: nothing is caught
	}{
		"changes the object while validating": {
			func(_ context.Context, a admission.Attributes) error { label(a.GetObject(), "new"); return nil },
			func(t TB, p *Plugin) { p.Validate(t, Create(pod())) },
			"the plugin changes the object while validating it",
		},
		"changes the object, then refuses it": {
			func(_ context.Context, a admission.Attributes) error {
				label(a.GetObject(), "new")
				return errors.New("no")
			},
			func(t TB, p *Plugin) { p.Validate(t, Create(pod())) },
			"the plugin changes the object while validating it",
		},
		"changes the old object while validating": {
			func(_ context.Context, a admission.Attributes) error { label(a.GetOldObject(), "new"); return nil },
			func(t TB, p *Plugin) { p.Validate(t, Update(pod(), pod())) },
			"the plugin changes the old object",
		},
		"changes the old object while mutating": {
			func(_ context.Context, a admission.Attributes) error { label(a.GetOldObject(), "new"); return nil },
			func(t TB, p *Plugin) { p.Admit(t, Update(pod(), pod())) },
			"the plugin changes the old object",
		},
		"changes what is deleted": {
			func(_ context.Context, a admission.Attributes) error { label(a.GetOldObject(), "new"); return nil },
			func(t TB, p *Plugin) { p.Admit(t, Delete(pod())) },
			"the plugin changes the old object",
		},
		"changes its own output": {
			func(_ context.Context, a admission.Attributes) error {
				counter++
				label(a.GetObject(), fmt.Sprint("new-", counter))
				return nil
			},
			func(t TB, p *Plugin) { p.Admit(t, Create(pod())) },
			"the plugin is not idempotent: it changes its own output",
		},
		"refuses its own output": {
			func(_ context.Context, a admission.Attributes) error {
				if _, ok := a.GetObject().(*corev1.Pod).Labels["new"]; ok {
					return errors.New("labelled already")
				}
				label(a.GetObject(), "new")
				return nil
			},
			func(t TB, p *Plugin) { p.Admit(t, Create(pod())) },
			"the plugin is not idempotent: it refuses its own output: labelled already",
		},
		"writes an annotation twice": {
			func(_ context.Context, a admission.Attributes) error {
				_, _ = a.AddAnnotation("example.com/a", "1"), a.AddAnnotation("example.com/a", "2")
				return nil
			},
			func(t TB, p *Plugin) { p.Validate(t, Create(pod())) },
			"the plugin wrote an audit annotation that is not accepted",
		},
		"writes an annotation without domain": {
			func(_ context.Context, a admission.Attributes) error { _ = a.AddAnnotation("a", "1"); return nil },
			func(t TB, p *Plugin) { p.Validate(t, Create(pod())) },
			"the plugin wrote an audit annotation that is not accepted",
		},
		"writes one without domain into the event": {
			func(ctx context.Context, _ admission.Attributes) error {
				audit.AddAuditAnnotation(ctx, "a", "1")
				return nil
			},
			func(t TB, p *Plugin) { p.Validate(t, Create(pod())) },
			"the plugin wrote an audit annotation that is not accepted",
		},
		"refuses what should be admitted": {
			func(context.Context, admission.Attributes) error { return errors.New("no") },
			func(t TB, p *Plugin) { p.Validate(t, Create(pod())).Admitted(t) },
			"the request should be admitted, but is refused with 500: no",
		},
		"admits what should be refused": {
			func(context.Context, admission.Attributes) error { return nil },
			func(t TB, p *Plugin) { p.Validate(t, Create(pod())).Refused(t, 403, "no") },
			"the request should be refused with 403: no\nbut is admitted",
		},
		"refuses with another message": {
			func(_ context.Context, a admission.Attributes) error {
				return admission.NewForbidden(a, errors.New("no"))
			},
			func(t TB, p *Plugin) { p.Validate(t, Create(pod())).Refused(t, 403, "yes") },
			"the request should be refused with 403: yes\nbut is refused with 403: pods \"p\" is forbidden: no",
		},
		"reads a quantity, which thereby caches its text": {
			func(_ context.Context, a admission.Attributes) error {
				_ = a.GetObject().(*corev1.Pod).Spec.Volumes[0].EmptyDir.SizeLimit.String()
				return nil
			},
			func(t TB, p *Plugin) {
				scratch := pod()
				scratch.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{
					EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: resource.NewQuantity(1<<30, resource.BinarySI)},
				}}}
				p.Validate(t, Create(scratch))
			},
			"",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := failuresOf(t, func(t TB) { test.test(t, doing(test.does)) })
			if !strings.HasPrefix(got, test.want) || (got != "") != (test.want != "") {
				t.Errorf("got failures %q, want %q", got, test.want)
			}
		})
	}
}

type validatingOnly struct{ plugin.Validator }
type mutatingOnly struct{ plugin.Mutator }

func TestPhasesMustAgree(t *testing.T) {
	for name, test := range map[string]struct {
		plugin plugin.Plugin
		phases plugin.Phase
		ok     bool
	}{
		"both":       {both{}, plugin.Mutating | plugin.Validating, true},
		"mutating":   {mutatingOnly{}, plugin.Mutating, true},
		"validating": {validatingOnly{}, plugin.Validating, true},
		"missing":    {mutatingOnly{}, plugin.Mutating | plugin.Validating, false},
		"unnamed":    {both{}, plugin.Validating, false},
	} {
		t.Run(name, func(t *testing.T) {
			descriptor := plugin.Descriptor{Name: "Example", Phases: test.phases, Operations: plugin.EveryOperation,
				New: func(io.Reader, *plugin.Env) (plugin.Plugin, error) {
					return test.plugin, nil
				}}
			got := failuresOf(t, func(t TB) { New(t, descriptor, "") })
			if (got == "") != test.ok {
				t.Errorf("failures: %q", got)
			}
		})
	}
	if got := failuresOf(t, func(t TB) { (&Plugin{Built: validatingOnly{}}).Admit(t, Create(pod())) }); got == "" {
		t.Error("mutating with a plugin that doesn't is not caught")
	}
	if got := failuresOf(t, func(t TB) { (&Plugin{Built: mutatingOnly{}}).Validate(t, Create(pod())) }); got == "" {
		t.Error("validating with a plugin that doesn't is not caught")
	}
}

// reader is a plugin that has a cache, a client and a configuration.
type reader struct {
	both
	config string
	pods   corev1listers.PodLister
}

func readerDescriptor(built *reader) plugin.Descriptor {
	return plugin.Descriptor{
		Name:   "Reader",
		Phases: plugin.Mutating | plugin.Validating, Operations: plugin.EveryOperation,
		Access: []rbacv1.PolicyRule{plugin.To("get list watch", "", "pods"), plugin.To("create", "", "nodes")},
		New: func(config io.Reader, env *plugin.Env) (plugin.Plugin, error) {
			if config != nil {
				content, err := io.ReadAll(config)
				if err != nil {
					return nil, err
				}
				built.config = string(content)
			}
			if built.config == "bad" {
				return nil, errors.New("bad configuration")
			}
			built.pods = env.Informers.Core().V1().Pods().Lister()
			built.validate = func(ctx context.Context, _ admission.Attributes) error {
				_, err := env.Client.CoreV1().Nodes().Create(ctx,
					&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, metav1.CreateOptions{})
				if err != nil {
					return err
				}
				_, err = env.Client.CoreV1().Pods("ns").Get(ctx, "p", metav1.GetOptions{})
				return err
			}
			return built, nil
		},
	}
}

// As in the chain, a plugin that names resources isn't asked about others.
func TestOtherResourcesAreNotHandled(t *testing.T) {
	subject := doing(func(context.Context, admission.Attributes) error { return errors.New("no") })
	subject.Resources = plugin.On(corev1.Resource("pods"))
	given := &corev1.Pod{}
	if result := subject.Validate(t, Create(given)); !result.Handled || result.Err == nil {
		t.Errorf("a pod: %+v", result)
	}
	for _, request := range []Request{Create(&corev1.Secret{}), Update(given, given).On("pods", "status")} {
		if result := subject.Validate(t, request).Admitted(t); result.Handled {
			t.Errorf("%v: %+v", request.Resource, result)
		}
	}
}

func TestNewBuildsWithAClusterInSync(t *testing.T) {
	var built reader
	subject := New(t, readerDescriptor(&built), "a: b", pod())
	if built.config != "a: b" {
		t.Errorf("the configuration is %q", built.config)
	}
	if _, err := built.pods.Pods("ns").Get("p"); err != nil {
		t.Errorf("the cache has not synced: %v", err)
	}
	if calls := subject.Calls(); len(calls) != 0 {
		t.Errorf("calls before the first request: %q", calls)
	}
	subject.Validate(t, Create(pod())).Admitted(t)
	if calls := subject.Calls(); !slices.Equal(calls, []string{"create nodes n", "get pods ns/p"}) {
		t.Errorf("calls: %q", calls)
	}

	if got := failuresOf(t,
		func(t TB) { New(t, readerDescriptor(&built), "bad") }); got != "building Reader: bad configuration" {
		t.Errorf("got %q", got)
	}
}

// What a plugin does is compared with what its descriptor says; what its test does isn't.
func TestAccess(t *testing.T) {
	var built reader
	descriptor := readerDescriptor(&built)
	subject := New(t, descriptor, "", pod())
	if _, err := subject.Client.CoreV1().Pods("ns").List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	check := func() string { return failuresOf(t, func(t TB) { subject.checkAccess(t, &descriptor) }) }
	subject.Validate(t, Create(pod())).Admitted(t)
	if got, want := subject.Rights(), descriptor.Rights(); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := check(); got != "" {
		t.Error(got)
	}
	descriptor.Access = descriptor.Access[:1]
	if got, want := check(), "Reader: the Access of the descriptor doesn't say: create nodes"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	descriptor.Server.Only = "it is for tests"
	if got := check(); got != "" {
		t.Error(got)
	}
}

func TestWhatIsCreatedLaterReachesTheCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var built reader
		subject := New(t, readerDescriptor(&built), "")
		if err := subject.Client.Tracker().Add(pod()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if _, err := built.pods.Pods("ns").Get("p"); err != nil {
			t.Error(err)
		}
	})
}

func TestTheClusterEndsWithTheTest(t *testing.T) {
	var done <-chan struct{}
	t.Run("test", func(t *testing.T) { done = NewCluster(t).Env.Done })
	select {
	case <-done:
	default:
		t.Error("Done is still open")
	}
}

func TestRequests(t *testing.T) {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns"}}
	eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}
	for name, test := range map[string]struct {
		request Request
		want    string
	}{
		"create": {Create(pod()), "CREATE /v1, Resource=pods  ns/p /v1, Kind=Pod object"},
		"update": {Update(pod(), pod()), "UPDATE /v1, Resource=pods  ns/p /v1, Kind=Pod object old"},
		"delete": {Delete(pod()), "DELETE /v1, Resource=pods  ns/p /v1, Kind=Pod old"},
		"connect": {Connect(pod(), "exec", &corev1.PodExecOptions{}),
			"CONNECT /v1, Resource=pods exec ns/p /v1, Kind=PodExecOptions object"},
		"namespace": {Delete(namespace), "DELETE /v1, Resource=namespaces  ns/ns /v1, Kind=Namespace old"},
		"other parent": {Create(eviction).On("pods", "eviction"),
			"CREATE policy/v1, Resource=pods eviction ns/p policy/v1, Kind=Eviction object"},
		"dry run": {Create(pod()).AsDryRun(), "CREATE /v1, Resource=pods  ns/p /v1, Kind=Pod object dry-run"},
	} {
		t.Run(name, func(t *testing.T) {
			a := test.request.attributes(test.request.Object, test.request.OldObject)
			got := fmt.Sprintf("%s %s %s %s/%s %s", a.GetOperation(), a.GetResource(), a.GetSubresource(),
				a.GetNamespace(), a.GetName(), a.GetKind())
			if a.GetObject() != nil {
				got += " object"
			}
			if a.GetOldObject() != nil {
				got += " old"
			}
			if a.IsDryRun() {
				got += " dry-run"
			}
			if got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
	if u := Create(pod()).By("alice", "dev").User; u.GetName() != "alice" ||
		!slices.Equal(u.GetGroups(), []string{"dev"}) {
		t.Errorf("user %v", u)
	}
}
