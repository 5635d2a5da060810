// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	policyv1beta1 "gatehouse.dev/removed/apis/policy/v1beta1"
	settingsv1alpha1 "gatehouse.dev/removed/apis/settings/v1alpha1"
)

// decode is an object as the server has it when it has read YAML of the kind: defaulted, and in the
// internal version.
func decode(t testing.TB, gv schema.GroupVersion, kind, content string) runtime.Object {
	t.Helper()
	object, err := runtime.Decode(StorageCodec, asJSON(t, "apiVersion: "+gv.String()+"\nkind: "+kind+"\n"+content))
	if err != nil {
		t.Fatalf("%s: %v", content, err)
	}
	return object
}

func asJSON(t testing.TB, content string) []byte {
	t.Helper()
	document, err := yaml.YAMLToJSON([]byte(content))
	if err != nil {
		t.Fatalf("%s: %v", content, err)
	}
	return document
}

func decodePolicy(t testing.TB, content string) *policyv1beta1.PodSecurityPolicy {
	t.Helper()
	return decode(t, policyv1beta1.SchemeGroupVersion, "PodSecurityPolicy", content).(*policyv1beta1.PodSecurityPolicy)
}

func decodePreset(t testing.TB, content string) *settingsv1alpha1.PodPreset {
	t.Helper()
	return decode(t, settingsv1alpha1.SchemeGroupVersion, "PodPreset", content).(*settingsv1alpha1.PodPreset)
}

// The defaults of pkg/apis/{policy,settings} of Kubernetes 1.24 and 1.19.
func TestDefaults(t *testing.T) {
	for _, test := range []struct{ object, want runtime.Object }{
		{decodePolicy(t, `spec: {}`), decodePolicy(t, `spec: {allowPrivilegeEscalation: true}`)},
		{decodePolicy(t, `spec: {allowPrivilegeEscalation: false}`),
			&policyv1beta1.PodSecurityPolicy{Spec: policyv1beta1.PodSecurityPolicySpec{AllowPrivilegeEscalation: new(
				bool)}}},
		{
			decodePreset(t,
				`spec: {volumes: [{name: e}, {name: s, secret: {secretName: s}}], env: [{name: FIELD, valueFrom: `+
					`{fieldRef: {fieldPath: metadata.name}}}]}`),
			decodePreset(t, `spec: {volumes: [{name: e, emptyDir: {}}, {name: s, secret: {secretName: s, defaultMode: 420}}],
				env: [{name: FIELD, valueFrom: {fieldRef: {apiVersion: v1, fieldPath: metadata.name}}}]}`),
		},
	} {
		if !reflect.DeepEqual(test.object, test.want) {
			t.Errorf("got  %v\nwant %v", test.object, test.want)
		}
	}
}

// Objects are stored as JSON in their version, and read as they were.
func TestStored(t *testing.T) {
	for kind, object := range map[string]runtime.Object{
		`"kind":"PodSecurityPolicy","apiVersion":"policy/v1beta1"`: decodePolicy(t,
			"metadata: {name: p}\nspec: {hostPorts: [{min: 1, max: 2}], runtimeClass: {allowedRuntimeClassNames: "+
				"[runc]}}"),
		`"kind":"PodPreset","apiVersion":"settings.k8s.io/v1alpha1"`: decodePreset(t,
			"metadata: {name: p, namespace: ns}\nspec: {env: [{name: A}]}"),
	} {
		stored, err := runtime.Encode(StorageCodec, object)
		if err != nil || !strings.HasPrefix(string(stored), "{"+kind) {
			t.Errorf("stored %s, %v", stored, err)
		}
		read, err := runtime.Decode(StorageCodec, stored)
		if err != nil || !reflect.DeepEqual(read, object) {
			t.Errorf("stored %v, read %v, %v", object, read, err)
		}
	}
}

func TestSerializer(t *testing.T) {
	var types []string
	for _, info := range Serializer.SupportedMediaTypes() {
		types = append(types, info.MediaType)
	}
	if !slices.Equal(types, []string{"application/json", "application/yaml"}) {
		t.Errorf("media types %q", types)
	}
}

