// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	// SchemeGroupVersion is the group and version of the kinds of this package.
	SchemeGroupVersion = schema.GroupVersion{Group: "decisions.gatehouse.dev", Version: "v1alpha1"}

	// Decisions is the resource in which Decision objects are served.
	Decisions = SchemeGroupVersion.WithResource("decisions")
)

const (
	// ViewerRole is the ClusterRole that lets users see decisions. Bind it in a namespace or in all.
	ViewerRole = "gatehouse:decisions-viewer"
	// ServerLabel is the label of a Decision that names its server.
	ServerLabel = "decisions.gatehouse.dev/server"
	// AuditIDAnnotation has the audit ID of the request, if the ID can't be the Decision's name.
	AuditIDAnnotation = "decisions.gatehouse.dev/audit-id"
)

// AddToScheme makes scheme know the kinds of this package.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(SchemeGroupVersion, &Decision{}, &DecisionList{})
	metav1.AddToGroupVersion(scheme, SchemeGroupVersion)
	return scheme.AddFieldLabelConversionFunc(SchemeGroupVersion.WithKind("Decision"), fieldLabel)
}
