// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package commandline

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
)

// Each of several errors has a line, which says all that the errors around it say.
func TestRunSaysEachError(t *testing.T) {
	a, b := errors.New("a is wrong"), errors.New("b is wrong")
	for _, test := range []struct {
		err  error
		want string
	}{
		{a, "x: a is wrong\n"},
		{errors.Join(a, b), "x: a is wrong\nx: b is wrong\n"},
		{utilerrors.NewAggregate([]error{a, b}), "x: a is wrong\nx: b is wrong\n"},
		{Usage(fmt.Errorf("--config: %w", errors.Join(a, fmt.Errorf("file: %w", errors.Join(b, a, b))))),
			"x: --config: a is wrong\nx: --config: file: b is wrong\nx: --config: file: a is wrong\n"},
		{fmt.Errorf("%w, and %w", a, b), "x: a is wrong, and b is wrong\n"},
		{errors.New("two lines:\n- of one"), "x: two lines:\n  - of one\n"},
	} {
		var stdout, stderr strings.Builder
		root := &cobra.Command{Use: "x", RunE: func(*cobra.Command, []string) error { return test.err }}
		Prepare(root)
		if Run(t.Context(), root, nil, &stdout, &stderr); stderr.String() != test.want || stdout.Len() > 0 {
			t.Errorf("%q: got %q, want %q", test.err, stderr.String(), test.want)
		}
	}
}
