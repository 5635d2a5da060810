// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"time"

	"gatehouse.dev/apis/decisions/v1alpha1"
)

// Object returns the name of a request's object as kubectl prints it: pods/web, pods/web/exec.
// Before the server has generated the name, it is the prefix: pods/web-….
func Object(r *v1alpha1.Request) string {
	name := r.Resource
	switch {
	case r.Name != "":
		name += "/" + r.Name
	case r.GenerateName != "":
		name += "/" + r.GenerateName + "…"
	}
	if r.Subresource != "" {
		name += "/" + r.Subresource
	}
	return name
}

// Took returns a duration for people: 1.2ms, 350µs, 2.5s.
func Took(d time.Duration) string {
	switch {
	case d >= 10*time.Second:
		return d.Round(time.Second).String()
	case d >= time.Second:
		return d.Round(100 * time.Millisecond).String()
	case d >= 10*time.Millisecond:
		return d.Round(time.Millisecond).String()
	case d >= time.Millisecond:
		return d.Round(100 * time.Microsecond).String()
	}
	return d.Round(time.Microsecond).String()
}
