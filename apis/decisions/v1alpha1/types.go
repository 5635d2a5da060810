package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// Decision is what became of a request, and why. Its name is the request's audit ID, which the
// answer had in its header Audit-Id. A decision about an object without a namespace is in the
// namespace default, as events are.
type Decision struct {
	metav1.TypeMeta `json:",inline"`
	// Standard object's metadata. More info:
	// https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// time is when the request was authorized.
	// +optional
	Time metav1.MicroTime `json:"time,omitzero"`
	// request is what was asked for, and by whom.
	Request Request `json:"request"`
	// verdict is what the request came to: Admitted; Refused, an answer of 4xx; Failed, one of 5xx
	// or none.
	Verdict Verdict `json:"verdict"`
	// code is the HTTP status of the answer, 0 where there was none.
	// +optional
	Code int32 `json:"code,omitempty"`
	// reason is that of the answer's status, where the request wasn't admitted.
	// +optional
	Reason metav1.StatusReason `json:"reason,omitempty"`
	// message is that of the answer's status, where the request wasn't admitted.
	// +optional
	Message string `json:"message,omitempty"`
	// by is the plugin that refused the request. It is empty where no plugin did.
	// +optional
	By string `json:"by,omitempty"`
	// changedBy are the plugins that changed the object, in order.
	// +optional
	// +listType=atomic
	ChangedBy []string `json:"changedBy,omitempty"`
	// duration is the time from when the request was authorized to its answer.
	Duration metav1.Duration `json:"duration"`
	// steps are what the plugins did, in order.
	// +optional
	// +listType=atomic
	Steps []Step `json:"steps,omitempty"`
	// omittedSteps is how many more steps there were: those about other objects of the same
	// request, as where a collection is deleted.
	// +optional
	OmittedSteps int32 `json:"omittedSteps,omitempty"`
}

// Request is what was asked for, and by whom.
type Request struct {
	// operation is CREATE, UPDATE, DELETE or CONNECT.
	Operation string `json:"operation"`
	// group, version and resource are those of the request.
	// +optional
	Group string `json:"group,omitempty"`
	// version is that of the API that was asked.
	Version string `json:"version"`
	// resource is the name of the resource, as pods.
	Resource string `json:"resource"`
	// subresource is the name of the subresource, as exec; empty for the object itself.
	// +optional
	Subresource string `json:"subresource,omitempty"`
	// namespace is that of the object.
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// name is that of the object. It is empty where the server had not yet made one.
	// +optional
	Name string `json:"name,omitempty"`
	// generateName is what the object's name was to be made from.
	// +optional
	GenerateName string `json:"generateName,omitempty"`
	// owner is the object that controls this one, as the ReplicaSet of a pod.
	// +optional
	Owner *Owner `json:"owner,omitempty"`
	// dryRun says that nothing was to be stored.
	// +optional
	DryRun bool `json:"dryRun,omitempty"`
	// user is who asked: for an impersonated request, the impersonated user.
	User User `json:"user"`
	// impersonatedBy is the user who made the request as another one.
	// +optional
	ImpersonatedBy *User `json:"impersonatedBy,omitempty"`
	// userAgent is the program that asked, in its own words.
	// +optional
	UserAgent string `json:"userAgent,omitempty"`
}

// Owner is the object that controls another.
type Owner struct {
	// kind is its kind, as ReplicaSet.
	Kind string `json:"kind"`
	// name is its name.
	Name string `json:"name"`
}

// User is who made a request.
type User struct {
	// username is the name by which the user is known to the authorizer.
	Username string `json:"username"`
	// groups are the user's groups.
	// +optional
	// +listType=atomic
	Groups []string `json:"groups,omitempty"`
}

// Verdict is what a request, a plugin or a part of a plugin came to.
// +enum
type Verdict string

// The verdicts. Only a Call is Skipped: it had a rule for the request, and wasn't asked.
const (
	Admitted Verdict = "Admitted"
	Refused  Verdict = "Refused"
	Failed   Verdict = "Failed"
	Skipped  Verdict = "Skipped"
)

