package policy

import (
	"context"
	"fmt"

	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// rights asks an authorizer each question once: whoever asks it again in the same request, be it
// another policy, gets the same answer. It is for one goroutine.
//
// Source: k8s.io/apiserver/pkg/admission/plugin/authorizer, which also has a memory for each
// request.
type rights struct {
	authorizer authorizer.Authorizer
	// answers are by what question returns.
	answers map[string]answer
}

type answer struct {
	decision authorizer.Decision
	reason   string
	err      error
}

// Authorize implements authorizer.Authorizer.
func (r *rights) Authorize(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	key := question(a)
	if known, ok := r.answers[key]; ok {
		return known.decision, known.reason, known.err
	}
	decision, reason, err := r.authorizer.Authorize(ctx, a)
	// Who had no time to answer may have it next time.
	if ctx.Err() == nil {
		if r.answers == nil {
			r.answers = map[string]answer{}
		}
		r.answers[key] = answer{decision, reason, err}
	}
	return decision, reason, err
}

// question is all that an authorizer may look at, so that no two questions read alike.
func question(a authorizer.Attributes) string {
	// What of a selector can't be parsed isn't looked at.
	byFields, _ := a.GetFieldSelector()
	byLabels, _ := a.GetLabelSelector()
	text := fmt.Appendf(nil, "%t %q %q %q %q %q %q %q %q %q ", a.IsResourceRequest(), a.GetVerb(), a.GetNamespace(),
		a.GetAPIGroup(), a.GetAPIVersion(), a.GetResource(), a.GetSubresource(), a.GetName(), a.GetPath(), byFields)
	for i := range byLabels {
		text = fmt.Appendf(text, "%q ", byLabels[i].String())
	}
	if user := a.GetUser(); user != nil {
		text = fmt.Appendf(text, "user %q %q %q %q", user.GetName(), user.GetUID(), user.GetGroups(), user.GetExtra())
	}
	return string(text)
}
