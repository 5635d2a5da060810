// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"gatehouse.dev/apis/decisions/v1alpha1"
	"gatehouse.dev/plugin"
)

// notShown takes the place of a value in a message.
const notShown = "(not shown)"

// ofSecretParams replaces the text of a policy whose params are a Secret, ofSecretObject that of a policy or
// webhook about a Secret.
const (
	ofSecretParams = "(not shown: the params of the policy are a Secret)"
	ofSecretObject = "(not shown: the object is a Secret)"
)

// ofCall returns the text that replaces the warnings of a call, and empty if nothing does. Whoever wrote a policy
// or a webhook decides what it quotes of a Secret.
func (s secrets) ofCall(c *plugin.Call) string {
	switch {
	case c.Secret:
		return ofSecretParams
	case s.ofSecret() && c.Kind != plugin.Quota && c.Kind != plugin.LimitRange:
		return ofSecretObject
	}
	return ""
}

// ofReason is ofCall for the reason of a call. The server's own are shown: why it made no call, and why the call of
// a webhook failed.
func (s secrets) ofReason(c *plugin.Call) string {
	if c.Verdict == plugin.Skipped || c.Kind == plugin.Webhook && c.Verdict == plugin.Failed {
		return ""
	}
	return s.ofCall(c)
}

// ofRefusal is ofReason for the calls of a plugin that refused a request, or failed.
func (s secrets) ofRefusal(calls []plugin.Call) string {
	for i := range calls {
		if c := &calls[i]; c.Verdict == plugin.Refused || c.Verdict == plugin.Failed {
			if text := s.ofReason(c); text != "" {
				return text
			}
		}
	}
	return ""
}

// ofStatus returns the message of an answer without the values that the API quotes in it: a patch
// that failed quotes the whole object, an immutable field its template. by is the plugin that
// refused the request. The answer to the client keeps its whole message.
func (s secrets) ofStatus(status *metav1.Status, by string, r *v1alpha1.Request) string {
	switch {
	case by != "":
		return s.ofPlugin(status.Message, r)
	case status.Details != nil && len(status.Details.Causes) > 0 && status.Reason == metav1.StatusReasonInvalid:
		return s.ofCauses(status)
	case plainReasons[status.Reason]:
		return cut(status.Message)
	}
	message := withoutValues(status.Message, r)
	if head, _, quotes := strings.Cut(message, ": "); quotes && s.ofSecret() {
		message = head + ": …" // a patch is quoted as it is: unknown patch type: VALUE in map: …
	}
	return cut(message)
}

// ofPlugin returns the message of a plugin, webhook or policy. If the object is a Secret, the
// message ends before the first value. Other messages stay whole.
func (s secrets) ofPlugin(message string, r *v1alpha1.Request) string {
	if s.ofSecret() {
		message = withoutValues(message, r)
	}
	return cut(message)
}

// PluginMessage returns the message with which a plugin refused a request, without the values that
// decisions hide. calls has the calls of the plugin.
func PluginMessage(message string, r *v1alpha1.Request, calls []plugin.Call) string {
	s := secrets{resource: schema.GroupResource{Group: r.Group, Resource: r.Resource}}
	if text := s.ofRefusal(calls); text != "" {
		return text
	}
	return s.ofPlugin(message, r)
}

// plainReasons are the reasons of answers that name objects, users and fields, and quote no values.
var plainReasons = map[metav1.StatusReason]bool{
	metav1.StatusReasonNotFound: true, metav1.StatusReasonAlreadyExists: true, metav1.StatusReasonConflict: true,
	metav1.StatusReasonForbidden: true, metav1.StatusReasonUnauthorized: true, metav1.StatusReasonGone: true,
	metav1.StatusReasonExpired: true, metav1.StatusReasonTooManyRequests: true, metav1.StatusReasonTimeout: true,
	metav1.StatusReasonServerTimeout: true, metav1.StatusReasonMethodNotAllowed: true,
	metav1.StatusReasonUnsupportedMediaType: true, metav1.StatusReasonNotAcceptable: true,
	metav1.StatusReasonRequestEntityTooLarge: true,
}

