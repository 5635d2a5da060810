// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"gatehouse.dev/apis/decisions/v1alpha1"
	"gatehouse.dev/internal/review/input"
)

// APIVersion and Kind identify a Review.
const (
	APIVersion = "gatehouse.dev/v1alpha1"
	Kind       = "Review"
)

// Review is the verdict on an input.
type Review struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Results are the results of the objects, in the order in which they were judged.
	Results []Result `json:"results"`
	// Notes concern all results: the order of objects, parts of the state that could not be read,
	// webhooks that weren't asked.
	Notes   []string `json:"notes,omitempty"`
	Summary Summary  `json:"summary"`
}

// Summary counts the objects by verdict. An admitted object whose pods would be refused counts as
// refused.
type Summary struct {
	Admitted int `json:"admitted"`
	Refused  int `json:"refused"`
	Failed   int `json:"failed"`
}

// Result is the verdict on one object.
type Result struct {
	Source input.Source `json:"source"`
	Object Object       `json:"object"`
	// Verdict is Admitted, Refused or Failed.
	Verdict v1alpha1.Verdict `json:"verdict"`
	// NotServed says that the server has no API for the object's kind and version. The verdict is Failed
	// then.
	NotServed bool `json:"notServed,omitempty"`
	// Message is the reason; empty if the verdict is Admitted.
	Message string `json:"message,omitempty"`
	// Because has the changes that the reason is about: fields that plugins, webhooks and policies set.
	Because []string `json:"because,omitempty"`
	// RefusedNamespace says that the object is in a namespace that was refused; empty if it isn't.
	RefusedNamespace string `json:"-"`
	// UnknownFields are the fields that its kind doesn't have, if it was refused for them.
	UnknownFields []string `json:"unknownFields,omitempty"`
	// Suggestions are the names that were likely meant by UnknownFields, by their paths.
	Suggestions map[string]string `json:"suggestions,omitempty"`
	// Unknown lists unknown parts of the cluster that bear on the verdict. The verdict is Failed then,
	// and Message says why the object would be refused otherwise; it is empty if it would be admitted.
	Unknown []string `json:"unknown,omitempty"`
	// Warnings are the warnings that a client would see.
	Warnings []string `json:"warnings,omitempty"`
	// NotStored are fields of the object that weren't stored, if another version of Kubernetes than the
	// program's judges, with strict validation; see NotStoredNote.
	NotStored []string `json:"notStored,omitempty"`
	// Decision is the decision on the object, as a server records it; nil if no server was asked.
	Decision *v1alpha1.Decision `json:"decision,omitempty"`
	// Pods describes the pods that the controller of a workload would make; at most one entry.
	Pods []Pods `json:"pods,omitempty"`
	// Sent is the object as it was sent, Stored as it was then stored. Each may be nil.
	Sent   *unstructured.Unstructured `json:"-"`
	Stored *unstructured.Unstructured `json:"-"`
}

// Object names an object.
type Object struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
}

// String returns the kind and the name, as "Pod web" or "Pod shop/web".
func (o Object) String() string {
	if o.Kind == "" {
		return "-" // it isn't known
	}
	name := o.Name
	if o.Namespace != "" {
		name = o.Namespace + "/" + name
	}
	return o.Kind + " " + name
}

// groupKind returns the group and the kind.
func (o Object) groupKind() schema.GroupKind {
	return schema.FromAPIVersionAndKind(o.APIVersion, o.Kind).GroupKind()
}

// Pods describes the pods that a controller makes for a workload. Of a pod it says whether the claims can be
// made that controllers make for it.
type Pods struct {
	// Wanted is the number of pods that the workload wants, Admitted the number that would be
	// admitted.
	Wanted   int `json:"wanted"`
	Admitted int `json:"admitted"`
	// Why is the reason why a workload makes no pods, such as "it is paused".
	Why string `json:"why,omitempty"`
	// Refused is the refused object: a pod, or an object that the controller makes before the pod,
	// such as the ReplicaSet of a Deployment, the Job of a CronJob, a claim of a StatefulSet, or a claim
	// that a controller makes for the pod. It is nil if the pod needs something that isn't there.
	Refused *Object `json:"refused,omitempty"`
	// NotAsked are the webhooks that a cluster would ask about the pods, or about objects made
	// before them, and that weren't asked.
	NotAsked []string `json:"notAsked,omitempty"`
	// Decision is the decision of the refusal, Message its message.
	Decision *v1alpha1.Decision `json:"decision,omitempty"`
	Message  string             `json:"message,omitempty"`
	// Because has the changes that the message is about, as that of a Result.
	Because []string `json:"because,omitempty"`

	// first is the decision on the first pod that was admitted, firstSent that pod as it was sent.
	first     *v1alpha1.Decision
	firstSent *unstructured.Unstructured
}

// Admission returns the decision on the first pod that would be admitted, or nil if none would.
func (p *Pods) Admission() *v1alpha1.Decision { return p.first }

// refused reports whether the object, or something that belongs to it, was refused.
func (r *Result) refused() bool {
	if r.Verdict == v1alpha1.Refused {
		return true
	}
	for _, pods := range r.Pods {
		if pods.Admitted < pods.Wanted {
			return true
		}
	}
	return false
}

// summarize counts the results by verdict.
func (r *Review) summarize() {
	r.Summary = Summary{}
	for i := range r.Results {
		switch {
		case r.Results[i].Verdict == v1alpha1.Failed:
			r.Summary.Failed++
		case r.Results[i].refused():
			r.Summary.Refused++
		default:
			r.Summary.Admitted++
		}
	}
}

// Exit codes of the commands that judge.
const (
	ExitAdmitted = 0
	ExitRefused  = 1
	ExitFailed   = 2
)

// ExitCode returns 0 if everything is admitted, 1 if something is refused, 2 if something could not
// be judged.
func (r *Review) ExitCode() int {
	switch {
	case r.Summary.Failed > 0:
		return ExitFailed
	case r.Summary.Refused > 0:
		return ExitRefused
	}
	return ExitAdmitted
}
