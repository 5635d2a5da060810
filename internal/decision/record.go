package decision

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"

	"gatehouse.dev/apis/decisions/v1alpha1"
	"gatehouse.dev/internal/jsondiff"
	"gatehouse.dev/plugin"
)

// record is what is known of a request that is over, until it becomes a decision.
type record struct {
	decision v1alpha1.Decision
	changes  []change
	values   Values
	class    class
}

// change is what a step changed. It becomes the step's patch behind the answer.
type change struct {
	*jsondiff.Changes
	step int // the step's index
	// secret says that values of a Secret that a policy reads may be in it.
	secret bool
}

// stepSize is the memory of a step, without what it points to.
var stepSize = int(reflect.TypeFor[v1alpha1.Step]().Size())

// class says for how long a decision is worth being kept, beside others.
type class int

const (
	plain   class = iota // nothing to ask about
	changed              // the object was changed
	refused              // or failed
	classes
)

// classify returns the class.
func (r *record) classify() class {
	d := &r.decision
	if d.Verdict != v1alpha1.Admitted && !v1alpha1.Everyday(d) {
		return refused
	}
	for i := range d.Steps {
		s := &d.Steps[i]
		if s.Verdict != v1alpha1.Admitted || hasChanged(s) || len(s.Calls) > 0 {
			return changed
		}
	}
	return plain
}

// size returns how much memory the record takes, in bytes, roughly.
func (r *record) size() int {
	n := entryOverhead + len(r.decision.Steps)*stepSize
	for i := range r.changes {
		n += r.changes[i].Size()
	}
	return n
}

// secrets knows which values of the request's objects are hidden.
func (r *record) secrets() secrets {
	request := &r.decision.Request
	return secrets{schema.GroupResource{Group: request.Group, Resource: request.Resource}, r.values}
}

// settle makes patches of the changes, without what is secret in them, and finds the class.
func (r *record) settle() {
	d := &r.decision
	secret := r.secrets()
	for i := range r.changes {
		change := &r.changes[i]
		step := &d.Steps[change.step]
		// Objects that were decoded can be encoded, so an error is a defect.
		patch, err := change.Patch()
		if err != nil {
			klog.ErrorS(err, "Comparing an object with itself before a plugin", "plugin", step.Plugin, "decision", d.Name)
		}
		shown := operations(patch)
		if change.secret {
			hideValues(shown)
		}
		step.Patch, step.PatchCut = limited(secret.ofPatch(shown))
		if hasChanged(step) && !slices.Contains(d.ChangedBy, step.Plugin) {
			d.ChangedBy = append(d.ChangedBy, step.Plugin)
		}
	}
	r.changes = nil
	r.class = r.classify()
}

// hasChanged reports whether the plugin changed the object.
func hasChanged(s *v1alpha1.Step) bool { return len(s.Patch) > 0 || s.PatchCut }

// phases are the names of the phases in the API.
var phases = map[plugin.Phase]string{plugin.Mutating: "Mutate", plugin.Validating: "Validate"}

// operations returns a patch as the API has it.
func operations(patch []jsondiff.Operation) []v1alpha1.PatchOperation {
	var shown []v1alpha1.PatchOperation
	for _, o := range patch {
		operation := v1alpha1.PatchOperation{Op: o.Op, Path: o.Path}
		if o.Value != nil {
			operation.Value = &v1alpha1.Value{Raw: o.Value}
		}
		shown = append(shown, operation)
	}
	return shown
}

// Limits of what is kept of one request, so that no plugin, webhook or policy makes it large.
const (
	maxPatch    = 64 << 10  // bytes of a patch
	maxMessage  = 8 << 10   // bytes of a message
	maxName     = 256       // bytes of a name of an object, which has 253 at most
	maxIdentity = 1024      // bytes of a user agent, as in audit events, of a user's name and of a group
	maxGroups   = 100       // of a user
	maxCalls    = 100       // of a step
	maxWarnings = 10        // of a call
	maxSteps    = 500       // of a request
	maxDecision = 512 << 10 // bytes of a decision
)

