// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package persistentvolumelabel

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/wait"
)

// gce finds persistent disks by Compute Engine's API,
// https://cloud.google.com/compute/docs/reference/rest/v1/disks. A disk's name is unique only in
// its zone or, for a regional disk, in its region, so the volume's labels say which disk is meant.
// Without labels, gce looks in the configured region and all its zones.
type gce struct {
	client          *http.Client
	backoff         wait.Backoff
	tokens          *tokens
	endpoint        string // with its version, without a slash at the end
	project, region string
}

var (
	// diskName matches Compute Engine's names.
	diskName = regexp.MustCompile(`^[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?$`)
	// computeZone matches a zone's name. Its first part is the region: us-central1-a.
	computeZone = regexp.MustCompile(`^([a-z]+-[a-z]+[0-9]+)-[a-z0-9]+$`)
)

func (g *gce) locate(ctx context.Context, name, zoneLabel string) (location, error) {
	if !diskName.MatchString(name) {
		return location{},
			fmt.Errorf("parsing the disk's name %q: want a name that matches %s", printable(name), diskName)
	}
	if zoneLabel == "" {
		return g.search(ctx, name)
	}
	zones, err := parseZones(zoneLabel)
	if err != nil {
		return location{}, err
	}
	for _, zone := range zones {
		if !computeZone.MatchString(zone) {
			return location{},
				fmt.Errorf("parsing the volume's zone label: %q: want a zone such as us-central1-a", zone)
		}
	}
	scope, missing := "zones/"+zones[0],
		fmt.Errorf("GCE persistent disk not found: diskName=%q zone=%q", name, zones[0])
	if len(zones) > 1 {
		scope, missing = "regions/"+regionOf(zones[0]),
			fmt.Errorf("GCE regional persistent disk not found: diskName=%q", name)
	}
	var found disk
	if exists, err := g.get(ctx, scope+"/disks/"+name, nil, &found); err != nil {
		return location{}, err
	} else if !exists {
		return location{}, missing
	}
	return found.location()
}

// regionOf returns the region of a zone.
func regionOf(zone string) string { return computeZone.FindStringSubmatch(zone)[1] }

// aggregatedDisks holds a page of the disks in all zones and regions of a project.
type aggregatedDisks struct {
	// Items has the disks by scope: zones/us-central1-a, regions/us-central1.
	Items map[string]struct {
		Disks []disk `json:"disks"`
	} `json:"items"`
	NextPageToken string `json:"nextPageToken"`
	// Unreachables has the URLs of scopes that Compute Engine knows nothing of at the moment.
	Unreachables []string `json:"unreachables"`
}

// search looks for a disk of this name in the region. A regional disk comes before one of the same
// name in a zone, as in GetDiskByNameUnknownZone of k8s.io/legacy-cloud-providers/gce/gce_disks.go.
func (g *gce) search(ctx context.Context, name string) (location, error) {
	query := url.Values{"filter": {"name = " + name}, "returnPartialSuccess": {"true"}}
	var regional, zonal []disk
	var unreachable []string
	for pages := 0; ; pages++ {
		if pages == maxPages {
			return location{}, fmt.Errorf("searching region %s: GCE's answer has more than %d pages: set the label "+
				"topology.kubernetes.io/zone", g.region, maxPages)
		}
		var page aggregatedDisks
		if exists, err := g.get(ctx, "aggregated/disks", query, &page); err != nil {
			return location{}, err
		} else if !exists {
			return location{}, fmt.Errorf("GCE has no project %s", g.project)
		}
		for _, scope := range slices.Sorted(maps.Keys(page.Items)) {
			if !g.inRegion(scope) {
				continue
			}
			for _, d := range page.Items[scope].Disks {
				switch {
				case d.Name != name:
				case d.regional():
					regional = append(regional, d)
				default:
					zonal = append(zonal, d)
				}
			}
		}
		for _, scope := range page.Unreachables {
			if scope = path.Join(path.Base(path.Dir(scope)), path.Base(scope)); g.inRegion(scope) {
				unreachable = append(unreachable, scope)
			}
		}
		if page.NextPageToken == "" {
			break
		}
		query.Set("pageToken", page.NextPageToken)
	}
	switch {
	case len(regional) > 0:
		return regional[0].location()
	case len(unreachable) > 0:
		return location{},
			fmt.Errorf("searching region %s: GCE's answer lacks %s: try again, or set the label "+
				"topology.kubernetes.io/zone", g.region, printable(strings.Join(unreachable, ", ")))
	case len(zonal) == 0:
		return location{}, fmt.Errorf("GCE persistent disk not found: diskName=%q region=%q", name, g.region)
	case len(zonal) > 1:
		return location{},
			fmt.Errorf("GCE PD name was found in multiple zones: %q: say in the label topology.kubernetes.io/zone "+
				"which is meant", name)
	default:
		return zonal[0].location()
	}
}

