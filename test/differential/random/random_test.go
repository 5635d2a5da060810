// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package random

import (
	"context"
	"encoding/base64"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gatehouse.dev/internal/webhooktest"
	"gatehouse.dev/review"
	"gatehouse.dev/test/differential/pair"
	"gatehouse.dev/test/peers"
)

var (
	duration = flag.Duration("random.duration", 0, "how long to send new requests; 0 sends the first rounds of the seed")
	seed     = flag.Uint64("random.seed", 1, "the seed of the first requests; 0 chooses one")
	only     = flag.Int("random.round", -1, "send only this round of the seed")
)

const (
	// firstRounds is how many rounds are sent without a duration: the same ones on every machine.
	firstRounds = 25
	// roundRequests is how many requests a round has besides its configuration.
	roundRequests = 150
	// epoch is how long a pair of servers lives. Then the next seed starts another pair, with other
	// plugins.
	epoch = 10 * time.Minute
	// shrinkRuns bounds how often the requests of a finding are sent again.
	shrinkRuns = 150
	// maxUnrepeated is the number of rounds of which one may have a difference that isn't there again.
	maxUnrepeated = 50
	// maxFindings ends the test, so that its output can be read.
	maxFindings = 20
)

// TestRandom compares the answers to random requests: to the first rounds of a seed, or for -random.duration.
func TestRandom(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), *duration+20*time.Minute)
	defer cancel()
	bin := pair.Programs(ctx, t, peers.Servers...)
	documented := pair.Words(t, "../../../docs/differences.md")
	for _, d := range differences {
		if !strings.Contains(documented, d.words) {
			t.Errorf("docs/differences.md doesn't say: %s", d.words)
		}
	}
	first := *seed
	if first == 0 {
		first = rand.Uint64N(1_000_000) + 1
	}
	seen := map[string]bool{}
	if *duration == 0 || *only >= 0 {
		t.Run(fmt.Sprint("Seed", first), func(t *testing.T) { compareSeed(ctx, t, bin, first, time.Time{}, seen) })
		return
	}
	for deadline := time.Now().Add(*duration); time.Now().Before(deadline) && len(seen) < maxFindings; first++ {
		end := time.Now().Add(epoch)
		if deadline.Before(end) {
			end = deadline
		}
		t.Run(fmt.Sprint("Seed", first), func(t *testing.T) { compareSeed(ctx, t, bin, first, end, seen) })
	}
}

// compareSeed starts the servers with the seed's plugins, and sends the seed's rounds until end, or the first
// ones if end is zero. seen has the findings of all seeds.
func compareSeed(ctx context.Context, t *testing.T, bin string, seed uint64, end time.Time, seen map[string]bool) {
	s := startServers(ctx, t, bin, rand.New(rand.NewPCG(seed, 0)))
	resources, err := readWidgets(ctx, s)
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	rounds := 0
	more := func() bool {
		switch {
		case len(seen) >= maxFindings:
			return false
		case end.IsZero():
			return rounds < firstRounds
		}
		return time.Now().Before(end)
	}
	for round := max(0, *only); more(); round++ {
		rounds++
		requests := generate(rand.New(rand.NewPCG(seed, uint64(round)+1)), resources, roundRequests)
		finding, err := s.Run(ctx, requests)
		if err != nil {
			t.Fatalf("seed %d, round %d: %v", seed, round, err)
		}
		if finding != nil {
			report(ctx, t, s, fmt.Sprintf("-random.seed=%d -random.round=%d", seed, round), requests[:finding.Index+1], finding, seen)
		}
		if *only >= 0 {
			break
		}
	}
	if s.unrepeated > 1+rounds/maxUnrepeated {
		t.Errorf("in %d of %d rounds there was a difference that wasn't there again", s.unrepeated, rounds)
	}
	t.Logf("%d requests in %d rounds and %v, of %d resources. Differences that are documented: %v", s.Sent, rounds,
		time.Since(start).Round(time.Second), len(resources), s.documented)
}

