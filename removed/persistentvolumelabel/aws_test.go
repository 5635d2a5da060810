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
	"testing"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"

	"gatehouse.dev/plugin/plugintest"
	"gatehouse.dev/test/backends"
)

const head = "apiVersion: gatehouse.dev/v1alpha1\nkind: PersistentVolumeLabelConfiguration\n"

// awsConfig is the configuration for a cloud, more of it first.
func awsConfig(c *backends.Cloud, more string) string {
	return fmt.Sprintf("%s%s\naws: {region: us-east-1, endpoint: %s, certificateAuthorityFile: %s, credentialsFile: "+
		"%s}", head, more, c.URL, c.AuthorityFile, c.CredentialsFile)
}

func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "<html>a proxy's</html>", code) }
}

func body(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, text) }
}

var throttled = backends.EC2Error(http.StatusServiceUnavailable, "RequestLimitExceeded", "Request limit exceeded.")

func TestEBS(t *testing.T) {
	cloud := backends.EC2(t, map[string]string{
		"vol-1": "us-east-1a", "vol-local": "us-west-2-lax-1a", "vol-wave": "us-east-1-wl1-bos-wlz-1",
		"vol-gov": "us-gov-west-1b", "vol-nowhere": "", "vol-odd": "here or\nthere",
		"vol-a+b&c=d é": "eu-west-3c",
	})
	p := plugintest.New(t, Descriptor, awsConfig(cloud, ""))
	const query = `persistentvolumes "pv" is forbidden: error querying AWS EBS volume `
	for id, want := range map[string]struct{ region, zone, refusal string }{
		"vol-1":                  {"us-east-1", "us-east-1a", ""},
		"aws://us-east-1a/vol-1": {"us-east-1", "us-east-1a", ""},
		"aws:///vol-1":           {"us-east-1", "us-east-1a", ""},
		"vol-local":              {"us-west-2", "us-west-2-lax-1a", ""},
		"vol-wave":               {"us-east-1", "us-east-1-wl1-bos-wlz-1", ""},
		"vol-gov":                {"us-gov-west-1", "us-gov-west-1b", ""},
		"vol-a+b&c=d é":          {"eu-west-3", "eu-west-3c", ""},
		"vol-2": {refusal: query +
			"vol-2: InvalidVolume.NotFound: The volume 'vol-2' does not exist."},
		"vol-nowhere": {refusal: query +
			`vol-nowhere: volume did not have AZ information: parsing the zone "" in EC2's answer: want ` +
			`one such as us-east-1a, check aws.endpoint`},
		"vol-odd": {refusal: query +
			`vol-odd: volume did not have AZ information: parsing the zone "here or there" in EC2's answer: want ` +
			`one such as us-east-1a, check aws.endpoint`},
		"volume":      {refusal: query + "volume: invalid format for AWS volume (volume)"},
		"aws://vol-1": {refusal: query + "aws://vol-1: invalid format for AWS volume (aws://vol-1)"},
		"vol-1/x":     {refusal: query + "vol-1/x: invalid format for AWS volume (vol-1/x)"},
		"":            {refusal: query + ": invalid format for AWS volume ()"},
	} {
		t.Run(id, func(t *testing.T) {
			result := p.Admit(t, plugintest.Create(onEBS(id, "")))
			if want.refusal != "" {
				result.Refused(t, 403, want.refusal)
				return
			}
			labels := region + "=" + want.region + " " + zone + "=" + want.zone
			if got := result.Admitted(t).Object; !apiequality.Semantic.DeepEqual(got,
				requiring(onEBS(id, labels), labels)) {
				t.Errorf("got %v", got)
			}
		})
	}
}

