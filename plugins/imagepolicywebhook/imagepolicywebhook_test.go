// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package imagepolicywebhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	imagepolicyv1alpha1 "k8s.io/api/imagepolicy/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"

	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/plugintest"
	"gatehouse.dev/test/backends"
)

// pod has containers of these images.
func pod(images ...string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}
	for i, image := range images {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: fmt.Sprint("c", i), Image: image})
	}
	return p
}

func with(p *corev1.Pod, changes ...func(*corev1.Pod)) *corev1.Pod {
	for _, change := range changes {
		change(p)
	}
	return p
}

func annotated(key, value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { metav1.SetMetaDataAnnotation(&p.ObjectMeta, key, value) }
}

func withInit(image string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.InitContainers = append(p.Spec.InitContainers, corev1.Container{Name: "init", Image: image})
	}
}

func withVolume(image string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "v",
			VolumeSource: corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: image}}})
	}
}

func withEphemeral(image string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.EphemeralContainers = append(p.Spec.EphemeralContainers, corev1.EphemeralContainer{
			EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug", Image: image},
		})
	}
}

// built is the plugin with a backend, configured with more than its kubeconfig. Retries don't wait.
func built(t testing.TB, backend *backends.Images, more string) *plugintest.Plugin {
	return plugintest.New(t, Descriptor,
		"imagePolicy:\n  retryBackoff: -1\n  kubeConfigFile: "+backend.Kubeconfig+"\n"+more)
}

func answer(status int, body string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		io.WriteString(w, body)
	})
}

// What is asked: the requests are upstream's, plugin/pkg/admission/imagepolicy/admission.go and
// TestAnnotationFiltering.
func TestQuestion(t *testing.T) {
	ephemeral := with(pod("a"), withEphemeral("debug:1"), withEphemeral("debug:2"))
	for name, test := range map[string]struct {
		request plugintest.Request
		want    string // empty: the backend isn't asked
	}{
		"seed 002": {
			plugintest.Create(with(pod("myrepo/myimage:v1",
				"myrepo/myimage@sha256:beb6bd6a68f114c1dc2ea4b28db81bdf91de202a9014972bec5e4d9171d90ed"),
				annotated("mycluster.image-policy.k8s.io/ticket-1234", "break-glass"))),
			`{"containers":[{"image":"myrepo/myimage:v1"},` +
				`{"image":"myrepo/myimage@sha256:beb6bd6a68f114c1dc2ea4b28db81bdf91de202a9014972bec5e4d9171d90ed"}],` +
				`"annotations":{"mycluster.image-policy.k8s.io/ticket-1234":"break-glass"},"namespace":"ns"}`,
		},
		"init containers come last": {plugintest.Create(with(pod("a", "b"), withInit("c"))),
			`{"containers":[{"image":"a"},{"image":"b"},{"image":"c"}],"namespace":"ns"}`},
		"of a volume, after them": {plugintest.Create(with(pod("a"), withVolume("model:1"), withVolume(""),
			withInit("c"))),
			`{"containers":[{"image":"a"},{"image":"c"},{"image":"model:1"}],"namespace":"ns"}`},
		"no containers": {plugintest.Create(pod()), `{"namespace":"ns"}`},
		"no image":      {plugintest.Create(pod("")), `{"containers":[{}],"namespace":"ns"}`},
		"other annotations": {
			plugintest.Create(with(pod("a"), annotated("test", "x"), annotated("image-policy.k8s.io/x", "x"),
				annotated("my.image-policy.k8s.io", "x"), annotated("other.image-policy.k8s.io/test2", "annotation"))),
			`{"containers":[{"image":"a"}],"annotations":{"other.image-policy.k8s.io/test2":"annotation"},` +
				`"namespace":"ns"}`,
		},
		"update": {plugintest.Update(with(pod("b"), withInit("c")), pod("a")),
			`{"containers":[{"image":"b"},{"image":"c"}],"namespace":"ns"}`},
		"update of a label": {plugintest.Update(pod("a"), pod("a")),
			`{"containers":[{"image":"a"}],"namespace":"ns"}`},
		"dry run": {plugintest.Create(pod("a")).AsDryRun(),
			`{"containers":[{"image":"a"}],"namespace":"ns"}`},
		"ephemeral containers": {plugintest.Update(ephemeral, pod("a")).On("pods", "ephemeralcontainers"),
			`{"containers":[{"image":"debug:1"},{"image":"debug:2"}],"namespace":"ns"}`},
		"update of a pod with ephemeral containers": {plugintest.Update(ephemeral, ephemeral),
			`{"containers":[{"image":"a"}],"namespace":"ns"}`},
		"delete":  {plugintest.Delete(pod("a")), ""},
		"status":  {plugintest.Update(pod("a"), pod("a")).On("pods", "status"), ""},
		"resize":  {plugintest.Update(pod("a"), pod("a")).On("pods", "resize"), ""},
		"binding": {plugintest.Create(&corev1.Binding{}).On("pods", "binding"), ""},
		"exec":    {plugintest.Connect(pod("a"), "exec", &corev1.PodExecOptions{}), ""},
		"pod templates": {plugintest.Create(&corev1.PodTemplate{Template: corev1.PodTemplateSpec{Spec: pod("a").Spec}}),
			""},
	} {
		t.Run(name, func(t *testing.T) {
			backend := backends.StartImages(t, backends.DenyImages("no"))
			subject := built(t, backend, "")
			if test.want == "" {
				subject.Validate(t, test.request).Admitted(t)
				if calls := backend.Calls(); len(calls) > 0 {
					t.Errorf("the backend is asked %s", calls)
				}
				return
			}
			subject.Validate(t, test.request).Refused(t, 403,
				`pods "p" is forbidden: image policy webhook backend denied one or more images: no`)
			want := `{"kind":"ImageReview","apiVersion":"imagepolicy.k8s.io/v1alpha1","metadata":{},"spec":` +
				test.want + `,"status":{"allowed":false}}`
			if got := strings.TrimSpace(strings.Join(backend.Calls(), "")); got != want {
				t.Errorf("the backend is asked\n%s\nand should be\n%s", got, want)
			}
		})
	}
	built(t, backends.StartImages(t, backends.AllowImages), "").Validate(t,
		plugintest.Create(&corev1.ConfigMap{}).On("pods", "")).
		Refused(t, 400, "ImagePolicyWebhook: the object of a request for pods is a *v1.ConfigMap")
}

