// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package podsecurity

import (
	"errors"
	"maps"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/util/compatibility"
	clienttesting "k8s.io/client-go/testing"
	basecompatibility "k8s.io/component-base/compatibility"
	"k8s.io/utils/ptr"

	"gatehouse.dev/plugin/plugintest"
)

// labeled is the namespace ns with labels of the plugin, as "enforce", "baseline", "warn", "…".
func labeled(pairs ...string) *corev1.Namespace {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns",
		Labels: map[string]string{"kubernetes.io/metadata.name": "ns"}}}
	for i := 0; i < len(pairs); i += 2 {
		namespace.Labels["pod-security.kubernetes.io/"+pairs[i]] = pairs[i+1]
	}
	return namespace
}

// all is a namespace with one level in all three modes.
func all(level string) *corev1.Namespace {
	return labeled("enforce", level, "audit", level, "warn", level)
}

// restrictedPod keeps to the restricted level of all versions but for what change does.
func restrictedPod(change func(spec *corev1.PodSpec)) *corev1.Pod {
	secure := func() *corev1.SecurityContext {
		return &corev1.SecurityContext{AllowPrivilegeEscalation: ptr.To(false),
			Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}}
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"},
		Spec: corev1.PodSpec{
			SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: ptr.To(true),
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
			InitContainers: []corev1.Container{{Name: "init", Image: "init:1", SecurityContext: secure()}},
			Containers:     []corev1.Container{{Name: "main", Image: "main:1", SecurityContext: secure()}},
			EphemeralContainers: []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{
				Name: "debug", Image: "debug:1", SecurityContext: secure()}}},
		},
	}
	if change != nil {
		change(&pod.Spec)
	}
	return pod
}

// rootPod is what the baseline level allows and the restricted one doesn't.
func rootPod() *corev1.Pod {
	return restrictedPod(func(spec *corev1.PodSpec) { spec.SecurityContext.RunAsNonRoot = nil })
}

// hostPod is what only the privileged level allows.
func hostPod(change func(spec *corev1.PodSpec)) *corev1.Pod {
	return restrictedPod(func(spec *corev1.PodSpec) {
		spec.HostNetwork = true
		if change != nil {
			change(spec)
		}
	})
}

const (
	hostViolation = `host namespaces (hostNetwork=true)`
	rootViolation = `runAsNonRoot != true (pod or containers "init", "main", "debug" must set ` +
		`securityContext.runAsNonRoot=true)`
	forbidden = `pods "p" is forbidden: violates PodSecurity `
)

const exempting = `
apiVersion: pod-security.admission.config.k8s.io/v1
kind: PodSecurityConfiguration
exemptions:
  usernames: [exempt-user]
  namespaces: [exempt]
  runtimeClasses: [exempt-class]
`

// said is all that comes of a request.
type said struct {
	refused  string
	warnings []string
	audit    map[string]string
}

func of(t *testing.T, result plugintest.Result) said {
	t.Helper()
	s := said{refused: result.Message(), warnings: result.Warnings}
	if len(result.Annotations) > 0 {
		s.audit = map[string]string{}
	}
	for key, value := range result.Annotations {
		s.audit[key[len("pod-security.kubernetes.io/"):]] = value
	}
	return s
}

func (s said) want(t *testing.T, want said) {
	t.Helper()
	if s.refused != want.refused {
		t.Errorf("refused: %s\nwant:    %s", s.refused, want.refused)
	}
	if !slices.Equal(s.warnings, want.warnings) {
		t.Errorf("warnings: %q\nwant:     %q", s.warnings, want.warnings)
	}
	if !maps.Equal(s.audit, want.audit) {
		t.Errorf("audit: %q\nwant:  %q", s.audit, want.audit)
	}
}

type notes = map[string]string

