// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"gatehouse.dev/test/needs"
)

// plots are custom resources: v1 has an area as "3x4", v2 as width and height, and a webhook
// converts between them.
const plots = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: plots.garden.example}
spec:
  group: garden.example
  scope: Namespaced
  names: {plural: plots, singular: plot, kind: Plot, shortNames: [plt], categories: [garden]}
  conversion:
    strategy: Webhook
    webhook:
      conversionReviewVersions: [v1]
      clientConfig: {url: "URL", caBundle: CA}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: &subresources
      status: {}
      scale: {specReplicasPath: .spec.rows, statusReplicasPath: .status.rows, labelSelectorPath: .status.selector}
    additionalPrinterColumns:
    - {name: Area, type: string, jsonPath: .spec.area}
    - {name: Crop, type: string, jsonPath: .spec.crop}
    - {name: Rows, type: integer, jsonPath: .spec.rows, priority: 1}
    schema:
      openAPIV3Schema:
        type: object
        description: A plot is a piece of a garden.
        properties:
          spec:
            type: object
            required: [area]
            x-kubernetes-validations: [{rule: "self.crop != 'weed'", message: no weed in this garden}]
            properties:
              area: {type: string, pattern: "^[0-9]+x[0-9]+$", description: Width and height.}
              crop: {type: string, default: beans, enum: [beans, peas, weed]}
              rows: {type: integer, minimum: 0, default: 1}
          status: &status
            type: object
            properties:
              rows: {type: integer}
              selector: {type: string}
              conditions:
                type: array
                items: {type: object, properties: {type: {type: string}, status: {type: string}}}
  - name: v2
    served: true
    storage: false
    subresources: *subresources
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            required: [width, height]
            properties:
              width: {type: integer}
              height: {type: integer}
              crop: {type: string, default: beans, enum: [beans, peas, weed]}
              rows: {type: integer, minimum: 0, default: 1}
          status: *status
`

const plot = `
apiVersion: garden.example/v1
kind: Plot
metadata: {name: south, labels: {side: south}}
spec: {area: 3x4}
`

func TestKubectlCustomResources(t *testing.T) {
	t.Parallel()
	needs.Programs(t, "diff")
	k := onShared(t, "custom")
	url, ca := serveTLS(t, http.HandlerFunc(convertPlots))
	definition := strings.NewReplacer("URL", url+"/convert", "CA", base64.StdEncoding.EncodeToString(ca)).Replace(plots)
	k.with(definition).says("apply -f -", "customresourcedefinition.apiextensions.k8s.io/plots.garden.example created")
	k.says("wait --for=condition=Established crd/plots.garden.example --timeout=100s", "condition met")
	eventually(t, kubectlTimeout, func(context.Context) error {
		if out, errors, _ := k.run("api-resources --api-group=garden.example --no-headers"); out == "" {
			return fmt.Errorf("not in discovery yet: %s", errors)
		}
		return nil
	})
	// what a client takes that names no version
	k.says("api-resources --api-group=garden.example", "plots plt garden.example/v2 true Plot")
	eventuallySays(k, "explain plot.spec.area --api-version=garden.example/v1", "KIND: Plot", "FIELD: area <string>",
		"Width and height.")
	k.says("explain plot --api-version=garden.example/v1", "A plot is a piece of a garden.")

	k.with(plot).says("apply -f -", "plot.garden.example/south created")
	k.with(plot).says("apply -f -", "plot.garden.example/south unchanged")
	k.has("plots.v1.garden.example/south", "{.spec}", `{"area":"3x4","crop":"beans","rows":1}`)
	k.says("get plots.v1.garden.example", "NAME AREA CROP", "south 3x4 beans")
	k.says("get plots.v1.garden.example -o wide", "NAME AREA CROP ROWS", "south 3x4 beans 1")
	k.says("get garden -o name", "plot.garden.example/south")
	k.says("get plt -l side=south -o yaml", "crop: beans")
	k.says("describe plot south", "Name: south", "API Version: garden.example/")

	// Conversion, there and back.
	k.has("plots.v2.garden.example/south", "{.apiVersion} {.spec.width} {.spec.height}", "garden.example/v2 3 4")
	k.with("apiVersion: garden.example/v2\nkind: Plot\nmetadata: {name: north}\nspec: {width: 5, height: 6, crop: "+
		"peas}\n").
		says("create -f -", "plot.garden.example/north created")
	k.has("plots.v1.garden.example/north", "{.spec.area} {.spec.crop}", "5x6 peas")
	k.says("get plots.v1.garden.example", "north 5x6 peas", "south 3x4 beans")

	// Pruning and validation.
	odd := strings.Replace(plot, "area: 3x4", "area: 3x4, fence: high", 1)
	k.with(odd).fails("apply -f -", `strict decoding error: unknown field "spec.fence"`)
	k.with(odd).says("apply --validate=ignore -f -", "configured")
	k.has("plots.v1.garden.example/south", "{.spec}", `{"area":"3x4","crop":"beans","rows":1}`)
	k.with(strings.Replace(plot, "3x4", "large", 1)).fails("apply -f -",
		`The Plot "south" is invalid: spec.area: Invalid value: "large"`, "should match")
	k.with(strings.Replace(plot, "area: 3x4", "area: 3x4, crop: tulips", 1)).fails("apply -f -",
		`spec.crop: Unsupported value: "tulips": supported values: "beans", "peas"`)
	k.with(strings.Replace(plot, "area: 3x4", "area: 3x4, crop: weed", 1)).fails("apply -f -", "no weed in this garden")
	k.with(strings.Replace(plot, "area: 3x4", "crop: peas", 1)).fails("create --dry-run=server -f -",
		"spec.area: Required value")

	// The verbs.
	k.says("label plots.v1.garden.example south sun=yes", "labeled")
	k.says("annotate plots.v1.garden.example south note=kept", "annotated")
	k.says("scale plots.v1.garden.example south --replicas=3", "scaled")
	k.says(`patch plots.v1.garden.example south --type=merge -p {"spec":{"crop":"peas"}}`, "patched")
	k.editor("s/area: 3x4/area: 7x8/").says("edit plots.v1.garden.example south", "edited")
	k.has("plots.v1.garden.example/south",
		"{.metadata.labels.sun} {.metadata.annotations.note} {.spec.area} {.spec.crop} {.spec.rows} "+
			"{.metadata.generation}", "yes kept 7x8 peas 3 4")
	k.with(plot).fails("diff -f -", "-  area: 7x8", "+  area: 3x4")
	k.with("apiVersion: garden.example/v1\nkind: Plot\nmetadata: {name: south}\nspec: {area: 1x1}\n").
		fails("apply --server-side --field-manager=other -f -", ".spec.area")
	k.with("apiVersion: garden.example/v1\nkind: Plot\nmetadata: {name: west}\nspec: {area: 1x1}\n").
		says("apply --server-side --field-manager=other -f -", "plot.garden.example/west serverside-applied")
	k.says("auth can-i create plots.garden.example", "yes")
	k.fails("auth can-i create plots.garden.example --as=jane", "no")

	// The status is a subresource: an update of the object leaves it alone, and the other way
	// round.
	k.waitsWhile("wait --for=condition=Ripe plots.v1.garden.example/south --timeout=100s", func() {
		k.says(`patch plots.v1.garden.example south --subresource=status --type=merge -p `+
			`{"spec":{"area":"9x9"},"status":{"rows":2,"selector":"app=x","conditions":[{"type":"Ripe",`+
			`"status":"True"}]}}`, "patched")
	})
	k.says(`patch plots.v1.garden.example south --type=merge -p {"status":{"rows":9}}`, "patched (no change)")
	k.has("plots.v1.garden.example/south", "{.spec.area} {.status.rows}", "7x8 2")
	k.has("--subresource=scale plots.v1.garden.example/south",
		"{.kind} {.spec.replicas} {.status.replicas} {.status.selector}", "Scale 3 2 app=x")

	watching := k.begin("get plots.v1.garden.example -w --no-headers --output-watch-events")
	if _, err := watching.await(watching.stdout, `ADDED +south +7x8 +peas`, kubectlTimeout); err != nil {
		t.Error(err)
	}
	k.says("delete plot north", "deleted")
	if _, err := watching.await(watching.stdout, `DELETED +north`, kubectlTimeout); err != nil {
		t.Error(err)
	}
	k.fails("get plot north", `plots.garden.example "north" not found`)

	// With the definition go its objects, the discovery and the documentation.
	k.says("delete crd plots.garden.example", "deleted")
	k.gone("crd/plots.garden.example")
	eventually(t, kubectlTimeout, func(context.Context) error {
		if out, _, _ := k.run("api-resources --api-group=garden.example -o name"); out != "" {
			return fmt.Errorf("still in discovery: %s", out)
		}
		return nil
	})
	k.fails("get plots", `the server doesn't have a resource type "plots"`)
}

