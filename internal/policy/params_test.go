// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	"gatehouse.dev/internal/expression"
	"gatehouse.dev/internal/timeshare"
	"gatehouse.dev/plugin/plugintest"
)

const (
	byConfigMap = `{paramKind: {apiVersion: v1, kind: ConfigMap}, validations: [{expression: "params != null && ` +
		`params.data.ok == 'true'", messageExpression: "params == null ? 'none' : 'by ' + params.metadata.name"}]}`
	byLimit = `{paramKind: {apiVersion: example.com/v1, kind: Limit}, validations: [{expression: "params == null || ` +
		`size(object.spec.containers) <= params.spec.max", messageExpression: "'by ' + params.metadata.name"}]}`
)

// Source: k8s.io/apiserver/pkg/admission/plugin/policy/validating/admission_test.go#TestParamRef a6a29f82
func TestParams(t *testing.T) {
	good, bad := map[string]any{"ok": "true"}, map[string]any{"ok": "false"}
	objects := []runtime.Object{
		configMap("shop", "good", map[string]string{"use": "a"}, good),
		configMap("shop", "bad", map[string]string{"use": "b"}, bad),
		configMap("shop", "another", map[string]string{"use": "b"}, bad),
		configMap("other", "good", map[string]string{"use": "a"}, bad), limit("one", 1), limit("three", 3),
	}
	for _, test := range []struct {
		name, policy, ref string
		object            runtime.Object
		// want are the messages of the violations, in order; none is none.
		want []string
	}{
		{name: "by name", policy: byConfigMap, ref: `{name: good, parameterNotFoundAction: Deny}`},
		{name: "by name, in violation", policy: byConfigMap, ref: `{name: bad, parameterNotFoundAction: Deny}`,
			want: []string{"by bad"}},
		{name: "in a namespace", policy: byConfigMap,
			ref:  `{name: good, namespace: other, parameterNotFoundAction: Deny}`,
			want: []string{"by good"}},
		{name: "not found, denied", policy: byConfigMap, ref: `{name: nope, parameterNotFoundAction: Deny}`,
			want: []string{"failed to configure binding: no params found for policy binding with `Deny` " +
				"parameterNotFoundAction"}},
		{name: "not found, allowed", policy: byConfigMap, ref: `{name: nope, parameterNotFoundAction: Allow}`},
		{name: "by selector", policy: byConfigMap,
			ref:  `{selector: {matchLabels: {use: b}}, parameterNotFoundAction: Deny}`,
			want: []string{"by another", "by bad"}},
		{name: "by selector of everything", policy: byConfigMap, ref: `{selector: {}, parameterNotFoundAction: Deny}`,
			want: []string{"by another", "by bad"}},
		{name: "by selector of nothing, denied", policy: byConfigMap,
			ref: `{selector: {matchLabels: {use: c}}, parameterNotFoundAction: Deny}`,
			want: []string{"failed to configure binding: no params found for policy binding with `Deny` " +
				"parameterNotFoundAction"}},
		{name: "by selector of nothing, allowed", policy: byConfigMap,
			ref: `{selector: {matchLabels: {use: c}}, parameterNotFoundAction: Allow}`},
		{name: "by selector in a namespace", policy: byConfigMap,
			ref: `{selector: {}, namespace: other, parameterNotFoundAction: Deny}`, want: []string{"by good"}},
		{name: "of the cluster, by name", policy: byLimit, ref: `{name: one, parameterNotFoundAction: Deny}`,
			want: []string{"by one"}},
		{name: "of the cluster, by selector", policy: byLimit, ref: `{selector: {}, parameterNotFoundAction: Deny}`,
			want: []string{"by one"}},
		{name: "of the cluster, in a namespace", policy: byLimit,
			ref: `{name: one, namespace: shop, parameterNotFoundAction: Deny}`,
			want: []string{"failed to configure binding: paramRef.namespace must not be provided for a " +
				"cluster-scoped " +
				"`paramKind`"}},
		{name: "of the cluster, for an object of it", policy: byLimit,
			ref: `{name: one, parameterNotFoundAction: Deny}`,
			object: &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
				ObjectMeta: metav1.ObjectMeta{Name: "web"}},
			want: []string{"expression 'params == null || size(object.spec.containers) <= params.spec.max' resulted " +
				"in " +
				"error: no such key: spec"}},
		{name: "of a namespace, for an object of the cluster", policy: byConfigMap,
			ref: `{name: good, parameterNotFoundAction: Deny}`,
			object: &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
				ObjectMeta: metav1.ObjectMeta{Name: "web"}},
			want: []string{"failed to configure binding: cannot use namespaced paramRef in policy binding that " +
				"matches " +
				"cluster-scoped resources"}},
		{name: "neither name nor selector", policy: byConfigMap, ref: `{parameterNotFoundAction: Deny}`,
			want: []string{"failed to configure binding: one of name or selector must be provided"}},
		{name: "both", policy: byConfigMap, ref: `{name: good, selector: {}, parameterNotFoundAction: Deny}`,
			want: []string{"failed to configure binding: paramRef.name and paramRef.selector are mutually exclusive"}},
		{name: "a binding without params", policy: byConfigMap, ref: ``, want: []string{"none"}},
		{name: "a policy without params", policy: noLatest, ref: `{name: nope, parameterNotFoundAction: Deny}`},
		{name: "conditions read params",
			policy: `{paramKind: {apiVersion: v1, kind: ConfigMap}, matchConditions: [{name: x, expression: ` +
				`"params.data.ok == 'false'"}], validations: [{expression: "false", messageExpression: ` +
				`"string(params.metadata.name)"}]}`,
			ref: `{selector: {}, parameterNotFoundAction: Deny}`, want: []string{"another", "bad"}},
		{name: "a kind that isn't there", policy: strings.ReplaceAll(byConfigMap, "ConfigMap", "Nope"),
			ref: `{name: good, parameterNotFoundAction: Deny}`,
			want: []string{"failed to configure policy: failed to find resource referenced by paramKind: '/v1, " +
				"Kind=Nope'"}},
		{name: "a kind that isn't there, ignored",
			policy: "{failurePolicy: Ignore, " + strings.ReplaceAll(byConfigMap, "ConfigMap", "Nope")[1:],
			ref:    `{name: good, parameterNotFoundAction: Deny}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			binding := bind(t, "p", "")
			if test.ref != "" {
				read(t, "{paramRef: "+test.ref+"}", &binding.Spec)
			}
			if test.object == nil {
				test.object = pod("web", "a", "b")
			}
			p := start(t, append(objects, policyOf(t, "p", test.policy), binding)...)
			err := p.Validate(t, plugintest.Create(test.object)).Err
			var got []string
			if status, ok := err.(apierrors.APIStatus); ok {
				for _, cause := range status.Status().Details.Causes {
					_, message, _ := strings.Cut(cause.Message, "denied request: ")
					got = append(got, message)
				}
			}
			if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", test.want) {
				t.Errorf("got  %q\nwant %q", got, test.want)
			}
		})
	}
}

// Params that the cache doesn't show are read from the API, so that those that have just been created
// elsewhere count.
//
// Source: TestCollectParams in
// k8s.io/apiserver/pkg/admission/plugin/policy/generic/policy_dispatcher_test.go.
func TestParamsAreReadLive(t *testing.T) {
	fails := func(err error) clienttesting.ReactionFunc {
		return func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, err }
	}
	resource := limits.GroupResource()
	const denied = `ValidatingAdmissionPolicy 'p' with binding 'p-binding' denied request: `
	for _, test := range []struct {
		name, ref string
		get       clienttesting.ReactionFunc
		ignores   bool
		code      int32 // 0 if it is admitted
		message   string
	}{
		{name: "there", ref: `{name: one, parameterNotFoundAction: Deny}`, code: 422, message: denied + "by one"},
		{name: "there, and may be missing", ref: `{name: one, parameterNotFoundAction: Allow}`, code: 422,
			message: denied + "by one"},
		{name: "not there", ref: `{name: two, parameterNotFoundAction: Deny}`, code: 422,
			message: denied + "failed to configure binding: no params found for policy binding with `Deny`"},
		{name: "not there, allowed", ref: `{name: two, parameterNotFoundAction: Allow}`},
		{name: "the kind has gone", ref: `{name: one, parameterNotFoundAction: Allow}`,
			get: fails(apierrors.NewGenericServerResponse(404, "get", resource, "one", "", 0, true))},
		{name: "not by selector", ref: `{selector: {}, parameterNotFoundAction: Allow}`},
		{name: "an error", ref: `{name: one, parameterNotFoundAction: Allow}`,
			get: fails(apierrors.NewForbidden(resource, "one", nil)), code: 422,
			message: denied + `failed to configure binding: limits.example.com "one" is forbidden`},
		{name: "an error, ignored", ref: `{name: one, parameterNotFoundAction: Deny}`, ignores: true,
			get: fails(apierrors.NewForbidden(resource, "one", nil))},
		{name: "no answer", ref: `{name: one, parameterNotFoundAction: Allow}`, get: fails(context.DeadlineExceeded),
			code: 504},
		{name: "no answer just now", ref: `{name: one, parameterNotFoundAction: Allow}`,
			get: fails(apierrors.NewServiceUnavailable("starting")), code: 503, message: "starting"},
		{name: "no answer, ignored", ref: `{name: one, parameterNotFoundAction: Deny}`, ignores: true,
			get: fails(context.DeadlineExceeded)},
	} {
		t.Run(test.name, func(t *testing.T) {
			policy := policyOf(t, "p", byLimit)
			if test.ignores {
				*policy.Spec.FailurePolicy = admissionregistrationv1.Ignore
			}
			c := cluster(t, limit("one", 1), policy, bind(t, "p", "{paramRef: "+test.ref+"}"))
			client := c.Env.Dynamic.(interface {
				PrependReactor(verb, resource string, reaction clienttesting.ReactionFunc)
			})
			client.PrependReactor("list", "limits", func(clienttesting.Action) (bool, runtime.Object, error) {
				return true, &unstructured.UnstructuredList{Object: map[string]any{"apiVersion": "example.com/v1",
					"kind": "LimitList", "metadata": map[string]any{"resourceVersion": "1000000"}}}, nil
			})
			if test.get != nil {
				client.PrependReactor("get", "limits", test.get)
			}
			result := c.Build(t, descriptor, "").Validate(t, plugintest.Create(pod("web", "a", "b")))
			if result.Code() != int(test.code) || !strings.Contains(result.Message(), test.message) {
				t.Errorf("got %d %s, want %d %s", result.Code(), result.Message(), test.code, test.message)
			}
		})
	}
}

// becomes waits until what has changed has had its effect, and then wants the request admitted, or
// refused with a message that contains text. It is for tests in a bubble of synctest.
func becomes(t *testing.T, p *plugintest.Plugin, r plugintest.Request, text string) {
	t.Helper()
	synctest.Wait()
	result := p.Validate(t, r)
	if text == "" && result.Err == nil || text != "" && strings.Contains(result.Message(), text) {
		return
	}
	t.Fatalf("the refusal should contain %q, but is %q", text, result.Message())
}

// What is created, changed and deleted is in force soon: policies, bindings, params.
func TestChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		c := cluster(t)
		p := c.Build(t, descriptor, "")
		request := plugintest.Create(pod("web", "a", "b"))
		api := c.Client.AdmissionregistrationV1()
		policies, bindings := api.ValidatingAdmissionPolicies(), api.ValidatingAdmissionPolicyBindings()
		must := func(_ any, err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		policy, binding := policyOf(t, "p", byLimit),
			bind(t, "p", `{paramRef: {selector: {}, parameterNotFoundAction: Deny}}`)
		must(bindings.Create(ctx, binding, metav1.CreateOptions{}))
		must(policies.Create(ctx, policy, metav1.CreateOptions{}))
		becomes(t, p, request, "no params found for policy binding")
		must(c.Env.Dynamic.Resource(limits).Create(ctx, limit("one", 1), metav1.CreateOptions{}))
		becomes(t, p, request, "by one")
		must(c.Env.Dynamic.Resource(limits).Create(ctx, limit("a", 0), metav1.CreateOptions{}))
		becomes(t, p, request, "by a\n")
		must(nil, c.Env.Dynamic.Resource(limits).Delete(ctx, "a", metav1.DeleteOptions{}))
		must(c.Env.Dynamic.Resource(limits).Update(ctx, limit("one", 2), metav1.UpdateOptions{}))
		becomes(t, p, request, "")
		changed := policy.DeepCopy()
		changed.Spec.Validations[0].Expression = "false"
		must(policies.Update(ctx, changed, metav1.UpdateOptions{}))
		becomes(t, p, request, "by one")
		must(nil, bindings.Delete(ctx, binding.Name, metav1.DeleteOptions{}))
		becomes(t, p, request, "")
		must(bindings.Create(ctx, binding, metav1.CreateOptions{}))
		becomes(t, p, request, "by one")
		must(nil, policies.Delete(ctx, "p", metav1.DeleteOptions{}))
		becomes(t, p, request, "")
	})
}

// A policy that changes, or a binding, leaves what was compiled of the others alone.
func TestOthersAreTakenOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := cluster(t, policyOf(t, "p", noLatest), bind(t, "p", ""), policyOf(t, "q", noLatest), bind(t, "q", ""))
		p := c.Build(t, descriptor, "")
		p.Validate(t, plugintest.Create(pod("web", "a:1"))).Admitted(t)
		e := p.Built.(*Validating).engine
		before := e.snapshot()
		changed := policyOf(t, "p", `validations: [{expression: "false"}]`)
		if _, err := c.Client.AdmissionregistrationV1().ValidatingAdmissionPolicies().Update(t.Context(), changed,
			metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		becomes(t, p, plugintest.Create(pod("web")), "failed expression: false")
		after := e.snapshot()
		if before.policies[1].definition != after.policies[1].definition || before.policies[0].definition ==
			after.policies[0].definition {
			t.Error("what was made of q is not kept, or what was made of p is")
		}
	})
}

// noted is an action that sends its name when it is prepared.
type noted struct {
	name string
	to   chan<- string
}

func (n noted) prepare() { n.to <- n.name }

// What comes into force is compiled before a request asks for it, and nothing that has no binding.
func TestPrepared(t *testing.T) {
	to := make(chan string)
	policies := []*admissionregistrationv1.ValidatingAdmissionPolicy{policyOf(t, "p", ""), policyOf(t, "q", "")}
	bindings := []*admissionregistrationv1.ValidatingAdmissionPolicyBinding{bind(t, "q", "")}
	s := newSource(kind[*admissionregistrationv1.ValidatingAdmissionPolicy,
		*admissionregistrationv1.ValidatingAdmissionPolicyBinding, noted]{
		define: func(_ *expression.Compiler, p *admissionregistrationv1.ValidatingAdmissionPolicy,
			_ bool) *definition[noted] {
			return &definition[noted]{name: p.Name, action: noted{p.Name, to}}
		},
		bind: bindValidating,
		policies: func(labels.Selector) ([]*admissionregistrationv1.ValidatingAdmissionPolicy, error) {
			return policies, nil
		},
		bindings: func(labels.Selector) ([]*admissionregistrationv1.ValidatingAdmissionPolicyBinding, error) {
			return bindings, nil
		},
	})
	s.params = newParamKinds(nil, nil, nil, nil)
	done, ended := make(chan struct{}), make(chan struct{})
	current := s.snapshot()
	go func() {
		s.prepare(func() *snapshot[noted] { return current }, done)
		close(ended)
	}()
	if got := <-to; got != "q" {
		t.Errorf("%s is prepared first, and not q", got)
	}
	close(done)
	<-ended
}

// A kind of params that appears while its policy is in force is found. A kind that no policy uses any
// more isn't watched. It is watched again when a policy uses it, unlike upstream's before 1.38.
func TestKindsComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := cluster(t, limit("one", 1), policyOf(t, "p", byLimit),
			bind(t, "p", `{paramRef: {name: one, parameterNotFoundAction: Deny}}`))
		there := c.Env.RESTMapper
		mapper := &switching{RESTMapper: meta.NewDefaultRESTMapper(nil)}
		c.Env.RESTMapper = mapper
		p := c.Build(t, descriptor, "")
		request := plugintest.Create(pod("web", "a", "b"))
		p.Validate(t, request).Refused(t, 422,
			`pods "web" is forbidden: ValidatingAdmissionPolicy 'p' denied request: failed `+
				`to configure policy: failed to find resource referenced by paramKind: 'example.com/v1, Kind=Limit'`)
		mapper.set(there)
		time.Sleep(paramRetry)
		becomes(t, p, request, "by one")
		kind := p.Built.(*Validating).engine.snapshot().policies[0].params
		policies := c.Client.AdmissionregistrationV1().ValidatingAdmissionPolicies()
		if err := policies.Delete(t.Context(), "p", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		becomes(t, p, request, "")
		if !kind.informer.IsStopped() {
			t.Error("the informer of a kind that nobody asks for runs on")
		}
		if _, err := policies.Create(t.Context(), policyOf(t, "p", byLimit), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		becomes(t, p, request, "by one")
		if _, err := c.Env.Dynamic.Resource(limits).Update(t.Context(), limit("one", 2),
			metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		becomes(t, p, request, "")
	})
}

// Params that can't be listed are an error of their policies, after a second for all of them.
func TestParamsThatCannotBeListed(t *testing.T) {
	objects := []runtime.Object{policyOf(t, "p", byLimit)}
	for i := range 20 {
		objects = append(objects, named(bind(t, "p", `{paramRef: {name: one, parameterNotFoundAction: Deny}}`),
			fmt.Sprint("b", i)))
	}
	c := cluster(t, objects...)
	c.Env.Dynamic.(interface {
		PrependReactor(verb, resource string, reaction clienttesting.ReactionFunc)
	}).PrependReactor("list", "limits", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "limits"}, "", nil)
	})
	p := c.Build(t, descriptor, "")
	started := time.Now()
	result := p.Validate(t, plugintest.Create(pod("web")))
	if took := time.Since(started); took > 15*time.Second {
		t.Errorf("it took %v", took)
	}
	want := "failed to configure binding: paramKind kind `&ParamKind{APIVersion:example.com/v1,Kind:Limit,}` not yet " +
		"synced to use for admission"
	if result.Code() != 422 || strings.Count(result.Message(), want) != 20 {
		t.Errorf("%d %s", result.Code(), result.Message())
	}
}

// hanging is a client whose reads end with their contexts.
type hanging struct {
	dynamic.NamespaceableResourceInterface
}

func (h hanging) Namespace(string) dynamic.ResourceInterface { return reading{} }

type reading struct{ dynamic.ResourceInterface }

func (reading) Get(ctx context.Context, _ string, _ metav1.GetOptions, _ ...string) (*unstructured.Unstructured,
	error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// Params that can't be read use up only a part of the time of a request that can do without them. After
// that there is time to read them for a policy under Fail.
func TestParamsThatHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		dispensable := timeshare.Dispensable(ctx, timeshare.Sequential)
		took := func(wait func()) time.Duration {
			start := time.Now()
			wait()
			return time.Since(start)
		}
		k := &paramKind{client: hanging{}, synced: make(chan struct{}),
			informer: cache.NewSharedIndexInformer(&cache.ListWatch{}, &unstructured.Unstructured{}, 0, nil)}
		var r request
		for _, want := range []time.Duration{300 * time.Millisecond, 0} {
			if got := took(func() { r.waitForParams(dispensable, k) }); got != want {
				t.Errorf("a request that can do without params waited %v, want %v", got, want)
			}
		}
		read := took(func() {
			if _, err := k.getByName(dispensable, "shop", "one"); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("the error is %v", err)
			}
		})
		if read != 210*time.Millisecond {
			t.Errorf("a read that the request can do without took %v", read)
		}
		if got := took(func() { r.waitForParams(ctx, k) }); got != 490*time.Millisecond || ctx.Err() == nil {
			t.Errorf("a request that needs params waited %v, to the end of its time: %v", got, ctx.Err())
		}
	})
}
