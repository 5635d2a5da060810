// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package review_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gatehouse.dev/apis/decisions/v1alpha1"
	"gatehouse.dev/internal/review/input"
	"gatehouse.dev/review"
)

// What CI shows names the object, or the file where there is none, and where it stands.
func TestFormatsOfCI(t *testing.T) {
	configMap := func(name string) review.Object {
		return review.Object{APIVersion: "v1", Kind: "ConfigMap", Namespace: "default", Name: name}
	}
	judged := &review.Review{Results: []review.Result{
		{Source: input.Source{File: "a,b.yaml", Line: 3}, Object: configMap("warned"), Verdict: v1alpha1.Admitted,
			Warnings: []string{"100% old"}},
		{Source: input.Source{File: "a,b.yaml", Line: 7}, Object: configMap("refused"), Verdict: v1alpha1.Refused,
			Message: "no:\nnot at all", Because: []string{"spec.a was set to 1 by Sidecar"},
			Decision: &v1alpha1.Decision{Verdict: v1alpha1.Refused, By: "Gate"}},
		{Source: input.Source{File: "a,b.yaml", Line: 9}, Object: configMap("failed"), Verdict: v1alpha1.Failed,
			Message: "no matches"},
	}, Notes: []string{"it was late"}}
	judged.Fail(&input.Error{Source: input.Source{File: "c.yaml", Line: 4},
		Err: errors.New("did not find expected key")},
		&input.Error{Source: input.Source{File: "gone"}, Err: errors.New("no such file or directory")})
	written := func(format string) string {
		var out bytes.Buffer
		if err := (review.Print{}).Write(&out, judged, format); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	if diff := cmp.Diff(`::warning file=a%2Cb.yaml,line=3,title=ConfigMap default/warned::100%25 old
::error file=a%2Cb.yaml,line=7,title=ConfigMap default/refused is refused::by Gate: no:%0Anot at all%0Abecause spec.a was set to 1 by Sidecar
::error file=a%2Cb.yaml,line=9,title=ConfigMap default/failed can't be judged::no matches
::error file=c.yaml,line=4,title=c.yaml can't be judged::did not find expected key
::error file=gone,line=1,title=gone can't be judged::no such file or directory
::notice title=gatehouse review::it was late
1 admitted, 1 refused, 3 failed
`, written("github")); diff != "" {
		t.Errorf("github: -want +got:\n%s", diff)
	}
	var cases []string
	for line := range strings.Lines(written("junit")) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "<testcase") {
			cases = append(cases, line)
		}
	}
	if diff := cmp.Diff([]string{
		`<testcase name="ConfigMap default/warned" classname="a,b.yaml" file="a,b.yaml" line="3">`,
		`<testcase name="ConfigMap default/refused" classname="a,b.yaml" file="a,b.yaml" line="7">`,
		`<testcase name="ConfigMap default/failed" classname="a,b.yaml" file="a,b.yaml" line="9">`,
		`<testcase name="c.yaml" classname="c.yaml" file="c.yaml" line="4">`,
		`<testcase name="gone" classname="gone" file="gone" line="1">`,
	}, cases); diff != "" {
		t.Errorf("junit: -want +got:\n%s", diff)
	}
	var sarif struct {
		Runs []struct {
			Results []struct {
				RuleID, Level string
				Message       struct{ Text string }
			}
		}
	}
	if err := json.Unmarshal([]byte(written("sarif")), &sarif); err != nil {
		t.Fatal(err)
	}
	var results []string
	for _, r := range sarif.Runs[0].Results {
		results = append(results, r.Level+" "+r.RuleID+" "+r.Message.Text)
	}
	if diff := cmp.Diff([]string{
		"warning Warning ConfigMap default/warned: 100% old",
		"error Gate ConfigMap default/refused: by Gate: no:\nnot at all\nbecause spec.a was set to 1 by Sidecar",
		"error Failed ConfigMap default/failed: no matches",
		"error Failed c.yaml: did not find expected key",
		"error Failed gone: no such file or directory",
	}, results); diff != "" {
		t.Errorf("sarif: -want +got:\n%s", diff)
	}
	if diff := cmp.Diff(`**gatehouse review: 1 admitted, 1 refused, 3 failed**

| object | verdict | by | because | to pass |
| --- | --- | --- | --- | --- |
| ConfigMap default/refused<br>a,b.yaml:7 | refused | Gate | no:<br>not at all<br>because spec.a was set to 1 by Sidecar |  |
| ConfigMap default/failed<br>a,b.yaml:9 | failed |  | no matches |  |
| c.yaml:4 | failed |  | did not find expected key |  |
| gone | failed |  | no such file or directory |  |
| ConfigMap default/warned<br>a,b.yaml:3 | admitted |  | warning: 100% old |  |

- note: it was late
`, written("markdown")); diff != "" {
		t.Errorf("markdown: -want +got:\n%s", diff)
	}
}