// inRegion reports whether a scope is the region or one of its zones.
func (g *gce) inRegion(scope string) bool {
	if zone, ok := strings.CutPrefix(scope, "zones/"); ok {
		return computeZone.MatchString(zone) && regionOf(zone) == g.region
	}
	return scope == "regions/"+g.region
}

// A disk holds the part of the API's Disk that matters here. Zones and regions are URLs there.
type disk struct {
	Name         string   `json:"name"`
	Zone         string   `json:"zone"`
	Region       string   `json:"region"`
	ReplicaZones []string `json:"replicaZones"`
}

func (d disk) regional() bool { return d.Zone == "" }

func (d disk) location() (location, error) {
	urls := d.ReplicaZones
	if !d.regional() {
		urls = []string{d.Zone}
	}
	if len(urls) == 0 {
		return location{}, fmt.Errorf("PD is regional but does not have any replicaZones specified: %q", d.Name)
	}
	var l location
	for _, url := range urls {
		zone := path.Base(url)
		if !computeZone.MatchString(zone) || l.region != "" && regionOf(zone) != l.region {
			return location{},
				fmt.Errorf("PD did not have zone/region information: %q has zone %q", d.Name, printable(url))
		}
		l.region = regionOf(zone)
		l.zones = append(l.zones, zone)
	}
	slices.Sort(l.zones)
	l.zones = slices.Compact(l.zones)
	return l, nil
}

// get reads what is at a path of the project; exists is false if nothing is.
func (g *gce) get(ctx context.Context, path string, query url.Values, into any) (exists bool, err error) {
	return retry(ctx, g.backoff, func() (bool, error) {
		token, err := g.tokens.get(ctx)
		if err != nil {
			return false, err
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, g.endpoint+"/projects/"+g.project+"/"+path, nil)
		if err != nil {
			return false, err
		}
		request.URL.RawQuery = query.Encode()
		request.Header.Set("Authorization", "Bearer "+token)
		answered, err := send(g.client, request)
		if err != nil {
			return false, err
		}
		return parseCompute(answered, into)
	})
}

// parseCompute reads an answer. Its failures are described at
// https://cloud.google.com/compute/docs/troubleshooting/troubleshooting-disks and
// https://google.aip.dev/193.
func parseCompute(a answer, into any) (exists bool, err error) {
	if a.status == http.StatusOK {
		if err := json.Unmarshal(a.body, into); err != nil {
			return false, fmt.Errorf("parsing Compute Engine's answer, check gce.endpoint: %s", printable(err.Error()))
		}
		return true, nil
	}
	var refusal struct {
		Error struct {
			Message string `json:"message"`
			Errors  []struct {
				Reason string `json:"reason"`
			} `json:"errors"`
		} `json:"error"`
	}
	if json.Unmarshal(a.body, &refusal) != nil || refusal.Error.Message == "" {
		err = fmt.Errorf("parsing Compute Engine's answer, check gce.endpoint: status %d, no error message", a.status)
		if isTemporary(a.status) {
			err = temporary{err}
		}
		return false, err
	}
	if a.status == http.StatusNotFound {
		return false, nil
	}
	message, reason := refusal.Error.Message, ""
	if len(refusal.Error.Errors) > 0 {
		reason = refusal.Error.Errors[0].Reason
		message += ", " + reason
	}
	err = fmt.Errorf("googleapi: Error %d: %s", a.status, printable(message))
	if isTemporary(a.status) || a.status == http.StatusForbidden &&
		(reason == "rateLimitExceeded" || reason == "userRateLimitExceeded") {
		err = temporary{err}
	}
	return false, err
}
