// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package house

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// TestAlerts checks that docs/alerts.md has a section for each alert of deploy/prometheus and of the chart and for no
// other, with a text, and that the alert leads to it.
func TestAlerts(t *testing.T) {
	page, err := os.ReadFile("../../docs/alerts.md")
	if err != nil {
		t.Fatal(err)
	}
	var documented []string
	for _, section := range regexp.MustCompile(`(?m)^## (Gatehouse\w+)\n\n(.*)`).FindAllStringSubmatch(string(page), -1) {
		if strings.TrimSpace(section[2]) == "" || strings.HasPrefix(section[2], "#") {
			t.Errorf("docs/alerts.md doesn't say what to do about %s", section[1])
		}
		documented = append(documented, section[1])
	}
	for _, file := range []string{"deploy/prometheus/gatehouse.rules.yaml", "deploy/chart/files/rules.yaml"} {
		content, err := os.ReadFile("../../" + file)
		if err != nil {
			t.Fatal(err)
		}
		var rules struct {
			Groups []struct {
				Rules []struct {
					Alert       string
					Annotations map[string]string
				}
			}
		}
		if err := yaml.Unmarshal(content, &rules); err != nil {
			t.Fatal(err)
		}
		var alerts []string
		for _, group := range rules.Groups {
			for _, rule := range group.Rules {
				alerts = append(alerts, rule.Alert)
				want := "https://gatehouse.dev/docs/alerts.html#" + strings.ToLower(rule.Alert)
				if got := rule.Annotations["runbook_url"]; got != want {
					t.Errorf("%s: %s: the runbook_url is %q, want %q", file, rule.Alert, got, want)
				}
			}
		}
		if len(alerts) == 0 || !slices.Equal(alerts, documented) {
			t.Errorf("%s has the alerts %q, docs/alerts.md the sections %q, in this order", file, alerts, documented)
		}
	}
}