// report repeats a finding, shrinks it, and fails with it.
func report(ctx context.Context, t *testing.T, s *Servers, flags string, requests []Request, f *Finding, seen map[string]bool) {
	defer func(sent int) { s.Sent = sent }(s.Sent)
	again := func(requests []Request) *Finding {
		g, err := s.Run(ctx, requests)
		if err != nil {
			t.Fatalf("repeating %s: %v", flags, err)
		}
		if g == nil || g.Index != len(requests)-1 || g.Parts != f.Parts || g.Ours.Status != f.Ours.Status ||
			g.Theirs.Status != f.Theirs.Status {
			return nil
		}
		return g
	}
	if again(requests) == nil {
		// Which of several failures an answer tells may be a matter of chance.
		s.unrepeated++
		say := t.Logf
		if failed(f.Ours) && !failed(f.Theirs) {
			say = t.Errorf
		}
		say("%s: a difference that isn't there again: %s\nGatehouse\n%s\nkube-apiserver\n%s", flags,
			requests[f.Index], f.Ours, f.Theirs)
		return
	}
	requests = shrink(requests, shrinkRuns, func(fewer []Request) bool { return again(fewer) != nil })
	if g := again(requests); g != nil {
		f = g
	}
	table := ""
	for _, r := range requests {
		table += r.tableCase()
	}
	key := fmt.Sprint(f.Parts, f.Ours.Status, f.Theirs.Status, requests[len(requests)-1].path(), f.Ours.message())
	if !seen[key] {
		seen[key] = true
		t.Errorf("%s: the answers differ in: %s\n%s\nGatehouse\n%s\nkube-apiserver\n%s", flags, f.Parts, table, f.Ours, f.Theirs)
	}
}

// startServers starts both servers with some of the optional plugins, and the webhooks' backend.
func startServers(ctx context.Context, t *testing.T, bin string, rnd *rand.Rand) *Servers {
	t.Helper()
	var enable []string
	for _, plugin := range pair.OptionalPlugins {
		if rnd.IntN(3) > 0 {
			enable = append(enable, plugin)
		}
	}
	hooks := webhooktest.New(t, http.HandlerFunc(answerReview))
	text := pluginConfiguration(rnd, enable)
	if rnd.IntN(4) == 0 {
		enable = append(enable, imagePolicy)
		text += imagePolicyConfiguration(t, rnd, hooks)
	}
	file := filepath.Join(t.TempDir(), "admission.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	flags := []string{"--admission-control-config-file=" + file}
	if rnd.IntN(3) == 0 {
		flags = append(flags, "--emulated-version="+pick(rnd, review.KubernetesVersions()[:3]...))
	}
	t.Logf("with the plugins %s, and %s", strings.Join(enable, ", "), strings.Join(flags, " "))
	ours, theirs := pair.Start(ctx, t, bin, enable, flags...)
	return &Servers{ours: ours, theirs: theirs, documented: map[string]int{},
		backend: backend{hooks.URL(""), base64.StdEncoding.EncodeToString(hooks.Authority.PEM())}}
}

// pluginConfiguration returns a configuration of plugins.
func pluginConfiguration(rnd *rand.Rand, enable []string) string {
	text := "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n"
	text += "- name: PodSecurity\n  configuration: {apiVersion: pod-security.admission.config.k8s.io/v1, " +
		"kind: PodSecurityConfiguration, defaults: {enforce: " + pick(rnd, "privileged", "privileged", "baseline") +
		", audit: " + pick(rnd, "restricted", "baseline") + ", warn: " + pick(rnd, "restricted", "privileged") + "}}\n"
	text += "- name: ResourceQuota\n  configuration: {apiVersion: apiserver.config.k8s.io/v1, kind: ResourceQuotaConfiguration" +
		pick(rnd, "", ", limitedResources: [{resource: services, matchContains: [services.loadbalancers]}]") + "}\n"
	if slices.Contains(enable, "PodNodeSelector") {
		text += "- name: PodNodeSelector\n  configuration: {podNodeSelectorPluginConfig: {clusterDefaultNodeSelector: " +
			pick(rnd, `"zone=usual"`, `""`) + "}}\n"
	}
	if slices.Contains(enable, "PodTolerationRestriction") {
		text += "- name: PodTolerationRestriction\n  configuration: {apiVersion: podtolerationrestriction.admission.k8s.io/v1alpha1, " +
			"kind: Configuration, default: [" + pick(rnd, "", "{key: given, operator: Exists, effect: NoSchedule}") + "]}\n"
	}
	return text
}

// imagePolicy asks a backend about the images of pods.
const imagePolicy = "ImagePolicyWebhook"

// imagePolicyConfiguration returns the part of the configuration that has the backend's kubeconfig. No
// answer is kept, so that both servers ask about each pod.
func imagePolicyConfiguration(t *testing.T, rnd *rand.Rand, hooks *webhooktest.Server) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "images.kubeconfig")
	if err := os.WriteFile(file, fmt.Appendf(nil, `{apiVersion: v1, kind: Config, current-context: c,
clusters: [{name: c, cluster: {server: %q, certificate-authority-data: %s}}], users: [{name: u, user: {}}],
contexts: [{name: c, context: {cluster: c, user: u}}]}`, hooks.URL("/"+pick(rnd, "images", "images", "fail")),
		base64.StdEncoding.EncodeToString(hooks.Authority.PEM())), 0o600); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("- name: %s\n  configuration: {imagePolicy: {kubeConfigFile: %s, allowTTL: -1, denyTTL: -1, "+
		"retryBackoff: 1, defaultAllow: %t}}\n", imagePolicy, file, rnd.IntN(2) == 0)
}

