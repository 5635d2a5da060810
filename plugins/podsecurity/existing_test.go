// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package podsecurity

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/warning"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	"k8s.io/utils/ptr"

	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/plugintest"
)

const violating = `existing pods in namespace "ns" violate the new PodSecurity enforce level "restricted:latest"`

// named is a pod that violates what its annotation says, of a controller unless that is empty.
func named(name, violation, controller string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name,
		Annotations: map[string]string{"violates": violation}}}
	if controller != "" {
		pod.OwnerReferences = []metav1.OwnerReference{{UID: types.UID(controller), Controller: ptr.To(true)}}
	}
	return pod
}

func inClass(class string, pod *corev1.Pod) *corev1.Pod {
	pod.Spec.RuntimeClassName = &class
	return pod
}

// several are n pods, of names in order.
func several(n int, name, violation, controller string) []*corev1.Pod {
	var pods []*corev1.Pod
	for i := range n {
		pods = append(pods, named(fmt.Sprintf("%s-%04d", name, i), violation, controller))
	}
	return pods
}

// annotated are checks that find what annotations say.
type annotated struct {
	takes time.Duration
	// seen are the pods in the order in which they were checked.
	seen []string
}

func (a *annotated) EvaluatePod(_ api.LevelVersion, meta *metav1.ObjectMeta, _ *corev1.PodSpec) []policy.CheckResult {
	time.Sleep(a.takes)
	a.seen = append(a.seen, meta.Name)
	violated := meta.Annotations["violates"]
	return []policy.CheckResult{{Allowed: violated == "", ForbiddenReason: violated}}
}

// surveyed is the plugin with such checks, and pods that are listed in pages, as the API server
// does.
func surveyed(t *testing.T, checks *annotated, pods []*corev1.Pod, listing func(page int) error) *plugintest.Plugin {
	t.Helper()
	built := plugintest.New(t, Descriptor, configured(""))
	built.Built.(*podSecurity).checks = checks
	built.Client.PrependReactor("list", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		options := action.(clienttesting.ListActionImpl).ListOptions
		if action.GetNamespace() != "ns" || options.Limit != page {
			t.Errorf("lists %q with %+v", action.GetNamespace(), options)
		}
		start := 0
		if options.Continue != "" {
			start, _ = strconv.Atoi(options.Continue)
		}
		if listing != nil {
			if err := listing(start / page); err != nil {
				return true, nil, err
			}
		}
		list := &corev1.PodList{}
		end := min(start+page, len(pods))
		for _, pod := range pods[start:end] {
			list.Items = append(list.Items, *pod)
		}
		if end < len(pods) {
			list.Continue, list.RemainingItemCount = strconv.Itoa(end), ptr.To(int64(len(pods)-end))
		}
		return true, list, nil
	})
	return built
}

// restricting is the update that makes a namespace strict.
func restricting() plugintest.Request {
	return plugintest.Update(labeled("enforce", "restricted"), labeled("enforce", "baseline"))
}

// Source: upstream's TestValidateNamespace (update tests that tighten effective policy) and
// TestPrioritizePods.
func TestExistingPods(t *testing.T) {
	for name, test := range map[string]struct {
		pods []*corev1.Pod
		want []string
	}{
		"none":      {nil, nil},
		"good ones": {several(10, "p", "", ""), nil},
		"one":       {[]*corev1.Pod{named("p", "message", "")}, []string{violating, "p: message"}},
		"two of the same": {[]*corev1.Pod{named("z", "message", ""), named("a", "message", "")},
			[]string{violating, "a (and 1 other pod): message"}},
		"kinds of violation": {[]*corev1.Pod{
			named("none", "message", ""), inClass("class-1", named("one", "message", "")), named("good", "", ""),
			inClass("class-2", named("two", "message", "")), named("three", "message, message2", ""),
		}, []string{violating, "none (and 2 other pods): message", "three: message, message2"}},
		"exempt runtime classes": {[]*corev1.Pod{
			named("none", "message", ""), inClass("exempt-class", named("a", "message", "")),
			inClass("other", named("two", "message", "")),
		}, []string{violating, "none (and 1 other pod): message"}},
		"controllers": {slices.Concat(several(3, "a", "one", "A"), several(2, "b", "two", "B")),
			[]string{violating, "a-0000 (and 2 other pods): one", "b-0000 (and 1 other pod): two"}},
		"as many as are checked": {several(mostPods, "p", "message", ""),
			[]string{violating, "p-0000 (and 2999 other pods): message"}},
		"one more": {several(mostPods+1, "p", "message", ""), []string{
			"new PodSecurity enforce level only checked against the first 3000 of 3001 existing pods", violating,
			"p-0000 (and 2999 other pods): message"}},
		"one more, and all good": {several(mostPods+1, "p", "", ""), []string{
			"new PodSecurity enforce level only checked against the first 3000 of 3001 existing pods"}},
		"many more": {several(9*page, "p", "message", ""), []string{
			"new PodSecurity enforce level only checked against the first 3000 of 4500 existing pods", violating,
			"p-0000 (and 2999 other pods): message"}},
		// Replicas are checked when there is nothing else, exempt pods never.
		"the different ones first": {slices.Concat(
			several(2000, "exempt", "exempt", "E"), several(2000, "a", "a", "A"), several(2000, "b", "b", "B"),
			several(2998, "p", "p", "")), []string{
			"new PodSecurity enforce level only checked against the first 3000 of 6998 existing pods", violating,
			"a-0000: a", "b-0000: b", "p-0000 (and 2997 other pods): p"}},
		"replicas last": {slices.Concat(several(2000, "a", "a", "A"), several(2000, "b", "b", "B"),
			several(1, "p", "p", "")), []string{
			"new PodSecurity enforce level only checked against the first 3000 of 4001 existing pods", violating,
			"a-0000 (and 1999 other pods): a", "b-0000 (and 998 other pods): b", "p-0000: p"}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, pod := range test.pods {
				if pod.Annotations["violates"] == "exempt" {
					inClass("exempt-class", pod)
				}
			}
			subject := surveyed(t, &annotated{}, test.pods, nil)
			of(t, subject.Validate(t, restricting())).want(t, said{warnings: test.want})
			// What a request is to change nothing of is told all the same.
			of(t, subject.Validate(t, restricting().AsDryRun())).want(t, said{warnings: test.want})
		})
	}
}

