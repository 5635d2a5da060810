// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package persistentvolumelabel

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"gatehouse.dev/plugin/pluginconfig"
)

const (
	configVersion = "gatehouse.dev/v1alpha1"
	configKind    = "PersistentVolumeLabelConfiguration"

	// maxTimeout is the longest timeout, the same as for a webhook.
	maxTimeout = 30 * time.Second
)

// fileFormat is the format of the configuration file, with durations as Go writes them. Missing
// fields keep the default.
type fileFormat struct {
	// Timeout bounds the calls about one volume, 30s at most.
	//
	//schema:pattern "^([0-9]*\\.?[0-9]+(ns|us|ms|s|m|h))+$"
	//schema:default "10s"
	Timeout string `json:"timeout"`
	// CacheTTL is for how long an answer is used again; 0s for not at all.
	//
	//schema:pattern "^([0-9]*\\.?[0-9]+(ns|us|ms|s|m|h))+$|^0$"
	//schema:default "10m"
	CacheTTL string `json:"cacheTTL"`
	// AWS says how volumes of EBS are looked up.
	AWS *awsFile `json:"aws"`
	// GCE says how persistent disks are looked up.
	GCE *gceFile `json:"gce"`
}

// awsFile says how volumes of EBS are looked up.
type awsFile struct {
	// Region is the region of the cluster, such as us-east-1.
	//
	//schema:required
	//schema:pattern "^[a-z]+(?:-[a-z]+)+-[0-9]+$"
	Region string `json:"region"`
	// Endpoint is the URL of the EC2 API; that of the region if it is empty.
	//
	//schema:pattern "^(https://.*)?$"
	Endpoint string `json:"endpoint"`
	// CertificateAuthorityFile is the path of the authorities that the API's certificate is checked with.
	CertificateAuthorityFile string `json:"certificateAuthorityFile"`
	// CredentialsFile is the path of a file with an access key, as AWS' tools have it in ~/.aws/credentials.
	//
	//schema:required
	//schema:minLength 1
	CredentialsFile string `json:"credentialsFile"`
	// Profile is the profile of the credentials file.
	//
	//schema:default "default"
	Profile string `json:"profile"`
}

// gceFile says how persistent disks are looked up.
type gceFile struct {
	// Project is the ID of the Google Cloud project.
	//
	//schema:required
	//schema:pattern "^(?:[-a-z0-9.]+:)?[a-z0-9](?:[-a-z0-9]*[a-z0-9])?$"
	Project string `json:"project"`
	// Region is the region of the cluster, such as us-central1.
	//
	//schema:required
	//schema:pattern "^[a-z]+-[a-z]+[0-9]+$"
	Region string `json:"region"`
	// Endpoint is the URL of the Compute Engine API.
	//
	//schema:pattern "^(https://.*)?$"
	//schema:default "https://compute.googleapis.com/compute/v1"
	Endpoint string `json:"endpoint"`
	// CertificateAuthorityFile is the path of the authorities that the API's certificate is checked with.
	CertificateAuthorityFile string `json:"certificateAuthorityFile"`
	// CredentialsFile is the path of a service account's key. Without one the metadata server is asked for
	// tokens.
	CredentialsFile string `json:"credentialsFile"`
	// MetadataServer is the URL of the metadata server.
	//
	//schema:pattern "^(https?://.*)?$"
	//schema:default "http://metadata.google.internal"
	MetadataServer string `json:"metadataServer"`
}

var (
	awsRegion      = regexp.MustCompile(`^[a-z]+(?:-[a-z]+)+-[0-9]+$`)
	computeRegion  = regexp.MustCompile(`^[a-z]+-[a-z]+[0-9]+$`)
	computeProject = regexp.MustCompile(`^(?:[-a-z0-9.]+:)?[a-z0-9](?:[-a-z0-9]*[a-z0-9])?$`)
)

// load reads the configuration, as YAML or JSON. Without one, no cloud is configured.
func load(config io.Reader) (*configuration, error) {
	written := fileFormat{Timeout: "10s", CacheTTL: "10m"}
	if _, err := pluginconfig.Object(name, config, configVersion, configKind, &written); err != nil {
		return nil, err
	}
	c := &configuration{
		aws: notConfigured{"AWS cloud provider for EBS", "aws"},
		gce: notConfigured{"GCE cloud provider for PD", "gce"},
	}
	var errs field.ErrorList
	var err error
	if c.timeout, err = time.ParseDuration(written.Timeout); err != nil || c.timeout <= 0 || c.timeout > maxTimeout {
		errs = append(errs, field.Invalid(field.NewPath("timeout"), written.Timeout,
			fmt.Sprintf("must be a duration greater than zero such as 10s, %s at most", maxTimeout)))
	}
	ttl, err := time.ParseDuration(written.CacheTTL)
	if err != nil || ttl < 0 {
		errs = append(errs,
			field.Invalid(field.NewPath("cacheTTL"), written.CacheTTL, "must be a duration such as 10m, 0s for none"))
	}
	if written.AWS != nil {
		resolve(config, &written.AWS.CertificateAuthorityFile, &written.AWS.CredentialsFile)
		found, wrong := newAWS(field.NewPath("aws"), *written.AWS)
		c.aws, errs = withMemory(found, ttl), append(errs, wrong...)
	}
	if written.GCE != nil {
		resolve(config, &written.GCE.CertificateAuthorityFile, &written.GCE.CredentialsFile)
		found, wrong := newGCE(field.NewPath("gce"), *written.GCE)
		c.gce, errs = withMemory(found, ttl), append(errs, wrong...)
	}
	if err := errs.ToAggregate(); err != nil {
		return nil, fmt.Errorf("the configuration of %s: %w", name, err)
	}
	return c, nil
}

