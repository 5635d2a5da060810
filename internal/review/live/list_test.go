// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// pagesOf reads pages of names. expires says before which reads a token expires.
func pagesOf(pages [][]string, expires map[int]bool) pageReader {
	reads := 0
	return func(_ context.Context, options metav1.ListOptions) ([]*unstructured.Unstructured, string, error) {
		reads++
		at := 0
		if options.Continue != "" {
			if expires[reads] {
				return nil, "", apierrors.NewResourceExpired("compacted")
			}
			fmt.Sscan(options.Continue, &at)
		}
		var objects []*unstructured.Unstructured
		for _, name := range pages[at] {
			object := &unstructured.Unstructured{}
			object.SetName(name)
			objects = append(objects, object)
		}
		next := ""
		if at+1 < len(pages) {
			next = fmt.Sprint(at + 1)
		}
		return objects, next, nil
	}
}

// A list that expires between its pages is read again, and no object is told twice.
func TestExpiredListIsReadAgain(t *testing.T) {
	pages := [][]string{{"a", "b"}, {"c"}, {"d"}}
	var told []string
	do := func(object *unstructured.Unstructured) error {
		told = append(told, object.GetName())
		return nil
	}
	// The second read expires, and the fifth, which asks for the third page.
	if err := eachObject(t.Context(), pagesOf(pages, map[int]bool{2: true, 5: true}), do); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a", "b", "c", "d"}, told); diff != "" {
		t.Errorf("-want +told:\n%s", diff)
	}
}

// A list that expires again and again before it tells anything new is given up.
func TestListThatAlwaysExpires(t *testing.T) {
	n := 0
	err := eachObject(t.Context(), pagesOf([][]string{{"a"}, {"b"}}, map[int]bool{2: true, 4: true}),
		func(*unstructured.Unstructured) error { n++; return nil })
	if !apierrors.IsResourceExpired(err) || n != 1 {
		t.Errorf("%d objects, %v", n, err)
	}
}

// An error of the caller ends the list.
func TestCallerEndsList(t *testing.T) {
	want, n := errors.New("enough"), 0
	err := eachObject(t.Context(), pagesOf([][]string{{"a"}, {"b"}}, nil),
		func(*unstructured.Unstructured) error { n++; return want })
	if !errors.Is(err, want) || n != 1 {
		t.Errorf("%d objects, %v", n, err)
	}
}
