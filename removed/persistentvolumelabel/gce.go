// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package persistentvolumelabel

import (
	"context"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"
	"golang.org/x/oauth2/jwt"
	"k8s.io/client-go/util/keyutil"
)

// gce finds persistent disks by Compute Engine's API,
// https://cloud.google.com/compute/docs/reference/rest/v1/disks. A disk's name is unique only in
// its zone or, for a regional disk, in its region, so the volume's labels say which disk is meant.
// Without labels, gce looks in the configured region and all its zones.
type gce struct {
	client          *http.Client
	endpoint        string // with its version, without a slash at the end
	project, region string

	// credentialsFile has a service account's key. If it is empty, the machine's metadata server at the URL
	// metadata issues the tokens, and client direct asks it.
	credentialsFile, metadata string
	direct                    *http.Client
	// lock holds one element while a goroutine uses token.
	lock  chan struct{}
	token *oauth2.Token
}

// diskName matches Compute Engine's names. computeZone matches a zone's, such as us-central1-a; its first part
// is the region.
var (
	diskName    = regexp.MustCompile(`^[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?$`)
	computeZone = regexp.MustCompile(`^([a-z]+-[a-z]+[0-9]+)-[a-z0-9]+$`)
)

// regionOf returns the region of a zone, or "" if it is none.
func regionOf(zone string) string {
	return append(computeZone.FindStringSubmatch(zone), "", "")[1]
}

func (g *gce) locate(ctx context.Context, name, zoneLabel string) (topology, error) {
	if !diskName.MatchString(name) {
		return nil, fmt.Errorf("parsing the disk's name %q: want a name that matches %s", printable(name), diskName)
	}
	if zoneLabel == "" {
		return g.search(ctx, name)
	}
	zones, err := parseZones(zoneLabel)
	if err != nil {
		return nil, err
	}
	for _, zone := range zones {
		if regionOf(zone) == "" {
			return nil, fmt.Errorf("parsing the volume's zone label: %q: want a zone such as us-central1-a", zone)
		}
	}
	scope, missing := "zones/"+zones[0],
		fmt.Errorf("GCE persistent disk not found: diskName=%q zone=%q", name, zones[0])
	if len(zones) > 1 {
		scope, missing = "regions/"+regionOf(zones[0]),
			fmt.Errorf("GCE regional persistent disk not found: diskName=%q", name)
	}
	var found disk
	if err := g.get(ctx, scope+"/disks/"+name, nil, &found, missing); err != nil {
		return nil, err
	}
	return found.location()
}

// aggregatedDisks holds a page of the disks in all zones and regions of a project.
type aggregatedDisks struct {
	// Items has the disks by scope: zones/us-central1-a, regions/us-central1.
	Items         map[string]struct{ Disks []disk }
	NextPageToken string
	// Unreachables has the URLs of scopes that Compute Engine knows nothing of at the moment.
	Unreachables []string
}

// search looks for a disk of this name in the region. A regional disk comes before one of the same
// name in a zone, as in GetDiskByNameUnknownZone of k8s.io/legacy-cloud-providers/gce/gce_disks.go.
func (g *gce) search(ctx context.Context, name string) (topology, error) {
	query := url.Values{"filter": {"name = " + name}, "returnPartialSuccess": {"true"}}
	var regional, zonal []disk
	var unreachable []string
	for pages := 0; pages == 0 || query.Get("pageToken") != ""; pages++ {
		if pages == maxPages {
			return nil, fmt.Errorf("searching region %s: GCE's answer has more than %d pages: set the label "+
				"topology.kubernetes.io/zone", g.region, maxPages)
		}
		var page aggregatedDisks
		if err := g.get(ctx, "aggregated/disks", query, &page, fmt.Errorf("GCE has no project %s", g.project)); err != nil {
			return nil, err
		}
		for _, scope := range slices.Sorted(maps.Keys(page.Items)) {
			for _, d := range page.Items[scope].Disks {
				if d.Name == name && g.inRegion(scope) {
					if d.Zone == "" {
						regional = append(regional, d)
					} else {
						zonal = append(zonal, d)
					}
				}
			}
		}
		for _, scope := range page.Unreachables {
			if scope = path.Join(path.Base(path.Dir(scope)), path.Base(scope)); g.inRegion(scope) {
				unreachable = append(unreachable, scope)
			}
		}
		query.Set("pageToken", page.NextPageToken)
	}
	switch {
	case len(regional) > 0:
		return regional[0].location()
	case len(unreachable) > 0:
		return nil, fmt.Errorf("searching region %s: GCE's answer lacks %s: try again, or set the label "+
			"topology.kubernetes.io/zone", g.region, printable(strings.Join(unreachable, ", ")))
	case len(zonal) == 0:
		return nil, fmt.Errorf("GCE persistent disk not found: diskName=%q region=%q", name, g.region)
	case len(zonal) > 1:
		return nil, fmt.Errorf("GCE PD name was found in multiple zones: %q: say in the label "+
			"topology.kubernetes.io/zone which is meant", name)
	}
	return zonal[0].location()
}

// inRegion reports whether a scope is the region or one of its zones.
func (g *gce) inRegion(scope string) bool {
	zone, isZone := strings.CutPrefix(scope, "zones/")
	return isZone && regionOf(zone) == g.region || scope == "regions/"+g.region
}

// A disk holds the part of the API's Disk that matters here. Zones are URLs there. A regional disk has none.
type disk struct {
	Name, Zone   string
	ReplicaZones []string
}

