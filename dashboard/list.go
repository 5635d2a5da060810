// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"context"
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"gatehouse.dev/apis/decisions/v1alpha1"
)

// readList requests a list of decisions, and passes on its first items while it reads the rest:
// reading ten thousand takes more than a second.
func readList(ctx context.Context, r *rest.Request, some func([]*v1alpha1.Decision)) (*metav1.List, error) {
	body, err := r.Stream(ctx)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	list := &metav1.List{}
	decoder := json.NewDecoder(body)
	err = members(decoder, func(name string) error {
		switch name {
		case "metadata":
			return decoder.Decode(&list.ListMeta)
		case "items":
			return readItems(decoder, list, some)
		}
		return decoder.Decode(&json.RawMessage{})
	})
	return list, err
}

// members calls read for each member of an object.
func members(decoder *json.Decoder, read func(name string) error) error {
	if _, err := decoder.Token(); err != nil {
		return err
	}
	for decoder.More() {
		name, err := decoder.Token()
		if err != nil {
			return err
		}
		text, _ := name.(string)
		if err := read(text); err != nil {
			return err
		}
	}
	_, err := decoder.Token() // that the list ends here, and wasn't cut off
	return err
}

func readItems(decoder *json.Decoder, list *metav1.List, some func([]*v1alpha1.Decision)) error {
	if start, err := decoder.Token(); err != nil || start == nil { // null is an empty list
		return err
	}
	var part []*v1alpha1.Decision
	for size := firstRows; decoder.More(); {
		d := &v1alpha1.Decision{}
		if err := decoder.Decode(d); err != nil {
			return err
		}
		list.Items = append(list.Items, runtime.RawExtension{Object: d})
		if part = append(part, d); len(part) == size {
			some(part)
			part, size = nil, partRows
		}
	}
	some(part)
	_, err := decoder.Token()
	return err
}
