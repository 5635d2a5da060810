// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"gatehouse.dev/apis/decisions/v1alpha1"
)

// Messages of the API show no values of objects but short ones of ordinary validation. The value
// "hush" is one that nobody may see.
func TestMessages(t *testing.T) {
	invalid := func(kind string, errs ...*field.Error) *apierrors.StatusError {
		return apierrors.NewInvalid(schema.GroupKind{Kind: kind}, "web", errs)
	}
	type template struct{ Data map[string]string }
	dump := template{map[string]string{"a": "hush"}}
	spec := field.NewPath("spec")
	for name, test := range map[string]struct {
		resource string
		err      error
		by       string
		want     string // what the client is told, if it is empty
	}{
		"an invalid number": {"pods", invalid("Pod", field.Invalid(spec.Child("priority"), 5, "must be 0")), "", ""},
		"a quantity": {"pods", invalid("Pod", field.Invalid(spec.Child("cpu"), "800m",
			"must be less than or equal to cpu limit of 500m")), "", ""},
		"two errors": {"pods", invalid("Pod", field.Required(spec.Child("image"), ""),
			field.NotSupported(spec.Child("policy"), "x", []string{"Always", "Never"})), "", ""},
		"a field that is called as a credential": {"databases",
			invalid("Database", field.Invalid(spec.Child("password"), "hush", "too short")), "",
			`Database "web" is invalid: spec.password: Invalid value: (not shown): too short`},
		"a key of a Secret": {"secrets",
			invalid("Secret", field.Invalid(field.NewPath("data"), "hush", "too long")), "",
			`Secret "web" is invalid: data: Invalid value: (not shown): too long`},
		"a Secret's name": {"secrets", invalid("Secret", field.Invalid(field.NewPath("metadata", "name"), "A b",
			"a lowercase name")), "", ""},
		"an immutable template": {"jobs", invalid("Job", field.Invalid(spec.Child("template"), dump,
			"field is immutable")), "",
			`Job "web" is invalid: spec.template: Invalid value: (not shown): field is immutable`},
		"a patch": {"secrets", invalid("Secret", field.Invalid(field.NewPath("patch"), fmt.Sprintf("%+v",
			map[string]any{"data": "hush"}), "unable to apply it")), "",
			`Secret "web" is invalid: patch: Invalid value: (not shown)`},
		"a Secret's label": {"secrets", invalid("Secret", field.Invalid(field.NewPath("metadata", "labels"), "hush",
			"a valid label")), "", `Secret "web" is invalid: metadata.labels: Invalid value: (not shown): a valid label`},
		"a directive in a patch": {"secrets", errors.New("unknown patch type: hush in map: map[$patch:hush]"), "",
			"unknown patch type: …"},
		"the difference of pods": {"pods", invalid("Pod", field.Forbidden(spec,
			"pod updates may not change fields other than `image`\n  core.PodSpec{\n- A: \"hush\"")), "",
			"Pod \"web\" is invalid: spec: Forbidden: pod updates may not change fields other than `image` …"},
		"a typed patch": {"secrets", apierrors.NewBadRequest("failed to create typed patch object (shop/web; /v1, " +
			`Kind=Secret): .data.x: expected string, got &value.valueUnstructured{Value:"hush"}`), "",
			"failed to create typed patch object (shop/web; /v1, Kind=Secret): …"},
		"a decoding error": {"secrets", apierrors.NewBadRequest(
			`Secret in version "v1" cannot be handled as a Secret: ` +
				`illegal base64 data in "hush"`), "",
			`Secret in version "v1" cannot be handled as a Secret: …`},
		"an unknown field": {"pods", apierrors.NewBadRequest(`Pod in version "v1" cannot be handled as a Pod: strict ` +
			`decoding error: unknown field "spec.foo"`), "", ""},
		"an internal error": {"secrets", apierrors.NewInternalError(errors.New(`[{"data":"hush"}]`)), "",
			"Internal error occurred: …"},
		"not found": {"secrets", apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, "web"), "", ""},
		"a quota":   {"secrets", errors.New("exceeded quota: q, requested: secrets=1"), "ResourceQuota", ""},
		"a policy":  {"pods", errors.New(`container "a" has the image "b"`), "ValidatingAdmissionPolicy", ""},
		"of a Secret": {"secrets", errors.New(`admission webhook "w" denied the request: "hush" is short`), "W",
			`admission webhook "w" denied the request: …`},
		"a policy of it": {"secrets",
			errors.New(`ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no 'hush'`), "V",
			`ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no …`},
	} {
		t.Run(name, func(t *testing.T) {
			status := &metav1.Status{Message: test.err.Error()}
			if known := apierrors.APIStatus(nil); errors.As(test.err, &known) {
				is := known.Status()
				status = &is
			}
			request := &v1alpha1.Request{Version: "v1", Resource: test.resource, Namespace: "shop", Name: "web"}
			hiding := secrets{schema.GroupResource{Resource: test.resource}, ValuesHidden}
			got := hiding.ofStatus(status, test.by, request)
			want := test.want
			if want == "" {
				want = status.Message
			}
			if got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
			if strings.Contains(got, "hush") {
				t.Error("it shows the value")
			}
		})
	}
}

// FuzzMessage looks for a message that shows a quoted value.
func FuzzMessage(f *testing.F) {
	f.Add("x is ", "wrong")
	f.Add(`a "b" c \" `, "")
	f.Fuzz(func(t *testing.T, before, after string) {
		const value = "hush-hush"
		if strings.Contains(before, value) || strings.Contains(after, value) {
			return
		}
		for _, quote := range []string{`"`, "'", "`"} {
			got := withoutValues(before+" is "+quote+value+quote+after, &v1alpha1.Request{Name: "web"})
			if strings.Contains(got, value) && !strings.ContainsAny(before, "\"'") {
				t.Errorf("%q and %q: %s", before, after, got)
			}
		}
	})
}

// The log of unhandled errors shows no object.
func TestWithoutObjects(t *testing.T) {
	for text, want := range map[string]string{
		`no PriorityClass with name "high"`:                     "",
		`couldn't write {"data":{"a":"hush"}}`:                  "couldn't write …",
		"an unexpected object: &v1.Secret{Data:map[a:[104]]}":   "an unexpected object: …",
		`unable to decode "` + strings.Repeat("hush", 50) + `"`: "unable to decode …",
	} {
		if want == "" {
			want = text
		}
		if got := withoutObjects(text); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// The page lists all variables whose values are shown, and no others.
func TestHarmlessVariablesAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/why.md")
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(page), "these variables\n  are: ")
	list, _, _ = strings.Cut(list, ".\n")
	var documented []string
	for _, name := range regexp.MustCompile("`([A-Z_]+)`").FindAllStringSubmatch(list, -1) {
		documented = append(documented, name[1])
	}
	if want := slices.Sorted(maps.Keys(harmlessVariables)); !slices.Equal(documented, want) {
		t.Errorf("the page has %v, want %v", documented, want)
	}
}
