// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package initialresources

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"gatehouse.dev/plugin/plugintest"
	"gatehouse.dev/test/backends"
)

const (
	day = 24 * time.Hour
	mi  = 1 << 20
)

// What a real Prometheus makes of the queries.
func TestPrometheus(t *testing.T) {
	seen := []backends.Container{
		// Runs now; with 100Mi, and one twentieth of the time with 300Mi.
		{Namespace: "ns", Pod: "a", Name: "c", Image: "docker.io/library/steady:1", From: 3 * day,
			CPU: []float64{0.25}, Memory: append(slices.Repeat([]float64{100 * mi}, 19), 300*mi)},
		// Another image with a name that begins the same, and one that ends the same.
		{Namespace: "ns", Pod: "b", Name: "c", Image: "docker.io/library/steady:10", From: 6 * time.Hour,
			CPU: []float64{4}, Memory: []float64{4000 * mi}},
		{Namespace: "ns", Pod: "b", Name: "d", Image: "evil.example/docker.io/library/steady:1", From: 6 * time.Hour,
			CPU: []float64{4}, Memory: []float64{4000 * mi}},
		// A pattern would take a dot for anything.
		{Namespace: "ns", Pod: "b", Name: "e", Image: "docker-io/library/steady:1", From: 6 * time.Hour,
			CPU: []float64{4}, Memory: []float64{4000 * mi}},

		// Ran a lot 20 days ago, and this week too little to count.
		{Namespace: "ns", Pod: "a", Name: "c", Image: "docker.io/library/seldom:1", From: 20 * day,
			To: 20*day - 8*time.Hour, CPU: []float64{0.5}, Memory: []float64{200 * mi}},
		{Namespace: "ns", Pod: "b", Name: "c", Image: "docker.io/library/seldom:1", From: time.Hour,
			CPU: []float64{0.1}, Memory: []float64{10 * mi}},

		// In the pod's namespace only long ago, in another one now.
		{Namespace: "ns", Pod: "a", Name: "c", Image: "registry.example:5000/team/everywhere:1", From: 10 * day,
			To: 10*day - 8*time.Hour, CPU: []float64{0.5}, Memory: []float64{100 * mi}},
		{Namespace: "other", Pod: "a", Name: "c", Image: "registry.example:5000/team/everywhere:1", From: 8 * time.Hour,
			CPU: []float64{1}, Memory: []float64{200 * mi}},

		// Only in another namespace, only as another version.
		{Namespace: "other", Pod: "a", Name: "c", Image: "registry.example:5000/team/elsewhere:1", From: 8 * time.Hour,
			CPU: []float64{0.125}, Memory: []float64{64 * mi}},
		{Namespace: "ns", Pod: "a", Name: "c", Image: "docker.io/library/older:1", From: 8 * time.Hour,
			CPU: []float64{2}, Memory: []float64{1024 * mi}},
		{Namespace: "ns", Pod: "b", Name: "c", Image: "docker.io/library/older@sha256:" + digest, From: 8 * time.Hour,
			CPU: []float64{2}, Memory: []float64{1024 * mi}},
		{Namespace: "ns", Pod: "c", Name: "c", Image: "docker.io/library/older/not:1", From: 8 * time.Hour,
			CPU: []float64{9}, Memory: []float64{9000 * mi}},

		// Known by its short name.
		{Namespace: "ns", Pod: "a", Name: "c", Image: "short:latest", From: 8 * time.Hour, CPU: []float64{0.003},
			Memory: []float64{3 * mi}},
		// Idle.
		{Namespace: "ns", Pod: "a", Name: "c", Image: "docker.io/library/idle:1", From: 8 * time.Hour,
			CPU: []float64{0}, Memory: []float64{1}},
		// Half of what counts: 15 samples of each of two, and 14.
		{Namespace: "ns", Pod: "a", Name: "c", Image: "docker.io/library/enough:1", From: 2 * time.Hour,
			To: 40 * time.Minute, Memory: []float64{mi}},
		{Namespace: "ns", Pod: "b", Name: "c", Image: "docker.io/library/enough:1", From: 2 * time.Hour,
			To: 40 * time.Minute, Memory: []float64{mi}},
		{Namespace: "ns", Pod: "a", Name: "c", Image: "docker.io/library/few:1", From: 2 * time.Hour,
			To: 40 * time.Minute, Memory: []float64{mi}},
	}
	for i := range 11 {
		// Eleven that use 0.1, 0.2, … 1.1.
		seen = append(seen, backends.Container{Namespace: "ns", Pod: fmt.Sprint(i), Name: "c",
			Image: "docker.io/library/many:1", From: 8 * time.Hour,
			CPU: []float64{0.1 * float64(i+1)}, Memory: []float64{float64(i+1) * 10 * mi}})
	}
	address := backends.StartPrometheus(t, seen...)
	for name, test := range map[string]struct{ image, more, want string }{
		"most of the time":  {"steady:1", "percentile: 90", "cpu=250m, memory=100Mi"},
		"the peak":          {"steady:1", "percentile: 100", "cpu=250m, memory=300Mi"},
		"by its full name":  {"docker.io/library/steady:1", "", "cpu=250m, memory=100Mi"},
		"nine of ten":       {"many:1", "", "cpu=1, memory=100Mi"},
		"half of them":      {"many:1", "percentile: 50", "cpu=600m, memory=60Mi"},
		"the longer window": {"seldom:1", "", "cpu=500m, memory=200Mi"},
		"no longer window":  {"seldom:1", "windows: [168h]", ""},
		"its own namespace first": {"registry.example:5000/team/everywhere:1", "",
			"cpu=500m, memory=100Mi"},
		"another namespace": {"registry.example:5000/team/elsewhere:1", "", "cpu=125m, memory=64Mi"},
		"no other namespace": {"registry.example:5000/team/elsewhere:1", "sameNamespaceOnly: true",
			""},
		"another tag":                          {"older:2", "", "cpu=2, memory=1Gi"},
		"another tag, in the namespace":        {"older:2", "sameNamespaceOnly: true", "cpu=2, memory=1Gi"},
		"another tag of a registry with port":  {"registry.example:5000/team/elsewhere:2", "", "cpu=125m, memory=64Mi"},
		"latest, by its short name":            {"short", "", "cpu=3m, memory=3Mi"},
		"nothing used":                         {"idle:1", "", "cpu=1m, memory=1Mi"},
		"enough samples, of two together":      {"enough:1", "", "memory=1Mi"},
		"not enough samples":                   {"few:1", "", ""},
		"enough of them for who wants less":    {"few:1", "minimumSamples: 10", "memory=1Mi"},
		"never seen":                           {"unheard-of", "", ""},
		"the name's beginning":                 {"stead", "", ""},
		"out of the string":                    {`x"} or vector(1) #`, "", ""},
		"a pattern":                            {`.*`, "", ""},
		"no image":                             {``, "", ""},
		"a backslash, a newline, invalid code": {"x\\\n\xff", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			subject := plugintest.New(t, Descriptor, head+"address: "+address+"\ntimeout: 30s\n"+test.more)
			p := subject.Admit(t, plugintest.Create(pod(test.image))).Admitted(t).Object.(*corev1.Pod)
			want := ""
			if test.want != "" {
				want = "Initial Resources plugin set: " + test.want + " request for container c0"
			}
			if got := p.Annotations["kubernetes.io/initial-resources"]; got != want {
				t.Errorf("got  %q\nwant %q", got, want)
			}
		})
	}
	// What is quoted is compared, and no more, whatever is in it: a query that Prometheus can't
	// parse would be an error.
	for _, hostile := range []string{`"} or vector(1) #`, "\\", "`", "'", "\x00\x7f", "\u2028\U0010ffff", "{{.}}", "$1",
		`\Q\E.*`} {
		e := plugintest.New(t, Descriptor, head+"address: "+address).Built.(*initialResources).estimator
		query := e.query(corev1.ResourceMemory, regexp.QuoteMeta(hostile), "namespace="+strconv.Quote(hostile), day)
		if value, found, err := e.prometheus.query(t.Context(), query); found || err != nil {
			t.Errorf("%s\nis %v, %t, %v", query, value, found, err)
		}
	}
}
