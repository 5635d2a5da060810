// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package storage_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"gatehouse.dev/gatehousetest"
	"gatehouse.dev/test/servertest"
)

func TestEventRateLimit(t *testing.T) {
	t.Parallel()
	const (
		core = `{"apiVersion": "v1", "kind": "Event", "metadata": {"generateName": "e-"}, "involvedObject": ` +
			`{"kind": "Pod", "namespace": "%s", "name": "web"}, "reason": "r", "message": "m"}`
		newer = `{"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"generateName": "e-"}, "regarding": {"kind": "Pod", "namespace": "%s", "name": "web"},
			"reportingController": "example.com/c", "reportingInstance": "i", "action": "a", "reason": "r", "type": "Normal", "eventTime": "2026-01-01T00:00:00.000000Z"}`
		burst = 5
	)
	c := servertest.Start(t, gatehousetest.WithPlugins("EventRateLimit"), servertest.Configured(t, map[string]string{"EventRateLimit": fmt.Sprintf(`
apiVersion: eventratelimit.admission.k8s.io/v1alpha1
kind: Configuration
limits:
- {type: Namespace, qps: 1, burst: %d}`, burst)}))
	client, err := rest.HTTPClientFor(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	// Not with client-go, which tries again by itself.
	post := func(api, namespace, event, query string) (code int, retryAfter, body string) {
		t.Helper()
		response, err := client.Post(fmt.Sprintf("%s/%s/namespaces/%s/events%s", c.Config.Host, api, namespace, query),
			"application/json",
			strings.NewReader(fmt.Sprintf(event, namespace)))
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		content, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return response.StatusCode, response.Header.Get("Retry-After"), string(content)
	}
	namespace := c.Namespace(t, nil)

	began, created, refused := time.Now(), 0, 0
	for i := range 40 {
		api, event := "api/v1", core
		if i%2 == 1 {
			api, event = "apis/events.k8s.io/v1", newer
		}
		switch code, retryAfter, body := post(api, namespace, event, ""); code {
		case http.StatusCreated:
			created++
		case http.StatusTooManyRequests:
			refused++
			if want := "Too many requests: limit reached on type Namespace for key " + namespace; retryAfter != "1" ||
				!strings.Contains(body, want) {
				t.Errorf("%s: Retry-After %q, %s", api, retryAfter, body)
			}
		default:
			t.Fatalf("%s: %d %s", api, code, body)
		}
	}
	if most := burst + int(time.Since(began).Seconds()) + 1; created < burst || created > most {
		t.Errorf("%d events were created, should be %d to %d", created, burst, most)
	}
	if refused == 0 {
		t.Error("no event was refused")
	}
	// The bucket is empty, or nearly. These need no token of it.
	for range 3 {
		if code, _, body := post("api/v1", namespace, core, "?dryRun=All"); code != http.StatusCreated {
			t.Errorf("a dry run: %d %s", code, body)
		}
	}
	other := c.Namespace(t, nil)
	for range burst {
		if code, _, body := post("api/v1", other, core, ""); code != http.StatusCreated {
			t.Errorf("another namespace: %d %s", code, body)
		}
	}
	// kubectl comes again when it is told to.
	k := c.Kubectl(t, other)
	for range 2 {
		k.OK(fmt.Sprintf(core, other), "create", "--filename=-")
	}
}
