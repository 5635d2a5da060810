// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package shops is the kind Shop and its webhooks, as an operator has them that was made with kubebuilder.
// Its tests run on gatehousetest, and on envtest.
package shops

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the version of the kind.
var GroupVersion = schema.GroupVersion{Group: "example.com", Version: "v1"}

// A Shop is a place with tables.
type Shop struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec ShopSpec `json:"spec"`
}

// ShopSpec says what a Shop has.
type ShopSpec struct {
	// Owner owns the shop, and stays its owner.
	Owner string `json:"owner"`
	// Tables is the number of tables. The default is 4.
	Tables *int32 `json:"tables,omitempty"`
}

// ShopList is a list of shops.
type ShopList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Shop `json:"items"`
}

// AddToScheme adds the kind to a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &Shop{}, &ShopList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}

// DeepCopy returns a copy.
func (s *Shop) DeepCopy() *Shop {
	out := &Shop{TypeMeta: s.TypeMeta, ObjectMeta: *s.ObjectMeta.DeepCopy(), Spec: s.Spec}
	if s.Spec.Tables != nil {
		tables := *s.Spec.Tables
		out.Spec.Tables = &tables
	}
	return out
}

// DeepCopyObject returns a copy.
func (s *Shop) DeepCopyObject() runtime.Object { return s.DeepCopy() }

// DeepCopyObject returns a copy.
func (l *ShopList) DeepCopyObject() runtime.Object {
	out := &ShopList{TypeMeta: l.TypeMeta, ListMeta: *l.ListMeta.DeepCopy()}
	for i := range l.Items {
		out.Items = append(out.Items, *l.Items[i].DeepCopy())
	}
	return out
}
