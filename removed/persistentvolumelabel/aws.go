// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package persistentvolumelabel

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/xml"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/protocol/ec2query"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

// aws finds volumes by EC2's DescribeVolumes,
// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeVolumes.html.
type aws struct {
	client                   *http.Client
	endpoint, region         string // the endpoint ends with its slash
	credentialsFile, profile string
}

// availabilityZone matches a zone's name. Its first part is the region: us-east-1a, or the local
// zone us-west-2-lax-1a.
var availabilityZone = regexp.MustCompile(`^([a-z]+(?:-[a-z]+)+-[0-9]+)(?:[a-z]|(?:-[a-z0-9]+)+)$`)

func (a *aws) locate(ctx context.Context, volume, _ string) (topology, error) {
	id, err := ebsVolumeID(volume)
	if err != nil {
		return nil, err
	}
	// Read each time: temporary credentials are replaced before they expire.
	credentials, err := loadAWSCredentials(a.credentialsFile, a.profile)
	if err != nil {
		return nil, fmt.Errorf("the credentials for AWS: %w", err)
	}
	zone, err := a.describe(ctx, id, credentials)
	if err != nil {
		return nil, err
	}
	parts := availabilityZone.FindStringSubmatch(zone)
	if parts == nil {
		return nil, fmt.Errorf("volume did not have AZ information: parsing the zone %q in EC2's answer: "+
			"want one such as us-east-1a, check aws.endpoint", printable(zone))
	}
	return topologyOf(parts[1], zone), nil
}

// ebsVolumeID returns the ID in the volume name of a PersistentVolume: vol-1, aws:///vol-1 or
// aws://us-east-1a/vol-1. The message is that of KubernetesVolumeIDToEBSVolumeID in
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
	XMLName xml.Name `xml:"DescribeVolumesResponse"`
	Volumes []struct {
		ID   string `xml:"volumeId"`
		Zone string `xml:"availabilityZone"`
	} `xml:"volumeSet>item"`
	NextToken string `xml:"nextToken"`
}

// describe returns the zone of the volume with this ID.
func (a *aws) describe(ctx context.Context, id string, credentials awssdk.Credentials) (string, error) {
	form := url.Values{"Action": {"DescribeVolumes"}, "Version": {"2016-11-15"}, "VolumeId.1": {id}}
	var zones []string
	for range maxPages {
		page, err := a.post(ctx, form.Encode(), credentials)
		if err != nil {
			return "", err
		}
		for _, volume := range page.Volumes {
			if volume.ID == id {
				zones = append(zones, volume.Zone)
			}
		}
		switch form.Set("NextToken", page.NextToken); {
		case page.NextToken != "":
		case len(zones) == 0:
			return "", errors.New("no volumes found")
		case len(zones) > 1:
			return "", errors.New("multiple volumes found")
		default:
			return zones[0], nil
		}
	}
	return "", fmt.Errorf("reading EC2's answer, check aws.endpoint: more than %d pages", maxPages)
}

func (a *aws) post(ctx context.Context, form string, credentials awssdk.Credentials) (*describeVolumesResponse, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, a.endpoint, strings.NewReader(form))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded; charset=utf-8")
	sum := fmt.Sprintf("%x", sha256.Sum256([]byte(form)))
	if err := v4.NewSigner().SignHTTP(ctx, credentials, request, sum, "ec2", a.region, time.Now()); err != nil {
		return nil, fmt.Errorf("signing the request: %w", err)
	}
	status, body, err := send(a.client, request)
	if err != nil {
		return nil, err
	}
	if credentials.SessionToken != "" {
		// Some of AWS' services explain a bad signature with all that should have been signed.
		body = bytes.ReplaceAll(body, []byte(credentials.SessionToken), []byte("…"))
	}
	return parseDescribeVolumes(status, body)
}

// parseDescribeVolumes reads an answer,
// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html.
func parseDescribeVolumes(status int, body []byte) (*describeVolumesResponse, error) {
	if status == http.StatusOK {
		page := &describeVolumesResponse{}
		if err := xml.Unmarshal(body, page); err != nil {
			return nil, fmt.Errorf("parsing EC2's answer, check aws.endpoint: %s", printable(err.Error()))
		}
		return page, nil
	}
	refusal, err := ec2query.GetErrorResponseComponents(bytes.NewReader(body))
	if err != nil || refusal.Code == "" {
		return nil, fmt.Errorf("parsing EC2's answer, check aws.endpoint: status %d, no error code", status)
	}
	return nil, errors.New(printable(refusal.Code + ": " + refusal.Message))
}

// loadAWSCredentials reads the access key of a profile from a shared credentials file of AWS' own tools,
// https://docs.aws.amazon.com/sdkref/latest/guide/file-format.html. The SDK's own reader, in its package
// config, brings the clients of four more services into the program.
func loadAWSCredentials(file, profile string) (awssdk.Credentials, error) {
	content, err := readSecret(file)
	if err != nil {
		return awssdk.Credentials{}, err
	}
	here, settings := false, map[string]string{}
	for line := range strings.Lines(string(content)) {
		setting, value, _ := strings.Cut(line, "=")
		if header, ok := strings.CutPrefix(line, "["); ok {
			header, _, _ = strings.Cut(header, "]")
			here = strings.TrimSpace(header) == profile
		} else if here {
			settings[strings.ToLower(strings.TrimSpace(setting))] = strings.TrimSpace(value)
		}
	}
	c := awssdk.Credentials{AccessKeyID: settings["aws_access_key_id"],
		SecretAccessKey: settings["aws_secret_access_key"], SessionToken: settings["aws_session_token"]}
	if !c.HasKeys() {
		return c, fmt.Errorf("%s: has no profile [%s] with aws_access_key_id and aws_secret_access_key", file, profile)
	}
	return c, nil
}
