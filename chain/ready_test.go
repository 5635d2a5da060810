// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"errors"
	"io"
	"net/http"
	"testing"

	"k8s.io/apiserver/pkg/server/healthz"

	"gatehouse.dev/plugin"
)

// watcher is a plugin with checks.
type watcher struct {
	fake
	checks []healthz.HealthChecker
}

func (w watcher) ReadyChecks() []healthz.HealthChecker { return w.checks }

func TestReadyChecks(t *testing.T) {
	watching := func(name string, checks ...string) plugin.Descriptor {
		w := watcher{fake: fake{validate: idle}}
		for _, check := range checks {
			w.checks = append(w.checks,
				healthz.NamedCheck(check, func(*http.Request) error { return errors.New("broken") }))
		}
		d := described(name, w.fake)
		d.New = func(io.Reader, *plugin.Env) (plugin.Plugin, error) { return w, nil }
		return d
	}
	c := newChain(t, []plugin.Descriptor{watching("A", "first", "second"), described("B", fake{validate: idle}), watching("C"),
		watching("D", "third")})
	var names string
	for _, check := range c.ReadyChecks() {
		names += " " + check.Name()
		if err := check.Check(nil); err == nil || err.Error() != "broken" {
			t.Errorf("%s says %v", check.Name(), err)
		}
	}
	if want := " first second third"; names != want {
		t.Errorf("checks are%s, want%s", names, want)
	}
}
