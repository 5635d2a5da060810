// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"

	"gatehouse.dev/apis/decisions/v1alpha1"
	"gatehouse.dev/plugin"
)

func jsonOf(object any) ([]byte, error) { return json.Marshal(object) }

// summary is a decision in a line: verdict, code, by, changedBy, operation and object, and its
// steps, with a * where one changed the object.
func summary(d *v1alpha1.Decision) string {
	var steps []string
	for _, s := range d.Steps {
		text := fmt.Sprintf("%s/%s/%d", s.Plugin, s.Phase[:1], s.Round)
		if s.Verdict != v1alpha1.Admitted {
			text += "=" + string(s.Verdict)
		}
		if len(s.Patch) > 0 {
			text += "*"
		}
		for _, c := range s.Calls {
			text += fmt.Sprintf("[%s %s %s]", c.Kind, c.Name, c.Verdict)
		}
		steps = append(steps, text)
	}
	text := fmt.Sprintf("%s %d %s %s by %q changed by %v: %s", d.Verdict, d.Code, d.Request.Operation,
		Object(&d.Request), d.By, d.ChangedBy, strings.Join(steps, " "))
	if d.OmittedSteps > 0 {
		text += fmt.Sprintf(" and %d more", d.OmittedSteps)
	}
	return text
}