// newStep returns what is kept of a plugin's step, but for its changes. secretChanges says that
// values of a Secret that a policy reads may be in these.
func newStep(s *plugin.Step, values Values) (kept v1alpha1.Step, secretChanges bool) {
	verdict, _ := plugin.VerdictOf(s.Err)
	kept = v1alpha1.Step{Plugin: s.Plugin, Phase: phases[s.Phase], Round: int32(s.Round),
		Verdict: v1alpha1.Verdict(verdict), Duration: metav1.Duration{Duration: s.Duration}}
	secret := secrets{s.Attributes.GetResource().GroupResource(), values}
	about := &v1alpha1.Request{Name: s.Attributes.GetName(), Namespace: s.Attributes.GetNamespace(),
		Resource: s.Attributes.GetResource().Resource, Version: s.Attributes.GetResource().Version}
	if s.Err != nil {
		kept.Message = secret.ofPlugin(s.Err.Error(), about)
	}
	for i := range s.Calls {
		c := &s.Calls[i]
		secretChanges = secretChanges || c.Secret
		if s.Err != nil && c.Secret && (c.Verdict == plugin.Refused || c.Verdict == plugin.Failed) {
			kept.Message = ofSecretParams
		}
	}
	kept.Calls, kept.OmittedCalls = newCalls(s.Calls, secret, about)
	return kept, secretChanges
}

// worth says which calls are kept first if there are many: those that did something or have
// something to say, then those that nearly were made, then all others.
func worth(c *plugin.Call) int {
	switch {
	case c.Verdict == plugin.Refused, c.Verdict == plugin.Failed, c.Patch != nil, len(c.Warnings) > 0,
		c.Verdict == plugin.Admitted && c.Why != "":
		return 0
	case c.Verdict == plugin.Skipped && !strings.Contains(c.Why, "Selector doesn't select "):
		return 1
	}
	return 2
}

// newCalls returns what is kept of a step's calls, in their order: those of the most worth if there
// are many.
func newCalls(calls []plugin.Call, secret secrets,
	about *v1alpha1.Request) (kept []v1alpha1.Call, omitted int32) {
	if len(calls) == 0 {
		return nil, 0
	}
	kept = make([]v1alpha1.Call, 0, min(len(calls), maxCalls))
	var room [3]int
	for i := range calls {
		room[worth(&calls[i])]++
	}
	left := maxCalls
	for i := range room {
		room[i] = min(room[i], left)
		left -= room[i]
	}
	for i := range calls {
		c := &calls[i]
		if room[worth(c)] == 0 {
			continue
		}
		room[worth(c)]--
		call := v1alpha1.Call{Kind: string(c.Kind), Name: c.Name, Configuration: c.Configuration, Binding: c.Binding,
			Param: c.Param, Expression: cut(c.Expression), Backend: cut(c.Backend),
			Verdict: v1alpha1.Verdict(c.Verdict), Code: c.Code, FailedOpen: c.Ignored,
			Why:      secret.ofPlugin(c.Why, about),
			Duration: metav1.Duration{Duration: c.Duration}}
		if c.Secret && c.Verdict != plugin.Skipped && c.Why != "" {
			call.Why = ofSecretParams
		}
		for _, warning := range c.Warnings[:min(len(c.Warnings), maxWarnings)] {
			if warning = secret.ofPlugin(warning, about); c.Secret {
				warning = ofSecretParams
			}
			call.Warnings = append(call.Warnings, warning)
		}
		if c.Patch != nil {
			var operations []v1alpha1.PatchOperation
			if json.Unmarshal(c.Patch, &operations) == nil {
				if c.Secret {
					hideValues(operations)
				}
				call.Patch, call.PatchCut = limited(secret.ofPatch(operations))
			} else {
				call.PatchCut = true
			}
		}
		kept = append(kept, call)
	}
	return kept, int32(len(calls) - len(kept))
}

// limited are the operations up to the limit, and whether there were more.
func limited(operations []v1alpha1.PatchOperation) ([]v1alpha1.PatchOperation, bool) {
	n := 0
	for i := range operations {
		o := &operations[i]
		if n += len(o.Path); o.Value != nil {
			n += len(o.Value.Raw)
		}
		if n > maxPatch {
			return operations[:i:i], true
		}
	}
	return operations, false
}

// cut returns a message of bounded length.
func cut(message string) string { return cutAt(message, maxMessage) }

// cutAt returns a text of at most so many bytes. One that was longer ends with a mark.
func cutAt(text string, bytes int) string {
	if len(text) <= bytes {
		return text
	}
	return strings.ToValidUTF8(text[:bytes], "") + "…"
}

// cutRequest bounds what a client chooses of a request.
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