func TestWhatEC2Answers(t *testing.T) {
	cloud := backends.EC2(t, map[string]string{"vol-1": "us-east-1a"})
	p := plugintest.New(t, Descriptor, awsConfig(cloud, "cacheTTL: 0s")).Built.(*persistentVolumeLabel).aws
	repeatAtOnce(t)
	const item = "<item><volumeId>vol-1</volumeId><availabilityZone>us-east-1b</availabilityZone></item>"
	for name, test := range map[string]struct {
		answers []http.HandlerFunc
		want    string // the zone, or why there is none
	}{
		"one page":         {[]http.HandlerFunc{backends.EC2Page("", item)}, "us-east-1b"},
		"throttled twice":  {backends.Repeat(2, throttled), "us-east-1a"},
		"throttled, a 400": {[]http.HandlerFunc{backends.EC2Error(400, "Throttling", "Rate exceeded")}, "us-east-1a"},
		"throttled, later": {[]http.HandlerFunc{backends.EC2Page("3", item), throttled}, "us-east-1b"},
		"a server error": {[]http.HandlerFunc{backends.EC2Error(500, "InternalError",
			"An internal error has occurred")}, "us-east-1a"},
		"a gateway error": {[]http.HandlerFunc{status(502)}, "us-east-1a"},
		"a broken answer": {[]http.HandlerFunc{backends.Reset}, "us-east-1a"},

		"throttled for ever": {backends.Repeat(5, throttled), "RequestLimitExceeded: Request limit exceeded."},
		"no volume":          {[]http.HandlerFunc{backends.EC2Page("", "")}, "no volumes found"},
		"another volume": {[]http.HandlerFunc{backends.EC2Page("", strings.ReplaceAll(item, "vol-1", "vol-2"))},
			"no volumes found"},
		"two volumes": {[]http.HandlerFunc{backends.EC2Page("", item+item)}, "multiple volumes found"},
		"endless pages": {backends.Repeat(100, backends.EC2Page("again", "")),
			"reading EC2's answer, check aws.endpoint: more than 100 pages"},
		"an error, no retry": {[]http.HandlerFunc{backends.EC2Error(403, "UnauthorizedOperation",
			"You are not authorized to perform this operation.")},
			"UnauthorizedOperation: You are not authorized to perform this operation."},
		"a long error": {[]http.HandlerFunc{backends.EC2Error(403, "Long", strings.Repeat("é\n", 500))},
			"Long: " + strings.Repeat("é ", 197) + "…"},
		"not XML": {[]http.HandlerFunc{body("fine")}, "parsing EC2's answer, check aws.endpoint: EOF"},
		"other XML": {[]http.HandlerFunc{body("<html/>")},
			"parsing EC2's answer, check aws.endpoint: expected element type <DescribeVolumesResponse> but have <html>"},
		"a proxy's refusal": {[]http.HandlerFunc{status(407)},
			"parsing EC2's answer, check aws.endpoint: status 407, no error code"},
		"a redirection": {[]http.HandlerFunc{http.RedirectHandler("https://elsewhere.example/", 307).ServeHTTP},
			"parsing EC2's answer, check aws.endpoint: status 307, no error code"},
		"too long an answer": {[]http.HandlerFunc{body("<DescribeVolumesResponse>" + strings.Repeat(" ", 8<<20))},
			"parsing EC2's answer, check aws.endpoint: XML syntax error on line 1: unexpected EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			before := len(cloud.Requests())
			cloud.Next(test.answers...)
			got, err := p.locate(t.Context(), "vol-1", "")
			if got := zones(got, err); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
			if err != nil && len(cloud.Requests())-before != len(test.answers) {
				t.Errorf("the refusal took %d requests", len(cloud.Requests())-before)
			}
		})
	}
}

