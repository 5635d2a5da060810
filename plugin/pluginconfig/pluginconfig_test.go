// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package pluginconfig

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestNone(t *testing.T) {
	for name, test := range map[string]struct {
		config io.Reader
		want   string
	}{
		"none":       {nil, ""},
		"empty":      {strings.NewReader(""), ""},
		"blank":      {strings.NewReader(" \n"), ""},
		"some":       {strings.NewReader("apiVersion: v1"), "Example takes no configuration, but is given one"},
		"unreadable": {iotest.ErrReader(errors.New("disk gone")), "reading the configuration of Example: disk gone"},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			if err := None("Example", test.config); err != nil {
				got = err.Error()
			}
			if got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
