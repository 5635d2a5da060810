// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"

	"gatehouse.dev/apis/decisions/v1alpha1"
	"gatehouse.dev/internal/review/impact"
	"gatehouse.dev/internal/review/judge"
)

// A probe judges an object that a controller makes, without storing it. ended is true if the controller
// makes nothing more, or nothing more that differs.
type probe func(ctx context.Context, pods *Pods, account user.Info, object *unstructured.Unstructured,
	resource schema.GroupVersionResource) (ended bool, err error)

const (
	// noUID is the UID of objects whose own isn't known. The objects that they own must name one.
	noUID = "00000000-0000-0000-0000-000000000000"
	// generatedEnd stands for the random end of a name that a server makes.
	generatedEnd = "xxxxx"
)

// A makeResult says what became of the objects that the controller of a workload makes.
type makeResult struct {
	// object is the one for which the candidate makes the gravest difference, the first of those, and judged what was
	// judged of it; nil if it makes none.
	object impact.Object
	judged *judge.Result
	// unjudged is the reason why one couldn't be judged, why explains it; empty if all could be.
	unjudged, why string
}

// followExisting judges the objects that the controller of a workload makes of it, up to its first pod: the
// ReplicaSet of a Deployment and then its pod, for example. A workload with no replicas is
// judged as if it had one. It returns nil if the object isn't a workload, or belongs to another one, whose
// objects are judged.
func (a *auditing) followExisting(ctx context.Context, workload *unstructured.Unstructured) (*makeResult, error) {
	kind := workload.GroupVersionKind().GroupKind()
	follow, ok := followers[kind]
	if owner := metav1.GetControllerOf(workload); !ok || kind == podKind || owner != nil &&
		followers[schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind).GroupKind()] != nil {
		return nil, nil
	}
	// A manifest may leave out what the server sets by default, and controllers need it.
	text, err := workload.MarshalJSON()
	if err != nil {
		return nil, err
	}
	if text, err = a.candidate.reviewer.cluster.server.Converted(text, workload.GroupVersionKind()); err != nil {
		return nil, fmt.Errorf("setting its defaults: %w", err)
	}
	workload = &unstructured.Unstructured{}
	if err := workload.UnmarshalJSON(text); err != nil {
		return nil, err
	}
	if workload.GetUID() == "" {
		workload.SetUID(noUID)
	}
	if err := wantOne(workload); err != nil {
		return nil, err
	}
	m := &makeResult{}
	r := *a.candidate.reviewer
	r.probe = func(ctx context.Context, _ *Pods, account user.Info, object *unstructured.Unstructured,
		resource schema.GroupVersionResource) (bool, error) {
		return a.probe(ctx, m, account, object, resource)
	}
	if _, err := follow(ctx, &r, workload, nil); err != nil {
		return nil, fmt.Errorf("its pods: %w", err)
	}
	return m, nil
}

// wantOne makes a workload want one pod at a time.
func wantOne(workload *unstructured.Unstructured) error {
	switch workload.GetKind() {
	case "Deployment", "ReplicaSet", "ReplicationController", "StatefulSet":
		return unstructured.SetNestedField(workload.Object, int64(1), "spec", "replicas")
	}
	return nil // of a DaemonSet and of a Job the first pod is judged
}

// probe judges an object that a controller makes.
func (a *auditing) probe(ctx context.Context, m *makeResult, account user.Info, object *unstructured.Unstructured,
	resource schema.GroupVersionResource) (ended bool, err error) {
	if object.GetName() == "" {
		object.SetName(object.GetGenerateName() + generatedEnd)
	}
	data, err := object.MarshalJSON()
	if err != nil {
		return false, err
	}
	judged := a.judgeRequest(ctx, &judge.Request{User: authenticated(account), UserAgent: auditAgent,
		Operation: admission.Create, Resource: resource, Namespace: object.GetNamespace(), Name: object.GetName(),
		Object: data}, nil)
	if judged.Unjudged == "" && a.asksOwnWebhook(judged.Candidate.Decision) {
		judged.Unjudged = webhookNotAsked
	}
	if judged.Unjudged != "" {
		m.unjudged, m.why = judged.Unjudged, judged.Why
		return true, nil
	}
	if judged.Effect != judge.NoEffect && (m.judged == nil || gravity(&judged) > gravity(m.judged)) {
		m.object, m.judged = impactObject(object), &judged
	}
	if judged.Candidate.Decision.Verdict != v1alpha1.Admitted {
		return true, nil
	}
	object.SetUID(noUID) // what it owns names it
	return object.GetKind() == podKind.Kind, nil
}

// impactObject names an object in a report.
func impactObject(o *unstructured.Unstructured) impact.Object {
	return impact.Object(objectOf(o))
}
