// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package initialresources

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/distribution/reference"
	corev1 "k8s.io/api/core/v1"
)

// The names are those of containerd and CRI-O, which is what distribution/reference makes of them,
// and Docker's.
func TestImages(t *testing.T) {
	for written, test := range map[string]struct{ same, any string }{
		"nginx": {`(docker\.io/library/nginx:latest|nginx:latest)`,
			`(docker\.io/library/nginx|nginx)(:[^/@]*)?(@.*)?`},
		"nginx:1.25": {`(docker\.io/library/nginx:1\.25|nginx:1\.25)`,
			`(docker\.io/library/nginx|nginx)(:[^/@]*)?(@.*)?`},
		"team/web:1": {`(docker\.io/team/web:1|team/web:1)`,
			`(docker\.io/team/web|team/web)(:[^/@]*)?(@.*)?`},
		"index.docker.io/library/nginx": {`(docker\.io/library/nginx:latest|nginx:latest)`,
			`(docker\.io/library/nginx|nginx)(:[^/@]*)?(@.*)?`},
		"registry.example:5000/web": {`registry\.example:5000/web:latest`,
			`registry\.example:5000/web(:[^/@]*)?(@.*)?`},
		"localhost/web:1":                {`localhost/web:1`, `localhost/web(:[^/@]*)?(@.*)?`},
		"r.example/web@sha256:" + digest: {`r\.example/web@sha256:` + digest, `r\.example/web(:[^/@]*)?(@.*)?`},
		// Runtimes keep the digest where both are given.
		"r.example/web:1@sha256:" + digest: {`r\.example/web@sha256:` + digest, `r\.example/web(:[^/@]*)?(@.*)?`},
	} {
		got, ok := parseImage(written)
		if want := (image{test.same, test.any}); !ok || got != want {
			t.Errorf("%s: got %+v, %t, want %+v", written, got, ok, want)
		}
	}
	for _, written := range []string{"", " ", "UPPER", "a b", "nginx:", "nginx@", "nginx@sha256:abc", "http://nginx",
		`x"} or vector(1) #`, ".*", "a\nb", "\xff", "/nginx", digest, strings.Repeat("a/", 200) + "a"} {
		if got, ok := parseImage(written); ok {
			t.Errorf("%q: is taken for %+v", written, got)
		}
	}
	// Any tag, but no other image.
	anyTag, _ := parseImage("nginx")
	for label, want := range map[string]bool{
		"nginx": true, "nginx:1": true, "docker.io/library/nginx:1": true, "docker.io/library/nginx@sha256:" +
			digest: true, "nginx:1@sha256:" + digest: true,
		"nginx2": false, "nginx/x:1": false, "nginx:5000/x:1": false, "x/nginx:1": false,
		"docker-io/library/nginx:1": false,
	} {
		if got := anchored(anyTag.any).MatchString(label); got != want {
			t.Errorf("%s: %t", label, got)
		}
	}
}

// anchored is how Prometheus matches labels.
func anchored(pattern string) *regexp.Regexp { return regexp.MustCompile("^(?s:" + pattern + ")$") }

// An image is whatever a user writes. What of it gets into a query stays within the quotes of one
// string, and as a pattern matches that image alone.
func FuzzImage(f *testing.F) {
	for _, written := range []string{"nginx", "r.example:5000/a/b:1@sha256:" + digest, `x"} or vector(1) #`, "a.b/c..d",
		"\\", "\x00", "[::1]:5000/a", "a__b/c--d:_.-", "localhost"} {
		f.Add(written, "ns")
	}
	f.Add("nginx", `ns"}`)
	f.Fuzz(func(t *testing.T, written, namespace string) {
		image, ok := parseImage(written)
		if !ok {
			return
		}
		full, err := reference.ParseDockerRef(written)
		if err != nil || !anchored(image.same).MatchString(full.String()) ||
			!anchored(image.any).MatchString(full.String()) {
			t.Errorf("%q: %+v doesn't match %v", written, image, full)
		}
		if anchored(image.any).MatchString("other/"+full.String()) ||
			anchored(image.same).MatchString(full.String()+"0") {
			t.Errorf("%q: %+v matches others", written, image)
		}
		e := newEstimator(&configuration{percentile: 90, minimumSamples: 30}, nil)
		query := e.query(corev1.ResourceMemory, image.same, "namespace="+strconv.Quote(namespace), time.Hour)
		before, rest, _ := strings.Cut(query, "image=~")
		quoted, err := strconv.QuotedPrefix(rest)
		if err != nil {
			t.Fatalf("%s: %v", query, err)
		}
		if pattern, _ := strconv.Unquote(quoted); pattern != image.same ||
			before != "quantile_over_time(0.9, quantile(0.9, container_memory_working_set_bytes{" {
			t.Errorf("%s: the pattern is %s", query, pattern)
		}
		rest, ok = strings.CutPrefix(rest[len(quoted):], ",namespace=")
		if quoted, err = strconv.QuotedPrefix(rest); !ok || err != nil {
			t.Fatalf("%s: %v", query, err)
		}
		if is, _ := strconv.Unquote(quoted); is != namespace ||
			!strings.HasPrefix(rest[len(quoted):], "})[3600s:300s]) and sum_over_time(") {
			t.Errorf("%s: the namespace is %q", query, is)
		}
	})
}

// Prometheus is trusted, but what stands in for it may be anything.
func FuzzAnswer(f *testing.F) {
	f.Add(200, "application/json", vector("1.5"))
	f.Add(200, "application/json; charset=utf-8", vector())
	f.Add(422, "application/json", `{"status":"error","error":"too many samples"}`)
	f.Add(200, "application/json", `{"status":"success","data":{"resultType":"vector","result":[{"value":[1,2]}]}}`)
	f.Add(503, "text/html", "<html>")
	f.Fuzz(func(t *testing.T, status int, contentType, body string) {
		value, found, err := parseAnswer(status, contentType, []byte(body))
		if found && (err != nil || status != 200) {
			t.Errorf("%v, %v", value, err)
		}
		for _, name := range estimated {
			if q := quantity(name, value); q != nil && q.Sign() <= 0 {
				t.Errorf("%v is %s", value, q)
			}
		}
	})
}
