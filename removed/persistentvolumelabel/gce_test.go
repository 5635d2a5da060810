// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package persistentvolumelabel

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	apiequality "k8s.io/apimachinery/pkg/api/equality"

	"gatehouse.dev/plugin/plugintest"
	"gatehouse.dev/test/backends"
)

// gceConfig is the configuration for a cloud, with credentials as the last of its fields say.
func gceConfig(c *backends.Cloud, more, credentials string) string {
	return fmt.Sprintf("%s%s\ngce: {project: %s, region: us-central1, endpoint: %s/compute/v1, "+
		"certificateAuthorityFile: %s, %s}", head, more, backends.Project, c.URL, c.AuthorityFile, credentials)
}

var disks = []backends.Disk{
	{Name: "zonal", Zone: "us-central1-b"},
	{Name: "regional", Replicas: []string{"us-central1-c", "us-central1-a"}},
	{Name: "twice", Zone: "us-central1-a"},
	{Name: "twice", Zone: "us-central1-b"},
	{Name: "both", Zone: "us-central1-a"},
	{Name: "both", Replicas: []string{"us-central1-a", "us-central1-b"}},
	{Name: "far", Zone: "europe-west1-b"},
	{Name: "far", Replicas: []string{"europe-west1-b", "europe-west1-c"}},
	{Name: "one", Replicas: []string{"us-central1-f"}},
}

// See getDiskByNameAndOptionalLabelZones and GetDiskByNameUnknownZone in k8s.io/kubernetes 1.30's
// staging/src/k8s.io/legacy-cloud-providers/gce/gce_disks.go. What is other here: one aggregated
// list stands for a request in each zone.
func TestPD(t *testing.T) {
	cloud := backends.GCE(t, disks...)
	for credentials, field := range map[string]string{
		"a service account":       "credentialsFile: " + cloud.CredentialsFile,
		"a machine's own account": "metadataServer: " + backends.MetadataServer(t),
	} {
		t.Run("with "+credentials, func(t *testing.T) {
			p := plugintest.New(t, Descriptor, gceConfig(cloud, "", field))
			const query = `persistentvolumes "pv" is forbidden: error querying GCE PD volume `
			for name, test := range map[string]struct {
				disk, labels  string
				region, zones string
				refusal       string
			}{
				"somewhere": {disk: "zonal", region: "us-central1", zones: "us-central1-b"},
				"in a zone": {disk: "twice", labels: zone + "=us-central1-b", region: "us-central1",
					zones: "us-central1-b"},
				"in a zone, by beta label": {disk: "twice", labels: betaZone + "=us-central1-a",
					region: "us-central1", zones: "us-central1-a"},
				"in a zone of another": {disk: "far", labels: zone + "=europe-west1-b", region: "europe-west1",
					zones: "europe-west1-b"},
				"regional, somewhere": {disk: "regional", region: "us-central1",
					zones: "us-central1-a,us-central1-c"},
				"regional, with its zones": {disk: "regional", labels: zone + "=us-central1-c__us-central1-a",
					region: "us-central1", zones: "us-central1-a,us-central1-c"},
				"regional, with others": {disk: "far", labels: zone + "=europe-west1-b__europe-west1-c",
					region: "europe-west1", zones: "europe-west1-b,europe-west1-c"},
				"regional in one zone": {disk: "one", region: "us-central1", zones: "us-central1-f"},
				"regional comes before zone": {disk: "both", region: "us-central1",
					zones: "us-central1-a,us-central1-b"},

				"nowhere": {disk: "none", refusal: query +
					`none: GCE persistent disk not found: diskName="none" region="us-central1"`},
				"in another region": {disk: "far", refusal: query +
					`far: GCE persistent disk not found: diskName="far" region="us-central1"`},
				"in two zones": {disk: "twice", refusal: query +
					`twice: GCE PD name was found in multiple zones: "twice": say in the label ` +
					`topology.kubernetes.io/zone which is meant`},
				"not in its zone": {disk: "zonal", labels: zone + "=us-central1-f", refusal: query +
					`zonal: GCE persistent disk not found: diskName="zonal" zone="us-central1-f"`},
				"not in its zones": {disk: "zonal", labels: zone + "=us-central1-b__us-central1-a",
					refusal: query + `zonal: GCE regional persistent disk not found: diskName="zonal"`},
				"a zone that is none": {disk: "zonal", labels: zone + "=..", refusal: query +
					`zonal: parsing the volume's zone label: "..": want a zone such as us-central1-a`},
				"zones that are none": {disk: "zonal", labels: zone + "=us-central1-a____b", refusal: query +
					`zonal: "__" separated list ("us-central1-a____b") must not contain an empty string`},
				"a name that is none": {disk: "a/../b", refusal: query +
					"a/../b: parsing the disk's name \"a/../b\": want a name that matches " +
					"^[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?$"},
				"a name with a condition": {disk: "a OR name = b", refusal: query +
					"a OR name = b: parsing the disk's name \"a OR name = b\": want a name that matches " +
					"^[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?$"},
			} {
				t.Run(name, func(t *testing.T) {
					result := p.Admit(t, plugintest.Create(onPD(test.disk, test.labels)))
					if test.refusal != "" {
						result.Refused(t, 403, test.refusal)
						return
					}
					want := onPD(test.disk, test.labels+" "+region+"="+test.region)
					if _, set := want.Labels[zone]; !set {
						want.Labels[zone] = strings.ReplaceAll(test.zones, ",", "__")
					}
					requiring(want, region+"="+test.region+" "+zone+"="+test.zones)
					if got := result.Admitted(t).Object; !apiequality.Semantic.DeepEqual(got, want) {
						t.Errorf("got  %v\nwant %v", got, want)
					}
				})
			}
		})
	}
}

