// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	logsapi "k8s.io/component-base/logs/api/v1"
	_ "k8s.io/component-base/logs/json/register" // --logging-format=json

	"gatehouse.dev/internal/commandline"
)

// serverLogging says what a server logs: what kube-apiserver's flags say, or by default warnings
// and errors only.
type serverLogging struct {
	commandline.Logging
	config *logsapi.LoggingConfiguration
}

// addFlags adds kube-apiserver's flags about logs.
func (l *serverLogging) addFlags(fs *pflag.FlagSet) {
	l.config = logsapi.NewLoggingConfiguration()
	logsapi.AddFlags(l.config, fs)
	fs.Lookup("v").Usage = "Log level. Without any of these flags only warnings and errors are shown."
}

// apply sets klog from the command's flags, and the feature gates from theirs. The gates come
// first: they decide which logging flags may be used.
func (l *serverLogging) apply(c *cobra.Command) error {
	set := false
	var defaults pflag.FlagSet
	logsapi.AddFlags(logsapi.NewLoggingConfiguration(), &defaults)
	defaults.VisitAll(func(f *pflag.Flag) {
		set = set || c.Flags().Lookup(f.Name).Value.String() != f.DefValue
	})
	if !set {
		l.Apply(c.ErrOrStderr())
		return applyGates(c)
	}
	if err := applyGates(c); err != nil {
		return err
	}
	streams := &logsapi.LoggingOptions{ErrorStream: c.ErrOrStderr(), InfoStream: c.OutOrStdout()}
	if err := logsapi.ValidateAndApplyWithOptions(l.config, streams, utilfeature.DefaultFeatureGate); err != nil {
		return commandline.Usage(err)
	}
	return nil
}
