package decision

import (
	"encoding/json"
	"slices"
	"strings"
	"time"
	"unsafe"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"gatehouse.dev/apis/decisions/v1alpha1"
	"gatehouse.dev/chain"
	"gatehouse.dev/chain/jsondiff"
)

// A record is what is known of a request that is over.
type record struct {
	revision  uint64
	name      string
	auditID   string // where that isn't the name
	namespace string // of the decision
	start     time.Time
	duration  time.Duration

	request v1alpha1.Request
	verdict v1alpha1.Verdict
	status  int32 // of the answer
	reason  metav1.StatusReason
	message string
	by      string

	steps   []step
	omitted int32
	class   class
}

// step is what one plugin did.
type step struct {
	plugin   string
	duration time.Duration
	phase    chain.Phases
	round    uint8
	more     *more // nil for one that admitted the request, and did no more
}

// more is what there may be to tell of a step.
type more struct {
	verdict  v1alpha1.Verdict
	message  string
	changes  *jsondiff.Difference // until settled
	patch    jsondiff.Patch
	patchCut bool
	calls    []v1alpha1.Call
	omitted  int32
}

// class says for how long a decision is worth being kept, beside others.
type class int

const (
	plain   class = iota // nothing to ask about
	changed              // the object was changed
	refused              // or failed
	classes
)

// classify tells the class.
func (r *record) classify() class {
	if r.verdict != v1alpha1.Admitted && !everyday(r.verdict, r.by, r.reason) {
		return refused
	}
	for i := range r.steps {
		if m := r.steps[i].more; m != nil {
			return changed
		}
	}
	return plain
}

// size is how much memory the record takes that isn't settled, in bytes, roughly.
func (r *record) size() int {
	n := int(unsafe.Sizeof(*r))
	for i := range r.steps {
		if m := r.steps[i].more; m != nil {
			n += m.changes.Size()
		}
	}
	return n
}

// settle makes a record of what is known of it: it writes down the changes of each step, without
// what is secret in them, and tells the class.
func (r *record) settle() {
	secret := secrets{schema.GroupResource{Group: r.request.Group, Resource: r.request.Resource}}
	for i := range r.steps {
		s := &r.steps[i]
		if s.more == nil || s.more.changes == nil {
			continue
		}
		// Objects that were decoded can be encoded, so an error is a defect.
		patch, err := s.more.changes.Patch()
		if err != nil {
			klog.ErrorS(err, "Comparing an object with itself before a plugin", "plugin", s.plugin, "decision", r.name)
		}
		s.more.changes = nil
		s.more.patch, s.more.patchCut = secret.ofChanges(patch)
		if m := s.more; m.verdict == v1alpha1.Admitted && !m.changed() && len(m.calls) == 0 {
			s.more = nil
		}
	}
	r.class = r.classify()
}

// decision is the record as the API serves it, made by the server of that name.
func (r *record) decision(server string) *v1alpha1.Decision {
	d := &v1alpha1.Decision{
		TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "Decision"},
		ObjectMeta: metav1.ObjectMeta{
			Name: r.name, Namespace: r.namespace, UID: types.UID(r.name),
			ResourceVersion:   revisionString(r.revision),
			CreationTimestamp: metav1.NewTime(r.start),
			Labels:            map[string]string{v1alpha1.ServerLabel: server},
		},
		Time:         metav1.NewMicroTime(r.start),
		Request:      r.request,
		Verdict:      r.verdict,
		Code:         r.status,
		Reason:       r.reason,
		Message:      r.message,
		By:           r.by,
		Duration:     metav1.Duration{Duration: r.duration},
		OmittedSteps: r.omitted,
	}
	if r.auditID != "" {
		d.Annotations = map[string]string{v1alpha1.AuditIDAnnotation: r.auditID}
	}
	d.ChangedBy = r.changedBy()
	d.Steps = make([]v1alpha1.Step, len(r.steps))
	for i := range r.steps {
		d.Steps[i] = r.steps[i].served()
	}
	return d
}