func TestAnswers(t *testing.T) {
	const undecodable = `pods "p" is forbidden: error contacting webhook backend: `
	review := func(status string) string {
		return `{"apiVersion": "imagepolicy.k8s.io/v1alpha1", "kind": "ImageReview", "status": ` + status + `}`
	}
	for name, test := range map[string]struct {
		handler http.Handler
		calls   int    // 0: one
		want    string // what the refusal begins with; empty: admitted
		failed  bool   // it is the backend's failure, which defaultAllow turns into permission
	}{
		"seed 002, allowed": {handler: answer(200, review(`{"allowed": true}`))},
		"seed 002, disallowed": {handler: answer(200,
			review(`{"allowed": false, "reason": "image currently blacklisted"}`)),
			want: `pods "p" is forbidden: image policy webhook backend denied one or more images: image currently ` +
				`blacklisted`},
		"without a reason": {handler: answer(200, review(`{"allowed": false}`)),
			want: `pods "p" is forbidden: one or more images rejected by webhook backend`},
		"without a status": {handler: answer(200, review(`{}`)),
			want: `pods "p" is forbidden: one or more images rejected by webhook backend`},
		"an empty object": {handler: answer(200, `{}`),
			want: `pods "p" is forbidden: one or more images rejected by webhook backend`},
		"201":                {handler: answer(201, review(`{"allowed": true}`))},
		"fields of tomorrow": {handler: answer(200, review(`{"allowed": true, "confidence": 1}`))},
		"the spec of another": {handler: answer(200,
			`{"spec": {"namespace": "other"}, "status": {"allowed": true}}`)},
		"nothing": {handler: answer(200, ``), want: undecodable +
			"0-length response with status code: 200", failed: true},
		"garbage": {handler: answer(200, `<html>`), want: undecodable +
			"couldn't get version/kind; json parse error: ", failed: true},
		"half an answer": {handler: answer(200, review(`{"allowed": true`)), want: undecodable +
			"couldn't get version/kind; json parse error: ", failed: true},
		"allowed is no boolean": {handler: answer(200, review(`{"allowed": "true"}`)), want: undecodable +
			"json: cannot unmarshal string into Go struct field", failed: true},
		"another kind": {handler: answer(200,
			`{"apiVersion": "v1", "kind": "Pod", "status": {"allowed": true}}`), want: undecodable +
			`no kind "Pod" is registered for version "v1"`, failed: true},
		"another version": {handler: answer(200,
			strings.Replace(review(`{"allowed": true}`), "v1alpha1", "v1", 1)), want: undecodable +
			`no kind "ImageReview" is registered for version "imagepolicy.k8s.io/v1"`, failed: true},
		"a failure that says it's OK": {handler: answer(200,
			`{"apiVersion": "v1", "kind": "Status", "status": "Failure", "message": "overloaded"}`), want: undecodable,
			failed: true},
		"400": {handler: answer(400, `what?`), want: undecodable +
			"the server rejected our request for an unknown reason", failed: true},
		"401": {handler: answer(401, ``), want: undecodable +
			"the server has asked for the client to provide credentials", failed: true},
		"403 isn't the request's": {handler: answer(403, ``), want: undecodable + "unknown", failed: true},
		"404": {handler: answer(404, ``), want: undecodable +
			"the server could not find the requested resource", failed: true},
		"500 is retried": {handler: answer(500, ``), calls: 5, want: undecodable +
			`an error on the server ("unknown") has prevented the request from succeeding`, failed: true},
		"429 is retried": {handler: answer(429, ``), calls: 5, want: undecodable +
			"the server has received too many requests and has asked us to try again later", failed: true},
		"504 is retried": {handler: answer(504, ``), calls: 5, want: undecodable +
			"the server was unable to return a response in the time allotted", failed: true},
		"503 is not": {handler: answer(503, ``), want: undecodable +
			"the server is currently unable to handle the request", failed: true},
		"connection reset": {handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			panic(http.ErrAbortHandler)
		}), want: undecodable + `Post "`, failed: true, calls: -1},
	} {
		t.Run(name, func(t *testing.T) {
			for _, open := range []bool{false, true} {
				backend := backends.StartImages(t, test.handler)
				subject := built(t, backend, fmt.Sprintf("  defaultAllow: %t", open))
				result := subject.Validate(t, plugintest.Create(pod("a")))
				annotations := ""
				if open && test.failed {
					result.Admitted(t)
					annotations = "map[imagepolicywebhook.image-policy.k8s.io/failed-open:true]"
				} else if test.want == "" {
					result.Admitted(t)
				} else if result.Code() != 403 || !strings.HasPrefix(result.Message(), test.want) {
					t.Errorf("open %t: got  %d %s\nwant 403 %s…", open, result.Code(), result.Message(), test.want)
				}
				if got := fmt.Sprint(result.Annotations); annotations != "" && got != annotations ||
					annotations == "" && len(result.Annotations) > 0 {
					t.Errorf("open %t: audit annotations %s, want %s", open, got, annotations)
				}
				if calls := len(backend.Calls()); test.calls >= 0 && calls != max(test.calls, 1) {
					t.Errorf("open %t: %d calls, want %d", open, calls, max(test.calls, 1))
				}
			}
		})
	}
}

