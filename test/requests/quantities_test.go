// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package requests_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A quantity that takes minutes to parse, or to compare, is refused as one that can't be parsed is.
// One that never ends would be answered by a timeout, after 60 seconds.
func TestLongQuantities(t *testing.T) {
	const pods, deployments = "/api/v1/namespaces/quantities/pods", "/apis/apps/v1/namespaces/quantities/deployments"
	send := func(method, path, contentType, body string) answer {
		t.Helper()
		a, err := shared.do(t.Context(),
			request{method: method, path: path, contentType: contentType, body: []byte(body)})
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	send("POST", "/api/v1/namespaces", jsonType, `{"metadata":{"name":"quantities"}}`)
	pod := func(cpu string) string {
		return `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i",` +
			`"resources":{"limits":{"cpu":` + cpu + `}}}]}}`
	}
	deployment := `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d"},"spec":{"selector":` +
		`{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},` + strings.TrimPrefix(
		pod(`"1"`), `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},`) + `}}`
	for path, body := range map[string]string{pods: pod(`"1"`), deployments: deployment} {
		if a := send("POST", path, jsonType, body); a.code != http.StatusCreated {
			t.Fatal(a)
		}
	}
	limits := func(cpu string) string { return `[{"name":"c","resources":{"limits":{"cpu":` + cpu + `}}}]` }
	template := func(cpu string) string { return `{"spec":{"template":{"spec":{"containers":` + limits(cpu) + `}}}}` }
	typed := `{"apiVersion":"apps/v1","kind":"Deployment",`
	claim := `{"metadata":{"name":"c"},"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":%s}}}}`
	for name, r := range map[string]struct {
		method, path, contentType string
		body                      func(quantity string) string
	}{
		"JSON": {"POST", pods, jsonType, pod},
		"YAML": {"POST", pods, yamlType, func(q string) string { return "# YAML\n" + pod(q) }},
		"protobuf": {"POST", pods, protobufType, func(q string) string {
			return protobuf("v1", "Pod", protobufPod(t, strings.Trim(q, `"`)))
		}},
		"dry run": {"POST", pods + "?dryRun=All", jsonType, pod},
		"update":  {"PUT", pods + "/p", jsonType, pod},
		"resize":  {"PUT", pods + "/p/resize", jsonType, pod},
		"quota": {"POST", "/api/v1/namespaces/quantities/resourcequotas", jsonType, func(q string) string {
			return `{"metadata":{"name":"q"},"spec":{"hard":{"pods":` + q + `}}}`
		}},
		"claim": {"POST", "/api/v1/namespaces/quantities/persistentvolumeclaims", jsonType, func(q string) string {
			return fmt.Sprintf(claim, q)
		}},
		"emptyDir": {"POST", pods, jsonType, func(q string) string {
			return `{"metadata":{"name":"p"},"spec":{"volumes":[{"name":"v","emptyDir":{"sizeLimit":` + q + `}}]}}`
		}},
		"JSON patch": {"PATCH", pods + "/p", jsonPatchType, func(q string) string {
			return `[{"op":"add","path":"/spec/containers/0/resources/limits/cpu","value":` + q + `}]`
		}},
		"merge patch":           {"PATCH", deployments + "/d", mergePatchType, template},
		"strategic merge patch": {"PATCH", deployments + "/d", strategicPatchType, template},
		"resize by patch": {"PATCH", pods + "/p/resize", strategicPatchType, func(q string) string {
			return `{"spec":{"containers":` + limits(q) + `}}`
		}},
		"escaped in a patch": {"PATCH", deployments + "/d", strategicPatchType, func(q string) string {
			return template(strings.Replace(q, `"1`, `"\u0031`, 1))
		}},
		"apply": {"PATCH", deployments + "/d?fieldManager=x&force=true", applyPatchType, func(q string) string {
			return typed + `"metadata":{"name":"d"},` + strings.TrimPrefix(template(q), "{")
		}},
		"apply YAML": {"PATCH", deployments + "/d?fieldManager=x&force=true", applyPatchType, func(q string) string {
			return "# YAML\n" + typed + `"metadata":{"name":"d"},` + strings.TrimPrefix(template(q), "{")
		}},
		"status": {"PATCH", "/api/v1/namespaces/quantities/pods/p/status", strategicPatchType, func(q string) string {
			return `{"status":{"containerStatuses":[{"name":"c","allocatedResources":{"cpu":` + q + `}}]}}`
		}},
	} {
		t.Run(name, func(t *testing.T) {
			want := send(r.method, r.path, r.contentType, r.body(`"abc"`)).status()
			for _, quantity := range []string{`"` + strings.Repeat("1", 1_000_000) + `"`, `"1e99999999"`,
				`"1e-99999999"`} {
				a := send(r.method, r.path, r.contentType, r.body(quantity))
				got := a.status()
				wanted := want.Code
				if r.contentType == applyPatchType {
					wanted = http.StatusUnprocessableEntity // Kubernetes' 500 blames the server
				}
				if got.Code != wanted || !strings.Contains(got.Message, "quantities must match") ||
					got.Code == http.StatusBadRequest && got.Message != want.Message {
					t.Errorf("%.20s: got  %d %.300s\nwant %d %.300s", quantity, got.Code, got.Message, wanted,
						want.Message)
				}
			}
		})
	}
	// What isn't a quantity may have as many digits as there is room for.
	digits := strings.Repeat("1", 200_000)
	for name, r := range map[string][4]string{
		"data": {"POST", "/api/v1/namespaces/quantities/configmaps", jsonType,
			`{"metadata":{"name":"c","annotations":{"a":"` + digits + `"}},"data":{"a":"` + digits +
				`","b":"1e99999999"}}`},
		"protobuf": {"POST", "/api/v1/namespaces/quantities/configmaps", protobufType,
			protobuf("v1", "ConfigMap", protobufConfigMap(t, digits))},
		"strategic merge patch": {"PATCH", deployments + "/d", strategicPatchType,
			`{"metadata":{"annotations":{"a":"` + digits + `","b":"1e99999999"}}}`},
		"apply": {"PATCH", deployments + "/d?fieldManager=y&force=true", applyPatchType,
			typed + `"metadata":{"name":"d","annotations":{"a":"` + digits + `","b":"1e99999999"}}}`},
	} {
		a := send(r[0], r[1], r[2], r[3])
		if a.code != 200 && a.code != 201 || !strings.Contains(string(a.body), digits) {
			t.Errorf("%s: %.300s", name, a)
		}
	}
}

// protobufPod returns a pod whose limit is written by hand, as only a client can that means harm.
func protobufPod(t *testing.T, quantity string) []byte {
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}}
	encoded, err := pod.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	limits := field(1, field(1, "cpu")+field(2, field(1, quantity)))
	return append(encoded, field(2, field(2, field(1, "c")+field(2, "i")+field(8, limits)))...)
}

func protobufConfigMap(t *testing.T, text string) []byte {
	encoded, err := (&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "p"},
		Data: map[string]string{"a": text}}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return encoded
}

// field returns a field of a message in protobuf that has a text.
func field(number byte, content string) string {
	encoded := []byte{number<<3 | 2}
	n := len(content)
	for ; n >= 0x80; n >>= 7 {
		encoded = append(encoded, byte(n)|0x80)
	}
	return string(append(encoded, byte(n))) + content
}
