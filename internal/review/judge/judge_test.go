// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package judge_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/warning"

	"gatehouse.dev/apis/decisions/v1alpha1"
	"gatehouse.dev/internal/review/judge"
	"gatehouse.dev/plugin"
	"gatehouse.dev/plugins"
	"gatehouse.dev/review"
	"gatehouse.dev/server"
	"gatehouse.dev/test/needs"
)

// candidate and baseline are judges with the same state. The candidate has a plugin more.
var candidate, baseline *review.Judge

func TestMain(m *testing.M) {
	needs.NotShort()
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (int, error) {
	var err error
	if baseline, err = start(server.NewConfig(plugins.List), state, ""); err != nil {
		return 0, err
	}
	defer baseline.Close()
	config := server.NewConfig(append([]plugin.Descriptor{{
		Name: "Obedient", Default: true, Phases: plugin.Validating, Operations: []admission.Operation{admission.Create},
		New: func(io.Reader, *plugin.Env) (plugin.Plugin, error) { return obedient{}, nil },
	}}, plugins.List...))
	if candidate, err = start(config, state, `{kind: Namespace, apiVersion: v1, metadata: {name: shop,
labels: {pod-security.kubernetes.io/enforce: baseline}}}`); err != nil {
		return 0, err
	}
	defer candidate.Close()
	return m.Run(), nil
}

// start starts a judge with objects in YAML.
func start(config *server.Config, state, candidate string) (*review.Judge, error) {
	read := func(text string) []review.Document {
		documents, errs := review.Read([]string{"-"}, strings.NewReader(text))
		if len(errs) > 0 && text != "" {
			panic(errors.Join(errs...))
		}
		return documents
	}
	return review.StartJudge(context.Background(), review.Options{Config: config, State: read(state)}, read(candidate))
}

const state = `{kind: Namespace, apiVersion: v1, metadata: {name: shop}}
---
{kind: ResourceQuota, apiVersion: v1, metadata: {name: none, namespace: shop}, spec: {hard: {pods: "0"}}}
---
{kind: ConfigMap, apiVersion: v1, metadata: {name: there, namespace: shop}}
`

// abandoned has an element once nobody waits for a plugin any more that was told to wait.
var abandoned = make(chan struct{}, 1)

// obedient does what the annotation "do" of an object says.
type obedient struct{}

func (obedient) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	object, ok := a.GetObject().(interface{ GetAnnotations() map[string]string })
	if !ok {
		return nil
	}
	switch object.GetAnnotations()["do"] {
	case "panic":
		panic("as told")
	case "abort":
		panic(http.ErrAbortHandler)
	case "wait":
		<-ctx.Done()
		<-abandoned
	case "warn":
		warning.AddWarning(ctx, "", "as told")
		warning.AddWarning(ctx, "", "as told")
	case "refuse":
		return admission.NewForbidden(a, errors.New("as told"))
	}
	return nil
}

var (
	dev        = &user.DefaultInfo{Name: "dev", Groups: []string{user.AllAuthenticated}}
	pods       = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	services   = schema.GroupVersionResource{Version: "v1", Resource: "services"}
)

// pod returns the JSON of a pod.
func pod(metadata, spec string) []byte {
	return fmt.Appendf(nil, `{"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "web"%s},
"spec": {"containers": [{"name": "c", "image": "i"}]%s}}`, metadata, spec)
}

// told returns a request with an annotation that says what the plugin is to do.
func told(do string) *judge.Request {
	return &judge.Request{AuditID: "an-id", User: dev, UserAgent: "test", Operation: admission.Create, Resource: configMaps,
		Namespace: "shop", Object: fmt.Appendf(nil, `{"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "c",
"annotations": {"do": %q}}}`, do)}
}