// A backend that fails at first is asked again, and its answer holds.
func TestRetrySucceeds(t *testing.T) {
	backend := backends.StartImages(t, nil)
	backend.Set(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if len(backend.Calls()) < 3 {
			w.WriteHeader(500)
			return
		}
		backends.AllowImages.ServeHTTP(w, r)
	}))
	subject := built(t, backend, "")
	subject.Validate(t, plugintest.Create(pod("a"))).Admitted(t)
	if calls := len(backend.Calls()); calls != 3 {
		t.Errorf("%d calls, want 3", calls)
	}
}

// Who isn't the backend isn't believed, and the backend knows who asks: upstream's TestTLSConfig.
func TestTLS(t *testing.T) {
	backend, other := backends.StartImages(t, backends.AllowImages), backends.StartImages(t, backends.AllowImages)
	dir, others := filepath.Dir(backend.Kubeconfig), filepath.Dir(other.Kubeconfig)
	const user = "client-certificate: client.crt, client-key: client.key"
	for name, test := range map[string]struct{ cluster, user, want string }{
		"both trust each other": {"certificate-authority: ca.crt", user, ""},
		"the client doesn't trust the server": {"certificate-authority: " + others + "/ca.crt", user,
			"x509: certificate signed by unknown authority"},
		"the client has no certificate": {"certificate-authority: ca.crt", "", "tls: certificate required"},
		"the server doesn't trust the client": {"certificate-authority: ca.crt",
			strings.ReplaceAll(user, "client.", others+"/client."), "tls: unknown certificate authority"},
		"the client doesn't ask who the server is": {"insecure-skip-tls-verify: true", user, ""},
	} {
		t.Run(name, func(t *testing.T) {
			kubeconfig := fmt.Sprintf("clusters:\n- name: c\n  cluster: {server: '%s/policy', %s}\nusers:\n- name: "+
				"u\n  user: {%s}\n", backend.URL, test.cluster, test.user)
			file := filepath.Join(dir, "this.kubeconfig")
			if err := os.WriteFile(file, []byte(kubeconfig), 0o600); err != nil {
				t.Fatal(err)
			}
			subject := plugintest.New(t, Descriptor, "imagePolicy: {retryBackoff: -1, kubeConfigFile: "+file+"}")
			result := subject.Validate(t, plugintest.Create(pod("a")))
			if test.want == "" {
				result.Admitted(t)
			} else if result.Code() != 403 || !strings.Contains(result.Message(), test.want) {
				t.Errorf("got  %d %s\nwant 403 …%s", result.Code(), result.Message(), test.want)
			}
		})
	}
}

