// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package remote_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/warning"

	"gatehouse.dev/chain"
	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/podspec"
	"gatehouse.dev/plugins/alwayspullimages"
	"gatehouse.dev/plugins/denyserviceexternalips"
	"gatehouse.dev/remote"
	"gatehouse.dev/webhook/server"
)

// decider is one that does what its functions do, of which there is one.
type decider struct {
	admit, validate func(context.Context, admission.Attributes) error
}

func (decider) Handles(admission.Operation) bool { return true }

func (p decider) Admit(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	return p.admit(ctx, a)
}

func (p decider) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	return p.validate(ctx, a)
}

func (p decider) named(name string) plugin.Descriptor {
	phases := plugin.Mutating
	if p.validate != nil {
		phases = plugin.Validating
	}
	return plugin.Descriptor{Name: name, Phases: phases, Operations: plugin.EveryOperation,
		New: func(io.Reader, *plugin.Env) (plugin.Plugin, error) { return p, nil }}
}

// securityContextDeny only validates, and only pods.
var securityContextDeny = func() plugin.Descriptor {
	d := decider{validate: func(_ context.Context, a admission.Attributes) error {
		pod, err := podspec.Pod("SecurityContextDeny", a.GetObject())
		if err == nil && pod.Spec.SecurityContext != nil && pod.Spec.SecurityContext.RunAsUser != nil {
			err = admission.NewForbidden(a, errors.New("spec.securityContext.runAsUser is forbidden"))
		}
		return err
	}}.named("SecurityContextDeny")
	d.Operations = []admission.Operation{admission.Create, admission.Update}
	d.Resources = plugin.On(corev1.Resource("pods"), "", "ephemeralcontainers")
	return d
}()

