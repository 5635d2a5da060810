// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// Decision records the verdict on a request, and the reasons. Its name is the request's audit ID,
// which the answer had in its header Audit-Id. A decision about an object without a namespace is in
// the namespace default, as events are.
type Decision struct {
	metav1.TypeMeta `json:",inline"`
	// Standard object's metadata. More info:
	// https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// time is when the request was authorized.
	// +optional
	Time metav1.MicroTime `json:"time,omitzero"`
	// request says what was requested, and by which user.
	Request Request `json:"request"`
	// verdict is Admitted, Refused (the answer was a 4xx) or Failed (the answer was a 5xx, or there
	// was none).
	Verdict Verdict `json:"verdict"`
	// code is the HTTP status of the answer, or 0 if there was none.
	// +optional
	Code int32 `json:"code,omitempty"`
	// reason is the reason in the answer's status, if the request wasn't admitted.
	// +optional
	Reason metav1.StatusReason `json:"reason,omitempty"`
	// message is the message in the answer's status, if the request wasn't admitted.
	// +optional
	Message string `json:"message,omitempty"`
	// by is the plugin that refused the request. It is empty if no plugin did.
	// +optional
	By string `json:"by,omitempty"`
	// changedBy are the plugins that changed the object, in order.
	// +optional
	// +listType=atomic
	ChangedBy []string `json:"changedBy,omitempty"`
	// duration is the time from the request's authorization to its answer.
	Duration metav1.Duration `json:"duration"`
	// steps say what each plugin did, in order.
	// +optional
	// +listType=atomic
	Steps []Step `json:"steps,omitempty"`
	// omittedSteps is the number of steps that were left out because a request had very many.
	// +optional
	OmittedSteps int32 `json:"omittedSteps,omitempty"`
}

// Request says what was requested, and by which user.
type Request struct {
	// operation is CREATE, UPDATE, DELETE or CONNECT.
	Operation string `json:"operation"`
	// group is the API group of the request; empty for the core group.
	// +optional
	Group string `json:"group,omitempty"`
	// version is the API version of the request.
	Version string `json:"version"`
	// resource is the name of the resource, for example pods.
	Resource string `json:"resource"`
	// subresource is the name of the subresource, for example exec; empty for the object itself.
	// +optional
	Subresource string `json:"subresource,omitempty"`
	// namespace is the object's namespace.
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// name is the object's name. It is empty if the server had not yet made one.
	// +optional
	Name string `json:"name,omitempty"`
	// generateName is the prefix from which the server was to make the object's name.
	// +optional
	GenerateName string `json:"generateName,omitempty"`
	// owner is the object that controls this one, for example the ReplicaSet of a pod.
	// +optional
	Owner *Owner `json:"owner,omitempty"`
	// dryRun is true if nothing was to be stored.
	// +optional
	DryRun bool `json:"dryRun,omitempty"`
	// user made the request. For an impersonated request it is the impersonated user.
	User User `json:"user"`
	// impersonatedBy is the user who impersonated the other.
	// +optional
	ImpersonatedBy *User `json:"impersonatedBy,omitempty"`
	// userAgent is the client's name for itself, from the header User-Agent.
	// +optional
	UserAgent string `json:"userAgent,omitempty"`
}

// Owner is the object that controls another.
type Owner struct {
	// kind is the owner's kind, for example ReplicaSet.
	Kind string `json:"kind"`
	// name is the owner's name.
	Name string `json:"name"`
}

// User is the user who made a request.
type User struct {
	// username is the name by which the authorizer knows the user.
	Username string `json:"username"`
	// groups are the user's groups.
	// +optional
	// +listType=atomic
	Groups []string `json:"groups,omitempty"`
}

// Verdict is the outcome of a request, a plugin or a part of a plugin.
// +enum
type Verdict string

// The verdicts. Only a Call can be Skipped: it had a rule for the request, but a selector or a
// condition left the request out.
const (
	Admitted Verdict = "Admitted"
	Refused  Verdict = "Refused"
	Failed   Verdict = "Failed"
	Skipped  Verdict = "Skipped"
)

