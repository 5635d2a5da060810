package why

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gatehouse.dev/apis/decisions/v1alpha1"
)

// A Remedy is what would have to change for a request to pass.
type Remedy struct {
	// Words say it.
	Words string
	// Command shows what the words speak of; empty for none.
	Command string
}

// String names who it is: a plugin, or what of it did something.
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

// resourceOf is what kubectl calls the object in which a call is configured, and its name.
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

// remedyOf is what to do about a call that refused a request, or failed it.
func remedyOf(c *v1alpha1.Call, phase, namespace string) Remedy {
	resource, name := resourceOf(c, phase)
	if resource == "" || name == "" {
		return Remedy{}
	}
	get := fmt.Sprintf("kubectl get %s %s -o yaml", resource, name)
	describe := fmt.Sprintf("kubectl describe %s %s -n %s", resource, name, namespace)
	failed := c.Verdict == v1alpha1.Failed
	switch {
	case c.Kind == webhook && failed:
		return Remedy{"Have the webhook's server answer. Until it does nothing that its rules, selectors and match " +
			"conditions cover passes, unless its failurePolicy is Ignore.", get}
	case c.Kind == webhook:
		return Remedy{"Change what the webhook's words name, or ask who runs it; what it is asked about is in its " +
			"configuration.", get}
	case c.Kind == policy && failed:
		return Remedy{"Correct the policy: it could not be evaluated, and its failurePolicy is Fail.", get}
	case c.Kind == policy:
		return Remedy{"Change the object so that the policy's expression holds, or have its binding leave this " +
			"object out.", get}
	case c.Kind == quota:
		return Remedy{"Ask for less, delete what counts for the quota and isn't needed, or have its hard limit raised.",
			describe}
	default:
		return Remedy{"Give the resources values within the LimitRange's, or have those changed.", describe}
	}
}

// remedyOfReason is what to do where no plugin refused the request, but the API itself.
func (e *Explanation) remedyOfReason() Remedy {
	d := e.Decision
	switch d.Reason {
	case metav1.StatusReasonInvalid:
		if len(e.Causes) > 0 {
			return Remedy{Words: "No plugin refused it, but what plugins made of it isn't a valid object. Send what " +
				"they leave valid, or have what they set changed."}
		}
		return Remedy{Words: "No plugin refused it: what came of it isn't a valid object. Change the fields named."}
	case metav1.StatusReasonBadRequest:
		return Remedy{Words: "No plugin refused it: the server can't read what was sent. Correct it."}
	case metav1.StatusReasonAlreadyExists:
		return Remedy{Words: "No plugin refused it: there is one of that name. Update that, or take another name."}
	case metav1.StatusReasonNotFound:
		return Remedy{Words: "No plugin refused it: what it is about isn't there. Create that first."}
	case metav1.StatusReasonConflict:
		return Remedy{Words: "No plugin refused it: the object has changed since it was read, or another manager has " +
			"the field. Read it again, and then write it."}
	case metav1.StatusReasonTooManyRequests:
		return Remedy{Words: "Try again later: the server, or what the request would take away, can't bear it now."}
	case metav1.StatusReasonTimeout, metav1.StatusReasonServerTimeout, metav1.StatusReasonServiceUnavailable:
		return Remedy{Words: "Try again: nothing was decided in time."}
	}
	switch {
	case d.Code == 0:
		return Remedy{Words: "Nobody refused it: the client had gone, or the server broke, before there was an answer."}
	case d.Verdict == v1alpha1.Failed && strings.HasPrefix(d.Message, "conversion webhook for "):
		return Remedy{Words: "Nobody refused it: it can't be had in another version of its kind. Have the webhook " +
			"answer that its CustomResourceDefinition names for that, or send it in the version that is stored."}
	case d.Verdict == v1alpha1.Failed:
		return Remedy{Words: "Nobody refused it: something in the server, or behind it, is broken. Its log says more."}
	}
	return Remedy{}
}
