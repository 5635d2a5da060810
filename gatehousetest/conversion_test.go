// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package gatehousetest_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gatehouse.dev/gatehousetest"
	"gatehouse.dev/test/servertest"
)

// convert answers a ConversionReview: what is the author in v1 has written the book in v2.
func convert(w http.ResponseWriter, r *http.Request) {
	review := apiextensionsv1.ConversionReview{}
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	response := &apiextensionsv1.ConversionResponse{UID: review.Request.UID,
		Result: metav1.Status{Status: metav1.StatusSuccess}}
	for _, object := range review.Request.Objects {
		book := map[string]any{}
		if err := json.Unmarshal(object.Raw, &book); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		from, to := "author", "writtenBy"
		if review.Request.DesiredAPIVersion == "example.com/v1" {
			from, to = to, from
		}
		author, _, _ := unstructured.NestedString(book, "spec", from)
		book["apiVersion"], book["spec"] = review.Request.DesiredAPIVersion, map[string]any{to: author}
		converted, err := json.Marshal(book)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		response.ConvertedObjects = append(response.ConvertedObjects, runtime.RawExtension{Raw: converted})
	}
	review.Request, review.Response = nil, response
	_ = json.NewEncoder(w).Encode(review)
}

// The conversion webhook of a custom kind is the test's own, too, also where there is no other.
func TestConversionWebhook(t *testing.T) {
	srv := gatehousetest.Start(t)
	if err := srv.CRDs(t.Context(), "testdata/converted"); err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/convert", convert)
	if err := srv.Webhooks(t.Context(), mux); err != nil {
		t.Fatal(err)
	}
	admin := connect(t, srv.Config)
	book := func(version string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/" + version, "kind": "Book",
			"metadata": map[string]any{"name": "emma", "namespace": "default"}}}
	}
	first, second := book("v1"), book("v2")
	first.Object["spec"] = map[string]any{"author": "Austen"}
	if err := admin.Create(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	// The server asks where it is to a moment after it has been told.
	servertest.Retry(t, "the conversion", func() error {
		return admin.Get(t.Context(), client.ObjectKeyFromObject(second), second)
	})
	if author, _, _ := unstructured.NestedString(second.Object, "spec", "writtenBy"); author != "Austen" {
		t.Errorf("converted it is %v", second.Object)
	}
	if err := unstructured.SetNestedField(second.Object, "Jane Austen", "spec", "writtenBy"); err != nil {
		t.Fatal(err)
	}
	if err := admin.Update(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	if err := admin.Get(t.Context(), client.ObjectKeyFromObject(first), first); err != nil {
		t.Fatal(err)
	}
	if author, _, _ := unstructured.NestedString(first.Object, "spec", "author"); author != "Jane Austen" {
		t.Errorf("converted back it is %v", first.Object)
	}
}

// BenchmarkReset is of a server that a test has used: a namespace and a hundred objects more.
func BenchmarkReset(b *testing.B) {
	srv := gatehousetest.Start(b)
	before, err := srv.Checkpoint(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	clients := kubernetes.NewForConfigOrDie(servertest.Quick(srv.Config))
	for b.Loop() {
		b.StopTimer()
		if _, err := clients.CoreV1().Namespaces().Create(b.Context(),
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "used"}}, metav1.CreateOptions{}); err != nil {
			b.Fatal(err)
		}
		for i := range 100 {
			config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("made-", i)}}
			if _, err := clients.CoreV1().ConfigMaps("used").Create(b.Context(), config,
				metav1.CreateOptions{}); err != nil {
				b.Fatal(err)
			}
		}
		b.StartTimer()
		if err := before.Reset(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