// Source: upstream's TestValidatePodAndController (its pods) and TestPolicyToEvaluate.
func TestNewPods(t *testing.T) {
	for name, test := range map[string]struct {
		namespace *corev1.Namespace
		pod       *corev1.Pod
		want      said
	}{
		"a namespace that says nothing": {labeled(), hostPod(nil),
			said{audit: notes{"enforce-policy": "privileged:latest"}}},
		"a privileged one": {all("privileged"), hostPod(nil),
			said{audit: notes{"enforce-policy": "privileged:latest"}}},
		"a privileged one of a version": {labeled("enforce", "privileged", "enforce-version", "v1.20"), hostPod(nil),
			said{audit: notes{"enforce-policy": "privileged:latest"}}},
		"enforced, and kept to": {all("baseline"), rootPod(), said{audit: notes{"enforce-policy": "baseline:latest"}}},
		"restricted, and kept to": {all("restricted"), restrictedPod(nil),
			said{audit: notes{"enforce-policy": "restricted:latest"}}},
		"enforced, and violated": {all("baseline"), hostPod(nil), said{
			refused: forbidden + `"baseline:latest": ` + hostViolation,
			audit: notes{"enforce-policy": "baseline:latest",
				"audit-violations": `would violate PodSecurity "baseline:latest": ` + hostViolation}}},
		"every violation": {labeled("enforce", "restricted"),
			hostPod(func(spec *corev1.PodSpec) { spec.SecurityContext.RunAsNonRoot = nil }), said{
				refused: forbidden + `"restricted:latest": ` + hostViolation + ", " + rootViolation,
				audit:   notes{"enforce-policy": "restricted:latest"}}},
		"warned of": {labeled("warn", "baseline"), hostPod(nil), said{
			warnings: []string{`would violate PodSecurity "baseline:latest": ` + hostViolation},
			audit:    notes{"enforce-policy": "privileged:latest"}}},
		"audited": {labeled("audit", "baseline"), hostPod(nil), said{audit: notes{
			"enforce-policy":   "privileged:latest",
			"audit-violations": `would violate PodSecurity "baseline:latest": ` + hostViolation}}},
		"each its own": {labeled("enforce", "baseline", "enforce-version", "v1.20", "audit", "restricted",
			"audit-version", "v1.22", "warn", "restricted", "warn-version", "v1.21"), rootPod(), said{
			warnings: []string{`would violate PodSecurity "restricted:v1.21": ` + rootViolation},
			audit: notes{"enforce-policy": "baseline:v1.20",
				"audit-violations": `would violate PodSecurity "restricted:v1.22": ` + rootViolation}}},
		"warned of what is enforced, in its version": {
			labeled("enforce", "restricted", "enforce-version", "v1.22"), rootPod(), said{
				refused: forbidden + `"restricted:v1.22": ` + rootViolation,
				audit:   notes{"enforce-policy": "restricted:v1.22"}}},
		// What 1.25 no longer asks of Windows.
		"an old version": {labeled("enforce", "restricted", "enforce-version", "v1.24", "warn", "privileged"),
			windows(), said{refused: forbidden + `"restricted:v1.24": allowPrivilegeEscalation != false (containers ` +
				`"init", "main", "debug" must set securityContext.allowPrivilegeEscalation=false)`,
				audit: notes{"enforce-policy": "restricted:v1.24"}}},
		"a new version": {labeled("enforce", "restricted", "enforce-version", "v1.25"), windows(),
			said{audit: notes{"enforce-policy": "restricted:v1.25"}}},
		// It asks what the latest one does.
		"a version to come": {labeled("enforce", "baseline", "enforce-version", "v1.999"), hostPod(nil), said{
			refused: forbidden + `"baseline:v1.999": ` + hostViolation,
			audit:   notes{"enforce-policy": "baseline:v1.999"}}},
		// Baseline allows any since 1.35, in a user namespace.
		"a pod with users of its own": {labeled("enforce", "baseline"), ownUsers(),
			said{audit: notes{"enforce-policy": "baseline:latest"}}},
		"the same in an old version": {labeled("enforce", "baseline", "enforce-version", "v1.34"), ownUsers(), said{
			refused: forbidden + `"baseline:v1.34": procMount (container "main" must not set ` +
				`securityContext.procMount to "Unmasked")`, audit: notes{"enforce-policy": "baseline:v1.34"}}},

		"a level that is none": {labeled("enforce", "unknown"), rootPod(), said{
			refused: forbidden + `"restricted:latest": ` + rootViolation,
			audit: notes{"enforce-policy": "restricted:latest", "error": `Failed to parse policy: ` +
				wrongLabel("enforce", "unknown", noLevel)}}},
		"a version that is none": {labeled("enforce", "privileged", "enforce-version", "1.20"), hostPod(nil), said{
			audit: notes{"enforce-policy": "privileged:latest", "error": `Failed to parse policy: ` +
				wrongLabel("enforce-version", "1.20", noVersion)}}},
		"what can't be audited and warned of": {labeled("audit", "all", "warn", "v1.20"), hostPod(nil), said{
			audit: notes{"enforce-policy": "privileged:latest", "error": `Failed to parse policy: ` +
				`[` + wrongLabel("audit", "all", noLevel) + `, ` + wrongLabel("warn", "v1.20", noLevel) + `]`}}},
	} {
		t.Run(name, func(t *testing.T) {
			subject := plugintest.New(t, Descriptor, "", test.namespace)
			result := subject.Validate(t, plugintest.Create(test.pod))
			of(t, result).want(t, test.want)
			if calls := subject.Calls(); len(calls) > 0 {
				t.Errorf("calls %q", calls)
			}
			if result.Err != nil && !apierrors.IsForbidden(result.Err) {
				t.Errorf("%v is not forbidden", result.Err)
			}
		})
	}
}