// Whatever the chain and storage do, a request is one decision, and the one that its client was
// told. If a collection is deleted, the other objects have decisions besides.
func TestOneDecisionARequest(t *testing.T) {
	var again bool
	a := decider{admit: func(ctx context.Context, a admission.Attributes) error {
		if again {
			a.GetReinvocationContext().SetShouldReinvoke()
		}
		return labelling("a", "1")(ctx, a)
	}, validate: idle}.named("A")
	b := decider{validate: func(_ context.Context, a admission.Attributes) error {
		object, _ := a.GetOldObject().(metav1.Object)
		if object == nil {
			object, _ = a.GetObject().(metav1.Object)
		}
		switch name := object.GetName(); {
		case strings.HasPrefix(name, "bad"):
			return admission.NewForbidden(a, errors.New("it is bad"))
		case strings.HasPrefix(name, "panics"):
			panic("a defect")
		case strings.HasPrefix(name, "breaks"):
			return errors.New("a plain error")
		}
		return nil
	}}.named("B")
	create := func(name string) admission.Attributes { return about(admission.Create, newPod(name), nil) }
	const both = "A/M/0* A/V/0 B/V/0"

	for name, test := range map[string]struct {
		call call
		do   func(ctx context.Context, r *rig, w http.ResponseWriter)
		want string
	}{
		"admitted": {call{verb: "create", name: "web"}, func(ctx context.Context, r *rig, w http.ResponseWriter) {
			r.both(ctx, w, create("web"))
		}, `Admitted 201 CREATE pods/web by "" changed by [A]: ` + both},
		"refused": {call{verb: "create", name: "bad"}, func(ctx context.Context, r *rig, w http.ResponseWriter) {
			r.both(ctx, w, create("bad"))
		}, `Refused 403 CREATE pods/bad by "B" changed by [A]: A/M/0* A/V/0 B/V/0=Refused`},
		"an error that is no status": {call{verb: "create"}, func(ctx context.Context, r *rig, w http.ResponseWriter) {
			r.both(ctx, w, create("breaks"))
		}, `Failed 500 CREATE pods/breaks by "B" changed by [A]: A/M/0* A/V/0 B/V/0=Failed`},
		"a plugin panics": {call{verb: "create"}, func(ctx context.Context, r *rig, w http.ResponseWriter) {
			r.both(ctx, w, create("panics"))
		}, `Failed 500 CREATE pods/panics by "B" changed by [A]: A/M/0* A/V/0 B/V/0=Failed`},
		"the handler panics": {call{verb: "create"}, func(ctx context.Context, r *rig, w http.ResponseWriter) {
			_ = r.admit(ctx, create("web"))
			panic(http.ErrAbortHandler)
		}, `Failed 0 CREATE pods/web by "" changed by [A]: A/M/0*`},
		"storage had a conflict": {call{verb: "update"}, func(ctx context.Context, r *rig, w http.ResponseWriter) {
			for range 3 {
				attributes := about(admission.Update, newPod("web"), newPod("web"))
				if r.admit(ctx, attributes) != nil || r.validate(ctx, attributes) != nil {
					panic("refused")
				}
			}
			w.WriteHeader(http.StatusOK)
		}, `Admitted 200 UPDATE pods/web by "" changed by [A]: ` + both},
		"refused after a conflict": {call{verb: "update"}, func(ctx context.Context, r *rig, w http.ResponseWriter) {
			r.both(ctx, &discarding{}, about(admission.Update, newPod("web"), newPod("web")))
			r.both(ctx, w, about(admission.Update, newPod("web"), newPod("bad")))
		}, `Refused 403 UPDATE pods/web by "B" changed by [A]: A/M/0* A/V/0 B/V/0=Refused`},
		"admitted after a refusal": {call{verb: "update"}, func(ctx context.Context, r *rig, w http.ResponseWriter) {
			// Storage tries with what it remembers first.
			r.both(ctx, &discarding{}, about(admission.Update, newPod("web"), newPod("bad")))
			r.both(ctx, w, about(admission.Update, newPod("web"), newPod("web")))
		}, `Admitted 201 UPDATE pods/web by "" changed by [A]: ` + both},
		"a name that is made is taken": {call{verb: "create"}, func(ctx context.Context, r *rig,
			w http.ResponseWriter) {
			first := newPod("")
			first.GenerateName = "web-"
			_ = r.admit(ctx, about(admission.Create, first, nil))
			for _, name := range []string{"web-1", "web-2"} {
				pod := newPod(name)
				pod.GenerateName = "web-"
				_ = r.validate(ctx, about(admission.Create, pod, nil))
			}
			w.WriteHeader(http.StatusCreated)
		}, `Admitted 201 CREATE pods/web-2 by "" changed by [A]: ` + both},
		"an apply that creates": {call{verb: "patch", name: "web"},
			func(ctx context.Context, r *rig, w http.ResponseWriter) { r.both(ctx, w, create("web")) },
			`Admitted 201 CREATE pods/web by "" changed by [A]: ` + both},
		"an apply that another was faster than": {call{verb: "patch", name: "web"},
			func(ctx context.Context, r *rig, w http.ResponseWriter) {
				r.both(ctx, &discarding{}, create("web"))
				r.both(ctx, w, about(admission.Update, newPod("web"), newPod("web")))
			}, `Admitted 201 UPDATE pods/web by "" changed by [A]: ` + both},
		"storage refuses": {call{verb: "create", name: "web"},
			func(ctx context.Context, r *rig, w http.ResponseWriter) {
				r.both(ctx, &discarding{}, create("web"))
				answerWith(w, apierrors.NewAlreadyExists(corev1.Resource("pods"), "web"))
			}, `Refused 409 CREATE pods/web by "" changed by [A]: ` + both},
		"a collection": {call{verb: "deletecollection"}, func(ctx context.Context, r *rig, w http.ResponseWriter) {
			deleteAll(ctx, r, 20)
			w.WriteHeader(http.StatusOK)
		}, `Admitted 200 DELETE pods/gone by "" changed by []: A/M/0 A/V/0 B/V/0`},
		"one of a collection is refused": {call{verb: "deletecollection"},
			func(ctx context.Context, r *rig, w http.ResponseWriter) {
				refused := ofCollection(newPod("bad"))
				_ = r.admit(ctx, refused)
				err := r.validate(ctx, refused)
				deleteAll(ctx, r, 20)
				answerWith(w, err)
			}, `Refused 403 DELETE pods/bad by "B" changed by []: A/M/0 A/V/0 B/V/0=Refused`},
		"nothing is written": {call{verb: "create"}, func(ctx context.Context, r *rig, w http.ResponseWriter) {
			_ = r.admit(ctx, create("web"))
		}, `Admitted 200 CREATE pods/web by "" changed by [A]: A/M/0*`},
		"it took too long": {call{verb: "create"}, func(ctx context.Context, r *rig, w http.ResponseWriter) {
			r.both(ctx, &discarding{}, create("web"))
			answerWith(w, apierrors.NewTimeoutError("request did not complete within requested timeout", 0))
		}, `Failed 504 CREATE pods/web by "" changed by [A]: ` + both},
		"refused before the chain": {call{verb: "create", name: "web"},
			func(ctx context.Context, r *rig, w http.ResponseWriter) {
				answerWith(w, apierrors.NewInvalid(schemaKind, "web",
					field.ErrorList{field.Required(field.NewPath("spec"), "")}))
			}, `Refused 422 CREATE pods/web by "" changed by []: `},
		"failed before the chain": {call{verb: "delete", name: "web"},
			func(ctx context.Context, r *rig, w http.ResponseWriter) { answerWith(w, errors.New("no etcd")) },
			`Failed 500 DELETE pods/web by "" changed by []: `},
	} {
		t.Run(name, func(t *testing.T) {
			store := newStore()
			r := newRig(t, store, a, b)
			test.call.handler = func(ctx context.Context, w http.ResponseWriter) { test.do(ctx, r, w) }
			r.serve(t.Context(), test.call)
			if test.call.verb == "deletecollection" {
				all := listed(t, store, Filter{})
				if got := summary(&all[len(all)-1]); got != test.want {
					t.Errorf("got  %s\nwant %s", got, test.want)
				}
				checkOthers(t, all[:len(all)-1])
				return
			}
			if got := summary(only(t, store)); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}

	t.Run("the mutating phase runs again", func(t *testing.T) {
		again = true
		defer func() { again = false }()
		store := newStore()
		r := newRig(t, store, a, b)
		r.serve(t.Context(), call{verb: "create", handler: func(ctx context.Context, w http.ResponseWriter) {
			r.both(ctx, w, create("web"))
		}})
		want := `Admitted 201 CREATE pods/web by "" changed by [A]: A/M/0* A/M/1 A/V/0 B/V/0`
		if got := summary(only(t, store)); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	})
}

var schemaKind = corev1.SchemeGroupVersion.WithKind("Pod").GroupKind()

// checkOthers checks that each other pod that deleteAll deleted has a decision of its own, and that each has the ID of
// the one request.
func checkOthers(t *testing.T, others []v1alpha1.Decision) {
	t.Helper()
	seen := map[string]bool{}
	for i := range others {
		d := &others[i]
		if d.Verdict != v1alpha1.Admitted || d.Code != 200 || len(d.Steps) != 3 ||
			d.Annotations[v1alpha1.AuditIDAnnotation] != others[0].Annotations[v1alpha1.AuditIDAnnotation] {
			t.Errorf("unexpected decision: %s %v", summary(d), d.Annotations)
		}
		seen[d.Request.Name] = true
	}
	for i := range 19 {
		if name := fmt.Sprintf("pod-%d", i); !seen[name] {
			t.Errorf("no decision about %s", name)
		}
	}
}

// deleteAll deletes n pods of the same name, which may be so of different pods, and others at once.
func deleteAll(ctx context.Context, r *rig, n int) {
	var wait sync.WaitGroup
	for i := range n - 1 {
		wait.Go(func() {
			attributes := ofCollection(newPod(fmt.Sprintf("pod-%d", i)))
			if r.admit(ctx, attributes) == nil {
				_ = r.validate(ctx, attributes)
			}
		})
	}
	wait.Wait()
	last := ofCollection(newPod("gone"))
	if r.admit(ctx, last) == nil {
		_ = r.validate(ctx, last)
	}
}

// ofCollection returns the attributes of the deletion of one pod of a collection, as storage makes them: without its name.
func ofCollection(pod *corev1.Pod) admission.Attributes {
	return admission.NewAttributesRecord(nil, pod, corev1.SchemeGroupVersion.WithKind("Pod"), pod.Namespace, "",
		corev1.SchemeGroupVersion.WithResource("pods"), "", admission.Delete, nil, false, nil)
}

// discarding is what isn't answered.
type discarding struct{}

func (*discarding) Header() http.Header            { return http.Header{} }
func (*discarding) Write(data []byte) (int, error) { return len(data), nil }
func (*discarding) WriteHeader(int)                {}

// What isn't a write that came to something makes no decision.
func TestNoDecision(t *testing.T) {
	for name, c := range map[string]call{
		"a read":                  {verb: "get", name: "web"},
		"a write without a chain": {verb: "create"},
		"a watch":                 {verb: "watch"},
	} {
		t.Run(name, func(t *testing.T) {
			store := newStore()
			r := newRig(t, store)
			c.handler = func(_ context.Context, w http.ResponseWriter) { w.WriteHeader(http.StatusOK) }
			r.serve(t.Context(), c)
			if all := listed(t, store, Filter{}); len(all) != 0 {
				t.Errorf("there is a decision: %s", encoded(all))
			}
		})
	}
}

// A request whose client has gone has no answer.
func TestCancelled(t *testing.T) {
	store := newStore()
	r := newRig(t, store, decider{admit: idle}.named("A"))
	ctx, cancel := context.WithCancel(t.Context())
	r.serve(ctx, call{verb: "create", handler: func(ctx context.Context, _ http.ResponseWriter) {
		_ = r.admit(ctx, about(admission.Create, newPod("web"), nil))
		cancel()
	}})
	if got, want := summary(only(t, store)), `Failed 0 CREATE pods/web by "" changed by []: A/M/0`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// A request that ends while a plugin is being called was held by that one.
func TestInterrupted(t *testing.T) {
	for name, test := range map[string]struct {
		code   int // none where it is 0
		before []string
		want   string
	}{
		"the first": {http.StatusGatewayTimeout, nil,
			`Failed 504 CREATE pods/web by "Z" changed by []: Z/M/0=Failed`},
		"the second": {http.StatusGatewayTimeout, []string{"A"},
			`Failed 504 CREATE pods/web by "Z" changed by []: A/M/0 Z/M/0=Failed`},
		"without an answer": {0, []string{"A"},
			`Failed 0 CREATE pods/web by "Z" changed by []: A/M/0 Z/M/0=Failed`},
		"though all went well": {http.StatusCreated, []string{"A"},
			`Admitted 201 CREATE pods/web by "" changed by []: A/M/0`},
	} {
		t.Run(name, func(t *testing.T) {
			store := newStore()
			entered, release, left := make(chan struct{}), make(chan struct{}), make(chan struct{})
			var plugins []plugin.Descriptor
			for _, name := range test.before {
				plugins = append(plugins, decider{admit: idle}.named(name))
			}
			holds := decider{admit: func(context.Context, admission.Attributes) error {
				close(entered)
				<-release
				return nil
			}}
			r := newRig(t, store, append(plugins, holds.named("Z"))...)
			r.serve(t.Context(), call{verb: "create", handler: func(ctx context.Context, w http.ResponseWriter) {
				go func() {
					defer close(left)
					_ = r.admit(ctx, about(admission.Create, newPod("web"), nil))
				}()
				<-entered
				if test.code == 0 {
					panic(http.ErrAbortHandler)
				}
				w.WriteHeader(test.code)
			}})
			close(release)
			<-left
			if got := summary(only(t, store)); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

// What is answered too late was a timeout for the client.
func TestAnsweredTooLate(t *testing.T) {
	late := &answer{ResponseWriter: tooLate{&discarding{}}}
	late.WriteHeader(http.StatusCreated)
	if _, err := late.Write([]byte("{}")); err == nil || late.code != http.StatusGatewayTimeout {
		t.Errorf("the code is %d, the error %v", late.code, err)
	}
}

type tooLate struct{ http.ResponseWriter }

func (tooLate) Write([]byte) (int, error) { return 0, http.ErrHandlerTimeout }

// The decision about a connection is made when it is admitted, not when it ends.
func TestConnect(t *testing.T) {
	store := newStore()
	r := newRig(t, store, decider{validate: idle}.named("A"))
	r.serve(t.Context(), call{verb: "create", subresource: "exec", name: "web",
		handler: func(ctx context.Context, w http.ResponseWriter) {
			exec := about(admission.Connect, newPod("web"), nil, func(r *v1alpha1.Request) { r.Subresource = "exec" })
			_, _ = r.admit(ctx, exec), r.validate(ctx, exec)
			if got, want := summary(only(t, store)),
				`Admitted 200 CONNECT pods/web/exec by "" changed by []: A/V/0`; got != want {
				t.Errorf("while it lasts: got %s, want %s", got, want)
			}
			w.WriteHeader(http.StatusInternalServerError) // of the connection's own
		}})
	only(t, store)
}

// What storage decides is the plugin's that left it to storage.
func TestDecidedLate(t *testing.T) {
	full := apierrors.NewForbidden(corev1.Resource("pods"), "web", errors.New("exceeded quota: q"))
	for want, err := range map[string]error{
		`Refused 403 CREATE pods/web by "Q" changed by []: Q/V/0=Refused[Quota q Refused] Z/V/0`: full,
		`Admitted 201 CREATE pods/web by "" changed by []: Q/V/0[Quota q Admitted] Z/V/0`:        nil,
	} {
		store := newStore()
		var late *plugin.Enforcement
		r := newRig(t, store, decider{validate: func(ctx context.Context, a admission.Attributes) error {
			late = plugin.Enforce(a)
			return nil
		}}.named("Q"), decider{validate: idle}.named("Z"))
		r.serve(t.Context(), call{verb: "create", handler: func(ctx context.Context, w http.ResponseWriter) {
			pod := about(admission.Create, newPod("web"), nil)
			_, _ = r.admit(ctx, pod), r.validate(ctx, pod)
			verdict := plugin.Admitted
			if err != nil {
				verdict = plugin.Refused
				late.Report(err, plugin.Call{Kind: plugin.Quota, Name: "q", Verdict: verdict})
				answerWith(w, err)
				return
			}
			late.Report(nil, plugin.Call{Kind: plugin.Quota, Name: "q", Verdict: verdict})
			answerWith(w, nil)
		}})
		if got := summary(only(t, store)); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		late.Report(full) // after the answer nothing changes
		if got := summary(only(t, store)); got != want {
			t.Errorf("afterwards: got  %s\nwant %s", got, want)
		}
	}
}

// The JSON is that of the API, wherever it is shown, and is read back as it was.
func TestJSON(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := NewStore("host_6443", 10, 1<<20)
		limits := decider{admit: func(ctx context.Context, a admission.Attributes) error {
			time.Sleep(time.Millisecond)
			before := a.GetObject().DeepCopyObject()
			err := labelling("app", "web")(ctx, a)
			plugin.CallsOf(a).Add(plugin.Call{Kind: plugin.Policy, Name: "m", Verdict: plugin.Admitted,
				Changes: plugin.ChangesBetween(before, a.GetObject())})
			return err
		}}.named("LimitRanger")
		hook := decider{validate: func(_ context.Context, a admission.Attributes) error {
			time.Sleep(200 * time.Microsecond)
			calls := plugin.CallsOf(a)
			calls.Add(plugin.Call{Kind: plugin.Webhook, Name: "w.example.com", Configuration: "c",
				Backend: "https://w.svc/v",
				Verdict: plugin.Failed, Code: 503, Ignored: true, Why: "down", Duration: 150 * time.Microsecond,
				Warnings: []string{"old"}})
			calls.Add(plugin.Call{Kind: plugin.Policy, Name: "p", Binding: "b", Param: "ns/x", Expression: "1 == 2",
				Verdict: plugin.Refused, Why: "no"})
			calls.Add(plugin.Call{Kind: plugin.Quota, Name: "q", Verdict: plugin.Skipped, Why: "not asked"})
			return admission.NewForbidden(a, errors.New("no"))
		}}.named("ResourceQuota")
		r := newRig(t, store, limits, hook)
		r.serve(t.Context(), call{verb: "create", auditID: "7b3f", handler: func(ctx context.Context,
			w http.ResponseWriter) {
			pod := newPod("web")
			isController := true
			pod.GenerateName = "we"
			pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "rs",
				Controller: &isController}}
			r.both(ctx, w, about(admission.Create, pod, nil, func(r *v1alpha1.Request) { r.DryRun = true }))
		}})
		d := only(t, store)
		const want = `{"kind":"Decision","apiVersion":"decisions.gatehouse.dev/v1alpha1","metadata":{"name":"7b3f",` +
			`"namespace":"shop","uid":"7b3f","resourceVersion":"946684800000001",` +
			`"creationTimestamp":"2000-01-01T00:00:00Z",` +
			`"labels":{"decisions.gatehouse.dev/server":"host_6443"}},"time":"2000-01-01T00:00:00.000000Z",` +
			`"request":{"operation":"CREATE","version":"v1","resource":"pods","namespace":"shop","name":"web",` +
			`"generateName":"we","owner":{"kind":"ReplicaSet","name":"rs"},"dryRun":true,"user":{"username":"alice",` +
			`"groups":["devs","system:authenticated"]},"userAgent":"kubectl/v1.37.2"},"verdict":"Refused","code":403,` +
			`"reason":"Forbidden","message":"pods \"web\" is forbidden: no","by":"ResourceQuota",` +
			`"changedBy":["LimitRanger"],"duration":"1.2ms","steps":[{"plugin":"LimitRanger","phase":"Mutate",` +
			`"round":0,` +
			`"verdict":"Admitted","duration":"1ms","patch":[{"op":"add","path":"/metadata/labels",` +
			`"value":{"app":"web"}}],"calls":[{"kind":"Policy","name":"m","verdict":"Admitted",` +
			`"patch":[{"op":"add","path":"/metadata/labels","value":{"app":"web"}}]}]},` +
			`{"plugin":"ResourceQuota","phase":"Validate","round":0,"verdict":"Refused",` +
			`"message":"pods \"web\" is forbidden: no","duration":"200µs","calls":[` +
			`{"kind":"Webhook","name":"w.example.com","configuration":"c","backend":"https://w.svc/v",` +
			`"verdict":"Failed",` +
			`"code":503,"failedOpen":true,"why":"down","duration":"150µs","warnings":["old"]},` +
			`{"kind":"Policy","name":"p","binding":"b","param":"ns/x","expression":"1 == ` +
			`2","verdict":"Refused","why":"no"},` +
			`{"kind":"Quota","name":"q","verdict":"Skipped","why":"not asked"}]}]}`
		if diff := cmp.Diff(want, string(encoded(d))); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
		var back v1alpha1.Decision
		if err := json.Unmarshal(encoded(d), &back); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, string(encoded(&back))); diff != "" {
			t.Errorf("read back: -want +got:\n%s", diff)
		}
	})
}
