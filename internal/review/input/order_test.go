// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package input_test

import (
	"cmp"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"gatehouse.dev/internal/review/input"
)

// What an object needs is taken before it, by whatever name or field it asks for it. Objects that
// name no namespace are in the namespace shop, but for those of the kinds that are in none.
func TestOrdered(t *testing.T) {
	const (
		pod     = "kind: Pod\napiVersion: v1\nmetadata: {name: p}\n"
		account = "kind: ServiceAccount\napiVersion: v1\nmetadata: {name: a}\n"
		class   = "kind: StorageClass\napiVersion: storage.k8s.io/v1\nmetadata: {name: fast}\n"
		isClass = "kind: StorageClass\napiVersion: storage.k8s.io/v1\nmetadata: {name: fast, annotations: " +
			"{storageclass.kubernetes.io/is-default-class: 'true'}}\n"
		claim    = "kind: PersistentVolumeClaim\napiVersion: v1\nmetadata: {name: c}\n"
		ingress  = "kind: Ingress\napiVersion: networking.k8s.io/v1\nmetadata: {name: i}\n"
		priority = "kind: PriorityClass\napiVersion: scheduling.k8s.io/v1\nmetadata: {name: high}\n"
		isNginx  = "kind: IngressClass\napiVersion: networking.k8s.io/v1\nmetadata: {name: nginx, annotations: " +
			"{ingressclass.kubernetes.io/is-default-class: 'true'}}\n"
		set = "kind: StatefulSet\napiVersion: apps/v1\nmetadata: {name: s}\nspec:\n" +
			"  template: {spec: {containers: []}}\n"
	)
	for name, test := range map[string]struct {
		first, second string
		swapped       bool
	}{
		"a service account": {pod + "spec: {serviceAccountName: a}\n", account, true},
		"by its old name":   {pod + "spec: {serviceAccount: a}\n", account, true},
		"by both, of which the new one counts": {pod + "spec: {serviceAccount: a, serviceAccountName: b}\n",
			account, false},
		"the default one": {pod + "spec: {}\n",
			strings.Replace(account, "name: a", "name: default", 1), true},
		"with its namespace": {pod + "spec: {serviceAccount: a}\n",
			account[:len(account)-2] + ", namespace: shop}\n", true},
		"of another namespace": {pod + "spec: {serviceAccount: a}\n",
			account[:len(account)-2] + ", namespace: x}\n", false},
		"a namespace that isn't named": {pod,
			"kind: Namespace\napiVersion: v1\nmetadata: {name: shop}\n", true},
		"another namespace": {pod,
			"kind: Namespace\napiVersion: v1\nmetadata: {name: x}\n", false},
		"an object of no namespace": {class,
			"kind: Namespace\napiVersion: v1\nmetadata: {name: shop}\n", false},
		"a priority":                        {pod + "spec: {priorityClassName: high}\n", priority, true},
		"the priority of all":               {pod + "spec: {}\n", priority + "globalDefault: true\n", true},
		"another priority":                  {pod + "spec: {}\n", priority, false},
		"a storage class":                   {claim + "spec: {storageClassName: fast}\n", class, true},
		"another one":                       {claim + "spec: {storageClassName: slow}\n", isClass, false},
		"the default one of claims":         {claim + "spec: {}\n", isClass, true},
		"none by default":                   {claim + "spec: {}\n", class, false},
		"no class, and not the default one": {claim + "spec: {storageClassName: ''}\n", isClass, false},
		"the class by its old annotation": {claim[:len(claim)-2] + ", " +
			"annotations: {volume.beta.kubernetes.io/storage-class: fast}}\n",
			class, true},
		"the class of a set's claims": {set + "  volumeClaimTemplates: [{spec: {storageClassName: fast}}]\n",
			class, true},
		"the class of a volume of its own": {pod + "spec: {volumes: [" +
			"{name: v, ephemeral: {volumeClaimTemplate: {spec: {}}}}]}\n",
			isClass, true},
		"an ingress, and the default class": {ingress + "spec: {}\n", isNginx, true},
		"one that names its class":          {ingress + "spec: {ingressClassName: x}\n", isNginx, false},
		"one that names it by an annotation": {ingress[:len(ingress)-2] + ", " +
			"annotations: {kubernetes.io/ingress.class: x}}\n",
			isNginx, false},
		"an ingress of another group": {"kind: Ingress\napiVersion: example.com/v1\nmetadata: {name: i}\n",
			isNginx, false},
	} {
		t.Run(name, func(t *testing.T) {
			documents, errs := input.Read([]string{"-"}, strings.NewReader(test.first+"---\n"+test.second))
			if len(documents) != 2 || errs != nil {
				t.Fatal(documents, errs)
			}
			ordered, notes := input.Ordered(documents, func(o *unstructured.Unstructured) string {
				if strings.HasSuffix(o.GetKind(), "Class") || o.GetKind() == "Namespace" {
					return ""
				}
				return cmp.Or(o.GetNamespace(), "shop")
			}, func(*unstructured.Unstructured) int { return 0 })
			swapped := ordered[0].Source != documents[0].Source
			if swapped != test.swapped || swapped != (len(notes) == 1) {
				t.Errorf("swapped: %v, want %v; the notes are %q", swapped, test.swapped, notes)
			}
		})
	}
}

// Objects of a lower rank come first, after what they need. One note names those that were moved before an object about
// which they may decide.
func TestOrderedByRank(t *testing.T) {
	documents, errs := input.Read([]string{"-"}, strings.NewReader(`kind: Deployment
apiVersion: apps/v1
metadata: {name: a, namespace: shop}
---
kind: ResourceQuota
apiVersion: v1
metadata: {name: q, namespace: shop}
---
kind: ResourceQuota
apiVersion: v1
metadata: {name: q, namespace: other}
---
kind: Namespace
apiVersion: v1
metadata: {name: shop}
`))
	if errs != nil {
		t.Fatal(errs)
	}
	ordered, notes := input.Ordered(documents, (*unstructured.Unstructured).GetNamespace,
		func(o *unstructured.Unstructured) int {
			return map[string]int{"ResourceQuota": 1, "Namespace": 2, "Deployment": 3}[o.GetKind()]
		})
	if diff := gocmp.Diff([]string{"-:13 Namespace", "-:5 ResourceQuota", "-:9 ResourceQuota", "-:1 Deployment"},
		kinds(ordered)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if diff := gocmp.Diff([]string{"-:13: Namespace shop is taken before -:1, which needs it",
		"taken first, because they decide about others: ResourceQuota q (-:5). A cluster that gets the objects in the order " +
			"of the files decides about the earlier ones without them"}, notes); diff != "" {
		t.Errorf("notes: -want +got:\n%s", diff)
	}
}

// An object is in the input twice also if one of its documents leaves the namespace to the flags.
func TestDistinct(t *testing.T) {
	documents, errs := input.Read([]string{"-"}, strings.NewReader("kind: A\napiVersion: v1\n"+
		"metadata: {name: a}\n---\nkind: A\napiVersion: v1\nmetadata: {name: a, namespace: shop}\n"))
	if errs != nil {
		t.Fatal(errs)
	}
	for namespace, want := range map[string]int{"shop": 1, "default": 2} {
		if distinct, errs := input.Distinct(documents, namespace); len(distinct) != want || len(errs) != 2-want {
			t.Errorf("in %s: %d are distinct, want %d: %v", namespace, len(distinct), want, errs)
		}
	}
}
