// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package backends

import (
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// The access key that EC2 knows, and its region.
const (
	AccessKeyID     = "AKIDEXAMPLE"
	SecretAccessKey = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
	SessionToken    = "SESSION+TOKEN/EXAMPLE=="
	EC2Region       = "us-east-1"
)

// EC2 answers for volumes: an ID of each, and the zone that it is in. It does so in three pages,
// the first of which has no volume.
func EC2(t testing.TB, zones map[string]string) *Cloud {
	t.Helper()
	c := start(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // nobody is there for an answer
		}
		if code, message := refusal(r, body); code != "" {
			EC2Error(http.StatusForbidden, code, message)(w, r)
			return
		}
		form, err := url.ParseQuery(string(body))
		if err != nil || form.Get("Action") != "DescribeVolumes" || form.Get("Version") != "2016-11-15" ||
			len(form["VolumeId.1"]) != 1 {
			EC2Error(http.StatusBadRequest, "InvalidAction", "The action is not valid for this endpoint.")(w, r)
			return
		}
		id := form.Get("VolumeId.1")
		zone, ok := zones[id]
		if !ok {
			EC2Error(http.StatusBadRequest, "InvalidVolume.NotFound", "The volume '"+id+"' does not exist.")(w, r)
			return
		}
		switch form.Get("NextToken") {
		case "":
			EC2Page("page/2+=&", "")(w, r)
		case "page/2+=&":
			EC2Page("3", volume(id, zone))(w, r)
		case "3":
			EC2Page("", "")(w, r)
		default:
			EC2Error(http.StatusBadRequest, "InvalidParameterValue", "Unable to parse pagination token")(w, r)
		}
	})
	c.CredentialsFile = filepath.Join(t.TempDir(), "credentials")
	write(t, c.CredentialsFile, EC2Credentials(SecretAccessKey))
	return c
}

// EC2Credentials are a credentials file with this secret access key.
func EC2Credentials(secret string) []byte {
	return fmt.Appendf(nil, "[default]\naws_access_key_id = %s\naws_secret_access_key = %s\naws_session_token = %s\n",
		AccessKeyID, secret, SessionToken)
}

// EC2Page answers with a page of volumes in XML.
func EC2Page(nextToken, volumes string) http.HandlerFunc {
	if nextToken != "" {
		nextToken = "<nextToken>" + html.EscapeString(nextToken) + "</nextToken>"
	}
	return xml(http.StatusOK, `<DescribeVolumesResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
  <requestId>59dbff89-35bd-4eac-99ed-be587EXAMPLE</requestId>
  <volumeSet>`+volumes+`</volumeSet>`+nextToken+`
</DescribeVolumesResponse>`)
}

func volume(id, zone string) string {
	id = html.EscapeString(id)
	return `<item>
      <volumeId>` + id + `</volumeId><size>80</size><snapshotId/>
      <availabilityZone>` + zone + `</availabilityZone><status>in-use</status>
      <createTime>2026-01-01T00:00:00.000Z</createTime>
      <attachmentSet><item><volumeId>` + id + `</volumeId><instanceId>i-1234567890abcdef0</instanceId></item></attachmentSet>
      <volumeType>gp3</volumeType>
    </item>`
}

// EC2Error answers with an error.
func EC2Error(status int, code, message string) http.HandlerFunc {
	return xml(status, "<Response><Errors><Error><Code>"+code+"</Code><Message>"+html.EscapeString(message)+
		"</Message></Error></Errors><RequestID>ea966190-f9aa-478e-9ede-EXAMPLE</RequestID></Response>")
}

func xml(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/xml;charset=UTF-8")
		w.WriteHeader(status)
		io.WriteString(w, `<?xml version="1.0" encoding="UTF-8"?>`+"\n"+body)
	}
}

var authorization = regexp.MustCompile(`^AWS4-HMAC-SHA256 Credential=([^/]+)/(\d{8})/([^/]+)/([^/]+)/aws4_request, ` +
	`SignedHeaders=([^,]+), Signature=([0-9a-f]{64})$`)

// refusal checks a request's signature by
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html, step
// by step as it stands there. The message is as talkative as some of AWS' services are.
func refusal(r *http.Request, body []byte) (code, message string) {
	said := authorization.FindStringSubmatch(r.Header.Get("Authorization"))
	if said == nil {
		return "MissingAuthenticationToken", "The request must contain a valid (registered) AWS access key ID."
	}
	key, date, region, service, signed, signature := said[1], said[2], said[3], said[4], strings.Split(said[5], ";"),
		said[6]
	at, err := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date"))
	switch {
	case key != AccessKeyID || r.Header.Get("X-Amz-Security-Token") != SessionToken:
		return "AuthFailure", "AWS was not able to validate the provided access credentials"
	case err != nil || at.Format("20060102") != date || time.Since(at).Abs() > 5*time.Minute:
		return "RequestExpired", "Request has expired."
	case region != EC2Region || service != "ec2":
		return "SignatureDoesNotMatch", "Credential should be scoped to a valid region."
	case r.Method != http.MethodPost || r.URL.Path != "/" || r.URL.RawQuery != "":
		return "SignatureDoesNotMatch", "Another request was signed."
	case !slices.IsSorted(signed) || !slices.Contains(signed, "host") || !slices.Contains(signed, "x-amz-date") ||
		!slices.Contains(signed, "x-amz-security-token"):
		return "SignatureDoesNotMatch", "Not all headers are signed that must be."
	}
	canonical := "POST\n/\n\n"
	for _, header := range signed {
		value := r.Header.Get(header)
		if header == "host" {
			value = r.Host
		}
		canonical += header + ":" + strings.TrimSpace(value) + "\n"
	}
	canonical += "\n" + said[5] + "\n" + fmt.Sprintf("%x", sha256.Sum256(body))
	toSign := strings.Join([]string{"AWS4-HMAC-SHA256", r.Header.Get("X-Amz-Date"), date + "/" + region +
		"/ec2/aws4_request", fmt.Sprintf("%x", sha256.Sum256([]byte(canonical)))}, "\n")
	dateKey := mac([]byte("AWS4"+SecretAccessKey), date)
	signingKey := mac(mac(mac(dateKey, region), service), "aws4_request")
	if fmt.Sprintf("%x", mac(signingKey, toSign)) != signature {
		return "SignatureDoesNotMatch",
			"The request signature we calculated does not match the signature you provided. The Canonical String " +
				"for this request should have been " + strconv.Quote(canonical)
	}
	return "", ""
}

func mac(key []byte, data string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(data))
	return h.Sum(nil)
}