func TestWhatComputeAnswers(t *testing.T) {
	cloud := backends.GCE(t, disks...)
	p := plugintest.New(t, Descriptor,
		gceConfig(cloud, "cacheTTL: 0s", "credentialsFile: "+cloud.CredentialsFile)).Built.(*persistentVolumeLabel)
	repeatAtOnce(t)
	if _, err := p.gce.locate(t.Context(), "zonal", ""); err != nil { // and there is a token
		t.Fatal(err)
	}
	list := func(text string) []http.HandlerFunc { return []http.HandlerFunc{body(text)} }
	limit := backends.GCEError(403, "rateLimitExceeded", "Rate Limit Exceeded")
	for name, test := range map[string]struct {
		answers []http.HandlerFunc
		want    string // the zones, or why there are none
	}{
		"throttled twice": {backends.Repeat(2, limit), "us-central1-b"},
		"throttled for the user": {[]http.HandlerFunc{backends.GCEError(403, "userRateLimitExceeded",
			"User Rate Limit Exceeded")}, "us-central1-b"},
		"throttled with a 429": {[]http.HandlerFunc{backends.GCEError(429, "rateLimitExceeded", "Slow down")},
			"us-central1-b"},
		"a server error": {[]http.HandlerFunc{backends.GCEError(503, "backendError", "Backend Error")},
			"us-central1-b"},
		"a proxy's error": {[]http.HandlerFunc{status(504)}, "us-central1-b"},
		"a broken answer": {[]http.HandlerFunc{backends.Reset}, "us-central1-b"},
		"regional first, broken": {list(`{"items": {"regions/us-central1": {"disks": [{"name": "zonal", "region": ` +
			`"x/us-central1"}]}}}`), `PD is regional but does not have any replicaZones specified: "zonal"`},
		"a zone that is none": {list(`{"items": {"zones/us-central1-a": {"disks": [{"name": "zonal", "zone": ` +
			`"https://x/zones/"}]}}}`), `PD did not have zone/region information: "zonal" has zone "https://x/zones/"`},
		"replicas in two regions": {list(`{"items": {"regions/us-central1": {"disks": [{"name": "zonal", ` +
			`"replicaZones": ["us-central1-a", "us-east1-b"]}]}}}`),
			`PD did not have zone/region information: "zonal" has zone "us-east1-b"`},
		"another disk": {list(`{"items": {"zones/us-central1-a": {"disks": [{"name": "other", "zone": ` +
			`"us-central1-a"}]}}}`), `GCE persistent disk not found: diskName="zonal" region="us-central1"`},
		"an unreachable zone": {list(`{"items": {"zones/us-central1-a": {"disks": [{"name": "zonal", "zone": ` +
			`"us-central1-a"}]}}, "unreachables": ["https://x/projects/p/zones/us-central1-f"]}`),
			"searching region us-central1: GCE's answer lacks zones/us-central1-f: try again, or set the label " +
				"topology.kubernetes.io/zone"},
		"one that is regional": {list(`{"items": {"regions/us-central1": {"disks": [{"name": "zonal", ` +
			`"replicaZones": ["us-central1-a"]}]}}, "unreachables": ["projects/p/zones/us-central1-f"]}`),
			`us-central1-a`},
		"unreachable elsewhere": {list(`{"items": {"zones/us-central1-a": {"disks": [{"name": "zonal", "zone": ` +
			`"us-central1-a"}]}}, "unreachables": ["https://x/projects/p/zones/us-east1-b", "?"]}`), "us-central1-a"},
		"endless pages": {backends.Repeat(100, body(`{"nextPageToken": "again"}`)),
			"searching region us-central1: GCE's answer has more than 100 pages: set the label " +
				"topology.kubernetes.io/zone"},
		"no such project": {[]http.HandlerFunc{backends.GCEError(404, "notFound",
			"The resource was not found")}, "GCE has no project example-project"},
		"no right": {[]http.HandlerFunc{backends.GCEError(403, "forbidden",
			"Required 'compute.disks.list' permission\nfor 'projects/x'")},
			"googleapi: Error 403: Required 'compute.disks.list' permission for 'projects/x', forbidden"},
		"a token that has expired": {[]http.HandlerFunc{backends.GCEError(401, "authError", "Invalid Credentials")},
			"googleapi: Error 401: Invalid Credentials, authError"},
		"an error without reason": {[]http.HandlerFunc{backends.JSON(400,
			map[string]any{"error": map[string]string{"message": "Bad."}})}, "googleapi: Error 400: Bad."},
		"not JSON": {list("fine"),
			"parsing Compute Engine's answer, check gce.endpoint: invalid character 'i' in literal false " +
				"(expecting 'a')"},
		"a proxy's refusal": {[]http.HandlerFunc{status(404)},
			"parsing Compute Engine's answer, check gce.endpoint: status 404, no error message"},
		"a redirection": {[]http.HandlerFunc{http.RedirectHandler("https://elsewhere.example/",
			302).ServeHTTP},
			"parsing Compute Engine's answer, check gce.endpoint: status 302, no error message"},
	} {
		t.Run(name, func(t *testing.T) {
			before := len(cloud.Requests())
			cloud.Next(test.answers...)
			got, err := p.gce.locate(t.Context(), "zonal", "")
			if got := zones(got, err); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
			if err != nil && len(cloud.Requests())-before != len(test.answers) {
				t.Errorf("the refusal took %d requests", len(cloud.Requests())-before)
			}
		})
	}
}

