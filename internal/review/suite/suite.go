// Package suite reads suites of admission tests: files in which people say what a cluster is to do
// with which objects, so that a change to a policy shows what else it changes.
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
// A row of a table is a case that differs from the one above it: it has that one's fields where it
// doesn't say otherwise. What is misspelt, missing or there twice is an error with its line. Update
// writes what was expected of objects anew, and leaves every other byte of the file as it is.
//
// What judges is package review, which this one knows nothing of: it links no server.
package suite

import (
	"regexp"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"gatehouse.dev/internal/review/input"
)

// APIVersion and Kind are those of a suite.
const (
	APIVersion = "gatehouse.dev/v1alpha1"
	Kind       = "AdmissionTest"
)

// Suite is one document with cases.
type Suite struct {
	Source input.Source
	// Name is that of its metadata, else the file's, without the suffix.
	Name string
	// State is what is there before every case.
	State []input.Document
	// Flags are those of the command that say how to judge, with paths as they are from here.
	Flags []Flag
	// Within are the folders that the suite may read.
	Within input.Folders
	// Cases are all of them, those of tables one by one.
	Cases []Case
}

// Flag is a flag of a suite, as it is typed, and where it stands.
type Flag struct {
	Source input.Source
	Text   string
}

// Case is one question: what becomes of an object.
type Case struct {
	Source input.Source
	// Name is the case's, or that of the case and of the row, with a slash between them.
	Name string
	// State is what is there besides the suite's, Before what is written before, by an
	// administrator, and must be admitted.
	State, Before []input.Document
	// Object is what is written.
	Object *unstructured.Unstructured
	// Operation is create, update, apply, delete or connect; empty for update where the object is
	// there, else create.
	Operation string
	// Subresource is what Object is sent to, of the object that has its name: scale, or
	// deployments/scale; empty for the object itself.
	Subresource string
	// As is who writes it, nil for an administrator.
	As     *User
	Expect Expect
}

// User is who writes an object: a user in groups, or a service account, as namespace/name.
type User struct {
	Name           string `yaml:"user"`
	Groups         []string
	ServiceAccount string `yaml:"serviceAccount"`
}

// Expect is what a case must come to. What it doesn't say is no matter, but for pods: all that a
// workload wants must be admitted.
type Expect struct {
	// Verdict is Admitted or Refused.
	Verdict string
	Message `yaml:",inline"`
	// Object are fields of the object as it is stored, null for those that it mustn't have; nil
	// where nothing is expected of it.
	Object map[string]any `yaml:"-"`
	// Warnings are in those that a client is shown: one in each, in their order; nil for any.
	Warnings []string
	// Webhooks are those that a cluster asks, by name in any order; nil for any.
	Webhooks []string
	Pods     *Pods

	// at is where Object stands.
	at *place
}

// Message is what a refusal says.
type Message struct {
	// By is the plugin that refuses, or plugin/name for what it does so by, as a policy.
	By string
	// Text is in the message; Matches does match it, nil where nothing must.
	Text    string `yaml:"message"`
	Matches *regexp.Regexp
	// Error is in what could not be evaluated or asked, empty for none: a policy whose expression
	// fails refuses for no reason that a case could be about.
	Error string
}

// Pods is what must become of the pods that a workload's controller makes.
type Pods struct {
	// Wanted and Admitted are how many there should be and would be; nil for any.
	Wanted, Admitted *int
	// Message is of the refusal of the first that isn't.
	Message `yaml:",inline"`
}

// Operations are what a case may do.
var Operations = []string{"create", "update", "apply", "delete", "connect"}
