// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"slices"
	"strings"

	"gatehouse.dev/apis/decisions/v1alpha1"
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
			f.also != nil && !f.also(why) {
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
	return strings.NewReplacer("{resource}", resource, "{object}", name, "{webhook}", call.Name,
		"{binding}", call.Binding, "{server}", server, "{in}", in)
}
