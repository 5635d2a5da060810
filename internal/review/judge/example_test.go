package judge_test

import (
	"context"
	"fmt"
	"log"

	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"

	"gatehouse.dev/internal/review/judge"
	"gatehouse.dev/plugins"
	"gatehouse.dev/server"
)

// A policy is tried on a request that was made, beside what the cluster has now.
func ExampleTrial_Run() {
	const now = "{kind: Namespace, apiVersion: v1, metadata: {name: shop}}"
	const policy = `{kind: ValidatingAdmissionPolicy, apiVersion: admissionregistration.k8s.io/v1,
metadata: {name: team.example.com}, spec: {matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1],
resources: [configmaps], operations: [CREATE]}]}, validations: [{expression: "has(object.metadata.labels)",
message: label team is missing}]}}
---
{kind: ValidatingAdmissionPolicyBinding, apiVersion: admissionregistration.k8s.io/v1, metadata: {name: team.example.com},
spec: {policyName: team.example.com, validationActions: [Deny]}}`
	baseline, err := start(server.NewConfig(plugins.List), now, "")
	if err != nil {
		log.Fatal(err)
	}
	defer baseline.Close()
	candidate, err := start(server.NewConfig(plugins.List), now, policy)
	if err != nil {
		log.Fatal(err)
	}
	defer candidate.Close()

	requests := func(yield func(*judge.Request, error) bool) {
		yield(&judge.Request{User: &user.DefaultInfo{Name: "jane"}, Operation: admission.Create, Resource: configMaps,
			Namespace: "shop", Object: []byte(`{"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "c"}}`)}, nil)
	}
	trial := &judge.Trial{Candidate: candidate.Judge, Baseline: baseline.Judge}
	summary, err := trial.Run(context.Background(), requests, func(r *judge.Result) error {
		fmt.Println(r.Candidate.Decision.Verdict, "and not", r.Baseline.Decision.Verdict)
		fmt.Println(r.Candidate.Decision.Message)
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("newly refused:", summary.NewlyRefused, "of", summary.Requests)
	// Output:
	// Refused and not Admitted
	// configmaps "c" is forbidden: ValidatingAdmissionPolicy 'team.example.com' with binding 'team.example.com' denied request: label team is missing
	// newly refused: 1 of 1
}
