// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package persistentvolumelabel

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"golang.org/x/oauth2"
	"k8s.io/apimachinery/pkg/util/validation"
)

// sent answers every request with nothing, and keeps its URL and form.
type sent struct {
	url  string
	form url.Values
}

func (s *sent) RoundTrip(r *http.Request) (*http.Response, error) {
	s.url = r.URL.String()
	if r.Body != nil {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		if s.form, err = url.ParseQuery(string(body)); err != nil {
			return nil, err
		}
	}
	return &http.Response{StatusCode: http.StatusTeapot, Body: http.NoBody, Request: r}, nil
}

// Whatever a PersistentVolume names, what is asked is about one volume.
func FuzzNames(f *testing.F) {
	for _, seed := range [][2]string{
		{"vol-1", ""}, {"aws://us-east-1a/vol-1", ""}, {"vol-1&Action=DeleteVolume", ""}, {"vol-%zz\n", "x"},
		{"aws:///", "__"},
		{"disk", ""}, {"disk", "us-central1-a"}, {"disk", "us-central1-a__us-central1-b"}, {"../disk", "../zones"},
		{"disk?x", "us-central1-a/../b"}, {"a OR name = b", ""},
	} {
		f.Add(seed[0], seed[1])
	}
	compute := regexp.MustCompile(`^https://compute\.example/projects/p/(?:aggregated/disks\?filter=name\+%3D\+[-a-z0-9]+&` +
		`returnPartialSuccess=true|(?:zones|regions)/[-a-z0-9]+/disks/[-a-z0-9]+)$`)
	f.Fuzz(func(t *testing.T, volume, zoneLabel string) {
		seen := &sent{}
		client := &http.Client{Transport: seen}
		pd := &gce{client: client, endpoint: "https://compute.example", project: "p", region: "us-central1",
			lock: make(chan struct{}, 1), token: &oauth2.Token{AccessToken: "t"}}
		if _, err := pd.locate(t.Context(), volume, zoneLabel); err == nil {
			t.Error("is somewhere")
		}
		if seen.url != "" && (!compute.MatchString(seen.url) || !strings.Contains(seen.url, volume)) {
			t.Errorf("%q with %q asks for %s", volume, zoneLabel, seen.url)
		}

		id, err := ebsVolumeID(volume)
		if err != nil {
			return
		}
		seen.form = nil
		ebs := &aws{client: client, endpoint: "https://ec2.example/", region: "r"}
		if _, err := ebs.describe(t.Context(), id,
			awssdk.Credentials{AccessKeyID: "a", SecretAccessKey: "b"}); err == nil {
			t.Error("is somewhere")
		}
		if len(seen.form) != 3 || seen.form.Get("Action") != "DescribeVolumes" || seen.form.Get("VolumeId.1") != id ||
			!strings.Contains(volume, id) {
			t.Errorf("%q asks for %v", volume, seen.form)
		}
	})
}

func FuzzParseZones(f *testing.F) {
	for _, seed := range []string{"", "a", "a__b", "b__a__b", "a___b", "_____", " a __ b "} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, label string) {
		zones, err := parseZones(label)
		if err != nil {
			return
		}
		if len(zones) == 0 || !slices.IsSorted(zones) || slices.Contains(zones, "") ||
			len(slices.Compact(slices.Clone(zones))) != len(zones) {
			t.Errorf("%q has the zones %q", label, zones)
		}
	})
}

func FuzzLoadAWSCredentials(f *testing.F) {
	for _, seed := range []string{"", "[default]\naws_access_key_id=a\naws_secret_access_key=b",
		"[default]\r\naws_session_token = \x00", "[", "[]", "=", "#", " x", "[default]\n=\n[default]"} {
		f.Add(seed, "default")
	}
	file := filepath.Join(f.TempDir(), "credentials")
	f.Fuzz(func(t *testing.T, content, profile string) {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if c, err := loadAWSCredentials(file, profile); (err == nil) != c.HasKeys() {
			t.Errorf("got %+v, %v", c, err)
		}
	})
}

func FuzzParseDescribeVolumes(f *testing.F) {
	for _, seed := range []string{
		"", "<", "<DescribeVolumesResponse/>",
		`<DescribeVolumesResponse ` +
			`xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><volumeSet><item><volumeId>vol-1</volumeId>` +
			`<availabilityZone>us-east-1a</availabilityZone></item></volumeSet><nextToken>t</nextToken></DescribeVolumesResponse>`,
		"<Response><Errors><Error><Code>Throttling</Code><Message>m</Message></Error></Errors></Response>",
		`<!DOCTYPE x [<!ENTITY a "b">]><Response>&a;</Response>`,
	} {
		f.Add(200, []byte(seed))
		f.Add(400, []byte(seed))
		f.Add(503, []byte(seed))
	}
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		page, err := parseDescribeVolumes(status, body)
		if (page == nil) != (err != nil) {
			t.Errorf("got %v, %v", page, err)
		}
		if err != nil && len([]rune(err.Error())) > maxMessage+100 {
			t.Errorf("says as much as %v", err)
		}
	})
}

func FuzzParseCompute(f *testing.F) {
	for _, seed := range []string{
		"", "{}", "null", `{"name": "d", "zone": "https://x/zones/us-central1-a"}`,
		`{"name": "d", "region": "r", "replicaZones": ["us-central1-b", "us-central1-a", "us-central1-a"]}`,
		`{"zone": "/"}`, `{"replicaZones": [""]}`,
		`{"error": {"code": 403, "message": "m", "errors": [{"reason": "rateLimitExceeded"}]}}`,
		`{"error": {"message": "m", "errors": []}}`,
	} {
		f.Add(200, []byte(seed))
		f.Add(403, []byte(seed))
		f.Add(404, []byte(seed))
	}
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		var found disk
		err := parseCompute(status, body, &found, errors.New("is missing"))
		if err == nil && status != 200 || err != nil && len([]rune(err.Error())) > maxMessage+100 {
			t.Errorf("got %v", err)
		}
		where, err := found.location()
		if err != nil {
			return
		}
		zones, region := where[1].values, where[0].values[0]
		if len(zones) == 0 || !slices.IsSorted(zones) || region == "" {
			t.Errorf("is at %v", where)
		}
		for _, zone := range append(zones, region) {
			if len(zone) <= validation.LabelValueMaxLength && len(validation.IsValidLabelValue(zone)) > 0 {
				t.Errorf("%q can't be a label", zone)
			}
		}
	})
}

func FuzzLoadServiceAccountKey(f *testing.F) {
	for _, seed := range []string{"", "{}",
		`{"type": "service_account", "client_email": "e", "token_uri": "https://x", "private_key": "-----BEGIN ` +
			`PRIVATE KEY-----\n\n-----END PRIVATE KEY-----"}`} {
		f.Add([]byte(seed))
	}
	file := filepath.Join(f.TempDir(), "key.json")
	f.Fuzz(func(t *testing.T, content []byte) {
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
		if key, err := loadServiceAccountKey(file); err == nil && len(key.PrivateKey) == 0 {
			t.Errorf("got %v", key)
		}
	})
}
