package decision

import (
	"time"

	"gatehouse.dev/apis/decisions/v1alpha1"
)

// Object names what a request was about, as kubectl does: pods/web, pods/web/exec. An object whose
// name the server had yet to make is named by what it was to be made from: pods/web-….
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

// Took is a duration as people read it: 1.2ms, 350µs, 2.5s.
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
