// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package random

import (
	"fmt"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// asked is a request, the round that it is of, and the servers' answers to those before it.
type asked struct {
	Request
	round  []Request
	before [][2]Answer
}

// follows reports whether both servers have answered a request before this one, which is as wanted, with
// a status.
func (r asked) follows(status int, wanted func(Request) bool) bool {
	for i, answers := range r.before {
		if answers[0].Status == status && answers[1].Status == status && wanted(r.round[i]) {
			return true
		}
	}
	return false
}

// A difference is a difference that docs/differences.md has.
type difference struct {
	// words are docs/differences.md's.
	words string
	// explains reports whether it is why the two answers to the request differ.
	explains func(r asked, ours, theirs Answer) bool
}

// differences has the differences that random requests come across. Each is as narrow as the answers
// allow.
var differences = []difference{
	{"names every violation of every LimitRange", func(_ asked, ours, theirs Answer) bool {
		return bothForbidden(ours, theirs) && limitPattern.MatchString(theirs.message()) && saysAll(ours, theirs)
	}},
	{"names every limit that is exceeded", func(_ asked, ours, theirs Answer) bool {
		_, exceeded, ok := strings.Cut(theirs.message(), " exceeded quota: ")
		return bothForbidden(ours, theirs) && ok && strings.Contains(ours.message(), exceeded)
	}},
	{"A Service that an update of its status creates needs room in a quota", func(r asked, ours, theirs Answer) bool {
		isStatus := func(one Request) bool {
			return strings.Contains(one.path(), "/services/") && strings.HasSuffix(one.path(), "/status")
		}
		if strings.Contains(r.Path, "/resourcequotas") {
			return r.follows(http.StatusCreated, isStatus) && equalWithout(ours, theirs, "status", "metadata.managedFields")
		}
		return ours.Status == http.StatusForbidden && strings.Contains(ours.message(), " exceeded quota: ") &&
			strings.Contains(r.path(), "/services") && (theirs.Status == http.StatusCreated && isStatus(r.Request) ||
			(theirs.Status < 300 || strings.Contains(theirs.message(), " exceeded quota: ")) && r.follows(http.StatusCreated, isStatus))
	}},
	{"knows a new quota's usage when it is created", func(r asked, ours, theirs Answer) bool {
		return strings.Contains(r.Path, "/resourcequotas") && agreeOnUsage(ours.Body, theirs.Body) &&
			equalWithout(ours, theirs, "status", "metadata.managedFields")
	}},
	{"tells every violation, not the first alone", func(_ asked, ours, theirs Answer) bool {
		_, violation, ok := strings.Cut(theirs.message(), "ValidatingAdmissionPolicy '")
		return ours.Status >= 400 && theirs.Status >= 400 && ok && strings.Contains(ours.message(), violation)
	}},
	{"A client that writes a webhook configuration is warned of what an outage of its webhooks stops",
		func(r asked, ours, theirs Answer) bool {
			others := slices.DeleteFunc(slices.Clone(ours.Warnings), func(warning string) bool {
				return strings.Contains(warning, " (to prevent it: ")
			})
			return strings.Contains(r.Path, "webhookconfigurations") && parts(ours, theirs) == "warnings " &&
				slices.Equal(others, theirs.Warnings)
		}},
	{"A client that writes a namespace is warned if PodNodeSelector or PodTolerationRestriction can't parse its annotation",
		func(r asked, ours, theirs Answer) bool {
			others := slices.DeleteFunc(slices.Clone(ours.Warnings), func(warning string) bool {
				return strings.Contains(warning, "pods of this namespace will be refused: ")
			})
			return strings.Contains(r.Path, "/namespaces") && parts(ours, theirs) == "warnings " &&
				slices.Equal(others, theirs.Warnings)
		}},
	{"Labels and annotations can be set before a kind's schema is known", func(_ asked, ours, theirs Answer) bool {
		return !failed(ours) && (strings.Contains(theirs.message(), "no corresponding type for ") ||
			strings.Contains(theirs.message(), "There can be a delay between when CustomResourceDefinitions are created and"))
	}},
	{"and on an object that doesn't fit it", func(_ asked, ours, theirs Answer) bool {
		return ours.Status < 500 && theirs.Status == http.StatusForbidden &&
			strings.Contains(theirs.message(), "error applying patch: failed to convert original object to typed object")
	}},
	{"keeps redundant tolerations of a pod", func(r asked, ours, theirs Answer) bool {
		kept, left := tolerations(ours.Body), tolerations(theirs.Body)
		if ours.Status == http.StatusUnprocessableEntity && theirs.Status < 300 { // as one of them is invalid
			return strings.Contains(ours.message(), "spec.tolerations[") &&
				slices.ContainsFunc(tolerations(r.Body), func(sent any) bool { return !has(left, sent) })
		}
		// A refused update shows the pod's lines that differ, with their numbers.
		if a, b := ours.String(), theirs.String(); a != b && hunkPattern.ReplaceAllString(a, "") == hunkPattern.ReplaceAllString(b, "") {
			return true
		}
		if ours.Status == http.StatusUnprocessableEntity && equalWithout(ours, theirs, "message", "details.causes") {
			more, others := causes(ours)
			fewer, same := causes(theirs)
			return more > fewer && reflect.DeepEqual(others, same)
		}
		// Without the redundant ones an update may change nothing.
		return len(kept) > len(left) && len(left) > 0 &&
			equalWithout(ours, theirs, "spec.tolerations", "metadata.generation", "metadata.managedFields")
	}},
	{"goes by a pod's resources, not by the QoS class that a client sends", func(r asked, ours, theirs Answer) bool {
		if slices.ContainsFunc(r.round, func(one Request) bool { return strings.Contains(one.text(), "qosClass") }) &&
			equalWithout(ours, theirs, "spec.tolerations", "metadata.generation", "metadata.managedFields") {
			return true
		}
		return strings.Contains(r.text(), "qosClass") && (len(tolerations(ours.Body)) != len(tolerations(theirs.Body)) ||
			theirs.Status >= 400 && strings.Contains(ours.String()+theirs.String(), "toleration"))
	}},
	{"It refuses a pod with a toleration that contradicts the namespace's", func(_ asked, ours, theirs Answer) bool {
		return theirs.Status < 500 && ours.Status == http.StatusForbidden &&
			strings.Contains(ours.message(), "namespace tolerations and pod tolerations conflict")
	}},
	{"can change the `scale` of a custom resource", func(r asked, ours, theirs Answer) bool {
		return !failed(ours) && strings.HasSuffix(r.path(), "/scale") &&
			strings.Contains(theirs.message(), "request to convert CR to an invalid group/version: autoscaling/v1")
	}},
	{"reads live what its cache doesn't show yet", func(r asked, ours, theirs Answer) bool {
		return strings.HasPrefix(r.As, "system:node:") && ours.Status == http.StatusNotFound && theirs.Status == ours.Status &&
			strings.TrimPrefix(ours.message(), "pods ") == strings.TrimPrefix(theirs.message(), "pod ")
	}},
	{"a patch that changes nothing counts as no change", func(_ asked, ours, theirs Answer) bool {
		const no, yes = `\"mutated\":false`, `\"mutated\":true`
		first := theirs.Audit
		if !rerunPattern.MatchString(ours.Audit) { // as there is no re-run, either
			first = rerunPattern.ReplaceAllString(first, "")
		}
		return parts(ours, theirs) == "audit " && strings.Contains(ours.Audit, no) &&
			strings.ReplaceAll(ours.Audit, yes, no) == strings.ReplaceAll(first, yes, no)
	}},
	{"is refused for that metric alone", func(r asked, ours, theirs Answer) bool {
		return strings.Contains(r.path(), "/autoscaling/v2/") && ours.Status == theirs.Status &&
			strings.Contains(theirs.String(), "spec.metrics[") && ours.Status == http.StatusUnprocessableEntity
	}},
	{"keeps the metrics that were sent", func(r asked, ours, theirs Answer) bool {
		sent, more := metrics(ours), metrics(theirs)
		if ours.Status < 300 && theirs.Status == http.StatusUnprocessableEntity { // for the one that nobody sent
			return len(sent) > 0 && strings.Contains(theirs.String(), fmt.Sprintf(`"spec.metrics[%d].`, len(sent)))
		}
		return strings.Contains(r.path(), "/horizontalpodautoscalers") && len(sent) > 0 &&
			equalWithout(ours, theirs, "spec.metrics", "metadata.annotations", "metadata.managedFields", "metadata.generation") &&
			len(more) > len(sent) && reflect.DeepEqual(sent, more[:len(sent)]) && reflect.DeepEqual(sent[0], more[len(sent)])
	}},
	{"lets mirror pods refer to no API object at all", func(_ asked, ours, _ Answer) bool {
		return ours.Status == http.StatusForbidden && strings.Contains(ours.message(), "a mirror pod may not reference ")
	}},
	{"name the webhook in every error", func(_ asked, ours, theirs Answer) bool {
		return ours.Status == theirs.Status && theirs.message() != "" && !strings.Contains(theirs.message(), "webhook \"") &&
			(ours.Status == http.StatusInternalServerError && strings.Contains(ours.message(), "webhook \"") &&
				strings.HasSuffix(ours.message(), strings.TrimPrefix(theirs.message(), "Internal error occurred: ")) ||
				ours.Status == http.StatusForbidden && conditionPattern.ReplaceAllString(ours.message(), "") == theirs.message())
	}},
	{"says in every refusal that the backend failed", func(_ asked, ours, theirs Answer) bool {
		return bothForbidden(ours, theirs) &&
			strings.Replace(ours.message(), "error contacting webhook backend: ", "", 1) == theirs.message()
	}},
	{"PodTolerationRestriction and, for ephemeral containers, ServiceAccount have the status 403",
		func(_ asked, ours, theirs Answer) bool {
			message := strings.TrimPrefix(theirs.message(), "Internal error occurred: ")
			return ours.Status == http.StatusForbidden && theirs.Status == http.StatusInternalServerError && message != "" &&
				strings.Contains(ours.message(), message)
		}},
	{"and on an object that doesn't fit it", func(r asked, ours, theirs Answer) bool {
		isIgnored := func(one Request) bool {
			return field(one.Body, "kind") == "MutatingAdmissionPolicy" && field(one.Body, "spec", "failurePolicy") == "Ignore"
		}
		if !slices.ContainsFunc(r.round, isIgnored) {
			return false
		}
		if parts(ours, theirs) == "audit " { // of a webhook that adds a label to those of the policy, or asks for some
			return strings.Contains(ours.Audit, oneLabel) &&
				mutationPattern.ReplaceAllString(ours.Audit, "") == mutationPattern.ReplaceAllString(theirs.Audit, "")
		}
		// A Job without labels gets those of its pods.
		return strings.Count(ours.String(), mutatedLabel) > strings.Count(theirs.String(), mutatedLabel) &&
			equalWithout(ours, theirs, "metadata.labels", "metadata.managedFields")
	}},
	{"tells every error, which names its expression", func(_ asked, ours, theirs Answer) bool {
		// It takes the policies in the order of their names, Kubernetes in any.
		all := strings.Split(ours.message(), "\n")
		return len(all) > 1 && slices.IsSorted(all) && slices.Contains(all, theirs.message()) &&
			strings.HasPrefix(theirs.message(), "policy '") && equalWithout(ours, theirs, "message")
	}},
	{"of several refusals the client always gets the same", func(r asked, ours, theirs Answer) bool {
		// Mutating webhooks are asked one after the other, so that the first refusal is the only one.
		one, other := webhookPattern.FindStringSubmatch(ours.message()), webhookPattern.FindStringSubmatch(theirs.message())
		return ours.Status >= 400 && theirs.Status >= 400 && one != nil && other != nil && one[1] != other[1] &&
			r.onlyValidates(one[1]) && r.onlyValidates(other[1])
	}},
	{"names the right that is missing", func(_ asked, ours, theirs Answer) bool {
		before, _, ok := strings.Cut(ours.message(), ": not allowed to ")
		return ok && bothForbidden(ours, theirs) && strings.HasPrefix(theirs.message(), before+": ")
	}},
	{"policies are evaluated in order of their names", func(_ asked, ours, theirs Answer) bool {
		return ours.Status == theirs.Status && reflect.DeepEqual(ours.Body, theirs.Body) &&
			slices.Equal(slices.Sorted(slices.Values(ours.Warnings)), slices.Sorted(slices.Values(theirs.Warnings))) &&
			slices.Equal(slices.Sorted(slices.Values([]rune(ours.Audit))), slices.Sorted(slices.Values([]rune(theirs.Audit))))
	}},
	{"A charge is no request, so no webhook or policy is asked about it", func(r asked, ours, theirs Answer) bool {
		if strings.Contains(r.Path, "/resourcequotas") { // which a webhook or a policy has changed
			if parts(ours, theirs) == "audit " {
				return strings.Contains(theirs.Audit, oneLabel) &&
					mutationPattern.ReplaceAllString(ours.Audit, "") == mutationPattern.ReplaceAllString(theirs.Audit, "")
			}
			return changes(theirs) > changes(ours) && agreeOnUsage(ours.Body, theirs.Body) &&
				equalWithout(ours, theirs, "status", "metadata.managedFields", "metadata.labels", "metadata.annotations")
		}
		return r.Verb == http.MethodPost && ours.Status < 300 && theirs.Status >= 400 && r.isNoCreation(theirs.message())
	}},
}

var limitPattern = regexp.MustCompile(`(maximum|minimum|limit to request ratio).* usage per |(maximum|minimum) .* per |LimitRange`)
