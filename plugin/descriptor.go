// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/pflag"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/apiserver/pkg/util/compatibility"
	basecompatibility "k8s.io/component-base/compatibility"
	"k8s.io/component-base/featuregate"
)

// Descriptor describes an admission plugin and builds it.
//
// New is called once, when the host starts, and returns a complete plugin or an error. From then on
// the plugin is called concurrently, by every request that the Descriptor selects. There are no
// setters and there is no second initialization.
type Descriptor struct {
	// Name is the plugin's name in --enable-admission-plugins, in an AdmissionConfiguration and in
	// metrics. It is unique in a list.
	Name string
	// Summary says in one line what the plugin does.
	Summary string
	// Manual is the plugin's manual page, in Markdown. gatehouse explain prints it. It is empty if there is
	// none. Its relative links are those of a folder of plugins/ in Gatehouse's repository.
	Manual string
	// Remedy says what a user can do whose request the plugin refused. It is empty if the plugin
	// refuses nothing, or if the remedy depends on what users configure.
	Remedy string
	// Deprecated, if not empty, says why the plugin should no longer be used.
	Deprecated string
	// Until, if not empty, is the last minor version of Kubernetes that has the plugin, such as 1.36. A server
	// that is, or emulates, a later one doesn't run it, whatever its users say.
	Until string
	// Default reports whether the plugin runs unless it is disabled.
	Default bool
	// Gate, if not empty, is a feature gate. While it is off the plugin isn't built.
	Gate featuregate.Feature

	// Phases are the phases that the plugin takes part in.
	Phases Phase
	// Operations are the operations that the plugin is called for. Only a plugin that has a method
	// Handles may leave them out; see Adopt.
	Operations []admission.Operation
	// Resources are the resources that the plugin is called for; see On. If empty, it is called for
	// all of them.
	Resources []Resource

	// Access lists what the plugin does through the Env's Client, Dynamic, Informers and
	// Authorizer. A host other than an API server is granted this and no more. Discovery is
	// everybody's right and isn't listed.
	Access []rbacv1.PolicyRule
	// Server says what only concerns an API server that runs the plugin.
	Server Server
	// Flags, if not nil, adds the plugin's own flags to a command line. configuration returns what
	// New then reads if a user sets any of them.
	Flags func(fs *pflag.FlagSet) (configuration func() string)

	// New builds the plugin. config is the plugin's section of the AdmissionConfiguration, nil if
	// there is none; pluginconfig.Path resolves paths in it. env is valid for as long as the plugin
	// is.
	New func(config io.Reader, env *Env) (Plugin, error)

	// adopted is set by Adopt.
	adopted bool
}

// Ended reports whether Until is before the version of Kubernetes that the servers of this process are,
// or emulate. Ask once the flags have been applied.
func (d *Descriptor) Ended() bool {
	if d.Until == "" {
		return false
	}
	now := compatibility.DefaultComponentGlobalsRegistry.EffectiveVersionFor(
		basecompatibility.DefaultKubeComponent).EmulationVersion()
	return version.MustParse(d.Until).LessThan(version.MajorMinor(now.Major(), now.Minor()))
}

// Adopted reports whether Adopt made the descriptor. Its New calls the plugin's
// ValidateInitialization, in which some plugins start to work, so the chain must not call it again.
func (d *Descriptor) Adopted() bool { return d.adopted }

// Server says what only concerns an API server that runs the plugin.
type Server struct {
	// Only, if not empty, says why the plugin can't run outside an API server, as a webhook of one.
	Only string
	// Internal reports whether the plugin works on objects in the form in which the server holds
	// them (the internal types of k8s.io/kubernetes), not on their k8s.io/api types. It suits plugins
	// that were written for another server, see Adopt, and plugins that read only the metadata of
	// every object: the server needn't convert the objects for them.
	Internal bool
	// Needs are resources that the plugin works with and that a server may not serve. The server
	// serves those that Former has. It doesn't start if others are switched off,
	// because the plugin would wait for them forever.
	Needs []schema.GroupVersionResource
	// Definitions are CustomResourceDefinitions, as YAML, of what the plugin Needs. A cluster gets them with the
	// plugin if its API server isn't Gatehouse's.
	Definitions map[schema.GroupVersionResource][]byte
	// Enforces are stored objects that only this plugin enforces. A user who writes one is warned if
	// the plugin doesn't run.
	Enforces []Enforced
	// Former, if not nil, is an apiserver.NewFormer. It makes what the server serves and does for the plugin
	// beside Kubernetes' own. It has no type here, because plugins don't link the server. The first one among
	// the server's plugins counts, whether its plugin runs or not.
	Former any
}