const noToken = "the answer has no valid access_token and expires_in, check gce.metadataServer, or token_uri in " +
	"gce.credentialsFile"

func TestTokens(t *testing.T) {
	cloud := backends.GCE(t, disks...)
	fileField := "credentialsFile: " + cloud.CredentialsFile
	repeatAtOnce(t)
	build := func() provider {
		return plugintest.New(t, Descriptor, gceConfig(cloud, "cacheTTL: 0s", fileField)).Built.(*persistentVolumeLabel).gce
	}
	const library = "getting a token for GCE: oauth2: cannot fetch token: "
	const got = "getting a token for GCE: "
	for name, test := range map[string]struct {
		answers []http.HandlerFunc
		want    string
	}{
		"throttled": {backends.Repeat(2,
			backends.JSON(429, map[string]string{"error": "rate_limit_exceeded"})), ""},
		"a server error": {backends.Repeat(1, status(500)), ""},
		"refused": {backends.Repeat(1, backends.JSON(400,
			map[string]string{"error": "invalid_grant", "error_description": "Account not found"})), library +
			`400 Bad Request Response: {"error":"invalid_grant","error_description":"Account not found"}`},
		"a proxy's": {backends.Repeat(1, status(403)), library +
			"403 Forbidden Response: <html>a proxy's</html>"},
		"no token": {backends.Repeat(1, body("{}")), got + noToken},
		"no JSON": {backends.Repeat(1, body("fine")), library +
			"invalid character 'i' in literal false (expecting 'a')"},
		"an expired token": {backends.Repeat(1,
			backends.JSON(200, map[string]any{"access_token": "t", "expires_in": 0})), got + noToken},
	} {
		t.Run(name, func(t *testing.T) {
			cloud.Next(test.answers...)
			_, err := build().locate(t.Context(), "zonal", "us-central1-b")
			if text := fmt.Sprint(err); test.want == "" && err != nil || test.want != "" && text != test.want {
				t.Errorf("got %v, want %s", err, test.want)
			}
		})
	}
	t.Run("one token serves many", func(t *testing.T) {
		p, before := build(), len(cloud.Requests())
		for range 3 {
			if _, err := p.locate(t.Context(), "zonal", "us-central1-b"); err != nil {
				t.Error(err)
			}
		}
		if all := strings.Join(cloud.Requests()[before:], "\n"); strings.Count(all, "/token") != 1 ||
			strings.Count(all, "/zones/us-central1-b/disks/zonal") != 3 {
			t.Errorf("asked\n%s", all)
		}
	})
	t.Run("a key that was replaced", func(t *testing.T) {
		p := build()
		content, err := os.ReadFile(backends.GCE(t).CredentialsFile) // another one's
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(cloud.CredentialsFile, []byte(strings.ReplaceAll(string(content),
			`"token_uri":"https://127.0.0.1`, `"token_uri":"`+cloud.URL+`/token","x":"`)), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := p.locate(t.Context(), "zonal", "us-central1-b"); err == nil ||
			err.Error() != library+`400 Bad Request Response: `+
				`{"error":"invalid_grant","error_description":"Invalid JWT Signature."}` {
			t.Errorf("got %v", err)
		}
		if err := os.WriteFile(cloud.CredentialsFile, []byte("{}"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := p.locate(t.Context(), "zonal", "us-central1-b"); err == nil ||
			err.Error() != got+cloud.CredentialsFile+": google: read JWT from JSON credentials: 'type' field is "+
				`"" (expected "service_account")` {
			t.Errorf("got %v", err)
		}
	})
}

// Two requests that need a token: the one that gives up leaves the other its chance.
func TestWhoWaitsForATokenHasItsOwnTime(t *testing.T) {
	cloud := backends.GCE(t, disks...)
	p := plugintest.New(t, Descriptor,
		gceConfig(cloud, "", "credentialsFile: "+cloud.CredentialsFile)).Built.(*persistentVolumeLabel)
	impatient, giveUp := context.WithCancel(t.Context())
	var waited sync.WaitGroup
	cloud.Next(func(w http.ResponseWriter, r *http.Request) {
		waited.Go(func() { // while the token is being got
			if _, err := p.find(t.Context(), nil, onPD("zonal", "")); err != nil {
				t.Error(err)
			}
		})
		giveUp()
		backends.Hang(w, r)
	})
	if _, err := p.find(impatient, nil, onPD("zonal", "")); err == nil ||
		err.Error() != `error querying GCE PD volume zonal: getting a token for GCE: oauth2: cannot fetch token: `+
			`Post "`+cloud.URL+`/token": context canceled` {
		t.Errorf("got %v", err)
	}
	waited.Wait()
	if _, err := p.gce.locate(impatient, "twice", "us-central1-a"); err == nil {
		t.Error("is found by who has given up")
	}
	if _, err := p.find(t.Context(), nil, onPD("zonal", "")); err != nil {
		t.Error(err)
	}
}

func TestServiceAccountKeys(t *testing.T) {
	valid, err := os.ReadFile(backends.GCE(t).CredentialsFile)
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct{ content, want string }{
		"as Google makes them": {string(valid), ""},
		"not JSON":             {"-----BEGIN PRIVATE KEY-----", "invalid character '-' in numeric literal"},
		"a user's": {`{"type": "authorized_user", "refresh_token": "s3cr3t"}`,
			"google: read JWT from JSON credentials: 'type' field is \"authorized_user\" (expected " +
				`"service_account")`},
		"nobody's": {`{"type": "service_account"}`, "private_key must be an RSA key in PEM"},
		"in the open": {strings.ReplaceAll(string(valid), `"token_uri":"https`, `"token_uri":"http`),
			"token_uri must be an https URL"},
		"no key": {strings.ReplaceAll(string(valid), "-----BEGIN", "-----BEGINS"),
			"private_key must be an RSA key in PEM"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "key.json")
			if err := os.WriteFile(file, []byte(test.content), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := loadServiceAccountKey(file)
			if test.want == "" && err != nil || test.want != "" && (err == nil || err.Error() != file+": "+test.want) {
				t.Errorf("got %v, want %s", err, test.want)
			}
		})
	}
}

func TestMetadataServer(t *testing.T) {
	cloud := backends.GCE(t, disks...)
	for name, test := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"no account": {status(404), "getting a token for GCE: status 404"},
		"another machine": {func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "<html>") },
			"getting a token for GCE: " + noToken},
	} {
		t.Run(name, func(t *testing.T) {
			cloud.Next(test.answer)
			p := plugintest.New(t, Descriptor, gceConfig(cloud, "", "metadataServer: "+cloud.URL)).Built.(*persistentVolumeLabel)
			if _, err := p.gce.locate(t.Context(), "zonal", ""); err == nil || err.Error() != test.want {
				t.Errorf("got %v, want %s", err, test.want)
			}
		})
	}
}
