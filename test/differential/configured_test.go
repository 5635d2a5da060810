// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package differential

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	imagepolicyv1alpha1 "k8s.io/api/imagepolicy/v1alpha1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"gatehouse.dev/cmd/gatehouse/compiled"
	"gatehouse.dev/server"
	"gatehouse.dev/test/backends"
)

// configuration is of the plugins that do something only with one.
const configuration = `apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
- name: EventRateLimit
  configuration:
    apiVersion: eventratelimit.admission.k8s.io/v1alpha1
    kind: Configuration
    limits:
    - {type: Server, qps: 5000, burst: 5000}
    - {type: Namespace, qps: 1, burst: 6, cacheSize: 100}
    - {type: User, qps: 1, burst: 4}
    - {type: SourceAndObject, qps: 1, burst: 2}
- name: ImagePolicyWebhook
  configuration:
    imagePolicy: {kubeConfigFile: KUBECONFIG, allowTTL: -1, denyTTL: -1, retryBackoff: 1, defaultAllow: DEFAULT}
- name: PodNodeSelector
  configuration:
    podNodeSelectorPluginConfig:
      clusterDefaultNodeSelector: zone=usual
      whitelisted: zone=a,disk=ssd
      bound: zone=b
- name: PodTolerationRestriction
  configuration:
    apiVersion: podtolerationrestriction.admission.k8s.io/v1alpha1
    kind: Configuration
    default: [{key: given, operator: Exists, effect: NoSchedule}]
    whitelist:
    - {key: given, operator: Exists}
    - {key: vm, operator: Exists}
    - {key: example.com/gpu, operator: Exists}
    - {key: allowed, operator: Exists}
    - {key: node.kubernetes.io/memory-pressure, operator: Exists}
    - {key: node.kubernetes.io/not-ready, operator: Exists}
    - {key: node.kubernetes.io/unreachable, operator: Exists}
- name: PodSecurity
  configuration:
    apiVersion: pod-security.admission.config.k8s.io/v1
    kind: PodSecurityConfiguration
    defaults: {enforce: baseline, enforce-version: latest, audit: restricted, audit-version: v1.24, warn: restricted}
    exemptions: {usernames: [exempted], runtimeClasses: [vm], namespaces: [free]}
- name: ResourceQuota
  configuration:
    apiVersion: apiserver.config.k8s.io/v1
    kind: ResourceQuotaConfiguration
    limitedResources:
    - {resource: persistentvolumeclaims, matchContains: [.storageclass.storage.k8s.io/requests.storage]}
    - {resource: services, matchContains: [services.loadbalancers]}
    - resource: pods
      matchScopes: [{scopeName: PriorityClass, operator: In, values: [high]}]
`

