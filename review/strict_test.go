// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package review_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gatehouse.dev/review"
)

const misspelt = "kind: Service\napiVersion: v1\nmetadata: {name: s, namespace: shop}\n" +
	"spec: {ports: [{port: 80, protocl: TCP}], extrenalIPs: [1.2.3.4], x: y}\n"

// An object with a field that its kind doesn't have is refused, as kubectl apply has it refused,
// unless the user wants another validation.
// Source: kubectl apply -f with --validate=strict, warn and ignore, of version 1.32.
func TestUnknownFields(t *testing.T) {
	const (
		correct = "kind: Service\napiVersion: v1\nmetadata: {name: s, namespace: shop}\nspec: {ports: [{port: 80}]}\n"
		fields  = `unknown field "spec.extrenalIPs", unknown field "spec.ports[0].protocl", unknown field "spec.x"`
		remedy  = "          to pass: Correct the fields or remove them (spec.extrenalIPs: did you mean " +
			"\"externalIPs\"? spec.ports[0].protocl: did you mean \"protocol\"?). With --validate=warn the server " +
			"drops them.\n"
		handled  = "          Service in version \"v1\" cannot be handled as a Service: strict decoding error: "
		refused  = "0 admitted, 1 refused, 0 failed\n"
		admitted = "1 admitted, 0 refused, 0 failed\n"
		gate     = "kind: Gate\napiVersion: example.com/v1\nmetadata: {name: g, namespace: shop}\nspec: {opne: true}\n"
		gates    = `
kind: CustomResourceDefinition
apiVersion: apiextensions.k8s.io/v1
metadata: {name: gates.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: gates, kind: Gate}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties: {spec: {type: object, properties: {open: {type: boolean}}}}
`
	)
	with := func(validation string, operation review.Operation) func(*review.Options) {
		return func(o *review.Options) { o.FieldValidation, o.Operation = validation, operation }
	}
	for name, test := range map[string]struct {
		state   []string
		input   string
		options func(*review.Options)
		want    string
	}{
		"created": {[]string{shop}, misspelt, nil, "refused   Service shop/s  -:1\n" +
			handled + fields + "\n" +
			remedy + refused},
		"updated": {[]string{shop, correct}, misspelt, nil, "refused   Service shop/s  -:1\n" +
			"          strict decoding error: " + fields + "\n" + remedy + refused},
		"replaced": {[]string{shop, correct}, misspelt, with("", review.Update), "refused   Service shop/s  -:1\n" +
			handled + fields + "\n" +
			remedy + refused},
		"deleted": {[]string{shop, correct}, misspelt, with("", review.Delete), "admitted  Service shop/s  -:1\n" +
			admitted},
		"with a warning": {[]string{shop}, misspelt, with(metav1.FieldValidationWarn, ""),
			"admitted  Service shop/s  -:1\n" +
				"          warning: unknown field \"spec.extrenalIPs\"\n" +
				"          warning: unknown field \"spec.ports[0].protocl\"\n" +
				"          warning: unknown field \"spec.x\"\n" + admitted},
		"dropped": {[]string{shop}, misspelt, with(metav1.FieldValidationIgnore, ""),
			"admitted  Service shop/s  -:1\n" + admitted},
		"of a custom resource": {[]string{shop, gates}, gate, nil, "refused   Gate shop/g  -:1\n" +
			"          Gate in version \"v1\" cannot be handled as a Gate: strict decoding error: unknown field " +
			"\"spec.opne\"\n          to pass: Correct the field or remove it (spec.opne: did you mean \"open\"?). With " +
			"--validate=warn the server drops it.\n" + refused},
		"of a custom resource's metadata": {[]string{shop, gates},
			strings.NewReplacer("opne", "open", "name: g", "name: g, lables: {}").Replace(gate), nil,
			"refused   Gate shop/g  -:1\n          Gate in version \"v1\" cannot be handled as a Gate: strict " +
				"decoding error: unknown field \"metadata.lables\"\n          to pass: Correct the field or " +
				"remove it. With --validate=warn the server drops it.\n" + refused},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, judged(t, test.state, []string{test.input}, test.options)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// A server-side apply of what isn't an object of its kind is refused, although the server answers 500, and a merge
// patch with a value of another type is refused with the field's name, as the creation is.
func TestFieldsOfApply(t *testing.T) {
	object := func(containers string) string {
		return "kind: Deployment\napiVersion: apps/v1\nmetadata: {name: w, namespace: shop}\nspec: {selector: " +
			"{matchLabels: {a: w}}, template: {metadata: {labels: {a: w}}, spec: {containers: [{name: c, image: i, " +
			containers + "}]}}}\n"
	}
	stored := object("env: [{name: X, value: a}]")
	const not = "          failed to create typed patch object (shop/w; apps/v1, Kind=Deployment): " +
		`.spec.template.spec.containers[name="c"]`
	const remedy = "          to pass: No plugin refused it: correct in what was applied the fields that the message names. " +
		"They are unknown, twice there, or of another type.\n"
	for name, test := range map[string]struct {
		input     string
		operation review.Operation
		want      string
	}{
		"misspelt": {object("imagePulPolicy: Always"), review.Apply, not + ".imagePulPolicy: field not declared in schema\n" +
			"          to pass: Correct what the message names or remove it " +
			"(spec.template.spec.containers[0].imagePulPolicy: did you mean \"imagePullPolicy\"?).\n"},
		"of another type": {object("env: [{name: X, value: 1}]"), review.Apply,
			not + `.env[name="X"].value: expected string, got &value.valueUnstructured{Value:1}` + "\n" + remedy},
		"twice": {object("env: [{name: X}, {name: X}]"), review.Apply,
			not + `.env: duplicate entries for key [name="X"]` + "\n" + remedy},
		"of another type in a merge patch": {object("env: [{name: X, value: 1}]"), "",
			"          Deployment in version \"v1\" cannot be handled as a Deployment: json: cannot unmarshal number " +
				"into Go struct field EnvVar.spec.template.spec.containers.env.value of type string\n" +
				"          to pass: No plugin refused it: what came of it isn't a valid object. Change the fields named.\n"},
	} {
		t.Run(name, func(t *testing.T) {
			want := "refused   Deployment shop/w  -:1\n" + test.want + "0 admitted, 1 refused, 0 failed\n"
			got := judged(t, []string{shop, stored}, []string{test.input}, func(o *review.Options) {
				o.Operation = test.operation
			})
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// Where kubectl apply itself refuses an object that the server takes, a note says so, and what to
// use in its place.
func TestApplyNotes(t *testing.T) {
	config := func(size int) string {
		return "kind: ConfigMap\napiVersion: v1\nmetadata: {name: c, namespace: shop}\ndata: {a: " +
			strings.Repeat("x", size) + "}\n"
	}
	// What kubectl keeps besides the data, the name of the annotation included.
	const besides = len(`kubectl.kubernetes.io/last-applied-configuration{"apiVersion":"v1","data":{"a":""},` +
		`"kind":"ConfigMap","metadata":{"annotations":{},"name":"c","namespace":"shop"}}` + "\n")
	const tooLong = "note: -:1: ConfigMap c is too long for the annotation in which kubectl apply keeps what it has " +
		"applied (262096 bytes, and at most 262144 in all annotations): use kubectl apply --server-side\n"
	const noName = "note: -:1: ConfigMap c-… has no name, and kubectl apply takes no generateName: use " +
		"kubectl create\n"
	for name, test := range map[string]struct {
		input     string
		operation review.Operation
		want      string
	}{
		"as long as can be":    {config(256<<10 - besides), "", ""},
		"too long":             {config(256<<10 - besides + 1), "", tooLong},
		"created":              {config(256<<10 - besides + 1), review.Create, ""},
		"on the server's side": {config(256<<10 - besides + 1), review.Apply, ""},
		"without a name": {"kind: ConfigMap\napiVersion: v1\nmetadata: {generateName: c-, namespace: shop}\n", "",
			noName},
	} {
		t.Run(name, func(t *testing.T) {
			output := judged(t, []string{shop}, []string{test.input}, func(o *review.Options) {
				o.Operation = test.operation
			})
			var notes string
			for line := range strings.Lines(output) {
				if strings.HasPrefix(line, "note: ") {
					notes += line
				}
			}
			if diff := cmp.Diff(test.want, notes); diff != "" || !strings.Contains(output, "1 admitted, ") {
				t.Errorf("-want +got:\n%s%s", diff, output[:min(len(output), 500)])
			}
		})
	}
}
