// Package plugins is the list of the compiled-in admission plugins.
package plugins

import (
	"gatehouse.dev/chain"
	"gatehouse.dev/plugins/alwaysadmit"
	"gatehouse.dev/plugins/alwaysdeny"
	"gatehouse.dev/plugins/limitranger"
	"gatehouse.dev/plugins/namespaceautoprovision"
	"gatehouse.dev/plugins/namespaceexists"
	"gatehouse.dev/plugins/namespacelifecycle"
	"gatehouse.dev/plugins/resourcedefaults"
	"gatehouse.dev/plugins/resourcequota"
)

// List is every compiled-in plugin. Its order is the order in which they run, in each of the two phases, whatever the
// order they were enabled in; only --admission-control, deprecated, has an order of its own.
//
// Why a plugin stands where it does: what can refuse a request at little cost comes before what
// works for it, what makes a thing comes before what needs it, and what counts
// comes last, when all is decided.
var List = []chain.Descriptor{
	alwaysadmit.Descriptor,
	namespaceautoprovision.Descriptor, // before NamespaceLifecycle, which refuses where there is no namespace
	namespacelifecycle.Descriptor,
	namespaceexists.Descriptor,
	resourcedefaults.Descriptor, // before LimitRanger, whose limits hold for these defaults too
	limitranger.Descriptor,
	resourcequota.Descriptor, // when all else has admitted, and the object is what will be stored
	alwaysdeny.Descriptor,
}
