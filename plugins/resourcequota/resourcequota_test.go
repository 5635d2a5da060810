// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package resourcequota

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	extensionsv1beta1 "k8s.io/api/extensions/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"gatehouse.dev/internal/quota"
	"gatehouse.dev/plugin/plugintest"
)

func newQuota(name string, hard, used map[corev1.ResourceName]string) *corev1.ResourceQuota {
	list := func(from map[corev1.ResourceName]string) corev1.ResourceList {
		to := corev1.ResourceList{}
		for k, v := range from {
			to[k] = resource.MustParse(v)
		}
		return to
	}
	return &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "demo", UID: types.UID("uid of " + name)},
		Spec:       corev1.ResourceQuotaSpec{Hard: list(hard)},
		Status:     corev1.ResourceQuotaStatus{Hard: list(hard), Used: list(used)},
	}
}

func newPod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "demo"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "nginx"}}},
	}
}

type amounts = map[corev1.ResourceName]string

// Without a storage that charges, the plugin charges the quota's status itself.
func TestChargesThroughTheAPI(t *testing.T) {
	for _, c := range []struct {
		name    string
		quota   *corev1.ResourceQuota
		request plugintest.Request
		refusal string
		used    string // pods, afterwards
	}{
		{"room", newQuota("q", amounts{"pods": "2"}, amounts{"pods": "1"}), plugintest.Create(newPod("p")), "", "2"},
		{"no room", newQuota("q", amounts{"pods": "2"}, amounts{"pods": "2"}), plugintest.Create(newPod("p")),
			`pods "p" is forbidden: exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2`, "2"},
		{"dry run", newQuota("q", amounts{"pods": "2"}, amounts{"pods": "1"}), plugintest.Create(newPod("p")).AsDryRun(),
			"", "1"},
		{"dry run without room", newQuota("q", amounts{"pods": "1"}, amounts{"pods": "1"}),
			plugintest.Create(newPod("p")).AsDryRun(),
			`pods "p" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1`, "1"},
		{"an update that costs the same", newQuota("q", amounts{"pods": "1"}, amounts{"pods": "1"}),
			plugintest.Update(newPod("p"), newPod("p")), "", "1"},
		{"a status", newQuota("q", amounts{"pods": "1"}, amounts{"pods": "1"}),
			plugintest.Update(&corev1.Pod{ObjectMeta: newPod("p").ObjectMeta, Status: corev1.PodStatus{Phase: corev1.PodFailed}},
				newPod("p")).On("pods", "status"), "", "1"},
		{"a status that creates", newQuota("q", amounts{"pods": "1"}, amounts{"pods": "1"}),
			plugintest.Create(newPod("p")).On("pods", "status"),
			`pods "p" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1`, "1"},
		{"a dry run in the group that workloads had once",
			newQuota("q", amounts{"count/deployments.apps": "1"}, amounts{"count/deployments.apps": "1"}),
			plugintest.Create(&extensionsv1beta1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "d",
				Namespace: "demo"}}).AsDryRun(),
			`deployments.extensions "d" is forbidden: exceeded quota: q, requested: count/deployments.apps=1, used: ` +
				`count/deployments.apps=1, limited: count/deployments.apps=1`, "0"},
		{"unstated", newQuota("q", amounts{"requests.cpu": "1"}, amounts{"requests.cpu": "0"}),
			plugintest.Create(newPod("p")),
			`pods "p" is forbidden: failed quota: q: must specify requests.cpu for: c`, "0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			subject := plugintest.New(t, Descriptor, "", c.quota)
			result := subject.Validate(t, c.request)
			if c.refusal == "" {
				result.Admitted(t)
			} else {
				result.Refused(t, 403, c.refusal)
			}
			after, err := subject.Client.CoreV1().ResourceQuotas("demo").Get(t.Context(), "q", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if used := after.Status.Used["pods"]; used.String() != c.used {
				t.Errorf("used %s pods, want %s", used.String(), c.used)
			}
		})
	}
}

