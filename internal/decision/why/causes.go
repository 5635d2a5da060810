// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"gatehouse.dev/apis/decisions/v1alpha1"
	"gatehouse.dev/internal/decision"
)

// A Cause is a change without which the request might not have been refused.
type Cause struct {
	Change
	// Verb says what happened to the field: "was set to {name: proxy}", "was removed".
	Verb string
	// IsRead reports whether all that is known is that the expression of the policy reads the field.
	IsRead bool
}

// String returns the cause as a sentence.
func (c Cause) String() string {
	text := c.Field + " " + c.Verb + " by " + c.Source.String()
	if c.IsRead {
		text += ", and the policy's expression reads it"
	}
	return text
}

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

// findCauses returns the changes that the refusal is about. The message must be about the field that the
// change set, or about a container or a volume that it added; or the expression of the policy that refused
// must read it. A field's name somewhere in the message isn't enough. A change that was overwritten later
// is no cause.
func (e *Explanation) findCauses() []Cause {
	var found []Cause
	message := e.Decision.Message
	for i := range e.Refusals {
		if why := e.Refusals[i].Why; !strings.Contains(message, why) {
			message += "\n" + why
		}
	}
	errors := fieldError.FindAllStringSubmatch(message, -1)
	elements := append(elementsIn(message), unstatedIn(message)...)
	about := subjectsOf(message)
	for _, c := range e.Changes {
		if c.Again {
			continue
		}
		if verb, ok := c.concernedBy(about); ok {
			found = append(found, Cause{Change: c, Verb: verb})
			continue
		}
		cause := Cause{Change: c, Verb: c.verb()}
		switch {
		case slices.ContainsFunc(errors, func(err []string) bool {
			return c.concerns(err[1], err[2], err[3], err[4], e.Changes)
		}):
		case len(errors) == 0 && c.isNamed(message):
		case c.Added && c.Name != "" && slices.Contains(elements, elementOf(&c)):
			cause.Verb = "(" + c.Name + ") was added"
		case tooLarge.MatchString(message) && isCut(e.Decision, &c):
		case e.isRead(&c, elements):
			if cause.IsRead = true; c.isElement() {
				cause.Verb = "(" + c.Name + ") was added"
			}
		default:
			continue
		}
		found = append(found, cause)
	}
	return found
}

// isElement reports whether the change added an element with a name to a list.
func (c *Change) isElement() bool { return c.Added && c.Name != "" && strings.HasSuffix(c.Field, "]") }

// verb returns what happened to the field.
func (c *Change) verb() string {
	switch {
	case c.Removed:
		return "was removed"
	case c.Value == decision.HiddenValue, c.Value == decision.LargeValue:
		return "was changed"
	}
	return "was set to " + c.Value
}

// concernedBy returns what happened to the fields that a refusal is about. ok is false if the change has none of them.
func (c *Change) concernedBy(about []subject) (verb string, ok bool) {
	for i := range about {
		fields := about[i].concerns(c)
		switch {
		case len(fields) == 0:
		case !c.isElement():
			return c.verb(), true
		default:
			verb := fmt.Sprintf("(%s) was added", c.Name)
			word := " with "
			for _, field := range fields {
				if name := strings.TrimPrefix(field.path[len(c.Field):], "."); name != "name" {
					verb += word + name + " " + inline(field.value, 0)
					word = " and "
				}
			}
			return verb, true
		}
	}
	return "", false
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

// isRead reports whether the expression of a policy that refused the request reads the field of the change. elements
// are the containers and volumes that the message names: then it isn't about others.
func (e *Explanation) isRead(c *Change, elements []podElement) bool {
	if element := elementOf(c); element.kind != "" && len(elements) > 0 && !slices.Contains(elements, element) {
		return false
	}
	for i := range e.Refusals {
		call := e.Refusals[i].Call
		if call != nil && call.Verdict == v1alpha1.Refused && slices.ContainsFunc(call.Reads, c.isReadAs) {
			return true
		}
	}
	return false
}

// isReadAs reports whether a field that an expression reads, such as object.spec.containers[*].image, is that of the
// change, in it, or around it.
func (c *Change) isReadAs(read string) bool {
	path, ok := strings.CutPrefix(read, "object.")
	if !ok {
		return false
	}
	path, isSize := strings.CutSuffix(path, "[]")
	wanted, changed := segments(path), segments(c.Field)
	if isSize && len(changed) > len(wanted)+1 || len(wanted) < 2 && len(changed) > len(wanted) {
		return false // an element isn't the number of elements, and spec as a whole says nothing
	}
	for i := range min(len(wanted), len(changed)) {
		if wanted[i] != changed[i] && wanted[i] != "*" {
			return false
		}
	}
	return true
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