func TestBackendIsDown(t *testing.T) {
	backend := backends.StartImages(t, backends.AllowImages)
	closed, open := built(t, backend, ""), built(t, backend, "  defaultAllow: true")
	backend.Close()
	result := closed.Validate(t, plugintest.Create(pod("a")))
	want := fmt.Sprintf(`pods "p" is forbidden: error contacting webhook backend: Post "%s/policy?timeout=30s": `+
		`dial tcp %s: connect: connection refused`, backend.URL, backend.Listener.Addr())
	result.Refused(t, 403, want)
	annotations := open.Validate(t, plugintest.Create(pod("a"))).Admitted(t).Annotations
	if annotations["imagepolicywebhook.image-policy.k8s.io/failed-open"] != "true" {
		t.Errorf("audit annotations %v", annotations)
	}
}

// A backend that doesn't answer holds a request no longer than its client waits, and is asked no
// more then.
func TestBackendIsSlow(t *testing.T) {
	called, done := make(chan struct{}, 1), make(chan struct{})
	defer close(done)
	backend := backends.StartImages(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		called <- struct{}{}
		<-done
	}))
	subject := built(t, backend, "").Built.(plugin.Validator)
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		<-called
		cancel(errors.New("the client has gone"))
	}()
	a := attributes(pod("a"))
	for _, when := range []string{"during the call", "before it"} {
		err := subject.Validate(ctx, a, nil)
		if want := `pods "p" is forbidden: error contacting webhook backend: the client has gone`; err == nil ||
			err.Error() != want {
			t.Errorf("%s: got %v, want %s", when, err, want)
		}
	}
	if calls := len(backend.Calls()); calls != 1 {
		t.Errorf("%d calls", calls)
	}
}

func attributes(p *corev1.Pod) admission.Attributes {
	return admission.NewAttributesRecord(p, nil, corev1.SchemeGroupVersion.WithKind("Pod"), p.Namespace, p.Name,
		corev1.SchemeGroupVersion.WithResource("pods"), "", admission.Create, &metav1.CreateOptions{}, false, nil)
}

// Whatever a user puts into a pod, the backend is asked about exactly that, and another question
// isn't taken for it.
func FuzzQuestion(f *testing.F) {
	f.Add("nginx", "x.image-policy.k8s.io/y", "z")
	f.Add(`"},{"image":"trusted`, `a.image-policy.k8s.io/"`, "\x00\n")
	f.Add("\u2028<&>", ".image-policy.k8s.io/", "\ufffd")
	f.Add("", "", "")
	f.Fuzz(func(t *testing.T, image, key, value string) {
		p := with(pod(image, image), withInit(image), annotated(key, value))
		encoded, err := json.Marshal(question(p, attributes(p)))
		if err != nil {
			t.Fatal(err)
		}
		var asked imagepolicyv1alpha1.ImageReviewSpec
		if err := json.Unmarshal(encoded, &asked); err != nil {
			t.Fatal(err)
		}
		var images []string
		for _, c := range asked.Containers {
			images = append(images, c.Image)
		}
		if want := valid(image); !slices.Equal(images, []string{want, want, want}) {
			t.Errorf("asked about %q, not %q", images, want)
		}
		if got, ok := asked.Annotations[valid(key)]; ok != strings.Contains(key, ".image-policy.k8s.io/") || ok &&
			got != valid(value) {
			t.Errorf("of the annotation %q=%q the backend gets %v", key, value, asked.Annotations)
		}
	})
}

// valid is text as JSON has it, in which there is no invalid UTF-8.
func valid(text string) string { return string([]rune(text)) }

func BenchmarkRemembered(b *testing.B) {
	subject := built(b, backends.StartImages(b, backends.AllowImages), "")
	validate := subject.Built.(plugin.Validator)
	a := attributes(with(pod("registry.example/web:1", "registry.example/sidecar:1"),
		annotated("x.image-policy.k8s.io/y", "z")))
	b.ReportAllocs()
	for b.Loop() {
		if err := validate.Validate(b.Context(), a, nil); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkOther(b *testing.B) {
	subject := built(b, backends.StartImages(b, backends.AllowImages), "")
	validate := subject.Built.(plugin.Validator)
	a := admission.NewAttributesRecord(pod("a"), pod("a"), corev1.SchemeGroupVersion.WithKind("Pod"), "ns", "p",
		corev1.SchemeGroupVersion.WithResource("pods"), "status", admission.Update, nil, false, nil)
	b.ReportAllocs()
	for b.Loop() {
		if err := validate.Validate(b.Context(), a, nil); err != nil {
			b.Fatal(err)
		}
	}
}