// Source: upstream's TestValidateNamespace (timeout on …).
func TestExistingPodsTakeTime(t *testing.T) {
	const failed = "failed to list pods while checking new PodSecurity enforce level"
	only := func(n, of int) string {
		return fmt.Sprintf("new PodSecurity enforce level only checked against the first %d of %d existing pods", n, of)
	}
	pods := several(2*page+1, "p", "message", "A")
	for name, test := range map[string]struct {
		checking time.Duration        // of one pod
		listing  func(page int) error // of one page
		left     time.Duration        // what the request has left, 0: no end
		want     []string
		takes    time.Duration
	}{
		"a failure": {listing: func(int) error { return errors.New("no leader") }, want: []string{failed}},
		"a list that hangs": {listing: func(int) error {
			time.Sleep(longest)
			return context.DeadlineExceeded
		}, want: []string{failed}, takes: longest},
		"pods that take long": {checking: 550 * time.Millisecond, want: []string{only(2, 1001), violating,
			"p-0000 (and 1 other pod): message"}, takes: 1100 * time.Millisecond},
		"one that takes too long": {checking: 3 * time.Second, want: []string{only(1, 1001), violating,
			"p-0000: message"}, takes: 3 * time.Second},
		"half of what is left": {checking: 101 * time.Millisecond, left: time.Second, want: []string{only(5, 1001),
			violating, "p-0000 (and 4 other pods): message"}, takes: 505 * time.Millisecond},
		"half of much": {checking: 101 * time.Millisecond, left: time.Minute, want: []string{only(10, 1001), violating,
			"p-0000 (and 9 other pods): message"}, takes: 1010 * time.Millisecond},
		// What could be read is checked as far as there is time.
		"a page that fails": {listing: func(page int) error {
			if page == 1 {
				return errors.New("expired")
			}
			return nil
		}, want: []string{only(500, 1001), violating, "p-0000 (and 499 other pods): message"}},
		"a page that takes too long": {listing: func(page int) error {
			if page == 2 {
				time.Sleep(2 * longest)
				return context.DeadlineExceeded
			}
			return nil
		}, want: []string{only(1, 1001), violating, "p-0000: message"}, takes: 2 * longest},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				subject := surveyed(t, &annotated{takes: test.checking}, pods, test.listing)
				ctx := t.Context()
				if test.left > 0 {
					var cancel func()
					ctx, cancel = context.WithTimeout(ctx, test.left)
					defer cancel()
				}
				var got warnings
				ctx = warning.WithWarningRecorder(ctx, &got)
				request, start := restricting(), time.Now()
				a := admission.NewAttributesRecord(request.Object, request.OldObject, request.Kind, request.Namespace,
					request.Name, request.Resource, "", admission.Update, request.Options, false, request.User)
				if err := subject.Built.(plugin.Validator).Validate(ctx, a, nil); err != nil {
					t.Errorf("refused: %v", err)
				}
				if !slices.Equal(got, test.want) {
					t.Errorf("got  %q\nwant %q", got, test.want)
				}
				if took := time.Since(start).Round(time.Millisecond); took != test.takes {
					t.Errorf("took %v, want %v", took, test.takes)
				}
			})
		})
	}
}

type warnings []string

func (w *warnings) AddWarning(_, text string) { *w = append(*w, text) }
