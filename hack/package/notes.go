// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"regexp"
	"strings"
)

// relative matches the beginning of a link to a file of the repository.
var relative = regexp.MustCompile(`\]\(([^)#:]+[)#])`)

// notes returns the section of a changelog about a version. Links to files lead to those of the version.
func notes(changelog, version string) (string, error) {
	title := "## " + strings.TrimPrefix(version, "v") + " ("
	_, after, found := strings.Cut("\n"+changelog, "\n"+title)
	if !found {
		return "", fmt.Errorf("CHANGELOG.md has no section %q with a date", title)
	}
	_, section, _ := strings.Cut(after, "\n")
	section, _, _ = strings.Cut("\n"+section, "\n## ")
	section = strings.TrimSpace(section)
	if section == "" {
		return "", fmt.Errorf("CHANGELOG.md says nothing below %q", title)
	}
	return relative.ReplaceAllString(section, "](https://github.com/gatehouse/gatehouse/blob/"+version+"/$1") + "\n", nil
}
