// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/sets"

	"gatehouse.dev/internal/nearest"
	"gatehouse.dev/plugin"
)

// Options are a user's choices: which plugins run and where their configuration is. The zero value runs the plugins that are on by default.
type Options struct {
	// Enable are plugins that run in addition to the default ones (--enable-admission-plugins).
	Enable []string
	// Disable are default plugins that don't run (--disable-admission-plugins).
	Disable []string
	// Exact, if not nil, are the plugins that run, in this order (--admission-control,
	// deprecated). It excludes Enable and Disable.
	Exact []string
	// Only, if not nil, are the plugins that run, and no others, in the order of the list
	// (--plugins of a host that runs none by default). It excludes Enable, Disable and Exact.
	Only []string
	// ConfigFile is the admission control configuration file (--admission-control-config-file); see
	// Load.
	ConfigFile string

	// brought are the flags of plugins.
	brought []broughtFlags
}

// The names are kube-apiserver's.
const (
	enableFlag  = "enable-admission-plugins"
	disableFlag = "disable-admission-plugins"
	exactFlag   = "admission-control"
	configFlag  = "admission-control-config-file"

	// onlyFlag is of hosts other than a server.
	onlyFlag = "plugins"
)

// AddFlags adds kube-apiserver's admission flags to fs, whose help names the plugins of list, and
// the flags that these plugins bring.
func (o *Options) AddFlags(fs *pflag.FlagSet, list []plugin.Descriptor) {
	all, defaults := strings.Join(plugin.Names(list), ", "), "none"
	if on := plugin.Names(slices.DeleteFunc(slices.Clone(list), func(d plugin.Descriptor) bool {
		return !d.Default || d.Ended()
	})); len(on) > 0 {
		defaults = strings.Join(on, ", ")
	}
	fs.StringSliceVar(&o.Enable, enableFlag, o.Enable,
		"Admission plugins to run in addition to those that are on by default. They run in the order of "+
			"'gatehouse plugins', whatever the order of the flag's names.\nOn by default: "+defaults+
			".\nComma-separated names of: "+all+".")
	fs.StringSliceVar(&o.Disable, disableFlag, o.Disable,
		"Admission plugins not to run although they are on by default.\nOn by default: "+defaults+
			".\nComma-separated names of: "+all+".")
	fs.StringSliceVar(&o.Exact, exactFlag, o.Exact,
		"The admission plugins to run, these and no others, in the order given, "+
			"mutating ones in the first phase and validating ones in the second.\n"+
			"Comma-separated names of: "+all+".")
	o.addConfigFlag(fs)
	if err := fs.MarkDeprecated(exactFlag, "use --"+enableFlag+" and --"+disableFlag+" instead."); err == nil {
		// As with kube-apiserver, a deprecated flag is still a documented one.
		fs.Lookup(exactFlag).Hidden = false
	}
	o.bring(fs, list)
}

// AddOnlyFlags adds the flag --plugins to fs, whose help names the plugins of list, that for their
// configuration, and the flags that these plugins bring.
func (o *Options) AddOnlyFlags(fs *pflag.FlagSet, list []plugin.Descriptor) {
	o.Only = []string{}
	fs.StringSliceVar(&o.Only, onlyFlag, o.Only,
		"The admission plugins to run. They run in the order of 'gatehouse plugins', whatever the order of the flag's "+
			"names.\nComma-separated names of: "+strings.Join(plugin.Names(list), ", ")+".")
	o.addConfigFlag(fs)
	o.bring(fs, list)
}

func (o *Options) addConfigFlag(fs *pflag.FlagSet) {
	fs.StringVar(&o.ConfigFile, configFlag, o.ConfigFile,
		"File with the configuration of admission plugins (an AdmissionConfiguration).")
}

