// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package pair

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"gatehouse.dev/test/peers"
)

// Patterns of what differs from run to run, in any field.
var (
	timePattern      = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)
	uidPattern       = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	volumePattern    = regexp.MustCompile(`kube-api-access-[a-z0-9]{5}`)
	generatedPattern = regexp.MustCompile(`generated-[a-z0-9]{5}`)
	addressPattern   = regexp.MustCompile(`10\.(9[6-9]|10\d|11[01])\.\d+\.\d+`)
	hashPattern      = regexp.MustCompile(`X509SHA256=[0-9a-f]{64}`)
	schemePattern    = regexp.MustCompile(` in scheme \\*"[^"]*"`)
	revisionPattern  = regexp.MustCompile(`resourceVersion\\*":\\*"\d+`)
)

// Normalize replaces everything in a JSON value that differs from run to run.
func Normalize(value any) any {
	switch value := value.(type) {
	case map[string]any:
		for key, field := range value {
			switch key {
			case "resourceVersion", "nodePort":
				value[key] = "…"
			case "manager":
				if value[key] = field; field == "gatehouse" { // the server itself
					value[key] = peers.KubeAPIServer
				}
			case "managedFields":
				value[key] = Normalize(field)
				// Their order is that of their times, which are in seconds.
				if entries, ok := field.([]any); ok {
					slices.SortFunc(entries,
						func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
				}
			default:
				value[key] = Normalize(field)
				if strings.HasPrefix(key, "podpreset.admission.kubernetes.io/") { // its resourceVersion
					value[key] = "…"
				}
			}
		}
	case []any:
		for i := range value {
			value[i] = Normalize(value[i])
		}
	case string:
		for name, pattern := range map[string]*regexp.Regexp{"time": timePattern, "uid": uidPattern,
			"kube-api-access-…": volumePattern,
			"generated-…":       generatedPattern, "address": addressPattern, "revision": revisionPattern,
			"": schemePattern, "hash": hashPattern} {
			value = pattern.ReplaceAllString(value, name)
		}
		return value
	}
	return value
}
