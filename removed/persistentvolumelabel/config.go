// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package persistentvolumelabel

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"gatehouse.dev/plugin/pluginconfig"
)

// maxTimeout is the longest timeout, the same as for a webhook.
const maxTimeout = 30 * time.Second

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

// configuration holds the configuration file with its defaults.
type configuration struct {
	// aws and gce find volumes. They are nil if the cloud isn't configured.
	aws, gce provider
	// timeout is how long a request waits for the cloud, and ttl how long answers are remembered.
	timeout, ttl time.Duration
	// answers has the locations of volumes by their question.
	answers *cache.LRUExpireCache
}

// A reader reads a configuration and collects what is wrong with it.
type reader struct {
	config io.Reader
	errs   field.ErrorList
}

func (r *reader) require(ok bool, path string, value any, want string) {
	if !ok {
		r.errs = append(r.errs, field.Invalid(field.NewPath(path), value, want))
	}
}

// file returns the complete path of a file that the configuration names, if use doesn't fail with it.
func (r *reader) file(path, name string, use func(file string) error) string {
	file := pluginconfig.Path(r.config, name)
	if err := use(file); err != nil {
		r.require(false, path, file, err.Error())
	}
	return file
}

// base returns a URL to which paths are added. It may hold a password, so no message repeats it.
func (r *reader) base(path, written, pattern, want string) string {
	u, err := url.Parse(written)
	ok := err == nil && u.Host != "" && u.User == nil && regexp.MustCompile(pattern).MatchString(written)
	r.require(ok, path, field.OmitValueType{}, want)
	return strings.TrimRight(written, "/")
}

// load reads the configuration, as YAML or JSON. Without one, no cloud is configured.
func load(config io.Reader) (*configuration, error) {
	written := fileFormat{Timeout: "10s", CacheTTL: "10m"}
	if _, err := pluginconfig.Object(name, config, "gatehouse.dev/v1alpha1", "PersistentVolumeLabelConfiguration",
		&written); err != nil {
		return nil, err
	}
	c, r := &configuration{answers: cache.NewLRUExpireCache(remembered)}, &reader{config: config}
	var err error
	c.timeout, err = time.ParseDuration(written.Timeout)
	r.require(err == nil && c.timeout > 0 && c.timeout <= maxTimeout, "timeout", written.Timeout,
		fmt.Sprintf("must be a duration greater than zero such as 10s, %s at most", maxTimeout))
	c.ttl, err = time.ParseDuration(written.CacheTTL)
	r.require(err == nil && c.ttl >= 0, "cacheTTL", written.CacheTTL, "must be a duration such as 10m, 0s for none")
	if written.AWS != nil {
		c.aws = r.aws(written.AWS)
	}
	if written.GCE != nil {
		c.gce = r.gce(written.GCE)
	}
	if err := r.errs.ToAggregate(); err != nil {
		return nil, fmt.Errorf("the configuration of %s: %w", name, err)
	}
	return c, nil
}

func (r *reader) aws(written *awsFile) *aws {
	a := &aws{region: written.Region, profile: cmp.Or(written.Profile, "default")}
	r.require(awsRegion.MatchString(a.region), "aws.region", a.region, "must be a region of AWS, such as us-east-1")
	regional := "https://ec2." + a.region + ".amazonaws.com"
	if strings.HasPrefix(a.region, "cn-") {
		regional += ".cn"
	}
	a.endpoint = r.base("aws.endpoint", cmp.Or(written.Endpoint, regional), `^https://[^/?#]+/*$`,
		"must be an https URL of nothing but a host, such as https://ec2.us-east-1.amazonaws.com") + "/"
	if written.CredentialsFile == "" {
		r.errs = append(r.errs, field.Required(field.NewPath("aws.credentialsFile"),
			"must be the path of a file with an access key, as AWS' tools have it in ~/.aws/credentials"))
	} else {
		a.credentialsFile = r.file("aws.credentialsFile", written.CredentialsFile, func(file string) error {
			_, err := loadAWSCredentials(file, a.profile)
			return err
		})
	}
	r.file("aws.certificateAuthorityFile", written.CertificateAuthorityFile, func(file string) (err error) {
		a.client, err = newClient(file, http.ProxyFromEnvironment)
		return err
	})
	return a
}

func (r *reader) gce(written *gceFile) *gce {
	g := &gce{project: written.Project, region: written.Region, lock: make(chan struct{}, 1)}
	r.require(computeProject.MatchString(g.project), "gce.project", g.project, "must be the ID of a Google Cloud project")
	r.require(computeRegion.MatchString(g.region), "gce.region", g.region,
		"must be a region of Google Cloud, such as us-central1")
	g.endpoint = r.base("gce.endpoint", cmp.Or(written.Endpoint, "https://compute.googleapis.com/compute/v1"),
		`^https://[^?#]+$`, "must be an https URL without a query, such as https://compute.googleapis.com/compute/v1")
	r.file("gce.certificateAuthorityFile", written.CertificateAuthorityFile, func(file string) (err error) {
		g.client, err = newClient(file, http.ProxyFromEnvironment)
		if written.CredentialsFile == "" {
			// The metadata server is the machine's own. A proxy would reach its own server under that name.
			g.direct, _ = newClient(file, func(*http.Request) (*url.URL, error) { return nil, nil })
		}
		return err
	})
	if written.CredentialsFile != "" {
		g.credentialsFile = r.file("gce.credentialsFile", written.CredentialsFile, func(file string) error {
			_, err := loadServiceAccountKey(file)
			return err
		})
		if written.MetadataServer != "" {
			r.errs = append(r.errs, field.Forbidden(field.NewPath("gce.metadataServer"),
				"can't be set together with credentialsFile, remove one of them"))
		}
	}
	g.metadata = r.base("gce.metadataServer", cmp.Or(written.MetadataServer, "http://metadata.google.internal"),
		`^https?://[^/?#]+/*$`,
		"must be an http or https URL of nothing but a host, such as http://metadata.google.internal")
	return g
}
