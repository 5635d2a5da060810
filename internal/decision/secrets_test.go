// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"

	"gatehouse.dev/apis/decisions/v1alpha1"
	"gatehouse.dev/plugin"
)

// What is hidden, and what isn't: $ stands where the value was.
func TestSecrets(t *testing.T) {
	for name, test := range map[string]struct {
		resource, operations string
		want                 string // empty where it is as it was
	}{
		"data": {"secrets", `[{"op":"replace","path":"/data/a","value":"eA=="}]`,
			`[{"op":"replace","path":"/data/a","value":$}]`},
		"a key called value": {"secrets", `[{"op":"add","path":"/data","value":{"value":"eA=="}}]`,
			`[{"op":"add","path":"/data","value":{"value":$}}]`},
		"all data": {"secrets", `[{"op":"add","path":"/stringData","value":{"a":"x","b":"y"}}]`,
			`[{"op":"add","path":"/stringData","value":{"a":$,"b":$}}]`},
		"the whole Secret": {"secrets",
			`[{"op":"replace","path":"","value":{"data":{"a":"x"},"metadata":{"annotations":` +
				`{"kubectl.kubernetes.io/last-applied-configuration":"{}","b":"c"}},"type":"Opaque"}}]`,
			`[{"op":"replace","path":"","value":{"data":{"a":$},"metadata":{"annotations":` +
				`{"b":$,"kubectl.kubernetes.io/last-applied-configuration":$}},"type":"Opaque"}}]`},
		"a test": {"secrets", `[{"op":"test","path":"/data/a","value":"x"}]`,
			`[{"op":"test","path":"/data/a","value":$}]`},
		"an escaped key": {"secrets", `[{"op":"add","path":"/data/a~1b","value":"x"}]`,
			`[{"op":"add","path":"/data/a~1b","value":$}]`},
		"a Secret's label": {"secrets", `[{"op":"add","path":"/metadata/labels/a","value":"x"}]`, ""},
		"what was applied": {"configmaps",
			`[{"op":"add","path":"/metadata/annotations/kubectl.kubernetes.io~1last-applied-configuration",` +
				`"value":"{}"}]`,
			`[{"op":"add","path":"/metadata/annotations/kubectl.kubernetes.io~1last-applied-configuration",` +
				`"value":$}]`},
		"what was applied, among others": {"configmaps",
			`[{"op":"add","path":"/metadata/annotations",` +
				`"value":{"kubectl.kubernetes.io/last-applied-configuration":"{}"}}]`,
			`[{"op":"add","path":"/metadata/annotations",` +
				`"value":{"kubectl.kubernetes.io/last-applied-configuration":$}}]`},
		"a token request": {"serviceaccounts", `[{"op":"add","path":"/status/token","value":"x"}]`,
			`[{"op":"add","path":"/status/token","value":$}]`},
		"a token request's status": {"serviceaccounts", `[{"op":"replace","path":"/status","value":{"token":"x"}}]`,
			`[{"op":"replace","path":"/status","value":{"token":$}}]`},
		"a review": {"tokenreviews", `[{"op":"replace","path":"/spec/token","value":"x"}]`,
			`[{"op":"replace","path":"/spec/token","value":$}]`},
		"a variable": {"pods",
			`[{"op":"add","path":"/spec/containers/0/env/0","value":{"name":"DB_PASSWORD","value":"x"}}]`,
			`[{"op":"add","path":"/spec/containers/0/env/0","value":{"name":"DB_PASSWORD","value":$}}]`},
		"a variable's value": {"pods", `[{"op":"replace","path":"/spec/containers/0/env/0/value","value":"x"}]`,
			`[{"op":"replace","path":"/spec/containers/0/env/0/value","value":$}]`},
		"a container": {"pods",
			`[{"op":"add","path":"/spec/containers/1","value":{"env":[{"name":"API_KEY","value":"x"},` +
				`{"name":"LOG_LEVEL","value":"info"},{"name":"DSN","value":"x"}],"name":"c"}}]`,
			`[{"op":"add","path":"/spec/containers/1","value":{"env":[{"name":"API_KEY","value":$},` +
				`{"name":"LOG_LEVEL","value":"info"},{"name":"DSN","value":$}],"name":"c"}}]`},
		"arguments and a command": {"pods", `[{"op":"add","path":"/spec/containers/1","value":{"args":["--dsn=x"],` +
			`"command":["sh"],"image":"i"}}]`,
			`[{"op":"add","path":"/spec/containers/1","value":{"args":$,"command":$,"image":"i"}}]`},
		"an argument": {"pods", `[{"op":"add","path":"/spec/containers/1/args/0","value":"--dsn=x"}]`,
			`[{"op":"add","path":"/spec/containers/1/args/0","value":$}]`},
		"a header": {"pods", `[{"op":"add","path":"/spec/containers/0/livenessProbe","value":{"httpGet":` +
			`{"httpHeaders":[{"name":"Cookie","value":"x"}]}}}]`,
			`[{"op":"add","path":"/spec/containers/0/livenessProbe","value":{"httpGet":` +
				`{"httpHeaders":[{"name":"Cookie","value":$}]}}}]`},
		"a header's value": {"pods", `[{"op":"replace","path":"/spec/httpHeaders/0/value","value":"x"}]`,
			`[{"op":"replace","path":"/spec/httpHeaders/0/value","value":$}]`},
		"what kapp applied": {"configmaps", `[{"op":"add","path":"/metadata/annotations",` +
			`"value":{"kapp.k14s.io/original":"{}"}}]`,
			`[{"op":"add","path":"/metadata/annotations","value":{"kapp.k14s.io/original":$}}]`},
		"a Secret's annotation": {"secrets", `[{"op":"add","path":"/metadata/annotations/copy","value":"x"}]`,
			`[{"op":"add","path":"/metadata/annotations/copy","value":$}]`},
		"a label that is called command": {"pods",
			`[{"op":"add","path":"/metadata/labels/command","value":"x"}]`, ""},
		"a custom resource": {"databases",
			`[{"op":"add","path":"/spec","value":{"adminPassword":"x","pin":{"tokens":["a"]},` +
				`"secretAccessKey":"y","user":"u"}}]`,
			`[{"op":"add","path":"/spec","value":{"adminPassword":$,"pin":{"tokens":$},"secretAccessKey":$,` +
				`"user":"u"}}]`},
		"one of a list of them": {"databases", `[{"op":"add","path":"/spec/passwords/0","value":"x"}]`,
			`[{"op":"add","path":"/spec/passwords/0","value":$}]`},
		"a number": {"databases", `[{"op":"add","path":"/spec/password","value":7}]`,
			`[{"op":"add","path":"/spec/password","value":$}]`},
		"a config map's key": {"configmaps", `[{"op":"add","path":"/data/private.key","value":"x"}]`,
			`[{"op":"add","path":"/data/private.key","value":$}]`},
		"an escaped name in JSON": {"databases", `[{"op":"add","path":"/spec","value":{"pass\u0077ord":"x"}}]`,
			`[{"op":"add","path":"/spec","value":{"password":$}}]`},
		"a volume": {"pods",
			`[{"op":"add","path":"/spec/volumes/0","value":{"name":"v","secret":{"secretName":"s"}}}]`, ""},
		"a projection": {"pods",
			`[{"op":"add","path":"/spec/volumes/0/projected/sources/0/serviceAccountToken","value":{"path":"token"}}]`,
			""},
		"pull secrets": {"pods", `[{"op":"add","path":"/spec/imagePullSecrets","value":[{"name":"s"}]}]`, ""},
		"a bool":       {"pods", `[{"op":"add","path":"/spec/automountServiceAccountToken","value":false}]`, ""},
		"a label":      {"pods", `[{"op":"add","path":"/metadata/labels/token","value":"x"}]`, ""},
		"labels":       {"pods", `[{"op":"add","path":"/metadata/labels","value":{"token":"x"}}]`, ""},
		"a toleration": {"pods", `[{"op":"add","path":"/spec/tolerations/0","value":{"key":"x","operator":"Exists"}}]`,
			""},
		"a removal": {"secrets", `[{"op":"remove","path":"/data/a"}]`, ""},
		"a monkey":  {"zoos", `[{"op":"add","path":"/spec/monkey","value":"x"}]`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var operations []v1alpha1.PatchOperation
			if err := json.Unmarshal([]byte(test.operations), &operations); err != nil {
				t.Fatal(err)
			}
			want := strings.ReplaceAll(test.want, "$", string(hiddenJSON))
			if want == "" {
				want = test.operations
			}
			hiding := secrets{schema.GroupResource{Resource: test.resource}, ValuesHidden}
			got := string(encoded(hiding.ofPatch(operations)))
			if got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
}

// With ValuesShown, values are shown whose names don't say that they are credentials.
func TestValuesShown(t *testing.T) {
	for resource, operations := range map[string][2]string{
		"pods": {`[{"op":"add","path":"/spec/containers/1","value":{"args":["x"],"env":[` +
			`{"name":"A_TOKEN","value":"x"},{"name":"DSN","value":"x"}]}}]`,
			`[{"op":"add","path":"/spec/containers/1","value":{"args":["x"],"env":[{"name":"A_TOKEN","value":$},` +
				`{"name":"DSN","value":"x"}]}}]`},
		"secrets": {`[{"op":"add","path":"/data","value":{"a":"x"}}]`, `[{"op":"add","path":"/data","value":{"a":$}}]`},
	} {
		var patch []v1alpha1.PatchOperation
		if err := json.Unmarshal([]byte(operations[0]), &patch); err != nil {
			t.Fatal(err)
		}
		got := string(encoded(secrets{schema.GroupResource{Resource: resource}, ValuesShown}.ofPatch(patch)))
		if want := strings.ReplaceAll(operations[1], "$", string(hiddenJSON)); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

// Values that mayHide lets through have nothing that clean would hide.
func FuzzMayHide(f *testing.F) {
	for _, value := range []string{`{"env":[{"name":"API_KEY","value":"x"}]}`, `{"args":["--dsn=x"]}`,
		`{"a":{"pass\u0077ord":"x"}}`, `{"password" :"x"}`, "{\"password\"\n:1}", `[{"key":"x","operator":"Exists"}]`,
		`{"a\"":"b","b":{"tokens":[1]}}`, `{"x":":\":","secret":{"secretName":"s"}}`, `{"annotations":` +
			`{"kapp.k14s.io/original":"{}"}}`, `{"httpHeaders":[{"value":"x","name":"Cookie"}]}`, `[[{"private.key":1}]]`} {
		f.Add("pods", "/spec/containers/0", value)
		f.Add("secrets", "/metadata/annotations", value)
		f.Add("configmaps", "", value)
	}
	f.Fuzz(func(t *testing.T, resource, path, raw string) {
		var value any
		if json.Unmarshal([]byte(raw), &value) != nil {
			return
		}
		for _, values := range []Values{ValuesHidden, ValuesShown} {
			s := secrets{schema.GroupResource{Resource: resource}, values}
			if s.mayHide([]byte(raw)) {
				continue
			}
			if hidden, found := s.clean(strings.Split(path, "/"), value); found {
				t.Errorf("%s at %s of %s passes, but is to become %v", raw, path, resource, hidden)
			}
		}
	})
}

const marked = "bWFya2Vk"

// Nothing that plugins and webhooks change in a Secret's values is shown.
func FuzzSecret(f *testing.F) {
	f.Add("a", true, true)
	f.Add("value", true, false)
	f.Add("x/y~z", false, true)
	f.Add("password", false, false)
	f.Add(".dockerconfigjson", true, true)
	f.Fuzz(func(t *testing.T, key string, whole, hadData bool) {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "s"}}
		if hadData {
			secret.Data = map[string][]byte{"other": []byte("marked"), key: []byte("marked")}
			secret.StringData = map[string]string{"other": marked}
		}
		change := decider{admit: func(_ context.Context, a admission.Attributes) error {
			s := a.GetObject().(*corev1.Secret)
			before := s.DeepCopy()
			if whole {
				s.Data = map[string][]byte{key + "2": []byte("marked"), "value": []byte("marked")}
			}
			s.StringData = map[string]string{key: marked}
			s.Annotations = map[string]string{"kubectl.kubernetes.io/last-applied-configuration": marked}
			plugin.CallsOf(a).Add(plugin.Call{Kind: plugin.Webhook, Name: "w",
				Changes: plugin.ChangesBetween(before, s)})
			return nil
		}}
		store := newStore()
		r := newRig(t, store, change.named("A"))
		r.serve(t.Context(), call{verb: "create", resource: "secrets", handler: func(ctx context.Context,
			w http.ResponseWriter) {
			if err := r.admit(ctx, about(admission.Create, secret, nil)); err != nil {
				t.Error(err)
			}
			w.WriteHeader(http.StatusCreated)
		}})
		d := only(t, store)
		if len(d.Steps[0].Patch) == 0 || len(d.Steps[0].Calls[0].Patch) == 0 {
			t.Errorf("no patch of the step or of its call: %s", encoded(d))
		}
		if shown := string(encoded(d)); strings.Contains(shown, marked) || strings.Contains(shown,
			"marked") {
			t.Errorf("it shows in %s", shown)
		}
	})
}

// After a call that read a Secret, no value is shown that a call or the step set.
func TestCallsAfterSecretParams(t *testing.T) {
	change := decider{admit: func(_ context.Context, a admission.Attributes) error {
		pod := a.GetObject().(*corev1.Pod)
		for i, name := range []string{"before", "reads", "after"} {
			was := pod.DeepCopy()
			pod.Annotations = map[string]string{name: "value-of-" + name}
			plugin.CallsOf(a).Add(plugin.Call{Kind: plugin.Policy, Name: name, Verdict: plugin.Admitted, Secret: i == 1,
				Changes: plugin.ChangesBetween(was, pod)})
		}
		return nil
	}}
	store := newStore()
	r := newRig(t, store, change.named("A"))
	r.serve(t.Context(), call{verb: "create", handler: func(ctx context.Context, w http.ResponseWriter) {
		r.both(ctx, w, about(admission.Create, newPod("web"), nil))
	}})
	d := only(t, store)
	shown := string(encoded(d))
	if !strings.Contains(shown, "value-of-before") || strings.Contains(shown, "value-of-reads") ||
		strings.Contains(shown, "value-of-after") {
		t.Errorf("it shows %s", shown)
	}
	for _, c := range d.Steps[0].Calls {
		if len(c.Patch) == 0 {
			t.Errorf("%s has no patch", c.Name)
		}
	}
}

// A policy or a webhook may copy values of a Secret that it is asked about into all that it says and sets. The
// decision shows none of it, and says what the server knows.
func TestSecretObjects(t *testing.T) {
	const value = "correct-horse"
	secret := func() *corev1.Secret {
		return &corev1.Secret{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "s"}, StringData: map[string]string{"a": value}}
	}
	for name, test := range map[string]struct {
		operation admission.Operation
		call      plugin.Call
		want      string // in the decision's message, and in its call's reason and warnings
	}{
		"a policy that refuses": {admission.Create, plugin.Call{Kind: plugin.Policy, Verdict: plugin.Refused,
			Why: "no: " + value}, ofSecretObject},
		"a policy that refuses a deletion": {admission.Delete, plugin.Call{Kind: plugin.Policy, Verdict: plugin.Refused,
			Why: "no: " + value}, ofSecretObject},
		"a policy that fails": {admission.Update, plugin.Call{Kind: plugin.Policy, Verdict: plugin.Failed,
			Why: "no such key: " + value}, ofSecretObject},
		"a policy that warns": {admission.Update, plugin.Call{Kind: plugin.Policy, Verdict: plugin.Admitted,
			Why: "no: " + value + " (not refused)", Warnings: []string{"no: " + value}}, ofSecretObject},
		"a policy whose params are another": {admission.Create, plugin.Call{Kind: plugin.Policy, Verdict: plugin.Refused,
			Why: "no: " + value, Secret: true}, ofSecretParams},
		"a policy that isn't asked": {admission.Create, plugin.Call{Kind: plugin.Policy, Verdict: plugin.Skipped,
			Why: "namespaceSelector selects others"}, "namespaceSelector selects others"},
		"a webhook that refuses": {admission.Delete, plugin.Call{Kind: plugin.Webhook, Verdict: plugin.Refused,
			Why: "denied: " + value}, ofSecretObject},
		"a webhook that warns": {admission.Create, plugin.Call{Kind: plugin.Webhook, Verdict: plugin.Admitted,
			Warnings: []string{value}}, ofSecretObject},
		"a webhook that doesn't answer": {admission.Create, plugin.Call{Kind: plugin.Webhook, Verdict: plugin.Failed,
			Why: "failed calling webhook: connection refused"}, "connection refused"},
		"a quota": {admission.Create, plugin.Call{Kind: plugin.Quota, Verdict: plugin.Refused,
			Why: "exceeded quota: q"}, "exceeded quota: q"},
	} {
		t.Run(name, func(t *testing.T) {
			store := newStore()
			r := newRig(t, store, decider{admit: func(_ context.Context, a admission.Attributes) error {
				c := test.call
				c.Name = "c"
				if object, ok := a.GetObject().(*corev1.Secret); ok && c.Verdict == plugin.Admitted {
					was := object.DeepCopy()
					object.Labels = map[string]string{"copied": value}
					c.Changes = plugin.ChangesBetween(was, object)
				}
				plugin.CallsOf(a).Add(c)
				if c.Verdict == plugin.Admitted || c.Verdict == plugin.Skipped {
					return nil
				}
				return admission.NewForbidden(a, errors.New(c.Why))
			}}.named("A"))
			object, old := runtime.Object(secret()), runtime.Object(nil)
			if test.operation != admission.Create {
				old = secret()
			}
			if test.operation == admission.Delete {
				object = nil
			}
			r.serve(t.Context(), call{verb: strings.ToLower(string(test.operation)), resource: "secrets",
				handler: func(ctx context.Context, w http.ResponseWriter) {
					r.both(ctx, w, about(test.operation, object, old))
				}})
			d := only(t, store)
			c := d.Steps[0].Calls[0]
			said := append(c.Warnings, c.Why)
			if d.Verdict != v1alpha1.Admitted {
				said = append(said, d.Message, d.Steps[0].Message)
			}
			for _, text := range said {
				if text != "" && !strings.Contains(text, test.want) {
					t.Errorf("it says %q, want %q", text, test.want)
				}
			}
			if shown := string(encoded(d)); strings.Contains(shown, value) || !strings.Contains(shown, test.want) {
				t.Errorf("it shows %s", shown)
			}
		})
	}
}

// What others make large is cut, and says so.
func TestLimits(t *testing.T) {
	long := strings.Repeat("é", 100_000)
	noisy := decider{admit: func(_ context.Context, a admission.Attributes) error {
		pod := a.GetObject().(*corev1.Pod)
		pod.Annotations = map[string]string{"a": "small"}
		pod.Spec.NodeName = strings.Repeat("x", maxPatch)
		calls := plugin.CallsOf(a)
		for i := range 1024 {
			call := plugin.Call{Kind: plugin.Policy, Name: fmt.Sprint(i), Verdict: plugin.Admitted}
			switch i {
			case 500:
				changed := pod.DeepCopy()
				changed.Spec.SchedulerName = strings.Repeat("x", maxPatch)
				call.Changes = plugin.ChangesBetween(pod, changed)
			case 600:
				call.Warnings = make([]string, 1000)
				call.Warnings[0] = long
			case 700, 900:
				call.Verdict, call.Why = plugin.Skipped, "objectSelector doesn't select the object"
			case 800:
				call.Verdict, call.Why = plugin.Skipped, "its rules are for deployments, and not for deployments/scale"
			case 850:
				call.Why = "its patch set spec.nothing, which objects of this kind don't have"
			case 1023:
				call.Verdict, call.Why, call.Expression, call.Backend = plugin.Refused, long, long, long
			case 1000:
				changed := pod.DeepCopy()
				changed.Annotations["a"] = "changed"
				call.Changes = plugin.ChangesBetween(pod, changed)
			}
			calls.Add(call)
		}
		return admission.NewForbidden(a, errors.New(long))
	}}
	store := newStore()
	r := newRig(t, store, noisy.named("A"))
	r.serve(t.Context(), call{verb: "create", handler: func(ctx context.Context, w http.ResponseWriter) {
		answerWith(w, r.admit(ctx, about(admission.Create, newPod("web"), nil)))
	}})
	d := only(t, store)
	step := d.Steps[0]
	if !step.PatchCut || len(step.Patch) != 2 || string(step.Patch[0].Value.Raw) != `{"a":"small"}` ||
		step.Patch[1].Path != "/spec/nodeName" || string(step.Patch[1].Value.Raw) != string(largeJSON) {
		t.Errorf("cut %t, the patch has %d operations", step.PatchCut, len(step.Patch))
	}
	for what, text := range map[string]string{"the message": d.Message, "the step's": step.Message,
		"the call's": step.Calls[len(step.Calls)-1].Why} {
		if len(text) > maxMessage+len("…") || !strings.HasSuffix(text, "…") || strings.ContainsRune(text, '\uFFFD') {
			t.Errorf("%s has %d bytes and ends with %q", what, len(text), text[len(text)-10:])
		}
	}
	if len(step.Calls) != maxCalls || step.OmittedCalls != 1024-maxCalls {
		t.Errorf("%d calls, %d omitted", len(step.Calls), step.OmittedCalls)
	}
	var telling []string
	for _, c := range step.Calls[maxCalls-6:] {
		telling = append(telling, fmt.Sprintf("%s %s %t", c.Name, c.Verdict, c.PatchCut))
	}
	if got, want := strings.Join(telling, ", "),
		"500 Admitted true, 600 Admitted false, 800 Skipped false, 850 Admitted false, 1000 Admitted false, "+
			"1023 Refused false"; got != want {
		t.Errorf("the last are %s, want %s", got, want)
	}
	if size := len(encoded(d)); size > 200<<10 {
		t.Errorf("it has %d bytes", size)
	}
}

// What is kept has no values of Secrets. What a decision shows has no other credentials either, and is bounded.
func TestWhatIsKept(t *testing.T) {
	spoil := decider{admit: func(_ context.Context, a admission.Attributes) error {
		switch object := a.GetObject().(type) {
		case *corev1.Secret:
			object.StringData = map[string]string{"a": "hush"}
		case *corev1.Pod:
			object.Annotations = map[string]string{"a": "small"}
			object.Spec.Volumes = append(object.Spec.Volumes, corev1.Volume{Name: "v"})
			switch object.Name {
			case "with-a-variable":
				object.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "A_TOKEN", Value: "hush"}}
			case "with-a-key":
				object.Annotations["password"] = "hush"
			}
			object.Spec.SchedulerName = strings.Repeat("<", len(object.Spec.NodeName))
		}
		return nil
	}}
	pod := func(n int, name string) *corev1.Pod {
		pod := newPod(name)
		pod.Spec.NodeName = strings.Repeat("n", n)
		return pod
	}
	for name, test := range map[string]struct {
		object    runtime.Object
		wantValue string
		wantCut   bool
	}{
		"a Secret":             {&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}}, "", false},
		"little":               {pod(1, "web"), `"small"`, false},
		"much":                 {pod(2*maxPatch, "web"), `"small"`, true},
		"much once it is JSON": {pod(maxPatch/2, "web"), `"small"`, true},
		"a variable's value":   {pod(1, "with-a-variable"), `"small"`, false},
		"a value by its key":   {pod(1, "with-a-key"), `"small"`, false},
	} {
		t.Run(name, func(t *testing.T) {
			store := newStore()
			r := newRig(t, store, spoil.named("A"))
			r.serve(t.Context(), call{verb: "create", handler: func(ctx context.Context, w http.ResponseWriter) {
				r.both(ctx, w, about(admission.Create, test.object, nil))
			}})
			for _, c := range store.order[0].changes {
				_, isSecret := test.object.(*corev1.Secret)
				if isSecret && (c.changes != nil || bytes.Contains(encoded(c.patch), []byte("hush"))) {
					t.Errorf("kept: %v", c)
				}
			}
			step := only(t, store).Steps[0]
			if step.PatchCut != test.wantCut || len(step.Patch) == 0 {
				t.Errorf("cut %t, patch %v", step.PatchCut, step.Patch)
			}
			shown := encoded(step.Patch)
			if !bytes.Contains(shown, []byte(test.wantValue)) || bytes.Contains(shown, []byte("hush")) {
				t.Errorf("got %s", shown)
			}
			if size := store.bytes; size > maxPatch+4096 {
				t.Errorf("it takes %d bytes", size)
			}
		})
	}
}