// eventuallySays is says for what takes the server a moment to serve.
func eventuallySays(k kubectl, line string, words ...string) {
	k.t.Helper()
	eventually(k.t, kubectlTimeout, func(context.Context) error {
		if out, errors, code := k.run(line); code != 0 {
			return fmt.Errorf("%s%s", out, errors)
		}
		return nil
	})
	k.says(line, words...)
}

// convertPlots is the conversion webhook.
func convertPlots(w http.ResponseWriter, r *http.Request) {
	var review apiextensionsv1.ConversionReview
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	response := &apiextensionsv1.ConversionResponse{UID: review.Request.UID,
		Result: metav1.Status{Status: metav1.StatusSuccess}}
	for _, raw := range review.Request.Objects {
		var object unstructured.Unstructured
		err := json.Unmarshal(raw.Raw, &object.Object)
		if err == nil {
			err = convertPlot(object.Object, review.Request.DesiredAPIVersion)
		}
		if err != nil {
			response.Result = metav1.Status{Status: metav1.StatusFailure, Message: err.Error()}
			break
		}
		response.ConvertedObjects = append(response.ConvertedObjects, runtime.RawExtension{Object: &object})
	}
	review.Request, review.Response = nil, response
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(review)
}

func convertPlot(object map[string]any, version string) error {
	spec, _ := object["spec"].(map[string]any)
	if object["apiVersion"] == version || spec == nil {
		object["apiVersion"] = version
		return nil
	}
	object["apiVersion"] = version
	if version == "garden.example/v2" {
		var width, height int64
		if _, err := fmt.Sscanf(fmt.Sprint(spec["area"]), "%dx%d", &width, &height); err != nil {
			return fmt.Errorf("area %v: %w", spec["area"], err)
		}
		spec["width"], spec["height"] = width, height
		delete(spec, "area")
		return nil
	}
	spec["area"] = fmt.Sprintf("%vx%v", spec["width"], spec["height"])
	delete(spec, "width")
	delete(spec, "height")
	return nil
}
