// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"

	"gatehouse.dev/apis/decisions/v1alpha1"
	"gatehouse.dev/internal/review/input"
	"gatehouse.dev/internal/review/suite"
	"gatehouse.dev/plugin"
	"gatehouse.dev/review"
)

// judgeCase judges a case and compares the result with the expected one. It returns the mark, or nil
// if the case needs a new server after it.
func (w *worker) judgeCase(t *task, c *suite.Case, out *Case, mark *review.Mark) *review.Mark {
	begin := time.Now()
	result, err := w.ask(t, c)
	if out.Result = result; result != nil && len(result.NotStored) > 0 {
		t.report.Warnings = append(t.report.Warnings, result.NotStoredNote())
	}
	if err == nil {
		out.Differences = differences(&c.Expect, result)
		out.Because = w.because(t, c, result, out.Differences)
	}
	left, undone := w.restore(mark)
	if err == nil {
		err = undone
	}
	if err == nil && left != nil && w.Update && len(out.Differences) > 0 && len(outsideObject(out.Differences)) == 0 {
		// Values that differ each time can't be expected.
		var again *review.Result
		if again, err = w.ask(t, c); err == nil {
			t.updates = append(t.updates, suite.Update{Case: c,
				Object: suite.Stable(result.Stored.Object, again.Stored.Object)})
			out.Differences, out.Because = nil, nil
			left, err = w.restore(mark)
		}
	}
	if err == nil && len(out.Differences) == 0 {
		err = checkParams(c, result)
	}
	out.Seconds = time.Since(begin).Seconds()
	switch {
	case err != nil:
		out.Outcome, out.Error = Error, err.Error()
	case len(out.Differences) > 0:
		out.Outcome = Failed
	default:
		out.Outcome = Passed
	}
	return left
}

// objectField begins the names of fields of the stored object.
const objectField = "object"

// outsideObject returns the differences that aren't in the stored object.
func outsideObject(all []suite.Difference) []suite.Difference {
	return slices.DeleteFunc(slices.Clone(all), func(d suite.Difference) bool {
		return d.Field == objectField || strings.HasPrefix(d.Field, objectField+".")
	})
}

// ask returns the server's result for a case.
func (w *worker) ask(t *task, c *suite.Case) (*review.Result, error) {
	if err := w.reviewer.Load(w.ctx, c.State); err != nil {
		return nil, fmt.Errorf("state: %w", err)
	}
	for _, d := range c.Before {
		first, err := w.reviewer.With(nil, "").Review(w.ctx, []input.Document{d}, nil)
		if err != nil {
			return nil, err
		}
		if r := first.Results[0]; r.Verdict != v1alpha1.Admitted {
			return nil, fmt.Errorf("before: %s: %s is %s: %s", d.Source, r.Object, strings.ToLower(string(r.Verdict)),
				r.Message)
		}
	}
	if t.coverage != nil {
		w.observer.begin()
	}
	reviewer := w.reviewer.With(userOf(c.As), review.Operation(c.Operation)).WithSubresource(c.Subresource)
	done, err := reviewer.Review(w.ctx, []input.Document{{Source: c.Source, Object: c.Object}}, nil)
	if t.coverage != nil {
		t.coverage.add(w.observer.end())
	}
	if err != nil {
		return nil, err
	}
	result := &done.Results[0]
	if result.Verdict == v1alpha1.Failed && c.Expect.Error != "" && len(faults(result.Decision)) > 0 {
		result.Verdict = v1alpha1.Refused // the case expects the error
	}
	if result.Verdict == v1alpha1.Failed {
		return result, fmt.Errorf("%s", result.Message)
	}
	if len(result.UnknownFields) > 0 && c.Expect.Message.Text == "" && c.Expect.Message.Matches == nil {
		// A case isn't about the refusal of a misspelt field, unless it expects the message.
		return result, fmt.Errorf("object: %s", result.Message)
	}
	return result, nil
}

// checkParams returns an error if a case has params, and no policy is known to have been asked with them.
func checkParams(c *suite.Case, r *review.Result) error {
	if c.Params == nil {
		return nil
	}
	decisions := []*v1alpha1.Decision{r.Decision}
	for _, pods := range r.Pods {
		decisions = append(decisions, pods.Decision, pods.Admission())
	}
	name, omitted := c.Params.GetName(), int32(0)
	for _, d := range decisions {
		if d == nil {
			continue
		}
		for _, step := range d.Steps {
			omitted += step.OmittedCalls
			if slices.ContainsFunc(step.Calls, func(call v1alpha1.Call) bool {
				return call.Param == name || call.Param == cmp.Or(c.Params.GetNamespace(), "default")+"/"+name
			}) {
				return nil
			}
		}
	}
	if omitted > 0 {
		return fmt.Errorf("params: it isn't known whether a policy was asked with %s: the decision leaves out %d calls: have "+
			"fewer policies in the state", input.Named(c.Params), omitted)
	}
	return fmt.Errorf("params: no policy was asked with %s: have a policy with its paramKind match the request, and the "+
		"paramRef of its binding select it; or remove params", input.Named(c.Params))
}

// userOf returns the user of a case, or nil for an administrator.
func userOf(u *suite.User) user.Info {
	switch {
	case u == nil:
		return nil
	case u.ServiceAccount != "":
		namespace, name, _ := strings.Cut(u.ServiceAccount, "/")
		return serviceaccount.UserInfo(namespace, name, "")
	}
	return &user.DefaultInfo{Name: u.Name, Groups: append(slices.Clone(u.Groups), user.AllAuthenticated)}
}