// Load returns what Select does and the plugins' configuration: that of ConfigFile, and what the
// plugins' own flags say. The error is what is wrong with any of them; nothing is built.
func (o *Options) Load(list []plugin.Descriptor) ([]plugin.Descriptor, *Config, error) {
	selected, err := o.Select(list)
	if err != nil {
		return nil, nil, err
	}
	config, err := Load(o.ConfigFile)
	if err != nil {
		return nil, nil, err
	}
	enabling := enableFlag
	if o.Only != nil {
		enabling = onlyFlag
	}
	if err := config.check(list, selected, enabling); err != nil {
		return nil, nil, err
	}
	if err := o.configure(config, selected); err != nil {
		return nil, nil, err
	}
	return selected, config, nil
}

// Warnings names the plugins that the options name although the version of Kubernetes no longer has them.
// Select leaves them out.
func (o *Options) Warnings(list []plugin.Descriptor) []string {
	var warnings []string
	for _, flag := range o.flags() {
		for _, name := range flag.value {
			if d := named(list, name); d != nil && d.Ended() {
				warnings = append(warnings, fmt.Sprintf("admission plugin %s ended with Kubernetes %s, and doesn't run: "+
					"remove it from --%s", name, d.Until, flag.name))
			}
		}
	}
	return warnings
}

// Select returns those plugins of list that are to run, in the order in which they run: that of
// list, or that of Exact. Plugins that the version of Kubernetes no longer has don't run. The error names
// everything that is wrong with the options.
func (o *Options) Select(list []plugin.Descriptor) ([]plugin.Descriptor, error) {
	if err := plugin.CheckList(list); err != nil {
		return nil, err
	}
	if err := o.check(list); err != nil {
		return nil, err
	}
	var selected []plugin.Descriptor
	if o.Exact != nil {
		for _, name := range o.Exact {
			if d := named(list, name); !d.Ended() {
				selected = append(selected, *d)
			}
		}
		return selected, nil
	}
	for _, d := range list {
		if d.Ended() {
			continue
		}
		if o.Only != nil {
			if slices.Contains(o.Only, d.Name) {
				selected = append(selected, d)
			}
			continue
		}
		if slices.Contains(o.Enable, d.Name) || d.Default && !slices.Contains(o.Disable, d.Name) {
			selected = append(selected, d)
		}
	}
	return selected, nil
}

func (o *Options) check(list []plugin.Descriptor) error {
	var errs []error
	if o.Exact != nil && (o.Enable != nil || o.Disable != nil) {
		errs = append(errs, fmt.Errorf("%s and %s/%s flags are mutually exclusive: use the latter", exactFlag,
			enableFlag, disableFlag))
	}
	for _, flag := range o.flags() {
		for _, name := range flag.value {
			if named(list, name) == nil {
				errs = append(errs, fmt.Errorf("%s plugin %q is unknown%s", flag.name, name, nearest.Meant(name, plugin.Names(list))))
			}
		}
	}
	if both := sets.New(o.Enable...).Intersection(sets.New(o.Disable...)); len(both) > 0 {
		errs = append(errs, fmt.Errorf("%v in %s and %s overlapped: remove from one of them", sets.List(both),
			enableFlag, disableFlag))
	}
	seen, repeated := sets.New[string](), sets.New[string]()
	for _, name := range o.Exact {
		if seen.Has(name) {
			repeated.Insert(name)
		}
		seen.Insert(name)
	}
	if len(repeated) > 0 {
		errs = append(errs,
			fmt.Errorf("%v in %s repeated: a plugin runs once in each phase", sets.List(repeated), exactFlag))
	}
	return utilerrors.NewAggregate(errs)
}

// namesFlag is a flag that names plugins.
type namesFlag struct {
	name  string
	value []string
}

func (o *Options) flags() []namesFlag {
	return []namesFlag{{exactFlag, o.Exact}, {enableFlag, o.Enable}, {disableFlag, o.Disable}, {onlyFlag, o.Only}}
}

// named returns the plugin of a name, or nil.
func named(list []plugin.Descriptor, name string) *plugin.Descriptor {
	for i := range list {
		if list[i].Name == name {
			return &list[i]
		}
	}
	return nil
}
