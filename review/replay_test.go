// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package review_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"strings"
	"testing"

	"gatehouse.dev/plugins"
	"gatehouse.dev/review"
	"gatehouse.dev/server"
)

// recordedEvent returns a line of an audit log: jane creates a ConfigMap.
func recordedEvent(id, metadata string) string {
	return fmt.Sprintf(`{"kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": "Request", "auditID": %q,
"stage": "ResponseComplete", "verb": "create", "requestURI": "/api/v1/namespaces/shop/configmaps", "user": {"username": "jane"}, "userAgent": "kubectl",
"objectRef": {"resource": "configmaps", "namespace": "shop", "name": "prices", "apiVersion": "v1"}, "responseStatus": {"code": 201},
"requestObject": {"kind": "ConfigMap", "apiVersion": "v1", "metadata": %s},
"requestReceivedTimestamp": "2026-11-02T10:00:00.000000Z", "stageTimestamp": "2026-11-02T10:00:01.000000Z"}`, id, metadata)
}

const needsTeam = `{kind: ValidatingAdmissionPolicy, apiVersion: admissionregistration.k8s.io/v1, metadata: {name: team},
spec: {matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], resources: [configmaps], operations: [CREATE]}]},
validations: [{expression: "'team' in object.metadata.?labels.orValue({})", message: label team is missing}]}}
---
{kind: ValidatingAdmissionPolicyBinding, apiVersion: admissionregistration.k8s.io/v1, metadata: {name: team},
spec: {policyName: team, validationActions: [Deny]}}`

// policyServer returns the configuration of a server with the plugins of policies alone.
func policyServer() *server.Config {
	config := server.NewConfig(plugins.List)
	config.Admission.Only = review.PolicyPlugins(plugins.List)
	return config
}

// A trial tells whom a new policy would have refused, by an audit log.
func ExampleStartTrial() {
	candidate, errs := review.Read([]string{"-"}, strings.NewReader(needsTeam))
	if len(errs) > 0 {
		log.Fatal(errs)
	}
	ctx := context.Background()
	trial, err := review.StartTrial(ctx, review.TrialOptions{
		Options:   review.Options{Config: policyServer()},
		Candidate: candidate,
		Before:    policyServer(),
	})
	if err != nil {
		log.Fatal(err)
	}
	defer trial.Close()
	report, err := trial.Replay(ctx, review.ReplayOptions{
		Records: []string{"-"},
		Stdin:   strings.NewReader(oneLine(recordedEvent("1", `{"name": "prices"}`))),
	})
	if err != nil {
		log.Fatal(err)
	}
	defer report.Close()
	fmt.Println(report.Summary().Refused, "of", report.Summary().Writes)
	if err := report.Write(os.Stdout, ""); err != nil {
		log.Fatal(err)
	}
	// Output:
	// 1 of 1
	// of 1 write between 2026-11-02 10:00:00 and 2026-11-02 10:00:00 UTC, 1 judged (100.0 %): 1 would have been refused that was not, 0 would have been admitted that were refused
	//
	// refused   1 write by team (ValidatingAdmissionPolicy, binding team)
	//           violated: 'team' in object.metadata.?labels.orValue({})
	//           message: label team is missing
	//           to pass: Change the object so that the policy's expression holds, or have its binding leave this object out.
	//        1  jane  namespace shop  kubectl  2026-11-02 10:00:00
	//             for example CREATE ConfigMap shop/prices at -:1
	//
	// note: namespaces that the state doesn't have, taken to be there without labels: shop
}

// oneLine returns an event as a line.
func oneLine(event string) string { return strings.ReplaceAll(event, "\n", " ") + "\n" }

// endless gives events without an end.
type endless struct {
	n    int
	rest string
}

func (e *endless) Read(p []byte) (int, error) {
	if e.rest == "" {
		e.n++
		e.rest = oneLine(recordedEvent(fmt.Sprint(e.n), `{"name": "prices"}`))
	}
	n := copy(p, e.rest)
	e.rest = e.rest[n:]
	return n, nil
}

var _ io.Reader = &endless{}

// A replay that is interrupted returns a report that says that it is partial, and the cause.
func TestReplayIsInterrupted(t *testing.T) {
	candidate, errs := review.Read([]string{"-"}, strings.NewReader(needsTeam))
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	trial, err := review.StartTrial(t.Context(), review.TrialOptions{Options: review.Options{Config: policyServer()},
		Candidate: candidate})
	if err != nil {
		t.Fatal(err)
	}
	defer trial.Close()
	ctx, cancel := context.WithCancel(t.Context())
	report, err := trial.Replay(ctx, review.ReplayOptions{Records: []string{"-"}, Stdin: &endless{},
		Progress: func(int64, int64) { cancel() }})
	if !errors.Is(err, context.Canceled) || report == nil {
		t.Fatalf("%v, %v", report, err)
	}
	defer report.Close()
	if s := report.Summary(); !s.Interrupted || s.Refused == 0 || s.Refused != s.Judged || report.ExitCode() != review.ExitFailed {
		t.Errorf("it ends with %d: %+v", report.ExitCode(), s)
	}
	var text strings.Builder
	if err := report.Write(&text, ""); err != nil || !strings.Contains(text.String(), "interrupted") {
		t.Errorf("%v\n%s", err, &text)
	}
}

// A request about a resource on which the candidate can't act ends as it did, even if the log hasn't its object. One on
// which it can isn't judged without it.
func TestReplayOfOtherResources(t *testing.T) {
	withoutObject := strings.Replace(recordedEvent("1", `{"name": "web"}`), `"requestObject"`, `"ignored"`, 1)
	withoutObject = strings.ReplaceAll(withoutObject, "configmaps", "pods")
	for _, test := range []struct {
		name, resources, operations string
		beyond                      bool
	}{
		{"its resource", "[pods]", "[CREATE]", false},
		{"another resource", "[secrets]", "[CREATE]", true},
		{"a subresource", "[pods/status]", "[UPDATE]", true},
		{"it and its subresources", "['pods/*']", "[CREATE]", false},
		{"another operation", "[pods]", "[UPDATE, DELETE]", true},
		{"all operations", "[pods]", "['*']", false},
		{"all resources", "['*']", "[CREATE]", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			policy := strings.NewReplacer("[configmaps]", test.resources, "[CREATE]", test.operations).Replace(needsTeam)
			candidate, errs := review.Read([]string{"-"}, strings.NewReader(policy))
			if len(errs) > 0 {
				t.Fatal(errs)
			}
			trial, err := review.StartTrial(t.Context(), review.TrialOptions{Options: review.Options{Config: policyServer()},
				Candidate: candidate, Before: policyServer()})
			if err != nil {
				t.Fatal(err)
			}
			defer trial.Close()
			report, err := trial.Replay(t.Context(), review.ReplayOptions{Records: []string{"-"},
				Stdin: strings.NewReader(oneLine(withoutObject))})
			if err != nil {
				t.Fatal(err)
			}
			defer report.Close()
			writes, beyond := 1, 0
			if test.beyond {
				writes, beyond = 0, 1
			}
			if s := report.Summary(); s.Writes != writes || s.Beyond != beyond || s.Judged != 0 || s.Refused != 0 {
				t.Errorf("%+v", s)
			}
		})
	}
}