// Step is what one plugin did.
type Step struct {
	// plugin is the plugin's name.
	Plugin string `json:"plugin"`
	// phase is Mutate or Validate.
	Phase string `json:"phase"`
	// round is 1 where the plugin ran once more, since a webhook or a policy had changed the
	// object.
	Round int32 `json:"round"`
	// verdict is Admitted, Refused or Failed.
	Verdict Verdict `json:"verdict"`
	// message is why, where it isn't Admitted.
	// +optional
	Message string `json:"message,omitempty"`
	// duration is what the plugin took.
	Duration metav1.Duration `json:"duration"`
	// patch is what the plugin changed, as a JSON patch (RFC 6902).
	// +optional
	// +listType=atomic
	Patch []PatchOperation `json:"patch,omitempty"`
	// patchCut says that the patch was too large to be kept whole.
	// +optional
	PatchCut bool `json:"patchCut,omitempty"`
	// calls are the steps within this one: each webhook, policy, quota or LimitRange.
	// +optional
	// +listType=atomic
	Calls []Call `json:"calls,omitempty"`
	// omittedCalls is how many more calls there were, which admitted the request and changed
	// nothing.
	// +optional
	OmittedCalls int32 `json:"omittedCalls,omitempty"`
}

// Call is what one thing that users configure did: a webhook, a policy, a quota, a LimitRange, or
// another backend that a plugin's configuration names.
type Call struct {
	// kind is what it is: Webhook, Policy, Quota, LimitRange, Backend or Trial.
	Kind string `json:"kind"`
	// name is its name.
	Name string `json:"name"`
	// configuration is the object that a webhook is in.
	// +optional
	Configuration string `json:"configuration,omitempty"`
	// binding is the one with which a policy was evaluated.
	// +optional
	Binding string `json:"binding,omitempty"`
	// param is the one with which a policy was evaluated, as namespace/name or name.
	// +optional
	Param string `json:"param,omitempty"`
	// expression is the one of a policy that was violated, or could not be evaluated.
	// +optional
	Expression string `json:"expression,omitempty"`
	// backend is where a webhook is: its URL, or that of its service.
	// +optional
	Backend string `json:"backend,omitempty"`
	// verdict is what it came to.
	Verdict Verdict `json:"verdict"`
	// code is the HTTP status of a refusal or failure, where there is one.
	// +optional
	Code int32 `json:"code,omitempty"`
	// failedOpen says that it failed, and that its failurePolicy let the request pass.
	// +optional
	FailedOpen bool `json:"failedOpen,omitempty"`
	// why is the reason in words; of a quota what is used, requested and the limit.
	// +optional
	Why string `json:"why,omitempty"`
	// duration is what it took, nothing where it was skipped.
	// +optional
	Duration metav1.Duration `json:"duration,omitzero"`
	// patch is what it changed in the object, as a JSON patch (RFC 6902). It applies to the object as
	// it was before the call, in the version of the request. Defaults that the server set afterwards
	// are in the step's patch only.
	// +optional
	// +listType=atomic
	Patch []PatchOperation `json:"patch,omitempty"`
	// patchCut says that the patch was too large to be kept whole.
	// +optional
	PatchCut bool `json:"patchCut,omitempty"`
	// warnings are what it has the client warned of.
	// +optional
	// +listType=atomic
	Warnings []string `json:"warnings,omitempty"`
}

// PatchOperation is one operation of a JSON patch (RFC 6902).
type PatchOperation struct {
	// op is add, remove or replace.
	Op string `json:"op"`
	// path is a JSON pointer (RFC 6901) to what is changed.
	Path string `json:"path"`
	// from is empty: nothing is recorded as moved or copied.
	// +optional
	From string `json:"from,omitempty"`
	// value is what is added, or what replaces what was there. Of a value that is secret it only
	// says that it changed.
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