// startConfiguration returns the configuration, and starts the backend for images that it names.
// The backend lives as long as the test.
func startConfiguration(t *testing.T) string {
	t.Helper()
	images := backends.StartImages(t, http.HandlerFunc(judgeImages))
	// kube-apiserver reads no kubeconfig without a context.
	kubeconfig, err := clientcmd.LoadFromFile(images.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig.CurrentContext = "backend"
	kubeconfig.Contexts["backend"] = &clientcmdapi.Context{Cluster: "backend", AuthInfo: "gatehouse"}
	if err := clientcmd.WriteToFile(*kubeconfig, images.Kubeconfig); err != nil {
		t.Fatal(err)
	}
	return strings.NewReplacer("KUBECONFIG", images.Kubeconfig, "DEFAULT", "false").Replace(configuration)
}

// configuredPlugins are the plugins of the configuration that are off by default.
var configuredPlugins = []string{"EventRateLimit", "ImagePolicyWebhook", "PodNodeSelector",
	"PodTolerationRestriction", "ExtendedResourceToleration"}

// compareConfigured compares webhooks, and plugins that do something only with a configuration.
func compareConfigured(ctx context.Context, t *testing.T, bin, documented string) {
	file := filepath.Join(t.TempDir(), "admission.yaml")
	if err := os.WriteFile(file, []byte(startConfiguration(t)), 0o600); err != nil {
		t.Fatal(err)
	}
	enable := append([]string{"NamespaceAutoProvision"}, configuredPlugins...)
	t.Run("Review", func(t *testing.T) {
		config := server.NewConfig(compiled.Plugins)
		config.Admission.Enable, config.Admission.ConfigFile = enable, file
		compareReview(ctx, t, startPair(ctx, t, bin, enable, "--admission-control-config-file="+file), config, clusterRequests,
			configuredRequests(), nil)
	})
	servers := startPair(ctx, t, bin, enable, "--admission-control-config-file="+file)
	hooks := slices.Concat(answerHooks(), callHooks(), targetHooks())
	servers.compare(ctx, t, documented, slices.Concat(clusterRequests, configuredRequests(), invalidHooks(),
		hookRequests(hooks, startBackend(t, hooks))))
	compareEvents(ctx, t, servers)
}

// judgeImages refuses bad images, and fails for broken ones.
func judgeImages(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil || bytes.Contains(body, []byte(`"broken"`)) {
		http.Error(w, "broken", http.StatusInternalServerError)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	backends.AnswerImages(func(review *imagepolicyv1alpha1.ImageReview) {
		review.Status.Allowed = true
		for _, container := range review.Spec.Containers {
			switch container.Image {
			case "bad":
				review.Status.Allowed = false
			case "worse":
				review.Status.Allowed = false
				review.Status.Reason = fmt.Sprint("no ", container.Image, " in ", review.Spec.Namespace, " by ",
					review.Spec.Annotations)
			}
		}
		review.Status.AuditAnnotations = map[string]string{"images": fmt.Sprint(review.Spec.Containers)}
	}).ServeHTTP(w, r)
}

// compareEvents writes more events than the limits allow. A refused event is allowed a second
// later, so all of a round must be written within one second.
func compareEvents(ctx context.Context, t *testing.T, servers serverPair) {
	t.Helper()
	for round := 0; ; round++ {
		for _, namespace := range []string{"object", "user", "namespace"} {
			space := create(namespaces, fmt.Sprintf("{kind: Namespace, apiVersion: v1, metadata: {name: %s-%d}}",
				namespace, round))
			for _, server := range []testServer{servers.ours, servers.theirs} {
				server.send(ctx, t, space)
			}
		}
		var answers []string
		var slowest time.Duration
		for _, server := range []testServer{servers.ours, servers.theirs} {
			begin, answer := time.Now(), ""
			for i, event := range limitedEvents {
				answer += server.send(ctx, t, event.request(round, i)) + "\n"
			}
			answers, slowest = append(answers, answer), max(slowest, time.Since(begin))
		}
		if slowest > 900*time.Millisecond {
			continue
		}
		// How keys look, and when to try again, docs/differences.md says to be different.
		for i := range answers {
			answers[i] = strings.Join(limitReached.FindAllString(answers[i], -1), "\n")
		}
		if answers[0] != answers[1] || !strings.Contains(answers[0], "type Namespace") {
			t.Errorf("events:\nGatehouse\n%s\nkube-apiserver\n%s", answers[0], answers[1])
		}
		return
	}
}

// limitReached matches the part of an answer that is compared: the status, and the limit.
var limitReached = regexp.MustCompile(`(?m)^\d+ \[\]|Too many requests: limit reached on type \w+`)

// A limitedEvent is an event of a user, in a namespace, about an object.
type limitedEvent struct{ user, namespace, object string }

// limitedEvents exceed each limit except the server's.
var limitedEvents = []limitedEvent{
	{"a", "object", "p"}, {"a", "object", "p"}, {"a", "object", "p"},
	{"b", "user", "p"}, {"b", "user", "q"}, {"b", "user", "r"}, {"b", "user", "s"}, {"b", "user", "t"},
	{"c", "namespace", "p"}, {"c", "namespace", "q"}, {"c", "namespace", "r"}, {"d", "namespace", "p"},
	{"d", "namespace", "q"}, {"d", "namespace", "r"}, {"e", "namespace", "s"}, {"e", "namespace", "t"},
}

func (e limitedEvent) request(round, i int) request {
	namespace := fmt.Sprint(e.namespace, "-", round)
	return create("/api/v1/namespaces/"+namespace+"/events", fmt.Sprintf(`{kind: Event, apiVersion: v1,
metadata: {name: e%d}, source: {component: c}, involvedObject: {kind: Pod, namespace: %s, name: %s}}`, i, namespace,
		e.object)).asUser(fmt.Sprint(e.user, round, " system:masters"))
}
