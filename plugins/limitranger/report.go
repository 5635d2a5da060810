package limitranger

import (
	corev1 "k8s.io/api/core/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"gatehouse.dev/chain"
)

// judged is what the chain's observers are told of a LimitRange that an object was held to.
func judged(limitRange *corev1.LimitRange, violations []error) chain.Call {
	call := chain.Call{Kind: chain.LimitRange, Name: limitRange.Name, Verdict: chain.Admitted}
	if err := utilerrors.NewAggregate(violations); err != nil {
		call.Verdict, call.Why = chain.Refused, err.Error()
	}
	return call
}

// reports are what each of some LimitRanges sets, in words. They are nil where nobody wants to
// know.
type reports [][]byte

// set writes down what a container gets, as cpu request 100m for container web.
func (r reports) set(d *given, what, container string) {
	if r == nil {
		return
	}
	start := "; "
	if r[d.by] == nil {
		r[d.by], start = make([]byte, 0, 128), "sets "
	}
	for _, text := range []string{start, string(d.name), " ", what, " ", d.quantity.String(), " for container ",
		container} {
		r[d.by] = append(r[d.by], text...)
	}
}

// add tells of those LimitRanges that set anything.
func (r reports) add(calls *chain.Calls, ranges []*corev1.LimitRange) {
	for i, text := range r {
		if len(text) > 0 {
			calls.Add(chain.Call{Kind: chain.LimitRange, Name: ranges[i].Name, Verdict: chain.Admitted,
				Why: string(text)})
		}
	}
}