// changedBy are the plugins that changed the object, each once, in order.
func (r *record) changedBy() []string {
	var plugins []string
	for i := range r.steps {
		s := &r.steps[i]
		if s.more != nil && s.more.changed() && !slices.Contains(plugins, s.plugin) {
			plugins = append(plugins, s.plugin)
		}
	}
	return plugins
}

// changed tells whether the plugin changed the object.
func (m *more) changed() bool { return len(m.patch) > 0 || m.patchCut }

// phases are the names of the phases in the API.
var phases = map[chain.Phases]string{chain.Mutating: "Mutate", chain.Validating: "Validate"}

// served is the step as the API has it.
func (s *step) served() v1alpha1.Step {
	out := v1alpha1.Step{Plugin: s.plugin, Phase: phases[s.phase], Round: int32(s.round), Verdict: v1alpha1.Admitted,
		Duration: metav1.Duration{Duration: s.duration}}
	if m := s.more; m != nil {
		out.Verdict, out.Message, out.Patch, out.PatchCut = m.verdict, m.message, operations(m.patch), m.patchCut
		out.Calls, out.OmittedCalls = m.calls, m.omitted
	}
	return out
}

// operations are a patch as the API has it.
func operations(patch jsondiff.Patch) []v1alpha1.PatchOperation {
	var shown []v1alpha1.PatchOperation
	for o := range patch.All {
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
	maxPatch    = 64 << 10 // bytes of a patch
	maxMessage  = 8 << 10  // bytes of a message
	maxCalls    = 100      // of a step
	maxWarnings = 10       // of a call
	maxSteps    = 500      // of a request
)

// newStep is what is kept of a plugin's step, in the room of its request.
func newStep(s *chain.PluginStep, in *room) step {
	kept := step{plugin: s.Plugin, duration: s.Duration, phase: s.Phase, round: uint8(s.Round)}
	if s.Err == nil && s.Changes == nil && len(s.Calls) == 0 {
		return kept
	}
	kept.more = in.more()
	kept.more.verdict, kept.more.changes = verdictOf(s.Err), s.Changes
	if s.Err != nil {
		kept.more.message = cut(s.Err.Error())
	}
	secret := secrets{s.Attributes.GetResource().GroupResource()}
	kept.more.calls, kept.more.omitted = newCalls(s.Calls, secret, in)
	return kept
}

// newCalls are what is kept of a step's calls: those that changed, refused or failed before the
// others, in their order, in the room.
func newCalls(calls []chain.Call, secret secrets, in *room) (kept []v1alpha1.Call, omitted int32) {
	if len(calls) == 0 {
		return nil, 0
	}
	kept = in.someCalls(min(len(calls), maxCalls))
	left := maxCalls
	telling := func(c *chain.Call) bool {
		return c.Verdict == chain.Refused || c.Verdict == chain.Failed || c.Patch != nil
	}
	for i := range calls {
		if telling(&calls[i]) {
			left--
		}
	}
	taken := 0
	for i := range calls {
		c := &calls[i]
		if !telling(c) {
			left--
			if left < 0 {
				continue
			}
		}
		if taken++; taken > maxCalls {
			break
		}
		call := v1alpha1.Call{Kind: string(c.Kind), Name: c.Name, Configuration: c.Configuration, Binding: c.Binding,
			Param: c.Param, Expression: cut(c.Expression), Backend: cut(c.Backend),
			Verdict: v1alpha1.Verdict(c.Verdict), Code: c.Code, FailedOpen: c.Ignored, Why: cut(c.Why),
			Duration: metav1.Duration{Duration: c.Duration}}
		for _, warning := range c.Warnings[:min(len(c.Warnings), maxWarnings)] {
			call.Warnings = append(call.Warnings, cut(warning))
		}
		if c.Patch != nil {
			var operations []v1alpha1.PatchOperation
			if json.Unmarshal(c.Patch, &operations) == nil {
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

// cut is a message of bounded length.
func cut(message string) string {
	if len(message) <= maxMessage {
		return message
	}
	return strings.ToValidUTF8(message[:maxMessage], "") + "…"
}
