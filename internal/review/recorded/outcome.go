// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package recorded

import (
	"net/http"
	"regexp"
	"strings"
)

const (
	// decisionAnnotation is set by the authorization filter to allow or forbid.
	// Source: k8s.io/apiserver/pkg/endpoints/filters/authorization.go#decisionAnnotationKey 6c1a4803
	decisionAnnotation = "authorization.k8s.io/decision"
	// truncatedAnnotation is set if bodies were left out of an event.
	// Source: k8s.io/apiserver/plugin/pkg/audit/truncate/truncate.go#annotationKey 94e6f417
	truncatedAnnotation = "audit.k8s.io/truncated"
	// closedEarly is the message of an event whose client was gone before the answer.
	// Source: k8s.io/apiserver/pkg/endpoints/filters/audit.go#WithAudit c00f287a
	closedEarly = "Connection closed early"
)

var (
	// refusedByName matches the messages by which webhooks and policies refuse. They come with any
	// code from 400 on: a webhook chooses its own, and a policy's default is 422.
	// Source: k8s.io/apiserver/pkg/admission/plugin/webhook/errors/statuserror.go#ToStatusErr 405d409a
	// Source: k8s.io/apiserver/pkg/admission/plugin/webhook/errors/statuserror.go#NewDryRunUnsupportedErr d6a369ec
	// Source: k8s.io/apiserver/pkg/admission/plugin/policy/generic/policy_dispatcher.go#PolicyError.Error b6540ecb
	refusedByName = regexp.MustCompile(`admission webhook "[^"]*" (denied the request|does not support dry run)|` +
		`(?i:policy) ['"][^'"]*['"] (with binding '[^']*' )?denied request: `)
	// failedWebhook matches the message of a webhook that couldn't be asked.
	// Source: k8s.io/apiserver/pkg/util/webhook/error.go#ErrCallingWebhook.Error 9b002253
	failedWebhook = regexp.MustCompile(`failed calling webhook "[^"]*"[:;]`)
	// unauthorized matches the messages of authorization: of the filter, of creating by an update or
	// a patch, of impersonation, and of RBAC's rules against escalation.
	// Source: k8s.io/apiserver/pkg/endpoints/handlers/responsewriters/errors.go#forbiddenMessage 9ebc774d
	// Source: k8s.io/kubernetes/pkg/registry/rbac/validation/rule.go#ConfirmNoEscalation a9d2bade
	// Source: k8s.io/kubernetes/pkg/registry/rbac/clusterrole/policybased/storage.go#Storage.Create bf08d7ff
	unauthorized = regexp.MustCompile(`(^|: )User "[^"]*" cannot |` +
		`is attempting to grant RBAC permissions not currently held|` +
		`must have cluster-admin privileges to use the aggregationRule`)
	// refusedByRegistry matches what registries refuse with code 403 though nobody asked a plugin.
	// Source: k8s.io/kubernetes/pkg/registry/scheduling/priorityclass/storage/storage.go#REST.Delete c3211ce5
	// Source: k8s.io/kubernetes/pkg/registry/core/pod/storage/eviction.go#EvictionREST.checkAndDecrement 20e94192
	// Source: k8s.io/kubernetes/pkg/registry/core/serviceaccount/storage/token.go#TokenREST.Create 9da14360
	refusedByRegistry = regexp.MustCompile(`this is a system priority class and cannot be deleted|` +
		`pdb disruptions allowed is negative|DisruptedPods map too big|: token request denied$`)
)

// judgeAnswer returns what an audit event's answer says about its request. write is false if the
// request never came to admission: authorization, decoding or the limit on concurrent requests
// refused it.
//
// decision is the annotation of the authorization filter; "" if the record has none.
//
// Some of it is uncertain. A plugin that refuses with code 400 can't be told from decoding, so its
// refusals aren't among the writes. A code of 404, 409 or 422 without a name of a webhook or policy
// can come from a plugin as well; it is no news either way. Code 403 is taken for admission's if
// authorization allowed the request and the message is none that a registry is known for.
func judgeAnswer(code int32, message, decision, subresource string) (outcome Outcome, write bool) {
	switch {
	case message == closedEarly:
		return Unknown, true
	case code > 0 && code < http.StatusBadRequest:
		return Admitted, true
	case decision == "forbid" || code == http.StatusUnauthorized:
		return "", false
	case refusedByName.MatchString(message):
		return Refused, true
	case failedWebhook.MatchString(message):
		return Failed, true
	}
	switch code {
	case 0:
		return Unknown, true
	case http.StatusBadRequest, http.StatusMethodNotAllowed, http.StatusNotAcceptable,
		http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType:
		return "", false
	case http.StatusForbidden:
		switch {
		case unauthorized.MatchString(message):
			return "", false
		case refusedByRegistry.MatchString(message):
			return NoNews, true
		}
		return Refused, true
	case http.StatusTooManyRequests:
		// Priority and fairness comes before authorization; a disruption budget comes after admission.
		if decision == "" && subresource != "eviction" {
			return "", false
		}
	}
	return NoNews, true
}

// IsAccessReview reports whether a resource is one of those that nothing is stored of: creating one
// asks who somebody is, or what somebody may do.
func IsAccessReview(group, resource string) bool {
	switch group {
	case "authorization.k8s.io", "authentication.k8s.io":
		return strings.HasSuffix(resource, "reviews")
	}
	return false
}
