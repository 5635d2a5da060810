package decision

import (
	"encoding/json"
	"slices"
	"strings"
	"time"
	"unique"
	"unsafe"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"gatehouse.dev/apis/decisions/v1alpha1"
	"gatehouse.dev/chain"
	"gatehouse.dev/chain/jsondiff"
)

// A record is a decision in the form in which it is kept: a third of the size of what the API
// serves, since most steps of most requests have nothing to tell but that they were.
type record struct {
	revision  uint64
	name      string
	auditID   string // where that isn't the name
	namespace string // of the decision
	start     time.Time
	duration  time.Duration

	request   v1alpha1.Request // without its user, who is in the next two
	user      unique.Handle[string]
	groups    unique.Handle[string] // joined by newlines
	userAgent unique.Handle[string]

	verdict v1alpha1.Verdict
	code    int32
	reason  metav1.StatusReason
	message string
	by      string

	steps   []step
	omitted int32
	class   class
	size    int64
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
	patch    []jsondiff.Operation
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

// sizeOf is how much memory the record takes, roughly. Users, groups and agents are shared by many.
func (r *record) sizeOf() int64 {
	n := int64(unsafe.Sizeof(*r)) + recordOverhead + int64(cap(r.steps))*int64(unsafe.Sizeof(step{}))
	for _, s := range []string{r.name, r.auditID, r.namespace, r.message, r.request.Name, r.request.GenerateName,
		r.request.Namespace, r.request.Resource, r.request.Group} {
		n += int64(len(s))
	}
	for i := range r.steps {
		m := r.steps[i].more
		if m == nil {
			continue
		}
		n += int64(unsafe.Sizeof(*m)) + int64(len(m.message)) + sizeOfChanges(m.patch)
		for i := range m.calls {
			c := &m.calls[i]
			n += int64(unsafe.Sizeof(*c)) + sizeOfPatch(c.Patch)
			for _, s := range []string{c.Name, c.Configuration, c.Binding, c.Param, c.Expression, c.Backend, c.Why} {
				n += int64(len(s))
			}
			for _, s := range c.Warnings {
				n += int64(unsafe.Sizeof(s)) + int64(len(s))
			}
		}
	}
	return n
}

// recordOverhead is what the store's own maps and lists take for a record.
const recordOverhead = 200

func sizeOfChanges(patch []jsondiff.Operation) int64 {
	n := int64(cap(patch)) * int64(unsafe.Sizeof(jsondiff.Operation{}))
	for i := range patch {
		n += int64(len(patch[i].Path) + cap(patch[i].Value))
	}
	return n
}

func sizeOfPatch(patch []v1alpha1.PatchOperation) int64 {
	n := int64(len(patch)) * int64(unsafe.Sizeof(v1alpha1.PatchOperation{}))
	for i := range patch {
		n += int64(len(patch[i].Path) + len(patch[i].From))
		if patch[i].Value != nil {
			n += int64(unsafe.Sizeof(v1alpha1.Value{})) + int64(len(patch[i].Value.Raw))
		}
	}
	return n
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
		Code:         r.code,
		Reason:       r.reason,
		Message:      r.message,
		By:           r.by,
		Duration:     metav1.Duration{Duration: r.duration},
		OmittedSteps: r.omitted,
	}
	if r.auditID != "" {
		d.Annotations = map[string]string{v1alpha1.AuditIDAnnotation: r.auditID}
	}
	d.Request.User.Username = r.user.Value()
	if groups := r.groups.Value(); groups != "" {
		d.Request.User.Groups = strings.Split(groups, "\n")
	}
	d.Request.UserAgent = r.userAgent.Value()
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
		if s.more != nil && (len(s.more.patch) > 0 || s.more.patchCut) && !slices.Contains(plugins, s.plugin) {
			plugins = append(plugins, s.plugin)
		}
	}
	return plugins
}

// phases are the names of the phases in the API.
var phases = map[chain.Phases]string{chain.Mutating: "Mutate", chain.Validating: "Validate"}

func (s *step) served() v1alpha1.Step {
	out := v1alpha1.Step{Plugin: s.plugin, Phase: phases[s.phase], Round: int32(s.round), Verdict: v1alpha1.Admitted,
		Duration: metav1.Duration{Duration: s.duration}}
	if m := s.more; m != nil {
		out.Verdict, out.Message, out.Patch, out.PatchCut = m.verdict, m.message, served(m.patch), m.patchCut
		out.Calls, out.OmittedCalls = m.calls, m.omitted
	}
	return out
}

// served are changes as the API has them.
func served(changes []jsondiff.Operation) []v1alpha1.PatchOperation {
	if len(changes) == 0 {
		return nil
	}
	patch := make([]v1alpha1.PatchOperation, len(changes))
	for i, o := range changes {
		patch[i] = v1alpha1.PatchOperation{Op: o.Op, Path: o.Path}
		if o.Value != nil {
			patch[i].Value = &v1alpha1.Value{Raw: o.Value}
		}
	}
	return patch
}

// Limits of what is kept of one request, so that no plugin, webhook or policy makes it large.
const (
	maxPatch    = 64 << 10 // bytes of a patch
	maxMessage  = 8 << 10  // bytes of a message
	maxCalls    = 100      // of a step
	maxWarnings = 10       // of a call
	maxSteps    = 500      // of a request
)

// newStep is what is kept of a plugin's step.
func newStep(s *chain.PluginStep) step {
	kept := step{plugin: s.Plugin, duration: s.Duration, phase: s.Phase, round: uint8(s.Round)}
	if s.Err == nil && len(s.Changes) == 0 && len(s.Calls) == 0 {
		return kept
	}
	kept.more = &more{verdict: verdictOf(s.Err)}
	if s.Err != nil {
		kept.more.message = cut(s.Err.Error())
	}
	secret := secrets{s.Attributes.GetResource().GroupResource()}
	kept.more.patch, kept.more.patchCut = limited(secret.ofChanges(s.Changes), func(o *jsondiff.Operation) int {
		return len(o.Path) + len(o.Value)
	})
	kept.more.calls, kept.more.omitted = newCalls(s.Calls, secret)
	return kept
}

// newCalls are what is kept of a step's calls: those that changed, refused or failed before the
// others, in their order.
func newCalls(calls []chain.Call, secret secrets) (kept []v1alpha1.Call, omitted int32) {
	room := maxCalls
	telling := func(c *chain.Call) bool {
		return c.Verdict == chain.Refused || c.Verdict == chain.Failed || c.Patch != nil
	}
	for i := range calls {
		if telling(&calls[i]) {
			room--
		}
	}
	taken := 0
	for i := range calls {
		c := &calls[i]
		if !telling(c) {
			room--
			if room < 0 {
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
				call.Patch, call.PatchCut = limited(secret.ofPatch(operations), func(o *v1alpha1.PatchOperation) int {
					if o.Value == nil {
						return len(o.Path)
					}
					return len(o.Path) + len(o.Value.Raw)
				})
			} else {
				call.PatchCut = true
			}
		}
		kept = append(kept, call)
	}
	return kept, int32(len(calls) - len(kept))
}

// limited are the operations up to the limit, and whether there were more.
func limited[T any](operations []T, sizeOf func(*T) int) ([]T, bool) {
	n := 0
	for i := range operations {
		if n += sizeOf(&operations[i]); n > maxPatch {
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