// differences returns the differences between the result of a case and the expected one.
func differences(e *suite.Expect, r *review.Result) []suite.Difference {
	if string(r.Verdict) != e.Verdict {
		return []suite.Difference{{Field: "verdict", Expected: e.Verdict, Got: describeVerdict(r)}}
	}
	all := messageDifferences("", &e.Message, r.Decision, r.Message)
	if e.Object != nil {
		if r.Stored == nil {
			all = append(all, suite.Difference{Field: objectField, Expected: e.Object, Got: suite.Absent})
		} else {
			all = append(all, objectDifferences(e.Object, r.Stored.Object)...)
		}
	}
	if e.Warnings != nil && !slices.EqualFunc(e.Warnings, r.Warnings, func(want, got string) bool {
		return strings.Contains(got, want)
	}) {
		all = append(all, suite.Difference{Field: "warnings", Expected: e.Warnings, Got: orNone(r.Warnings)})
	}
	if e.Webhooks != nil {
		want, got := slices.Sorted(slices.Values(e.Webhooks)), webhooksAsked(r.Decision)
		if !slices.Equal(want, got) {
			all = append(all, suite.Difference{Field: "webhooks", Expected: orNone(want), Got: orNone(got)})
		}
	}
	return append(all, podDifferences(e.Pods, r)...)
}

// objectDifferences returns the differences of a stored object. An empty expectation is a
// difference too, for Options.Update to fill it.
func objectDifferences(want, got map[string]any) []suite.Difference {
	if len(want) == 0 {
		return []suite.Difference{{Field: objectField, Expected: "fields of the object, which --update writes",
			Got: "{}"}}
	}
	return suite.Differences(objectField, want, got)
}

func orNone(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

// describeVerdict returns an object's verdict, in words.
func describeVerdict(r *review.Result) string {
	text := string(r.Verdict)
	if by := refuser(r.Decision); by != "" {
		text += " by " + by
	}
	if r.Message != "" {
		text += ": " + r.Message
	}
	for _, pods := range r.Pods {
		if pods.Admitted < pods.Wanted {
			text += ", but " + pods.String()
		}
	}
	return text
}

// messageDifferences returns the differences of a decision, and of its message if it is a refusal.
func messageDifferences(path string, want *suite.Message, d *v1alpha1.Decision, message string) []suite.Difference {
	var all []suite.Difference
	by := refuser(d)
	if plugin, _, _ := strings.Cut(by, "/"); want.By != "" && want.By != by && want.By != plugin {
		all = append(all, suite.Difference{Field: path + "by", Expected: want.By, Got: by})
	}
	if !strings.Contains(message, want.Text) {
		all = append(all, suite.Difference{Field: path + "message", Expected: want.Text, Got: message})
	}
	if want.Matches != nil && !want.Matches.MatchString(message) {
		all = append(all, suite.Difference{Field: path + "matches", Expected: want.Matches.String(), Got: message})
	}
	return append(all, faultDifferences(path+"error", want.Error, faults(d))...)
}

// podDifferences returns the differences of a workload's pods. By default all must be admitted.
func podDifferences(want *suite.Pods, r *review.Result) []suite.Difference {
	if len(r.Pods) == 0 {
		if want == nil {
			return nil
		}
		return []suite.Difference{{Field: "pods", Expected: "some",
			Got: "none: " + r.Object.Kind + " makes no pods here"}}
	}
	got := &r.Pods[0]
	if want == nil {
		if got.Admitted == got.Wanted {
			return nil
		}
		return []suite.Difference{{Field: "pods", Expected: "all admitted", Got: got.String()}}
	}
	var all []suite.Difference
	if want.Wanted != nil && *want.Wanted != got.Wanted {
		all = append(all, suite.Difference{Field: "pods.wanted", Expected: *want.Wanted, Got: got.Wanted})
	}
	if want.Admitted != nil && *want.Admitted != got.Admitted {
		all = append(all, suite.Difference{Field: "pods.admitted", Expected: *want.Admitted, Got: got.String()})
	}
	return append(all, messageDifferences("pods.", &want.Message, got.Decision, got.Message)...)
}

// refuser returns the plugin that refused, with a slash and the policy, webhook, quota or LimitRange
// by which it did, or "" if none refused.
func refuser(d *v1alpha1.Decision) string {
	if d == nil || d.By == "" {
		return ""
	}
	for i := len(d.Steps) - 1; i >= 0; i-- {
		if d.Steps[i].Plugin != d.By {
			continue
		}
		for _, c := range d.Steps[i].Calls {
			if c.Verdict == v1alpha1.Refused || c.Verdict == v1alpha1.Failed && !c.FailedOpen {
				return d.By + "/" + c.Name
			}
		}
		break
	}
	return d.By
}

// webhooksAsked returns the webhooks that a cluster would ask, or that were asked, sorted by name.
func webhooksAsked(d *v1alpha1.Decision) []string {
	var all []string
	for i := range d.Steps {
		for _, c := range d.Steps[i].Calls {
			if c.Kind == string(plugin.Webhook) &&
				(c.Verdict != v1alpha1.Skipped || strings.HasPrefix(c.Why, plugin.WouldBeAsked)) {
				all = append(all, c.Name)
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}
