// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package expression

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// An authorizer receives the attributes of the check, and its answer becomes a value of CEL.
//
// Source: k8s.io/apiserver/pkg/cel/library/authz.go, and the authorizer cases of TestCondition in
// k8s.io/apiserver/pkg/admission/plugin/cel/condition_test.go.
func TestAuthorizer(t *testing.T) {
	// podsOf is what the variable authorizer.requestResource asks for a pod of version v1, all but
	// the verb.
	own := authorizer.AttributesRecord{
		User: alice, ResourceRequest: true, APIGroup: "g", APIVersion: "*", Resource: "oldthings",
		Subresource: "oldsub", Namespace: "shop", Name: "web",
	}
	for _, test := range []struct {
		expression string
		want       authorizer.AttributesRecord
	}{
		{
			"authorizer.path('/healthz').check('get').allowed()",
			authorizer.AttributesRecord{User: alice, Path: "/healthz", Verb: "get"},
		},
		{
			"authorizer.group('apps').resource('deployments').check('create').allowed()",
			authorizer.AttributesRecord{User: alice, ResourceRequest: true, APIGroup: "apps", APIVersion: "*",
				Resource: "deployments", Verb: "create"},
		},
		{
			"authorizer.group('').resource('pods').subresource('status').namespace('n').name('p')" +
				".check('update').allowed()",
			authorizer.AttributesRecord{
				User: alice, ResourceRequest: true, APIVersion: "*", Resource: "pods", Subresource: "status",
				Namespace: "n", Name: "p", Verb: "update",
			},
		},
		{
			"authorizer.requestResource.check('approve').allowed()",
			with(own, func(a *authorizer.AttributesRecord) { a.Verb = "approve" }),
		},
		{
			"authorizer.requestResource.namespace('other').name('').subresource('scale').check('get').allowed()",
			with(own, func(a *authorizer.AttributesRecord) {
				a.Namespace, a.Name, a.Subresource, a.Verb = "other", "", "scale", "get"
			}),
		},
	} {
		t.Run(test.expression, func(t *testing.T) {
			var asked []authorizer.Attributes
			record := authorizer.AuthorizerFunc(func(_ context.Context, a authorizer.Attributes) (authorizer.Decision,
				string, error) {
				asked = append(asked, a)
				return authorizer.DecisionAllow, "", nil
			})
			verdict := conditions(test.expression).Match(t.Context(),
				NewVariables(contentOf(pod()), nil, request, alice, record))
			if !verdict.Matches {
				t.Fatalf("%+v", verdict)
			}
			if len(asked) != 1 || !same(asked[0], test.want) {
				t.Errorf("asked %+v, want %+v", asked, test.want)
			}
		})
	}
}

func TestAuthorizerSelectorsAndServiceAccount(t *testing.T) {
	check := authorizer.AuthorizerFunc(func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string,
		error) {
		fields, fieldErr := a.GetFieldSelector()
		labels, labelErr := a.GetLabelSelector()
		switch {
		case len(fields) == 1 && fields[0].Field == "spec.nodeName" && fields[0].Value == "n", len(labels) == 1 &&
			labels[0].Key() == "app":
			return authorizer.DecisionAllow, "", nil
		case fieldErr != nil || labelErr != nil:
			return authorizer.DecisionDeny, "selector", nil
		case a.GetUser().GetName() == "system:serviceaccount:ns:robot":
			return authorizer.DecisionAllow, "for " + a.GetUser().GetGroups()[0], nil
		}
		return authorizer.DecisionNoOpinion, "", errors.New("authorizer is down")
	})
	for expression, want := range map[string]bool{
		"authorizer.group('').resource('pods').fieldSelector('spec.nodeName=n').check('list').allowed()":    true,
		"authorizer.group('').resource('pods').labelSelector('app=x').check('list').allowed()":              true,
		"authorizer.group('').resource('pods').labelSelector('a b c').check('list').allowed()":              false,
		"authorizer.group('').resource('pods').labelSelector('a b c').check('list').reason() == 'selector'": true,
		"authorizer.serviceAccount('ns', 'robot').group('').resource('pods').check('get').allowed()":        true,
		"authorizer.serviceAccount('ns', " +
			"'robot').group('').resource('pods').check('get').reason() == 'for system:serviceaccounts'": true,
		"authorizer.group('').resource('pods').check('get').allowed()":                       false,
		"authorizer.group('').resource('pods').check('get').errored()":                       true,
		"authorizer.group('').resource('pods').check('get').error() == 'authorizer is down'": true,
		"authorizer.requestResource.check('get').errored() && !authorizer.serviceAccount('ns', " +
			"'robot').path('/healthz').check('get').errored()": true,
	} {
		verdict := conditions(expression).Match(t.Context(), NewVariables(contentOf(pod()), nil, request, alice, check))
		if verdict.Matches != want || verdict.Err != nil {
			t.Errorf("%s: %+v", expression, verdict)
		}
	}
}

// A request to the version that the webhook matched, and one that says nothing of another.
func TestRequestResource(t *testing.T) {
	var asked authorizer.Attributes
	record := authorizer.AuthorizerFunc(func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string,
		error) {
		asked = a
		return authorizer.DecisionAllow, "", nil
	})
	plain := func() *admissionv1.AdmissionRequest {
		return &admissionv1.AdmissionRequest{
			Resource: metav1.GroupVersionResource{Version: "v1", Resource: "pods"}, SubResource: "eviction", Name: "p",
		}
	}
	conditions("authorizer.requestResource.check('create').allowed()").Match(t.Context(),
		NewVariables(nil, nil, plain, alice, record))
	want := authorizer.AttributesRecord{User: alice, ResourceRequest: true, APIVersion: "*", Resource: "pods",
		Subresource: "eviction", Name: "p", Verb: "create"}
	if asked == nil || !same(asked, want) {
		t.Errorf("asked %+v, want %+v", asked, want)
	}
}

// An authorizer that hangs is left with the request's deadline. Upstream calls it with
// context.TODO().
func TestAuthorizerHasTheContextOfTheEvaluation(t *testing.T) {
	asks := conditions("authorizer.path('/x').check('get').allowed()")
	// Compiled outside of the bubble, where others may be compiling at the same time.
	asks.Match(t.Context(), NewVariables(nil, nil, request, alice, allowing))
	synctest.Test(t, func(t *testing.T) {
		hanging := authorizer.AuthorizerFunc(func(ctx context.Context, _ authorizer.Attributes) (authorizer.Decision,
			string, error) {
			<-ctx.Done()
			return authorizer.DecisionNoOpinion, "", ctx.Err()
		})
		v := NewVariables(nil, nil, request, alice, hanging)
		for range 2 {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			started := time.Now()
			verdict := asks.Match(ctx, v)
			if took := time.Since(started); took != 10*time.Second || verdict.Matches {
				t.Errorf("%+v after %v", verdict, took)
			}
			cancel()
		}
	})
}

func with(a authorizer.AttributesRecord, change func(*authorizer.AttributesRecord)) authorizer.AttributesRecord {
	change(&a)
	return a
}

func same(a authorizer.Attributes, want authorizer.AttributesRecord) bool {
	return a.GetUser() == want.User && a.GetVerb() == want.Verb && a.GetNamespace() == want.Namespace &&
		a.GetAPIGroup() == want.APIGroup &&
		a.GetAPIVersion() == want.APIVersion && a.GetResource() == want.Resource &&
		a.GetSubresource() == want.Subresource &&
		a.GetName() == want.Name && a.IsResourceRequest() == want.ResourceRequest && a.GetPath() == want.Path
}
