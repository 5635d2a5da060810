// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package house

import (
	"os"
	"strings"
	"testing"
)

// header is what every Go file begins with.
const header = "// Copyright The Gatehouse Authors.\n// SPDX-License-Identifier: Apache-2.0\n\n"

// TestHeaders checks that each Go file says who may use it.
func TestHeaders(t *testing.T) {
	for _, file := range goFiles(t) {
		text, err := os.ReadFile(root + file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(string(text), header) {
			t.Errorf("%s doesn't begin with the licence header:\n%s", file, header)
		}
	}
}