func TestPodPresetGeneration(t *testing.T) {
	strategy := podPresetStrategy{newStrategy()}
	stored := decodePreset(t, `spec: {env: [{name: A}]}`)
	strategy.PrepareForCreate(context.Background(), stored)
	if stored.Generation != 1 {
		t.Errorf("created with generation %d", stored.Generation)
	}
	labelled := stored.DeepCopy()
	labelled.Labels, labelled.Generation = map[string]string{"a": "b"}, 7
	strategy.PrepareForUpdate(context.Background(), labelled, stored)
	changed := stored.DeepCopy()
	changed.Spec.Env[0].Value = "1"
	strategy.PrepareForUpdate(context.Background(), changed, stored)
	if labelled.Generation != 1 || changed.Generation != 2 || changed.Spec.Env[0].Value != "1" {
		t.Errorf("labelled: %d, changed: %d, %v", labelled.Generation, changed.Generation, changed.Spec)
	}
}

// The columns of printPodSecurityPolicy in pkg/printers/internalversion of Kubernetes 1.24.
func TestTable(t *testing.T) {
	policy := decodePolicy(t, `
metadata: {name: p}
spec: {privileged: true, allowedCapabilities: [A, B], volumes: [nfs, csi], seLinux: {rule: S}, runAsUser: {rule: U}, fsGroup: {rule: F}, supplementalGroups: {rule: G}}`)
	for name, object := range map[string]runtime.Object{"object": policy,
		"list": &policyv1beta1.PodSecurityPolicyList{Items: []policyv1beta1.PodSecurityPolicy{*policy}}} {
		table, err := podSecurityPolicyStore().TableConvertor.ConvertToTable(context.Background(), object,
			&metav1.TableOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var columns []string
		for _, column := range table.ColumnDefinitions {
			columns = append(columns, column.Name)
		}
		if got := strings.Join(columns,
			" "); got != "Name Priv Caps SELinux RunAsUser FsGroup SupGroup ReadOnlyRootFs Volumes" {
			t.Errorf("%s: columns %s", name, got)
		}
		if want := []any{"p", "true", "A,B", "S", "U", "F", "G", "false", "nfs,csi"}; len(table.Rows) != 1 ||
			!reflect.DeepEqual(table.Rows[0].Cells, want) {
			t.Errorf("%s: rows %v", name, table.Rows)
		}
	}
}

// Whatever somebody sends is valid or isn't.
func FuzzDecode(f *testing.F) {
	f.Add(`{"apiVersion":"policy/v1beta1","kind":"PodSecurityPolicy","metadata":{"name":"p",` +
		`"annotations":{"seccomp.security.alpha.kubernetes.io/allowedProfileNames":",*"}},` +
		`"spec":{"allowedUnsafeSysctls":["a*"],"forbiddenSysctls":["*",""],"runtimeClass":{}}}`)
	f.Add(`{"apiVersion":"settings.k8s.io/v1alpha1","kind":"PodPreset","metadata":{"name":"p"},` +
		`"spec":{"volumes":[{"name":"v","projected":{"sources":[{}]}},{}],"env":[{"valueFrom":{}}],` +
		`"volumeMounts":[{"name":"v","mountPropagation":"Bidirectional"}]}}`)
	f.Fuzz(func(t *testing.T, content string) {
		object, err := runtime.Decode(StorageCodec, []byte(content))
		if err != nil {
			return
		}
		switch object := object.(type) {
		case *policyv1beta1.PodSecurityPolicy:
			podSecurityPolicyStrategy{}.Validate(t.Context(), object)
			podSecurityPolicyStrategy{}.ValidateUpdate(t.Context(), object, object.DeepCopy())
		case *settingsv1alpha1.PodPreset:
			podPresetStrategy{}.Validate(t.Context(), object)
			podPresetStrategy{}.ValidateUpdate(t.Context(), object, object.DeepCopy())
		}
	})
}
