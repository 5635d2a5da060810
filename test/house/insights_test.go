// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package house

import (
	"os"
	"regexp"
	"testing"
	"time"

	"sigs.k8s.io/yaml"
)

// TestSecurityInsights checks that SECURITY-INSIGHTS.yml has what version 2 of its specification
// requires, and that the documents it names are there.
func TestSecurityInsights(t *testing.T) {
	text, err := os.ReadFile(root + "SECURITY-INSIGHTS.yml")
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range regexp.MustCompile(`https://github.com/gatehouse/gatehouse/blob/main/(\S+)`).FindAllSubmatch(text, -1) {
		if _, err := os.Stat(root + string(link[1])); err != nil {
			t.Errorf("%s: %v", link[0], err)
		}
	}
	var file map[string]any
	if err := yaml.UnmarshalStrict(text, &file); err != nil {
		t.Fatal(err)
	}
	field := func(path ...string) any {
		var value any = file
		for _, name := range path {
			fields, _ := value.(map[string]any)
			value = fields[name]
		}
		if value == nil {
			t.Errorf("%v is missing", path)
		}
		return value
	}
	for _, name := range []string{"last-updated", "last-reviewed"} {
		if day, _ := field("header", name).(string); day != "" {
			if _, err := time.Parse(time.DateOnly, day); err != nil {
				t.Error(err)
			}
		}
	}
	for _, path := range [][]string{{"header", "schema-version"}, {"header", "url"}, {"project", "name"},
		{"project", "administrators"}, {"project", "repositories"},
		{"project", "vulnerability-reporting", "reports-accepted"},
		{"project", "vulnerability-reporting", "bug-bounty-available"},
		{"repository", "status"}, {"repository", "url"}, {"repository", "accepts-change-request"},
		{"repository", "accepts-automated-change-request"}, {"repository", "core-team"},
		{"repository", "license", "url"}, {"repository", "license", "expression"},
		{"repository", "security", "assessments", "self", "comment"}} {
		field(path...)
	}
}
