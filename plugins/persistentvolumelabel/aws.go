// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package persistentvolumelabel

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"k8s.io/apimachinery/pkg/util/wait"
)

// ec2Version is the version of the API. There has been no other for years.
const ec2Version = "2016-11-15"

// aws finds volumes by EC2's DescribeVolumes,
// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeVolumes.html.
type aws struct {
	client                   *http.Client
	backoff                  wait.Backoff
	endpoint, region         string // the endpoint ends with its slash
	credentialsFile, profile string
}

// availabilityZone matches a zone's name. Its first part is the region: us-east-1a, or the local
// zone us-west-2-lax-1a.
var availabilityZone = regexp.MustCompile(`^([a-z]+(?:-[a-z]+)+-[0-9]+)(?:[a-z]|(?:-[a-z0-9]+)+)$`)

func (a *aws) locate(ctx context.Context, volume, _ string) (location, error) {
	id, err := ebsVolumeID(volume)
	if err != nil {
		return location{}, err
	}
	// Read each time: temporary credentials are replaced before they expire.
	credentials, err := loadAWSCredentials(a.credentialsFile, a.profile)
	if err != nil {
		return location{}, fmt.Errorf("the credentials for AWS: %w", err)
	}
	zone, err := a.describe(ctx, id, credentials)
	if err != nil {
		return location{}, err
	}
	parts := availabilityZone.FindStringSubmatch(zone)
	if parts == nil {
		return location{}, fmt.Errorf("volume did not have AZ information: parsing the zone %q in EC2's answer: "+
			"want one such as us-east-1a, check aws.endpoint", printable(zone))
	}
	return location{parts[1], []string{zone}}, nil
}

// ebsVolumeID returns the ID in the volume name of a PersistentVolume: vol-1, aws:///vol-1 or
// aws://us-east-1a/vol-1. The messages are those of KubernetesVolumeIDToEBSVolumeID in
// k8s.io/csi-translation-lib/plugins/aws_ebs.go.
func ebsVolumeID(name string) (string, error) {
	id := name
	if rest, ok := strings.CutPrefix(name, "aws://"); ok {
		_, id, _ = strings.Cut(rest, "/")
	}
	id = strings.Trim(id, "/")
	if !strings.HasPrefix(id, "vol-") || strings.Contains(id, "/") {
		return "", fmt.Errorf("invalid format for AWS volume (%s)", name)
	}
	return id, nil
}

// describeVolumesResponse holds the part of the API's answer that matters here.
type describeVolumesResponse struct {
	XMLName   xml.Name    `xml:"DescribeVolumesResponse"`
	Volumes   []ec2Volume `xml:"volumeSet>item"`
	NextToken string      `xml:"nextToken"`
}

type ec2Volume struct {
	ID   string `xml:"volumeId"`
	Zone string `xml:"availabilityZone"`
}

// describe returns the zone of the volume with this ID.
func (a *aws) describe(ctx context.Context, id string, credentials awssdk.Credentials) (string, error) {
	form := url.Values{"Action": {"DescribeVolumes"}, "Version": {ec2Version}, "VolumeId.1": {id}}
	var zones []string
	for range maxPages {
		page, err := retry(ctx, a.backoff,
			func() (*describeVolumesResponse, error) { return a.post(ctx, form, credentials) })
		if err != nil {
			return "", err
		}
		for _, volume := range page.Volumes {
			if volume.ID == id {
				zones = append(zones, volume.Zone)
			}
		}
		if page.NextToken != "" {
			form.Set("NextToken", page.NextToken)
			continue
		}
		switch len(zones) {
		case 0:
			return "", errors.New("no volumes found")
		case 1:
			return zones[0], nil
		default:
			return "", errors.New("multiple volumes found")
		}
	}
	return "", fmt.Errorf("reading EC2's answer, check aws.endpoint: more than %d pages", maxPages)
}

// post sends a request once, without retries.
func (a *aws) post(ctx context.Context, form url.Values, credentials awssdk.Credentials) (*describeVolumesResponse, error) {
	body := form.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, a.endpoint, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded; charset=utf-8")
	sum := sha256.Sum256([]byte(body))
	if err := v4.NewSigner().SignHTTP(ctx, credentials, request, hex.EncodeToString(sum[:]), "ec2", a.region,
		time.Now()); err != nil {
		return nil, fmt.Errorf("signing the request: %w", err)
	}
	answered, err := send(a.client, request)
	if err != nil {
		return nil, err
	}
	page, err := parseDescribeVolumes(answered)
	if refusal := new(ec2Error); errors.As(err, &refusal) && credentials.SessionToken != "" {
		// Some of AWS' services explain a bad signature with all that should have been signed.
		refusal.Message = strings.ReplaceAll(refusal.Message, credentials.SessionToken, "…")
	}
	return page, err
}

// An ec2Error says why EC2 refuses a request,
// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html.
type ec2Error struct {
	Code    string `xml:"Code"`
	Message string `xml:"Message"`
}

func (e *ec2Error) Error() string { return printable(e.Code + ": " + e.Message) }

// throttling holds the codes for "too many requests". EC2 sends some of them with another status.
var throttling = map[string]bool{
	"RequestLimitExceeded": true, "Throttling": true, "ThrottlingException": true, "RequestThrottled": true,
	"RequestThrottledException": true, "EC2ThrottledException": true,
}

func parseDescribeVolumes(a answer) (*describeVolumesResponse, error) {
	if a.status == http.StatusOK {
		page := &describeVolumesResponse{}
		if err := xml.Unmarshal(a.body, page); err != nil {
			return nil, fmt.Errorf("parsing EC2's answer, check aws.endpoint: %s", printable(err.Error()))
		}
		return page, nil
	}
	var refusal struct {
		XMLName xml.Name   `xml:"Response"`
		Errors  []ec2Error `xml:"Errors>Error"`
	}
	var err error = fmt.Errorf("parsing EC2's answer, check aws.endpoint: status %d, no error code", a.status)
	if xml.Unmarshal(a.body, &refusal) == nil && len(refusal.Errors) > 0 && refusal.Errors[0].Code != "" {
		err = &refusal.Errors[0]
		if throttling[refusal.Errors[0].Code] {
			return nil, temporary{err}
		}
	}
	if isTemporary(a.status) {
		return nil, temporary{err}
	}
	return nil, err
}
