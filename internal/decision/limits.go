// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"encoding/json"
	"strings"

	"gatehouse.dev/apis/decisions/v1alpha1"
)

// Limits of one decision, so that no plugin, webhook or policy makes it large.
const (
	maxPatch    = 64 << 10  // bytes of a patch
	maxMessage  = 8 << 10   // bytes of a message
	maxName     = 256       // bytes of a name of an object, which has 253 at most
	maxIdentity = 1024      // bytes of a user agent, as in audit events, of a user's name and of a group
	maxGroups   = 100       // of a user
	maxCalls    = 100       // of a step
	maxWarnings = 10        // of a call
	maxReads    = 50        // of a call
	maxSteps    = 500       // of a request
	maxDecision = 512 << 10 // bytes of a decision
)

// LargeValue takes the place of a value that is too large to be kept.
const LargeValue = "(set; the value is too large to be kept)"

var largeJSON, _ = json.Marshal(LargeValue)

// limited cuts the values of operations that are beyond the limit, in place, and returns the operations up
// to the limit. isCut reports whether it left out anything.
func limited(operations []v1alpha1.PatchOperation) (kept []v1alpha1.PatchOperation, isCut bool) {
	n := 0
	for i := range operations {
		o := &operations[i]
		n += len(o.Path)
		if o.Value != nil && n+len(o.Value.Raw) > maxPatch {
			o.Value, isCut = &v1alpha1.Value{Raw: largeJSON}, true
		}
		if o.Value != nil {
			n += len(o.Value.Raw)
		}
		if n > maxPatch {
			return operations[:i:i], true
		}
	}
	return operations, isCut
}

// cut returns a message of bounded length.
func cut(message string) string { return cutAt(message, maxMessage) }

// cutAt returns a text of at most so many bytes. A text that was longer ends with "…".
func cutAt(text string, bytes int) string {
	if len(text) <= bytes {
		return text
	}
	return strings.ToValidUTF8(text[:bytes], "") + "…"
}

// cutNames returns the first names of fields, each of bounded length.
func cutNames(names []string) []string {
	var kept []string
	for _, name := range names[:min(len(names), maxReads)] {
		kept = append(kept, cutAt(name, maxName))
	}
	return kept
}

// cutRequest cuts the parts of a request that a client chooses.
func cutRequest(r *v1alpha1.Request) {
	r.UserAgent = cutAt(r.UserAgent, maxIdentity)
	cutUser(&r.User)
	if r.ImpersonatedBy != nil {
		cutUser(r.ImpersonatedBy)
	}
	for _, name := range []*string{&r.Subresource, &r.Group, &r.Version, &r.Resource, &r.Namespace, &r.Name,
		&r.GenerateName} {
		*name = cutAt(*name, maxName)
	}
	if r.Owner != nil {
		r.Owner.Kind, r.Owner.Name = cutAt(r.Owner.Kind, maxName), cutAt(r.Owner.Name, maxName)
	}
}

func cutUser(u *v1alpha1.User) {
	u.Username = cutAt(u.Username, maxIdentity)
	groups := make([]string, 0, min(len(u.Groups), maxGroups+1)) // the user's own are shared
	for i, group := range u.Groups {
		if i == maxGroups {
			groups = append(groups, "…")
			break
		}
		groups = append(groups, cutAt(group, maxIdentity))
	}
	u.Groups = groups
}
