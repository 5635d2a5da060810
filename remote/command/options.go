// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/util/cert"
	cliflag "k8s.io/component-base/cli/flag"

	"gatehouse.dev/chain/config"
	"gatehouse.dev/internal/commandline"
	"gatehouse.dev/internal/decision"
	"gatehouse.dev/internal/nearest"
	"gatehouse.dev/internal/review/record"
	"gatehouse.dev/plugin"
	"gatehouse.dev/remote"
	"gatehouse.dev/remote/registration"
)

// installFlags holds the flags of an installation that don't depend on where it runs.
type installFlags struct {
	plugins   []plugin.Descriptor // all plugins of the program
	admission config.Options

	name, namespace string
	url, service    string
	perPlugin       bool
	failurePolicy   []string
	mode            []string
	modes           map[string]remote.Mode // by plugin, once loaded
	timeout         time.Duration
	exempt          []string
	unchecked       bool // don't check whether API servers reach the webhooks
}

func newInstalling(plugins []plugin.Descriptor) installFlags {
	return installFlags{plugins: plugins, name: "gatehouse", namespace: "gatehouse-system",
		timeout: registration.DefaultTimeout, exempt: []string{metav1.NamespaceSystem}}
}

func (i *installFlags) addFlags(groups *cliflag.NamedFlagSets) {
	i.admission.AddOnlyFlags(groups.FlagSet("admission"), outsidePlugins(i.plugins))
	fs := groups.FlagSet("registration")
	i.addNameFlags(fs)
	fs.StringVar(&i.url, "url", "", "The URL that API servers call: https://host:port. Either this or --service is required.")
	fs.StringVar(&i.service, "service", "",
		"The Service by which API servers call, as namespace/name:port; the port is 443 if it is left out.")
	fs.BoolVar(&i.perPlugin, "per-plugin", false,
		"Have each plugin called by itself. By default one call asks all plugins of a phase.")
	fs.StringSliceVar(&i.failurePolicy, "failure-policy", nil,
		"Whether a request is refused if the call fails: Fail or Ignore, or for a single plugin "+
			"Plugin=Ignore. Fail if empty.")
	fs.StringSliceVar(&i.mode, "mode", nil,
		"Whether plugins' results are enforced: enforce, warn or audit, or for a single plugin Plugin=warn. warn warns "+
			"clients of what would be changed or refused; audit and warn write it into the API server's audit log "+
			"and --decision-log-path. Both let requests pass, even if the call fails. enforce if empty.")
	fs.DurationVar(&i.timeout, "timeout", i.timeout, "How long API servers wait for an answer, 1s to 30s.")
	fs.StringSliceVar(&i.exempt, "exempt-namespaces", i.exempt,
		"Namespaces whose objects no plugin is asked about, besides that of --namespace.")
	fs.BoolVar(&i.unchecked, "skip-reachability-check", false,
		"Register without first checking, by a dry run, that the API server reaches the webhooks.")
}

// addNameFlags adds the flags by which an installation is found again.
func (i *installFlags) addNameFlags(fs *pflag.FlagSet) {
	fs.StringVar(&i.name, "name", i.name,
		"The name of the installation, of its webhook configurations, and of its objects in --namespace.")
	fs.StringVar(&i.namespace, "namespace", i.namespace,
		"The namespace of the installation, in which it keeps its certificates and its Lease.")
}

// outsidePlugins returns the plugins that can run outside the API server.
func outsidePlugins(plugins []plugin.Descriptor) []plugin.Descriptor {
	return slices.DeleteFunc(slices.Clone(plugins), func(p plugin.Descriptor) bool { return p.Server.Only != "" })
}

