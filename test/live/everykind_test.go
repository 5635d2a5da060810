// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/util/retry"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/featuregate"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"sigs.k8s.io/yaml"

	"gatehouse.dev/apis/decisions/v1alpha1"
	"gatehouse.dev/cmd/gatehouse/compiled"
	"gatehouse.dev/internal/review/input"
	"gatehouse.dev/review"
	"gatehouse.dev/test/servertest"
)

// everyKind are flags with which a server serves all kinds that it may.
var everyKind = []string{"--disable-admission-plugins=ServiceAccount,StorageObjectInUseProtection",
	"--runtime-config=api/all=true,policy/v1beta1/podsecuritypolicies=true,settings.k8s.io/v1alpha1=true"}

// gates are those that some kinds need.
var gates = []featuregate.Feature{"CSIVolumeHealth", "ClusterTrustBundle", "GenericWorkload", "PodCertificateRequest",
	"StorageVersionMigrator"}

// An object of every kind that a server may serve, with a status if the kind has one, is state as
// kubectl prints it: the server has it as it is printed, with its status, its UID and its age.
func TestEveryKindIsState(t *testing.T) {
	names, overrides := []string{}, featuregatetesting.FeatureOverrides{}
	for _, gate := range gates {
		names, overrides[gate] = append(names, string(gate)+"=true"), true
	}
	p := servertest.NewProcess(t, append(slices.Clone(everyKind), "--feature-gates="+strings.Join(names, ","))...)
	p.Start(t)
	printed := everyObject(t, p.Connect(t))

	featuregatetesting.SetFeatureGatesDuringTest(t, utilfeature.DefaultFeatureGate, overrides)
	flags := review.NewFlags(compiled.Plugins)
	var groups cliflag.NamedFlagSets
	flags.Add(&groups)
	fs := pflag.NewFlagSet("review", pflag.ContinueOnError)
	for _, name := range groups.Order {
		fs.AddFlagSet(groups.FlagSets[name])
	}
	if err := fs.Parse(everyKind); err != nil {
		t.Fatal(err)
	}
	options, err := flags.Options()
	if err != nil {
		t.Fatal(err)
	}
	state := parsed(t, printed)
	options.State, options.Pods = state, false
	r, err := review.Start(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	// An update that changes nothing shows what is there.
	var documents []input.Document
	for _, d := range state {
		if object := d.Object; object.GetName() != "kubernetes" {
			documents = append(documents, d)
		}
	}
	judged, err := r.With(nil, review.Update).Review(t.Context(), documents, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, result := range judged.Results {
		if result.Verdict != v1alpha1.Admitted {
			t.Errorf("%s: %s", result.Object, result.Message)
			continue
		}
		if diff := cmp.Diff(comparable(result.Sent), comparable(result.Stored)); diff != "" {
			t.Errorf("%s: -printed +loaded:\n%s", result.Object, diff)
		}
	}
}

// comparable is an object without what each server has of its own.
func comparable(o *unstructured.Unstructured) map[string]any {
	o = o.DeepCopy()
	o.SetResourceVersion("")
	o.SetManagedFields(nil)
	switch o.GetKind() {
	case "ResourceQuota": // its usage goes by its UID
		o.SetUID("")
	// What the server does with these their status says.
	case "CustomResourceDefinition", "APIService":
		unstructured.RemoveNestedField(o.Object, "status", "conditions")
		unstructured.RemoveNestedField(o.Object, "status", "acceptedNames")
	}
	return o.Object
}

// parsed are the documents of a text.
func parsed(t *testing.T, text string) []input.Document {
	t.Helper()
	documents, errs := input.Read([]string{"-"}, strings.NewReader(text))
	if errs != nil {
		t.Fatal(errs)
	}
	return documents
}

// everyObject makes an object of each resource, with a status, and returns them as kubectl prints
// them.
func everyObject(t *testing.T, c *servertest.Cluster) string {
	t.Helper()
	contents := servertest.Everything(t)
	var statuses map[string]map[string]any
	text, err := os.ReadFile("testdata/statuses.yaml")
	if err == nil {
		err = yaml.UnmarshalStrict(text, &statuses)
	}
	if err != nil {
		t.Fatal(err)
	}
	namespace := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace"}}
	namespace.SetName("everything")
	definition := servertest.Parsed(t, `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition,
		metadata: {name: pandas.everything.example.com}, spec: {group: everything.example.com, scope: Namespaced,
		names: {plural: pandas, kind: Panda}, versions: [{name: v1, storage: true, served: true,
		subresources: {status: {}}, schema: {openAPIV3Schema: {type: object, properties: {
		spec: {type: object, x-kubernetes-preserve-unknown-fields: true},
		status: {type: object, properties: {phase: {type: string}}}}}}}]}}`)
	var printed []string
	for _, object := range []*unstructured.Unstructured{namespace, definition} {
		resource, _ := meta.UnsafeGuessKindToResource(object.GroupVersionKind())
		printed = append(printed, created(t, c, resource, object, nil))
	}
	pandas := schema.GroupVersionResource{Group: "everything.example.com", Version: "v1", Resource: "pandas"}
	servertest.Retry(t, "pandas to be discovered", func() error {
		_, err := c.Client.Discovery().ServerResourcesForGroupVersion(pandas.GroupVersion().String())
		return err
	})
	_, lists, err := c.Client.Discovery().ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	withStatus := map[string]bool{}
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range list.APIResources {
			name := strings.TrimSuffix(r.Name+"."+gv.Group, ".")
			if before, ok := strings.CutSuffix(r.Name, "/status"); ok {
				withStatus[strings.TrimSuffix(before+"."+gv.Group, ".")] = true
			}
			if verbs := r.Verbs; strings.Contains(r.Name, "/") || !slices.Contains(verbs, "create") ||
				!slices.Contains(verbs, "get") {
				continue
			}
			content := contents[r.Name+"."+gv.Version+"."+gv.Group]
			if content == nil {
				content = contents[name]
			}
			if content == nil {
				t.Errorf("everything.yaml has nothing to create one of %s", name)
				continue
			}
			object := (&unstructured.Unstructured{Object: content}).DeepCopy()
			object.SetGroupVersionKind(gv.WithKind(r.Kind))
			if object.GetName() == "" {
				object.SetName("every")
			}
			if r.Namespaced {
				object.SetNamespace("everything")
			}
			printed = append(printed, created(t, c, gv.WithResource(r.Name), object, statuses[name]))
		}
	}
	for name := range withStatus {
		if statuses[name] == nil {
			t.Errorf("testdata/statuses.yaml has no status of %s", name)
		}
	}
	if unserved := slices.DeleteFunc(slices.Collect(maps.Keys(statuses)), func(name string) bool {
		return withStatus[name]
	}); len(unserved) > 0 {
		t.Errorf("testdata/statuses.yaml has statuses of %v, which have none", unserved)
	}
	return strings.Join(printed, "---\n")
}

// created makes an object with a status, unless another version of its kind has made it, and
// returns it as kubectl prints it.
func created(t *testing.T, c *servertest.Cluster, resource schema.GroupVersionResource,
	object *unstructured.Unstructured, status map[string]any) string {
	t.Helper()
	client := c.Dynamic.Resource(resource).Namespace(object.GetNamespace())
	_, err := client.Create(t.Context(), object, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatalf("%s: %v", resource, err)
	}
	subresource := "status"
	if resource.Resource == "certificatesigningrequests" {
		subresource = "approval"
	}
	var now *unstructured.Unstructured
	err = retry.RetryOnConflict(retry.DefaultBackoff, func() error { // the server may write it meanwhile
		if now, err = client.Get(t.Context(), object.GetName(), metav1.GetOptions{}); err != nil || len(status) == 0 {
			return err
		}
		for field, value := range status {
			if err := unstructured.SetNestedField(now.Object, value, "status", field); err != nil {
				return err
			}
		}
		now, err = client.Update(t.Context(), now, metav1.UpdateOptions{}, subresource)
		return err
	})
	if err != nil {
		t.Errorf("the status of %s: %v", resource, err)
		return ""
	}
	text, err := yaml.Marshal(now)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
