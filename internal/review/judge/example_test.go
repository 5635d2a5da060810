// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package judge_test

import (
	"context"
	"fmt"
	"log"

	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"

	"gatehouse.dev/apis/decisions/v1alpha1"
	"gatehouse.dev/internal/review/judge"
	"gatehouse.dev/plugins"
	"gatehouse.dev/server"
)

// A policy is tried on a request that was made, beside what the cluster has now.
func ExampleTrial_Judge() {
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

	request := &judge.Request{User: &user.DefaultInfo{Name: "jane"}, Operation: admission.Create, Resource: configMaps,
		Namespace: "shop", Object: []byte(`{"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "c"}}`)}
	trial := &judge.Trial{Candidate: candidate.Judge, Before: baseline.Judge}
	result := trial.Judge(context.Background(), request, v1alpha1.Admitted)
	fmt.Println(result.Effect)
	fmt.Println(result.Candidate.Decision.Message)
	// Output:
	// refused
	// configmaps "c" is forbidden: ValidatingAdmissionPolicy 'team.example.com' with binding 'team.example.com' denied request: label team is missing
}