// windows keeps to the restricted level of Windows.
func windows() *corev1.Pod {
	return restrictedPod(func(spec *corev1.PodSpec) {
		spec.OS = &corev1.PodOS{Name: corev1.Windows}
		spec.InitContainers[0].SecurityContext.AllowPrivilegeEscalation = nil
		spec.Containers[0].SecurityContext.AllowPrivilegeEscalation = nil
		spec.EphemeralContainers[0].SecurityContext.AllowPrivilegeEscalation = nil
	})
}

func ownUsers() *corev1.Pod {
	return restrictedPod(func(spec *corev1.PodSpec) {
		spec.HostUsers = ptr.To(false)
		spec.Containers[0].SecurityContext.ProcMount = ptr.To(corev1.UnmaskedProcMount)
	})
}

// Source: upstream's TestValidatePodAndController (its updates) and isSignificantPodUpdate.
func TestUpdatesOfPods(t *testing.T) {
	const (
		checked = true
		passes  = false
	)
	for name, test := range map[string]struct {
		change  func(pod *corev1.Pod)
		checked bool
	}{
		"nothing":    {func(*corev1.Pod) {}, passes},
		"labels":     {func(pod *corev1.Pod) { pod.Labels = map[string]string{"a": "b"} }, passes},
		"finalizers": {func(pod *corev1.Pod) { pod.Finalizers = nil }, passes},
		"tolerations": {func(pod *corev1.Pod) {
			pod.Spec.Tolerations = []corev1.Toleration{{Operator: "Exists"}}
		}, passes},
		"resources": {func(pod *corev1.Pod) {
			pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: corev1.ResourceList{}}
		}, passes},
		"an image": {func(pod *corev1.Pod) { pod.Spec.Containers[0].Image = "main:2" }, checked},
		"an init container's image": {func(pod *corev1.Pod) {
			pod.Spec.InitContainers[0].Image = "init:2"
		}, checked},
		"an ephemeral container's image": {func(pod *corev1.Pod) {
			pod.Spec.EphemeralContainers[0].Image = "debug:2"
		}, checked},
		"a container more": {func(pod *corev1.Pod) {
			pod.Spec.Containers = append(pod.Spec.Containers, pod.Spec.Containers[0])
		}, checked},
		"an init container less": {func(pod *corev1.Pod) { pod.Spec.InitContainers = nil }, checked},
		"an ephemeral container more": {func(pod *corev1.Pod) {
			more := *pod.Spec.EphemeralContainers[0].DeepCopy()
			more.Name = "more"
			pod.Spec.EphemeralContainers = append(pod.Spec.EphemeralContainers, more)
		}, checked},
		"an ephemeral container less": {func(pod *corev1.Pod) { pod.Spec.EphemeralContainers = nil }, passes},
		"ephemeral containers in another order": {func(pod *corev1.Pod) {
			slices.Reverse(pod.Spec.EphemeralContainers)
		}, passes},
	} {
		for _, subresource := range []string{"", "ephemeralcontainers", "resize"} {
			t.Run(name+" "+subresource, func(t *testing.T) {
				old := hostPod(func(spec *corev1.PodSpec) {
					spec.EphemeralContainers = append(spec.EphemeralContainers, corev1.EphemeralContainer{
						EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "other", Image: "other:1"}})
				})
				old.Finalizers = []string{"example.com/f"}
				changed := old.DeepCopy()
				test.change(changed)
				subject := plugintest.New(t, Descriptor, "", labeled("enforce", "baseline"))
				got := of(t, subject.Validate(t, plugintest.Update(changed, old).On("pods", subresource)))
				if !test.checked {
					got.want(t, said{})
					return
				}
				got.want(t, said{refused: forbidden + `"baseline:latest": ` + hostViolation,
					audit: notes{"enforce-policy": "baseline:latest"}})
			})
		}
	}
	subject := plugintest.New(t, Descriptor, "", all("restricted"))
	changed := restrictedPod(func(spec *corev1.PodSpec) { spec.Containers[0].Image = "main:2" })
	of(t, subject.Validate(t, plugintest.Update(changed, restrictedPod(nil)))).want(t,
		said{audit: notes{"enforce-policy": "restricted:latest"}})
}

