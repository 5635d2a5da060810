package command

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	cliflag "k8s.io/component-base/cli/flag"

	"gatehouse.dev/chain"
	"gatehouse.dev/decision"
	"gatehouse.dev/internal/commandline"
)

// options are what the flags say.
type options struct {
	plugins   []chain.Descriptor // all that there are
	admission chain.Options

	bindAddress       net.IP
	port              int
	certFile, keyFile string
	drain             time.Duration

	reach     *commandline.Kubeconfig
	decisions decision.Options
	tracing   string
	log       commandline.Logging
}

func newOptions(plugins []chain.Descriptor) *options {
	return &options{plugins: plugins, bindAddress: net.IPv4zero, port: 8443, drain: 5 * time.Second,
		reach: commandline.NewKubeconfig()}
}

func (o *options) flags() cliflag.NamedFlagSets {
	var groups cliflag.NamedFlagSets
	fs := groups.FlagSet("admission")
	o.admission.AddOnlyFlags(fs, outside(o.plugins))

	fs = groups.FlagSet("cluster")
	o.reach.AddFileFlags(fs)

	fs = groups.FlagSet("serving")
	fs.IPVar(&o.bindAddress, "bind-address", o.bindAddress, "The IP address on which to listen.")
	fs.IntVar(&o.port, "secure-port", o.port, "The port on which to serve HTTPS.")
	fs.StringVar(&o.certFile, "tls-cert-file", "",
		"File with the certificate to serve with, and with what it is verified by after it. It is read again when it "+
			"changes.")
	fs.StringVar(&o.keyFile, "tls-private-key-file", "", "File with the private key of --tls-cert-file.")
	fs.DurationVar(&o.drain, "shutdown-delay-duration", o.drain,
		"How long to go on serving after SIGTERM, while /readyz says no and others learn that.")

	fs = groups.FlagSet("telemetry")
	o.decisions.AddLogFlags(fs)
	fs.StringVar(&o.tracing, "tracing-config-file", "",
		"File with a TracingConfiguration, as kube-apiserver's. The traces of its requests are continued.")
	o.log.AddFlags(fs)
	return groups
}

// outside are the plugins that can run outside the API server.
func outside(plugins []chain.Descriptor) []chain.Descriptor {
	var can []chain.Descriptor
	for _, p := range plugins {
		if p.Outside == "" {
			can = append(can, p)
		}
	}
	return can
}

// load is the plugins that are to run, with their configuration, or what is wrong with the flags.
func (o *options) load() ([]chain.Descriptor, *chain.Config, error) {
	var errs []error
	if len(o.admission.Only) == 0 {
		errs = append(errs, errors.New("--plugins is required: the names of the plugins to run"))
	}
	for _, name := range o.admission.Only {
		for _, p := range o.plugins {
			if p.Name == name && p.Outside != "" {
				errs = append(errs, fmt.Errorf("--plugins: %s can't run outside the API server: %s: leave it out", name,
					p.Outside))
			}
		}
	}
	if o.port < 1 || o.port > 65535 {
		errs = append(errs, fmt.Errorf("--secure-port: %d must be between 1 and 65535", o.port))
	}
	if (o.certFile == "") != (o.keyFile == "") {
		errs = append(errs, errors.New("--tls-cert-file and --tls-private-key-file are needed together"))
	}
	if o.drain < 0 {
		errs = append(errs, fmt.Errorf("--shutdown-delay-duration: %s must not be negative", o.drain))
	}
	if err := errors.Join(append(errs, o.decisions.Validate())...); err != nil {
		return nil, nil, err
	}
	return o.admission.Load(o.plugins)
}

// named are plugins' names in a sentence.
func named(plugins []chain.Descriptor) string {
	var names []string
	for _, p := range plugins {
		names = append(names, p.Name)
	}
	return strings.Join(names, ", ")
}
