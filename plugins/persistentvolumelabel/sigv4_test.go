package persistentvolumelabel

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestSign has vectors of AWS' own signature version 4 test suite, aws-sig-v4-test-suite: the ones
// whose path is / and whose query is empty.
func TestSign(t *testing.T) {
	const sessionToken = "AQoDYXdzEPT//////////wEXAMPLEtc764bNrC9SAPBSM22wDOk4x4HIZ8j4FZTwdQWLWsKWHGBuFqwAeMicRXmxfpSPfIeoIYRqTflfKD8YUuwthAx7mSEI/qkPpKPi/kMcGdQrmGdeehM4IC1NtBmUpp2wUE8phUZampKsburEDy0KPkyQDYwT7WZ0wq5VSXDvp75YU9HFvlRd8Tx6q6fE8YQcHNVXAkiY9q6d+xo0rKwT38xVqr7ZD0u0iPPkUL64lIZbqBAz+scqKmlzm8FDrypNC9Yjc8fPOLn9FX9KSYvKTr4rvx3iSIlTJabIQwj2ICCR/oLxBA=="
	for name, test := range map[string]struct {
		method, contentType, body, sessionToken string
		headers, signature                      string
	}{
		"get-vanilla": {http.MethodGet, "", "", "", "host;x-amz-date",
			"5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"},
		"post-vanilla": {http.MethodPost, "", "", "", "host;x-amz-date",
			"5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"},
		"post-x-www-form-urlencoded": {http.MethodPost, "application/x-www-form-urlencoded", "Param1=value1", "",
			"content-type;host;x-amz-date", "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a"},
		"post-sts-header-before": {http.MethodPost, "", "", sessionToken, "host;x-amz-date;x-amz-security-token",
			"85d96828115b5dc0cfc3bd16ad9e210dd772bbebba041836c64533a82be05ead"},
	} {
		t.Run(name, func(t *testing.T) {
			request, err := http.NewRequest(test.method, "https://example.amazonaws.com/", strings.NewReader(test.body))
			if err != nil {
				t.Fatal(err)
			}
			if test.contentType != "" {
				request.Header.Set("Content-Type", test.contentType)
			}
			key := awsCredentials{"AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", test.sessionToken}
			sign(request, []byte(test.body), key, "us-east-1", "service",
				time.Date(2015, 8, 30, 14, 36, 0, 0, time.FixedZone("two hours east", 7200)))
			want := "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, SignedHeaders=" +
				test.headers + ", Signature=" + test.signature
			if got := request.Header.Get("Authorization"); got != want ||
				request.Header.Get("X-Amz-Date") != "20150830T123600Z" {
				t.Errorf("%s\ngot  %s\nwant %s", request.Header.Get("X-Amz-Date"), got, want)
			}
		})
	}
}
