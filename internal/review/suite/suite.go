// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package suite reads suites of admission tests. A suite is a file that says what a cluster should
// do with which objects, so that a change to a policy shows what else it changes.
//
//	apiVersion: gatehouse.dev/v1alpha1
//	kind: AdmissionTest
//	spec:
//	  state: [policies, {apiVersion: v1, kind: Namespace, metadata: {name: shop}}]
//	  flags: [--enable-admission-plugins=AlwaysPullImages]
//	  cases:
//	  - name: images
//	    file: pod.yaml
//	    expect: {verdict: Refused, by: ValidatingAdmissionPolicy/image-registries}
//	    table:
//	    - {name: of nobody, set: {"spec.containers[0].image": nginx}}
//	    - {name: ours, set: {"spec.containers[0].image": ghcr.io/shop/web}, expect: {verdict: Admitted}}
//
// A row of a table is a case that inherits the fields of the case above it, unless it sets them
// itself. Misspelt, missing and duplicate fields are errors with their line. Update rewrites the
// expected objects, and leaves other lines of the file as they are written.
//
// Package review judges the cases. This package doesn't know it, and links no server.
package suite

import (
	"regexp"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"gatehouse.dev/internal/review/input"
)

// APIVersion and Kind identify a suite.
const (
	APIVersion = input.SuiteGroup + "/v1alpha1"
	Kind       = input.SuiteKind
)

// Suite is one document with cases.
type Suite struct {
	Source input.Source
	// Name is the name in its metadata, or else the file's name without the suffix.
	Name string
	// State are the objects that exist before every case.
	State []input.Document
	// Flags are flags of the command that say how to judge, with paths relative to the current
	// directory.
	Flags []Flag
	// Within are the folders that the suite may read.
	Within input.Folders
	// Cases are all cases, including each row of a table.
	Cases []Case
}

// Flag is a flag of a suite, as it is typed, with its source.
type Flag struct {
	Source input.Source
	Text   string
}

// Case is an object to write, and the result that is expected.
type Case struct {
	Source input.Source
	// Name is the case's, or that of the case and of the row, with a slash between them.
	Name string
	// State are objects that exist besides the suite's. Before are objects that an administrator
	// writes before the case, and that must be admitted.
	State, Before []input.Document
	// Object is the object that is written, or the AdmissionReview of the request that is sent.
	Object *unstructured.Unstructured
	// Params is the object of the state with which a policy must be evaluated; nil for none.
	Params *unstructured.Unstructured
	// Operation is create, update, apply, delete or connect. Empty means update if the object exists,
	// and otherwise create.
	Operation string
	// Subresource is the subresource to which Object is sent, of the object that has its name:
	// scale, or deployments/scale; empty for the object itself.
	Subresource string
	// As is the user who writes the object; nil for an administrator.
	As     *User
	Expect Expect
}

// User is a user with groups, or a service account, as namespace/name.
type User struct {
	// Name is the name of the user.
	//
	//schema:minLength 1
	Name string `yaml:"user"`
	// Groups are the groups of the user.
	Groups []string
	// ServiceAccount is a service account, as namespace/name.
	//
	//schema:type "string"
	//schema:pattern "^[^/]+/.+$"
	ServiceAccount string `yaml:"serviceAccount"`
}

// Expect is the expected result of a case. Fields that aren't set are not compared, except for Pods:
// if it isn't set, all pods that a workload wants must be admitted.
type Expect struct {
	// Verdict is Admitted or Refused: by admission, by validation or for lack of rights.
	//
	//schema:enum ["Admitted", "Refused"]
	Verdict string
	Message `yaml:",inline"`
	// Object has the expected fields of the stored object, with null for fields that it mustn't have;
	// nil if nothing is expected.
	Object map[string]any `yaml:"-"`
	// Warnings are texts in the warnings that a client sees: one in each, in their order. If it
	// isn't set, any will do.
	Warnings []string
	// Webhooks are the webhooks that a cluster asks, by name in any order. If it isn't set, any will
	// do.
	Webhooks []string
	// Pods is the expected result for the pods of a workload. If it isn't set, all must be admitted.
	Pods *Pods

	// at is the position of Object.
	at *position
}

// Message is the expected message of a refusal.
type Message struct {
	// By is the plugin that refuses, or plugin/name with the policy, webhook, quota or LimitRange by
	// which it does.
	By string
	// Text must be in the message.
	Text string `yaml:"message"`
	// Matches must match the message, as a regular expression.
	Matches *regexp.Regexp
	// Error must be in each error of an expression that could not be evaluated or a webhook that could
	// not be asked. If it is empty, there must be no such error: a policy whose expression fails
	// refuses for a reason that no case is about.
	Error string
}

// Pods is the expected result for the pods that a workload's controller makes.
type Pods struct {
	// Wanted is the number of wanted pods. If it isn't set, any will do.
	//
	//schema:minimum 0
	Wanted *int
	// Admitted is the number of admitted pods. If it isn't set, any will do.
	//
	//schema:minimum 0
	Admitted *int
	// Message is the expected message of the first refused pod.
	Message `yaml:",inline"`
}

// Operations are the operations of cases.
var Operations = []string{"create", "update", "apply", "delete", "connect"}