// resolve completes relative paths in the configuration.
func resolve(config io.Reader, paths ...*string) {
	for _, path := range paths {
		*path = pluginconfig.Path(config, *path)
	}
}

func newAWS(path *field.Path, written awsFile) (*aws, field.ErrorList) {
	a := &aws{backoff: retryBackoff, region: written.Region, credentialsFile: written.CredentialsFile,
		profile: written.Profile}
	var errs field.ErrorList
	if !awsRegion.MatchString(a.region) {
		errs = append(errs, field.Invalid(path.Child("region"), a.region, "must be a region of AWS, such as us-east-1"))
	}
	endpoint := written.Endpoint
	if endpoint == "" {
		endpoint = "https://ec2." + a.region + ".amazonaws.com"
		if strings.HasPrefix(a.region, "cn-") {
			endpoint += ".cn"
		}
	}
	if parsed, err := url.Parse(endpoint); !isBase(parsed, err, "https") || strings.Trim(parsed.Path, "/") != "" {
		errs = append(errs, field.Invalid(path.Child("endpoint"), field.OmitValueType{},
			"must be an https URL of nothing but a host, such as https://ec2.us-east-1.amazonaws.com"))
	} else {
		a.endpoint = "https://" + parsed.Host + "/"
	}
	if a.profile == "" {
		a.profile = "default"
	}
	if a.credentialsFile == "" {
		errs = append(errs, field.Required(path.Child("credentialsFile"),
			"must be the path of a file with an access key, as AWS' tools have it in ~/.aws/credentials"))
	} else if _, err := loadAWSCredentials(a.credentialsFile, a.profile); err != nil {
		errs = append(errs, field.Invalid(path.Child("credentialsFile"), a.credentialsFile, err.Error()))
	}
	var err error
	if a.client, err = newClient(written.CertificateAuthorityFile); err != nil {
		errs = append(errs,
			field.Invalid(path.Child("certificateAuthorityFile"), written.CertificateAuthorityFile, err.Error()))
	}
	return a, errs
}

func newGCE(path *field.Path, written gceFile) (*gce, field.ErrorList) {
	g := &gce{backoff: retryBackoff, project: written.Project, region: written.Region}
	var errs field.ErrorList
	if !computeProject.MatchString(g.project) {
		errs = append(errs, field.Invalid(path.Child("project"), g.project, "must be the ID of a Google Cloud project"))
	}
	if !computeRegion.MatchString(g.region) {
		errs = append(errs,
			field.Invalid(path.Child("region"), g.region, "must be a region of Google Cloud, such as us-central1"))
	}
	endpoint := written.Endpoint
	if endpoint == "" {
		endpoint = "https://compute.googleapis.com/compute/v1"
	}
	if parsed, err := url.Parse(endpoint); !isBase(parsed, err, "https") {
		errs = append(errs, field.Invalid(path.Child("endpoint"), field.OmitValueType{},
			"must be an https URL without a query, such as https://compute.googleapis.com/compute/v1"))
	} else {
		g.endpoint = strings.TrimRight(parsed.String(), "/")
	}
	var err error
	if g.client, err = newClient(written.CertificateAuthorityFile); err != nil {
		errs = append(errs,
			field.Invalid(path.Child("certificateAuthorityFile"), written.CertificateAuthorityFile, err.Error()))
		return g, errs
	}
	if written.CredentialsFile != "" {
		if _, err := loadServiceAccountKey(written.CredentialsFile); err != nil {
			errs = append(errs, field.Invalid(path.Child("credentialsFile"), written.CredentialsFile, err.Error()))
		}
		if written.MetadataServer != "" {
			errs = append(errs,
				field.Forbidden(path.Child("metadataServer"),
					"can't be set together with credentialsFile, remove one of them"))
		}
		g.tokens = newTokens(serviceAccount(g.client, written.CredentialsFile))
		return g, errs
	}
	address := written.MetadataServer
	if address == "" {
		address = "http://metadata.google.internal"
	}
	if parsed, err := url.Parse(address); !isBase(parsed, err, "http", "https") ||
		strings.Trim(parsed.Path, "/") != "" {
		errs = append(errs, field.Invalid(path.Child("metadataServer"), field.OmitValueType{},
			"must be an http or https URL of nothing but a host, such as http://metadata.google.internal"))
	}
	// The metadata server is the machine's own. A proxy would reach its own server under that name.
	direct := g.client.Transport.(*http.Transport).Clone()
	direct.Proxy = nil
	client := *g.client
	client.Transport = direct
	g.tokens = newTokens(metadataServer(&client, strings.TrimRight(address, "/")))
	return g, errs
}

// isBase reports whether paths can be added to a URL: it has one of the schemes, a host, and
// nothing else that doesn't belong there. The URL may hold a password, so no message repeats it.
func isBase(u *url.URL, err error, schemes ...string) bool {
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return false
	}
	return slices.Contains(schemes, u.Scheme)
}

// newClient returns a client of an API. It trusts the authorities in the file, or those that the
// machine trusts if no file is named.
func newClient(authorityFile string) (*http.Client, error) {
	transport := &http.Transport{TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}}
	if authorityFile != "" {
		content, err := os.ReadFile(authorityFile)
		if err != nil {
			return nil, err
		}
		transport.TLSClientConfig.RootCAs = x509.NewCertPool()
		if !transport.TLSClientConfig.RootCAs.AppendCertsFromPEM(content) {
			return nil, errors.New("parsing the file: want at least one certificate in PEM")
		}
	}
	return &http.Client{
		Transport: utilnet.SetTransportDefaults(transport),
		// None of these APIs redirects, and no other host may get signatures and tokens.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}