// load returns the plugins with their configuration, and the registration that follows from them.
// The error names the flags that are wrong.
func (i *installFlags) load() (*registration.Options, *config.Config, error) {
	var errs []error
	if len(i.admission.Only) == 0 {
		errs = append(errs, errors.New("--plugins is required: the names of the plugins to run"))
	}
	for _, p := range i.plugins {
		if p.Server.Only != "" && slices.Contains(i.admission.Only, p.Name) {
			errs = append(errs, fmt.Errorf("--plugins: %s can't run outside the API server: %s: leave it out", p.Name,
				p.Server.Only))
		}
	}
	o := &registration.Options{Name: i.name, Namespace: i.namespace, URL: i.url, PerPlugin: i.perPlugin,
		Timeout: i.timeout, ExemptNamespaces: append(slices.Clone(i.exempt), i.namespace)}
	switch {
	case i.url == "" && i.service == "":
		errs = append(errs, errors.New("--url or --service is required: where API servers call"))
	case i.url != "" && i.service != "":
		errs = append(errs, errors.New("--url and --service are mutually exclusive: remove one of them"))
	case i.service != "":
		var err error
		if o.Service, err = parseService(i.service); err != nil {
			errs = append(errs, err)
		}
	}
	for _, name := range i.admission.Only {
		if !slices.ContainsFunc(i.plugins, func(p plugin.Descriptor) bool { return p.Name == name }) {
			var names []string
			for _, p := range outsidePlugins(i.plugins) {
				names = append(names, p.Name)
			}
			errs = append(errs, fmt.Errorf("--plugins: there is no plugin %q%s gatehouse plugins lists those that "+
				"there are", name, cmp.Or(nearest.Meant(name, names), ":")))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, nil, err
	}
	var config *config.Config
	var err error
	if o.Plugins, config, err = i.admission.Load(i.plugins); err != nil {
		return nil, nil, fmt.Errorf("--admission-control-config-file %s: %w", i.admission.ConfigFile, err)
	}
	if o.FailurePolicy, err = i.failurePolicies(o.Plugins); err != nil {
		return nil, nil, err
	}
	if err = i.loadModes(o); err != nil {
		return nil, nil, err
	}
	return o, config, nameFlags(o.Validate())
}

// nameFlags replaces the fields in an error by the flags that set them.
func nameFlags(err error) error {
	var all utilerrors.Aggregate
	if !errors.As(err, &all) {
		return err
	}
	var errs []error
	for _, err := range all.Errors() {
		if wrong := (&field.Error{}); errors.As(err, &wrong) {
			err = fmt.Errorf("--%s: %s", strings.Replace(wrong.Field, "exemptNamespaces", "exempt-namespaces", 1),
				wrong.ErrorBody())
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// parseService reads namespace/name:port.
func parseService(text string) (*registration.Service, error) {
	namespace, rest, ok := strings.Cut(text, "/")
	name, port, ported := strings.Cut(rest, ":")
	s := &registration.Service{Namespace: namespace, Name: name}
	if ported {
		number, err := strconv.ParseUint(port, 10, 16)
		if ok = ok && err == nil && number > 0; ok {
			s.Port = int32(number)
		}
	}
	if !ok {
		return nil, fmt.Errorf("--service: %q must be namespace/name or namespace/name:port", text)
	}
	// An API server accepts any names, and then reaches no Service.
	if problems := append(validation.IsDNS1123Label(namespace), validation.IsDNS1035Label(name)...); len(problems) > 0 {
		return nil, fmt.Errorf("--service: %q must be namespace/name or namespace/name:port: %s", text, problems[0])
	}
	return s, nil
}

// failurePolicies returns the failure policies of the plugins.
func (i *installFlags) failurePolicies(plugins []plugin.Descriptor) (
	map[string]admissionregistrationv1.FailurePolicyType, error) {
	policies := map[string]admissionregistrationv1.FailurePolicyType{}
	for _, item := range i.failurePolicy { // the policy for all first, in any order of the flag
		if !strings.Contains(item, "=") {
			for _, p := range plugins {
				policies[p.Name] = admissionregistrationv1.FailurePolicyType(item)
			}
		}
	}
	for _, item := range i.failurePolicy {
		if name, policy, single := strings.Cut(item, "="); single {
			policies[name] = admissionregistrationv1.FailurePolicyType(policy)
		}
	}
	for name, policy := range policies {
		if policy != admissionregistrationv1.Fail && policy != admissionregistrationv1.Ignore {
			return nil, fmt.Errorf("--failure-policy: %q must be Fail or Ignore", policy)
		}
		if !slices.ContainsFunc(plugins, func(p plugin.Descriptor) bool { return p.Name == name }) {
			return nil, fmt.Errorf("--failure-policy: %q is not among --plugins%s", name, nearest.Meant(name, namesOf(plugins)))
		}
	}
	return policies, nil
}

const (
	// inCluster is how long a replica behind a Service goes on serving. inForeground is the same
	// for a replica that removes its configurations itself: API servers see that at once.
	inCluster    = 5 * time.Second
	inForeground = 500 * time.Millisecond
)

// loadModes reads the modes of the plugins. A plugin whose mode isn't enforce refuses nothing, even
// if it can't be called.
func (i *installFlags) loadModes(o *registration.Options) error {
	i.modes = map[string]remote.Mode{}
	for _, item := range i.mode { // the mode for all first, in any order of the flag
		if !strings.Contains(item, "=") {
			for _, p := range o.Plugins {
				i.modes[p.Name] = remote.Mode(item)
			}
		}
	}
	for _, item := range i.mode {
		if name, mode, single := strings.Cut(item, "="); single {
			i.modes[name] = remote.Mode(mode)
		}
	}
	for name, mode := range i.modes {
		if !slices.Contains(remote.Modes, mode) {
			return fmt.Errorf("--mode: %q must be warn, audit or enforce, or PLUGIN= and one of them%s", mode,
				nearest.Meant(string(mode), append(namesOf(o.Plugins), string(remote.Warn), string(remote.Audit), string(remote.Enforce))))
		}
		if !slices.ContainsFunc(o.Plugins, func(p plugin.Descriptor) bool { return p.Name == name }) {
			return fmt.Errorf("--mode: %q is not among --plugins%s", name, nearest.Meant(name, namesOf(o.Plugins)))
		}
		if mode == remote.Enforce {
			continue
		}
		if slices.Contains(i.failurePolicy, name+"=Fail") {
			return fmt.Errorf("--failure-policy: %s=Fail: with --mode=%s=%s nothing is refused: leave one of them out",
				name, name, mode)
		}
		o.FailurePolicy[name] = admissionregistrationv1.Ignore
	}
	return nil
}

// namesOf returns the names of plugins.
func namesOf(plugins []plugin.Descriptor) []string {
	var names []string
	for _, p := range plugins {
		names = append(names, p.Name)
	}
	return names
}

// modeOf returns a plugin's mode.
func (i *installFlags) modeOf(plugin string) remote.Mode {
	if mode, ok := i.modes[plugin]; ok {
		return mode
	}
	return remote.Enforce
}

// options holds the flags of a replica.
type options struct {
	installFlags

	bindAddress               net.IP
	port                      int
	certFile, keyFile, caFile string
	clientCAFile              string
	tokenIssuer               string
	tokenKeyFiles             []string
	drain                     time.Duration
	keep                      bool

	reach     *commandline.Kubeconfig
	decisions decision.Options
	record    record.Options
	tracing   string
	log       commandline.Logging
}

// decisionBytes is how much memory the decisions take by default. It is less than in a server, as a
// replica's memory is limited.
const decisionBytes = 16 << 20

func newOptions(plugins []plugin.Descriptor) *options {
	o := &options{installFlags: newInstalling(plugins), port: 8443, drain: inCluster,
		reach: commandline.NewKubeconfig(), decisions: decision.NewOptions(), record: record.NewOptions()}
	o.decisions.MaxBytes = decisionBytes
	o.log.Plain = true
	return o
}

func (o *options) flags() cliflag.NamedFlagSets {
	var groups cliflag.NamedFlagSets
	o.installFlags.addFlags(&groups)

	fs := groups.FlagSet("serving")
	fs.IPVar(&o.bindAddress, "bind-address", o.bindAddress,
		"The IP address on which to listen. The default is the address in --url, if this machine has "+
			"it, or else all addresses.")
	fs.IntVar(&o.port, "secure-port", o.port,
		"The port on which to serve HTTPS. If this machine has the address in --url, the default is the port in --url.")
	fs.StringVar(&o.certFile, "tls-cert-file", "",
		"File with the serving certificate, followed by its chain; read again when it changes. "+
			"Without it certificates are made, and kept in a Secret of --namespace.")
	fs.StringVar(&o.keyFile, "tls-private-key-file", "", "File with the private key of --tls-cert-file.")
	fs.StringVar(&o.caFile, "tls-ca-file", "",
		"File with the authorities that API servers verify --tls-cert-file with. Without it, a self-signed "+
			"certificate is its own authority, and any other one is verified with the API servers' own roots.")
	fs.StringVar(&o.clientCAFile, "client-ca-file", "",
		"File with the authorities of callers' certificates; read again when it changes. API servers must show a "+
			"certificate then, by the kubeConfigFile of their WebhookAdmissionConfiguration. Probes and /metrics "+
			"need none. "+
			"Without it every caller that reaches the port is answered.")
	fs.StringVar(&o.tokenIssuer, "service-account-issuer", "",
		"The issuer of the tokens that callers must show. API servers show tokens if the feature gate "+
			"APIServerWebhookAuthenticationToken has them do so. With --client-ca-file callers must show both. "+
			"Probes, /metrics and /decisions need none of these tokens.")
	fs.StringArrayVar(&o.tokenKeyFiles, "service-account-key-file", nil,
		"File with the keys that verify these tokens: in PEM form, or a JSON Web Key Set as the API server has it at "+
			"/openid/v1/jwks; read again when it changes. May be given several times.")
	fs.DurationVar(&o.drain, "shutdown-delay-duration", o.drain,
		"How long to go on serving after SIGTERM, while /readyz fails and callers learn that. The default is 500ms "+
			"with --url and without --keep, since no other replica is called then.")

	groups.FlagSet("registration").BoolVar(&o.keep, "keep", false,
		"Leave the webhook configurations at the end, as with --service. Until another replica serves, "+
			"--failure-policy says whether requests are refused or pass.")

	fs = groups.FlagSet("cluster")
	o.reach.AddFileFlags(fs)

	fs = groups.FlagSet("telemetry")
	o.decisions.AddFlags(fs)
	fs.Lookup("decisions").Usage = "Record what became of each request and why, and serve that at /decisions to users " +
		"who may list decisions.decisions.gatehouse.dev."
	o.record.AddFlags(fs)
	fs.StringVar(&o.tracing, "tracing-config-file", "",
		"File with a TracingConfiguration, as kube-apiserver's. The traces of its requests are continued.")
	o.log.AddFlags(fs)
	return groups
}

// check returns what is wrong with the replica's own flags.
func (o *options) check() error {
	var errs []error
	if o.port < 1 || o.port > 65535 {
		errs = append(errs, fmt.Errorf("--secure-port: %d must be between 1 and 65535", o.port))
	}
	if (o.certFile == "") != (o.keyFile == "") {
		errs = append(errs, errors.New("--tls-cert-file and --tls-private-key-file are needed together"))
	}
	if o.caFile != "" && o.certFile == "" {
		errs = append(errs, errors.New("--tls-ca-file needs --tls-cert-file"))
	}
	if o.clientCAFile != "" {
		if _, err := cert.NewPool(o.clientCAFile); err != nil {
			errs = append(errs, fmt.Errorf("--client-ca-file %s: %w", o.clientCAFile, err))
		}
	}
	if (o.tokenIssuer == "") != (len(o.tokenKeyFiles) == 0) {
		errs = append(errs, errors.New("--service-account-issuer and --service-account-key-file are needed together"))
	}
	if o.keep && o.url == "" {
		errs = append(errs, errors.New("--keep is for --url: with --service the webhook configurations are left at "+
			"the end anyway"))
	}
	if o.drain < 0 {
		errs = append(errs, fmt.Errorf("--shutdown-delay-duration: %s must not be negative", o.drain))
	}
	return errors.Join(append(errs, o.decisions.Validate(), o.record.Validate())...)
}

// describePlugins returns plugins' names for a sentence, with the mode of each plugin that isn't enforced.
func (i *installFlags) describePlugins(plugins []plugin.Descriptor) string {
	var names []string
	for _, p := range plugins {
		name := p.Name
		if mode := i.modeOf(name); mode != remote.Enforce {
			name += " (" + string(mode) + ")"
		}
		names = append(names, name)
	}
	return strings.Join(names, ", ")
}
