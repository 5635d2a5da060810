package why

import (
	"regexp"
	"strings"

	"gatehouse.dev/apis/decisions/v1alpha1"
)

// An Explanation is what there is to say of a decision.
type Explanation struct {
	Decision *v1alpha1.Decision
	// Refusals are those who refused the request, or failed it. There may be none although it was
	// refused: then the API itself did.
	Refusals []Refusal
	// Remedies say what would have to change for the request to pass.
	Remedies []Remedy
	// Changes are the fields that differ from what was sent, in the order in which they were set.
	Changes []Change
	// Causes are those changes that the answer's message speaks of.
	Causes []Change
	// LetPass are webhooks and policies that failed, or were violated, and refused nothing.
	LetPass []Refusal
	// Warned are those who had the client warned, and admitted the request.
	Warned []Refusal
	// NotAsked are webhooks and policies that have a rule for the request, and were skipped.
	NotAsked []Refusal
}

// A Refusal is what somebody in the chain had against a request.
type Refusal struct {
	Source
	// Why is the reason, in its own words.
	Why string
}

// A Source is who did something: a plugin, or a webhook, policy or other call within it.
type Source struct {
	Plugin string
	// Phase is Mutate or Validate.
	Phase string
	// Call is nil where it was the plugin itself.
	Call *v1alpha1.Call
}

// Explain explains a decision. remedies are those of plugins, by their names.
func Explain(d *v1alpha1.Decision, remedies map[string]string) *Explanation {
	e := &Explanation{Decision: d, Changes: changes(d)}
	for i := range d.Steps {
		step := &d.Steps[i]
		refused := step.Verdict != v1alpha1.Admitted
		named := false
		for j := range step.Calls {
			call := &step.Calls[j]
			r := Refusal{Source{step.Plugin, step.Phase, call}, call.Why}
			switch {
			case call.Verdict == v1alpha1.Admitted:
				for _, text := range call.Warnings {
					e.Warned = append(e.Warned, Refusal{r.Source, text})
				}
			case call.Verdict == v1alpha1.Skipped:
				e.NotAsked = append(e.NotAsked, r)
			case call.FailedOpen || !refused:
				e.LetPass = append(e.LetPass, r)
			default:
				e.Refusals, named = append(e.Refusals, r), true
			}
		}
		if refused && !named {
			e.Refusals = append(e.Refusals, Refusal{Source{step.Plugin, step.Phase, nil}, step.Message})
		}
	}
	if d.Verdict == v1alpha1.Admitted {
		return e
	}
	if len(e.Refusals) == 0 && d.By != "" {
		e.Refusals = []Refusal{{Source{Plugin: d.By}, ""}}
	}
	e.Causes = causes(d.Message, e.Changes)
	e.Remedies = e.remedies(remedies)
	return e
}

// remedies are those of all who refused, each once.
func (e *Explanation) remedies(ofPlugins map[string]string) []Remedy {
	var all []Remedy
	seen := map[Remedy]bool{}
	add := func(r Remedy) {
		if r.Words != "" && !seen[r] {
			seen[r] = true
			all = append(all, r)
		}
	}
	for _, r := range e.Refusals {
		if r.Call != nil {
			add(remedyOf(r.Call, r.Phase, e.Decision.Request.Namespace))
		} else {
			add(Remedy{Words: ofPlugins[r.Plugin]})
		}
	}
	if len(e.Refusals) == 0 {
		add(e.remedyOfReason())
	}
	return all
}

// named are the fields in an answer's message: spec.containers[0].resources.limits.
var named = regexp.MustCompile(`\b[a-z][A-Za-z]*(?:\[[^\]\s]*\])?(?:\.[a-z][A-Za-z]*(?:\[[^\]\s]*\])*)+`)

// causes are the changes of fields that a message names: of those themselves, of what they are in,
// of what is in them, and of what is beside them, as a limit is beside a request, or one element of
// a list beside its duplicate. Beside a field that is missing nothing is.
func causes(message string, all []Change) []Change {
	var found []Change
	fields := named.FindAllString(message, -1)
	duplicate := strings.Contains(message, "Duplicate value")
	for _, c := range all {
		for _, field := range fields {
			beside := field
			if i := strings.LastIndexByte(field, '.'); strings.Contains(field[:i], ".") {
				beside = field[:i]
			}
			related := within(c.Field, beside)
			switch {
			case duplicate:
				related = sameList(c.Field, beside)
			case strings.Contains(message, field+": Required value"):
				related = false // what was set beside it didn't take it away
			}
			if related || within(field, c.Field) {
				found = append(found, c)
				break
			}
		}
	}
	return found
}

// sameList tells whether two fields are elements of the same list.
func sameList(a, b string) bool {
	i, j := strings.LastIndexByte(a, '['), strings.LastIndexByte(b, '[')
	return i >= 0 && j >= 0 && a[:i] == b[:j] && strings.HasSuffix(a, "]") && strings.HasSuffix(b, "]")
}

// within tells whether a field is another one or part of it.
func within(field, whole string) bool {
	rest, ok := strings.CutPrefix(field, whole)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}
