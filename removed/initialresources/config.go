// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package initialresources

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"gatehouse.dev/plugin/pluginconfig"
)

const (
	configVersion = "gatehouse.dev/v1alpha1"
	configKind    = "InitialResourcesConfiguration"

	applyAnnotate = "Annotate"
	applyRequest  = "Request"

	// maxTimeout is the longest timeout, the same as for a webhook.
	maxTimeout = 30 * time.Second
)

// fileFormat is the format of the configuration file, with durations as Go writes them. Missing
// fields keep the default.
type fileFormat struct {
	// Address is the base URL of Prometheus' HTTP API, without /api/v1.
	//
	//schema:required
	//schema:pattern "^https?://"
	Address string `json:"address"`
	// Percentile is the percentile of past use that becomes the request.
	//
	//schema:minimum 1
	//schema:maximum 100
	//schema:default 90
	Percentile int64 `json:"percentile"`
	// SameNamespaceOnly reports whether only containers in the pod's namespace count.
	//
	//schema:default false
	SameNamespaceOnly bool `json:"sameNamespaceOnly"`
	// Windows are the times to look back, one after the other until one has enough samples.
	//
	//schema:minItems 1
	//schema:items {"type": "string", "pattern": "^([0-9]*\\.?[0-9]+(ms|s|m|h))+$"}
	//schema:default ["168h", "720h"]
	Windows []string `json:"windows"`
	// MinimumSamples is the number of samples that an estimate needs.
	//
	//schema:minimum 1
	//schema:default 30
	MinimumSamples int64 `json:"minimumSamples"`
	// Timeout bounds the queries about one pod, 30s at most.
	//
	//schema:pattern "^([0-9]*\\.?[0-9]+(ns|us|ms|s|m|h))+$"
	//schema:default "5s"
	Timeout string `json:"timeout"`
	// Apply says whether estimates are only annotated, or also requested.
	//
	//schema:enum ["Annotate", "Request"]
	//schema:default "Annotate"
	Apply string `json:"apply"`
}

type configuration struct {
	// address is the base URL of Prometheus' HTTP API, without its /api/v1.
	address           *url.URL
	percentile        int64
	sameNamespaceOnly bool
	windows           []time.Duration
	minimumSamples    int64
	timeout           time.Duration
	apply             string
}

// load reads the configuration, as YAML or JSON. Upstream had the defaults compiled in.
func load(config io.Reader) (*configuration, error) {
	written := fileFormat{Percentile: 90, Windows: []string{"168h", "720h"}, MinimumSamples: 30, Timeout: "5s",
		Apply: applyAnnotate}
	given, err := pluginconfig.Object(name, config, configVersion, configKind, &written)
	if err != nil {
		return nil, err
	}
	if !given {
		return nil, errors.New("reading the configuration of " + name + ": there is none: set address to the URL " +
			"of Prometheus")
	}
	c := &configuration{
		percentile:        written.Percentile,
		sameNamespaceOnly: written.SameNamespaceOnly,
		minimumSamples:    written.MinimumSamples,
		apply:             written.Apply,
	}
	var errs field.ErrorList
	c.address, errs = parseAddress(field.NewPath("address"), written.Address)
	if written.Percentile < 1 || written.Percentile > 100 {
		errs = append(errs, field.Invalid(field.NewPath("percentile"), written.Percentile, "must be 1 to 100"))
	}
	windows := field.NewPath("windows")
	if len(written.Windows) == 0 {
		errs = append(errs, field.Required(windows, "must have at least one, such as 168h"))
	}
	for i, text := range written.Windows {
		window, err := time.ParseDuration(text)
		if err != nil || window < resolution || window%time.Second != 0 {
			errs = append(errs, field.Invalid(windows.Index(i), text,
				fmt.Sprintf("must be a duration of whole seconds such as 168h, %s at least", resolution)))
		}
		c.windows = append(c.windows, window)
	}
	if written.MinimumSamples < 1 {
		errs = append(errs,
			field.Invalid(field.NewPath("minimumSamples"), written.MinimumSamples, "must be greater than zero"))
	}
	if c.timeout, err = time.ParseDuration(written.Timeout); err != nil || c.timeout <= 0 || c.timeout > maxTimeout {
		errs = append(errs, field.Invalid(field.NewPath("timeout"), written.Timeout,
			fmt.Sprintf("must be a duration greater than zero such as 5s, %s at most", maxTimeout)))
	}
	if written.Apply != applyAnnotate && written.Apply != applyRequest {
		errs = append(errs,
			field.NotSupported(field.NewPath("apply"), written.Apply, []string{applyAnnotate, applyRequest}))
	}
	if err := errs.ToAggregate(); err != nil {
		return nil, fmt.Errorf("the configuration of %s: %w", name, err)
	}
	return c, nil
}

// parseAddress parses the address. Its errors don't repeat it, because it may have a password in
// it.
func parseAddress(path *field.Path, written string) (*url.URL, field.ErrorList) {
	if written == "" {
		return nil, field.ErrorList{field.Required(path,
			"must be the URL of Prometheus, such as http://prometheus.monitoring:9090")}
	}
	address, err := url.Parse(written)
	if err != nil || address.Scheme != "http" && address.Scheme != "https" || address.Host == "" ||
		address.RawQuery != "" || address.Fragment != "" {
		return nil, field.ErrorList{field.Invalid(path, field.OmitValueType{},
			"must be an http or https URL without a query, such as http://prometheus.monitoring:9090")}
	}
	return address, nil
}
