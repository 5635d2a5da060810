// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package decisions_test

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A patch of a Secret that fails is answered with what is in the Secret. The client may see that; a
// viewer of decisions may not.
func TestSecretsInMessages(t *testing.T) {
	c := shared()
	namespace := c.Namespace(t, nil)
	const plain = "correct horse battery staple"
	hidden := base64.StdEncoding.EncodeToString([]byte(plain))
	secrets := c.Client.CoreV1().Secrets(namespace)
	if _, err := secrets.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"},
		StringData: map[string]string{"a": plain}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	shown := 0 // to clients
	for _, patch := range []struct {
		kind types.PatchType
		body string
	}{
		{types.JSONPatchType, `[{"op":"replace","path":"/type","value":{"a":"` + hidden + `"}}]`},
		{types.JSONPatchType, `[{"op":"add","path":"/data/b","value":7}]`},
		{types.JSONPatchType, `[{"op":"add","path":"/metadata/labels","value":"x"}]`},
		{types.JSONPatchType, `[{"op":"test","path":"/data/a","value":"x"}]`},
		{types.MergePatchType, `{"metadata":"x"}`},
		{types.MergePatchType, `{"data":{"a":7}}`},
		{types.StrategicMergePatchType, `{"metadata":{"labels":"x"}}`},
		{types.StrategicMergePatchType, `{"data":["` + hidden + `"]}`},
		{types.StrategicMergePatchType, `{"$patch":"` + hidden + `"}`},
		{types.StrategicMergePatchType, `{"data":{"$patch":"` + hidden + `"}}`},
		{types.StrategicMergePatchType, `{"metadata":{"$patch":"` + hidden + `"}}`},
		{types.ApplyPatchType, `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"},"data":{"x":["` +
			hidden + `"]}}`},
		{types.ApplyPatchType, `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"},"type":{"` + hidden +
			`":1}}`},
		{types.MergePatchType, `{"data":{"a b":"` + hidden + `"}}`},
	} {
		options := metav1.PatchOptions{FieldManager: "test"}
		_, err := secrets.Patch(t.Context(), "s", patch.kind, []byte(patch.body), options)
		if err == nil {
			t.Errorf("%s: it is admitted", patch.body)
			continue
		}
		if strings.Contains(err.Error(), hidden) || strings.Contains(err.Error(), plain) {
			shown++
		}
	}
	if shown == 0 {
		t.Error("no answer shows the value, so that nothing had to be hidden")
	}
	after(t, c, namespace)
	all, err := list(t, c.Dynamic, namespace, "request.resource=secrets,request.name=s")
	if err != nil {
		t.Fatal(err)
	}
	refused := 0
	for _, d := range all {
		text, err := json.Marshal(d.Object)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), hidden) || strings.Contains(string(text), plain) {
			t.Errorf("a decision shows the value: %s", text)
		}
		if nestedString(d.Object, "verdict") != "Admitted" {
			refused++
		}
	}
	if refused < 13 {
		t.Errorf("%d of %d decisions are refusals", refused, len(all))
	}
}
