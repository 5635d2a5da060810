// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gatehouse.dev/apis/decisions/v1alpha1"
	"gatehouse.dev/internal/decision"
)

// row is the part of every decision that the page has. Times are in microseconds. Usual values,
// such as an Admitted step in round 0, are left out.
type row struct {
	ID        string           `json:"id"` // namespace/name
	At        int64            `json:"at"`
	Took      int64            `json:"took"`
	Operation string           `json:"op"`
	Group     string           `json:"group,omitempty"`
	Resource  string           `json:"res"`
	Object    string           `json:"obj"`
	Namespace string           `json:"ns,omitempty"`
	DryRun    bool             `json:"dry,omitempty"`
	User      string           `json:"user"`
	Agent     string           `json:"agent,omitempty"`
	Server    string           `json:"server,omitempty"`
	Verdict   v1alpha1.Verdict `json:"verdict"`
	Code      int32            `json:"code,omitempty"`
	Message   string           `json:"msg,omitempty"`
	By        string           `json:"by,omitempty"`
	ChangedBy []string         `json:"changed,omitempty"`
	Steps     []rowStep        `json:"steps,omitempty"`
}

type rowStep struct {
	Plugin  string           `json:"p"`
	Phase   string           `json:"ph,omitempty"` // V for Validate
	Round   int32            `json:"r,omitempty"`
	Verdict v1alpha1.Verdict `json:"v,omitempty"` // other than Admitted
	Took    int64            `json:"t"`
	Changes int              `json:"n,omitempty"`
	Calls   []rowCall        `json:"c,omitempty"`
}

type rowCall struct {
	Kind          string           `json:"k"`
	Name          string           `json:"name"`
	Configuration string           `json:"conf,omitempty"`
	Verdict       v1alpha1.Verdict `json:"v,omitempty"` // other than Admitted
	FailedOpen    bool             `json:"open,omitempty"`
	Took          int64            `json:"t,omitempty"`
	Changes       int              `json:"n,omitempty"`
}

// Bounds of texts in bytes. The decision itself has them whole.
const (
	maxRowMessage = 300
	maxRowAgent   = 120
)

func newRow(d *v1alpha1.Decision) row {
	r := row{
		ID: key(d), At: d.Time.UnixMicro(), Took: microseconds(d.Duration), Operation: d.Request.Operation,
		Group: d.Request.Group, Resource: d.Request.Resource, Object: decision.Object(&d.Request),
		Namespace: d.Request.Namespace, DryRun: d.Request.DryRun, User: d.Request.User.Username,
		Agent: shorten(d.Request.UserAgent, maxRowAgent), Server: d.Labels[v1alpha1.ServerLabel],
		Verdict: v1alpha1.Verdict(v1alpha1.Outcome(d)),
		Code:    d.Code, Message: shorten(d.Message, maxRowMessage), By: d.By, ChangedBy: d.ChangedBy,
	}
	if d.Request.Subresource != "" {
		r.Resource += "/" + d.Request.Subresource
	}
	for _, s := range d.Steps {
		step := rowStep{Plugin: s.Plugin, Round: s.Round, Verdict: omitAdmitted(s.Verdict), Took: microseconds(s.Duration),
			Changes: len(s.Patch)}
		if s.Phase == "Validate" {
			step.Phase = "V"
		}
		for _, c := range s.Calls {
			step.Calls = append(step.Calls, rowCall{c.Kind, c.Name, c.Configuration, omitAdmitted(c.Verdict), c.FailedOpen,
				microseconds(c.Duration), len(c.Patch)})
		}
		r.Steps = append(r.Steps, step)
	}
	return r
}

func key(d *v1alpha1.Decision) string { return d.Namespace + "/" + d.Name }

func microseconds(d metav1.Duration) int64 { return int64(d.Duration / time.Microsecond) }

func omitAdmitted(v v1alpha1.Verdict) v1alpha1.Verdict {
	if v == v1alpha1.Admitted {
		return ""
	}
	return v
}

// shorten shortens a text to about limit bytes.
func shorten(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "") + "…"
}
