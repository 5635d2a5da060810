// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package random

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"gatehouse.dev/test/differential/pair"
)

// Servers are the two servers, with the backend that their webhooks call.
type Servers struct {
	ours, theirs pair.Server
	backend      backend
	runs         int
	audited      [2]int64 // how much of the audit logs is read
	// Sent counts the requests, without those of rounds that are repeated.
	Sent int
	// unrepeated counts the differences that weren't there again.
	unrepeated int
	// documented counts the differences that docs/differences.md has, by its words.
	documented map[string]int
}

// A Finding is a request of a round that the servers answer differently, and no document says so.
type Finding struct {
	// Index is the request's, in the round.
	Index        int
	Parts        string
	Ours, Theirs Answer
}

// settleTimeout is far more than the servers' caches need.
const settleTimeout = 30 * time.Second

// Run sends the requests of a round to both servers, in a new namespace. It returns the first
// finding, or nil. After a difference that is documented the servers may hold different objects: if
// one of them refused, the round ends there.
func (s *Servers) Run(ctx context.Context, requests []Request) (*Finding, error) {
	s.runs++
	namespace := fmt.Sprint("r0und-", s.runs)
	defer s.clean(ctx, namespace, requests)
	answers := make([][2]Answer, 0, len(requests))
	settled := true
	for i, r := range requests {
		if !r.Configures && !settled {
			if err := s.settle(ctx, namespace, requests); err != nil {
				return nil, err
			}
		}
		settled = !r.Configures
		ours, theirs, err := s.ask(ctx, namespace, fmt.Sprint(namespace, "-", i), r)
		if err != nil {
			return nil, err
		}
		answers = append(answers, [2]Answer{ours, theirs})
		if different := parts(ours, theirs); different != "" {
			words := explain(asked{r, requests, answers[:i]}, ours, theirs)
			if words == "" {
				return &Finding{i, different, ours, theirs}, nil
			}
			s.documented[words]++
			if (ours.Status < 300) != (theirs.Status < 300) {
				break
			}
		}
	}
	return s.compareAudit(ctx, namespace, requests, answers)
}

// ask sends a request to one server after the other.
func (s *Servers) ask(ctx context.Context, namespace, id string, r Request) (ours, theirs Answer, err error) {
	s.Sent++
	if ours, err = send(ctx, s.ours, s.backend, namespace, id, r); err != nil {
		return ours, theirs, fmt.Errorf("Gatehouse: %w", err)
	}
	if theirs, err = send(ctx, s.theirs, s.backend, namespace, id, r); err != nil {
		return ours, theirs, fmt.Errorf("kube-apiserver: %w", err)
	}
	return ours, theirs, nil
}

// A marker is configuration that is written last, and what an answer has when it is in force. Caches
// show objects in the order in which they were written.
type marker struct {
	collection, object, shown string
}

var (
	webhookMarker = marker{"validatingwebhookconfigurations", fmt.Sprintf(`{kind: ValidatingWebhookConfiguration,
apiVersion: admissionregistration.k8s.io/v1, metadata: {name: settled-r0und}, webhooks: [{name: a.settled-r0und.example.com,
sideEffects: None, admissionReviewVersions: [v1], clientConfig: {url: "%s/settled", caBundle: %s},
objectSelector: {matchLabels: {settled: r0und}},
rules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [configmaps]}]}]}`, backendToken, authorityToken),
		"webhook settled"}
	mutatingWebhookMarker = marker{"mutatingwebhookconfigurations", fmt.Sprintf(`{kind: MutatingWebhookConfiguration,
apiVersion: admissionregistration.k8s.io/v1, metadata: {name: settled-r0und}, webhooks: [{name: a.settled-r0und.example.com,
sideEffects: None, admissionReviewVersions: [v1], clientConfig: {url: "%s/mutating-settled", caBundle: %s},
objectSelector: {matchLabels: {settled: r0und}},
rules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [configmaps]}]}]}`, backendToken, authorityToken),
		"webhook mutating-settled"}
	policyMarker = marker{"validatingadmissionpolicies", `{kind: ValidatingAdmissionPolicy,
apiVersion: admissionregistration.k8s.io/v1, metadata: {name: settled-r0und}, spec: {matchConstraints: {resourceRules: [
{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [configmaps], resourceNames: [settled-r0und]}]},
validations: [{expression: "false", message: policy settled}]}}`, "policy settled"}
	bindingMarker = marker{"validatingadmissionpolicybindings", `{kind: ValidatingAdmissionPolicyBinding,
apiVersion: admissionregistration.k8s.io/v1, metadata: {name: settled-r0und},
spec: {policyName: settled-r0und, validationActions: [Warn]}}`, "policy settled"}
	mutatingMarker = marker{"mutatingadmissionpolicies", `{kind: MutatingAdmissionPolicy,
apiVersion: admissionregistration.k8s.io/v1, metadata: {name: settled-r0und}, spec: {reinvocationPolicy: Never,
matchConstraints: {resourceRules: [
{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [configmaps], resourceNames: [settled-r0und]}]},
mutations: [{patchType: JSONPatch, jsonPatch: {
expression: "[JSONPatch{op: 'add', path: '/metadata/annotations', value: {'mutation': 'settled'}}]"}}]}}`, `"mutation": "settled"`}
	mutatingBindingMarker = marker{"mutatingadmissionpolicybindings", `{kind: MutatingAdmissionPolicyBinding,
apiVersion: admissionregistration.k8s.io/v1, metadata: {name: settled-r0und}, spec: {policyName: settled-r0und}}`,
		`"mutation": "settled"`}
)

