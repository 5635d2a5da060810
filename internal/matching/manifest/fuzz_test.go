// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/yaml"

	"gatehouse.dev/apiserver/manifests"
)

// Whatever is in a file, it is refused with a reason, or what is in force is valid, in order, and
// reads as itself.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		"", "---\n---\n", "# Nothing.", "null", "[]", "a: b", "{", "\x00", "k8s\x00", "\xff\xfe{\x00", "a: &a [*a]",
		"apiVersion: v1\nkind: List\nitems: [null, 1, {}]",
		mutatingOf("a.static.k8s.io", minimal),
		mutatingOf("b.static.k8s.io") + "---\n" + mutatingOf("a.static.k8s.io", minimal, minimal),
		mutatingOf("a.static.k8s.io"), mutatingOf("a.static.k8s.io", "null"),
		mutatingOf("a.static.k8s.io",
			`{rules: [null], matchConditions: [null], clientConfig: {url: "%", caBundle: YWJj}}`),
		mutatingOf("a.static.k8s.io", strings.Replace(minimal, "{",
			`{rules: [{operations: ["*"], apiGroups: ["*"], apiVersions: ["*"], resources: ["pods/*", "*/*", "", `+
				`a/b/c]}], `, 1)),
		mutatingOf("a.static.k8s.io", strings.Replace(minimal, "{",
			`{matchConditions: [{name: a, expression: "object.metadata.name.startsWith('a') || [1].all(x, x > 0)"}], `,
			1)),
		mutatingOf("a.static.k8s.io", strings.Replace(minimal, "{",
			`{timeoutSeconds: -1, objectSelector: {matchExpressions: [{key: a, operator: In}]}, `, 1)),
		`{"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "v1", "kind": "List", "items": ` +
			`[{"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration", "metadata": ` +
			`{"name": "a.static.k8s.io"}}]}]}`,
		validatingOf("a.static.k8s.io", minimal),
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		objects, err := decodeAll(MutatingWebhooks, manifests.Validate, []file{{"a.yaml", data}})
		if err != nil {
			if objects != nil || err.Error() == "" {
				t.Errorf("%v, and %v", err, objects)
			}
			return
		}
		if !slices.IsSortedFunc(objects, func(a, b Object) int { return strings.Compare(a.GetName(), b.GetName()) }) {
			t.Error("not in the order of names")
		}
		var again []string
		for _, object := range objects {
			c := object.(mutating)
			if errs := manifests.Validate(c); len(errs) > 0 || !strings.HasSuffix(c.Name, nameSuffix) {
				t.Errorf("in force: %s: %v", c.Name, errs)
			}
			c = c.DeepCopy()
			c.SetGroupVersionKind(admissionregistrationv1.SchemeGroupVersion.WithKind("MutatingWebhookConfiguration"))
			text, err := yaml.Marshal(c)
			if err != nil {
				t.Fatal(err)
			}
			again = append(again, string(text))
		}
		reread, err := decodeAll(MutatingWebhooks, manifests.Validate,
			[]file{{"a.yaml", []byte(strings.Join(again, "---\n"))}})
		if err != nil {
			t.Fatal(err)
		}
		if !equality.Semantic.DeepEqual(objects, reread) {
			t.Errorf("-read +read again:\n%s", cmp.Diff(objects, reread))
		}
	})
}