func TestJudge(t *testing.T) {
	podRequest := func(operation admission.Operation, object, old []byte) *judge.Request {
		return &judge.Request{User: dev, Operation: operation, Resource: pods, Namespace: "shop", Name: "web", Object: object,
			OldObject: old}
	}
	plain := pod("", "")
	old := pod(`, "namespace": "shop", "uid": "u", "resourceVersion": "7", "creationTimestamp": "2026-01-01T00:00:00Z"`, "")
	exec := podRequest(admission.Connect, []byte(`{"kind": "PodExecOptions", "apiVersion": "v1", "command": ["sh"]}`), nil)
	exec.Subresource = "exec"
	options := podRequest(admission.Delete, nil, old)
	options.Options = &metav1.CreateOptions{}
	nobody := podRequest(admission.Create, plain, nil)
	nobody.User = nil
	for _, test := range []struct {
		name    string
		request *judge.Request
		verdict v1alpha1.Verdict
		code    int32
		by      string
		message string // a part of it
		err     string // a part of it; empty if the request can be judged
	}{
		{name: "create", request: podRequest(admission.Create, plain, nil), verdict: v1alpha1.Admitted, code: 201},
		{name: "create what is refused", request: podRequest(admission.Create, pod("", `, "hostNetwork": true`), nil),
			verdict: v1alpha1.Refused, code: 403, by: "PodSecurity", message: `violates PodSecurity "baseline:latest"`},
		{name: "create what is invalid", request: podRequest(admission.Create, pod("", `, "restartPolicy": "Maybe"`), nil),
			verdict: v1alpha1.Refused, code: 422, message: "spec.restartPolicy: Unsupported value"},
		{name: "update", request: podRequest(admission.Update, pod(`, "labels": {"a": "b"}`, ""), old),
			verdict: v1alpha1.Admitted, code: 200},
		{name: "update what can't change", request: podRequest(admission.Update, pod("", `, "hostname": "other"`), old),
			verdict: v1alpha1.Refused, code: 422, message: "pod updates may not change fields other than"},
		{name: "delete", request: podRequest(admission.Delete, nil, old), verdict: v1alpha1.Admitted, code: 200},
		{name: "exec", request: exec, verdict: v1alpha1.Admitted, code: 200},
		{name: "service", verdict: v1alpha1.Admitted, code: 201, request: &judge.Request{User: dev, Resource: services,
			Operation: admission.Create, Namespace: "shop", Object: []byte(`{"kind": "Service", "apiVersion": "v1",
"metadata": {"generateName": "web-"}, "spec": {"ports": [{"port": 80}]}}`)}},
		{name: "refused by a plugin", request: told("refuse"), verdict: v1alpha1.Refused, code: 403, by: "Obedient",
			message: `configmaps "c" is forbidden: as told`},
		{name: "a plugin panics", request: told("panic"), verdict: v1alpha1.Failed, code: 500, by: "Obedient",
			message: `admission plugin "Obedient" panicked`},

		{name: "a request panics", request: told("abort"), verdict: v1alpha1.Failed, code: 500, by: "Obedient",
			err: "judging the request panicked: net/http: abort Handler"},
		{name: "unknown resource", verdict: v1alpha1.Failed, code: 500, err: `no matches for example.com/v1, Resource=widgets`,
			request: &judge.Request{User: dev, Operation: admission.Create, Object: plain,
				Resource: schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}}},
		{name: "unknown subresource", verdict: v1alpha1.Failed, code: 500, err: "pods of v1 have no subresource heads",
			request: &judge.Request{User: dev, Operation: admission.Create, Object: plain, Resource: pods,
				Subresource: "heads"}},
		{name: "no JSON", request: podRequest(admission.Create, []byte("{"), nil), verdict: v1alpha1.Failed, code: 500,
			err: "reading the object: "},
		{name: "another kind", request: podRequest(admission.Create, []byte(`{"kind": "Horse", "apiVersion": "v1"}`), nil),
			verdict: v1alpha1.Failed, code: 500, err: `no kind "Horse"`},
		{name: "no object", request: podRequest(admission.Create, nil, nil), verdict: v1alpha1.Failed, code: 500,
			err: "the object of the CREATE is not known"},
		{name: "no old object", request: podRequest(admission.Update, plain, nil), verdict: v1alpha1.Failed, code: 500,
			err: "the old object of the UPDATE is not known"},
		{name: "no user", request: nobody, verdict: v1alpha1.Failed, code: 500, err: "the user is not known"},
		{name: "other options", request: options, verdict: v1alpha1.Failed, code: 500,
			err: "*v1.CreateOptions are not the options of the DELETE: it has DeleteOptions"},
		{name: "no operation", request: podRequest("LIST", plain, nil), verdict: v1alpha1.Failed, code: 500,
			err: `operation "LIST"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			v := candidate.Judge.Judge(t.Context(), test.request)
			d := v.Decision
			if d.Verdict != test.verdict || d.Code != test.code || d.By != test.by {
				t.Errorf("%s %d by %q: %s", d.Verdict, d.Code, d.By, d.Message)
			}
			if !strings.Contains(d.Message, test.message) || test.verdict == v1alpha1.Admitted && d.Message != "" {
				t.Errorf("the message is %q, without %q", d.Message, test.message)
			}
			if (v.Err == nil) != (test.err == "") || v.Err != nil && !strings.Contains(v.Err.Error(), test.err) {
				t.Errorf("error %v, want one with %q", v.Err, test.err)
			}
		})
	}
}

// A decision says of the request what a server would record.
func TestDecision(t *testing.T) {
	v := candidate.Judge.Judge(t.Context(), told("warn"))
	if d := v.Decision; d.Name != "an-id" || d.Namespace != "shop" || d.Request.Name != "c" ||
		d.Request.UserAgent != "test" || d.Request.User.Username != "dev" || d.Request.Operation != "CREATE" {
		t.Errorf("%+v", v.Decision)
	}
	if !slices.Equal(v.Warnings, []string{"as told"}) {
		t.Errorf("warnings %q", v.Warnings)
	}
	if v := candidate.Judge.Judge(t.Context(), &judge.Request{User: dev}); v.Decision.Name == "" {
		t.Error("a request without audit ID has a decision without name")
	}
	created := candidate.Judge.Judge(t.Context(), &judge.Request{User: dev, Operation: admission.Create, Resource: pods,
		Namespace: "shop", Object: []byte(`{"kind": "Pod", "apiVersion": "v1", "metadata": {"generateName": "web-"},
"spec": {"containers": [{"name": "c", "image": "i"}]}}`)}).Decision
	if !strings.HasPrefix(created.Request.Name, "web-") || created.Request.GenerateName != "web-" {
		t.Errorf("generated name: %+v", created.Request)
	}
	if !slices.Contains(created.ChangedBy, "ServiceAccount") {
		t.Errorf("changed by %q", created.ChangedBy)
	}
}

// A plugin that doesn't return is abandoned.
func TestTimeout(t *testing.T) {
	impatient := candidate.WithTimeout(time.Second) // in which the plugin's turn comes
	began := time.Now()
	v := impatient.Judge(t.Context(), told("wait"))
	abandoned <- struct{}{}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("took %v", took)
	}
	if v.Err == nil || !strings.Contains(v.Err.Error(), "took too long") || v.Decision.Verdict != v1alpha1.Failed ||
		v.Decision.By != "Obedient" {
		t.Errorf("%v: %+v", v.Err, v.Decision)
	}
}