// Step says what one plugin did.
type Step struct {
	// plugin is the plugin's name.
	Plugin string `json:"plugin"`
	// phase is Mutate or Validate.
	Phase string `json:"phase"`
	// round is 1 if the plugin ran once more because a webhook or a policy had changed the object,
	// and 0 otherwise.
	Round int32 `json:"round"`
	// verdict is Admitted, Refused or Failed.
	Verdict Verdict `json:"verdict"`
	// message is the reason, if the verdict isn't Admitted.
	// +optional
	Message string `json:"message,omitempty"`
	// duration is the time that the plugin took.
	Duration metav1.Duration `json:"duration"`
	// patch is what the plugin changed, as a JSON patch (RFC 6902).
	// +optional
	// +listType=atomic
	Patch []PatchOperation `json:"patch,omitempty"`
	// patchCut is true if the patch was too large to be kept whole.
	// +optional
	PatchCut bool `json:"patchCut,omitempty"`
	// calls say what each webhook, policy, quota or LimitRange within the plugin did.
	// +optional
	// +listType=atomic
	Calls []Call `json:"calls,omitempty"`
	// omittedCalls is the number of calls that were left out. They admitted the request and changed
	// nothing.
	// +optional
	OmittedCalls int32 `json:"omittedCalls,omitempty"`
}

// Call says what one part of a plugin did: a webhook, a policy, a quota, a LimitRange, or a backend
// that the plugin's configuration names.
type Call struct {
	// kind is Webhook, Policy, Quota, LimitRange, Backend or Trial.
	Kind string `json:"kind"`
	// name is the name of the webhook, policy, quota, LimitRange or backend.
	Name string `json:"name"`
	// configuration is the name of the object that has the webhook.
	// +optional
	Configuration string `json:"configuration,omitempty"`
	// binding is the binding with which the policy was evaluated.
	// +optional
	Binding string `json:"binding,omitempty"`
	// param is the param with which the policy was evaluated, as namespace/name or name.
	// +optional
	Param string `json:"param,omitempty"`
	// expression is the policy's expression that was violated, or that could not be evaluated.
	// +optional
	Expression string `json:"expression,omitempty"`
	// reads are the fields that the violated expression reads: object.spec.containers[*].image, for example.
	// [*] stands for any element. A list of which only the size is read ends with [].
	// +optional
	// +listType=atomic
	Reads []string `json:"reads,omitempty"`
	// backend is the URL of the webhook, or of its service.
	// +optional
	Backend string `json:"backend,omitempty"`
	// verdict is Admitted, Refused, Failed or Skipped.
	Verdict Verdict `json:"verdict"`
	// code is the HTTP status of a refusal or failure, if there is one.
	// +optional
	Code int32 `json:"code,omitempty"`
	// failedOpen is true if the call failed and its failurePolicy let the request pass.
	// +optional
	FailedOpen bool `json:"failedOpen,omitempty"`
	// why is the reason in words. For a quota it has the use, the request and the limit.
	// +optional
	Why string `json:"why,omitempty"`
	// duration is the time that the call took; empty if it was skipped.
	// +optional
	Duration metav1.Duration `json:"duration,omitzero"`
	// patch is what the call changed in the object, as a JSON patch (RFC 6902). It applies to the
	// object as it was before the call, in the version of the request. Defaults that the server set
	// afterwards are in the step's patch only.
	// +optional
	// +listType=atomic
	Patch []PatchOperation `json:"patch,omitempty"`
	// patchCut is true if the patch was too large to be kept whole.
	// +optional
	PatchCut bool `json:"patchCut,omitempty"`
	// warnings are the warnings that the call sent to the client.
	// +optional
	// +listType=atomic
	Warnings []string `json:"warnings,omitempty"`
}

// PatchOperation is one operation of a JSON patch (RFC 6902).
type PatchOperation struct {
	// op is add, remove or replace.
	Op string `json:"op"`
	// path is a JSON pointer (RFC 6901) to the changed field.
	Path string `json:"path"`
	// from is always empty: the server records no moves and copies.
	// +optional
	From string `json:"from,omitempty"`
	// value is the new value. If the value is secret, this only says that it changed.
	// +optional
	Value *Value `json:"value,omitempty"`
}

// Value is any JSON value.
type Value struct {
	// Raw is the JSON.
	Raw []byte `json:"-"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// DecisionList is a list of Decisions, the newest last.
type DecisionList struct {
	metav1.TypeMeta `json:",inline"`
	// Standard list metadata. More info:
	// https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the Decisions.
	Items []Decision `json:"items"`
}
