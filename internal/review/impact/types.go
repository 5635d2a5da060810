// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package impact

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gatehouse.dev/apis/decisions/v1alpha1"
)

// APIVersion is the version of a report in JSON or YAML. Its kind is Audit or Replay.
const APIVersion = "gatehouse.dev/v1alpha1"

// The kinds of reports.
const (
	Audit  = "Audit"
	Replay = "Replay"
)

// A Result says what the candidate does with a recorded request, or with an object that exists.
type Result struct {
	// AuditID is the name of the recorded request: its audit ID, or the UID of the AdmissionReview.
	AuditID string `json:"auditID,omitempty"`
	// Source is the place of the recorded request, or of the object if it comes from a file.
	Source *Source `json:"source,omitempty"`
	// Time is when the recorded request was made, if that is known.
	Time *metav1.Time `json:"time,omitempty"`
	// Request is the request that was judged. Of an object whose CREATE and UPDATE were judged it is the
	// first that is refused, or else the CREATE.
	Request v1alpha1.Request `json:"request"`
	// Object is what the request is about.
	Object Object `json:"object"`
	// Owner is the topmost known owner of an audited object, such as the Deployment of a Pod; nil if it has
	// none.
	Owner *Object `json:"owner,omitempty"`
	// Managers are the field managers of an audited object.
	Managers []string `json:"managers,omitempty"`
	// Operations are the verdicts on the CREATE and the UPDATE of an audited object.
	Operations *Operations `json:"operations,omitempty"`
	// OperationsBefore are the verdicts on the same requests of what the candidate is compared with; nil if it was
	// asked about neither.
	OperationsBefore *Operations `json:"operationsBefore,omitempty"`
	// Pods is the object that an audited workload's controller would create and that makes the difference; nil if the
	// workload itself makes it.
	Pods *Pods `json:"pods,omitempty"`
	// Recorded is how the recorded request ended; empty if that isn't recorded.
	Recorded v1alpha1.Verdict `json:"recorded,omitempty"`
	// Before is the verdict of what the candidate is compared with; empty if it was not asked.
	Before v1alpha1.Verdict `json:"before,omitempty"`
	// Verdict is the verdict of the candidate.
	Verdict v1alpha1.Verdict `json:"verdict"`
	// Policies are the parts of the candidate that make the difference: who refuses the request, changes
	// its object or warns. If a request would now be admitted, they are who refused it before.
	Policies []Policy `json:"policies,omitempty"`
	// Message is the reason of a refusal, or of a failure.
	Message string `json:"message,omitempty"`
	// Warnings are warnings that the client would get only from the candidate.
	Warnings []string `json:"warnings,omitempty"`
	// Changes are the fields that have another value with the candidate.
	Changes []Change `json:"changes,omitempty"`
	// Unjudged is the reason why the request could not be judged, a stable word such as unknown-base; empty if
	// it was. Verdict is empty then.
	Unjudged string `json:"unjudged,omitempty"`
	// Beyond is true if the candidate can't act on the request.
	Beyond bool `json:"beyond,omitempty"`
	// Differs is true if the candidate makes a difference.
	Differs bool `json:"differs"`
	// Known is true if the baseline file has the difference. It is set by the Collector.
	Known bool `json:"known,omitempty"`
	// Decision is the candidate's decision, as gatehouse review -o json has it.
	Decision *v1alpha1.Decision `json:"decision,omitempty"`
}

// A Source is a place in a file.
type Source struct {
	File string `json:"file"`
	Line int    `json:"line,omitempty"`
}

// An Object names an object.
type Object struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
}

// String returns the kind, namespace and name: Deployment shop/web.
func (o Object) String() string {
	if o.Namespace == "" {
		return o.Kind + " " + o.Name
	}
	return o.Kind + " " + o.Namespace + "/" + o.Name
}

// Operations are the verdicts on the requests that an existing object would come with.
type Operations struct {
	// Create is the verdict on creating the object again, Update on an update that changes nothing. Each is
	// empty if the request is never made, was not asked about, or could not be judged.
	Create v1alpha1.Verdict `json:"create,omitempty"`
	Update v1alpha1.Verdict `json:"update,omitempty"`
}

// Pods is an object that the controller of a workload would create: a pod, or what the controller creates before
// it, such as a ReplicaSet.
type Pods struct {
	Object Object `json:"object"`
	// Message is why it is refused; empty if it isn't.
	Message  string             `json:"message,omitempty"`
	Decision *v1alpha1.Decision `json:"decision,omitempty"`
}

// A Policy is a part of a candidate that decides: a policy, a webhook, a quota, or a plugin as a whole.
type Policy struct {
	// Plugin is the name of the admission plugin. Policies, webhooks and so on have one as well.
	Plugin string `json:"plugin"`
	// Kind is Policy, Webhook, Quota, LimitRange, Backend or Trial, as in a Call of a decision; empty for a
	// plugin as a whole.
	Kind string `json:"kind,omitempty"`
	// Name is the name of the policy; empty for a plugin as a whole.
	Name string `json:"name,omitempty"`
	// Binding is the policy's binding; Expression what was violated. Each may be empty.
	Binding    string `json:"binding,omitempty"`
	Expression string `json:"expression,omitempty"`
}

// String returns the name of the policy, or of the plugin.
func (p Policy) String() string {
	if p.Name == "" {
		return p.Plugin
	}
	return p.Name
}

// A Summary counts results.
type Summary struct {
	// Writes is the number of recorded requests, or of objects, on which the candidate can act. Judged of them were
	// judged. Beyond is the number of other recorded requests.
	Writes int `json:"writes"`
	Judged int `json:"judged"`
	Beyond int `json:"beyond,omitempty"`
	// NotJudged counts the others by reason, the most frequent first.
	NotJudged []ReasonCount `json:"notJudged"`
	// Refused is the number of those that the candidate refuses and that were not refused before; a failure
	// counts as a refusal. Admitted is the number of those that it admits and that were refused before.
	Refused  int `json:"refused"`
	Admitted int `json:"admitted"`
	// UpdatesRefused of the Refused objects of an audit are refused when they are updated as well. The others are refused
	// only when they, or their pods, are created. RefusedAnyway is the number of objects that are refused without the
	// candidate, too; they are not among the Refused.
	UpdatesRefused int `json:"updatesRefused,omitempty"`
	RefusedAnyway  int `json:"refusedAnyway,omitempty"`
	// Changed is the number of other requests whose object the candidate changes, Warned that of others in
	// which it only makes the client get a warning.
	Changed int `json:"changed"`
	Warned  int `json:"warned"`
	// First and Last are the times of the first and the last recorded request, if they are known.
	First *metav1.Time `json:"first,omitempty"`
	Last  *metav1.Time `json:"last,omitempty"`
	// Known is the number of differences that were left out because the baseline file has them.
	Known int `json:"known,omitempty"`
	// Interrupted is true if not everything was judged.
	Interrupted bool `json:"interrupted,omitempty"`
}

// A ReasonCount counts the requests that could not be judged for a reason.
type ReasonCount struct {
	// Reason is a stable word, such as metadata-level.
	Reason string `json:"reason"`
	Count  int    `json:"count"`
	// Description explains the reason.
	Description string `json:"description,omitempty"`
}