// allMarkers are what settle may write.
var allMarkers = []marker{webhookMarker, mutatingWebhookMarker, policyMarker, bindingMarker, mutatingMarker, mutatingBindingMarker}

// settle waits until both servers have seen the configuration of a round. kube-apiserver reads
// policies once a second, so it is only asked for them if there are some. A version that doesn't serve
// mutating policies has none.
func (s *Servers) settle(ctx context.Context, namespace string, requests []Request) error {
	markers := []marker{webhookMarker}
	configures := func(collection string) bool {
		return slices.ContainsFunc(requests, func(r Request) bool { return r.Configures && strings.HasSuffix(r.Path, collection) })
	}
	if configures(mutatingWebhookMarker.collection) {
		markers = append(markers, mutatingWebhookMarker)
	}
	if configures(policyMarker.collection) {
		markers = append(markers, policyMarker, bindingMarker)
	}
	if configures(mutatingMarker.collection) {
		markers = append(markers, mutatingMarker, mutatingBindingMarker)
	}
	probe := configure("/api/v1/namespaces/default/configmaps?dryRun=All",
		"{kind: ConfigMap, apiVersion: v1, metadata: {name: settled-r0und, labels: {settled: r0und}}}")
	deadline := time.Now().Add(settleTimeout)
	for _, server := range []pair.Server{s.ours, s.theirs} {
		var wanted []string
		for _, m := range markers {
			r := configure(registration+m.collection, m.object)
			answer, err := send(ctx, server, s.backend, namespace, "settle", r)
			if err != nil {
				return fmt.Errorf("settling: %w", err)
			}
			switch {
			case answer.Status == http.StatusCreated || answer.Status == http.StatusConflict:
				wanted = append(wanted, m.shown)
			case answer.Status != http.StatusNotFound || !strings.HasPrefix(m.collection, "mutatingadmission"):
				return fmt.Errorf("settling: %s: %s", r, answer)
			}
		}
		missing := true
		for missing {
			answer, err := send(ctx, server, s.backend, namespace, "settle", probe)
			if err != nil {
				return fmt.Errorf("settling: %w", err)
			}
			shown := answer.String()
			missing = slices.ContainsFunc(wanted, func(text string) bool { return !strings.Contains(shown, text) })
			if time.Now().After(deadline) {
				return fmt.Errorf("the configuration is never in force: %s: %s", probe, answer)
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	return nil
}

// compareAudit waits until both audit logs have the round's last request, and compares their
// annotations.
func (s *Servers) compareAudit(ctx context.Context, namespace string, requests []Request, answers [][2]Answer) (*Finding, error) {
	if len(answers) == 0 {
		return nil, nil
	}
	logs := [2]map[string]string{{}, {}}
	last := fmt.Sprint(namespace, "-", len(answers)-1)
	deadline := time.Now().Add(settleTimeout)
	for i, server := range []pair.Server{s.ours, s.theirs} {
		for logs[i][last] == "" {
			more, offset, err := pair.ReadAudit(server.AuditLog, s.audited[i])
			if err != nil {
				return nil, err
			}
			s.audited[i] = offset
			maps.Copy(logs[i], more)
			if len(more) == 0 {
				time.Sleep(5 * time.Millisecond)
			}
			if time.Now().After(deadline) {
				return nil, fmt.Errorf("the audit log %s never has %s", server.AuditLog, last)
			}
		}
	}
	for i, answer := range answers {
		id := fmt.Sprint(namespace, "-", i)
		ours, theirs := answer[0], answer[1]
		if parts(ours, theirs) != "" {
			continue // documented, and its annotations with it
		}
		ours.Audit = generatedPattern.ReplaceAllString(logs[0][id], "generated…")
		theirs.Audit = generatedPattern.ReplaceAllString(logs[1][id], "generated…")
		if ours.Audit == theirs.Audit {
			continue
		}
		if words := explain(asked{requests[i], requests, answers[:i]}, ours, theirs); words != "" {
			s.documented[words]++
			continue
		}
		return &Finding{i, parts(ours, theirs), ours, theirs}, nil
	}
	return nil, nil
}

// clean deletes what the round has made outside of its namespace. What it can't delete stays, under
// names of its own.
func (s *Servers) clean(ctx context.Context, namespace string, requests []Request) {
	paths := map[string]bool{}
	for _, r := range requests {
		if r.Verb != http.MethodPost || strings.Contains(r.Path, "/namespaces/") || strings.Contains(r.Path, "dryRun=All") {
			continue
		}
		if name, ok := field(r.Body, "metadata", "name").(string); ok {
			paths[r.path()+"/"+name] = true
		}
	}
	delete(paths, "/api/v1/namespaces/"+namespaceToken) // no controller empties it
	for _, m := range allMarkers {
		paths[registration+m.collection+"/settled-"+namespaceToken] = true
	}
	for path := range paths {
		for _, server := range []pair.Server{s.ours, s.theirs} {
			_, _ = send(ctx, server, s.backend, namespace, "clean", Request{Verb: http.MethodDelete, Path: path})
		}
	}
}
