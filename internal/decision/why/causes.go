// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"regexp"
	"slices"
	"strings"
)

// A Cause is a change without which the request might not have been refused.
type Cause struct {
	Change
	// Verb says what happened to the field: "was set to {name: proxy}", "was removed".
	Verb string
}

// String returns the cause as a sentence.
func (c Cause) String() string { return c.Field + " " + c.Verb + " by " + c.Source.String() }

var (
	// fieldError matches a field and its error in a message of Kubernetes' validation.
	fieldError = regexp.MustCompile(`\b([a-z]\w*(?:\[[^\]\s]*\])*(?:\.[a-z]\w*(?:\[[^\]\s]*\])*)*): (Invalid ` +
		`value|Required value|Duplicate value|Forbidden|Unsupported value|Too long|Too many)(?:: ` +
		`("(?:[^"\\]|\\.)*"))?([^\n]*)`)
	// named matches the fields in any other message: spec.containers[0].resources.limits.
	named = regexp.MustCompile(`\b[a-z]\w*(?:\[[^\]\s]*\])*(?:\.[a-z]\w*(?:\[[^\]\s]*\])*)+`)
	// element matches the name of a container or volume in a message.
	element = regexp.MustCompile(`(?i)\b(container|volume)s?:? ((?:["'<][^"'<>\s]+["'>](?:, | and ` +
		`)?)+|[a-z0-9][-a-z0-9]*)`)
	elementName = regexp.MustCompile(`[a-z0-9][-a-z0-9.]*`)
	// hostNamespace matches PodSecurity's names of the fields that share the host's namespaces.
	hostNamespace = regexp.MustCompile(`\b(hostNetwork|hostPID|hostIPC)=true\b`)
	// wanted matches PodSecurity's names of the fields of a security context.
	wanted = regexp.MustCompile(`\bmust (not )?set (securityContext\.[\w.]+)=(\w+)`)
)

// identity are messages about the object's identity that don't name the field.
var identity = []struct{ words, field string }{
	{"the namespace of the object", "metadata.namespace"},
	{"the namespace of the provided object", "metadata.namespace"},
	{"the name of the object", "metadata.name"},
}

// causes returns the changes that a message speaks of. The message must be about the field that the
// change set, or about a container or a volume that it added. A field's name somewhere in the
// message isn't enough. A change that was overwritten later is no cause.
func causes(message string, all []Change) []Cause {
	var found []Cause
	errors := fieldError.FindAllStringSubmatch(message, -1)
	for _, c := range all {
		cause := Cause{c, "was set to " + c.Value}
		if c.Removed {
			cause.Verb = "was removed"
		}
		switch {
		case c.Again:
			continue
		case slices.ContainsFunc(errors, func(e []string) bool {
			return c.concerns(e[1], e[2], e[3], e[4], all)
		}):
		case len(errors) == 0 && c.isNamed(message):
		case c.Added && c.Name != "" && slices.Contains(elementsIn(message), elementOf(&c)):
			cause.Verb = "(" + c.Name + ") was added"
		default:
			continue
		}
		found = append(found, cause)
	}
	return found
}

// concerns reports whether a field's error is about the change: about the same field, a field in
// it, the field around it, or the limit beside a request.
func (c *Change) concerns(field, kind, value, rest string, all []Change) bool {
	switch kind {
	case "Required value":
		return within(field, c.Field)
	case "Duplicate value":
		list := field
		if i := strings.LastIndexByte(field, ']'); i >= 0 {
			list = field[:i+1] // of spec.containers[2].name the element
		}
		if within(field, c.Field) {
			return true
		}
		text := strings.Trim(value, `"`)
		if text == "" { // it isn't one text: the elements are alike
			return sameList(c.Field, list) && slices.ContainsFunc(all, func(other Change) bool {
				return other.Field == list && other.Value == c.Value
			})
		}
		return sameList(c.Field, list) && (c.Name == text || c.Value == text)
	}
	if within(field, c.Field) || strings.Contains(field, ".") && within(c.Field, field) {
		return true
	}
	requests, limits := ".resources.requests", ".resources.limits"
	for _, pair := range [][2]string{{requests, limits}, {limits, requests}} {
		if before, after, ok := strings.Cut(field, pair[0]); ok {
			resource, beside := strings.CutPrefix(c.Field, before+pair[1])
			resource = strings.Trim(resource, ".[]")
			return beside && resource != "" && strings.Contains(after+rest, resource)
		}
	}
	return false
}

// isNamed reports whether a message in free words names the field of the change, or a field in it.
func (c *Change) isNamed(message string) bool {
	for _, about := range identity {
		if c.Field == about.field && strings.Contains(message, about.words) {
			return true
		}
	}
	for _, m := range hostNamespace.FindAllStringSubmatch(message, -1) {
		if (c.Field == "spec."+m[1] || strings.HasSuffix(c.Field, ".spec."+m[1])) && c.Value == "true" {
			return true
		}
	}
	for _, m := range wanted.FindAllStringSubmatch(message, -1) {
		if strings.HasSuffix(c.Field, "."+m[2]) && (c.Value == m[3]) == (m[1] != "") {
			return true
		}
	}
	return slices.ContainsFunc(named.FindAllString(message, -1), func(field string) bool {
		return within(field, c.Field)
	})
}

// A podElement is a container or a volume of a pod.
type podElement struct{ kind, name string }

// elementOf returns the container or volume that a change added. It has no kind if the change added
// something else.
func elementOf(c *Change) podElement {
	i := strings.LastIndexByte(c.Field, '[')
	if i < 0 || !strings.HasSuffix(c.Field, "]") {
		return podElement{}
	}
	list := strings.ToLower(c.Field[strings.LastIndexByte(c.Field[:i], '.')+1 : i])
	switch {
	case strings.HasSuffix(list, "containers"):
		return podElement{"container", c.Name}
	case list == "volumes":
		return podElement{"volume", c.Name}
	}
	return podElement{}
}

// elementsIn returns the containers and volumes that a message names.
func elementsIn(message string) []podElement {
	var found []podElement
	for _, m := range element.FindAllStringSubmatch(message, -1) {
		for _, name := range elementName.FindAllString(m[2], -1) {
			if name != "and" {
				found = append(found, podElement{strings.ToLower(m[1]), name})
			}
		}
	}
	return found
}

// sameList reports whether two fields are elements of the same list.
func sameList(a, b string) bool {
	i, j := strings.LastIndexByte(a, '['), strings.LastIndexByte(b, '[')
	return i >= 0 && j >= 0 && a[:i] == b[:j] && strings.HasSuffix(a, "]") && strings.HasSuffix(b, "]")
}

// within reports whether a field is another one or part of it.
func within(field, whole string) bool {
	rest, ok := strings.CutPrefix(field, whole)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}