// The plugin isn't called, so that nothing is paid for them.
func TestWhatPasses(t *testing.T) {
	subject := plugintest.New(t, Descriptor, "", all("restricted"))
	binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}
	eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"}}
	pod, web, namespace := hostPod(nil), deployment(hostPod(nil)), labeled("enforce", "unknown")
	ofAnotherGroup := plugintest.Create(pod)
	ofAnotherGroup.Resource.Group = "metrics.k8s.io"
	for name, request := range map[string]plugintest.Request{
		"binding":          plugintest.Create(binding).On("pods", "binding"),
		"eviction":         plugintest.Create(eviction).On("pods", "eviction"),
		"status of a pod":  plugintest.Update(pod, pod).On("pods", "status"),
		"another resource": plugintest.Create(claim),
		"another group's":  ofAnotherGroup,
		"scale":            plugintest.Update(web, web).On("deployments", "scale"),
		"status":           plugintest.Update(web, web).On("deployments", "status"),
		"finalize":         plugintest.Update(namespace, labeled()).On("namespaces", "finalize"),
		"delete":           plugintest.Delete(pod),
		"connect":          plugintest.Connect(pod, "exec", &corev1.PodExecOptions{}),
	} {
		if subject.Validate(t, request).Handled {
			t.Errorf("%s is handled", name)
		}
	}
}

// Source: upstream's TestValidatePodAndController (exempt …).
func TestExemptions(t *testing.T) {
	exemptClass := hostPod(func(spec *corev1.PodSpec) { spec.RuntimeClassName = ptr.To("exempt-class") })
	otherClass := hostPod(func(spec *corev1.PodSpec) { spec.RuntimeClassName = ptr.To("other-class") })
	elsewhere := hostPod(nil)
	elsewhere.Namespace = "exempt"
	for name, test := range map[string]struct {
		pod    *corev1.Pod
		user   string
		exempt string
	}{
		"a user":                {hostPod(nil), "exempt-user", "user"},
		"a namespace":           {elsewhere, "alice", "namespace"},
		"a namespace's user":    {elsewhere, "exempt-user", "namespace"},
		"a runtime class":       {exemptClass, "alice", "runtimeClass"},
		"another":               {hostPod(nil), "alice", ""},
		"another class":         {otherClass, "alice", ""},
		"somebody without name": {hostPod(nil), "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			subject := plugintest.New(t, Descriptor, exempting, all("baseline"))
			pod := of(t, subject.Validate(t, plugintest.Create(test.pod).By(test.user)))
			template := of(t, subject.Validate(t, plugintest.Create(deployment(test.pod)).By(test.user)))
			if test.exempt != "" {
				pod.want(t, said{audit: notes{"exempt": test.exempt}})
				template.want(t, said{audit: notes{"exempt": test.exempt}})
				return
			}
			if pod.refused == "" || len(template.warnings) == 0 || pod.audit["exempt"] != "" {
				t.Errorf("the pod: %v\nthe template: %v", pod, template)
			}
		})
	}
	// A request without a user is one that nobody authenticated.
	subject := plugintest.New(t, Descriptor, exempting, all("baseline"))
	anonymous := plugintest.Create(hostPod(nil))
	anonymous.User = nil
	if subject.Validate(t, anonymous).Err == nil {
		t.Error("a request without a user is exempt")
	}
}