// widgetDefinition is the custom resource of which the rounds write objects.
const widgetDefinition = `{kind: CustomResourceDefinition, apiVersion: apiextensions.k8s.io/v1, metadata: {name: widgets.example.com},
spec: {group: example.com, scope: Namespaced, names: {plural: widgets, kind: Widget}, versions: [{name: v1, served: true,
storage: true, subresources: {status: {}, scale: {specReplicasPath: .spec.size, statusReplicasPath: .status.size}},
schema: {openAPIV3Schema: {type: object, required: [spec], properties: {status: {type: object, properties: {size: {type: integer}}},
spec: {type: object, required: [size], x-kubernetes-validations: [{rule: "self.size < 9 || self.mode != 'fast'", message: too large}],
properties: {size: {type: integer, minimum: 1}, mode: {type: string, enum: [fast, slow], default: slow},
names: {type: array, maxItems: 5, x-kubernetes-list-type: set, items: {type: string, maxLength: 8}},
limit: {x-kubernetes-int-or-string: true}, more: {type: object, x-kubernetes-preserve-unknown-fields: true}}}}}}}]}}`

// readWidgets makes the custom resource, and returns all resources when both servers serve it and
// kube-apiserver publishes its schema.
func readWidgets(ctx context.Context, s *Servers) ([]*resource, error) {
	definition := configure("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", widgetDefinition)
	if _, theirs, err := s.ask(ctx, "default", "widgets", definition); err != nil || theirs.Status != http.StatusCreated {
		return nil, fmt.Errorf("creating the custom resource: %s %w", theirs, err)
	}
	widget := configure("/apis/example.com/v1/namespaces/default/widgets?dryRun=All",
		"{kind: Widget, apiVersion: example.com/v1, metadata: {name: a}, spec: {size: 1}}")
	for deadline := time.Now().Add(settleTimeout); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		ours, theirs, err := s.ask(ctx, "default", "widgets", widget)
		if err != nil {
			return nil, err
		}
		if ours.Status != http.StatusCreated || theirs.Status != http.StatusCreated {
			continue
		}
		resources, err := readResources(ctx, s.theirs)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(resources, func(r *resource) bool { return r.name() == "widgets" }) {
			return resources, nil
		}
	}
	return nil, errors.New("the custom resource is never served")
}
