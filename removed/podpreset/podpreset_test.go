// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package podpreset

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"sigs.k8s.io/yaml"

	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/plugintest"
	settingsv1alpha1 "gatehouse.dev/removed/apis/settings/v1alpha1"
)

// newPreset is a preset of namespace ns with a spec, in YAML.
func newPreset(t testing.TB, name, version, spec string) *settingsv1alpha1.PodPreset {
	t.Helper()
	p := &settingsv1alpha1.PodPreset{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name,
		ResourceVersion: version}}
	parse(t, spec, &p.Spec)
	return p
}

// newPod is a pod with a spec, in YAML, and the label app=web.
func newPod(t testing.TB, spec string) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p",
		Labels: map[string]string{"app": "web"}}}
	parse(t, spec, &pod.Spec)
	return pod
}

func parse(t testing.TB, text string, into any) {
	t.Helper()
	if err := yaml.UnmarshalStrict([]byte(text), into); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

func asYAML(t testing.TB, value any) string {
	t.Helper()
	content, err := yaml.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func newPlugin(t testing.TB, presets ...*settingsv1alpha1.PodPreset) *plugintest.Plugin {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := settingsv1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	var objects []runtime.Object
	for _, p := range presets {
		objects = append(objects, p)
	}
	c := plugintest.NewCluster(t)
	c.Serve(scheme, map[schema.GroupVersionResource]string{settingsv1alpha1.PodPresets: "PodPresetList"}, objects...)
	return c.Build(t, Descriptor, "")
}

const web = `{selector: {matchLabels: {app: web}}, `

// What is stated here is plugin/pkg/admission/podpreset of Kubernetes 1.19. The plugin sees to it,
// without the test's asking, that what it gave is no conflict with itself: plugintest runs it twice.
func TestWhatPodsGet(t *testing.T) {
	for name, test := range map[string]struct {
		presets []string // by name: a, b, …
		pod     string
		becomes string
	}{
		"everything, in every container": {
			presets: []string{web +
				`env: [{name: A, value: "1"}], envFrom: [{configMapRef: {name: m}}], volumes: [{name: v, emptyDir: ` +
				`{}}], volumeMounts: [{name: v, mountPath: /v}]}`},
			pod: `{containers: [{name: c, env: [{name: O}]}, {name: d}], initContainers: [{name: i}]}`,
			becomes: `{containers: [
				{name: c, env: [{name: O}, {name: A, value: "1"}], envFrom: [{configMapRef: {name: m}}], volumeMounts: [{name: v, mountPath: /v}]},
				{name: d, env: [{name: A, value: "1"}], envFrom: [{configMapRef: {name: m}}], volumeMounts: [{name: v, mountPath: /v}]}],
				initContainers: [{name: i, env: [{name: A, value: "1"}], envFrom: [{configMapRef: {name: m}}], volumeMounts: [{name: v, mountPath: /v}]}],
				volumes: [{name: v, emptyDir: {}}]}`,
		},
		"several, by name": {
			presets: []string{web + `env: [{name: B, value: "1"}, {name: S}]}`,
				`{selector: {}, env: [{name: A, value: "1"}, {name: S}]}`},
			pod:     `{containers: [{name: c}]}`,
			becomes: `{containers: [{name: c, env: [{name: B, value: "1"}, {name: S}, {name: A, value: "1"}]}]}`,
		},
		"what is there already stays": {
			presets: []string{web +
				`env: [{name: A, value: "1"}], envFrom: [{prefix: P, secretRef: {name: s}}], volumes: [{name: v, ` +
				`emptyDir: {}}], volumeMounts: [{name: v, mountPath: /v}]}`},
			pod: `{containers: [{name: c, env: [{name: A, value: "1"}, {name: Z}], envFrom: [{prefix: P, secretRef: {name: s}}, {secretRef: {name: s}}],
				volumeMounts: [{name: v, mountPath: /v}]}], volumes: [{name: v, emptyDir: {}}]}`,
			becomes: `{containers: [{name: c, env: [{name: A, value: "1"}, {name: Z}], envFrom: [{prefix: P, secretRef: {name: s}}, {secretRef: {name: s}}],
				volumeMounts: [{name: v, mountPath: /v}]}], volumes: [{name: v, emptyDir: {}}]}`,
		},
		"a volume at two paths": {
			presets: []string{web +
				`volumes: [{name: v, emptyDir: {}}], volumeMounts: [{name: v, mountPath: /a}, {name: v, mountPath: ` +
				`/b}]}`},
			pod: `{containers: [{name: c}]}`,
			becomes: `{containers: [{name: c, volumeMounts: [{name: v, mountPath: /a}, {name: v, mountPath: /b}]}], ` +
				`volumes: [{name: v, emptyDir: {}}]}`,
		},
		"of a variable that is there twice, the last counts": {
			presets: []string{web + `env: [{name: A, value: "2"}]}`},
			pod:     `{containers: [{name: c, env: [{name: A, value: "1"}, {name: A, value: "2"}]}]}`,
			becomes: `{containers: [{name: c, env: [{name: A, value: "1"}, {name: A, value: "2"}]}]}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var presets []*settingsv1alpha1.PodPreset
			want := map[string]string{"own": "x"}
			for i, spec := range test.presets {
				p := newPreset(t, string(rune('a'+i)), string(rune('1'+i)), spec)
				presets = append(presets, p)
				want["podpreset.admission.kubernetes.io/podpreset-"+p.Name] = p.ResourceVersion
			}
			slices.Reverse(presets)
			pod := newPod(t, test.pod)
			pod.Annotations = map[string]string{"own": "x"}
			got := newPlugin(t, presets...).Admit(t, plugintest.Create(pod)).Admitted(t).Object.(*corev1.Pod)
			if got, want := asYAML(t, got.Spec), asYAML(t, newPod(t, test.becomes).Spec); got != want {
				t.Errorf("the pod becomes\n%s, want\n%s", got, want)
			}
			if !reflect.DeepEqual(got.Annotations, want) {
				t.Errorf("annotations %v, want %v", got.Annotations, want)
			}
		})
	}
}

func TestConflicts(t *testing.T) {
	const introduction = "Conflict on pod p, which is created without anything of the pod presets a, fine: "
	for name, test := range map[string]struct{ preset, pod, want string }{
		"env": {
			`env: [{name: A, value: "1"}]`, `{containers: [{name: c, env: [{name: A, value: "2"}]}]}`,
			`merging env for a has a conflict on A: {"name":"A","value":"1"} does not match ` +
				`{"name":"A","value":"2"} in container c`,
		},
		"env of an init container": {
			`env: [{name: A, value: "1"}]`,
			`{containers: [{name: c}], initContainers: [{name: i, env: [{name: A, value: "2"}]}]}`,
			`merging env for a has a conflict on A: {"name":"A","value":"1"} does not match ` +
				`{"name":"A","value":"2"} in container i`,
		},
		"envFrom": {
			`envFrom: [{configMapRef: {name: m}}]`,
			`{containers: [{name: c, envFrom: [{configMapRef: {name: m, optional: true}}]}]}`,
			`merging envFrom for a has a conflict: {"configMapRef":{"name":"m"}} does not match ` +
				`{"configMapRef":{"name":"m","optional":true}} in container c`,
		},
		"volume": {
			`volumes: [{name: v, emptyDir: {}}]`,
			`{containers: [{name: c}], volumes: [{name: v, secret: {secretName: s}}]}`,
			`merging volumes for a has a conflict on v: {"name":"v","emptyDir":{}} does not match ` +
				`{"name":"v","secret":{"secretName":"s"}} in the pod`,
		},
		"mount path": {
			`volumeMounts: [{name: v, mountPath: /m}]`,
			`{containers: [{name: c, volumeMounts: [{name: o, mountPath: /m}]}]}`,
			`merging volume mounts for a has a conflict on mount path /m: {"name":"v","mountPath":"/m"} does not ` +
				`match {"name":"o","mountPath":"/m"} in container c`,
		},
		"mounted volume": {
			`volumeMounts: [{name: v, mountPath: /m}]`,
			`{containers: [{name: c, volumeMounts: [{name: v, mountPath: /o}]}]}`,
			`merging volume mounts for a has a conflict on v: {"name":"v","mountPath":"/m"} does not match ` +
				`{"name":"v","mountPath":"/o"} in container c`,
		},
		"with another preset": {
			`env: [{name: FINE, value: "1"}]`, `{containers: [{name: c}]}`,
			`merging env for fine has a conflict on FINE: {"name":"FINE","value":"yes"} does not match ` +
				`{"name":"FINE","value":"1"} in container c`,
		},
		"several": {
			`{env: [{name: A, value: "1"}], volumes: [{name: v, emptyDir: {}}]}`,
			`{containers: [{name: c, env: [{name: A}]}], volumes: [{name: v}]}`,
			`merging volumes for a has a conflict on v: {"name":"v","emptyDir":{}} does not match {"name":"v"} in ` +
				`the pod; ` +
				`merging env for a has a conflict on A: {"name":"A","value":"1"} does not match {"name":"A"} in ` +
				`container c`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				subject := newPlugin(t, newPreset(t, "a", "1", test.preset),
					newPreset(t, "fine", "1", `env: [{name: FINE, value: "yes"}]`))
				if result := subject.Admit(t, plugintest.Create(newPod(t, test.pod))).Admitted(t); result.Changed {
					t.Errorf("the pod becomes\n%s", asYAML(t, result.Object))
				}
				synctest.Wait()
				events, err := subject.Client.CoreV1().Events("ns").List(t.Context(), metav1.ListOptions{})
				// the second run's is counted in the first
				if err != nil || len(events.Items) != 1 {
					t.Fatalf("%d events, %v", len(events.Items), err)
				}
				e := events.Items[0]
				if e.Message != introduction+test.want || e.Type != "Warning" || e.Reason != "PodPresetConflict" ||
					e.InvolvedObject.Kind != "Pod" || e.InvolvedObject.Name != "p" {
					t.Errorf("got  %s %s %v: %s\nwant %s%s", e.Type, e.Reason, e.InvolvedObject, e.Message,
						introduction, test.want)
				}
			})
		})
	}
}

// A webhook changes the pod, and the chain runs the plugin once more: what was given before isn't
// taken back.
func TestConflictInASecondRun(t *testing.T) {
	for name, test := range map[string]struct {
		again bool
		want  string
	}{
		"after the plugin gave something": {true,
			"Conflict on pod p, which keeps what it has got already, without anything more of the pod presets a: "},
		"with an annotation of a client": {false,
			"Conflict on pod p, which is created without anything of the pod presets a: "},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				subject := newPlugin(t,
					newPreset(t, "a", "1", web+`env: [{name: A, value: "1"}, {name: B, value: "1"}]}`))
				pod := subject.Admit(t,
					plugintest.Create(newPod(t, `{containers: [{name: c}]}`))).Admitted(t).Object.(*corev1.Pod)
				pod.Spec.Containers[0].Env[1].Value = "2"
				before := pod.DeepCopy()
				a := admission.NewAttributesRecord(pod, nil, corev1.SchemeGroupVersion.WithKind("Pod"), "ns", "p",
					corev1.SchemeGroupVersion.WithResource("pods"), "", admission.Create, nil, false, nil)
				if test.again {
					a.GetReinvocationContext().SetIsReinvoke()
				}
				if err := subject.Built.(plugin.Mutator).Admit(t.Context(), a, nil); err != nil ||
					!reflect.DeepEqual(pod, before) {
					t.Errorf("%v, the pod becomes\n%s", err, asYAML(t, pod))
				}
				synctest.Wait()
				events, err := subject.Client.CoreV1().Events("ns").List(t.Context(), metav1.ListOptions{})
				if err != nil || len(events.Items) != 1 || !strings.HasPrefix(events.Items[0].Message, test.want) {
					t.Errorf("got %v, %v", events.Items, err)
				}
			})
		})
	}
}

// Presets with such names may be stored, by an older server.
func TestLongNames(t *testing.T) {
	first := strings.Repeat("n", 53)
	var presets []*settingsv1alpha1.PodPreset
	for _, name := range []string{first, first + "a", first + "b", strings.Repeat("n", 253)} {
		presets = append(presets, newPreset(t, name, "1", web+`env: [{name: A}]}`))
	}
	pod := newPlugin(t, presets...).Admit(t,
		plugintest.Create(newPod(t, `{containers: [{name: c}]}`))).Admitted(t).Object.(*corev1.Pod)
	if len(pod.Annotations) != len(presets) ||
		pod.Annotations["podpreset.admission.kubernetes.io/podpreset-"+first] == "" {
		t.Errorf("got %v", pod.Annotations)
	}
	if errs := apivalidation.ValidateAnnotations(pod.Annotations, nil); len(errs) > 0 {
		t.Error(errs)
	}
}

func TestEventOfAPodWithoutName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		subject := newPlugin(t, newPreset(t, "a", "1", `env: [{name: A, value: "`+strings.Repeat("é", 1000)+`"}]`))
		pod := newPod(t, `{containers: [{name: c, env: [{name: A}]}]}`)
		pod.Name, pod.GenerateName = "", "web-"
		subject.Admit(t, plugintest.Create(pod).AsDryRun()).Admitted(t)
		synctest.Wait()
		if calls := subject.Calls(); len(calls) > 0 {
			t.Errorf("a dry run has calls %q", calls)
		}
		subject.Admit(t, plugintest.Create(pod)).Admitted(t)
		synctest.Wait()
		events, err := subject.Client.CoreV1().Events("ns").List(t.Context(), metav1.ListOptions{})
		if err != nil || len(events.Items) != 1 {
			t.Fatalf("%d events, %v", len(events.Items), err)
		}
		message := events.Items[0].Message
		if !strings.HasPrefix(message, "Conflict on pod web-, ") || len(message) > 1024 || len(message) < 1020 ||
			!utf8.ValidString(message) || !strings.HasSuffix(message, "…") {
			t.Errorf("%d bytes: %s", len(message), message)
		}
	})
}

func TestLeftAlone(t *testing.T) {
	subject := newPlugin(t,
		newPreset(t, "web", "1", web+`env: [{name: A}]}`),
		newPreset(t, "in", "1",
			`{selector: {matchExpressions: [{key: tier, operator: In, values: [a, b]}]}, env: [{name: B}]}`))
	pod := func(change func(*corev1.Pod)) *corev1.Pod {
		p := newPod(t, `{containers: [{name: c}]}`)
		change(p)
		return p
	}
	for name, test := range map[string]struct {
		request plugintest.Request
		changed bool
	}{
		"a pod that is selected": {plugintest.Create(pod(func(*corev1.Pod) {})), true},
		"by an expression": {plugintest.Create(
			pod(func(p *corev1.Pod) { p.Labels = map[string]string{"tier": "b"} })), true},
		"not excluded": {plugintest.Create(pod(func(p *corev1.Pod) {
			p.Annotations = map[string]string{"podpreset.admission.kubernetes.io/exclude": "false"}
		})), true},
		"excluded": {plugintest.Create(pod(func(p *corev1.Pod) {
			p.Annotations = map[string]string{"podpreset.admission.kubernetes.io/exclude": "true"}
		})), false},
		"a mirror pod": {plugintest.Create(
			pod(func(p *corev1.Pod) { p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"} })), false},
		"other labels": {plugintest.Create(pod(func(p *corev1.Pod) { p.Labels = map[string]string{"app": "db"} })),
			false},
		"another namespace": {plugintest.Create(pod(func(p *corev1.Pod) { p.Namespace = "other" })), false},
		"a subresource": {plugintest.Create(&corev1.Binding{ObjectMeta: metav1.ObjectMeta{Namespace: "ns",
			Name: "p"}}).On("pods", "binding"), false},
		"an update": {plugintest.Update(pod(func(*corev1.Pod) {}), pod(func(*corev1.Pod) {})), false},
		"something else": {plugintest.Create(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "s",
			Labels: map[string]string{"app": "web"}}}), false},
	} {
		t.Run(name, func(t *testing.T) {
			if result := subject.Admit(t, test.request).Admitted(t); result.Changed != test.changed {
				t.Errorf("changed: %t\n%s", result.Changed, asYAML(t, result.Object))
			}
		})
	}
}

func TestWhatIsMissing(t *testing.T) {
	client := plugintest.NewCluster(t).Client
	for name, test := range map[string]struct {
		env    plugin.Env
		config string
		want   string
	}{
		"client": {want: "PodPreset needs a client"},
		"dynamic client": {env: plugin.Env{Client: client},
			want: "PodPreset needs a dynamic client"},
		"nothing, but a configuration is given": {config: "a: b",
			want: "PodPreset takes no configuration, but is given one"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Descriptor.New(strings.NewReader(test.config), &test.env); err == nil ||
				err.Error() != test.want {
				t.Errorf("got %v, want %s", err, test.want)
			}
		})
	}
}

// Whatever presets and pods say, merging leaves what it is given as it is, and merging once more
// changes nothing.
func FuzzMerge(f *testing.F) {
	f.Add(`{"env":[{"name":"A"}],"volumeMounts":[{"name":"v","mountPath":"/a"},{"name":"v","mountPath":"/b"}]}`,
		`{"env":[{"name":"B"}]}`, `{"containers":[{"name":"c"}]}`)
	f.Add(`{"volumes":[{"name":"v"},{"name":"v"}]}`, `{"envFrom":[{},{"prefix":"a"}]}`,
		`{"containers":[{"env":[{"name":"A"},{"name":"A"}]}],"volumes":[{"name":"v"}]}`)
	f.Add(`{}`, `{"volumeMounts":[{"mountPath":"/a"},{"name":"v","mountPath":"/a"}]}`,
		`{"initContainers":[{"volumeMounts":[{"mountPath":"/a"}]}]}`)
	f.Fuzz(func(t *testing.T, first, second, pod string) {
		var a, b settingsv1alpha1.PodPreset
		var spec corev1.PodSpec
		for text, into := range map[string]any{first: &a.Spec, second: &b.Spec, pod: &spec} {
			if yaml.Unmarshal([]byte(text), into) != nil {
				return
			}
		}
		presets := []preset{{PodPreset: &a}, {PodPreset: &b}}
		before, beforeA, beforeB := spec.DeepCopy(), a.DeepCopy(), b.DeepCopy()
		merged, conflicts := merge(&spec, presets)
		if !reflect.DeepEqual(&spec, before) || !reflect.DeepEqual(&a, beforeA) || !reflect.DeepEqual(&b, beforeB) {
			t.Fatal("what is merged is changed")
		}
		if len(conflicts) > 0 {
			return
		}
		if again, conflicts := merge(merged, presets); len(conflicts) > 0 || !reflect.DeepEqual(again, merged) {
			t.Errorf("merging again: %q\n%s, was\n%s", conflicts, asYAML(t, again), asYAML(t, merged))
		}
	})
}
