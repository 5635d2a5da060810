// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"strings"

	"gatehouse.dev/apis/decisions/v1alpha1"
)

// String returns the name of the plugin, and of the call in it if there is one.
func (s Source) String() string {
	if s.Call == nil {
		return s.Plugin
	}
	name := strings.ToLower(s.Call.Kind) + " " + s.Call.Name
	if s.Call.Kind == limitRange {
		name = "LimitRange " + s.Call.Name
	}
	if s.Call.Configuration != "" && s.Call.Configuration != s.Call.Name {
		name += " of " + s.Call.Configuration
	}
	if s.Call.Binding != "" {
		name += ", binding " + s.Call.Binding
	}
	if s.Call.Param != "" {
		name += ", param " + s.Call.Param
	}
	return s.Plugin + ": " + name
}

// The kinds of calls.
const (
	webhook    = "Webhook"
	policy     = "Policy"
	quota      = "Quota"
	limitRange = "LimitRange"
)

// resourceOf returns kubectl's name of the resource that configures a call, and the object's name.
func resourceOf(c *v1alpha1.Call, phase string) (resource, name string) {
	mutating := phase == "Mutate"
	switch c.Kind {
	case webhook:
		if mutating {
			return "mutatingwebhookconfiguration", c.Configuration
		}
		return "validatingwebhookconfiguration", c.Configuration
	case policy:
		if mutating {
			return "mutatingadmissionpolicy", c.Name
		}
		return "validatingadmissionpolicy", c.Name
	case quota:
		return "resourcequota", c.Name
	case limitRange:
		return "limitrange", c.Name
	}
	return "", ""
}
