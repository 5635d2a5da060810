// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package recorded

import (
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestJudgeAnswer(t *testing.T) {
	const forbidden = `configmaps "a" is forbidden: `
	for name, test := range map[string]struct {
		code                           int32
		message, decision, subresource string
		outcome                        Outcome
		never                          bool
	}{
		"created":            {code: 201, decision: "allow", outcome: Admitted},
		"switched protocols": {code: 101, decision: "allow", subresource: "exec", outcome: Admitted},
		"client gone":        {code: 200, message: "Connection closed early", decision: "allow", outcome: Unknown},
		"no code":            {decision: "allow", outcome: Unknown},
		"webhook": {code: 400, message: `admission webhook "x.example.com" denied the request: no`, decision: "allow",
			outcome: Refused},
		"webhook with a code of its own": {code: 404, message: `admission webhook "x.example.com" denied the request without ` +
			`explanation`, decision: "allow", outcome: Refused},
		"webhook without dry runs": {code: 400, message: `admission webhook "x.example.com" does not support dry run`,
			decision: "allow", outcome: Refused},
		"webhook that can't be called": {code: 500, message: `Internal error occurred: failed calling webhook "x.example.com": ` +
			`failed to call webhook: Post "https://x": dial tcp: connection refused`, decision: "allow", outcome: Failed},
		"policy": {code: 422, message: `deployments.apps "a" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied ` +
			`request: failed expression: false`, decision: "allow", outcome: Refused},
		"policy without a binding": {code: 403, message: forbidden + `ValidatingAdmissionPolicy 'p' denied request: no`,
			decision: "allow", outcome: Refused},
		"mutating policy": {code: 403, message: forbidden + `policy 'p' with binding 'b' denied request: no`, outcome: Refused},
		"any policy":      {code: 422, message: `policy "p" denied request: no`, decision: "allow", outcome: Refused},
		"quota": {code: 403, message: `pods "a" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1`,
			decision: "allow", outcome: Refused},
		"PodSecurity": {code: 403, message: `pods "a" is forbidden: violates PodSecurity "restricted:latest": privileged`,
			decision: "allow", outcome: Refused},
		"terminating namespace": {code: 403, message: forbidden + `unable to create new content in namespace x because it is ` +
			`being terminated`, decision: "allow", outcome: Refused},
		"refused, annotations removed": {code: 403, message: forbidden + `exceeded quota: q`, outcome: Refused},
		"authorization": {code: 403, message: `configmaps is forbidden: User "m" cannot create resource "configmaps" in API group ` +
			`"" in the namespace "default"`, decision: "forbid", never: true},
		"authorization, annotations removed": {code: 403, message: `configmaps is forbidden: User "m" cannot create resource ` +
			`"configmaps" in API group "" in the namespace "default"`, never: true},
		"authorization of creating by apply": {code: 403, message: forbidden + `User "m" cannot create resource "configmaps" in ` +
			`API group "" in the namespace "default"`, decision: "allow", never: true},
		"a webhook that quotes authorization": {code: 403, message: `admission webhook "x" denied the request: User "m" cannot ` +
			`create this`, decision: "allow", outcome: Refused},
		"impersonation": {code: 403, message: `users "x" is forbidden: User "m" cannot impersonate resource "users" in API group ` +
			`"" at the cluster scope`, never: true},
		"escalation": {code: 403, message: `roles.rbac.authorization.k8s.io "r" is forbidden: user "m" (groups=["g"]) is attempting ` +
			`to grant RBAC permissions not currently held:`, decision: "allow", never: true},
		"system priority class": {code: 403, message: `priorityclasses "p" is forbidden: this is a system priority class and cannot ` +
			`be deleted`, decision: "allow", outcome: NoNews},
		"not authenticated": {code: 401, message: "Unauthorized", never: true},
		"not decodable":     {code: 400, message: "the object provided is unrecognized", decision: "allow", never: true},
		"too large":         {code: 413, decision: "allow", never: true},
		"content type":      {code: 415, decision: "allow", never: true},
		"not found":         {code: 404, message: `configmaps "a" not found`, decision: "allow", outcome: NoNews},
		"conflict":          {code: 409, decision: "allow", outcome: NoNews},
		"invalid":           {code: 422, message: `Pod "a" is invalid: spec: Required value`, decision: "allow", outcome: NoNews},
		"disruption budget": {code: 429, message: "Cannot evict pod as it would violate the pod's disruption budget.",
			decision: "allow", subresource: "eviction", outcome: NoNews},
		"disruption budget, annotations removed": {code: 429, subresource: "eviction", outcome: NoNews},
		"too many requests":                      {code: 429, message: "too many requests, please try again later", never: true},
		"server error":                           {code: 500, message: "etcdserver: request timed out", decision: "allow", outcome: NoNews},
	} {
		t.Run(name, func(t *testing.T) {
			outcome, write := judgeAnswer(test.code, test.message, test.decision, test.subresource)
			if outcome != test.outcome || write == test.never {
				t.Errorf("outcome %q, write %t; want %q, %t", outcome, write, test.outcome, !test.never)
			}
		})
	}
}

// Errors that API machinery makes are told apart as their makers mean them.
func TestJudgeErrors(t *testing.T) {
	resource := schema.GroupResource{Resource: "configmaps"}
	for want, errs := range map[Outcome][]error{
		Refused: {apierrors.NewForbidden(resource, "a", errors.New("no"))},
		NoNews: {apierrors.NewNotFound(resource, "a"), apierrors.NewConflict(resource, "a", errors.New("changed")),
			apierrors.NewAlreadyExists(resource, "a"), apierrors.NewInvalid(schema.GroupKind{Kind: "ConfigMap"}, "a", nil),
			apierrors.NewTooManyRequests("later", 1), apierrors.NewInternalError(errors.New("etcd")),
			apierrors.NewTimeoutError("late", 1), apierrors.NewGone("gone")},
	} {
		for _, err := range errs {
			var status apierrors.APIStatus
			if !errors.As(err, &status) {
				t.Fatal(err)
			}
			s := status.Status()
			if got, write := judgeAnswer(s.Code, s.Message, "allow", ""); got != want || !write {
				t.Errorf("%v: outcome %q, write %t; want %q", err, got, write, want)
			}
		}
	}
	s := apierrors.NewBadRequest("no").Status()
	if _, write := judgeAnswer(s.Code, s.Message, "allow", ""); write || s.Status != metav1.StatusFailure {
		t.Error("a bad request is a write")
	}
}