func (d disk) location() (topology, error) {
	urls := d.ReplicaZones
	if d.Zone != "" {
		urls = []string{d.Zone}
	}
	if len(urls) == 0 {
		return nil, fmt.Errorf("PD is regional but does not have any replicaZones specified: %q", d.Name)
	}
	region, zones := regionOf(path.Base(urls[0])), make([]string, len(urls))
	for i, url := range urls {
		if zones[i] = path.Base(url); region == "" || regionOf(zones[i]) != region {
			return nil, fmt.Errorf("PD did not have zone/region information: %q has zone %q", d.Name, printable(url))
		}
	}
	slices.Sort(zones)
	return topologyOf(region, slices.Compact(zones)...), nil
}

// get reads what is at a path of the project. It returns missing if nothing is.
func (g *gce) get(ctx context.Context, path string, query url.Values, into any, missing error) error {
	token, err := g.currentToken(ctx)
	if err != nil {
		return fmt.Errorf("getting a token for GCE: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, g.endpoint+"/projects/"+g.project+"/"+path, nil)
	if err != nil {
		return err
	}
	request.URL.RawQuery = query.Encode()
	request.Header.Set("Authorization", "Bearer "+token)
	status, body, err := send(g.client, request)
	if err != nil {
		return err
	}
	return parseCompute(status, body, into, missing)
}

// parseCompute reads an answer. Its failures are described at https://google.aip.dev/193.
func parseCompute(status int, body []byte, into any, missing error) error {
	if status == http.StatusOK {
		if err := json.Unmarshal(body, into); err != nil {
			return fmt.Errorf("parsing Compute Engine's answer, check gce.endpoint: %s", printable(err.Error()))
		}
		return nil
	}
	var refusal struct {
		Error struct {
			Message string
			Errors  []struct{ Reason string }
		}
	}
	switch err := json.Unmarshal(body, &refusal); {
	case err != nil || refusal.Error.Message == "":
		return fmt.Errorf("parsing Compute Engine's answer, check gce.endpoint: status %d, no error message", status)
	case status == http.StatusNotFound:
		return missing
	}
	message := refusal.Error.Message
	if len(refusal.Error.Errors) > 0 {
		message += ", " + refusal.Error.Errors[0].Reason
	}
	return fmt.Errorf("googleapi: Error %d: %s", status, printable(message))
}

// currentToken returns the right to use the API for a while. If another request is getting one, currentToken
// waits for it, but not beyond ctx.
func (g *gce) currentToken(ctx context.Context) (string, error) {
	select {
	case g.lock <- struct{}{}:
		defer func() { <-g.lock }()
	case <-ctx.Done():
		return "", ctx.Err()
	}
	if g.token.Valid() {
		return g.token.AccessToken, nil
	}
	got, err := g.newToken(ctx)
	if err != nil {
		return "", errors.New(printable(err.Error()))
	}
	if !got.Valid() || got.Expiry.IsZero() {
		return "", errors.New("the answer has no valid access_token and expires_in, check gce.metadataServer, or " +
			"token_uri in gce.credentialsFile")
	}
	g.token = got
	return got.AccessToken, nil
}

// newToken gets a token for the service account of the credentials file, which may have been replaced, or
// for that of the machine, https://cloud.google.com/compute/docs/metadata/overview. Google's own client takes
// the address of the metadata server from the environment only.
func (g *gce) newToken(ctx context.Context) (*oauth2.Token, error) {
	if g.credentialsFile != "" {
		key, err := loadServiceAccountKey(g.credentialsFile)
		if err != nil {
			return nil, err
		}
		client := *g.client
		client.Transport = bounded{ctx, client.Transport}
		return key.TokenSource(context.WithValue(ctx, oauth2.HTTPClient, &client)).Token()
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet,
		g.metadata+"/computeMetadata/v1/instance/service-accounts/default/token", nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Metadata-Flavor", "Google")
	status, body, err := send(g.direct, request)
	if err != nil {
		return nil, err
	}
	if status != http.StatusOK {
		return nil, fmt.Errorf("status %d", status)
	}
	got := &oauth2.Token{}
	if json.Unmarshal(body, got) == nil && got.ExpiresIn > 0 {
		got.Expiry = time.Now().Add(time.Duration(got.ExpiresIn) * time.Second)
	}
	return got, nil
}

// bounded is a transport whose requests end with a context, because the library's requests don't.
type bounded struct {
	context.Context
	http.RoundTripper
}

func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	return b.RoundTripper.RoundTrip(r.WithContext(b.Context))
}

// loadServiceAccountKey reads the file that Google Cloud makes for a service account. An error holds nothing
// of the file's content but its type.
func loadServiceAccountKey(file string) (*jwt.Config, error) {
	content, err := readSecret(file)
	if err != nil {
		return nil, err
	}
	key, err := google.JWTConfigFromJSON(content, "https://www.googleapis.com/auth/compute.readonly")
	if err != nil {
		return nil, fmt.Errorf("%s: %s", file, printable(err.Error()))
	}
	private, _ := keyutil.ParsePrivateKeyPEM(key.PrivateKey)
	if _, isRSA := private.(*rsa.PrivateKey); !isRSA {
		return nil, fmt.Errorf("%s: private_key must be an RSA key in PEM", file)
	}
	if !strings.HasPrefix(key.TokenURL, "https://") {
		return nil, fmt.Errorf("%s: token_uri must be an https URL", file)
	}
	return key, nil
}