// Enforced describes objects that have no effect unless a plugin enforces them.
type Enforced struct {
	Resource schema.GroupResource
	// Labels, if not empty, is a prefix of label keys: only objects that have such a label count.
	Labels string
}

// Plugin is a built plugin: a Mutator, a Validator or both, as its Descriptor's Phases say. It may
// also be a Follower and a ReadyChecker.
type Plugin any

// Mutator is a Plugin that takes part in the mutating phase.
type Mutator interface {
	// Admit may change the request's object, and refuses the request by an error.
	Admit(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error
}

// Validator is a Plugin that takes part in the validating phase.
type Validator interface {
	// Validate refuses the request by an error. It must not change the object.
	Validate(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error
}

// ReadyChecker is implemented by plugins whose configuration can go bad while the server runs, for
// example because they watch a file. The host serves the checks at /readyz, so their names are
// unique in a server. ReadyChecks is called once, after New.
type ReadyChecker interface {
	ReadyChecks() []healthz.HealthChecker
}

// Phase is a set of the two phases of admission.
type Phase uint8

const (
	// Mutating is the first phase: plugins may change the object.
	Mutating Phase = 1 << iota
	// Validating is the second phase: plugins see the object's final state.
	Validating
)

// Has reports whether p contains all of other.
func (p Phase) Has(other Phase) bool { return p&other == other }

// Names returns the phases' names in the order in which they run.
func (p Phase) Names() []string {
	var names []string
	if p.Has(Mutating) {
		names = append(names, "mutating")
	}
	if p.Has(Validating) {
		names = append(names, "validating")
	}
	return names
}

// String returns the phases' names, separated by commas.
func (p Phase) String() string { return strings.Join(p.Names(), ",") }

// OperationsOf returns the operations that a plugin which New built is called for: those of the
// Descriptor or, if it has none, those that the plugin's Handles method names.
func (d *Descriptor) OperationsOf(built Plugin) []admission.Operation {
	handler, ok := built.(interface {
		Handles(operation admission.Operation) bool
	})
	if len(d.Operations) > 0 || !ok {
		return d.Operations
	}
	var operations []admission.Operation
	for _, operation := range EveryOperation {
		if handler.Handles(operation) {
			operations = append(operations, operation)
		}
	}
	return operations
}

// Names returns the names of the plugins of a list.
func Names(list []Descriptor) []string {
	var names []string
	for _, d := range list {
		names = append(names, d.Name)
	}
	return names
}

// CheckList returns what is wrong with a list of plugins: missing or repeated names, a missing New,
// an invalid Until, or invalid Phases. Each is a programmer's error.
func CheckList(list []Descriptor) error {
	var errs []error
	seen := map[string]bool{}
	for i, d := range list {
		if d.Name == "" {
			errs = append(errs, fmt.Errorf("admission plugin list: entry %d has no Name", i))
			continue
		}
		if seen[d.Name] {
			errs = append(errs, fmt.Errorf("admission plugin list: %q is there twice", d.Name))
		}
		seen[d.Name] = true
		if d.New == nil {
			errs = append(errs, fmt.Errorf("admission plugin list: %q has no New", d.Name))
		}
		if _, err := version.ParseMajorMinor(d.Until); d.Until != "" && err != nil {
			errs = append(errs, fmt.Errorf("admission plugin list: %q has Until %q, must be a minor version such as 1.36",
				d.Name, d.Until))
		}
		if d.Phases == 0 || !(Mutating | Validating).Has(d.Phases) {
			errs = append(errs, fmt.Errorf(
				"admission plugin list: %q has Phases %d, must be Mutating, Validating or both", d.Name, d.Phases))
		}
	}
	return utilerrors.NewAggregate(errs)
}