// ofCauses returns the message of an invalid object, made of its causes as Kubernetes makes it.
//
// Source: k8s.io/apimachinery/pkg/api/errors/errors.go#NewInvalid 55401874
func (s secrets) ofCauses(status *metav1.Status) string {
	head, _, ok := strings.Cut(status.Message, " is invalid: ")
	if !ok {
		return notShown
	}
	var errs []string
	for _, c := range status.Details.Causes {
		text := c.Field + ": " + s.ofCause(c.Field, c.Message)
		if !slices.Contains(errs, text) {
			errs = append(errs, text)
		}
	}
	all := strings.Join(errs, ", ")
	if len(errs) > 1 {
		all = "[" + all + "]"
	}
	return cut(head + " is invalid: " + all)
}

// quotingCauses matches the start of a cause that quotes a value.
var quotingCauses = regexp.MustCompile(`^(Invalid value|Unsupported value|Duplicate value|Not found|Too long|Too many|` +
	`Internal error): `)

// lastName matches the last name of a field, such as value in spec.containers[0].env[1].value.
var lastName = regexp.MustCompile(`([^.\[\]]+)[\[\]0-9]*$`)

// ofCause returns the message of a cause. It keeps a short value: a number, or a text that isn't
// part of an object.
func (s secrets) ofCause(field, message string) string {
	kind := quotingCauses.FindString(message)
	if kind == "" {
		// A forbidden change is followed by the difference of both objects.
		first, _, more := strings.Cut(message, "\n")
		if at := strings.IndexByte(first, '{'); at >= 0 {
			first, more = first[:at], true
		}
		if more {
			first = strings.TrimRight(first, " ") + " …"
		}
		return first
	}
	value, detail := splitValue(message[len(kind):])
	if s.showsValue(field, value) {
		return message
	}
	if s.ofSecret() && field == "patch" {
		detail = "" // of the decoder, which quotes the patch
	}
	return strings.TrimSuffix(kind+notShown+": "+detail, ": ")
}

// splitValue splits a text after the value at its start.
func splitValue(text string) (value, detail string) {
	if value, err := strconv.QuotedPrefix(text); err == nil {
		return value, strings.TrimPrefix(text[len(value):], ": ")
	}
	if strings.ContainsAny(text, "{[\n") { // an object, and after it the detail
		for _, end := range []string{"}: ", "]: ", `": `} {
			if at := strings.LastIndex(text, end); at >= 0 {
				return text[:at+1], text[at+len(end):]
			}
		}
		return text, ""
	}
	value, detail, _ = strings.Cut(text, ": ")
	return value, detail
}

// maxValue is the number of bytes that a value in a message may have.
const maxValue = 256

// namingFields are the fields of a Secret whose values are shown. Policies and webhooks may copy data into the others.
var namingFields = map[string]bool{"metadata.name": true, "metadata.generateName": true, "metadata.namespace": true}

// showsValue reports whether a message may show the value of a field.
func (s secrets) showsValue(field, value string) bool {
	if len(value) > maxValue || strings.ContainsAny(value, "{\n") || strings.Contains(value, "map[") ||
		field == "patch" {
		return false
	}
	if s.ofSecret() && !namingFields[field] {
		return false
	}
	name := lastName.FindStringSubmatch(field)
	return name == nil || !isCredential(name[1])
}

// quotedValues matches the start of a value in a message: quotes, JSON, and Go's forms of objects.
var quotedValues = regexp.MustCompile("\"(?:[^\"\\\\]|\\\\.)*\"?|'[^']*'?|[`|{\n]|&[a-z]|map\\[|\\[\\]byte")

// namesNext matches the text before a quoted name: the name of a field, or of what refused, the key of an element
// of a list, as in .spec.containers[name="web"], or the address of a webhook.
var namesNext = regexp.MustCompile(
	`(?:field|fields|key|version|kind|webhook|plugin|Policy|binding|namespaces?|quota|Get|Post) $|[\[,]\w+=$`)

// withoutValues returns a message up to the first value in it. Names of the request are no values.
func withoutValues(message string, r *v1alpha1.Request) string {
	names := []string{r.Name, r.Namespace, r.Resource, r.Version, r.Group, r.Group + "/" + r.Version, r.Subresource,
		r.User.Username}
	for from := 0; ; {
		at := quotedValues.FindStringIndex(message[from:])
		if at == nil {
			return message
		}
		start, end := from+at[0], from+at[1]
		text := strings.Trim(message[start:end], `"'`)
		isText := message[start] == '"' || message[start] == '\''
		if !isText || text == "" || !slices.Contains(names, text) && !namesNext.MatchString(message[:start]) {
			return strings.TrimRight(message[:start], " ") + " …"
		}
		from = end
	}
}
