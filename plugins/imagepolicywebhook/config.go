// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package imagepolicywebhook

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"time"

	imagepolicyv1alpha1 "k8s.io/api/imagepolicy/v1alpha1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"gatehouse.dev/plugin/pluginconfig"
)

// callTimeout bounds one call of the backend, its answer's body included. It can't be set in a
// kubeconfig; upstream has the same value.
const callTimeout = 30 * time.Second

// fileFormat holds the configuration as it is written.
type fileFormat struct {
	// ImagePolicy says where the backend is, and how it is asked.
	//
	//schema:required
	ImagePolicy struct {
		// KubeConfigFile is the path of a kubeconfig that says where the backend is.
		//
		//schema:required
		//schema:minLength 1
		KubeConfigFile string `json:"kubeConfigFile"`
		// AllowTTL is for how many seconds an allowing answer is used again; -1 for none.
		//
		//schema:minimum -1
		//schema:maximum 1800
		//schema:default 300
		AllowTTL int64 `json:"allowTTL"`
		// DenyTTL is for how many seconds a denying answer is used again; -1 for none.
		//
		//schema:minimum -1
		//schema:maximum 1800
		//schema:default 30
		DenyTTL int64 `json:"denyTTL"`
		// RetryBackoff is the time before the first retry, in milliseconds; -1 for none.
		//
		//schema:minimum -1
		//schema:maximum 300000
		//schema:default 500
		RetryBackoff int64 `json:"retryBackoff"`
		// DefaultAllow reports whether pods are admitted if the backend doesn't answer.
		//
		//schema:default false
		DefaultAllow bool `json:"defaultAllow"`
	} `json:"imagePolicy"`
}

// configuration holds the configuration file with its defaults. A TTL of 0 disables the cache.
type configuration struct {
	backend           *webhook.GenericWebhook
	allowTTL, denyTTL time.Duration
	defaultAllow      bool
}

// A duration holds the limits of a setting that is written as a number of units.
type duration struct {
	unit                time.Duration
	units               string
	min, max, byDefault int64
}

// The ranges and defaults are those of
// k8s.io/kubernetes/plugin/pkg/admission/imagepolicy/config.go.
var (
	allowTTL     = duration{time.Second, "seconds", 1, 1800, 300}
	denyTTL      = duration{time.Second, "seconds", 1, 1800, 30}
	retryBackoff = duration{time.Millisecond, "milliseconds", 1, 300_000, 500}
)

// parse returns the duration that was written at path, 0 if it is disabled.
func (d duration) parse(path *field.Path, written int64) (time.Duration, error) {
	switch {
	case written == -1:
		return 0, nil
	case written == 0:
		written = d.byDefault
	case written < d.min || written > d.max:
		return 0, field.Invalid(path, written,
			fmt.Sprintf("must be %d to %d %s, -1 for none, or 0 for the default of %d", d.min, d.max, d.units,
				d.byDefault))
	}
	return time.Duration(written) * d.unit, nil
}

// load reads the configuration, as YAML or JSON, and the kubeconfig that it names.
func load(config io.Reader) (*configuration, error) {
	var file fileFormat
	given, err := pluginconfig.Fields(name, config, &file)
	if err != nil {
		return nil, err
	}
	if !given {
		return nil, errors.New("reading the configuration of " + name + ": there is none: set " +
			"imagePolicy.kubeConfigFile to the path of the backend's kubeconfig")
	}
	written, path := file.ImagePolicy, field.NewPath("imagePolicy")
	c := &configuration{defaultAllow: written.DefaultAllow}
	var allowErr, denyErr, backoffErr, backendErr error
	c.allowTTL, allowErr = allowTTL.parse(path.Child("allowTTL"), written.AllowTTL)
	c.denyTTL, denyErr = denyTTL.parse(path.Child("denyTTL"), written.DenyTTL)
	backoff, backoffErr := retryBackoff.parse(path.Child("retryBackoff"), written.RetryBackoff)
	c.backend, backendErr = newBackend(path.Child("kubeConfigFile"),
		pluginconfig.Path(config, written.KubeConfigFile), backoff)
	if err := utilerrors.NewAggregate([]error{backendErr, allowErr, denyErr, backoffErr}); err != nil {
		return nil, fmt.Errorf("the configuration of %s: %w", name, err)
	}
	return c, nil
}

// newBackend returns a client of the backend in the kubeconfig file. The first retry follows after
// backoff.
func newBackend(path *field.Path, file string, backoff time.Duration) (*webhook.GenericWebhook, error) {
	if file == "" {
		return nil, field.Required(path, "must be the path of a kubeconfig that says where the backend is")
	}
	config, err := loadKubeconfig(file)
	if err != nil {
		return nil, field.Invalid(path, file, err.Error())
	}
	scheme := runtime.NewScheme()
	utilruntime.Must(imagepolicyv1alpha1.AddToScheme(scheme))
	backend, err := webhook.NewGenericWebhook(scheme, serializer.NewCodecFactory(scheme), config,
		[]schema.GroupVersion{imagepolicyv1alpha1.SchemeGroupVersion},
		webhook.DefaultRetryBackoffWithInitialDelay(backoff))
	if err != nil {
		return nil, field.Invalid(path, file, err.Error())
	}
	return backend, nil
}

// loadKubeconfig reads nothing but the file. client-go's usual loading would complete the file from
// the environment or a pod's service account, and so could send the pods' data to another server.
func loadKubeconfig(file string) (*rest.Config, error) {
	kubeconfig, err := clientcmd.LoadFromFile(file)
	if err != nil {
		return nil, err
	}
	if err := clientcmd.ResolveLocalPaths(kubeconfig); err != nil {
		return nil, err
	}
	addContext(kubeconfig)
	config, err := clientcmd.NewNonInteractiveClientConfig(*kubeconfig, kubeconfig.CurrentContext,
		&clientcmd.ConfigOverrides{}, nil).ClientConfig()
	switch {
	case clientcmd.IsEmptyConfig(err):
		return nil, errors.New("choosing the backend's cluster: none is named, set current-context")
	case err != nil:
		return nil, err
	}
	if server, err := url.Parse(config.Host); err != nil || server.Scheme != "https" || server.Host == "" {
		return nil, fmt.Errorf("the server of the cluster is %q, must be an https URL", config.Host)
	}
	config.Timeout = callTimeout
	config.QPS = -1 // no limit: waiting wouldn't make the pod's answer better
	return config, nil
}

// addContext completes a file with one cluster, one user and no context, as in the documentation of
// the format. Only one context is possible.
func addContext(kubeconfig *clientcmdapi.Config) {
	if kubeconfig.CurrentContext != "" || len(kubeconfig.Contexts) > 0 || len(kubeconfig.Clusters) != 1 ||
		len(kubeconfig.AuthInfos) > 1 {
		return
	}
	only := clientcmdapi.NewContext()
	for only.Cluster = range kubeconfig.Clusters {
	}
	for only.AuthInfo = range kubeconfig.AuthInfos {
	}
	kubeconfig.CurrentContext = "only"
	kubeconfig.Contexts = map[string]*clientcmdapi.Context{kubeconfig.CurrentContext: only}
}
