// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package imagepolicywebhook

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	imagepolicyv1alpha1 "k8s.io/api/imagepolicy/v1alpha1"
	"k8s.io/apimachinery/pkg/util/cache"
	clocktesting "k8s.io/utils/clock/testing"

	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/plugintest"
	"gatehouse.dev/test/backends"
)

// The cases are upstream's TestWebhookCache and more.
func TestAnswersAreRemembered(t *testing.T) {
	backend := backends.StartImages(t, backends.AllowImages)
	subject := built(t, backend, "  allowTTL: 60\n  denyTTL: 10")
	clock := clocktesting.NewFakePassiveClock(time.Now())
	subject.Built.(*imagePolicyWebhook).answers = cache.NewLRUExpireCacheWithClock(remembered, clock)
	const denied = `pods "p" is forbidden: image policy webhook backend denied one or more images: no`
	calls := 0
	is := func(p *corev1.Pod, want string, asked int) {
		t.Helper()
		if result := subject.Validate(t, plugintest.Create(p)); want == "" {
			result.Admitted(t)
		} else {
			result.Refused(t, 403, want)
		}
		if calls += asked; len(backend.Calls()) != calls {
			t.Fatalf("%d calls, want %d", len(backend.Calls()), calls)
		}
	}
	is(pod("a"), "", 1)
	backend.Set(backends.DenyImages("no"))
	is(pod("a"), "", 0)
	other := pod("a")
	other.Name, other.Labels = "other", map[string]string{"a": "b"}
	is(other, "", 0)
	is(with(pod("a"), annotated("example.com/other", "x")), "", 0)
	clock.SetTime(clock.Now().Add(59 * time.Second))
	is(pod("a"), "", 0)
	clock.SetTime(clock.Now().Add(2 * time.Second))
	is(pod("a"), denied, 1)
	backend.Set(backends.AllowImages)
	clock.SetTime(clock.Now().Add(9 * time.Second))
	is(pod("a"), denied, 0)
	clock.SetTime(clock.Now().Add(2 * time.Second))
	is(pod("a"), "", 1)

	// Another question.
	elsewhere := pod("a")
	elsewhere.Namespace = "elsewhere"
	is(elsewhere, "", 1)
	is(pod("b"), "", 1)
	is(pod("a", "b"), "", 1)
	is(pod("b", "a"), "", 1)
	is(with(pod("a"), annotated("x.image-policy.k8s.io/x", "1")), "", 1)
	is(with(pod("a"), annotated("x.image-policy.k8s.io/x", "2")), "", 1)

	// What isn't an answer isn't remembered.
	for range 2 {
		backend.Set(answer(503, ""))
		is(pod("c"),
			`pods "p" is forbidden: error contacting webhook backend: the server is currently unable to handle the `+
				`request`, 1)
		backend.Set(answer(200, ""))
		is(pod("c"),
			`pods "p" is forbidden: error contacting webhook backend: 0-length response with status code: 200 and `+
				`content type: application/json`, 1)
	}
	backend.Set(backends.AllowImages)
	is(pod("c"), "", 1)
}

func TestAnswersAreNotRememberedWhereSwitchedOff(t *testing.T) {
	backend := backends.StartImages(t, backends.AllowImages)
	subject := built(t, backend, "  allowTTL: -1\n  denyTTL: -1")
	// At the very same time an answer with no time to live would still be good.
	subject.Built.(*imagePolicyWebhook).answers = cache.NewLRUExpireCacheWithClock(remembered,
		clocktesting.NewFakePassiveClock(time.Now()))
	subject.Validate(t, plugintest.Create(pod("a"))).Admitted(t)
	backend.Set(backends.DenyImages("no"))
	subject.Validate(t, plugintest.Create(pod("a"))).Refused(t, 403,
		`pods "p" is forbidden: image policy webhook backend denied one or more images: no`)
	backend.Set(backends.AllowImages)
	subject.Validate(t, plugintest.Create(pod("a"))).Admitted(t)
	if calls := len(backend.Calls()); calls != 3 {
		t.Errorf("%d calls, want 3", calls)
	}
}

// The cases are upstream's TestReturnedAnnotationAdd.
func TestAuditAnnotations(t *testing.T) {
	backend := backends.StartImages(t, nil)
	subject := built(t, backend, "")
	for image, allowed := range map[string]bool{"good": true, "bad": false} {
		backend.Set(backends.AnswerImages(func(review *imagepolicyv1alpha1.ImageReview) {
			review.Status.Allowed = allowed
			review.Status.AuditAnnotations = map[string]string{"foo-test": "true", "bar-test": "false"}
		}))
		for _, from := range []string{"the backend", "memory"} {
			result := subject.Validate(t, plugintest.Create(pod(image)))
			want := map[string]string{"imagepolicywebhook.image-policy.k8s.io/foo-test": "true",
				"imagepolicywebhook.image-policy.k8s.io/bar-test": "false"}
			if (result.Err == nil) != allowed || !maps.Equal(result.Annotations, want) {
				t.Errorf("%s, from %s: got %v, %v", image, from, result.Err, result.Annotations)
			}
		}
	}
	// One that the audit log doesn't take has no bearing on the verdict.
	backend.Set(backends.AnswerImages(func(review *imagepolicyv1alpha1.ImageReview) {
		review.Status.Allowed = true
		review.Status.AuditAnnotations = map[string]string{"a/b": "", "": "", strings.Repeat("x", 1000): "", "good": ""}
	}))
	if err := subject.Built.(plugin.Validator).Validate(t.Context(), attributes(pod("other")),
		nil); err != nil {
		t.Error(err)
	}
}

// Where webhooks are skipped the backend isn't called, and observers are told what it would be
// asked; where they are down defaultAllow decides.
func TestNotCalled(t *testing.T) {
	backend := backends.StartImages(t, backends.AllowImages)
	configuration := "imagePolicy:\n  retryBackoff: -1\n  kubeConfigFile: " + backend.Kubeconfig + "\n"
	for name, test := range map[string]struct {
		calls            plugin.WebhookCalls
		more, want, told string
	}{
		"skipped": {plugin.WebhooksSkipped, "", "<nil>", "Backend ImagePolicyWebhook at " + backend.URL +
			"/policy: it would be asked, about images a, b, but no webhooks are"},
		"down": {plugin.WebhooksDown, "", `pods "p" is forbidden: error contacting webhook backend: all webhooks are ` +
			"taken to be down", ""},
		"down, and allowed": {plugin.WebhooksDown, "  defaultAllow: true\n", "<nil>", ""},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := plugintest.NewCluster(t)
			cluster.Env.Webhooks = test.calls
			told := ""
			err := cluster.Build(t, Descriptor, configuration+test.more).Observe(t.Context(), t, plugin.Validating,
				plugintest.Create(pod("a", "b")), plugin.Observe{Want: plugin.Wants{Calls: true},
					Step: func(_ context.Context, step plugin.Step) {
						for _, c := range step.Calls {
							told += fmt.Sprintf("%s %s at %s: %s", c.Kind, c.Name, c.Backend, c.Why)
						}
					}})
			if got := fmt.Sprint(err); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
			if told != test.told {
				t.Errorf("observers are told %q, want %q", told, test.told)
			}
		})
	}
	if calls := backend.Calls(); len(calls) > 0 {
		t.Errorf("the backend was called: %q", calls)
	}
}