// A quota that has changed or gone since it was read is read again, and charged once. Where that
// doesn't end it is a conflict.
func TestTriesAgain(t *testing.T) {
	changed := apierrors.NewConflict(corev1.Resource("resourcequotas"), "q", errors.New("changed"))
	gone := apierrors.NewNotFound(corev1.Resource("resourcequotas"), "q")
	for name, c := range map[string]struct {
		err   error
		times int
		used  string
		want  string
	}{
		"changed": {changed, 3, "2", ""},
		"gone":    {gone, 3, "2", ""},
		"changes for ever": {changed, attempts, "1",
			`Operation cannot be fulfilled on pods "p": charging the quotas of namespace demo: Operation cannot be ` +
				`fulfilled on resourcequotas "q": changed; please try again`},
		"another goes away": {gone, attempts, "1",
			`Operation cannot be fulfilled on pods "p": charging the quotas of namespace demo: resourcequotas "q" ` +
				`not found; please try again`},
	} {
		t.Run(name, func(t *testing.T) {
			client := fake.NewClientset(newQuota("q", amounts{"pods": "5"}, amounts{"pods": "1"}))
			failures := c.times
			client.PrependReactor("update", "resourcequotas", func(clienttesting.Action) (bool, runtime.Object, error) {
				if failures--; failures >= 0 {
					return true, nil, c.err
				}
				return false, nil, nil
			})
			p := &resourceQuota{client: client}
			err := p.Validate(t.Context(), attributes(newPod("p")), nil)
			if c.want == "" && err != nil || c.want != "" && (!apierrors.IsConflict(err) || err.Error() != c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
			after, _ := client.CoreV1().ResourceQuotas("demo").Get(t.Context(), "q", metav1.GetOptions{})
			if used := after.Status.Used["pods"]; used.String() != c.used {
				t.Errorf("used %s pods, want %s", used.String(), c.used)
			}
		})
	}
}

// Where storage charges, the plugin leaves it the cost and asks nobody.
func TestLeavesTheChargeToStorage(t *testing.T) {
	client := fake.NewClientset()
	p := &resourceQuota{client: client}
	ctx := quota.WithHolder(t.Context())
	if err := p.Validate(ctx, attributes(newPod("p")), nil); err != nil {
		t.Fatal(err)
	}
	if len(client.Actions()) != 0 {
		t.Errorf("asked the API: %v", client.Actions())
	}
	pods := schema.GroupResource{Resource: "pods"}
	if quota.TakeEnforcement(ctx, schema.GroupResource{Resource: "ipaddresses"}, "", "10.0.0.1") != nil {
		t.Error("another object of the request was charged")
	}
	e := quota.TakeEnforcement(ctx, pods, "demo", "p")
	if e == nil || e.Old != nil || e.New == nil {
		t.Fatalf("left %+v", e)
	}
	if err := e.Refuse(errors.New("no room")); !apierrors.IsForbidden(err) ||
		!strings.Contains(err.Error(), `pods "p" is forbidden: no room`) {
		t.Errorf("refuses with %v", err)
	}
	if quota.TakeEnforcement(ctx, pods, "demo", "p") != nil {
		t.Error("charged twice")
	}
}

func TestConfiguration(t *testing.T) {
	const config = `{"apiVersion":"apiserver.config.k8s.io/v1","kind":"ResourceQuotaConfiguration",` +
		`"limitedResources":[{"resource":"pods","matchContains":["pods"]}]}`
	subject := plugintest.New(t, Descriptor, config)
	subject.Validate(t, plugintest.Create(newPod("p"))).Refused(t, 403,
		`pods "p" is forbidden: insufficient quota to consume: count/pods,pods`)
}

func attributes(pod *corev1.Pod) admission.Attributes {
	return admission.NewAttributesRecord(pod, nil, corev1.SchemeGroupVersion.WithKind("Pod"), pod.Namespace, pod.Name,
		corev1.SchemeGroupVersion.WithResource("pods"), "", admission.Create, &metav1.CreateOptions{}, false,
		&user.DefaultInfo{Name: "alice"})
}
