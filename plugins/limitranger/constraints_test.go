// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package limitranger

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"gatehouse.dev/plugin/plugintest"
)

// containers are n containers alike.
func containers(n int, requests, limits string) []corev1.Container {
	var all []corev1.Container
	for i := range n {
		all = append(all, container(fmt.Sprintf("foo-%d", i), requests, limits))
	}
	return all
}

const (
	ofPod       = corev1.LimitTypePod
	ofContainer = corev1.LimitTypeContainer
)

// Each case with which upstream's TestPodLimitFunc tries cpu, memory and ephemeral storage is here
// for a resource of any name, where its numbers allow. "1000" stands for upstream's 2 CPUs, 1Gi and
// so on.
func TestPods(t *testing.T) {
	const anything = "example.com/thing"
	type test struct {
		containers []corev1.Container
		init       []corev1.Container
		pod        *corev1.ResourceRequirements
		overhead   string
		item       corev1.LimitRangeItem
		want       []string
	}
	tests := map[string]test{}
	for _, r := range []string{"cpu", "memory", "ephemeral-storage", "hugepages-2Mi", anything} {
		in := func(text string) string { return strings.ReplaceAll(text, "R", r) }
		add := func(name string, item corev1.LimitRangeItem, containers, init []corev1.Container, want ...string) {
			for i := range want {
				want[i] = in(want[i])
			}
			tests[r+": "+name] = test{containers: containers, init: init, item: item, want: want}
		}
		of := func(n int, requests, limits string) []corev1.Container {
			return containers(n, in(requests), in(limits))
		}
		limits := func(of corev1.LimitType, limits string) corev1.LimitRangeItem { return item(of, in(limits)) }

		min := limits(ofContainer, "min R=50")
		add("container, request above min", min, of(1, "R=60", ""), nil)
		add("container, request and limit above min", min, of(2, "R=60", "R=100"), nil)
		add("container, at min", min, of(1, "R=50", "R=50"), nil)
		add("container, request below min", min, of(1, "R=40", ""), nil,
			"minimum R usage per Container is 50, but request is 40")
		add("container, request below min, limit above", min, of(1, "R=40", "R=200"), nil,
			"minimum R usage per Container is 50, but request is 40")
		add("container, limit below min", min, of(1, "R=60", "R=40"), nil,
			"minimum R usage per Container is 50, but limit is 40")
		add("container, min and no request", min, of(1, "", "R=60"), nil,
			"minimum R usage per Container is 50.  No request is specified")
		add("init container, request below min", min, of(1, "R=60", ""), of(1, "R=40", ""),
			"minimum R usage per Container is 50, but request is 40")
		add("the same twice is said once", min, of(2, "R=40", ""), of(1, "R=40", ""),
			"minimum R usage per Container is 50, but request is 40")
		add("two things are said", min, append(of(1, "R=40", ""), of(1, "R=30", "")...), nil,
			"minimum R usage per Container is 50, but request is 40",
			"minimum R usage per Container is 50, but request is 30")

		max := limits(ofContainer, "max R=1000")
		add("container, request and limit below max", max, of(1, "R=250", "R=500"), nil)
		add("container, limit below max", max, of(2, "", "R=500"), nil)
		add("container, at max", max, of(1, "R=1000", "R=1000"), nil)
		add("container, limit above max", max, of(1, "R=250", "R=1001"), nil,
			"maximum R usage per Container is 1k, but limit is 1001")
		add("container, request above max", max, of(1, "R=1001", "R=1000"), nil,
			"maximum R usage per Container is 1k, but request is 1001")
		add("container, max and no limit", max, of(1, "R=250", ""), nil,
			"maximum R usage per Container is 1k.  No limit is specified")
		add("init container, limit above max", max, of(1, "", "R=500"), of(1, "", "R=1001"),
			"maximum R usage per Container is 1k, but limit is 1001")

		ratio := limits(ofContainer, "ratio R=1.5")
		add("container, at the ratio", ratio, of(1, "R=500", "R=750"), nil)
		add("container, above the ratio", ratio, of(1, "R=1250", "R=2500"), nil,
			"R max limit to request ratio per Container is 1500m, but provided ratio is 2.000000")
		add("container, ratio and no request", ratio, of(1, "", "R=750"), nil,
			"R max limit to request ratio per Container is 1500m, but no request is specified or request is 0")
		add("container, ratio and request 0", ratio, of(1, "R=0", "R=750"), nil,
			"R max limit to request ratio per Container is 1500m, but no request is specified or request is 0")
		add("container, ratio and no limit", ratio, of(1, "R=500", ""), nil,
			"R max limit to request ratio per Container is 1500m, but no limit is specified or limit is 0")
		add("init container, above the ratio", ratio, of(1, "R=1", "R=1"), of(1, "R=3", "R=6"),
			"R max limit to request ratio per Container is 1500m, but provided ratio is 2.000000")

		min = limits(ofPod, "min R=100")
		add("pod, request above min", min, of(2, "R=75", ""), nil)
		add("pod, request and limit above min", min, of(2, "R=75", "R=200"), nil)
		add("pod, request below min", min, of(1, "R=75", ""), nil, "minimum R usage per Pod is 100, but request is 75")
		add("pod, request below min, limit above", min, of(1, "R=75", "R=200"), nil,
			"minimum R usage per Pod is 100, but request is 75")
		add("pod, min reached by an init container", min, of(1, "R=60", ""), of(1, "R=100", ""))
		add("pod, min reached by containers, not by the init container", min, of(2, "R=60", "R=100"),
			of(1, "R=80", "R=100"))

		max = limits(ofPod, "max R=1000")
		add("pod, request and limit at max", max, of(2, "R=250", "R=500"), nil)
		add("pod, limit at max", max, of(2, "", "R=500"), nil)
		add("pod, limit above max", max, of(3, "R=250", "R=500"), nil,
			"maximum R usage per Pod is 1k, but limit is 1500")
		add("pod, max and no limit", max, of(3, "R=250", ""), nil,
			"maximum R usage per Pod is 1k.  No limit is specified")
		add("pod, init containers one after the other", max, of(2, "R=250", "R=500"),
			append(of(1, "R=500", "R=1000"), of(1, "R=500", "R=500")...))
		add("pod, init container above max", max, of(1, "", "R=500"), of(1, "", "R=1500"),
			"maximum R usage per Pod is 1k, but limit is 1500")
		add("pod, a sidecar runs with the containers", max, of(1, "R=500", "R=750"),
			[]corev1.Container{sidecar("s", in("R=300"), in("R=300"))},
			"maximum R usage per Pod is 1k, but limit is 1050")
		add("pod, a sidecar without limit", max, of(1, "R=500", "R=750"),
			[]corev1.Container{sidecar("s", in("R=750"), "")},
			"maximum R usage per Pod is 1k, but request is 1250")
		add("pod, a sidecar runs with init containers after it", max, of(1, "R=1", "R=1"),
			append([]corev1.Container{sidecar("s", in("R=600"), in("R=600"))}, of(1, "R=500", "R=500")...),
			"maximum R usage per Pod is 1k, but limit is 1100")
		add("pod, a sidecar doesn't run with init containers before it", max, of(1, "R=1", "R=1"),
			append(of(1, "R=500", "R=500"), sidecar("s", in("R=600"), in("R=600"))))

		add("pod, at the ratio", limits(ofPod, "ratio R=1.5, max R=2000"), of(3, "R=300", "R=450"), nil)
		add("pod, above the ratio", limits(ofPod, "ratio R=1.5, max R=2000"), of(3, "R=250", "R=500"), nil,
			"R max limit to request ratio per Pod is 1500m, but provided ratio is 2.000000")

		max = limits(ofPod, "max R=400, min R=160")
		overhead := func(name string, containers []corev1.Container, want ...string) {
			add("overhead, "+name, max, containers, nil, want...)
			with := tests[r+": overhead, "+name]
			with.overhead = in("R=100")
			tests[r+": overhead, "+name] = with
		}
		overhead("doesn't make the pod too large", of(1, "R=200", "R=350"))
		overhead("doesn't make the pod large enough", of(1, "R=60", "R=300"),
			"minimum R usage per Pod is 160, but request is 60")
		overhead("is no limit", of(1, "R=200", ""), "maximum R usage per Pod is 400.  No limit is specified")

		podLevel := func(name, requests, limits string, want ...string) {
			add("pod-level, "+name, max, of(3, "R=50", "R=200"), nil, want...)
			with, level := tests[r+": pod-level, "+name], resources(in(requests), in(limits))
			with.pod = &level
			tests[r+": pod-level, "+name] = with
		}
		switch r {
		case "cpu", "memory":
			podLevel("in place of the sums", "R=200", "R=400")
			podLevel("requests in place of the sum", "R=100", "R=400",
				"minimum R usage per Pod is 160, but request is 100")
			podLevel("limits in place of the sum", "R=200", "R=500", "maximum R usage per Pod is 400, but limit is 500")
			podLevel("nothing is said", "", "", "minimum R usage per Pod is 160, but request is 150",
				"maximum R usage per Pod is 400, but limit is 600")
		default:
			podLevel("doesn't count for others, nor for huge pages", "R=200", "R=400",
				"minimum R usage per Pod is 160, but request is 150",
				"maximum R usage per Pod is 400, but limit is 600")
		}
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			given := pod(test.containers...)
			given.Spec.InitContainers, given.Spec.Resources = test.init, test.pod
			if test.overhead != "" {
				given.Spec.Overhead = list(test.overhead)
			}
			subject := newPlugin(t, limitRange("limits", test.item))
			given = admitted(t, subject, plugintest.Create(given))
			for _, request := range []plugintest.Request{plugintest.Create(given),
				plugintest.Update(given, given).On("pods", "resize")} {
				if len(test.want) == 0 {
					subject.Validate(t, request).Admitted(t)
				} else {
					subject.Validate(t, request).Refused(t, 403, wrong(test.want...))
				}
			}
		})
	}
}

