// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"

	"gatehouse.dev/internal/kubesource"
)

func TestValidationsAreKubectls(t *testing.T) {
	for value, want := range Validations {
		cmd := &cobra.Command{}
		cmdutil.AddValidateFlags(cmd)
		if err := cmd.Flags().Set("validate", value); err != nil {
			t.Fatal(err)
		}
		if got, err := cmdutil.GetValidationDirective(cmd); err != nil || got != want {
			t.Errorf("--validate=%s means %s, to kubectl %s, %v", value, want, got, err)
		}
	}
	source := kubesource.Parse(t, "k8s.io/kubectl/pkg/cmd/util/helpers.go").Func("GetValidationDirective")
	for _, value := range kubesource.Strings(source) {
		if _, known := Validations[value]; !known && value != "validate" && !strings.HasPrefix(value, "invalid") {
			t.Errorf("kubectl has --validate=%s", value)
		}
	}
}

func TestNotReadyIsUpstreams(t *testing.T) {
	source := kubesource.Parse(t, "k8s.io/kubernetes/pkg/registry/core/service/ipallocator/interfaces.go")
	var theirs []string
	for _, name := range []string{"ErrMismatchedNetwork", "ErrNotReady"} {
		theirs = append(theirs, kubesource.Strings(source.Value(name))...)
	}
	for i, message := range rangeNotReady {
		if i >= len(theirs) || !strings.HasSuffix(theirs[i], message) {
			t.Errorf("upstream's messages are %q, none of them %q", theirs, message)
		}
	}
}
