// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"gatehouse.dev/apis/decisions/v1alpha1"
	"gatehouse.dev/internal/expression"
	"gatehouse.dev/internal/inventory"
	"gatehouse.dev/internal/kindtypes"
	"gatehouse.dev/internal/review/input"
)

// Severity says how grave a finding is.
type Severity string

// The severities. An Error is what API servers refuse, or what stops a cluster in an outage.
const (
	Error   Severity = "error"
	Warning Severity = "warning"
)

// A Rule looks for one kind of mistake.
type Rule struct {
	// ID is the rule's name. It doesn't change between versions.
	ID string
	// Severity is that of its gravest findings.
	Severity Severity
	// Title says what is found, in a few words.
	Title string

	check func(*linting)
}

// Rules are all rules, in the order in which they are checked.
var Rules = slices.Concat(cycleRules, scopeRules, timeoutRules, fieldRules, neverRules, conditionRules, backendRules,
	certificateRules, policyRules, typeRules, costRules, bindingRules, adviceRules,
	annotationRules)

// RuleIDs returns the names of all rules.
func RuleIDs() (ids []string) {
	for _, r := range Rules {
		ids = append(ids, r.ID)
	}
	return ids
}

// Options say what to check.
type Options struct {
	// Documents are the objects. Complete reports whether a cluster has no other ones of their kinds.
	Documents []input.Document
	Complete  bool
	// Namespace is the namespace of objects that name none; default if empty.
	Namespace string
	// Texts are the contents of files by the names in the documents' sources. They give findings their lines.
	Texts map[string][]byte
	// KnowsParams reports whether Documents have all objects of the kinds of policies' params.
	KnowsParams bool
	// Served are the kinds that the cluster serves, each in its preferred version; nil if that isn't known. Of
	// UnknownGroups nothing is known.
	Served        []Served
	UnknownGroups []string
	// Refusal returns the error with which the API refuses to create an object; nil if that can't be asked.
	Refusal func(context.Context, *unstructured.Unstructured) error
	// Disabled are the IDs of rules that are left out.
	Disabled []string
	// alone reports whether each patch is to be applied to the object as it is, and not after those before it.
	alone bool
	// Now is the time by which certificates expire; the current time if zero.
	Now time.Time
}

// linting is one run of the rules.
type linting struct {
	options Options
	*inventory.Inventory
	ctx      context.Context
	compiler *expression.Compiler
	// checker checks expressions with types; see types.
	checker *kindtypes.Types
	lines   *lines
	rule    *Rule
	// plans are the webhooks with the changes of the findings so far.
	plans  map[*inventory.Webhook]*admissionregistrationv1.MutatingWebhook
	ids    []string
	report *Report
}

// Check checks all rules, and returns a report with the findings in the order of the objects.
func Check(ctx context.Context, o Options) (*Report, error) {
	o.Namespace = cmp.Or(o.Namespace, "default")
	if o.Now.IsZero() {
		o.Now = time.Now()
	}
	l := &linting{options: o, ctx: ctx, compiler: expression.NewCompiler(), ids: RuleIDs(), lines: newLines(o.Texts),
		plans:  map[*inventory.Webhook]*admissionregistrationv1.MutatingWebhook{},
		report: &Report{APIVersion: APIVersion, Kind: Kind, Findings: []Finding{}}}
	var errs []error
	l.Inventory, errs = inventory.New(o.Documents, o.Namespace, o.Complete)
	l.report.Fail(errs...)
	if n := len(l.Webhooks) + len(l.Policies) + len(l.Bindings); n == 0 && len(errs) == 0 {
		checked := "nothing was checked"
		if len(l.Definitions) > 0 {
			checked = "only the rules of CustomResourceDefinitions were checked"
		}
		l.report.Notes = append(l.report.Notes, fmt.Sprintf("there is no webhook configuration and no policy among %d "+
			"objects: %s (some programs register theirs when they run: check the cluster with --context)",
			len(o.Documents), checked))
	}
	for i := range Rules {
		if l.rule = &Rules[i]; slices.Contains(o.Disabled, l.rule.ID) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		l.rule.check(l)
	}
	l.report.sort(o.Documents)
	return l.report, ctx.Err()
}

// A place is a field of an object.
type place struct {
	document input.Document
	// path is the field's JSON pointer; empty for the object.
	path string
	// part names the part of the object that has it, such as a webhook; may be empty.
	part string
}

// at returns the place of a field of a webhook: rules, clientConfig/caBundle, or empty for the webhook.
func at(w *inventory.Webhook, field string) place {
	if field != "" {
		field = "/" + field
	}
	return place{w.Document, w.Path(field), w.Name}
}

// A change is the patch that fixes a finding.
type change struct {
	patch []v1alpha1.PatchOperation
	// safe reports whether it can be made without knowing more.
	safe bool
}

// add adds a finding of the rule. happens says what happens, remedy what to do.
func (l *linting) add(p place, s Severity, c change, happens, remedy string) {
	object := objectOf(p.document.Object)
	f := Finding{ID: l.rule.ID, Severity: s, Source: p.document.Source, Object: object, Part: p.part,
		Message: happens, Remedy: remedy, Patch: c.patch, Safe: c.safe, document: p.document, path: p.path}
	if reason, ignored := ignoredFor(p.document.Object, l.rule.ID); ignored {
		l.report.Ignored = append(l.report.Ignored, Ignored{ID: f.ID, Source: f.Source, Object: object, Part: f.Part,
			Reason: reason})
		return
	}
	f.Source.Line = l.lines.of(p.document, p.path)
	l.report.Findings = append(l.report.Findings, f)
}

// bySeverity returns Error if a webhook under Fail has the mistake, Warning under Ignore.
func bySeverity(fails bool) Severity {
	if fails {
		return Error
	}
	return Warning
}

func objectOf(o *unstructured.Unstructured) Object {
	return Object{APIVersion: o.GetAPIVersion(), Kind: o.GetKind(), Namespace: o.GetNamespace(), Name: o.GetName()}
}