// Everything that is wrong is said, in the order of the LimitRanges' names, of their items, of
// containers, of resources.
func TestEverythingIsSaidInOrder(t *testing.T) {
	subject := newPlugin(t,
		limitRange("z", item(ofContainer, "max memory=1Mi cpu=1m ephemeral-storage=1, min cpu=2")),
		limitRange("a",
			item(ofPod, "max cpu=10m"),
			item(corev1.LimitTypePersistentVolumeClaim, "max cpu=1m"),
			item("example.com/other", "max cpu=1m"),
			item(ofContainer, "ratio cpu=1"),
		),
	)
	given := pod(container("c", "cpu=1 memory=2Mi", "cpu=2 memory=2Mi"), container("d", "cpu=3", "cpu=3"))
	for range 20 { // a map's order would show
		subject.Validate(t, plugintest.Create(given)).Refused(t, 403, wrong(
			"maximum cpu usage per Pod is 10m, but limit is 5",
			"cpu max limit to request ratio per Container is 1, but provided ratio is 2.000000",
			"minimum cpu usage per Container is 2, but request is 1",
			"maximum cpu usage per Container is 1m, but limit is 2",
			"maximum ephemeral-storage usage per Container is 1.  No limit is specified",
			"maximum memory usage per Container is 1Mi, but limit is 2Mi",
			"maximum cpu usage per Container is 1m, but limit is 3",
			"maximum memory usage per Container is 1Mi.  No limit is specified",
		))
	}
}

