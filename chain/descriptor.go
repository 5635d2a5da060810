package chain

import (
	"io"
	"strings"

	"github.com/spf13/pflag"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/component-base/compatibility"
	"k8s.io/component-base/featuregate"
)

// A Descriptor is a compiled-in admission plugin before it is built: its name,
// what a person choosing plugins must know of it, and how to build it.
//
// A plugin's whole life is in New. It is called once, when the server starts, with the
// plugin's own configuration and with everything the host offers; it returns the finished
// plugin or says what is missing. From then on the plugin is called concurrently, by every
// write, and never again told anything: there are no setters and no second initialization.
type Descriptor struct {
	// Name is what users write in --enable-admission-plugins, in the
	// AdmissionConfiguration and read in metrics. It is unique in a list.
	Name string

	// Summary says in one line what the plugin does, for `gatehouse plugins`.
	Summary string

	// Remedy says, to one whose request the plugin has refused, what would have to change for it to
	// pass, for `gatehouse why`. It is empty where the plugin refuses nothing, or leaves it to what
	// users configure: webhooks and policies.
	Remedy string

	// Phases are the phases the plugin takes part in. What New returns must implement
	// admission.MutationInterface, admission.ValidationInterface or both, accordingly.
	Phases Phases

	// Operations are what requests do that the plugin handles: the same as what New returns says.
	// They are empty where only that knows, as of a plugin that was written for another server.
	Operations []admission.Operation

	// Resources are what the plugin looks at, see On. The chain asks it about nothing else, so
	// that it costs no other request anything. Where empty, it is asked about everything.
	Resources []Resource

	// Outside, where not empty, says why the plugin can't run outside an API server, as a webhook
	// of one.
	Outside string

	// Access is what the plugin does through Env's Client, Dynamic, Informers and Authorizer: what
	// whoever runs it outside an API server must let it do, and no more. What finds the resources
	// of kinds is everybody's right and isn't in it.
	Access []rbacv1.PolicyRule

	// Gate, where not empty, is the feature gate of the server without which the plugin does
	// nothing: where it is off the plugin isn't built, and costs nothing.
	Gate featuregate.Feature

	// Default says that the plugin runs unless it is disabled.
	Default bool

	// Deprecated, where not empty, says why the plugin should not be used any more. The
	// chain logs it when the plugin is enabled.
	Deprecated string

	// Internal says that the plugin works on objects in the form the server holds them in (the
	// internal types of k8s.io/kubernetes) and not on their k8s.io/api types. It is for plugins
	// that were written for another server, see Adopt, and for those that look at nothing but the
	// metadata of every object: they spare the server the conversion.
	Internal bool

	// Needs are resources that the plugin works with and that a server may not serve. The server
	// serves those of kinds that Kubernetes removed, and doesn't start where others are switched
	// off: the plugin would wait for them forever, and with it all that it decides about.
	Needs []schema.GroupVersionResource

	// Enforces are stored objects that have an effect by this plugin alone. Who writes one where
	// the plugin doesn't run is warned.
	Enforces []Enforced

	// Hides says that the plugin makes objects wait for initializers (see package
	// gatehouse.dev/apis/initializers), which the server hides until then.
	Hides bool

	// Flags, where not nil, adds flags to the command line that are another way to write the
	// plugin's configuration. Where a user gives any of them, configuration returns what New
	// then reads. See Options.AddFlags.
	Flags func(fs *pflag.FlagSet) (configuration func() string)

	// New builds the plugin. config is the plugin's section of the admission control
	// configuration file, nil where there is none; pluginconfig.Path says what a path in it means.
	// env is valid for as long as the plugin is.
	New func(config io.Reader, env *Env) (admission.Interface, error)

	// validated says that New calls the plugin's ValidateInitialization; some plugins begin to work
	// in that, and must not do so twice.
	validated bool
}

// Enforced are objects that do nothing but be enforced by a plugin.
type Enforced struct {
	Resource schema.GroupResource
	// Labels, where not empty, is what some label's key of the object begins with. Objects without
	// such a label aren't meant.
	Labels string
}

// Phases is a set of the two phases of admission.
type Phases uint8

const (
	// Mutating is the first phase: plugins may change the object.
	Mutating Phases = 1 << iota
	// Validating is the second phase: plugins see the object's final state.
	Validating
)

// Has tells whether all of other is in p.
func (p Phases) Has(other Phases) bool { return p&other == other }

// Names are the phases' names in the order in which they run.
func (p Phases) Names() []string {
	var names []string
	if p.Has(Mutating) {
		names = append(names, "mutating")
	}
	if p.Has(Validating) {
		names = append(names, "validating")
	}
	return names
}

// String is the phases' names, separated by commas.
func (p Phases) String() string { return strings.Join(p.Names(), ",") }

// WebhookCalls says whether admission webhooks are called, and other backends that plugins ask by
// their own configuration; see WebhookCalls.Ask.
type WebhookCalls string

const (
	// WebhooksCalled is how a server is: they are called.
	WebhooksCalled WebhookCalls = ""
	// WebhooksSkipped is that they let every request pass that would be sent to them, which
	// observers are told.
	WebhooksSkipped WebhookCalls = "skip"
	// WebhooksAsked is that they are called as for a dry run, those that can be.
	WebhooksAsked WebhookCalls = "ask"
	// WebhooksDown is that every call fails.
	WebhooksDown WebhookCalls = "fail"
)

// WouldBeAsked begins the reason of a Call that isn't made because of WebhookCalls alone.
const WouldBeAsked = "it would be asked"

// Env is what the host offers a plugin while it is being built. A plugin takes what it needs
// and keeps that; New fails, naming the field, where something it needs is nil.
type Env struct {
	// Client reads and writes the cluster with the server's own identity. What a
	// plugin writes through it passes admission as everybody's writes do.
	Client kubernetes.Interface

	// Dynamic does the same for resources whose Go types the plugin doesn't know.
	Dynamic dynamic.Interface

	// Informers is the shared cache. A plugin asks for its informers in New; the host starts them
	// after all plugins are built. Until an informer has synced the plugin must not decide
	// from it: admission.Handler's SetReadyFunc and WaitForReady serve that.
	Informers informers.SharedInformerFactory

	// Authorizer answers what a user may do.
	Authorizer authorizer.Authorizer

	// RESTMapper tells kinds from resources and namespaced ones from others, custom
	// resources included.
	RESTMapper meta.RESTMapper

	// UnknownFields returns the fields of a custom resource, in the resource's version, that its
	// definition doesn't have, and that therefore aren't stored. It is nil in a host that doesn't
	// know.
	UnknownFields func(schema.GroupVersionResource, *unstructured.Unstructured) []string

	// Features are the server's feature gates.
	Features featuregate.FeatureGate

	// Version is the release of Kubernetes that the server is, and the one whose behaviour it
	// shows: another where it was started with --emulated-version.
	Version compatibility.EffectiveVersion

	// APIServerID tells this server from the others of a cluster, in metrics. It may be empty.
	APIServerID string

	// Webhooks says whether admission webhooks and other backends are called.
	Webhooks WebhookCalls

	// LocalWebhooks are URLs, of processes on this machine, at which webhooks are asked, as for a
	// dry run and whatever Webhooks says, by the webhook's name, its configuration's, or both with
	// a slash between.
	LocalWebhooks map[string]string

	// Done is closed when the server stops. What a plugin runs in the background ends then.
	Done <-chan struct{}
}
