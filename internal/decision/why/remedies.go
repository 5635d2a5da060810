// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"cmp"
	"slices"
	"strings"

	kubeletapis "k8s.io/kubelet/pkg/apis"

	"gatehouse.dev/apis/decisions/v1alpha1"
	"gatehouse.dev/internal/nearest"
)

// A Remedy says what would have to change for a request to pass.
type Remedy struct {
	// Words are the remedy in words.
	Words string `json:"words"`
	// Command shows the object to change, or changes it. It may be empty.
	Command string `json:"command,omitempty"`
}

// remedies returns the remedies of all refusals, without duplicates.
func (e *Explanation) remedies(ofPlugins map[string]string) []Remedy {
	var all []Remedy
	seen := map[Remedy]bool{}
	add := func(r Remedy) {
		if r.Words != "" && !seen[r] {
			seen[r] = true
			all = append(all, r)
		}
	}
	for i := range e.Refusals {
		r := &e.Refusals[i]
		remedy, ok := e.remedyOf(r)
		if !ok && r.Call == nil {
			remedy = Remedy{Words: ofPlugins[r.Plugin]}
			if len(e.Causes) > 0 {
				add(Remedy{Words: "Have what set that changed: the request came without it."})
			}
		}
		add(remedy)
	}
	if len(e.Refusals) == 0 {
		remedy, _ := e.remedyOf(&Refusal{Why: e.Decision.Message})
		add(remedy)
	}
	return all
}

// remedyOf returns the remedy of the first failure in the table that matches the refusal. A refusal
// without a plugin is the API's own.
func (e *Explanation) remedyOf(r *Refusal) (Remedy, bool) {
	d := e.Decision
	by, verdict, code := byAPI, d.Verdict, d.Code
	switch {
	case r.Call != nil:
		by, verdict, code = r.Call.Kind, r.Call.Verdict, r.Call.Code
	case r.Plugin != "":
		by = byPlugin
	}
	why := r.Why
	if why == "" {
		why = d.Message
	}
	for i := range failures {
		f := &failures[i]
		if f.by != "" && f.by != by ||
			f.verdict != "" && f.verdict != verdict || f.reason != "" && f.reason != d.Reason ||
			f.operation != "" && f.operation != d.Request.Operation || f.caused && len(e.Causes) == 0 ||
			f.unanswered && d.Code != 0 || f.codes != nil && !slices.Contains(f.codes, code) ||
			f.also != nil && !f.also(r, why) {
			continue
		}
		var match []int
		if f.says != nil {
			if match = f.says.FindStringSubmatchIndex(why); match == nil {
				continue
			}
		}
		fill := func(template string) string {
			if match != nil {
				template = string(f.says.ExpandString(nil, template, why, match))
			}
			return strings.TrimSpace(e.facts(r).Replace(template))
		}
		return Remedy{fill(f.words), fill(f.command)}, true
	}
	return Remedy{}, false
}

// facts returns the replacer of the words in braces in the table.
func (e *Explanation) facts(r *Refusal) *strings.Replacer {
	call := r.Call
	if call == nil {
		call = &v1alpha1.Call{}
	}
	resource, name := resourceOf(call, r.Phase)
	in := ""
	if namespace := e.Decision.Request.Namespace; namespace != "" {
		in = " -n " + namespace
	}
	server := call.Backend
	if server == "" {
		server = "the address in its clientConfig"
	}
	why := r.Why
	if why == "" {
		why = e.Decision.Message
	}
	return strings.NewReplacer("{level}", meantLevel(why), "{labels}", kubeletLabels, "{managers}", managersIn(why),
		"{resource}", resource, "{object}", name, "{webhook}", call.Name,
		"{binding}", call.Binding, "{server}", server, "{in}", in)
}

// kubeletLabels are the labels in Kubernetes' domains that a node may set.
//
// Source: k8s.io/kubelet/pkg/apis/well_known_labels.go bd1ad569
var kubeletLabels = strings.Join(slices.DeleteFunc(slices.Sorted(slices.Values(kubeletapis.KubeletLabels())),
	func(label string) bool {
		return strings.HasPrefix(label, "beta.kubernetes.io/") || strings.HasPrefix(label, "failure-domain.beta.")
	}), ", ")

// badLevel matches the value of a label of Pod Security.
var badLevel = pattern(`Invalid value: "([^"]*)": must be one of`)

// meantLevel returns the end of a sentence: which level a label of Pod Security was likely meant to name, if any.
func meantLevel(message string) string {
	found := badLevel.FindStringSubmatch(message)
	if found == nil {
		return "."
	}
	return cmp.Or(nearest.Meant(found[1], []string{"privileged", "baseline", "restricted"}), ".")
}

// conflicting matches a manager of fields in the message of a conflict.
var conflicting = pattern(`conflicts? with ("[^"]+"(?: with subresource "[^"]+")?)(?: using \S+)?(?: at ([^:\s]+:[^:\s]+:[^:\s]+))?`)

// managersIn returns the managers that the message of a conflict names, and when they last set fields.
func managersIn(message string) string {
	var managers []string
	for _, m := range conflicting.FindAllStringSubmatch(message, -1) {
		manager := "the manager " + m[1]
		if m[2] != "" {
			manager += " (" + strings.TrimSuffix(m[2], ":") + ")"
		}
		managers = append(managers, manager)
	}
	return strings.Join(managers, " and ")
}