// Who gives up doesn't wait for the cloud.
func TestNoAnswer(t *testing.T) {
	cloud := backends.EC2(t, nil)
	p := plugintest.New(t, Descriptor, awsConfig(cloud, "")).Built.(*persistentVolumeLabel)
	ctx, cancel := context.WithCancel(t.Context())
	cloud.Next(func(w http.ResponseWriter, r *http.Request) {
		cancel()
		backends.Hang(w, r)
	})
	_, err := p.find(ctx, nil, onEBS("vol-1", ""))
	if want := `error querying AWS EBS volume vol-1: Post "` + cloud.URL + `/": context canceled`; err == nil ||
		err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

// One that isn't who it should be is not asked twice.
func TestForeignCertificate(t *testing.T) {
	cloud := backends.EC2(t, nil)
	foreign := strings.ReplaceAll(awsConfig(cloud, ""), "certificateAuthorityFile: "+cloud.AuthorityFile+", ", "")
	result := plugintest.New(t, Descriptor, foreign).Admit(t, plugintest.Create(onEBS("vol-1", "")))
	if result.Code() != 403 || !strings.Contains(result.Message(), "x509: certificate signed by unknown authority") ||
		len(cloud.Requests()) != 0 {
		t.Errorf("got %v after %d requests", result.Err, len(cloud.Requests()))
	}
}

// Credentials can be replaced while the server runs, and nothing of them is ever told.
func TestAWSCredentials(t *testing.T) {
	cloud := backends.EC2(t, map[string]string{"vol-1": "us-east-1a"})
	p := plugintest.New(t, Descriptor, awsConfig(cloud, "cacheTTL: 0s"))
	refused := func(want string) {
		t.Helper()
		result := p.Admit(t, plugintest.Create(onEBS("vol-1", "")))
		if result.Code() != 403 || !strings.Contains(result.Message(), want) {
			t.Errorf("got  %v\nwant %s", result.Err, want)
		}
		for _, secret := range []string{backends.SecretAccessKey, backends.SessionToken, "WRONGSECRET"} {
			if strings.Contains(result.Message(), secret) {
				t.Errorf("tells a secret: %v", result.Err)
			}
		}
	}
	replace := func(content []byte, mode os.FileMode) {
		t.Helper()
		if err := os.WriteFile(cloud.CredentialsFile, content, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(cloud.CredentialsFile, mode); err != nil {
			t.Fatal(err)
		}
	}
	p.Admit(t, plugintest.Create(onEBS("vol-1", ""))).Admitted(t)
	replace(backends.EC2Credentials("WRONGSECRET"), 0o600)
	refused("vol-1: SignatureDoesNotMatch: The request signature we calculated does not match the signature you " +
		"provided. The Canonical String for this request should have been")
	replace([]byte("[other]\naws_access_key_id = AKID"), 0o600)
	refused("vol-1: the credentials for AWS: " + cloud.CredentialsFile + ": has no profile [default] with " +
		"aws_access_key_id and aws_secret_access_key")
	replace(backends.EC2Credentials(backends.SecretAccessKey), 0o640)
	refused(cloud.CredentialsFile +
		" has mode 0640: it holds secrets, so nobody but its owner may have access (chmod 600)")
	replace(backends.EC2Credentials(backends.SecretAccessKey), 0o600)
	p.Admit(t, plugintest.Create(onEBS("vol-1", ""))).Admitted(t)
	if err := os.Remove(cloud.CredentialsFile); err != nil {
		t.Fatal(err)
	}
	refused("no such file or directory")
}

func TestLoadAWSCredentials(t *testing.T) {
	const key = "aws_access_key_id = AKID\naws_secret_access_key=s3cr3t/+=\n"
	accessKey := func(sessionToken string) awssdk.Credentials {
		return awssdk.Credentials{AccessKeyID: "AKID", SecretAccessKey: "s3cr3t/+=", SessionToken: sessionToken}
	}
	for name, test := range map[string]struct {
		content string
		want    awssdk.Credentials // none if it is an error
	}{
		"a key":           {"[default]\n" + key, accessKey("")},
		"a temporary key": {"[default]\r\n" + key + "AWS_SESSION_TOKEN = t==\n", accessKey("t==")},
		"among others": {"# mine\n[ other ]\naws_access_key_id = X\n\n[default] # this\nregion = " +
			"us-east-1\ns3 =\n  max_queue_size = 1000\n; and\n" + key + "[third]\naws_secret_access_key = Y",
			accessKey("")},
		"empty":           {"", awssdk.Credentials{}},
		"another profile": {"[other]\n" + key, awssdk.Credentials{}},
		"no key":          {"[default]\naws_secret_access_key = s3cr3t", awssdk.Credentials{}},
		"no secret":       {"[default]\naws_access_key_id = AKID\naws_secret_access_key =", awssdk.Credentials{}},
		"no name":         {"[default]\ns3cr3t", awssdk.Credentials{}},
		"a comment":       {"[default]\n#" + key, awssdk.Credentials{}},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "credentials")
			if err := os.WriteFile(file, []byte(test.content), 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := loadAWSCredentials(file, "default")
			if want := file + ": has no profile [default] with aws_access_key_id and aws_secret_access_key"; test.want ==
				(awssdk.Credentials{}) && (err == nil || err.Error() != want) {
				t.Errorf("got  %v\nwant %s", err, want)
			} else if err == nil && got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

// The cloud is asked once about a volume, also when the plugin runs again on what it has labelled.
func TestAnswersAreRemembered(t *testing.T) {
	cloud := backends.EC2(t, map[string]string{"vol-1": "us-east-1a"})
	p := plugintest.New(t, Descriptor, awsConfig(cloud, ""))
	var labelled *corev1.PersistentVolume
	for range 3 {
		labelled = p.Admit(t, plugintest.Create(onEBS("vol-1", ""))).Admitted(t).Object.(*corev1.PersistentVolume)
	}
	if pages := len(cloud.Requests()); pages != 3 || labelled.Labels[zone] != "us-east-1a" {
		t.Errorf("%d pages were asked for, zone %q", pages, labelled.Labels[zone])
	}
	p.Admit(t, plugintest.Create(onEBS("vol-2", "")))
	p.Admit(t, plugintest.Create(onEBS("vol-2", "")))
	if after := len(cloud.Requests()); after != 5 {
		t.Errorf("of a volume that doesn't exist something is remembered: %d requests", after)
	}
}