// Source: upstream's TestValidatePodAndController (namespace not found, failed decode, invalid).
func TestWhatCantBeDecided(t *testing.T) {
	subject := plugintest.New(t, Descriptor, "", all("baseline"))
	lost := hostPod(nil)
	lost.Namespace = "lost"
	result := subject.Validate(t, plugintest.Create(lost))
	result.Refused(t, 500, `Internal error occurred: failed to lookup namespace "lost"`)
	of(t, result).want(t, said{refused: result.Message(), audit: notes{"error": `Internal error occurred: failed to ` +
		`lookup namespace "lost": namespaces "lost" not found`}})
	if want := []string{"get namespaces lost"}; !slices.Equal(subject.Calls(), want) {
		t.Errorf("calls %q, want %q", subject.Calls(), want)
	}

	binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}
	for name, test := range map[string]struct {
		request plugintest.Request
		want    string
	}{
		"no pod":           {plugintest.Create(binding).On("pods", ""), "failed to decode pod"},
		"no old pod":       {plugintest.Update(hostPod(nil), binding), "failed to decode old pod"},
		"no namespace":     {plugintest.Create(binding).On("namespaces", ""), "failed to decode namespace"},
		"no old namespace": {plugintest.Update(labeled(), binding), "failed to decode old namespace"},
	} {
		t.Run(name, func(t *testing.T) {
			result := subject.Validate(t, test.request)
			result.Refused(t, 400, test.want)
			of(t, result).want(t, said{refused: test.want, audit: notes{"error": test.want}})
		})
	}
}

// The cache may not show a namespace yet: it is read live, which may fail.
func TestNamespaceThatTheCacheDoesNotShow(t *testing.T) {
	subject := plugintest.New(t, Descriptor, "")
	var live error
	subject.Client.PrependReactor("get", "namespaces", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, all("baseline"), live
	})
	subject.Validate(t, plugintest.Create(hostPod(nil))).Refused(t, 403, forbidden+`"baseline:latest": `+hostViolation)
	live = errors.New("no leader")
	of(t, subject.Validate(t, plugintest.Create(hostPod(nil)))).want(t, said{
		refused: `Internal error occurred: failed to lookup namespace "ns"`,
		audit:   notes{"error": `Internal error occurred: failed to lookup namespace "ns": no leader`}})
}

// A server that shows the behaviour of an older release has that one's latest checks.
func TestEmulation(t *testing.T) {
	version := basecompatibility.NewEffectiveVersionFromString(
		compatibility.DefaultBuildEffectiveVersion().BinaryVersion().String(), "1.0", "1.0")
	for emulated, want := range map[string]string{"1.35": "", "1.34": forbidden + `"baseline:latest": procMount ` +
		`(container "main" must not set securityContext.procMount to "Unmasked")`} {
		cluster := plugintest.NewCluster(t, labeled("enforce", "baseline"))
		version.SetEmulationVersion(basecompatibility.NewEffectiveVersionFromString(emulated, "", "").BinaryVersion())
		cluster.Env.Version = version
		subject := cluster.Build(t, Descriptor, "")
		if got := subject.Validate(t, plugintest.Create(ownUsers())).Message(); got != want {
			t.Errorf("%s: got %q, want %q", emulated, got, want)
		}
	}
}

func TestNeedsTheVersion(t *testing.T) {
	cluster := plugintest.NewCluster(t)
	cluster.Env.Version = nil
	_, err := Descriptor.New(nil, cluster.Env)
	if err == nil || err.Error() != "PodSecurity needs the server's version" {
		t.Errorf("got %v", err)
	}
}
