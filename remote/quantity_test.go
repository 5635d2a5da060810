// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package remote_test

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"gatehouse.dev/remote"
)

// A quantity that takes too long to parse is refused before it is parsed, in either object.
func TestLongQuantities(t *testing.T) {
	const message = "quantities must match the regular expression " +
		`'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'`
	body := string(largeReview(t, largePod(1, false, corev1.PullAlways)))
	for name, quantity := range map[string]string{
		"digits":   strings.Repeat("1", 1_000_000),
		"number":   "1e99999999",
		"fraction": "0." + strings.Repeat("0", 1_000_000) + "1",
	} {
		for _, field := range []string{"object", "oldObject"} {
			review := strings.ReplaceAll(body, `"cpu":"1m"`, fmt.Sprintf(`"cpu":%q`, quantity))
			if name == "number" {
				review = strings.ReplaceAll(body, `"cpu":"1m"`, `"cpu":`+quantity)
			}
			review = strings.Replace(review, `"object":`, `"`+field+`":`, 1)
			review = strings.Replace(review, `"oldObject":null,`, "", 1)
			w := httptest.NewRecorder()
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", bytes.NewReader([]byte(review)))
			r.Header.Set("Content-Type", "application/json")
			remote.Validate(podPlugins(t)).ServeHTTP(w, r)
			if !strings.Contains(w.Body.String(), `"code":400`) || !strings.Contains(w.Body.String(), message) {
				t.Errorf("%s in %s: %.500s", name, field, w.Body)
			}
		}
	}
}