func newChain(t testing.TB, list ...plugin.Descriptor) *chain.Chain {
	t.Helper()
	c, err := chain.New(list, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func request(operation admissionv1.Operation, resource, kind, object string) *admissionv1.AdmissionRequest {
	r := &admissionv1.AdmissionRequest{UID: "1", Operation: operation, Namespace: "shop", Name: "web",
		Kind:     metav1.GroupVersionKind{Version: "v1", Kind: kind},
		Resource: metav1.GroupVersionResource{Version: "v1", Resource: resource}}
	r.Resource.Resource, r.SubResource, _ = strings.Cut(resource, "/")
	if object != "" {
		r.Object.Raw = []byte(object)
	}
	return r
}

// A review is answered with what compiled-in plugins do to the object, and no more.
func TestReviews(t *testing.T) {
	c := newChain(t, alwayspullimages.Descriptor, securityContextDeny, denyserviceexternalips.Descriptor)
	const gadget = `{"apiVersion":"v1","kind":"Gadget","spec":{"size":3}}`
	const sent = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","future":{"a":1}},"spec":{"containers":` +
		`[{"name":"web","image":"nginx","future":[1,2]}],"future":"x"}}`
	for name, test := range map[string]struct {
		handler server.FallibleHandler
		request *admissionv1.AdmissionRequest
		want    string
	}{
		"a change": {remote.Mutate(c), request("CREATE", "pods", "Pod", sent),
			`allowed [{"op":"add","path":"/spec/containers/0/imagePullPolicy","value":"Always"}]`},
		"none to make": {remote.Mutate(c), request("CREATE", "pods", "Pod",
			strings.Replace(sent, `"image"`, `"imagePullPolicy":"Always","image"`, 1)), `allowed`},
		"a refusal": {remote.Validate(c), request("CREATE", "pods", "Pod",
			strings.Replace(sent, `"image"`, `"imagePullPolicy":"Never","image"`, 1)),
			`403 Forbidden: pods "web" is forbidden: spec.containers[0].imagePullPolicy: Unsupported value: "Never": ` +
				`supported values: "Always"`},
		"another resource": {remote.Mutate(c), request("CREATE", "configmaps", "ConfigMap", `{"data":{"a":"b"}}`),
			`allowed`},
		"a custom resource": {remote.Mutate(c), request("CREATE", "gadgets", "Gadget", gadget), `allowed`},
		"no object":         {remote.Mutate(c), request("DELETE", "pods", "Pod", ""), `allowed`},
		"null":              {remote.Mutate(c), request("CREATE", "pods", "Pod", `null`), "400 BadRequest"},
		"a connection": {remote.Validate(c), request("CONNECT", "pods/exec", "PodExecOptions", `{"stdin":true}`),
			`allowed`},
		"another form": {remote.Mutate(c), request("CREATE", "pods", "Pod", `{"spec":[]}`), "400 BadRequest: " +
			"request.object: Invalid value: decoding a Pod: json: cannot unmarshal array into Go struct field " +
			"Pod.spec of type v1.PodSpec"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := inWords(answered(t, test.handler, test.request)); !strings.HasPrefix(got, test.want) ||
				test.want == "allowed" && got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

func answered(t *testing.T, h server.FallibleHandler, request *admissionv1.AdmissionRequest) server.Response {
	t.Helper()
	response, err := h(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	return response
}

func inWords(r server.Response) string {
	if !r.Allowed {
		return fmt.Sprintf("%d %s: %s", r.Result.Code, r.Result.Reason, r.Result.Message)
	}
	return strings.TrimSpace("allowed " + string(r.Patch))
}

// Plugins are shown all that there is of a request.
func TestAttributes(t *testing.T) {
	var got string
	see := decider{admit: func(_ context.Context, a admission.Attributes) error {
		got = fmt.Sprintf("%s %s/%s %s %s %s/%s %T %T %T %t %s %v %v", a.GetOperation(), a.GetResource().Resource,
			a.GetSubresource(), a.GetResource().GroupVersion(), a.GetKind().Kind, a.GetNamespace(), a.GetName(),
			a.GetObject(), a.GetOldObject(), a.GetOperationOptions(), a.IsDryRun(), a.GetUserInfo().GetName(),
			a.GetUserInfo().GetGroups(), a.GetUserInfo().GetExtra())
		return nil
	}}
	r := request("UPDATE", "pods/ephemeralcontainers", "Pod", `{"metadata":{"name":"web"}}`)
	r.OldObject.Raw = []byte(`{"metadata":{"name":"web"}}`)
	r.Options.Raw = []byte(`{"kind":"UpdateOptions","apiVersion":"meta.k8s.io/v1","fieldManager":"m"}`)
	r.DryRun = new(true)
	r.UserInfo.Username, r.UserInfo.Groups = "alice", []string{"dev"}
	r.UserInfo.Extra = map[string]authenticationv1.ExtraValue{"k": {"v"}}
	if response := answered(t, remote.Mutate(newChain(t, see.named("A"))), r); !response.Allowed {
		t.Fatal(response)
	}
	if want := "UPDATE pods/ephemeralcontainers v1 Pod shop/web *v1.Pod *v1.Pod *v1.UpdateOptions true alice [dev] " +
		"map[k:[v]]"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	gadget := request("CREATE", "gadgets", "Gadget", `{"apiVersion":"v1","kind":"Gadget","spec":{"size":3}}`)
	grow := decider{admit: func(_ context.Context, a admission.Attributes) error {
		return unstructured.SetNestedField(a.GetObject().(*unstructured.Unstructured).Object, int64(4), "spec", "size")
	}}
	if got, want := inWords(answered(t, remote.Mutate(newChain(t, grow.named("A"))), gadget)),
		`allowed [{"op":"replace","path":"/spec/size","value":4}]`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// What plugins say besides a verdict goes to the client and into its audit event, whether it is
// refused or not. Errors keep their code; one that is none of the API's is the server's.
func TestBesidesTheVerdict(t *testing.T) {
	for want, err := range map[string]error{
		"allowed":                    nil,
		`429 TooManyRequests: later`: apierrors.NewTooManyRequests("later", 1),
	} {
		says := decider{validate: func(ctx context.Context, a admission.Attributes) error {
			warning.AddWarning(ctx, "", "mind this")
			warning.AddWarning(ctx, "", "mind this")
			if err := a.AddAnnotation("example.com/why", "because"); err != nil {
				t.Error(err)
			}
			return err
		}}
		got := answered(t, remote.Validate(newChain(t, says.named("A"))), request("CREATE", "pods", "Pod", "{}"))
		if inWords(got) != want || !slices.Equal(got.Warnings, []string{"mind this"}) ||
			got.AuditAnnotations["example.com.why"] != "because" {
			t.Errorf("got %s, warnings %q, annotations %v; want %s", inWords(got), got.Warnings, got.AuditAnnotations,
				want)
		}
	}
}

// A plugin that panics, or fails otherwise, has not answered: the call fails.
func TestFailures(t *testing.T) {
	for want, validate := range map[string]func(context.Context, admission.Attributes) error{
		`Internal error occurred: admission plugin "A" panicked in the validating phase`: func(context.Context,
			admission.Attributes) error {
			panic("no")
		},
		"broken": func(context.Context, admission.Attributes) error { return errors.New("broken") },
		// The server of the plugin would answer with 500, too.
		`A: pods "web" is forbidden: no`: func(_ context.Context, a admission.Attributes) error {
			return fmt.Errorf("A: %w", admission.NewForbidden(a, errors.New("no")))
		},
		"Internal error occurred: away": func(context.Context, admission.Attributes) error {
			return apierrors.NewInternalError(errors.New("away"))
		},
	} {
		handler := remote.Validate(newChain(t, decider{validate: validate}.named("A")))
		response, err := handler(t.Context(), request("CREATE", "pods", "Pod", "{}"))
		if err == nil || err.Error() != want || response.Allowed {
			t.Errorf("got %v, %v; want the error %s", response, err, want)
		}
	}
}

// An API server asks about what the plugins look at, and about nothing else.
func TestRules(t *testing.T) {
	everything := decider{validate: func(context.Context, admission.Attributes) error { return nil }}.named("All")
	everything.Operations = []admission.Operation{admission.Delete, admission.Create}
	list := []plugin.Descriptor{alwayspullimages.Descriptor, securityContextDeny,
		denyserviceexternalips.Descriptor}
	for _, test := range []struct {
		list  []plugin.Descriptor
		phase plugin.Phase
		want  []string
	}{
		{list, plugin.Mutating, []string{"[CREATE UPDATE] [] [pods pods/ephemeralcontainers]"}},
		{list, plugin.Validating, []string{"[CREATE UPDATE] [] [pods pods/ephemeralcontainers services]"}},
		{append(slices.Clone(list), everything), plugin.Validating,
			[]string{"[CREATE DELETE] [*] [*/*]", "[UPDATE] [] [pods pods/ephemeralcontainers services]"}},
		{nil, plugin.Mutating, nil},
	} {
		var got []string
		for _, r := range remote.Rules(test.list, test.phase) {
			got = append(got, fmt.Sprint(r.Operations, r.APIGroups, r.Resources))
			if !slices.Equal(r.APIVersions, []string{"*"}) || *r.Scope != admissionregistrationv1.AllScopes {
				t.Errorf("%v", r)
			}
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	}
}

// Whatever is posted, it is answered, and a patch does to the object what the plugins did.
func FuzzReview(f *testing.F) {
	c := newChain(f, alwayspullimages.Descriptor, securityContextDeny)
	f.Add(`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"1","operation":"CREATE",` +
		`"kind":{"version":"v1","kind":"Pod"},"resource":{"version":"v1","resource":"pods"},"object":{"spec":` +
		`{"containers":[{"name":"a"}]}},"options":{}}}`)
	f.Add(`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1beta1","request":{"uid":"1","operation":"DELETE",` +
		`"oldObject":{"a":[]}}}`)
	f.Fuzz(func(t *testing.T, body string) {
		for _, handler := range []server.FallibleHandler{remote.Mutate(c), remote.Validate(c)} {
			w := httptest.NewRecorder()
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(body))
			r.Header.Set("Content-Type", "application/json")
			handler.ServeHTTP(w, r)
			if w.Code == http.StatusOK {
				var review admissionv1.AdmissionReview
				if err := json.Unmarshal(w.Body.Bytes(), &review); err != nil || review.Response == nil ||
					strings.Contains(w.Body.String(), "panicked") {
					t.Errorf("%s: %v", w.Body, err)
				}
			}
		}
	})
}