// Upstream rounds quantities up to thousandths, or to whole numbers where they are large, and
// divides in floating point.
func TestQuantitiesAreExact(t *testing.T) {
	for name, test := range map[string]struct {
		item     string
		requests string
		limits   string
		want     string
	}{
		"less than a thousandth": {"max cpu=100500u", "", "cpu=100900u",
			"maximum cpu usage per Container is 100500u, but limit is 100900u"},
		"large": {"max memory=8E", "", "memory=9E",
			"maximum memory usage per Container is 8E, but limit is 9E"},
		"larger than 64 bits": {"max memory=10E", "", "memory=9E", ""},
		"large and a fraction": {"min memory=9223372036854775.5", "memory=9223372036854775.4", "",
			"minimum memory usage per Container is 9223372036854775500m, but request is 9223372036854775400m"},
		"in another unit":         {"max memory=1Gi", "", "memory=1073741824", ""},
		"a ratio no float can be": {"ratio cpu=16.1", "cpu=10m", "cpu=161m", ""},
		"a ratio just above": {"ratio cpu=16.1", "cpu=100m", "cpu=1611m",
			"cpu max limit to request ratio per Container is 16100m, but provided ratio is 16.110000"},
		"a ratio of what is large": {"ratio memory=2", "memory=6E", "memory=12E", ""},
		"a large ratio": {"ratio memory=2", "memory=3E", "memory=12E",
			"memory max limit to request ratio per Container is 2, but provided ratio is 4.000000"},
		"a ratio larger than 64 bit": {"ratio cpu=10E", "cpu=1", "cpu=2", ""},
	} {
		t.Run(name, func(t *testing.T) {
			subject := newPlugin(t, limitRange("limits", item(ofContainer, test.item)))
			result := subject.Validate(t, plugintest.Create(pod(container("c", test.requests, test.limits))))
			if test.want == "" {
				result.Admitted(t)
			} else {
				result.Refused(t, 403, wrong(test.want))
			}
		})
	}
}

// A ratio that is no whole number of thousandths has digits which its copies share.
func TestRatiosStayAsTheyAre(t *testing.T) {
	ratio := resource.MustParse("1.50000000000000000001")
	digits := ratio.AsDec()
	before := digits.String()
	u := usage{list("cpu=1"), list("cpu=3")}
	_ = u.ratio(ofPod, "cpu", ratio)
	if after := digits.String(); after != before {
		t.Errorf("%s has become %s", before, after)
	}
}

// What a pod says for itself takes the place of the sum of its containers while the feature gate is
// on, and is as if it weren't there when it is off.
func TestPodLevelResourcesFollowTheirGate(t *testing.T) {
	limits := limitRange("l", item(corev1.LimitTypePod, "max cpu=1"))
	given := pod(container("c", "cpu=1", "cpu=1"))
	level := resources("cpu=2", "cpu=2")
	given.Spec.Resources = &level
	gated(t, true, limits).Validate(t, plugintest.Update(given, given).On("pods", "resize")).Refused(t, 403,
		wrong("maximum cpu usage per Pod is 1, but limit is 2"))
	gated(t, false, limits).Validate(t, plugintest.Update(given, given).On("pods", "resize")).Admitted(t)
}
