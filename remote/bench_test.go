// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package remote_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gatehouse.dev/chain"
	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/plugintest"
	"gatehouse.dev/plugins/alwayspullimages"
	"gatehouse.dev/plugins/extendedresourcetoleration"
	"gatehouse.dev/plugins/limitpodhardantiaffinitytopology"
	"gatehouse.dev/plugins/podnodeselector"
	"gatehouse.dev/plugins/podtolerationrestriction"
	"gatehouse.dev/remote"
	"gatehouse.dev/telemetry"
	"gatehouse.dev/webhook/server"
)

// BenchmarkReview answers reviews that a kube-apiserver 1.36 sent of a Deployment's pod, with five
// plugins: to mutate one that three of them change, and to validate it when it is changed.
func BenchmarkReview(b *testing.B) {
	cluster := plugintest.NewCluster(b, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop",
		Annotations: map[string]string{
			"scheduler.alpha.kubernetes.io/node-selector": "env=prod",
			"scheduler.alpha.kubernetes.io/defaultTolerations": `[{"key":"dedicated","operator":"Equal",` +
				`"value":"shared","effect":"NoSchedule"}]`}}})
	c, err := chain.New([]plugin.Descriptor{alwayspullimages.Descriptor, limitpodhardantiaffinitytopology.Descriptor,
		podnodeselector.Descriptor, podtolerationrestriction.Descriptor, extendedresourcetoleration.Descriptor}, nil,
		cluster.Env, telemetry.Metrics())
	if err != nil {
		b.Fatal(err)
	}
	cluster.Env.Informers.Start(cluster.Env.Done)
	cluster.Env.Informers.WaitForCacheSync(cluster.Env.Done)
	for _, test := range []struct {
		name     string
		handler  server.FallibleHandler
		recorded string
	}{
		{"mutate", remote.Mutate(c), "testdata/mutate.json"},
		{"mutate again", remote.Mutate(c), "testdata/validate.json"},
		{"validate", remote.Validate(c), "testdata/validate.json"},
	} {
		body, err := os.ReadFile(test.recorded)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(test.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				w := httptest.NewRecorder()
				r := httptest.NewRequestWithContext(b.Context(), http.MethodPost, "/", bytes.NewReader(body))
				r.Header.Set("Content-Type", "application/json")
				test.handler.ServeHTTP(w, r)
				if w.Code != http.StatusOK || !bytes.Contains(w.Body.Bytes(), []byte(`"allowed":true`)) {
					b.Fatal(w.Body)
				}
			}
		})
	}
}
