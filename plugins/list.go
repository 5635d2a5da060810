// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package plugins holds the ordered list of the admission plugins that Kubernetes has. Those that it removed
// are in package removed, which adds them to the list.
//
// The package is public: docs/compatibility.md promises the list and its order, but nothing about the
// packages of the plugins.
package plugins

import (
	"gatehouse.dev/plugin"
	"gatehouse.dev/plugins/alwaysadmit"
	"gatehouse.dev/plugins/alwaysdeny"
	"gatehouse.dev/plugins/alwayspullimages"
	"gatehouse.dev/plugins/certificateapproval"
	"gatehouse.dev/plugins/certificatesigning"
	"gatehouse.dev/plugins/certificatesubjectrestriction"
	"gatehouse.dev/plugins/clustertrustbundleattest"
	"gatehouse.dev/plugins/defaultingressclass"
	"gatehouse.dev/plugins/defaultstorageclass"
	"gatehouse.dev/plugins/defaulttolerationseconds"
	"gatehouse.dev/plugins/denyserviceexternalips"
	"gatehouse.dev/plugins/eventratelimit"
	"gatehouse.dev/plugins/extendedresourcetoleration"
	"gatehouse.dev/plugins/imagepolicywebhook"
	"gatehouse.dev/plugins/jobvalidation"
	"gatehouse.dev/plugins/limitpodhardantiaffinitytopology"
	"gatehouse.dev/plugins/limitranger"
	"gatehouse.dev/plugins/mutatingadmissionpolicy"
	"gatehouse.dev/plugins/mutatingadmissionwebhook"
	"gatehouse.dev/plugins/namespaceautoprovision"
	"gatehouse.dev/plugins/namespaceexists"
	"gatehouse.dev/plugins/namespacelifecycle"
	"gatehouse.dev/plugins/nodedeclaredfeaturevalidator"
	"gatehouse.dev/plugins/noderestriction"
	"gatehouse.dev/plugins/ownerreferencespermissionenforcement"
	"gatehouse.dev/plugins/persistentvolumeclaimresize"
	"gatehouse.dev/plugins/podgroupprotection"
	"gatehouse.dev/plugins/podgroupworkloadexists"
	"gatehouse.dev/plugins/podnodeselector"
	"gatehouse.dev/plugins/podresizevalidator"
	"gatehouse.dev/plugins/podsecurity"
	"gatehouse.dev/plugins/podtolerationrestriction"
	"gatehouse.dev/plugins/podtopologylabels"
	"gatehouse.dev/plugins/priority"
	"gatehouse.dev/plugins/resourcequota"
	"gatehouse.dev/plugins/runtimeclass"
	"gatehouse.dev/plugins/serviceaccount"
	"gatehouse.dev/plugins/storageobjectinuseprotection"
	"gatehouse.dev/plugins/taintnodesbycondition"
	"gatehouse.dev/plugins/validatingadmissionpolicy"
	"gatehouse.dev/plugins/validatingadmissionwebhook"
)

// List holds the plugins. They run in its order, in each of the two phases, whatever
// the order in which they were enabled. Only the deprecated --admission-control has an order of its
// own.
//
// The order follows three rules. A plugin that can refuse a request at little cost runs before one
// that works for it. A plugin that makes something runs before one that needs it. The plugin that
// counts runs last, when everything is decided.
var List = []plugin.Descriptor{
	alwaysadmit.Descriptor,
	// before NamespaceLifecycle, which refuses requests if there is no namespace
	namespaceautoprovision.Descriptor,
	namespacelifecycle.Descriptor,
	namespaceexists.Descriptor,
	limitpodhardantiaffinitytopology.Descriptor,
	limitranger.Descriptor,
	serviceaccount.Descriptor,
	// judges what nodes send, before TaintNodesByCondition adds to it
	noderestriction.Descriptor,
	taintnodesbycondition.Descriptor,
	alwayspullimages.Descriptor,
	imagepolicywebhook.Descriptor,
	podsecurity.Descriptor,
	podnodeselector.Descriptor,
	priority.Descriptor,
	defaulttolerationseconds.Descriptor,
	podtolerationrestriction.Descriptor, // merges with what DefaultTolerationSeconds adds
	eventratelimit.Descriptor,
	extendedresourcetoleration.Descriptor,
	defaultstorageclass.Descriptor,
	storageobjectinuseprotection.Descriptor,
	podgroupprotection.Descriptor,
	ownerreferencespermissionenforcement.Descriptor,
	persistentvolumeclaimresize.Descriptor,
	runtimeclass.Descriptor,
	certificateapproval.Descriptor,
	certificatesigning.Descriptor,
	clustertrustbundleattest.Descriptor,
	certificatesubjectrestriction.Descriptor,
	defaultingressclass.Descriptor,
	denyserviceexternalips.Descriptor,
	podtopologylabels.Descriptor,
	podgroupworkloadexists.Descriptor,
	nodedeclaredfeaturevalidator.Descriptor,
	jobvalidation.Descriptor,
	podresizevalidator.Descriptor,
	// after the compiled-in plugins that change objects: policies and webhooks see their changes,
	// and webhooks those of policies
	mutatingadmissionpolicy.Descriptor,
	mutatingadmissionwebhook.Descriptor,
	validatingadmissionpolicy.Descriptor, // an expression costs less than a call over the network
	// after all plugins that cost less than a call over the network
	validatingadmissionwebhook.Descriptor,
	// after all plugins that may refuse or change the object
	resourcequota.Descriptor,
	alwaysdeny.Descriptor,
}
