package chain

import "k8s.io/apiserver/pkg/admission"

// Shared is the T of a request and phase, for plugins that make the same of the object, as its form
// in another version: what one has made the next needn't. A request begins with a zero T, made when
// it is first asked for; attributes that are not a chain's have none to share, and the caller gets
// one of its own. It is for the request's goroutine.
//
// A plugin that asks for it sees to it that the T knows when the plugin changes the object. After
// every other plugin that looked at the object, and may have changed it, the chain drops all that
// is shared.
func Shared[T any](a admission.Attributes) *T {
	v, ok := a.(*versioned)
	if !ok {
		return new(T)
	}
	v.sharing = true
	for _, value := range v.shared {
		if value, ok := value.(*T); ok {
			return value
		}
	}
	value := new(T)
	v.shared = append(v.shared, value)
	return value
}

// begin is called before each plugin.
func (v *versioned) begin(plugin string, phase Phases, round int) {
	v.plugin, v.phase, v.round = plugin, phase, round
	if v.calls != nil {
		v.calls.list = nil
	}
}

// beforePlugin and afterPlugin enclose a plugin's call in the mutating phase. An error is that the
// objects could not be shown to the plugin.
func (v *versioned) beforePlugin() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.looked, v.sharing = false, false
}

func (v *versioned) afterPlugin() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.looked && !v.sharing {
		v.shared = nil
	}
	return v.failure()
}
